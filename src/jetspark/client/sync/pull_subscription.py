# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""A pull subscription in the first style (seed 1): ask without waiting, then linger.

Every fetch of several has a subscription of its own. Fetching one at a time goes through one wildcard subscription kept
for the purpose, which is the less chatty way; its lingering second step has its own again.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from jetspark.client.core import pull
from jetspark.client.core.pull import PullRequest, meaning, pull_error
from jetspark.client.core.routes import Inbox
from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import BadOptionError, ConnectionClosedError, PullTimeoutError
from jetspark.client.infos import ConsumerInfo
from jetspark.client.sync.consumer import Consumer
from jetspark.client.sync.msg import Msg

# The server's time must run out before ours, or a request stays behind (seed 1: 100 ms).
MARGIN_S = 0.1
# A request that does not wait is answered at once, except when max_ack_pending is full: then never.
NO_WAIT_LIMIT_S = 1.0


class PullSubscription:
    """Fetches messages of a pull consumer in batches, as in nats-py."""

    def __init__(self, consumer: Consumer, deletes_consumer: bool) -> None:
        self.consumer = consumer
        self._link = consumer._link
        self._deletes_consumer = deletes_consumer
        self._leftovers: deque[Msg] = deque()
        self._single: Inbox | None = None
        self._single_busy = False
        self._single_serial = 0
        self._closed = False

    def consumer_info(self) -> ConsumerInfo:
        """The current state of the consumer."""
        return self.consumer.info()

    def fetch(self, batch: int = 1, *, timeout: Seconds = 5.0) -> list[Msg]:
        """Up to `batch` messages, at least one. Returns as soon as it has some and no more are ready.

        PullTimeoutError (a TimeoutError) if nothing arrived in time.
        """
        if batch < 1:
            raise BadOptionError("batch must be at least 1")
        timeout_s = seconds(timeout)
        if timeout_s <= 0:
            raise BadOptionError("timeout must be above zero")
        if self._closed:
            raise ConnectionClosedError("the subscription was ended")
        if self._leftovers:
            return [self._leftovers.popleft() for _ in range(min(batch, len(self._leftovers)))]
        deadline_s = self._link.now() + timeout_s
        if batch == 1 and not self._single_busy:
            self._single_busy = True
            try:
                message = self._try_single(deadline_s)
            finally:
                self._single_busy = False
            if message is not None:
                return [message]
            return self._fetch_many(1, deadline_s, timeout_s, True)
        return self._fetch_many(batch, deadline_s, timeout_s, False)

    def _send(self, reply: bytes, batch: int, expires_ns: int) -> None:
        request = PullRequest()
        request.expires_ns = expires_ns
        request.no_wait = expires_ns == 0
        self._link.publish(self.consumer._next_subject, reply, b"", request.body(batch, 0, ""))

    # One at a time.

    def _try_single(self, deadline_s: float) -> Msg | None:
        """One request that does not wait, answered on our own wildcard subject; None when there is nothing."""
        link = self._link
        if self._single is None:
            with link.guard:
                self._single = link.core.add_inbox(link.core.new_inbox_subject() + b".*", b"", link)
                self.consumer.mark(self._single)
        inbox = self._single
        self._single_serial += 1
        reply = inbox.subject[:-1] + b"%d" % self._single_serial
        self._send(reply, 1, 0)
        limit_s = min(deadline_s, link.now() + NO_WAIT_LIMIT_S)
        queue: Any = inbox.queue
        while True:
            while queue:
                message: Msg = queue.popleft()
                if not message.status_code:
                    return message
                # An answer to an earlier request, which we stopped waiting for, says nothing about this one.
                if message.subject_bytes == reply:
                    asked = meaning(message.header_block)
                    if asked == pull.FATAL:
                        raise pull_error(message.header_block)
                    return None
            left_s = limit_s - link.now()
            if left_s <= 0 or not link.wait_inbox(inbox, left_s):
                return None
            if inbox.closed and not queue:
                raise ConnectionClosedError("the connection is closed")

    # Several.

    def _fetch_many(self, batch: int, deadline_s: float, timeout_s: float, tried: bool) -> list[Msg]:
        link = self._link
        with link.guard:
            inbox = link.core.add_inbox(link.core.new_inbox_subject(), b"", link)
            self.consumer.mark(inbox)
        got: list[Msg] = []
        finished = False
        try:
            if not tried:
                self._send(inbox.subject, batch, 0)
                limit_s = min(deadline_s, link.now() + NO_WAIT_LIMIT_S)
                self._receive(inbox, got, batch, limit_s, False)
            if not got and link.now() < deadline_s:
                self._linger(inbox, got, batch, deadline_s, timeout_s)
            finished = True
        finally:
            with link.guard:
                link.core.remove_route(inbox)
            if not finished:
                self._leftovers.extend(got)
        if not got:
            raise PullTimeoutError(408, f"no message within {timeout_s:g} s")
        return got

    def _linger(self, inbox: Inbox, got: list[Msg], batch: int, deadline_s: float, timeout_s: float) -> None:
        """The long request: it ends on the server a little before we stop waiting."""
        link = self._link
        # What came so far was the status of the first request; only `batch` messages may follow it.
        with link.guard:
            link.core.limit_route(inbox, inbox.delivered_count + batch)
        margin_s = min(MARGIN_S, timeout_s / 10)
        expires_ns = int((deadline_s - margin_s - link.now()) * 1e9)
        epoch = link.core.epoch
        if expires_ns > 0:
            self._send(inbox.subject, batch, expires_ns)
        while not got and link.now() < deadline_s:
            if not self._receive(inbox, got, batch, deadline_s, True):
                break
            if link.is_up and link.core.epoch != epoch:
                epoch = link.core.epoch
                expires_ns = int((deadline_s - margin_s - link.now()) * 1e9)
                if expires_ns > 0:
                    self._send(inbox.subject, batch, expires_ns)
        if got and len(got) < batch and not inbox.closed and link.is_up:
            # We leave early. What the server has sent until it reads this still belongs to us.
            with link.guard:
                link.core.send(b"UNSUB %b\r\n" % inbox.sid)
            link.flush(max(0.05, deadline_s - link.now()))
            self._take(inbox, got, batch)

    def _receive(self, inbox: Inbox, got: list[Msg], batch: int, limit_s: float, lingers: bool) -> bool:
        """Take messages until the request is over or (lingering) some are here. True: the connection changed."""
        link = self._link
        epoch = link.core.epoch
        while True:
            over = self._take(inbox, got, batch)
            if over or len(got) >= batch or (lingers and got):
                return False
            if inbox.closed and link.is_closed:
                raise ConnectionClosedError("the connection is closed")
            if link.core.epoch != epoch and link.is_up:
                return True
            left_s = limit_s - link.now()
            if left_s <= 0 or inbox.closed:
                return False
            link.wait_inbox(inbox, left_s)

    def _take(self, inbox: Inbox, got: list[Msg], batch: int) -> bool:
        """What has come, statuses apart. True when one of them ended the request."""
        queue: Any = inbox.queue
        while queue:
            message: Msg = queue.popleft()
            if not message.status_code:
                (got if len(got) < batch else self._leftovers).append(message)
                continue
            asked = meaning(message.header_block)
            if asked == pull.HEARTBEAT:
                continue
            if asked in (pull.FATAL, pull.CROWDED) and not got:
                raise pull_error(message.header_block)
            return True
        return False

    def unsubscribe(self) -> None:
        """Stop. The consumer is removed if this subscription created it."""
        if self._closed:
            return
        self._closed = True
        if self._single is not None:
            with self._link.guard:
                self._link.core.remove_route(self._single)
        if self._deletes_consumer:
            self.consumer.delete()

    def drain(self) -> None:
        """The same as `unsubscribe`: a pull subscription has nothing to finish."""
        self.unsubscribe()

    def __enter__(self) -> PullSubscription:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._link.is_closed:
            self.unsubscribe()
