# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""Asking and waiting for the answer: what every driver can do once it can wait.

A Link adds the socket. Written once; the other face's copy is generated.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from jetspark.client.core import connection as states
from jetspark.client.core.connection import ConnectionCore
from jetspark.client.core.options import ConnectOptions
from jetspark.client.core.outbound import withdraw
from jetspark.client.core.pending import Pending
from jetspark.client.core.routes import Inbox
from jetspark.client.errors import (
    ConnectionLostError,
    FlushTimeoutError,
    RequestTimeoutError,
)
from jetspark.client.sync.waiting import Guard, Signal


class Exchange:
    """The part of a link that only waits."""

    core: ConnectionCore
    options: ConnectOptions
    guard: Guard
    # What receives messages and has to be drained before the connection is; those nobody holds any more are not.
    receivers: WeakSet[Any]

    def signal(self) -> Signal:
        """Something to wait for."""
        raise NotImplementedError

    def now(self) -> float:
        """Seconds that never go back."""
        raise NotImplementedError

    def flush_output(self) -> None:
        """Write what the core has."""
        raise NotImplementedError

    def wait(self, pending: Pending, timeout_s: float | None) -> bool:
        """Wait for an answer; False when the time was over first."""
        if pending.done:
            return True
        signal = self.signal()
        with self.guard:
            if pending.done:
                return True
            pending.wake = signal.set
        return signal.wait(timeout_s)

    def wait_inbox(self, inbox: Inbox, seen_count: int, timeout_s: float | None) -> bool:
        """Wait until an inbox has news: a message, its end, or a change of the connection. False: time over.

        `seen_count` is the inbox's `wake_count` from before the caller looked at inbox and connection: what another
        thread has changed since is news, too.
        """
        signal = self.signal()
        with self.guard:
            if inbox.queue or inbox.closed or inbox.wake_count != seen_count:
                return True
            inbox.waiters.append(signal.set)
        try:
            return signal.wait(timeout_s)
        finally:
            with self.guard:
                if signal.set in inbox.waiters:
                    inbox.waiters.remove(signal.set)

    def request(self, subject: str, block: bytes, data: bytes, timeout_s: float | None) -> Any:
        """Publish and wait for one answer, which is a message."""
        timeout_s = self.options.request_timeout if timeout_s is None else timeout_s
        self.check_open()
        with self.guard:
            token, pending = self.core.request(subject, block, data, 0.0)
        try:
            if not self.wait(pending, timeout_s):
                raise RequestTimeoutError(f"no answer from {subject} within {timeout_s:g} s")
        finally:
            if not pending.done:
                with self.guard:
                    self.core.requests.waiting.pop(token, None)
                    withdraw(self.core, pending.frame)
        if pending.error is not None:
            raise pending.error
        return pending.value

    def pull(self, subject: str, inbox: Inbox, body: bytes, reply: bytes = b"") -> int:
        """Make a pull on this connection; its epoch, 0 when there is no connection. It is not sent later."""
        with self.guard:
            return self.core.pull(subject, inbox, body, reply)

    def flush(self, timeout_s: float) -> None:
        """Wait until the server has read everything sent so far."""
        with self.guard:
            pending = self.core.ping()
        self.flush_output()
        if not self.wait(pending, timeout_s):
            raise FlushTimeoutError(f"the server did not confirm within {timeout_s:g} s")
        if pending.error is not None:
            raise pending.error

    def stop_deliveries(self, inbox: Inbox, timeout_s: float) -> None:
        """Unsubscribe, with everything the server sent before it knew still added to the inbox."""
        try:
            if self.is_up and not inbox.closed:
                # The server answers the ping after everything it sent before it read the UNSUB.
                with self.guard:
                    self.core.send(b"UNSUB %b\r\n" % inbox.sid)
                self.flush(timeout_s)
        except ConnectionLostError:
            # What was on its way is lost with the connection, and the next one will not hear of this inbox.
            return
        finally:
            with self.guard:
                self.core.routes.pop(inbox.sid, None)
                inbox.close()

    def wait_up(self, timeout_s: float) -> bool:
        """Wait until there is a connection; False when the time was over first. Raises when it is closed for good."""
        deadline_s = self.now() + timeout_s
        while not self.is_up:
            self.check_open()
            signal = self.signal()
            with self.guard:
                if self.is_up or self.is_closed:
                    continue
                self.core.state_waiters.append(signal.set)
            if not signal.wait(max(0.0, deadline_s - self.now())):
                return False
        return True

    def wait_acked(self, timeout_s: float | None) -> bool:
        """Wait until every publish to a stream has its outcome; False when the time was over first."""
        acks = self.core.acks
        deadline_s = None if timeout_s is None else self.now() + timeout_s
        while acks.waiting:
            signal = self.signal()
            with self.guard:
                if not acks.waiting:
                    break
                acks.window_waiters.append(signal.set)
            left_s = None if deadline_s is None else deadline_s - self.now()
            if left_s is not None and left_s <= 0:
                return False
            if not signal.wait(left_s):
                return False
        return True

    def check_open(self) -> None:
        """Refuse to go on with a closed connection."""
        if self.core.state == states.CLOSED:
            raise self.core.closed_error()

    @property
    def is_up(self) -> bool:
        """Connected right now."""
        return self.core.state == states.UP

    @property
    def is_closed(self) -> bool:
        """Closed for good."""
        return self.core.state == states.CLOSED
