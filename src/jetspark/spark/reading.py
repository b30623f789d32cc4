"""Reading one range on an executor: record batches in Spark's own types, complete or with an error.

The client's scan does the reading: it resumes after a reconnect and leaves no consumer behind. Decided here: whether a
range is read by a consumer or directly, what happens when the connection is lost for good, and whether what came is all
there should have been. A replica that lags behind may think a stream ends earlier than it does, so of a replicated
stream the leader is asked whether anything follows the last row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from jetspark.api.stream_config import Retention
from jetspark.client.api_errors import MessageNotFoundError, StreamNotFoundError
from jetspark.client.errors import ConsumerDeletedError
from jetspark.client.sync.scanning import ArrowScan
from jetspark.spark import columns, data_loss
from jetspark.spark.connections import RETRY_WAIT_MAX_S, TRANSIENT_ERRORS, ask, is_final, jetstream
from jetspark.spark.facts import replaces_only
from jetspark.spark.source_options import CONSUMER, DIRECT
from jetspark.spark.worker_process import begin_task

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from jetspark.client.sync import JetStream, Stream
    from jetspark.spark.options import Options

log = logging.getLogger("jetspark.spark")

# How long a replica may take to have what its leader had when the batch was planned.
LAGGING_WAIT_S = 0.25


@dataclass
class RangePartition(InputPartition):
    """What a task reads: a range of one stream, and how many messages are expected (None: not known)."""

    stream: str
    created: str
    first: int
    last: int
    count: int | None
    removes_inside: bool = False

    def __post_init__(self) -> None:
        super().__init__(f"{self.stream} {self.first} to {self.last}")


class BatchShape:
    """Turns the client's batches into Spark's: its columns, its order, its types."""

    def __init__(self, schema: StructType) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.decoded = columns.decoded_columns(schema.names)

    def shape(self, stream: str, batch: Any) -> Any:
        """One batch of one stream."""
        arrays = []
        for field in self.schema:
            if field.name == columns.STREAM:
                arrays.append(pa.repeat(pa.scalar(stream, pa.string()), batch.num_rows))
            elif field.name == columns.TIMESTAMP_NS:
                arrays.append(batch.column(columns.TIMESTAMP).view(pa.int64()))
            elif field.name == columns.TIMESTAMP:
                # Spark keeps microseconds: the nanoseconds are cut off, as unsafe says.
                arrays.append(batch.column(columns.TIMESTAMP).cast(field.type, safe=False))
            elif field.name == columns.HEADERS:
                arrays.append(batch.column(columns.HEADERS).cast(field.type))
            else:
                arrays.append(batch.column(field.name))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class RangeReading:
    """The reading of one range, over as many connections as it takes."""

    def __init__(self, options: Options, schema: StructType, part: RangePartition) -> None:
        self._options = options
        self._part = part
        self._shape = BatchShape(schema)
        self._next = part.first
        self._count = 0
        self._is_replicated = False
        # Read in pieces, between which the stream may have been made again.
        self._is_pieced = False

    def batches(self) -> Iterator[Any]:
        """Every batch of the range."""
        deadline_s = time.monotonic() + self._options["pollTimeoutMs"]
        while self._next <= self._part.last:
            before = self._next
            yield from self._scan_with_retries()
            following = self._following() if self._is_replicated else None
            if following is None:
                break
            if self._next > before:
                deadline_s = time.monotonic() + self._options["pollTimeoutMs"]
            elif time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"stream {self._part.stream} has sequence {following}, but no replica gave it"
                    f" within {self._options['pollTimeoutMs']:g} s (option pollTimeoutMs)"
                )
            time.sleep(LAGGING_WAIT_S)
        self._check_count()

    def _scan_with_retries(self) -> Iterator[Any]:
        """The client reconnects by itself; beyond what it does, a new connection goes on after the last row."""
        wait_s = self._options["retryIntervalMs"]
        left = self._options["numRetries"]
        while True:
            before = self._next
            try:
                yield from self._scan()
                return
            except (StreamNotFoundError, ConsumerDeletedError) as error:
                data_loss.report_loss(self._options, f"stream {self._part.stream} is gone: {error}")
                return
            except TRANSIENT_ERRORS as error:
                if self._next > before:
                    left = self._options["numRetries"]
                if left <= 0 or is_final(error):
                    raise
                left -= 1
                log.warning("%s; going on from sequence %d in %g s", error, self._next, wait_s)
                time.sleep(wait_s)
                wait_s = min(RETRY_WAIT_MAX_S, wait_s * 2)

    def _scan(self) -> Iterator[Any]:
        part, options = self._part, self._options
        stream = jetstream(options).stream_handle(part.stream)
        mode = options["readMode"]
        scan = ArrowScan(
            stream, self._next, part.last, options["subjects"], options["batchSize"], self._shape.decoded,
            direct=True if mode == DIRECT else False if mode == CONSUMER else None,
            header_bytes=True,
            silence_max_s=options["pollTimeoutMs"],
        )  # fmt: skip
        with scan:
            is_checked = False
            for batch in scan:
                self._is_pieced = self._is_pieced or scan.piece_count > 1
                if not is_checked and not self._is_same(stream):
                    return
                is_checked = True
                if batch.num_rows:
                    self._count += batch.num_rows
                    self._next = batch.column(columns.SEQUENCE)[-1].as_py() + 1
                    yield self._shape.shape(part.stream, batch)
        self._is_replicated = stream.cached_info.config.num_replicas > 1

    def _is_same(self, stream: Stream) -> bool:
        """The stream is still the one that was planned for."""
        now = stream.cached_info.created
        if not self._part.created or now == self._part.created:
            return True
        data_loss.recreated(self._options, self._part.stream, self._part.created, now)
        return False

    def _following(self) -> int | None:
        """The next message of the range after the last row, as the leader knows it; None when that was all."""
        if self._next > self._part.last or self._count == self._part.count:
            return None
        found = [ask(self._options, self._next_of(subject)) for subject in self._options["subjects"] or (">",)]
        within = [sequence for sequence in found if sequence is not None and sequence <= self._part.last]
        return min(within) if within else None

    def _next_of(self, subject: str) -> Any:
        def look(jetstream: JetStream) -> int | None:
            stream = jetstream.stream_handle(self._part.stream)
            try:
                return stream.get_msg(seq=self._next, next_by_subject=subject, direct=False).seq
            except MessageNotFoundError:
                return None

        return look

    def _check_count(self) -> None:
        """Everything that was there when the batch was planned has come, or has gone since."""
        part, options = self._part, self._options
        is_filtered = bool(options["subjects"])
        missing = 1 if part.count is None or is_filtered else part.count - self._count
        if missing <= 0 and not self._is_pieced:
            return
        try:
            info = ask(options, lambda jetstream: jetstream.stream_info(part.stream))
        except StreamNotFoundError:
            data_loss.stream_gone(options, part.stream)
            return
        if part.created and info.created != part.created:
            data_loss.recreated(options, part.stream, part.created, info.created)
            return
        if missing <= 0:
            return
        stream_first = info.state.first_seq if info.state.messages else info.state.last_seq + 1
        has_lost_head = stream_first > part.first
        if info.state.messages and replaces_only(info.config):
            # Newer messages pushed them out; these are read in their turn.
            has_lost_head = False
        if part.count is None or is_filtered:
            # How many of the range match is not known, but what lies before the stream's first message is gone.
            if has_lost_head and (not is_filtered or info.config.retention == Retention.LIMITS):
                data_loss.gone_before(options, part.stream, part.first, stream_first, part.last)
        elif has_lost_head or not part.removes_inside:
            data_loss.gone_inside(options, part.stream, part.first, part.last, missing)
        else:
            log.info("%d messages of %s were replaced by newer ones while being read", missing, part.stream)


def read_range(options: Options, schema: StructType, part: InputPartition) -> Iterator[Any]:
    """The batches of a partition. Spark makes one without a range when there is nothing to read."""
    begin_task()
    if not isinstance(part, RangePartition) or part.last < part.first:
        return iter(())
    return RangeReading(options, schema, part).batches()
