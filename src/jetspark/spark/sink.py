"""The sink as Spark meets it: a writer for a batch, one for a streaming query, and what they say when they are done.

Which write, batch and partition a task is, is read here from Spark; everything else is decided in the modules named
`sink_*`. A streaming query's identity is that of its checkpoint, so it survives restarts. A batch write has the
identity the user gave it, or a new one each time.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from jetspark.client.errors import BadOptionError
from jetspark.spark.connections import ask
from jetspark.spark.options import Options
from jetspark.spark.sink_checks import Checked, check_target
from jetspark.spark.sink_compare import ADAPTIVE_STATELESS, check_commit, check_partitions
from jetspark.spark.sink_connection import SinkConnection, Target
from jetspark.spark.sink_ids import DIGEST_MASK, ONLY_RUN, Place, Run
from jetspark.spark.sink_ledger import Committed, Ledger
from jetspark.spark.sink_limits import Limits
from jetspark.spark.sink_options import COLUMN, NONE, sink_options
from jetspark.spark.sink_rows import RowPlan, plan_rows
from jetspark.spark.sink_task import SinkTask
from jetspark.spark.worker_process import begin_task

if TYPE_CHECKING:
    import pyarrow

    from jetspark.client.sync import JetStream

log = logging.getLogger("jetspark.spark")

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
ADAPTIVE = "spark.sql.adaptive.enabled"


@dataclass
class TaskDone(WriterCommitMessage):
    """What one task wrote."""

    write: str
    rows: int
    stored: int
    found: int
    """Rows an earlier attempt had stored already."""
    dead: int
    last_sequence: int
    digest: int = 0
    """The sum over the rows: other rows have another."""


class _Network:
    """Real connections and real time."""

    def __init__(self, options: Options, targets: tuple[Target, ...]) -> None:
        self._options = options
        self._targets = targets

    def connect(self) -> SinkConnection:
        return SinkConnection(self._options, self._targets)

    def now_s(self) -> float:
        return time.monotonic()

    def sleep(self, wait_s: float) -> None:
        time.sleep(wait_s)


@dataclass(frozen=True)
class Sink:
    """Everything a task needs to know; it travels to the executors."""

    options: Options
    plan: RowPlan
    checked: Checked

    def write(self, place: Place, batches: Iterator[pyarrow.RecordBatch], run: Run = ONLY_RUN) -> TaskDone:
        """Store the rows of a task."""
        begin_task()
        limits = Limits(self.checked.patterns, self.checked.message_size_max, self.checked.dead_letter_size_max)
        targets = self.checked.targets
        task = SinkTask(_Network(self.options, targets), self.options, place, run, self.plan, limits, targets, batches)
        return TaskDone(place.write, **task.write())

    def commit(self, messages: Sequence[Any], batch: int, *, is_for_good: bool) -> None:
        """Every task is done: the batch as a whole is."""
        done = [message for message in messages if isinstance(message, TaskDone)]
        stream = self.checked.targets[0].stream
        log.info(
            "batch %d to stream %s: %d rows stored, %d were stored already, %d dead letters",
            batch, stream, sum(one.stored for one in done), sum(one.found for one in done),
            sum(one.dead for one in done),
        )  # fmt: skip
        if not done or self.plan.id_mode == NONE:
            return
        sequence, rows = max(one.last_sequence for one in done), sum(one.rows for one in done)
        digest = sum(one.digest for one in done) & DIGEST_MASK
        if self.plan.id_mode != COLUMN:
            self._check_partitions(Place(done[0].write, batch, 0), len(messages))
        found = ask(
            self.options,
            lambda jetstream: Ledger(jetstream, self.options["ledger"], stream).commit(
                done[0].write, batch, sequence, rows, digest, is_for_good=is_for_good
            ),
        )
        check_commit(done[0].write, stream, found, Committed(batch, rows, digest, 0))

    def _check_partitions(self, place: Place, partition_count: int) -> None:
        """A batch that was begun more than once may have been cut into more partitions before."""
        stream = self.checked.targets[0].stream

        def look(jetstream: JetStream) -> set[bytes]:
            ledger = Ledger(jetstream, self.options["ledger"], stream)
            begun = ledger.begun(place)
            if begun is None or not begun.is_again or max(ledger.claims(place), default=0) < partition_count:
                return set()
            connection = SinkConnection(self.options, self.checked.targets)
            try:
                return connection.read_stored(begun.bases, place.batch_prefix).ids
            finally:
                connection.close()

        check_partitions(place, partition_count, ask(self.options, look))


def _sink(raw: Mapping[str, str], schema: StructType) -> Sink:
    options = sink_options(raw)
    plan = plan_rows(schema, options["subject"], options["msgId"])
    return Sink(options, plan, ask(options, lambda jetstream: check_target(jetstream, options, plan)))


def batch_writer(raw: Mapping[str, str], schema: StructType, overwrite: bool) -> JetStreamBatchWriter:
    """The writer of `df.write.format("jetstream")`, once the target has been looked at."""
    if overwrite:
        raise BadOptionError(
            "a stream is appended to: use mode('append'), and purge the stream first if it must be empty"
        )
    return JetStreamBatchWriter(_sink(raw, schema))


def stream_writer(raw: Mapping[str, str], schema: StructType, overwrite: bool) -> JetStreamStreamWriter:
    """The writer of `df.writeStream.format("jetstream")`, once the target has been looked at."""
    if overwrite:
        raise BadOptionError(
            "a stream is appended to: use outputMode('append'), or foreachBatch with a batch write and option writeId"
        )
    sink = _sink(raw, schema)
    if sink.options["writeId"]:
        raise BadOptionError("option writeId is for batch writes: a streaming query is known by its checkpoint")
    return JetStreamStreamWriter(sink)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "rows are written inside a Spark task"
    return context


class JetStreamBatchWriter(DataSourceArrowWriter):
    """One batch write. Task retries store each row once; so does the whole write again under the same writeId."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._is_named = bool(sink.options["writeId"])
        self._version = sink.options["writeVersion"] or 0
        run = f"run-{os.urandom(12).hex()}"
        self._write = sink.options["writeId"] or run
        # How a batch is cut into partitions depends on the size of the cluster, and on what Spark finds on the way.
        self._run = Run(run, keeps_partitions=False)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Store the rows of one task, on an executor."""
        context = _context()
        batch = context.getLocalProperty(BATCH_ID)
        if batch is not None and self._is_named and self._sink.options["writeVersion"] is None:
            # Each batch is another write. Under one name the second would be taken for the first.
            raise BadOptionError(
                f"option writeId in foreachBatch needs option writeVersion, the number of the batch ({batch}): "
                '.option("writeVersion", batch_id)'
            )
        return self._sink.write(Place(self._write, self._version, context.partitionId()), iterator, self._run)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done."""
        self._sink.commit(messages, self._version, is_for_good=self._is_named)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task failed for good. What is stored stays; the same writeId again completes it."""
        log.warning("the write into stream %s was given up; what is stored stays", self._sink.checked.targets[0].stream)


class JetStreamStreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._run = f"run-{os.urandom(12).hex()}"

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Store the rows of one task, on an executor."""
        context = _context()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise BadOptionError("this Spark does not tell tasks their query and batch, so rows cannot be told apart")
        # Spark tells tasks the settings that were made, by the user or by itself for a query with state.
        is_fixed = any(context.getLocalProperty(name) == "false" for name in (ADAPTIVE, ADAPTIVE_STATELESS))
        run = Run(self._run, is_query=True, keeps_partitions=is_fixed)
        return self._sink.write(Place(query, int(batch), context.partitionId()), iterator, run)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All tasks of a batch are done."""
        self._sink.commit(messages, batchId, is_for_good=True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """The batch failed; the query replays it from its checkpoint and stores what is missing."""
        log.warning("batch %d failed; what of it is stored will be found when it is run again", batchId)
