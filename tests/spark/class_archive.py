"""Writes down the classes that Spark loads, so that each Java of the tests starts in about half the time.

    python -m tests.spark.class_archive FILE

A Java that is told of the file (`SPARK_SUBMIT_OPTS`, see `tests/conftest.py`) maps it instead of loading and checking
thousands of classes. Another Java, or another Spark, ignores the file. Without it everything works, more slowly.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from jetspark.client.sync import connect
from jetspark.spark.spark_session import session
from jetspark.testing.processes import server_command, server_process
from tests.spark.conftest import CONF, OURS, fill, url_of

# Signed jars and very old classes are left out; that is said of each.
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={} -Xlog:disable"
ROWS = 100
END_TIMEOUT_S = 120


def use_spark(url: str, folder: Path) -> None:
    """What most tests do: a table and a stream of messages, a shuffle, files, a sink, over Spark Connect."""
    spark = session("class archive", remote="local[2]", **CONF)
    try:
        messages = spark.read.format("jetstream").option("servers", url).load("ARCHIVED")
        messages.groupBy("subject").count().collect()
        query = (
            spark.readStream.format("jetstream")
            .option("servers", url)
            .load("ARCHIVED")
            .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .format("parquet")
            .start(str(folder / "table"))
        )
        query.awaitTermination()
        rows = spark.read.parquet(str(folder / "table")).selectExpr("'ARCHIVED.b' AS subject", "data")
        rows.write.format("jetstream").mode("append").option("servers", url).save("ARCHIVED")
    finally:
        spark.stop()


def end_java() -> None:
    """Wait for the end of the Java, which is when it writes the file."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(END_TIMEOUT_S)


def main() -> None:
    """Write the file, whole or not at all."""
    target = Path(sys.argv[1]).absolute()
    written = target.with_suffix(".new")
    written.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = OPTIONS.format(written)
    command = server_command(OURS)
    assert command is not None
    with tempfile.TemporaryDirectory() as folder, server_process(command) as server:
        with connect(url_of(server)) as client:
            fill(client.jetstream().create_stream("ARCHIVED", subjects=["ARCHIVED.>"]), ROWS)
        use_spark(url_of(server), Path(folder))
        end_java()
    written.rename(target)


if __name__ == "__main__":
    main()
