"""The driver that `exactly_once` disturbs: one streaming query from stream to stream, started and stopped as told.

    python -m tests.spark.exactly_once_driver '{"master": "local[2,4]", ...}'

Its standard input has a line for each thing to do: `start 50000` (a query whose tasks have so many rows) and `stop`. It
prints what became of it: `ready`, `started`, `stopped`, `ended` and why.

The environment variable JETSPARK_HARNESS_BREAKS=note breaks the sink's rule, to see whether the harness notices: a
claim that notes rows as stored is then taken for a task that is done, as in version 0.1.0.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from jetspark.spark.sink import JetStreamStreamWriter
from jetspark.spark.sink_task import SinkTask
from jetspark.spark.source import JetStreamDataSource
from jetspark.spark.spark_session import session

BREAKS = "JETSPARK_HARNESS_BREAKS"
TASKS = 2
# Arrow batches of a task, at least: what ends early is noticed only between two of them.
ARROW_BATCHES = 5
ARROW_ROWS_MAX = 10_000
POLL_S = 0.05
CONF: dict[str, Any] = {
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.sql.shuffle.partitions": TASKS,
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.cores.max": 2,
    "spark.python.authenticate.socketTimeout": "90s",
    "spark.sql.streaming.stopTimeout": "60s",
    # A short life: the time goes into starting, not into running well.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def fail_as_told(batches: Iterator[pyarrow.RecordBatch], order: Path, rows: int) -> Iterator[pyarrow.RecordBatch]:
    """The rows as they are. The first task that finds an order fails, after as many rows as it says."""
    given, piece = 0, max(1, rows // 20)
    for batch in batches:
        for start in range(0, batch.num_rows, piece):
            part = batch.slice(start, piece)
            yield part
            given += part.num_rows
            with contextlib.suppress(FileNotFoundError):
                if given >= int(order.read_text()):
                    # Of several tasks one succeeds.
                    order.unlink()
                    raise RuntimeError("as told")


class BelievingWriter(JetStreamStreamWriter):
    """A sink with the fault of version 0.1.0."""

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Any:
        rule = SinkTask._is_noted

        def believe(task: Any) -> bool:
            if task._claim is None or task._claim.note is None:
                return rule(task)
            for _ in task._batches:
                pass
            task._summary = task._claim.note.summary
            return True

        SinkTask._is_noted = believe  # type: ignore[method-assign, assignment]  # it is here to break the rule
        try:
            return super().write(iterator)
        finally:
            SinkTask._is_noted = rule  # type: ignore[method-assign]  # see above


class BelievingSource(JetStreamDataSource):
    """The format with that sink. Defined in a program, so Spark sends the class itself to its workers."""

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark calls it so
        writer = super().streamWriter(schema, overwrite)
        writer.__class__ = BelievingWriter
        return writer


def writer_of(spark: SparkSession, asked: dict[str, Any], rows: int) -> DataStreamWriter:
    """The query, with tasks of so many rows."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", min(ARROW_ROWS_MAX, max(1, rows // ARROW_BATCHES)))
    read = {
        "servers": asked["source"],
        "stream": "IN",
        "startingOffsets": "earliest",
        "minPartitions": TASKS,
        "maxOffsetsPerTrigger": rows * TASKS,
        "batchSize": max(1, rows // ARROW_BATCHES),
        # It gives up soon, so that its rows end early.
        "numRetries": 0,
        "reconnectTimeoutMs": 0,
    }
    given = spark.readStream.format("jetstream").options(**read).load().select("data")
    if asked["plan"] == "shuffle":
        given = given.repartition(TASKS, "data")
    order = Path(asked["order"])
    given = given.mapInArrow(lambda batches: fail_as_told(batches, order, rows), given.schema)
    # Few rows in flight, so that sending takes a while and most moments find a task half stored.
    write = {"servers": asked["sink"], "subject": "out.rows", "maxInFlight": max(8, rows // 25)}
    return given.writeStream.format("jetstream").options(checkpointLocation=asked["checkpoint"], **write)


def told(lines: queue.SimpleQueue[str]) -> str:
    """The next thing to do; nothing when there is none."""
    try:
        return lines.get(timeout=POLL_S)
    except queue.Empty:
        return ""


def read_lines(lines: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line.strip())
    lines.put("end")


def say(what: str) -> None:
    print(what, flush=True)


def main(asked: dict[str, Any]) -> None:
    spark = session("exactly once", master=asked["master"], **CONF)
    spark.sparkContext.setLogLevel("ERROR")
    if os.environ.get(BREAKS) == "note":
        spark.dataSource.register(BelievingSource)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=read_lines, args=(lines,), daemon=True).start()
    say("ready")
    query: StreamingQuery | None = None
    while (line := told(lines)) != "end":
        if query is not None and not query.isActive and line != "stop":
            say(f"ended {' '.join(str(query.exception()).split())[:1500]}")
            query = None
        if line.startswith("start "):
            query = writer_of(spark, asked, int(line.split()[1])).start()
            say("started")
        elif line == "stop":
            if query is not None:
                query.stop()
                query = None
            say("stopped")
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
