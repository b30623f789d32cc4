# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""Messages in whole Arrow record batches: one fetched batch, or batches without end.

The same pulls as everywhere, into a sink that keeps rows instead of messages; what the rows become is decided in
`arrow_batches`. `scanning` builds the reading of ranges on what is here.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Self

from jetspark.client.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jetspark.client.arrow_batches import HEADERS, BatchBuilder, ack_frames
from jetspark.client.core import pull
from jetspark.client.core.arrow_decode import ColumnSink, close_sink, detach_sink, open_sink
from jetspark.client.core.arrow_pull import BYTES_MAX, RowBuffer
from jetspark.client.core.arrow_rows import add_rows, rows_as_messages
from jetspark.client.core.message import MessageCore
from jetspark.client.core.ordered import OrderCheck
from jetspark.client.core.pull import PullRequest, meaning, pending_numbers, pull_error
from jetspark.client.core.silence import Silence
from jetspark.client.errors import (
    BadOptionError,
    ConnectionClosedError,
    ConsumerDeletedError,
    HeartbeatMissedError,
    JetsparkError,
    PullError,
)
from jetspark.client.sync.consuming import ELECTION_WAIT_S

if TYPE_CHECKING:
    import pyarrow

    from jetspark.client.sync.consumer import Consumer
    from jetspark.client.sync.link import Link

log = logging.getLogger("jetspark.client")

# Rows of a batch when nothing else is said, and what is on its way meanwhile.
BATCH_ROWS = 16384
IN_FLIGHT_ROWS = 65536
# The largest answer to one fetch: positions within a batch are 32-bit.
FETCH_BYTES_MAX = 512 * 1024 * 1024


def wait_rows(link: Link, sink: ColumnSink, seen_count: int, timeout_s: float | None) -> bool:
    """Until the sink has the rows it is to wake for, or other news. False when the time was over first.

    `seen_count` is the inbox's `wake_count` from before the caller looked.
    """
    signal = link.signal()
    with link.guard:
        inbox = sink.inbox
        if sink.is_ready() or inbox.queue or inbox.closed or inbox.wake_count != seen_count:
            return True
        inbox.waiters.append(signal.set)
    try:
        return signal.wait(timeout_s)
    finally:
        with link.guard:
            if signal.set in inbox.waiters:
                inbox.waiters.remove(signal.set)


class ArrowFetch:
    """The life of one pull whose answer is a record batch."""

    def __init__(
        self,
        consumer: Consumer,
        request: PullRequest,
        max_messages: int,
        max_bytes: int,
        builder: BatchBuilder,
        order: OrderCheck | None = None,
    ) -> None:
        self._consumer = consumer
        self._link = consumer._link
        self._request = request
        self._wanted = max_messages or pull.BATCH_UNLIMITED
        self._max_bytes = min(max_bytes or FETCH_BYTES_MAX, FETCH_BYTES_MAX)
        self._builder = builder
        self._order = order
        self._error: PullError | None = None
        self._done = False
        # The connection that has the pull; 0 for none.
        self._epoch = 0
        # A delivery was missed, so nothing after it was kept; only with an order to hold.
        self.has_gap = False

    def run(self, wait_s: float, grace_s: float) -> pyarrow.RecordBatch:
        """Pull, and wait until the batch is full, the request is over, or the time is."""
        link, leftovers = self._link, self._consumer._leftovers
        self._expires_s = link.now() + wait_s
        has_waited = leftovers.settle(self._wanted, self._expires_s)
        with link.guard:
            self._sink = sink = open_sink(link.core, link)
            self._consumer.mark(sink.inbox)
            sink.wake_rows, sink.wake_bytes = self._wanted, 2 * FETCH_BYTES_MAX
            sink.wants_headers = HEADERS in self._builder.names
            if self._order is not None:
                sink.ordered, sink.consumer_sequence = True, self._order.consumer_sequence
            add_rows(sink, leftovers.take(self._wanted))
        try:
            if sink.rows < self._wanted:
                if has_waited:
                    self._pull_again()
                else:
                    self._send()
            self._collect(self._expires_s + grace_s)
        except BaseException:
            # Cancelled half way: what has come belongs to the next fetch.
            with link.guard:
                leftovers.add(rows_as_messages(link.core, sink))
            raise
        finally:
            self._close()
        if self._request.group:
            self._consumer.saw_pin(self._request.group, sink.first_header)
        self.has_gap = sink.has_gap
        if self._order is not None and sink.rows:
            self._order.move(sink.last_sequence, sink.consumer_sequence)
        if self._error is not None and not sink.rows:
            raise self._error
        return self._builder.build(sink.take_columns())

    def _close(self) -> None:
        """What comes from here on is for the next fetch."""
        link, sink = self._link, self._sink
        with link.guard:
            detach_sink(link.core, sink)
        is_over = self._done or sink.has_gap or sink.rows >= self._wanted
        self._consumer._leftovers.leave(sink.inbox, is_over)

    def _send(self) -> None:
        consumer, request = self._consumer, self._request
        body = request.body(self._wanted - self._sink.rows, self._max_bytes, consumer.pin_id(request.group))
        self._epoch = self._link.pull(consumer._next_subject, self._sink.inbox, body)

    def _collect(self, deadline_s: float) -> None:
        link, sink = self._link, self._sink
        heartbeat_s = 2 * self._request.heartbeat_ns / 1e9
        while True:
            seen_count = sink.inbox.wake_count
            while sink.inbox.queue and not self._done:
                self._on_status(sink.inbox.queue.popleft())
            if self._done or sink.rows >= self._wanted or sink.has_gap:
                return
            if sink.inbox.closed:
                raise ConnectionClosedError("the connection is closed")
            left_s = deadline_s - link.now()
            if left_s <= 0:
                return
            if link.is_up and link.core.epoch != self._epoch:
                self._pull_again()
            wait_s = min(left_s, heartbeat_s) if heartbeat_s and link.is_up else left_s
            if not wait_rows(link, sink, seen_count, wait_s) and wait_s < left_s:
                self._error = HeartbeatMissedError(0, f"nothing heard for {heartbeat_s:g} s")
                return

    def _pull_again(self) -> None:
        """Time has passed without a pull, or the connection is another one: ask for what is missing, in the time that
        is left.
        """
        left_ns = int((self._expires_s - self._link.now()) * 1e9)
        if left_ns <= 0:
            self._done = True
            return
        if self._request.expires_ns:
            self._request.expires_ns = left_ns
        if 2 * self._request.heartbeat_ns > left_ns:
            self._request.heartbeat_ns = 0
        self._send()

    def _on_status(self, message: MessageCore) -> None:
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
            if asked in (pull.FATAL, pull.CROWDED):
                self._error = pull_error(message.header_block)


class ArrowConsuming:
    """Arrow record batches until you stop: iterate over it. It is a context manager."""

    def __init__(
        self,
        consumer: Consumer,
        request: PullRequest,
        builder: BatchBuilder,
        batch_rows: int,
        linger_s: float,
        repulls: bool,
    ) -> None:
        if batch_rows < 1:
            raise BadOptionError("batch_rows must be at least 1")
        self._consumer = consumer
        self._link = consumer._link
        self._request = request
        self._builder = builder
        self._batch_rows = batch_rows
        self._linger_s = linger_s
        self._repulls = repulls
        bytes_max = max(BYTES_MAX, 4 * self._link.core.payload_size_max)
        self._buffer = RowBuffer(max(2 * batch_rows, 64), bytes_max)
        self._ready: deque[pyarrow.RecordBatch] = deque()
        self._counted_rows = 0
        self._counted_bytes = 0
        self._taken_rows = 0
        self._silence = Silence(2 * request.heartbeat_ns / 1e9, self._link.now())
        self._first_row_s = 0.0
        self._stopped = False
        self._error: BaseException | None = None
        with self._link.guard:
            self._sink = open_sink(self._link.core, self._link)
            self._sink.wants_headers = HEADERS in builder.names
            self._epoch = self._link.core.epoch

    @property
    def schema(self) -> pyarrow.Schema:
        """The columns of every batch."""
        return self._builder.schema

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pyarrow.RecordBatch:
        while not self._ready:
            if self._stopped:
                self._end()
            self._advance()
        return self._ready.popleft()

    def _end(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopIteration

    def _advance(self) -> None:
        """One step: look at statuses, ask for more, cut a batch, or wait."""
        link, sink = self._link, self._sink
        seen_count = sink.inbox.wake_count
        while sink.inbox.queue and not self._stopped:
            self._on_status(sink.inbox.queue.popleft())
        if self._stopped:
            return
        if sink.inbox.closed:
            self._cut()
            self._finish(ConnectionClosedError("the connection is closed") if link.is_closed else None)
            return
        if link.is_up and link.core.epoch != self._epoch:
            self._resume()
            return
        self._pull()
        if self._is_due():
            self._cut()
            return
        self._wait(seen_count)

    def _is_due(self) -> bool:
        rows = self._sink.rows
        if not rows:
            self._first_row_s = 0.0
            return False
        if not self._first_row_s:
            self._first_row_s = self._link.now()
        if rows >= self._batch_rows or self._sink.size >= self._sink.wake_bytes:
            return True
        return self._link.now() >= self._first_row_s + self._linger_s

    def _wait(self, seen_count: int) -> None:
        link, sink = self._link, self._sink
        sink.wake_rows = self._batch_rows if sink.rows else 1
        linger_s = max(0.0, self._first_row_s + self._linger_s - link.now()) if sink.rows else None
        silence, epoch = self._silence, link.core.epoch
        # While disconnected silence does not count: the wait ends with the reconnect.
        wait_s = silence.wait_s(link.now(), self._arrived_count(), linger_s) if link.is_up else linger_s
        if wait_rows(link, sink, seen_count, wait_s) or not link.is_up or link.core.epoch != epoch:
            return
        if silence.is_over(link.now(), self._arrived_count()):
            self._silence.restart(link.now(), self._arrived_count())
            self._missed_heartbeat(silence.limit_s)

    def _arrived_count(self) -> int:
        """Everything that has come so far, rows and statuses."""
        return self._sink.inbox.delivered_count + self._taken_rows + self._sink.rows

    def _cut(self) -> None:
        """Make batches of the rows there are."""
        link, sink = self._link, self._sink
        with link.guard:
            self._settle()
            columns = sink.take_columns()
            self._taken_rows += columns.rows
            self._counted_rows = self._counted_bytes = 0
            header, sink.first_header = sink.first_header, b""
        self._first_row_s = 0.0
        if self._request.group:
            self._consumer.saw_pin(self._request.group, header)
        if columns.rows:
            batch = self._builder.build(columns)
            for start in range(0, batch.num_rows, self._batch_rows):
                self._ready.append(batch.slice(start, self._batch_rows))

    def _settle(self) -> None:
        """Count the rows that came since the last time as no longer owed."""
        sink = self._sink
        rows, size = sink.rows, sink.size
        self._buffer.took(rows - self._counted_rows, size - self._counted_bytes)
        self._counted_rows, self._counted_bytes = rows, size

    def _rows_left(self) -> int:
        return pull.BATCH_UNLIMITED

    def _pull(self) -> None:
        link, consumer = self._link, self._consumer
        with link.guard:
            self._settle()
        if self._sink.inbox.closed or not link.is_up:
            return
        batch, max_bytes = self._buffer.next_request(self._rows_left())
        if batch:
            self._silence.restart(link.now(), self._arrived_count())
            body = self._request.body(batch, max_bytes, consumer.pin_id(self._request.group))
            link.pull(consumer._next_subject, self._sink.inbox, body)

    # When things go wrong.

    def _missed_heartbeat(self, heartbeat_s: float) -> None:
        error = HeartbeatMissedError(0, f"nothing heard of consumer {self._consumer.name} for {heartbeat_s:g} s")
        if not self._repulls:
            self._finish(error)
            return
        log.warning("%s; asking again", error)
        self._buffer.forget()

    def _resume(self) -> None:
        """The connection is back, and the server has forgotten our requests."""
        self._epoch = self._link.core.epoch
        with self._link.guard:
            self._settle()
            self._buffer.forget()
        try:
            self._consumer.info()
        except (ConsumerNotFoundError, StreamNotFoundError) as error:
            self._cut()
            self._finish(ConsumerDeletedError(409, f"consumer {self._consumer.name} is gone: {error}"))
        except JetsparkError as error:
            # Not allowed to ask, or no answer yet: that says nothing about the consumer.
            log.debug("could not ask for consumer %s after a reconnect: %s", self._consumer.name, error)

    def _on_status(self, message: MessageCore) -> None:
        asked = meaning(message.header_block)
        if asked in (pull.HEARTBEAT, pull.CROWDED):
            return
        with self._link.guard:
            self._settle()
        if asked == pull.PIN_LOST:
            self._consumer.lost_pin(self._request.group)
        if asked == pull.ENDED or (asked == pull.PIN_LOST and b"\r\nNats-Pending-Messages:" in message.header_block):
            self._buffer.ended(*pending_numbers(message.header_block))
        elif asked in (pull.AGAIN, pull.EMPTY, pull.PIN_LOST):
            self._buffer.forget()
        elif message.status_code == 503 and self._repulls:
            # Nobody answers while a cluster elects a leader; whether the consumer is gone, its info tells.
            self._link.sleep(ELECTION_WAIT_S)
            self._resume()
        else:
            self._cut()
            self._finish(pull_error(message.header_block))

    def _finish(self, error: BaseException | None) -> None:
        self._stopped = True
        self._error = error
        with self._link.guard:
            close_sink(self._link.core, self._sink)

    def stop(self) -> None:
        """Stop now. Rows that you have not received are delivered again later, if the consumer has acknowledgements."""
        self._ready.clear()
        self._finish(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._link.is_closed:
            self.stop()


def ack_rows(consumer: Consumer, batch: pyarrow.RecordBatch) -> int:
    """Acknowledge every row of a batch in one write; how many acknowledgements were sent."""
    policy = (consumer.cached_info.raw.get("config") or {}).get("ack_policy", "explicit")
    if policy == "none" or not batch.num_rows:
        return 0
    frames = ack_frames(batch, policy == "all")
    if frames:
        consumer._link.send(frames)
    return frames.count(b" 4\r\n+ACK\r\n")
