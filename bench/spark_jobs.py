"""Our Spark source against what bounds it: Spark itself, another server, a plain source, a source that does nothing.

One session (`local[2]`), both servers filled once, runs in turn; a ratio is the median over rounds of neighbours. Reads
go to Spark's no-op sink. The first run of each is not counted. The sink's own job is in `spark_sink_job`.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.load import Connection, publish_windowed
from jetspark.testing.processes import ServerProcess, server_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZE = 128
COUNT = 1_000_000
QUICK_COUNT = 100_000
# nats-py needs a minute for a million; its rate does not depend on how many there are.
NATS_PY_COUNT = 50_000
TINY_BATCHES = 20
TINY_ROWS = 10
# Each part of this job, with the ratio asked for.
PARTS = {
    "spark-batch-ceiling": ("batch read, to a source that yields the same Arrow rows without a network", 0.3),
    "spark-batch-server": ("batch read from our server, to this source reading from nats-server", 1.2),
    "spark-batch-nats-py": ("batch read, to a plain source written on nats-py", 20.0),
    "spark-streaming": ("streaming read, everything in one trigger, to the batch read", 0.6),
    # 1.25 times the other's time at most.
    "spark-tiny-batches": ("a micro-batch of ten rows, to a source that does nothing", 0.8),
}

Row = dict[str, Any]


def is_wanted(names: list[str] | None) -> bool:
    return not names or any(name == "spark" or name in PARTS for name in names)


def measure_spark(ours: list[str], theirs: list[str], arguments: argparse.Namespace) -> list[Row]:
    """Every part of the job; a row for each."""
    from jetspark.spark import session

    count = QUICK_COUNT if arguments.quick else COUNT
    rounds = arguments.rounds or (1 if arguments.quick else 3)
    conf: dict[str, Any] = {"spark.ui.enabled": False, "spark.ui.showConsoleProgress": False}
    conf["spark.driver.memory"] = "1g"
    spark = session("jetspark bench", master="local[2]", **conf)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with server_process(ours) as our_server, server_process(theirs) as their_server:
            for server in (our_server, their_server):
                store(server, count)
            return SparkBench(spark, our_server, their_server, count).rows(rounds)
    finally:
        spark.stop()


def store(server: ServerProcess, count: int) -> None:
    """The messages to read, and a small stream for tiny batches."""
    connection = Connection(server.host, server.port)
    for name, subject in (("BENCH", "bench.>"), ("TINY", "tiny.>")):
        connection.request(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [subject], "allow_direct": True})
    publish_windowed([connection], "bench.a", SIZE, count, 4_000)
    publish_windowed([connection], "tiny.a", SIZE, TINY_BATCHES * TINY_ROWS, 100)
    connection.close()


class SparkBench:
    """One session and two filled servers."""

    def __init__(self, spark: SparkSession, ours: ServerProcess, theirs: ServerProcess, count: int) -> None:
        from bench.spark_sources import CeilingSource, NatsPySource, NothingSource

        for source in (CeilingSource, NatsPySource, NothingSource):
            spark.dataSource.register(source)
        self._spark = spark
        self._our_url = f"nats://{ours.host}:{ours.port}"
        self._their_url = f"nats://{theirs.host}:{theirs.port}"
        self._count = count

    def rows(self, rounds: int) -> list[Row]:
        """Warm up, then everything in turn, `rounds` times."""
        measured: dict[str, Callable[[], float]] = {
            "ours": lambda: self.batch("jetstream", self._count, servers=self._our_url, stream="BENCH"),
            "ceiling": lambda: self.batch("bench_ceiling", self._count, count=str(self._count)),
            "theirs": lambda: self.batch("jetstream", self._count, servers=self._their_url, stream="BENCH"),
            "streaming": lambda: self.streaming(),
            "natspy": lambda: self.batch("bench_natspy", NATS_PY_COUNT, url=self._our_url, count=str(NATS_PY_COUNT)),
            "tiny": lambda: self.tiny("jetstream", servers=self._our_url, stream="TINY", startingOffsets="earliest",
                                      maxOffsetsPerTrigger=str(TINY_ROWS)),
            "nothing": lambda: self.tiny("bench_nothing", batches=str(TINY_BATCHES), rows=str(TINY_ROWS)),
        }  # fmt: skip
        for run in measured.values():
            run()
        runs: dict[str, list[float]] = {name: [] for name in measured}
        for _ in range(rounds):
            for name, run in measured.items():
                runs[name].append(run())
        return [
            self._row("spark-batch-ceiling", runs["ours"], runs["ceiling"]),
            self._row("spark-batch-server", runs["ours"], runs["theirs"]),
            self._row("spark-batch-nats-py", runs["ours"], runs["natspy"]),
            self._row("spark-streaming", runs["streaming"], runs["ours"]),
            self._row("spark-tiny-batches", runs["tiny"], runs["nothing"]),
        ]

    def batch(self, name: str, count: int, /, **options: str) -> float:
        """Rows a second of a batch read."""
        started_s = time.perf_counter()
        frame = self._spark.read.format(name).options(**options).load()
        frame.write.format("noop").mode("overwrite").save()
        return count / (time.perf_counter() - started_s)

    def streaming(self) -> float:
        """Rows a second of one trigger that takes everything."""
        options = {"servers": self._our_url, "stream": "BENCH", "startingOffsets": "earliest"}
        batches = [one for one in self._progress("jetstream", options) if one["numInputRows"]]
        assert sum(one["numInputRows"] for one in batches) == self._count
        taken_ms: float = sum(one["durationMs"]["triggerExecution"] for one in batches)
        return self._count / (taken_ms / 1000)

    def tiny(self, name: str, /, **options: str) -> float:
        """Micro-batches a second, of a few rows each; the first, which starts processes, is left out."""
        batches = self._progress(name, options)
        assert len(batches) >= TINY_BATCHES
        usual_ms: float = statistics.median(one["durationMs"]["triggerExecution"] for one in batches[1:TINY_BATCHES])
        return 1000 / usual_ms

    def _progress(self, name: str, options: dict[str, str]) -> list[dict[str, Any]]:
        checkpoint = tempfile.mkdtemp(prefix="jetspark-bench-")
        try:
            frame = self._spark.readStream.format(name).options(**options).load()
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            return [dict(one) for one in query.recentProgress]
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)

    def _row(self, name: str, ours: list[float], theirs: list[float]) -> Row:
        measure, at_least = PARTS[name]
        ratio = statistics.median([a / b for a, b in zip(ours, theirs, strict=True)])
        return {
            "job": name,
            "measure": measure,
            "unit": "1/s" if name == "spark-tiny-batches" else "msg/s",
            "messages": self._count,
            "ours": statistics.median(ours),
            "theirs": statistics.median(theirs),
            "ratio": ratio,
            "at_least": at_least,
            "met": ratio >= at_least,
            "our_runs": ours,
            "their_runs": theirs,
        }
