# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""One bounded pull: from the request to the batch it gives.

Every pull has a subscription of its own, removed when the pull is over, so that nothing of one fetch can reach the next
and no request is left behind on the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetspark.client.core import pull
from jetspark.client.core.pull import PullRequest, meaning, pull_error
from jetspark.client.core.routes import Inbox
from jetspark.client.errors import ConnectionClosedError, HeartbeatMissedError, PullError, PullLimitError
from jetspark.client.sync.msg import Msg

if TYPE_CHECKING:
    from jetspark.client.sync.consumer import Consumer

# The server ends a request when it expires; only when even that is not heard does the client give up by itself.
GRACE_S = 1.0


class Batch(list[Msg]):
    """What a fetch gave: a list of messages, empty when there were none in time.

    `error` is set when the pull ended early, after at least one message, for a reason that is an error.
    """

    def __init__(self, messages: list[Msg] | None = None) -> None:
        super().__init__(messages or [])
        self.error: PullError | None = None


class Each:
    """The messages of one pull, each as it comes."""

    def __init__(self, fetch: Fetch, wait_s: float) -> None:
        self._fetch = fetch
        self._wait_s = wait_s

    def __iter__(self) -> Each:
        return self

    def __next__(self) -> Msg:
        message = self._fetch.next(self._wait_s)
        if message is None:
            raise StopIteration
        return message

    def __del__(self) -> None:
        # At once when the caller leaves its loop, and before its next fetch: a generator would be closed later.
        self._fetch.leave()


class Fetch:
    """The life of one pull."""

    def __init__(self, consumer: Consumer, request: PullRequest, max_messages: int, max_bytes: int) -> None:
        self._consumer = consumer
        self._link = consumer._link
        self._request = request
        self._wanted = max_messages or pull.BATCH_UNLIMITED
        self._max_bytes = max_bytes
        self._batch = Batch()
        # Handed to the caller already, one by one.
        self._given = 0
        self._goes_on = True
        self._is_begun = False
        self._is_left = False
        self._deadline_s = 0.0
        # Only when something is asked for.
        self._inbox: Inbox | None = None
        self._done = False
        # The connection that has the pull; 0 for none.
        self._epoch = 0

    def run(self, wait_s: float) -> Batch:
        """Pull, and wait until the batch is full, the request is over, or the time is."""
        try:
            self._begin(wait_s)
            while self._step():
                pass
        except BaseException:
            # Cancelled half way: what has come belongs to the next fetch.
            self.leave()
            raise
        self._close()
        if self._batch.error is not None and not self._batch:
            raise self._batch.error
        return self._batch

    def next(self, wait_s: float) -> Msg | None:
        """The same batch, message by message; None after the last. Whoever stops before that says `leave`."""
        if self._is_left:
            return None
        batch = self._batch
        try:
            if not self._is_begun:
                self._begin(wait_s)
            while not batch and self._goes_on:
                self._goes_on = self._given < self._wanted and self._step()
        except BaseException:
            self.leave()
            raise
        if batch:
            # Counted before it is handed over: the caller may not come back.
            self._given += 1
            return batch.pop(0)
        self.leave()
        if batch.error is not None:
            raise batch.error
        return None

    def _begin(self, wait_s: float) -> None:
        """Take what others left, and ask for the rest."""
        link, leftovers = self._link, self._consumer._leftovers
        self._deadline_s = link.now() + wait_s
        has_waited = leftovers.settle(self._wanted, self._deadline_s)
        self._is_begun = True
        self._batch.extend(leftovers.take(self._wanted))
        if len(self._batch) >= self._wanted:
            return
        with link.guard:
            self._inbox = link.core.add_pull_inbox(link)
            self._consumer.mark(self._inbox)
        if has_waited:
            self._pull_again()
        else:
            self._send()

    def leave(self) -> None:
        """No more is taken: what has come is for the next fetch."""
        if self._is_begun and not self._is_left:
            self._consumer._leftovers.add(self._batch)
            self._close()
        self._is_left = True

    def _close(self) -> None:
        if self._inbox is not None:
            is_over = self._done or self._given + len(self._batch) >= self._wanted
            self._consumer._leftovers.leave(self._inbox, is_over)

    def _send(self) -> None:
        consumer = self._consumer
        missing = self._wanted - self._given - len(self._batch)
        body = self._request.body(missing, self._max_bytes, consumer.pin_id(self._request.group))
        assert self._inbox is not None
        self._epoch = self._link.pull(consumer._next_subject, self._inbox, body)

    def _step(self) -> bool:
        """Take what has come, or wait for it. False when the fetch is over."""
        link, inbox, batch = self._link, self._inbox, self._batch
        if inbox is None:
            return False
        seen_count = inbox.wake_count
        heartbeat_s = 2 * self._request.heartbeat_ns / 1e9
        had = len(batch)
        self._take_queued(inbox.queue)
        if self._done or len(batch) + self._given >= self._wanted:
            return False
        if len(batch) > had:
            return True
        if inbox.closed:
            raise ConnectionClosedError("the connection is closed")
        left_s = self._deadline_s - link.now()
        if left_s <= 0:
            return False
        if link.is_up and link.core.epoch != self._epoch:
            self._pull_again()
        wait_s = min(left_s, heartbeat_s) if heartbeat_s and link.is_up else left_s
        if not link.wait_inbox(inbox, seen_count, wait_s) and wait_s < left_s:
            self._batch.error = HeartbeatMissedError(0, f"nothing heard for {heartbeat_s:g} s")
            return False
        return not self._done

    def _pull_again(self) -> None:
        """Time has passed without a pull, or the connection is another one: ask for what is missing, in the time that
        is left.
        """
        grace_s = 0.0 if self._request.no_wait else GRACE_S
        left_ns = int((self._deadline_s - grace_s - self._link.now()) * 1e9)
        if left_ns <= 0:
            self._done = True
            return
        if self._request.expires_ns:
            self._request.expires_ns = left_ns
        if 2 * self._request.heartbeat_ns > left_ns:
            self._request.heartbeat_ns = 0
        self._send()

    def _take_queued(self, queue: Any) -> None:
        """Everything that has come, in one go."""
        batch, wanted = self._batch, self._wanted - self._given
        group = self._request.group
        while queue and len(batch) < wanted:
            message = queue.popleft()
            block = message.header_block
            if block:
                if block[8] == 32 and message.status_code:
                    self._on_status(message)
                    if self._done:
                        return
                    continue
                if group:
                    self._consumer.saw_pin(group, block)
            batch.append(message)

    def _on_status(self, message: Msg) -> None:
        asked = meaning(message.header_block)
        if asked == pull.HEARTBEAT:
            return
        if asked == pull.PIN_LOST:
            self._consumer.lost_pin(self._request.group)
            self._send()
        elif asked == pull.AGAIN:
            self._send()
        else:
            self._done = True
            if asked == pull.FATAL:
                self._batch.error = pull_error(message.header_block)
            elif asked == pull.CROWDED:
                self._batch.error = PullLimitError(message.status_code, message.status_text)
