"""The sink as Spark meets it: a writer for a batch, one for a streaming query, and what they say when they are done.

Which write, batch and partition a task is, is read here from Spark; everything else is decided in the modules named
`sink_*`. A streaming query's identity is that of its checkpoint, so it survives restarts. A batch write has the
identity the user gave it, or a new one each time.
"""

from __future__ import annotations

import logging
import os
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
from jetspark.spark.sink_claim import SinkError
from jetspark.spark.sink_ids import ONLY_RUN, Place, Run
from jetspark.spark.sink_ledger import Ledger
from jetspark.spark.sink_limits import Limits
from jetspark.spark.sink_options import NONE, sink_options
from jetspark.spark.sink_publish import ADAPTIVE_STATELESS, TaskWriter
from jetspark.spark.sink_rows import RowPlan, plan_rows
from jetspark.spark.worker_process import begin_task

if TYPE_CHECKING:
    import pyarrow

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
    named: int = 0
    """The sum of the rows' own ids."""


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
        summary = TaskWriter(self.options, place, run, self.plan, limits, self.checked.targets).write(batches)
        return TaskDone(place.write, **summary)

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
        found = ask(
            self.options,
            lambda jetstream: Ledger(jetstream, self.options["ledger"], stream).commit(
                done[0].write, batch, sequence, rows, is_for_good=is_for_good
            ),
        )
        if found.batch > batch:
            raise SinkError(
                f"batch {batch} is done, and batch {found.batch} of this query is already committed in {stream}: "
                "another driver runs with the same checkpoint, or a copy of it. End one of them"
            )
        if found.rows not in (None, rows):
            raise SinkError(
                f"{done[0].write} (batch {batch}) was already committed in {stream} with {found.rows} rows, and this "
                f"time it has {rows}: nothing was written. Other rows need another writeId, or another checkpoint"
            )


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
        return self._sink.write(Place(self._write, self._version, _context().partitionId()), iterator, self._run)

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
