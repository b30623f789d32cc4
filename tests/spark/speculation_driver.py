"""The driver of the test of speculation: a write on a standalone Spark whose first task lags until it has a rival.

    python -m tests.spark.speculation_driver MASTER FOLDER URL...

For each server it writes the same rows. The first attempt at partition 0 gives half of its rows and then waits for the
second attempt, which Spark starts because the others are done; from there on both write the same rows at once.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
from pyspark import TaskContext

from jetspark.spark.spark_session import session

PARTITIONS = 3
ROWS = 600
BATCH_ROWS = 50
RIVAL_TIMEOUT_S = 120
CONF: dict[str, Any] = {
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.executor.memory": "512m",
    "spark.cores.max": 2,
    "spark.driver.host": "127.0.0.1",
    # Batches as small as the rows that a task gives at a time: what it has given is sent before it waits.
    "spark.sql.execution.arrow.maxRecordsPerBatch": BATCH_ROWS,
    "spark.speculation": True,
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": 0.3,
    "spark.speculation.multiplier": 1.01,
    "spark.speculation.minTaskRuntime": "100ms",
}


def lag(batches: Iterator[pyarrow.RecordBatch], rival_is_here: Path) -> Iterator[pyarrow.RecordBatch]:
    """The rows as they are; in partition 0 the first attempt waits half-way for the second."""
    context = TaskContext.get()
    assert context is not None
    is_first = context.attemptNumber() == 0
    given = 0
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            if context.partitionId() == 0 and not is_first:
                rival_is_here.touch()
            if context.partitionId() == 0 and is_first and given >= ROWS // 2:
                wait_for(rival_is_here)
            part = batch.slice(start, BATCH_ROWS)
            given += part.num_rows
            yield part


def lagging(
    rival_is_here: Path,
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    return lambda batches: lag(batches, rival_is_here)


def wait_for(path: Path) -> None:
    # Another process makes the file, and a folder tells nobody of it.
    waiting = threading.Event()
    for _ in range(RIVAL_TIMEOUT_S * 50):
        if path.exists():
            return
        waiting.wait(0.02)
    raise TimeoutError(f"Spark started no second attempt within {RIVAL_TIMEOUT_S} s")


def main(master: str, folder: str, *urls: str) -> None:
    spark = session("speculation", master=master, **CONF)
    spark.sparkContext.setLogLevel("ERROR")
    for number, url in enumerate(urls):
        rival_is_here = Path(folder) / f"rival-{number}"
        rows = spark.range(0, ROWS * PARTITIONS, 1, PARTITIONS).selectExpr("CAST(id AS STRING) AS data")
        rows = rows.mapInArrow(lagging(rival_is_here), rows.schema)
        options = {"servers": url, "subject": "out.a", "maxInFlight": str(BATCH_ROWS // 2)}
        rows.write.format("jetstream").options(**options).mode("append").save()
        assert rival_is_here.exists(), "Spark started no second attempt"
        sys.stdout.write(f"written to {url}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
