"""Reading a range of a stream into record batches, in order, whatever happens meanwhile.

The server's consumer is a throw-away, made again after the last row whenever a gap, a silence or a reconnect puts it in
doubt, and removed at the end. A small range of a stream that allows it is read without any consumer; a large one too
when the caller insists. Payloads nobody asked for are not sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from jetspark.api.timestamps import parse_time
from jetspark.client.aio.arrow import IN_FLIGHT_ROWS, ArrowConsuming, ArrowFetch, wait_rows
from jetspark.client.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jetspark.client.arrow_batches import DATA, HEADERS, BatchBuilder, load_pyarrow
from jetspark.client.configs import wire_time
from jetspark.client.core import pull
from jetspark.client.core.arrow_decode import move_sink
from jetspark.client.core.message import MessageCore
from jetspark.client.core.pull import PullRequest, meaning
from jetspark.client.errors import (
    BadOptionError,
    ConnectionClosedError,
    ConsumerDeletedError,
    HeartbeatMissedError,
    JetsparkError,
    PullUnavailableError,
    RequestTimeoutError,
)
from jetspark.client.infos import ConsumerInfo
from jetspark.client.names import server_is_older
from jetspark.protocol.subjects import matches

if TYPE_CHECKING:
    import pyarrow

    from jetspark.client.aio.ordered import OrderedConsumer
    from jetspark.client.aio.stream import Stream

# Up to this many sequences are read without a consumer, where the stream allows it.
DIRECT_ROWS_MAX = 256
DIRECT_TIMEOUT_S = 5.0
# When a range is to be read without a consumer whatever its size: what is asked for at once, and how often in vain.
DIRECT_PART_ROWS = 1024
DIRECT_TRIES_MAX = 5
DIRECT_RETRY_WAIT_S = 0.5
# A scan that was left without closing it must not leave its consumer for long.
INACTIVE_THRESHOLD_S = 30.0
EXPIRES_NS = 30 * 10**9
HEARTBEAT_NS = 10**9
_DIRECT_HEADERS = ("Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending",
                   "Nats-Last-Sequence")  # fmt: skip


class OrderedArrowConsuming(ArrowConsuming):
    """Record batches in order: starts over after the last row whenever order is in doubt."""

    def __init__(
        self, ordered: OrderedConsumer, request: PullRequest, builder: BatchBuilder, batch_rows: int, linger_s: float
    ) -> None:
        super().__init__(ordered, request, builder, batch_rows, linger_s, True)
        self._ordered = ordered
        self._sink.ordered = True
        self._sink.last_sequence = ordered._position.stream_sequence
        self._is_made = False

    async def _advance(self) -> None:
        if not self._is_made or self._sink.has_gap:
            await self._restart()
        else:
            await super()._advance()

    async def _restart(self) -> None:
        """A new consumer on a new subject: nothing of the old one can be taken for the new one's."""
        link, sink = self._link, self._sink
        with link.guard:
            self._settle()
            self._buffer.forget()
            move_sink(link.core, sink, link)
            self._ordered._position.move(sink.last_sequence, 0)
        self._epoch = link.core.epoch
        self._is_made = False
        try:
            await self._ordered.make_again()
        except (StreamNotFoundError, ConsumerNotFoundError) as error:
            self._cut()
            await self._finish(ConsumerDeletedError(409, f"the stream is gone: {error}"))
            return
        self._is_made = True

    async def stop(self) -> None:
        """End now and remove the server's consumer."""
        await super().stop()
        await self._ordered._release()

    async def _missed_heartbeat(self, heartbeat_s: float) -> None:
        self._is_made = False

    async def _resume(self) -> None:
        self._is_made = False

    async def _on_status(self, message: MessageCore) -> None:
        asked = meaning(message.header_block)
        if asked == pull.HEARTBEAT:
            await self._check_heartbeat(message)
        elif asked == pull.ENDED or (asked == pull.FATAL and message.status_code not in (409, 503)):
            await super()._on_status(message)
        else:
            self._is_made = False

    async def _check_heartbeat(self, message: MessageCore) -> None:
        """The server says how many deliveries it has made: more than we have seen means some were lost."""
        last = message.headers.get("Nats-Last-Consumer", "")
        if last.isdigit() and int(last) > self._sink.consumer_sequence:
            self._is_made = False

    async def _finish(self, error: BaseException | None) -> None:
        self._ordered._position.move(self._sink.last_sequence, self._sink.consumer_sequence)
        await super()._finish(error)


class ArrowScan(OrderedArrowConsuming):
    """The record batches of a range of a stream: iterate over it, or call `read_all`. It is a context manager.

    `direct` says whether to read without a consumer: always, never, or (None) if the range is small. With
    `silence_max_s` the scan fails when it has received nothing for that long.
    """

    def __init__(
        self,
        stream: Stream,
        start: int | datetime | None,
        end: int | datetime | None,
        subjects: str | Sequence[str],
        batch_rows: int,
        columns: Sequence[str] | None,
        *,
        direct: bool | None = None,
        header_bytes: bool = False,
        silence_max_s: float = 0.0,
    ) -> None:
        from jetspark.client.aio.ordered import OrderedConsumer

        if (isinstance(start, int) and start < 1) or (isinstance(end, int) and end < 0):
            raise BadOptionError("a range starts at sequence 1 or later, and does not end before 0")
        self._stream = stream
        self._subjects = [one for one in ([subjects] if isinstance(subjects, str) else subjects) if one]
        self._start = start
        self._last = end
        self._is_prepared = False
        options: dict[str, Any] = {"inactive_threshold": INACTIVE_THRESHOLD_S}
        if self._subjects:
            options["filter_subjects"] = self._subjects
        if isinstance(start, datetime):
            options["opt_start_time"] = start
        elif start is not None:
            options["opt_start_seq"] = start
        builder = BatchBuilder(columns, header_bytes)
        if DATA not in builder.names and HEADERS not in builder.names:
            options["headers_only"] = True
        request = PullRequest()
        request.expires_ns, request.heartbeat_ns = EXPIRES_NS, HEARTBEAT_NS
        super().__init__(OrderedConsumer(stream, **options), request, builder, batch_rows, 0.0)
        self._buffer.rows_max = max(IN_FLIGHT_ROWS, 2 * batch_rows)
        self._direct = direct
        # The next sequence to ask for directly; 0 when a consumer reads.
        self._next_direct = 0
        self._failed_tries = 0
        self._silence_max_s = silence_max_s
        # How many consumers or direct gets it has taken so far: between two of them the stream may have become another.
        self.piece_count = 0
        self._heard_rows = 0
        self._heard_s = self._link.now()

    async def read_all(self) -> pyarrow.Table:
        """All rows as one Arrow table."""
        table = load_pyarrow().Table.from_batches
        try:
            return table([batch async for batch in self if batch.num_rows], self.schema)
        finally:
            # Cancelled, for example: nobody goes on with what is left.
            if not self._stopped:
                await self._finish(None)
                self._link.spawn(self._ordered._release)

    async def __anext__(self) -> pyarrow.RecordBatch:
        # What the caller did meanwhile is no silence of the server's.
        self._heard_s = self._link.now()
        try:
            return await super().__anext__()
        except (StopAsyncIteration, JetsparkError):
            await self._ordered._release()
            raise

    async def _prepare(self) -> None:
        """Where the range ends, as a sequence; and whether it is small enough to be asked for directly."""
        state = (await self._stream.info()).state
        self._is_prepared = True
        last = state.last_seq
        sink = self._sink
        if isinstance(self._last, datetime):
            sink.end_timestamp_ns = wire_time(self._last).unix_ns + 1
        elif self._last is not None:
            last = min(last, self._last)
        sink.end_sequence = last + 1
        first = max(self._start, state.first_seq) if isinstance(self._start, int) else state.first_seq
        if last < first or not state.messages:
            await self._finish(None)
        elif self._direct:
            self._insist_on_direct(first)
        elif self._direct is None and not isinstance(self._start, datetime) and not sink.end_timestamp_ns:
            await self._try_direct(first, last)

    def _rows_left(self) -> int:
        """No more messages than sequences can come; asking for more would read beyond the range."""
        after = self._sink.last_sequence
        if not after and isinstance(self._start, int):
            after = self._start - 1
        return max(0, self._sink.end_sequence - 1 - after)

    async def _advance(self) -> None:
        if self._silence_max_s:
            await self._check_silence()
        if not self._is_prepared:
            await self._prepare()
        elif self._next_direct:
            await self._read_direct()
        elif self._sink.finished:
            self._cut()
            await self._finish(None)
        else:
            await super()._advance()

    async def _restart(self) -> None:
        await super()._restart()
        self.piece_count += 1
        if self._is_made and self._ordered.cached_info.num_pending == 0:
            self._sink.finished = True

    async def _check_silence(self) -> None:
        now_s, rows = self._link.now(), self._sink.rows
        if rows != self._heard_rows:
            self._heard_rows, self._heard_s = rows, now_s
        elif now_s - self._heard_s > self._silence_max_s:
            said = f"nothing of stream {self._stream.name} received for {self._silence_max_s:g} s"
            await self._finish(RequestTimeoutError(f"{said}, last sequence {self._sink.last_sequence}"))

    def _is_due(self) -> bool:
        return self._sink.rows >= self._batch_rows or self._sink.size >= self._sink.wake_bytes

    async def _wait(self, seen_count: int) -> None:
        link, sink = self._link, self._sink
        sink.wake_rows = self._batch_rows
        silence, epoch = self._silence, link.core.epoch
        wait_s = silence.wait_s(link.now(), self._arrived_count(), None) if link.is_up else None
        if await wait_rows(link, sink, seen_count, wait_s) or not link.is_up or link.core.epoch != epoch:
            return
        if silence.is_over(link.now(), self._arrived_count()):
            silence.restart(link.now(), self._arrived_count())
            self._is_made = False

    async def _check_heartbeat(self, message: MessageCore) -> None:
        """Nothing comes: deliveries were lost, or what was left of the range has been deleted."""
        await super()._check_heartbeat(message)
        if not self._is_made:
            return
        try:
            info = await self._ordered.info()
        except JetsparkError:
            self._is_made = False
            return
        if info.delivered.consumer_seq == self._sink.consumer_sequence and (
            info.num_pending == 0 or info.delivered.stream_seq + 1 >= self._sink.end_sequence
        ):
            self._sink.finished = True

    # Reading without a consumer.

    async def _try_direct(self, first: int, last: int) -> None:
        """Read a small range by direct gets; anything unexpected leaves the range to a consumer."""
        stream = self._stream
        version = stream.jetstream.connection.server_version
        if last - first >= DIRECT_ROWS_MAX or server_is_older(version, 2, 11):
            return
        if not stream.cached_info.config.allow_direct:
            return
        rows: list[dict[str, Any]] = []
        while first <= last:
            found = await self._direct_rows(first, last)
            if found is None:
                return
            rows += [row for row in found if row["sequence"] <= last and self._is_wanted(row)]
            if not found or found[-1]["sequence"] >= last or not found[-1]["pending_count"]:
                break
            first = found[-1]["sequence"] + 1
        self._cut_rows(rows)
        await self._finish(None)

    def _cut_rows(self, rows: list[dict[str, Any]]) -> None:
        for start in range(0, len(rows), self._batch_rows):
            self._ready.append(self._builder.from_rows(rows[start : start + self._batch_rows]))

    def _is_wanted(self, row: dict[str, Any]) -> bool:
        """The server takes one filter only; of several, the rest of the work is ours."""
        if len(self._subjects) < 2:
            return True
        subject = row["subject"].encode("utf-8", "surrogateescape")
        return any(matches(pattern.encode(), subject) for pattern in self._subjects)

    def _insist_on_direct(self, first: int) -> None:
        stream = self._stream
        if isinstance(self._start, datetime) or self._sink.end_timestamp_ns:
            raise BadOptionError("a range that is read without a consumer is given as sequences")
        if not stream.cached_info.config.allow_direct:
            raise BadOptionError(f"stream {stream.name} does not allow direct gets (its allow_direct is false)")
        if server_is_older(stream.jetstream.connection.server_version, 2, 11):
            raise BadOptionError("direct gets of many messages need a server of version 2.11 or later")
        self._next_direct = first

    async def _read_direct(self) -> None:
        """The next part of a range that is read without a consumer whatever its size."""
        first, last = self._next_direct, self._sink.end_sequence - 1
        found = await self._direct_rows(first, min(last, first + DIRECT_PART_ROWS - 1))
        if found is None:
            self._failed_tries += 1
            if self._failed_tries >= DIRECT_TRIES_MAX and self._link.is_up:
                await self._finish(RequestTimeoutError(f"stream {self._stream.name} does not answer direct gets"))
                return
            await self._link.sleep(DIRECT_RETRY_WAIT_S)
            return
        self._failed_tries = 0
        self._heard_s = self._link.now()
        self._cut_rows([row for row in found if row["sequence"] <= last and self._is_wanted(row)])
        if not found or found[-1]["sequence"] >= last or not found[-1]["pending_count"]:
            await self._finish(None)
        else:
            self._next_direct = found[-1]["sequence"] + 1

    async def _direct_rows(self, first: int, last: int) -> list[dict[str, Any]] | None:
        """One answer, whole; None when it did not come whole."""
        link, stream = self._link, self._stream
        self.piece_count += 1
        document: dict[str, Any] = {"seq": first, "batch": last - first + 1}
        if len(self._subjects) == 1:
            document["next_by_subj"] = self._subjects[0]
        with link.guard:
            inbox = link.core.add_inbox(link.core.new_inbox_subject(), b"", link)
        rows: list[dict[str, Any]] = []
        deadline_s = link.now() + DIRECT_TIMEOUT_S
        epoch = link.core.epoch
        try:
            subject = f"{stream.jetstream.api_prefix}.DIRECT.GET.{stream.name}"
            link.publish(subject, inbox.subject, b"", msgspec.json.encode(document))
            while True:
                seen_count = inbox.wake_count
                left_s = deadline_s - link.now()
                if link.is_closed:
                    raise ConnectionClosedError("the connection is closed")
                if not inbox.queue and (left_s <= 0 or link.core.epoch != epoch or not link.is_up):
                    return None
                if not inbox.queue:
                    await link.wait_inbox(inbox, seen_count, left_s)
                    continue
                message: Any = inbox.queue.popleft()
                if message.status_code:
                    return rows if message.status_code in (204, 404) else None
                rows.append(direct_row(message))
        finally:
            with link.guard:
                link.core.remove_route(inbox)


def direct_row(message: MessageCore) -> dict[str, Any]:
    """One answer to a direct get. No consumer delivered it, so what a consumer tells is absent."""
    told: dict[str, str] = {}
    kept: list[tuple[str, str]] = []
    # The server's own come last, and the message may have brought some of the same names with it.
    for name, value in reversed(message.headers.all_items()):
        if name in _DIRECT_HEADERS and name not in told:
            told[name] = value
        else:
            kept.append((name, value))
    return {
        "subject": told["Nats-Subject"],
        "sequence": int(told["Nats-Sequence"]),
        "timestamp": parse_time(told["Nats-Time-Stamp"]).unix_ns,
        "data": message.data,
        "reply": None,
        "consumer_sequence": None,
        "delivery_count": None,
        "pending_count": int(told.get("Nats-Num-Pending", "0")),
        "headers": [
            {"key": _shown(name), "value": value.encode("utf-8", "surrogateescape")} for name, value in reversed(kept)
        ],
    }


def _shown(text: str) -> str:
    """What is not UTF-8 as replacement characters, as in the other columns of text."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def fetch_in_order(
    ordered: OrderedConsumer, request: PullRequest, max_messages: int, max_bytes: int, builder: BatchBuilder,
    wait_s: float, grace_s: float,
) -> pyarrow.RecordBatch:  # fmt: skip
    """One batch of an ordered consumer: each row the next of the stream."""
    link = ordered._link
    deadline_s = link.now() + wait_s
    while True:
        if not ordered.name:
            await ordered.make_again()
        fetch = ArrowFetch(ordered, request, max_messages, max_bytes, builder, ordered._position)
        try:
            batch = await fetch.run(max(0.01, deadline_s - link.now()), grace_s)
            is_lost = fetch.has_gap
        except (ConsumerDeletedError, PullUnavailableError, HeartbeatMissedError):
            batch, is_lost = builder.empty(), True
        if is_lost:
            # The next fetch makes the consumer again.
            ordered.cached_info = ConsumerInfo.read({"stream_name": ordered.stream.name, "name": ""})
        if batch.num_rows or not is_lost or link.now() >= deadline_s:
            return batch
        if request.expires_ns:
            request.expires_ns = max(1_000_000, int((deadline_s - link.now()) * 1e9))
            request.heartbeat_ns = 0
