"""The Spark sink against our own client: two tasks of a DataFrame, and one process that publishes with many in flight.

Both write 128-byte messages into a stream of our server, in turn. The sink's rows are made by Spark and carry a message
id each; the client's carry none. The first run of each is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING, Any

from bench.client_jobs import CLIENT_JOBS, prepare, run_face
from jetspark.testing.processes import ServerProcess, server_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "spark-sink"
MEASURE = "sink, two tasks, to our client's pipelined publish in one process"
AT_LEAST = 0.7
SIZE = 128
COUNT = 1_000_000
QUICK_COUNT = 100_000
TASKS = 2
PUBLISH = next(job for job in CLIENT_JOBS if job.name == "client-publish")


def is_sink_wanted(names: list[str] | None) -> bool:
    return not names or "spark" in names or NAME in names


def measure_sink(ours: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """The row of this job."""
    from jetspark.spark import session

    count = QUICK_COUNT if arguments.quick else COUNT
    rounds = arguments.rounds or (1 if arguments.quick else 3)
    conf: dict[str, Any] = {"spark.ui.enabled": False, "spark.ui.showConsoleProgress": False}
    conf["spark.driver.memory"] = "1g"
    spark = session("jetspark bench", master=f"local[{TASKS}]", **conf)
    spark.sparkContext.setLogLevel("ERROR")
    sink_runs: list[float] = []
    client_runs: list[float] = []
    try:
        with server_process(ours) as server:
            prepare(server, PUBLISH, 0)
            write(spark, server, count)
            run_face(server, PUBLISH, "sync", count)
            for _ in range(rounds):
                sink_runs.append(write(spark, server, count))
                client_runs.append(run_face(server, PUBLISH, "sync", count).rate)
    finally:
        spark.stop()
    ratio = statistics.median([a / b for a, b in zip(sink_runs, client_runs, strict=True)])
    return {
        "job": NAME, "measure": MEASURE, "unit": "msg/s", "messages": count, "ours": statistics.median(sink_runs),
        "theirs": statistics.median(client_runs), "ratio": ratio, "at_least": AT_LEAST, "met": ratio >= AT_LEAST,
        "our_runs": sink_runs, "their_runs": client_runs,
    }  # fmt: skip


def write(spark: SparkSession, server: ServerProcess, count: int) -> float:
    """Rows a second, from the call until every row is acknowledged and the write is committed."""
    frame = spark.range(0, count, 1, TASKS).selectExpr(f"rpad(cast(id as string), {SIZE}, 'x') as data")
    started_s = time.perf_counter()
    options = {"servers": f"nats://{server.host}:{server.port}", "subject": "bench.a"}
    frame.write.format("jetstream").options(**options).mode("append").save()
    return count / (time.perf_counter() - started_s)
