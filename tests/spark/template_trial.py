"""What is done to the runs of a template's project until one of them completes with everything.

A disturbance comes after a random number of bytes between Spark and the server, or of new files in the project's state:
in the middle of a batch on a machine of any speed. Every wait has a limit; a trial that reaches one is stuck, and says
why.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from jetspark.testing.processes import ServerProcess
from tests.spark.exactly_once_passage import Passage
from tests.spark.exactly_once_trial import Stuck
from tests.spark.template_definitions import SETTINGS, SINK, SOURCE

log = logging.getLogger("template_faults")

RUN_TIMEOUT_S = 600.0
"""From the last disturbance on."""
END_TIMEOUT_S = 120.0
POLL_S = 0.05
RUNS_MAX = 25
# Bytes of a message on its way, about, and files of a batch.
MESSAGE_BYTES = 130
FILES_MAX = 20
NOT_DATA = {"metastore", "logs", "__pycache__"}
# A function raises within this part of a batch: half a source's task, and less of a sink's, which may have few rows.
PARTS = {SOURCE: 4, SINK: 20}
JVM = "org.apache.spark.deploy.SparkSubmit"
RUNNER = "jetspark.spark.pipelines.runner"
WORKERS = ("pyspark.daemon", "pyspark/daemon", "pyspark.worker", "worker_process")
WORKER_KILL, JVM_KILL, DRIVER_KILL = "worker killed", "JVM killed", "driver killed"
SERVER_KILL, RAISE, STOP = "server killed", "function raised", "run stopped"
KINDS = (WORKER_KILL, JVM_KILL, DRIVER_KILL, SERVER_KILL, RAISE, STOP)
STOPPED = 130
ENDS_RUN = (JVM_KILL, DRIVER_KILL, STOP)
# So small that they leave memory to others; four tries for each task.
SPARK = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.python.authenticate.socketTimeout": "90s",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
MASTER = "local[2,4]"


@dataclass
class World:
    """Where the trial takes place."""

    server: ServerProcess
    passage: Passage
    project: Path
    folder: Path
    batch_rows: int
    places: tuple[str, ...]
    """Where a function may raise."""

    @property
    def url(self) -> str:
        """The server itself."""
        return f"nats://{self.server.host}:{self.server.port}"

    def order(self, place: str) -> Path:
        """The file that tells a task to fail."""
        return self.folder / "orders" / place

    def environment(self) -> dict[str, str]:
        """What every process of a run is told."""
        read = {"maxOffsetsPerTrigger": self.batch_rows, "minPartitions": 2}
        settings = {"orders": str(self.folder / "orders"), "read": read}
        spark = [word for name, value in SPARK.items() for word in ("--conf", f"{name}={value}")]
        return {
            **os.environ,
            # For plain programs; what is declared has its own.
            "PYSPARK_SUBMIT_ARGS": shlex.join(["--master", MASTER, *spark, "pyspark-shell"]),
            SETTINGS: json.dumps(settings),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }


class Run:
    """One run, from its start to the end of its last process."""

    def __init__(self, command: list[str], world: World, number: int) -> None:
        self.log_path = world.folder / f"run-{number:02d}.log"
        with self.log_path.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env=world.environment(), cwd=world.project, start_new_session=True,
            )  # fmt: skip
        self._family: set[psutil.Process] = set()

    def look(self) -> int | None:
        """The exit status, if it is over."""
        self.family()
        return self._process.poll()

    def family(self) -> list[psutil.Process]:
        """Its processes, without the one that was started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._family.update(psutil.Process(self._process.pid).children(recursive=True))
        return [one for one in self._family if one.is_running()]

    def found(self, *words: str) -> list[psutil.Process]:
        """Those with one of these in their command line."""
        return [one for one in self.family() if any(word in " ".join(command_line(one)) for word in words)]

    def workers(self) -> list[psutil.Process]:
        """The Python processes that do Spark's tasks, not the one that makes them."""
        with contextlib.suppress(psutil.NoSuchProcess):
            ours = self.found(*WORKERS)
            return [one for one in ours if not any(other.ppid() == one.pid for other in ours)]
        return []

    def signal(self, number: int) -> None:
        """To the process that was started."""
        self._process.send_signal(number)

    def wait_until_gone(self) -> int:
        """The exit status, once the whole family is gone."""
        family = self.family()
        try:
            status = self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Stuck(f"the run does not end: {self.last_lines()}") from None
        if alive := psutil.wait_procs(family, END_TIMEOUT_S)[1]:
            raise Stuck(f"the run is over, and these are left: {[command_line(one)[:4] for one in alive]}")
        return status

    def kill(self) -> None:
        """All of it, whatever it does."""
        family = self.family()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        for one in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self._process.wait(END_TIMEOUT_S)

    def last_lines(self) -> str:
        """The end of what it said."""
        return self.log_path.read_text(errors="replace")[-1500:]


def command_line(process: psutil.Process) -> list[str]:
    """Its words; none when it is gone."""
    with contextlib.suppress(psutil.Error):
        words: list[str] = process.cmdline()
        return words
    return []


@dataclass
class Trial:
    """The runs of one project, and what is done to them."""

    world: World
    rng: Random
    command: list[str]
    deck: list[str]
    before_run: Callable[[], None] = lambda: None
    done: list[str] = field(default_factory=list)
    endings: Counter[str] = field(default_factory=Counter)
    last_failure: str = ""
    runs: int = 0

    def run_until_complete(self) -> None:
        """Start runs until one of them completes."""
        undisturbed = 0
        while True:
            if self.runs >= RUNS_MAX:
                raise Stuck(f"{self.runs} runs, and none completes. The last failure: {self.last_failure}")
            before = len(self.done)
            self.before_run()
            self.runs += 1
            run = Run(self.command, self.world, self.runs)
            try:
                status = self._attend(run)
            finally:
                run.kill()
            ending = "completed" if status == 0 else "stopped" if status == STOPPED else "failed"
            self.endings[ending] += 1
            log.info("run %d %s", self.runs, ending)
            if ending == "completed":
                return
            if ending == "failed":
                self.last_failure = run.last_lines()
            undisturbed = undisturbed + 1 if len(self.done) == before else 0
            if undisturbed >= 2:
                raise Stuck(f"two runs failed although nothing was done to them: {self.last_failure}")

    def _attend(self, run: Run) -> int:
        """Watch a run to its end, and do to it what is next."""
        is_moment = self._arm() if self.deck else None
        deadline_s = time.monotonic() + RUN_TIMEOUT_S
        while run.look() is None:
            if time.monotonic() > deadline_s:
                raise Stuck(f"a run does not get on: {run.last_lines()}")
            if is_moment is None or not is_moment():
                threading.Event().wait(POLL_S)
                continue
            kind = self.deck[-1]
            is_done = self._disturb(kind, run)
            log.info("%s: %s", kind, "done" if is_done else "nobody there")
            if is_done:
                self.deck.pop()
                self.done.append(kind)
                deadline_s = time.monotonic() + RUN_TIMEOUT_S
                if kind in ENDS_RUN:
                    status = run.wait_until_gone()
                    # A program that ends after its batch ends well.
                    return STOPPED if kind == STOP else status
            is_moment = self._arm() if self.deck else None
        for place in (SOURCE, SINK):
            self.world.order(place).unlink(missing_ok=True)
        return run.wait_until_gone()

    # Moments.

    def _arm(self) -> Callable[[], bool]:
        """Choose the moment of what is next in the deck, and how to see that it has come."""
        kind, part, world = self.deck[-1], self.rng.random(), self.world
        if kind == RAISE:
            place = self.rng.choice(world.places)
            order = world.order(place)
            order.write_text(str(int(part * world.batch_rows / PARTS[place])), encoding="utf-8")
            return lambda: not order.exists()
        if kind in (WORKER_KILL, SERVER_KILL) or self.rng.random() < 0.6:
            world.passage.await_bytes(max(1, int(part * world.batch_rows * MESSAGE_BYTES)))
            return world.passage.moment.is_set
        count = self._files() + self.rng.randint(1, FILES_MAX)
        return lambda: self._files() >= count

    def _files(self) -> int:
        """Files that Spark has written so far: plans, state, tables."""
        walked = os.walk(self.world.project)
        return sum(len(names) for folder, _, names in walked if not NOT_DATA.intersection(Path(folder).parts))

    # What is done. False when there was nobody to do it to.

    def _disturb(self, kind: str, run: Run) -> bool:
        actions: dict[str, Callable[[Run], bool]] = {
            WORKER_KILL: self._kill_worker,
            JVM_KILL: lambda run: self._kill_one(run, JVM),
            DRIVER_KILL: self._kill_driver,
            SERVER_KILL: self._kill_server,
            # The task has done it by itself.
            RAISE: lambda run: True,
            STOP: self._stop,
        }
        return actions[kind](run)

    def _kill_worker(self, run: Run) -> bool:
        """The one whose bytes made the moment, if it is still there, or another one."""
        workers, line = run.workers(), self.world.passage.moment_of
        chosen = [one for one in workers if line is not None and one.pid == line.pid] or workers
        if not chosen:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            self.rng.choice(sorted(chosen, key=lambda one: one.pid)).kill()
            return True
        return False

    def _kill_one(self, run: Run, word: str) -> bool:
        found = run.found(word)
        for one in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        return bool(found)

    def _kill_driver(self, run: Run) -> bool:
        if RUNNER in " ".join(word for one in run.family() for word in command_line(one)):
            return self._kill_one(run, RUNNER)
        # A plain program is the driver itself.
        if not run.found(JVM):
            return False
        run.signal(signal.SIGKILL)
        return True

    def _kill_server(self, run: Run) -> bool:
        server = self.world.server
        server.restart(kill=True)
        self.world.passage.server = (server.host, server.port)
        return True

    def _stop(self, run: Run) -> bool:
        if not run.found(JVM):
            return False
        numbers = [signal.SIGINT, signal.SIGTERM]
        self.rng.shuffle(numbers)
        # One is for an end after the batch, two are for one now.
        for number in numbers[: self.rng.randint(1, 2)]:
            run.signal(number)
        return True
