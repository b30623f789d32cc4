"""The rows of one task into the stream: many in flight, every acknowledgement awaited, none sent twice.

A row whose outcome is not known is never simply sent again: the attempt ends with its connection, a new one takes the
claim over, reads what is stored, and sends the rest. Decides also which refusals are about a row's data and which may
be better in a moment. Ids, claims and dead letters are made elsewhere.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetspark.api.error_codes import ApiError, ErrorCode
from jetspark.client.errors import AuthorizationError, ClientError, JetsparkError, NoStreamError
from jetspark.client.infos import parse_pub_ack
from jetspark.spark.connections import RETRY_WAIT_MAX_S
from jetspark.spark.dead_letter import SUFFIX, dead_letters
from jetspark.spark.options import Options
from jetspark.spark.sink_claim import Attempt, SinkError, Target
from jetspark.spark.sink_ids import IdMaker, Place, Run, content_key, id_maker
from jetspark.spark.sink_limits import Limits
from jetspark.spark.sink_options import COLUMN, CONTENT, NONE
from jetspark.spark.sink_rows import Row, RowPlan, RowReader, Rows

if TYPE_CHECKING:
    import pyarrow

    from jetspark.client.sync import PublishBlock

log = logging.getLogger("jetspark.spark")

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
ADAPTIVE_STATELESS = "spark.sql.adaptive.streaming.stateless.enabled"
OTHER_ROWS = (
    "The plan gives other rows, or the same ones in another order or partition, each time it runs, so writing the rest "
    "would store some twice. Give the rows a column msg_id that says which row it is, or make the plan repeatable (no "
    "adaptive coalescing, no random or time-dependent values); nothing was written by this attempt"
)


@dataclass(slots=True)
class Flight:
    """Rows on their way."""

    sent: PublishBlock
    rows: Rows


class TaskWriter:
    """Writes the rows of one task. Serves one call of `write`."""

    def __init__(
        self, options: Options, place: Place, run: Run, plan: RowPlan, limits: Limits, targets: tuple[Target, ...]
    ) -> None:
        self._options = options
        self._place = place
        self._run = run
        self._plan = plan
        self._limits = limits
        self._targets = targets
        self._keeps_claim = plan.id_mode != NONE
        self._blocks_max = min(BLOCKS_IN_FLIGHT, options["maxInFlight"])
        self._block_rows = options["maxInFlight"] // self._blocks_max
        self._flights: deque[Flight] = deque()
        # Rows of an attempt that broke off, to be sent by the next one where they are not stored.
        self._unsettled: list[Rows] = []
        self._tries = 0
        # Rows and dead letters whose acknowledgement came, now and when the last attempt began.
        self._settled_count = self._settled_at_last_try = 0
        # For rows whose own id cannot be sent. It counts equal ones, so each row is named once.
        self._letter_ids = id_maker(CONTENT, place)
        self._row_count = self._acked_count = self._found_count = self._duplicate_count = self._dead_count = 0
        self._named = 0
        self._last_ack = b""
        self._attempt: Attempt

    def write(self, batches: Iterable[pyarrow.RecordBatch]) -> dict[str, Any]:
        """Store every row; what was done, as numbers."""
        self._begin_attempt()
        try:
            if self._attempt.done is None:
                self._write_all(batches)
            if self._attempt.done is not None:
                # Finished by another attempt. The rows are taken all the same: whoever sends them must not block.
                for batch in batches:
                    self._row_count += batch.num_rows
                return {**self._summary(), **self._attempt.done}
            summary = self._summary()
            self._attempt.finish(summary)
            return summary
        finally:
            self._attempt.close()

    def _write_all(self, batches: Iterable[pyarrow.RecordBatch]) -> None:
        if self._attempt.done_before is not None or (self._attempt.stored and self._plan.id_mode != COLUMN):
            batches = list(batches)
            if self._is_done_before(batches):
                self._attempt.done = self._attempt.done_before
                return
        reader, make_ids = RowReader(self._plan), self._id_maker()
        for batch in batches:
            if batch.num_rows:
                self._send_all(self._prepared(reader.read(batch), make_ids))
            if self._attempt.done is not None:
                return
        while self._flights and self._attempt.done is None:
            self._settle_first()
            self._send_unsettled()

    def _id_maker(self) -> IdMaker | None:
        return None if self._plan.id_mode == COLUMN else id_maker(self._plan.id_mode, self._place)

    def _prepared(self, rows: Rows, make_ids: IdMaker | None) -> Rows:
        """Rows with their ids, checked. Without a place for bad ones, the first of them ends the task."""
        self._row_count += len(rows)
        if make_ids is not None:
            rows.ids = make_ids(rows.subjects, rows.blocks, rows.payloads)
        elif self._keeps_claim:
            self._named += _sum_of(rows.ids)
        self._limits.check(rows)
        if rows.reasons and not self._options["deadLetterSubject"]:
            raise self._refusal(rows.row(min(rows.reasons)))
        return rows

    def _is_done_before(self, held: list[pyarrow.RecordBatch]) -> bool:
        """Has another run stored all of these rows? SinkError when they are not the rows it had.

        What was stored before must be among these rows, and none of these in another partition: else ids mean nothing.
        Rows with ids of their own are known wherever they are.
        """
        before, mode = self._attempt.done_before, self._plan.id_mode
        reader, make_ids = RowReader(self._plan), self._id_maker()
        made: list[bytes] = []
        for batch in held:
            rows = reader.read(batch)
            made += rows.ids if make_ids is None else make_ids(rows.subjects, rows.blocks, rows.payloads)
        if make_ids is None:
            if before is not None and (len(made), _sum_of(made)) == (before["rows"], before["named"]):
                return True
            try:
                self._attempt.go_on()
            except ClientError as error:
                self._start_over(error)
            return False
        self._check_same_rows(set(made))
        if mode == CONTENT and not self._run.keeps_partitions:
            self._check_same_partition(set(made))
        if before is not None and before["rows"] != len(made):
            raise SinkError(
                f"{self._place}: an earlier run stored {before['rows']} rows here and is done, and now there are "
                f"{len(made)}. {OTHER_ROWS}"
            )
        return before is not None

    def _check_same_rows(self, made: set[bytes]) -> None:
        prefix = self._place.prefix
        left = [one for one in self._attempt.stored if one.startswith(prefix) and one.removesuffix(SUFFIX) not in made]
        if left and self._attempt.done_before is None:
            raise SinkError(
                f"{self._place}: {len(left)} rows stored by an earlier attempt are not among the rows of this one "
                f"(id {left[0].decode()} for one). {OTHER_ROWS}"
            )

    def _check_same_partition(self, made: set[bytes]) -> None:
        ours, batch = self._place.prefix, self._place.batch_prefix
        others = [one for one in self._attempt.stored if one.startswith(batch) and not one.startswith(ours)]
        elsewhere = {content_key(one) for one in others}
        moved = [one for one in made - self._attempt.stored if content_key(one) in elsewhere]
        if moved:
            raise SinkError(
                f"{self._place}: {len(moved)} rows are stored as rows of other partitions (id {moved[0].decode()} for "
                f"one), by an earlier run. Either these are other rows that are equal to them, or Spark has put them "
                f"into another partition this time. {OTHER_ROWS}. If the plan has no shuffle, set "
                f"{ADAPTIVE_STATELESS}=false and run it again"
            )

    # Sending and what comes back.

    def _send_all(self, rows: Rows) -> None:
        """The rows of a batch: those that are stored already are left out, bad ones become dead letters."""
        stored, reasons = self._attempt.stored, rows.reasons
        if stored or reasons:
            fresh = [n for n, one in enumerate(rows.ids) if not self._is_settled(one)]
            bad = [rows.row(n) for n in fresh if n in reasons]
            self._found_count += len(rows) - len(fresh)
            if bad:
                letters = self._letters(bad)
                self._send_blocks(letters.picked([n for n, one in enumerate(letters.ids) if one not in stored]))
            rows = rows.picked([n for n in fresh if n not in reasons])
        self._send_blocks(rows)

    def _is_settled(self, msg_id: bytes) -> bool:
        """Did an earlier attempt store this row, or put it aside?"""
        stored = self._attempt.stored
        return msg_id in stored or (bool(self._options["deadLetterSubject"]) and msg_id + SUFFIX in stored)

    def _send_blocks(self, rows: Rows) -> None:
        for start in range(0, len(rows), self._block_rows):
            while len(self._flights) >= self._blocks_max and self._attempt.done is None:
                self._settle_first()
                self._send_unsettled()
            if self._attempt.done is not None:
                return
            self._send(rows.between(start, start + self._block_rows))
            self._send_unsettled()

    def _send_unsettled(self) -> None:
        """What an attempt that broke off has left, where the new one did not find it stored, and new dead letters."""
        while self._unsettled and self._attempt.done is None:
            rows = self._unsettled.pop(0)
            wanted = [n for n, one in enumerate(rows.ids) if not one or one not in self._attempt.stored]
            if not rows.are_letters:
                self._acked_count += len(rows) - len(wanted)
            if wanted:
                self._send(rows.picked(wanted))

    def _send(self, rows: Rows) -> None:
        try:
            ids = rows.ids if rows.ids[0] else ()
            sent = self._attempt.jetstream.publish_many(rows.subjects, rows.blocks, rows.payloads, ids)
        except ClientError as error:
            self._start_over(error, rows)
        else:
            self._flights.append(Flight(sent, rows))

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
            self._start_over(trouble, rows.picked(open_places))

    def _count_acked(self, flight: Flight, count: int) -> None:
        self._settled_count += count
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

    def _start_over(self, error: BaseException, rows: Rows | None = None) -> None:
        """A new attempt. Rows without a known outcome will be sent again, unless they turn out to be stored."""
        if rows is not None:
            self._unsettled.append(rows)
        while self._flights:
            flight = self._flights.popleft()
            open_places = [n for n in range(len(flight.rows)) if not flight.sent.is_stored(n)]
            self._count_acked(flight, len(flight.rows) - len(open_places))
            if open_places:
                self._unsettled.append(flight.rows.picked(open_places))
        self._attempt.close()
        self._begin_attempt(error, goes_on=True)

    def _begin_attempt(self, error: BaseException | None = None, *, goes_on: bool = False) -> None:
        """Connect and claim, with up to numRetries retries; progress since the last time starts the count anew."""
        if self._settled_count > self._settled_at_last_try:
            self._tries, self._settled_at_last_try = 0, self._settled_count
        while True:
            if error is not None:
                self._wait_to_retry(error)
            try:
                self._attempt = Attempt(
                    self._options, self._place, self._run, self._targets,
                    keeps_claim=self._keeps_claim, goes_on=goes_on,
                )  # fmt: skip
                return
            except (SinkError, AuthorizationError):
                raise
            except (JetsparkError, OSError) as failure:
                error = failure

    def _wait_to_retry(self, error: BaseException) -> None:
        self._tries += 1
        if self._tries > self._options["numRetries"]:
            raise SinkError(
                f"{self._first_unsettled()} could not be stored: {error} "
                f"({self._options['numRetries']} retries, option numRetries)"
            ) from error
        wait_s = min(RETRY_WAIT_MAX_S, self._options["retryIntervalMs"] * 2.0 ** (self._tries - 1))
        log.warning("%s: %s; trying again in %g s", self._place, error, wait_s)
        time.sleep(wait_s)

    def _first_unsettled(self) -> str:
        """Which row there is trouble with, in words."""
        if not self._unsettled:
            return f"row {self._row_count} of {self._place}"
        rows = self._unsettled[0]
        row = rows.row(0)
        words = "the dead letter of row" if rows.are_letters else "row"
        return f"{words} {row.number} of {self._place} (subject {row.subject})"

    def _summary(self) -> dict[str, Any]:
        sequence = parse_pub_ack(self._last_ack).seq if self._last_ack else 0
        return {
            "rows": self._row_count,
            "stored": self._acked_count - self._duplicate_count,
            "found": self._found_count + self._duplicate_count,
            "dead": self._dead_count,
            "last_sequence": sequence,
            "named": self._named,
        }


def _sum_of(ids: list[bytes]) -> int:
    """The same for the same ids in any order."""
    return sum(map(zlib.crc32, ids))


def _refusal_error(subject: bytes, answer: bytes) -> Exception:
    """What a refusal means; an empty one is that nobody answered."""
    if not answer:
        return NoStreamError(subject.decode("utf-8", "replace"))
    try:
        parse_pub_ack(answer)
    except (ApiError, JetsparkError) as error:
        return error
    return SinkError(f"not an acknowledgement: {answer[:80]!r}")
