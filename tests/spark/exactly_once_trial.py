"""What is done to a streaming query while it writes, until every row that it was given is committed.

A disturbance comes after a random number of bytes, which is in the middle of a task on a machine of any speed. Every
wait has a limit; a trial that reaches one is stuck, and says why.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from jetspark.client.sync import connect
from jetspark.testing.processes import ServerProcess
from tests.spark.exactly_once_driver import TASKS
from tests.spark.exactly_once_passage import Passage

log = logging.getLogger("exactly_once")

ROW_BYTES = 200
# A row on its way into the stream, with its id and the name of the inbox; and out of it.
SINK_BYTES, SOURCE_BYTES = ROW_BYTES + 150, ROW_BYTES + 70
READY_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 100.0
# From the last disturbance on.
PHASE_TIMEOUT_S = 240.0
FEED_TIMEOUT_S = 120.0
GIVE_UP_TIMEOUT_S = 10.0
# What a client tries before it gives a lost connection up, see `spark.connections`.
TRIES = 5
POLL_S = 0.05
FEED_ROWS = 20_000

COMMIT = "driver killed in commit"
DRIVER, EXECUTOR, SERVER = "driver killed", "executor killed", "server killed"
SINK_WORKER, SOURCE_WORKER = "sink worker killed", "source worker killed"
FUNCTION, SOURCE_CUT, SINK_CUT, STOP = "function raised", "source gave up", "sink cut off", "query stopped"
# What the sink's commit sends when the batch is on record, just before Spark takes it for committed.
COMMIT_WORDS = b".STREAM.PURGE.KV_"
# How often, of this many.
DECK = {
    SINK_WORKER: 4, SOURCE_WORKER: 3, FUNCTION: 3, SOURCE_CUT: 2, SINK_CUT: 2, STOP: 2, SERVER: 2, DRIVER: 1,
    COMMIT: 1,
}  # fmt: skip
CLUSTER_DECK = {EXECUTOR: 6, SINK_WORKER: 2, SOURCE_WORKER: 1, FUNCTION: 1, STOP: 1, SERVER: 1, DRIVER: 1, COMMIT: 1}


class Stuck(Exception):
    """A wait has reached its limit."""


def row(number: int) -> bytes:
    """A row of the trial; its number is in front."""
    return (b"%012d" % number).ljust(ROW_BYTES, b".")


class Driver:
    """The query's process."""

    def __init__(self, asked: dict[str, str], log: Path) -> None:
        self._log_path = log
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.exactly_once_driver", json.dumps(asked)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )  # fmt: skip
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.split(" ")[0].strip() in ("ready", "started", "stopped", "ended"):
                self._said.put(line.strip())
        self._said.put("gone")

    def tell(self, what: str) -> None:
        """Give it a line. A driver that is gone says so by itself."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{what}\n")
            self._process.stdin.flush()

    def heard(self) -> str:
        """What it has said; nothing when there is nothing new."""
        with contextlib.suppress(queue.Empty):
            return self._said.get_nowait()
        return ""

    def wait_for(self, word: str, timeout_s: float) -> None:
        """Until it says this; Stuck when it does not, or is gone."""
        deadline_s = time.monotonic() + timeout_s
        heard = ""
        while not heard.startswith(word):
            try:
                heard = self._said.get(timeout=max(0.0, deadline_s - time.monotonic()))
            except queue.Empty:
                heard = "silent"
            if heard in ("gone", "silent"):
                raise Stuck(f"the driver is {heard}, and was to be {word}: {self.last_lines()}")

    def last_lines(self) -> str:
        """The end of its log."""
        return self._log_path.read_text(errors="replace")[-2000:]

    def kill(self) -> None:
        """End the Python process and the JVM it started, and nothing else."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self._process.pid).children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if "java" in child.name():
                        child.kill()
        self._process.kill()
        self._process.wait(READY_TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]  # both are pipes


@dataclass
class World:
    """Where the trial takes place."""

    server: ServerProcess
    source: Passage
    sink: Passage
    folder: Path
    master: str
    plan: str

    @property
    def url(self) -> str:
        """The server itself."""
        return f"nats://{self.server.host}:{self.server.port}"

    @property
    def order(self) -> Path:
        """The file that tells a task to fail."""
        return self.folder / "order"

    @property
    def checkpoint(self) -> Path:
        """The query's."""
        return self.folder / "checkpoint"


@dataclass
class Trial:
    """One query over all its drivers."""

    world: World
    rng: Random
    sizes: Sequence[int]
    deck: list[str]
    done: Counter[str] = field(default_factory=Counter)
    batches: Counter[int] = field(default_factory=Counter)
    fed: int = 0
    drivers: int = 0
    failed_queries: int = 0
    last_failure: str = ""

    def run(self, limit_s: float) -> None:
        """Until everything in the deck was done, or the time is over; what was begun is always finished."""
        deadline_s = time.monotonic() + limit_s
        self._rows = 0
        self._driver = self._new_driver()
        try:
            sizes: list[int] = []
            while self.deck and time.monotonic() < deadline_s:
                if not sizes:
                    sizes = list(self.sizes)
                    self.rng.shuffle(sizes)
                self._phase(sizes.pop())
        finally:
            self._driver.kill()

    def _phase(self, rows: int) -> None:
        """Some batches with tasks of this size, and what is done to them."""
        batches = self.rng.randint(1, 2)
        self._feed(rows * TASKS * batches)
        self.batches[rows] += batches
        log.info("%d rows a task, %d batches", rows, batches)
        if self._rows:
            self._driver.tell("stop")
            self._driver.wait_for("stopped", STOP_TIMEOUT_S)
        self._rows = rows
        self._driver.tell(f"start {rows}")
        left = self.rng.randint(2, 4 * batches)
        kind = self._arm() if self.deck else ""
        deadline_s = time.monotonic() + PHASE_TIMEOUT_S
        while self.committed() < self.fed:
            if time.monotonic() > deadline_s:
                raise Stuck(f"{self.committed()} of {self.fed} rows are committed. {self._why()}")
            self._listen()
            if kind and self._is_moment(kind):
                is_done = self._disturb(kind)
                log.info("%s: %s", kind, "done" if is_done else "nobody there")
                if is_done:
                    self.done[kind] += 1
                    self.deck.pop()
                    left -= 1
                    # Each disturbance costs its time, a new driver most of all.
                    deadline_s = time.monotonic() + PHASE_TIMEOUT_S
                kind = self._arm() if left and self.deck else ""
        self.world.order.unlink(missing_ok=True)
        log.info("%d rows are committed", self.fed)

    def _why(self) -> str:
        return f"The last failure: {self.last_failure or 'none'}; {self._driver.last_lines()}"

    def _feed(self, count: int) -> None:
        """Give the query rows to read."""
        with connect(self.world.url) as client:
            jetstream = client.jetstream()
            end = self.fed + count
            for first in range(self.fed, end, FEED_ROWS):
                payloads = [row(number) for number in range(first, min(end, first + FEED_ROWS))]
                subjects, blocks = [b"in"] * len(payloads), [b""] * len(payloads)
                jetstream.publish_many(subjects, blocks, payloads).wait(FEED_TIMEOUT_S)
            self.fed = end

    def committed(self) -> int:
        """How many rows are in the batches that Spark's own log has as committed."""
        commits = self.world.checkpoint / "commits"
        names = [int(path.name) for path in commits.iterdir() if path.name.isdigit()] if commits.is_dir() else []
        if not names:
            return 0
        offset = (self.world.checkpoint / "offsets" / str(max(names))).read_text().splitlines()[-1]
        return int(json.loads(offset)["streams"]["IN"]["seq"])

    def _listen(self) -> None:
        """A query that failed is started again, and so is a driver that is gone."""
        heard = self._driver.heard()
        if heard.startswith("ended"):
            self.failed_queries += 1
            log.info("%s", heard[:300])
            self.last_failure = heard
            self._driver.tell(f"start {self._rows}")
        elif heard == "gone":
            self._driver.kill()
            self._driver = self._new_driver()
            self._driver.tell(f"start {self._rows}")

    def _new_driver(self) -> Driver:
        self.drivers += 1
        world = self.world
        asked = {
            "master": world.master, "plan": world.plan, "source": world.source.url, "sink": world.sink.url,
            "checkpoint": str(world.checkpoint), "order": str(world.order),
        }  # fmt: skip
        driver = Driver(asked, world.folder / "driver.log")
        driver.wait_for("ready", READY_TIMEOUT_S)
        log.info("driver %d is ready", self.drivers)
        return driver

    # Moments.

    def _arm(self) -> str:
        """Choose the moment of what is next in the deck."""
        # Not near the end, so that others find the same batch unfinished.
        kind, part = self.deck[-1], self.rng.random() * 0.7
        if kind == FUNCTION:
            self.world.order.write_text(str(int(part * self._rows)))
        elif kind == COMMIT:
            self.world.sink.await_words(COMMIT_WORDS)
        else:
            bytes_each = SOURCE_BYTES if self._passage(kind) is self.world.source else SINK_BYTES
            self._passage(kind).await_bytes(int(part * self._rows * TASKS * bytes_each))
        return kind

    def _passage(self, kind: str) -> Passage:
        return self.world.source if kind in (SOURCE_WORKER, SOURCE_CUT) else self.world.sink

    def _is_moment(self, kind: str) -> bool:
        moment = self._passage(kind).moment
        if kind == FUNCTION:
            # Another process removes the file, and a folder tells nobody of it.
            threading.Event().wait(POLL_S)
            return not self.world.order.exists()
        return moment.wait(POLL_S)

    # What is done. False when there was nobody to do it to.

    def _disturb(self, kind: str) -> bool:
        actions: dict[str, Callable[[], bool]] = {
            DRIVER: self._kill_driver,
            COMMIT: self._kill_driver_in_commit,
            EXECUTOR: self._kill_executor,
            SERVER: self._kill_server,
            SINK_WORKER: lambda: self._kill_worker(self.world.sink),
            SOURCE_WORKER: lambda: self._kill_worker(self.world.source),
            # The task has done it by itself.
            FUNCTION: lambda: True,
            SOURCE_CUT: self._cut_source,
            SINK_CUT: self._cut_sink,
            STOP: self._stop,
        }
        return actions[kind]()

    def _kill_driver(self) -> bool:
        self._driver.kill()
        self._driver = self._new_driver()
        self._driver.tell(f"start {self._rows}")
        return True

    def _kill_driver_in_commit(self) -> bool:
        before = self.committed()
        self._driver.kill()
        # Otherwise Spark was faster.
        is_between = self.committed() == before
        return self._kill_driver() and is_between

    def _kill_worker(self, passage: Passage) -> bool:
        pid = passage.worker()
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    def _kill_executor(self) -> bool:
        """The one whose worker is sending."""
        pid = self.world.sink.worker()
        if pid is None:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            for parent in psutil.Process(pid).parents():
                if any("CoarseGrainedExecutorBackend" in word for word in parent.cmdline()):
                    parent.kill()
                    return True
        return False

    def _kill_server(self) -> bool:
        server = self.world.server
        server.restart(kill=True)
        self.world.source.server = self.world.sink.server = (server.host, server.port)
        return True

    def _cut_source(self) -> bool:
        """Cut who reads, until they have given up."""
        source = self.world.source
        if source.worker() is None:
            return False
        with source.blocked():
            cut = source.at_work()
            for line in cut:
                line.cut()
            deadline_s = time.monotonic() + GIVE_UP_TIMEOUT_S
            while cut and source.refused_count < TRIES * len(cut) and time.monotonic() < deadline_s:
                threading.Event().wait(POLL_S)
        return bool(cut)

    def _cut_sink(self) -> bool:
        line = self.world.sink.moment_of
        if line is None or not line.is_at_work:
            return False
        line.cut()
        return True

    def _stop(self) -> bool:
        self._driver.tell("stop")
        self._driver.wait_for("stopped", STOP_TIMEOUT_S)
        self._driver.tell(f"start {self._rows}")
        return True


def shuffled_deck(deck: dict[str, int], count: int, rng: Random) -> list[str]:
    """So many kinds, each there at least once if there is room, the others as often as the deck says."""
    kinds = list(deck)
    rng.shuffle(kinds)
    chosen = kinds[:count]
    chosen += rng.choices(kinds, [deck[kind] for kind in kinds], k=count - len(chosen))
    rng.shuffle(chosen)
    return chosen
