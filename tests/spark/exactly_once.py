"""A real streaming query whose driver and workers are killed at random moments, and a count of what the stream has.

    python -m tests.spark.exactly_once --server nats-server --kills 100 --seed 1

The query runs in a driver process of its own (`exactly_once_driver`), in `local[2,4]` (a task is tried four times),
into a stream with a duplicate window of one second. A kill is `kill -9`, either of the driver (the Python process and
its JVM; what the JVM had started is left to itself) or of one of its Python workers. A driver that is gone, killed or
because a task failed too often, is started again on the same checkpoint.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import psutil

from jetspark.client.sync import JetStream, connect
from jetspark.testing.processes import server_command, server_process

STREAM = "OUT"
WINDOW_S = 1.0
BATCH_ROWS = 1500
READY_TIMEOUT_S = 240.0
BATCH_TIMEOUT_S = 120.0
# Of ten kills, so many are of the driver.
DRIVER_KILLS_OF_TEN = 2


class Driver:
    """The query's process. It prints a line for each batch it has committed."""

    def __init__(self, url: str, checkpoint: Path, plan: str, log: Path) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.exactly_once_driver", url, str(checkpoint), plan, str(BATCH_ROWS)],
            stdout=subprocess.PIPE, stderr=self._log, stdin=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self.is_running = True

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("batch "):
                self._lines.put(line)
        self._lines.put(None)

    def wait_batch(self, timeout_s: float) -> bool:
        """Until a batch is committed; False when the driver is gone."""
        line = self._lines.get(timeout=timeout_s)
        self.is_running = line is not None
        return self.is_running

    def pass_batches(self) -> None:
        """Forget the batches told so far."""
        while not self._lines.empty():
            self.is_running = self._lines.get() is not None and self.is_running

    def kill(self) -> None:
        """End the Python process and the JVM it started, and nothing else."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self._process.pid).children()
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    if "java" in child.name():
                        child.kill()
        self._process.kill()
        self._process.wait(30)
        self._log.close()
        self.is_running = False

    def kill_worker(self, rng: Random) -> bool:
        """End one of the Python workers; False when there is none."""
        workers = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    if "java" not in process.name() and "java" not in (process.parent() or process).name():
                        workers.append(process)
        if not workers:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            os.kill(rng.choice(sorted(workers, key=lambda one: one.pid)).pid, signal.SIGKILL)
        return True


class Trial:
    """One query over all its drivers."""

    def __init__(self, url: str, folder: Path, plan: str, rng: Random) -> None:
        self._url = url
        self._folder = folder
        self._plan = plan
        self._rng = rng
        self.driver_kills = self.worker_kills = self.drivers = self.lost_drivers = 0

    def run(self, kills: int) -> None:
        """Until there were so many kills; then until one more batch is committed."""
        of_driver = max(1, kills * DRIVER_KILLS_OF_TEN // 10)
        victims = ["driver"] * of_driver + ["worker"] * (kills - of_driver)
        self._rng.shuffle(victims)
        driver = self._start()
        try:
            while victims:
                # The random moment itself; nothing is waited for.
                time.sleep(self._rng.random() * self._rng.choice((0.3, 1.0, 2.0)))  # noqa: TID251 - a moment by chance
                driver.pass_batches()
                if driver.is_running and victims[-1] == "worker":
                    if driver.kill_worker(self._rng):
                        self.worker_kills += 1
                        victims.pop()
                    continue
                if driver.is_running:
                    self.driver_kills += 1
                    victims.pop()
                else:
                    self.lost_drivers += 1
                driver.kill()
                driver = self._start()
            driver.pass_batches()
            while not (driver.is_running and driver.wait_batch(BATCH_TIMEOUT_S)):
                driver.kill()
                driver = self._start()
        finally:
            driver.kill()

    def _start(self) -> Driver:
        """A driver that has committed a batch, or has failed trying."""
        self.drivers += 1
        driver = Driver(self._url, self._folder / "checkpoint", self._plan, self._folder / "driver.log")
        driver.wait_batch(READY_TIMEOUT_S)
        return driver

    def committed_batch(self) -> int:
        """The last batch in Spark's own log."""
        names = [path.name for path in (self._folder / "checkpoint" / "commits").iterdir()]
        return max(int(name) for name in names if name.isdigit())


def count_wrong(js: JetStream, committed: int) -> tuple[int, dict[int, int]]:
    """How many rows are stored, and those of committed batches that are not there once, or any that are there twice.

    The batch that was being written when the last driver ended may be there in part.
    """
    table = js.stream(STREAM).scan(columns=["data"]).read_all()
    found = Counter(int(value) for value in table.column("data").to_pylist())
    wrong = {row: count for row, count in found.items() if count > 1 or row >= (committed + 2) * BATCH_ROWS}
    wrong |= {row: 0 for row in range((committed + 1) * BATCH_ROWS) if not found[row]}
    return table.num_rows, wrong


def run(server: str, kills: int, seed: int, plan: str) -> dict[str, Any]:
    """A whole trial on a server of its own; what happened, with every row that is not there exactly once."""
    command = server_command(server)
    if command is None:
        raise SystemExit("no nats-server binary: install the dev dependencies")
    started_s = time.monotonic()
    with server_process(command) as process, tempfile.TemporaryDirectory(prefix="jetspark-once-") as folder:
        url = f"nats://{process.host}:{process.port}"
        with connect(url) as client:
            client.jetstream().create_stream(STREAM, subjects=["out.>"], duplicate_window=WINDOW_S)
        trial = Trial(url, Path(folder), plan, Random(seed))
        trial.run(kills)
        committed = trial.committed_batch()
        with connect(url) as client:
            row_count, wrong = count_wrong(client.jetstream(), committed)
    return {
        "server": server, "plan": plan, "seed": seed, "driver_kills": trial.driver_kills,
        "worker_kills": trial.worker_kills, "drivers": trial.drivers,
        "drivers_lost_to_failed_tasks": trial.lost_drivers,
        "batches": committed + 1, "rows": row_count, "seconds": round(time.monotonic() - started_s),
        "wrong": dict(sorted(wrong.items())[:20]),
    }  # fmt: skip


def main() -> None:
    """Run a trial and print its report as JSON; fails when a row is not there exactly once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=["jetspark", "nats-server"], default="jetspark")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plan", choices=["map", "shuffle"], default="shuffle")
    asked = parser.parse_args()
    report = run(asked.server, asked.kills, asked.seed, asked.plan)
    print(json.dumps(report))
    sys.exit(1 if report["wrong"] else 0)


if __name__ == "__main__":
    main()
