# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""A core NATS subscription: an iterator, a `next`, or a callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetspark.client.core.routes import Inbox
from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import BadOptionError, DrainTimeoutError, SlowConsumerError, SubscriptionClosedError
from jetspark.client.sync.msg import Msg
from jetspark.client.sync.waiting import call
from jetspark.client.telemetry import processing

if TYPE_CHECKING:
    from jetspark.client.sync.link import Link


class Subscription:
    """A core NATS subscription: the messages of a subject, in the order in which they arrived."""

    def __init__(self, link: Link, inbox: Inbox, callback: Callable[[Msg], Any] | None) -> None:
        self._link = link
        self._inbox = inbox
        self._callback = callback
        self._is_slow = False
        inbox.on_drop = self._dropped
        with link.guard:
            link.receivers.add(self)
        self._worker = link.spawn(self._run_callback) if callback is not None else None

    @property
    def subject(self) -> str:
        """The subject, possibly with wildcards."""
        return self._inbox.subject.decode("utf-8", "surrogateescape")

    @property
    def queue(self) -> str:
        """The queue group; empty if there is none."""
        return self._inbox.queue_group.decode("utf-8", "surrogateescape")

    @property
    def pending_count(self) -> int:
        """Messages that have arrived and wait for you."""
        return len(self._inbox.queue)

    @property
    def delivered_count(self) -> int:
        """Messages that have arrived since the subscription began."""
        return self._inbox.delivered_count

    @property
    def dropped_count(self) -> int:
        """Messages that were dropped because the buffer was full."""
        return self._inbox.dropped_count

    @property
    def is_closed(self) -> bool:
        """Whether no more messages will arrive; those already here can still be taken."""
        return self._inbox.closed

    def next(self, timeout: Seconds | None = None) -> Msg | None:
        """The next message; None if none arrived in time. Without a timeout it waits without limit."""
        if self._callback is not None:
            raise BadOptionError("this subscription has a callback, which gets the messages")
        deadline_s = None if timeout is None else self._link.now() + seconds(timeout)
        while True:
            try:
                return self._take()
            except IndexError:
                if not self._wait(deadline_s):
                    return None

    def _wait(self, deadline_s: float | None) -> bool:
        """Until there is a message; False when the time is over. Raises when none can come any more."""
        inbox = self._inbox
        while not inbox.queue:
            seen_count = inbox.wake_count
            if inbox.closed:
                raise SubscriptionClosedError(f"the subscription to {self.subject} has ended")
            left_s = None if deadline_s is None else deadline_s - self._link.now()
            if left_s is not None and left_s <= 0:
                return False
            self._link.wait_inbox(inbox, seen_count, left_s)
        return True

    def _take(self) -> Msg:
        inbox = self._inbox
        message: Any = inbox.take() if inbox.bytes_max else inbox.queue.popleft()
        self._is_slow = False
        return message  # type: ignore[no-any-return]  # the link makes its messages of this class

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> Msg:
        while True:
            try:
                return self._take()
            except IndexError:
                # Empty; or another thread was quicker.
                self._wait_or_stop()

    def _wait_or_stop(self) -> None:
        try:
            self._wait(None)
        except SubscriptionClosedError:
            raise StopIteration from None

    def _run_callback(self) -> None:
        callback = self._callback
        assert callback is not None
        for message in self:
            try:
                with processing(self._link.options.telemetry, message):
                    call(callback, message)
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                self._link.report(error, f"the callback of {self.subject} failed: ")

    def _dropped(self) -> None:
        # Told once for each time the buffer fills up, not once for each message.
        if not self._is_slow:
            self._is_slow = True
            self._link.report(SlowConsumerError(self.subject, self._inbox.dropped_count))

    def unsubscribe(self, *, limit: int = 0) -> None:
        """Stop now, or after `limit` messages since the beginning."""
        with self._link.guard:
            if limit > 0:
                self._link.core.limit_route(self._inbox, limit)
            else:
                self._link.core.remove_route(self._inbox)

    def drain(self, timeout: Seconds | None = None) -> None:
        """Stop deliveries and wait until you have taken what has already arrived."""
        timeout_s = self._link.options.drain_timeout if timeout is None else seconds(timeout)
        deadline_s = self._link.now() + timeout_s
        self._link.stop_deliveries(self._inbox, timeout_s)
        if not self._link.join(self._worker, max(0.0, deadline_s - self._link.now())):
            raise DrainTimeoutError(f"the subscription to {self.subject} was not drained within {timeout_s:g} s")

    def _leave(self, timeout_s: float) -> None:
        """Drained for the last time: the connection is about to be closed."""
        self.drain(timeout_s)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._link.is_closed:
            self.unsubscribe()
