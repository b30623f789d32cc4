"""What a pipeline grows into: a standalone Spark with a master and two workers."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyspark

from jetspark.spark.java import ensure_java

START_TIMEOUT_S = 90
_MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_IN = re.compile(r"Registering worker ")


def spark_class(name: str, *arguments: str, folder: Path) -> subprocess.Popen[str]:
    """One of Spark's own processes, from the installed package."""
    ensure_java()
    home = str(Path(pyspark.__file__).parent)
    variables = {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    # Executors find this package where we did, whichever way that was.
    variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [f"{home}/bin/spark-class", name, *arguments],
        cwd=folder,
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


class Lines:
    """The lines a process writes, read to the end so that it never has to wait, and waited for."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._changed = threading.Condition()
        self._lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()

    def wait_for(self, pattern: re.Pattern[str], count: int = 1) -> re.Match[str]:
        """The first line that matches, once so many do."""

        def found() -> list[re.Match[str]]:
            return [match for line in self._lines if (match := pattern.search(line))]

        with self._changed:
            came = self._changed.wait_for(lambda: len(found()) >= count, START_TIMEOUT_S)
            assert came, "Spark did not start:\n" + "".join(self._lines[-20:])
            return found()[0]


@contextlib.contextmanager
def standalone_spark(folder: Path) -> Iterator[str]:
    """A master and two workers with a core each; the master's address.

    The workers go by different names: Spark starts no second attempt at a task on a host that runs the first.
    """
    started: list[subprocess.Popen[str]] = []
    package = "org.apache.spark.deploy"
    page = ("--webui-port", "0")
    try:
        master = spark_class(f"{package}.master.Master", "--host", "127.0.0.1", *page, "--port", "0", folder=folder)
        started.append(master)
        lines = Lines(master)
        address = lines.wait_for(_MASTER_AT)[1]
        for number, host in enumerate(("127.0.0.1", "localhost")):
            work = folder / f"worker-{number}"
            work.mkdir()
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(work))
            worker = spark_class(f"{package}.worker.Worker", "--host", host, *page, *limits, address, folder=folder)
            started.append(worker)
            Lines(worker)
        lines.wait_for(_WORKER_IN, 2)
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)
