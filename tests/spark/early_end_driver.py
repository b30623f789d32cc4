"""The driver of the test of rows that end early: what comes before the sink fails once in the middle of a large task.

    python -m tests.spark.early_end_driver FOLDER URL

PySpark does not raise in the writer then: its rows end as if there were no more, and Spark runs the task again. That
shows only in tasks of several Arrow batches. Written are a batch of its own, and a streaming query, which is also
stopped in the middle of its batch and started again; every tenth row of the stream is a dead letter. And a Delta table.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from jetspark.spark.spark_session import session

ROWS = 60_000
FAILS_AFTER = 15_000
CONF: dict[str, Any] = {
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.driver.memory": "1g",
    "spark.python.authenticate.socketTimeout": "90s",
    "spark.sql.streaming.stopTimeout": "60s",
}


def fail_once(batches: Iterator[pyarrow.RecordBatch], mark: Path) -> Iterator[pyarrow.RecordBatch]:
    """The rows as they are; the first attempt at each task fails after some of them."""
    context = TaskContext.get()
    assert context is not None
    given = 0
    for batch in batches:
        yield batch
        given += batch.num_rows
        if context.attemptNumber() == 0 and given >= FAILS_AFTER:
            mark.touch()
            raise RuntimeError("once")


def write_batch(spark: SparkSession, url: str, folder: Path) -> None:
    rows = spark.range(0, ROWS, 1, 2).selectExpr("CAST(id AS STRING) AS data")
    mark = folder / "batch-failed"
    rows = rows.mapInArrow(lambda batches: fail_once(batches, mark), rows.schema)
    rows.write.format("jetstream").options(servers=url, subject="batch.a").mode("append").save()
    assert mark.exists(), "no task failed"


def streamed(spark: SparkSession, url: str) -> DataFrame:
    options = {"servers": url, "stream": "IN", "minPartitions": "1", "startingOffsets": "earliest"}
    return spark.readStream.format("jetstream").options(**options).load().selectExpr("CAST(data AS STRING) AS data")


def write_stream(spark: SparkSession, url: str, folder: Path) -> None:
    mark = folder / "stream-failed"
    rows = streamed(spark, url)
    rows = rows.mapInArrow(lambda batches: fail_once(batches, mark), rows.schema)
    rows = rows.selectExpr("data", "IF(data LIKE '%0', 'not a subject', 'stream.a') AS subject")
    options = {"servers": url, "stream": "STREAM", "deadLetterSubject": "dead.a"}
    writer = rows.writeStream.format("jetstream").options(**options, checkpointLocation=str(folder / "stream"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert mark.exists(), "no task failed"


def write_table(spark: SparkSession, url: str, folder: Path) -> None:
    mark = folder / "table-failed"
    rows = streamed(spark, url)
    rows = rows.mapInArrow(lambda batches: fail_once(batches, mark), rows.schema)
    writer = rows.writeStream.format("jetspark_delta").option("checkpointLocation", str(folder / "table-checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "table")).awaitTermination()
    assert mark.exists(), "no task failed"


def hold_on(batches: Iterator[pyarrow.RecordBatch], here: Path) -> Iterator[pyarrow.RecordBatch]:
    """Some of the rows, and then a wait that only the end of the task ends; all of them the second time."""
    for number, batch in enumerate(batches):
        yield batch
        if number == 1 and not here.exists():
            here.touch()
            threading.Event().wait(300)


def stop_and_go_on(spark: SparkSession, url: str, folder: Path) -> None:
    here = folder / "half-way"
    rows = streamed(spark, url)
    rows = rows.mapInArrow(lambda batches: hold_on(batches, here), rows.schema)
    writer = (
        rows.writeStream.format("jetstream")
        .options(servers=url, subject="stopped.a", checkpointLocation=str(folder / "stopped"))
        .trigger(availableNow=True)
    )
    query = writer.start()
    # Another process makes the file, and a folder tells nobody of it.
    waiting = threading.Event()
    while not here.exists() and query.isActive:
        waiting.wait(0.05)
    query.stop()
    writer.start().awaitTermination()


def main(folder: str, url: str) -> None:
    # Four attempts for each task.
    spark = session("early end", master="local[2,4]", **CONF)
    spark.sparkContext.setLogLevel("OFF")
    write_batch(spark, url, Path(folder))
    write_stream(spark, url, Path(folder))
    write_table(spark, url, Path(folder))
    stop_and_go_on(spark, url, Path(folder))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
