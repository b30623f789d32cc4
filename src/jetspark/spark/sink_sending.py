"""The rows of one task into the stream: many in flight, every acknowledgement awaited, none sent twice.

Step 6 of `docs/exactly-once.md`. A row whose outcome is not known is never simply sent again: sending breaks off, and
goes on over another connection with what is stored by then. Decides also which refusals are about a row's data and
which may be better in a moment. Who may send, and what is stored, is found out in `sink_task`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetspark.api.error_codes import ApiError, ErrorCode
from jetspark.client.errors import ClientError, JetsparkError, NoStreamError
from jetspark.client.infos import parse_pub_ack
from jetspark.spark.dead_letter import SUFFIX, dead_letters
from jetspark.spark.options import Options
from jetspark.spark.sink_connection import SinkError, Target
from jetspark.spark.sink_ids import DIGEST_MASK, IdMaker, Place, id_maker, rows_digest
from jetspark.spark.sink_limits import Limits
from jetspark.spark.sink_options import COLUMN, CONTENT, NONE
from jetspark.spark.sink_rows import Row, RowPlan, RowReader, Rows

if TYPE_CHECKING:
    import pyarrow

    from jetspark.spark.sink_edge import SentRows

# Refusals that the same row would meet again: too large, or headers that the stream does not take.
DATA_REFUSALS = frozenset({
    ErrorCode.STREAM_MESSAGE_EXCEEDS_MAXIMUM, ErrorCode.STREAM_HEADER_EXCEEDS_MAXIMUM, ErrorCode.STREAM_ROLLUP_FAILED,
    ErrorCode.MESSAGE_TTL_INVALID, ErrorCode.MESSAGE_TTL_DISABLED, ErrorCode.MESSAGE_COUNTER_DISABLED,
    ErrorCode.MESSAGE_COUNTER_MISSING, ErrorCode.MESSAGE_COUNTER_PAYLOAD, ErrorCode.MESSAGE_COUNTER_INVALID,
    ErrorCode.MESSAGE_SCHEDULES_DISABLED, ErrorCode.MESSAGE_SCHEDULES_PATTERN_INVALID,
    ErrorCode.MESSAGE_SCHEDULES_TARGET_INVALID, ErrorCode.MESSAGE_SCHEDULES_TTL_INVALID,
    ErrorCode.MESSAGE_SCHEDULES_ROLLUP_INVALID, ErrorCode.MESSAGE_SCHEDULES_SOURCE_INVALID,
    ErrorCode.MESSAGE_SCHEDULES_SCHEDULER_INVALID, ErrorCode.MESSAGE_SCHEDULES_TIME_ZONE_INVALID,
    ErrorCode.MESSAGE_SOURCE_HEADER_NOT_ALLOWED,
})  # fmt: skip
# Rows are sent in blocks, so many of them at a time: while one is on its way the next is made.
BLOCKS_IN_FLIGHT = 2


class BrokenOff(Exception):
    """It is not known what became of some rows, or of a question: the connection is of no more use."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(slots=True)
class Flight:
    """Rows on their way."""

    sent: SentRows
    rows: Rows


class Sender:
    """Sends the rows of one task a block at a time, over one connection after the other."""

    def __init__(
        self, options: Options, place: Place, plan: RowPlan, limits: Limits, targets: tuple[Target, ...]
    ) -> None:
        self._options = options
        self._place = place
        self._plan = plan
        self._limits = limits
        self._targets = targets
        self._blocks_max = min(BLOCKS_IN_FLIGHT, options["maxInFlight"])
        self._block_rows = options["maxInFlight"] // self._blocks_max
        self._reader = RowReader(plan)
        self._make_ids = new_id_maker(plan, place)
        # For rows whose own id cannot be sent. It counts equal ones, so each row is named once.
        self._letter_ids = id_maker(CONTENT, place)
        self._source: Iterator[pyarrow.RecordBatch] = iter(())
        self._publish: Callable[[Rows], SentRows]
        self._stored: set[bytes] = set()
        # Blocks that were read and not sent yet.
        self._ready: deque[Rows] = deque()
        # Blocks that were sent, and wait for their acknowledgements.
        self._flights: deque[Flight] = deque()
        # The rows without an answer of the oldest block, with which sending broke off.
        self._broken: list[Rows] = []
        # Blocks to send, or to send again, before those in `_ready`.
        self._unsettled: deque[Rows] = deque()
        # Have rows been taken, so that they cannot be read again?
        self.has_begun = False
        # Rows and dead letters whose acknowledgement came.
        self.settled_count = 0
        self._row_count = self._acked_count = self._found_count = self._duplicate_count = self._dead_count = 0
        self._digest = 0
        self._last_ack = b""

    # The rows.

    def take(self, source: Iterator[pyarrow.RecordBatch]) -> None:
        """Where rows come from."""
        self._source = source

    def resume(self, publish: Callable[[Rows], SentRows], stored: set[bytes]) -> None:
        """Send over this connection what is not among these ids."""
        self._publish, self._stored = publish, stored
        # Cut when less was known to be stored.
        self._unsettled.extend(self._ready)
        self._ready.clear()

    def _next_block(self) -> Rows | None:
        """What is to be sent next; None when there is nothing more."""
        while self._unsettled:
            rows = self._unsettled.popleft()
            wanted = [n for n, one in enumerate(rows.ids) if not one or not self.is_settled(one)]
            if not rows.are_letters:
                self._acked_count += len(rows) - len(wanted)
            if wanted:
                return rows if len(wanted) == len(rows) else rows.picked(wanted)
        while not self._ready:
            self.has_begun = True
            batch = next(self._source, None)
            if batch is None:
                return None
            if batch.num_rows:
                self._ready.extend(self._blocks_of(self._read(batch)))
        return self._ready.popleft()

    def _read(self, batch: pyarrow.RecordBatch) -> Rows:
        """Rows with their ids, counted."""
        rows = self._reader.read(batch)
        self._row_count += len(rows)
        if self._make_ids is not None:
            rows.ids = self._make_ids(rows.subjects, rows.blocks, rows.payloads)
        if self._plan.id_mode != NONE:
            digest = rows_digest(self._plan.id_mode, self._place, named(rows))
            self._digest = (self._digest + digest) & DIGEST_MASK
        return rows

    def _blocks_of(self, rows: Rows) -> Iterator[Rows]:
        """What of some rows has to be sent. Without a place for bad ones, the first of them ends the task."""
        self._limits.check(rows)
        reasons = rows.reasons
        if reasons and not self._options["deadLetterSubject"]:
            raise self._refusal(rows.row(min(reasons)))
        if self._stored or reasons:
            fresh = [n for n, one in enumerate(rows.ids) if not self.is_settled(one)]
            bad = [rows.row(n) for n in fresh if n in reasons]
            self._found_count += len(rows) - len(fresh)
            if bad:
                letters = self._letters(bad)
                yield from self._cut(
                    letters.picked([n for n, one in enumerate(letters.ids) if one not in self._stored])
                )
            rows = rows.picked([n for n in fresh if n not in reasons])
        yield from self._cut(rows)

    def _cut(self, rows: Rows) -> Iterator[Rows]:
        for start in range(0, len(rows), self._block_rows):
            yield rows.between(start, start + self._block_rows)

    def is_settled(self, msg_id: bytes) -> bool:
        """Did an earlier attempt store this row, or put it aside?"""
        stored = self._stored
        return msg_id in stored or (bool(self._options["deadLetterSubject"]) and msg_id + SUFFIX in stored)

    # After sending broke off.

    def known_count(self) -> int:
        """How many of the stored rows are this task's own: acknowledged, found, or among those not settled yet."""
        return self._acked_count + self._found_count + sum(one in self._stored for one in self.open_ids())

    def open_ids(self) -> Iterator[bytes]:
        """The ids of rows that were taken and whose outcome is not known, or that were not sent yet."""
        for rows in (*self._unsettled, *self._ready):
            if not rows.are_letters:
                yield from rows.ids

    def read_rest(self) -> None:
        """Take all rows there are, before any more is sent."""
        for batch in self._source:
            if batch.num_rows:
                self._ready.extend(self._blocks_of(self._read(batch)))

    def skip_rest(self) -> None:
        """The batch is committed: all rows are stored. They are still counted."""
        for batch in self._source:
            if batch.num_rows:
                self._read(batch)
        self._found_count = self._row_count - self._acked_count - self._dead_count

    # Sending and what comes back.

    def advance(self) -> bool:
        """Send a block, or wait for one; False when all rows are stored. BrokenOff when it is not known."""
        # Made before the wait for those on their way, so that something is on its way while it is made.
        block = self._next_block()
        if self._flights and (block is None or len(self._flights) >= self._blocks_max):
            if block is not None:
                self._unsettled.appendleft(block)
            self._settle_first()
            return True
        if block is None:
            return False
        try:
            sent = self._publish(block)
        except ClientError as error:
            self._unsettled.appendleft(block)
            raise BrokenOff(error) from error
        self._flights.append(Flight(sent, block))
        return True

    def _settle_first(self) -> None:
        """Wait for the oldest block's acknowledgements and act on them."""
        flight = self._flights.popleft()
        sent, rows = flight.sent, flight.rows
        trouble: BaseException | None = None
        try:
            sent.wait(self._options["ackTimeoutMs"])
        except JetsparkError as error:
            trouble = error
        if trouble is None and not sent.refusals:
            self._count_acked(flight, len(rows))
            return
        bad: list[Row] = []
        for place, answer in sorted(sent.refusals):
            refusal = _refusal_error(rows.subjects[place], answer)
            if isinstance(refusal, ApiError) and refusal.err_code in DATA_REFUSALS and not rows.are_letters:
                row = rows.row(place)
                row.reason = str(refusal)
                bad.append(row)
            else:
                trouble = trouble or refusal
        refused = {row.number for row in bad}
        open_places = [n for n in range(len(rows)) if not sent.is_stored(n) and rows.numbers[n] not in refused]
        self._count_acked(flight, len(rows) - len(open_places) - len(bad))
        if bad:
            self._unsettled.append(self._letters(bad))
        if open_places:
            assert trouble is not None, "a row without an answer has a reason for it"
            self._broken.append(rows.picked(open_places))
            raise BrokenOff(trouble)

    def _count_acked(self, flight: Flight, count: int) -> None:
        self.settled_count += count
        are_letters, last_ack = flight.rows.are_letters, flight.sent.last_ack
        if last_ack:
            # The dead letters' stream is the last of the targets, unless it is the same one.
            wanted, stream = self._targets[-1 if are_letters else 0].stream, parse_pub_ack(last_ack).stream
            if stream != wanted:
                what = "dead letters" if are_letters else "rows"
                raise SinkError(
                    f"{what} for stream {wanted} were stored in stream {stream}, which takes their subject now"
                )
        if not are_letters:
            self._acked_count += count
            self._duplicate_count += flight.sent.duplicate_count
            self._last_ack = last_ack or self._last_ack

    def _letters(self, refused: list[Row]) -> Rows:
        """What is sent for rows that are refused for what is in them; SinkError when there is no place for such."""
        subject = self._options["deadLetterSubject"]
        if not subject:
            raise self._refusal(refused[0])
        self._dead_count += len(refused)
        return dead_letters(refused, subject, self._place, self._limits.dead_letter_size_max, self._letter_ids)

    def _refusal(self, row: Row) -> SinkError:
        return SinkError(
            f"row {row.number} of {self._place} cannot be stored for what is in it: {row.reason} "
            "(option deadLetterSubject puts such rows elsewhere and goes on)"
        )

    # When the outcome is not known.

    def break_off(self) -> None:
        """The connection is gone: what has no answer is to be sent again, unless it turns out to be stored."""
        again, self._broken = self._broken, []
        while self._flights:
            flight = self._flights.popleft()
            open_places = [n for n in range(len(flight.rows)) if not flight.sent.is_stored(n)]
            self._count_acked(flight, len(flight.rows) - len(open_places))
            if open_places:
                again.append(flight.rows.picked(open_places))
        # In front: a stream has the rows of a task in their order, also when the connection is lost.
        self._unsettled.extendleft(reversed(again))

    def first_unsettled(self) -> str:
        """Which row there is trouble with, in words."""
        if not self._unsettled:
            return f"row {self._row_count} of {self._place}"
        rows = self._unsettled[0]
        row = rows.row(0)
        words = "the dead letter of row" if rows.are_letters else "row"
        return f"{words} {row.number} of {self._place} (subject {row.subject})"

    def summary(self) -> dict[str, Any]:
        """What was done, as numbers."""
        sequence = parse_pub_ack(self._last_ack).seq if self._last_ack else 0
        return {
            "rows": self._row_count,
            "stored": self._acked_count - self._duplicate_count,
            "found": self._found_count + self._duplicate_count,
            "dead": self._dead_count,
            "last_sequence": sequence,
            "digest": self._digest,
        }


def new_id_maker(plan: RowPlan, place: Place) -> IdMaker | None:
    """What makes the ids of a task's rows; None when a column has them."""
    return None if plan.id_mode == COLUMN else id_maker(plan.id_mode, place)


def named(rows: Rows) -> list[bytes]:
    """The ids of rows; a row without an id of its own is known by its content."""
    if all(rows.ids):
        return rows.ids
    parts = zip(rows.ids, rows.subjects, rows.blocks, rows.payloads, strict=True)
    return [one or b"%b\0%b\0%b" % (subject, block, data) for one, subject, block, data in parts]


def _refusal_error(subject: bytes, answer: bytes) -> Exception:
    """What a refusal means; an empty one is that nobody answered."""
    if not answer:
        return NoStreamError(subject.decode("utf-8", "replace"))
    try:
        parse_pub_ack(answer)
    except (ApiError, JetsparkError) as error:
        return error
    return SinkError(f"not an acknowledgement: {answer[:80]!r}")
