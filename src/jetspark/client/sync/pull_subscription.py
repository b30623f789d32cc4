# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""A pull subscription in the first style (seed 1): ask without waiting, then linger.

Every fetch of several has a subscription of its own. Fetching one at a time goes through one wildcard subscription kept
for the purpose, which is the less chatty way; its lingering second step has its own again.
"""

from __future__ import annotations

from typing import Any

from jetspark.client.core import pull
from jetspark.client.core.pull import PullRequest, meaning, pull_error
from jetspark.client.core.routes import Inbox
from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import BadOptionError, ConnectionClosedError, PullTimeoutError
from jetspark.client.infos import ConsumerInfo
from jetspark.client.sync.consumer import Consumer
from jetspark.client.sync.leftovers import Leftovers
from jetspark.client.sync.msg import Msg

# The server's time must run out before ours, or a request stays behind (seed 1: 100 ms).
MARGIN_S = 0.1
# A request that does not wait is answered at once, except when max_ack_pending is full: then never.
NO_WAIT_LIMIT_S = 1.0

# How receiving ended: with everything that was asked for or the server's word, with the time (or enough), or because
# the connection is another one.
OVER = 1
LATE = 2
MOVED = 3


class PullSubscription:
    """Fetches messages of a pull consumer in batches, as in nats-py."""

    def __init__(self, consumer: Consumer, deletes_consumer: bool) -> None:
        self.consumer = consumer
        self._link = consumer._link
        self._deletes_consumer = deletes_consumer
        self._leftovers = Leftovers(self._link)
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
        deadline_s = self._link.now() + timeout_s
        if self._single is not None and not self._single_busy:
            self._leftovers.add_from(self._single)
        self._leftovers.settle(1, deadline_s)
        if self._leftovers:
            return self._leftovers.take(batch)
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

    def _send(self, inbox: Inbox, batch: int, expires_ns: int, reply: bytes = b"") -> int:
        """Pull; the connection that has it, 0 when there is none."""
        request = PullRequest()
        request.expires_ns = expires_ns
        request.no_wait = expires_ns == 0
        return self._link.pull(self.consumer._next_subject, inbox, request.body(batch, 0, ""), reply)

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
        if not self._send(inbox, 1, 0, reply):
            return None
        limit_s = min(deadline_s, link.now() + NO_WAIT_LIMIT_S)
        queue: Any = inbox.queue
        while True:
            seen_count = inbox.wake_count
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
            if left_s <= 0 or not link.wait_inbox(inbox, seen_count, left_s):
                return None
            if inbox.closed and not queue:
                raise ConnectionClosedError("the connection is closed")

    # Several.

    def _fetch_many(self, batch: int, deadline_s: float, timeout_s: float, tried: bool) -> list[Msg]:
        link = self._link
        with link.guard:
            inbox = link.core.add_pull_inbox(link)
            self.consumer.mark(inbox)
        got: list[Msg] = []
        is_over = False
        try:
            if not tried:
                epoch = self._send(inbox, batch, 0)
                limit_s = min(deadline_s, link.now() + NO_WAIT_LIMIT_S)
                is_over = self._receive(inbox, got, batch, limit_s, False, epoch) == OVER
            if not got and link.now() < deadline_s:
                is_over = self._linger(inbox, got, batch, deadline_s, timeout_s)
        except BaseException:
            # Cancelled half way: what has come belongs to the next fetch.
            self._leftovers.add(got)
            is_over = False
            raise
        finally:
            self._leftovers.leave(inbox, is_over)
        if not got:
            raise PullTimeoutError(408, f"no message within {timeout_s:g} s")
        return got

    def _linger(self, inbox: Inbox, got: list[Msg], batch: int, deadline_s: float, timeout_s: float) -> bool:
        """The long request: it ends on the server a little before we stop waiting. True when nothing more can come."""
        link = self._link
        # What came so far was the status of the first request; only `batch` messages may follow it.
        with link.guard:
            link.core.limit_route(inbox, inbox.delivered_count + batch)
        margin_s = min(MARGIN_S, timeout_s / 10)
        epoch, ended = 0, LATE
        while not got and link.now() < deadline_s:
            expires_ns = int((deadline_s - margin_s - link.now()) * 1e9)
            if link.is_up and link.core.epoch != epoch:
                epoch = self._send(inbox, batch, expires_ns) if expires_ns > 0 else link.core.epoch
            ended = self._receive(inbox, got, batch, deadline_s, True, epoch)
            if ended != MOVED:
                break
        if got and len(got) < batch and not inbox.closed and link.is_up:
            # We leave early. What the server has sent until it reads this still belongs to us.
            with link.guard:
                link.core.send(b"UNSUB %b\r\n" % inbox.sid)
            link.flush(max(0.05, deadline_s - link.now()))
            self._take(inbox, got, batch)
            return True
        return ended == OVER

    def _receive(self, inbox: Inbox, got: list[Msg], batch: int, limit_s: float, lingers: bool, epoch: int) -> int:
        """Take messages until the request is over or (lingering) some are here. MOVED: there is a connection that does
        not have the request.
        """
        link = self._link
        while True:
            seen_count = inbox.wake_count
            if self._take(inbox, got, batch) or len(got) >= batch:
                return OVER
            if lingers and got:
                return LATE
            if inbox.closed and link.is_closed:
                raise ConnectionClosedError("the connection is closed")
            if link.core.epoch != epoch and link.is_up:
                return MOVED
            left_s = limit_s - link.now()
            if left_s <= 0 or inbox.closed:
                return LATE
            link.wait_inbox(inbox, seen_count, left_s)

    def _take(self, inbox: Inbox, got: list[Msg], batch: int) -> bool:
        """What has come, statuses apart. True when one of them ended the request."""
        queue: Any = inbox.queue
        while queue:
            message: Msg = queue.popleft()
            if not message.status_code:
                if len(got) < batch:
                    got.append(message)
                else:
                    self._leftovers.add([message])
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
