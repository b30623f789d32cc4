"""What a million messages cost in processor time and bytes, on each side: the numbers behind docs/scaling.md.

    python -m bench.spark_sizing                      one million messages of 128 bytes, our server and nats-server
    python -m bench.spark_sizing --messages 200000    quicker

Seconds of processor time, because they hold on a busy machine and add up over many; the wall clock is printed beside
them. The server, the driver with its executors (one JVM in local mode) and the Python workers are counted apart.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psutil

from bench.spark_jobs import SIZE, store
from jetspark.testing.processes import ServerProcess, server_command, server_process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MILLION = 1_000_000


def processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def family_seconds(root: psutil.Process, server_pid: int) -> dict[str, float]:
    """Processor time of everything below this process but the server, Java and Python apart."""
    found = {"java": 0.0, "python": 0.0}
    for process in root.children(recursive=True):
        if process.pid == server_pid:
            continue
        try:
            name = "java" if "java" in process.name() else "python"
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        # Workers are forked and reaped by a daemon: what the dead ones used is its children's time.
        found[name] += (
            times.user + times.system + (times.children_user + times.children_system if name == "python" else 0)
        )
    return found


class Sizing:
    """Measures jobs against one server."""

    def __init__(self, spark: SparkSession, server: ServerProcess, name: str, count: int) -> None:
        self._spark = spark
        self._server = server
        self._name = name
        self._count = count
        self._url = f"nats://{server.host}:{server.port}"

    def read(self, partitions: int) -> DataFrame:
        options = {"servers": self._url, "stream": "BENCH", "minPartitions": str(partitions)}
        return self._spark.read.format("jetstream").options(**options).load()

    def measure(self, job: str, work: Callable[[], Any]) -> dict[str, Any]:
        """One job, after one run that is not counted."""
        work()
        me = psutil.Process(os.getpid())
        server = psutil.Process(self._server.pid)
        before, server_before, started = family_seconds(me, server.pid), processor_seconds(server), time.perf_counter()
        work()
        took_s = time.perf_counter() - started
        after, server_after = family_seconds(me, server.pid), processor_seconds(server)
        scale = MILLION / self._count
        return {
            "server": self._name,
            "job": job,
            "messages a second": round(self._count / took_s),
            "server s": round((server_after - server_before) * scale, 2),
            "spark jvm s": round((after["java"] - before["java"]) * scale, 2),
            "spark python s": round((after["python"] - before["python"]) * scale, 2),
        }

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for partitions in (1, 2, 4):
            frame = self.read(partitions)
            name = f"read, {partitions} partition{'s' if partitions > 1 else ''}"
            found.append(self.measure(name, lambda: self._noop(frame)))  # noqa: B023 - called at once
        with tempfile.TemporaryDirectory() as folder:
            found.append(self.measure("read to Parquet, 2 partitions", lambda: self._parquet(folder)))
        return found

    @staticmethod
    def _noop(frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def _parquet(self, folder: str) -> None:
        self.read(2).write.mode("overwrite").parquet(f"{folder}/rows")

    def stored_bytes(self) -> float:
        """Bytes on the server's disk for each message."""
        total = sum(path.stat().st_size for path in self._server.store_dir.rglob("*") if path.is_file())
        return total / self._count


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=MILLION)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    from jetspark.spark import session

    conf: dict[str, Any] = {"spark.ui.enabled": False, "spark.ui.showConsoleProgress": False}
    conf["spark.driver.memory"] = "1g"
    spark = session("jetspark sizing", master="local[2]", **conf)
    spark.sparkContext.setLogLevel("ERROR")
    rows: list[dict[str, Any]] = []
    for name in ("jetspark", "nats-server"):
        command = server_command(name)
        if command is None:
            print(f"{name} is left out: it is not installed")
            continue
        with server_process(command) as server:
            store(server, arguments.messages)
            sizing = Sizing(spark, server, name, arguments.messages)
            rows += sizing.rows()
            print(f"{name}: {sizing.stored_bytes():.0f} bytes on disk for a message of {SIZE}")
    spark.stop()
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    columns = list(rows[0])
    print(" | ".join(columns) + "   (seconds of processor time for a million messages)")
    for row in rows:
        print(" | ".join(str(row[column]) for column in columns))


if __name__ == "__main__":
    main()
