"""The rows of one task into the stream: many in flight, every acknowledgement awaited, none sent twice.

A row whose outcome is not known is never simply sent again: the attempt ends with its connection, a new one takes the
claim over, reads what is stored, and sends the rest. Decides also which refusals are about a row's data and which may
be better in a moment. Ids, claims and dead letters are made elsewhere.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from jetspark.api.error_codes import ApiError
from jetspark.client.errors import AuthorizationError, ClientError, JetsparkError, MaxPayloadError
from jetspark.client.infos import parse_pub_ack
from jetspark.protocol.subjects import is_literal, matches
from jetspark.spark.connections import RETRY_WAIT_MAX_S
from jetspark.spark.dead_letter import SUFFIX, dead_letter
from jetspark.spark.options import Options
from jetspark.spark.sink_claim import Attempt, SinkError, Target
from jetspark.spark.sink_ids import Place, id_maker
from jetspark.spark.sink_options import COLUMN, NONE
from jetspark.spark.sink_rows import Row, RowPlan, RowReader

if TYPE_CHECKING:
    import pyarrow

    from jetspark.client.sync import PublishFuture

log = logging.getLogger("jetspark.spark")

# Refusals that the same row would meet again: too large, headers too large, a bad time to live.
DATA_REFUSALS = (10054, 10097, 10165, 10166)
# Subjects whose check is remembered.
SUBJECTS_MAX = 16384
ID_LINE = b"Nats-Msg-Id: "
FIRST_LINE = b"NATS/1.0\r\n"


class Limits:
    """What the target stream and the server take, as the driver saw it."""

    def __init__(self, patterns: tuple[str, ...], message_size_max: int) -> None:
        self._patterns = [pattern.encode() for pattern in patterns]
        self.message_size_max = message_size_max
        self._known: dict[str, str] = {}

    def subject_reason(self, subject: str) -> str:
        """Why a subject will not do; empty when it will."""
        reason = self._known.get(subject)
        if reason is None:
            if len(self._known) >= SUBJECTS_MAX:
                self._known.clear()
            reason = self._known[subject] = self._look_at(subject)
        return reason

    def _look_at(self, subject: str) -> str:
        encoded = subject.encode("utf-8", "surrogatepass")
        if not is_literal(encoded):
            return f"not a subject to publish to: {subject!r}"
        if not any(matches(pattern, encoded) for pattern in self._patterns):
            return f"the stream does not take subject {subject}"
        return ""


class TaskWriter:
    """Writes the rows of one task. Serves one call of `write`."""

    def __init__(
        self, options: Options, place: Place, plan: RowPlan, limits: Limits, targets: tuple[Target, ...]
    ) -> None:
        self._options = options
        self._place = place
        self._plan = plan
        self._limits = limits
        self._targets = targets
        self._keeps_claim = plan.id_mode != NONE
        self._ack_timeout_s: float = options["ackTimeoutMs"]
        self._in_flight: deque[tuple[PublishFuture, Row]] = deque()
        # Rows of an attempt that broke off, to be sent by the next one where they are not stored.
        self._again: deque[Row] = deque()
        self._tries = 0
        self._acked_at_last_try = 0
        self._row_count = self._acked_count = self._found_count = self._duplicate_count = self._dead_count = 0
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
                for _ in batches:
                    pass
                return {**self._summary(), **self._attempt.done}
            summary = self._summary()
            self._attempt.finish(summary)
            return summary
        finally:
            self._attempt.close()

    def _write_all(self, batches: Iterable[pyarrow.RecordBatch]) -> None:
        if self._attempt.stored and self._plan.id_mode != COLUMN:
            held = list(batches)
            self._check_same_rows(held)
            batches = held
        reader = RowReader(self._plan)
        make_id = id_maker(self._plan.id_mode, self._place)
        for batch in batches:
            rows = list(self._prepared(reader, make_id, batch))
            for row in rows:
                if row.reason:
                    self._refuse(row, row.reason)
                elif row.msg_id in self._attempt.stored:
                    self._found_count += 1
                else:
                    self._send(row)
                if self._attempt.done is not None:
                    return
        while (self._in_flight or self._again) and self._attempt.done is None:
            if self._again:
                self._send_again(self._again.popleft())
            else:
                self._settle_first()

    def _prepared(self, reader: RowReader, make_id: Any, batch: pyarrow.RecordBatch) -> Iterator[Row]:
        """The rows of a batch with their ids, checked. Without a place for bad ones, the first one ends the task."""
        limits, is_column = self._limits, self._plan.id_mode == COLUMN
        has_dead_letters = bool(self._options["deadLetterSubject"])
        size_max = limits.message_size_max - len(FIRST_LINE) - len(ID_LINE) - 4
        for row in reader.rows(batch):
            self._row_count += 1
            if not is_column:
                row.msg_id = make_id(row.subject.encode("utf-8", "surrogatepass"), row.block, row.data)
            if not row.reason:
                row.reason = limits.subject_reason(row.subject)
            size = len(row.block) + len(row.msg_id) + len(row.data)
            if size > size_max and not row.reason:
                row.reason = f"{size} bytes with its headers; the stream takes {limits.message_size_max}"
            if row.reason and not has_dead_letters:
                raise SinkError(self._refusal(row, row.reason))
            yield row

    def _check_same_rows(self, held: list[pyarrow.RecordBatch]) -> None:
        """What an earlier attempt stored must be among the rows of this one, or their ids mean nothing."""
        reader = RowReader(self._plan)
        make_id = id_maker(self._plan.id_mode, self._place)
        made = {
            make_id(row.subject.encode("utf-8", "surrogatepass"), row.block, row.data)
            for batch in held
            for row in reader.rows(batch)
        }
        prefix = self._place.prefix
        left = [one for one in self._attempt.stored if one.startswith(prefix) and one.removesuffix(SUFFIX) not in made]
        if left:
            raise SinkError(
                f"{self._place}: {len(left)} rows stored by an earlier attempt are not among the rows of this one "
                f"(id {left[0].decode()} for one). The plan gives other rows, or the same ones in another order or "
                "partition, each time it runs, so writing the rest would store some twice. Give the rows a column "
                "msg_id that says which row it is, or make the plan repeatable (no adaptive coalescing, no random or "
                "time-dependent values); nothing was written by this attempt"
            )

    # Sending and what comes back.

    def _send(self, row: Row) -> None:
        """Send a row, and look at the acknowledgements that have come meanwhile."""
        self._publish(row)
        while self._again and self._attempt.done is None:
            self._send_again(self._again.popleft())
        in_flight = self._in_flight
        while in_flight and in_flight[0][0].done:
            self._settle_first()

    def _send_again(self, row: Row) -> None:
        if row.msg_id and row.msg_id in self._attempt.stored:
            self._acked_count += 1
        else:
            self._publish(row)

    def _publish(self, row: Row) -> None:
        block = row.block
        if row.msg_id:
            block = (block[:-2] if block else FIRST_LINE) + ID_LINE + row.msg_id + b"\r\n\r\n"
        try:
            future = self._attempt.jetstream.publish_prepared(row.subject, block, row.data, self._ack_timeout_s)
        except MaxPayloadError as error:
            self._refuse(row, str(error))
        except ClientError as error:
            self._start_over(error, row)
        else:
            self._in_flight.append((future, row))

    def _settle_first(self) -> None:
        """Wait for the oldest acknowledgement and act on it."""
        future, row = self._in_flight.popleft()
        if not future.done:
            try:
                future.wait()
            except JetsparkError as error:
                log.debug("row %d: %s", row.number, error)
        if future.error is not None:
            self._start_over(future.error, row)
            return
        answer = future.value
        assert isinstance(answer, bytes)
        if b'"error"' in answer or b'"seq"' not in answer:
            self._refused(future, row)
            return
        self._acked_count += 1
        if b'"duplicate"' in answer:
            self._duplicate_count += 1
        self._last_ack = answer

    def _refused(self, future: PublishFuture, row: Row) -> None:
        error = future.exception()
        if isinstance(error, ApiError) and error.err_code in DATA_REFUSALS:
            self._refuse(row, str(error))
        elif error is not None:
            self._start_over(error, row)

    def _refuse(self, row: Row, reason: str) -> None:
        subject = self._options["deadLetterSubject"]
        if not subject:
            raise SinkError(self._refusal(row, reason))
        letter = dead_letter(row, reason, self._place, self._limits.message_size_max)
        while letter.msg_id not in self._attempt.stored and self._attempt.done is None:
            try:
                future = self._attempt.jetstream.publish_prepared(subject, letter.block, letter.data)
                future.wait()
                break
            except JetsparkError as error:
                self._start_over(error, None)
        self._dead_count += 1

    def _refusal(self, row: Row, reason: str) -> str:
        return (
            f"row {row.number} of {self._place} cannot be stored for what is in it: {reason} "
            "(option deadLetterSubject puts such rows elsewhere and goes on)"
        )

    # When the outcome is not known.

    def _start_over(self, error: BaseException, row: Row | None) -> None:
        """A new attempt. Rows without a known outcome will be sent again, unless they turn out to be stored."""
        unsettled = [row] if row is not None else []
        while self._in_flight:
            future, other = self._in_flight.popleft()
            answer = future.value
            if future.done and future.error is None and isinstance(answer, bytes) and b'"error"' not in answer:
                self._acked_count += 1
                self._last_ack = answer
            else:
                unsettled.append(other)
        self._again.extendleft(reversed(unsettled))
        self._attempt.close()
        self._begin_attempt(error, unsettled[0] if unsettled else None)

    def _begin_attempt(self, error: BaseException | None = None, row: Row | None = None) -> None:
        """Connect and claim, with up to numRetries retries; progress since the last time starts the count anew."""
        if self._acked_count > self._acked_at_last_try:
            self._tries, self._acked_at_last_try = 0, self._acked_count
        while True:
            if error is not None:
                self._wait_to_retry(error, row)
            try:
                self._attempt = Attempt(self._options, self._place, self._targets, keeps_claim=self._keeps_claim)
                return
            except (SinkError, AuthorizationError):
                raise
            except (JetsparkError, OSError) as failure:
                error = failure

    def _wait_to_retry(self, error: BaseException, row: Row | None) -> None:
        self._tries += 1
        if self._tries > self._options["numRetries"]:
            number = self._row_count if row is None else row.number
            subject = f" (subject {row.subject})" if row is not None else ""
            raise SinkError(
                f"row {number} of {self._place}{subject} could not be stored: {error} "
                f"({self._options['numRetries']} retries, option numRetries)"
            ) from error
        wait_s = min(RETRY_WAIT_MAX_S, self._options["retryIntervalMs"] * 2.0 ** (self._tries - 1))
        log.warning("%s: %s; trying again in %g s", self._place, error, wait_s)
        time.sleep(wait_s)

    def _summary(self) -> dict[str, Any]:
        sequence = parse_pub_ack(self._last_ack).seq if self._last_ack else 0
        return {
            "rows": self._row_count,
            "stored": self._acked_count - self._duplicate_count,
            "found": self._found_count + self._duplicate_count,
            "dead": self._dead_count,
            "last_sequence": sequence,
        }
