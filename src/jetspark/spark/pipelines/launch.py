"""Running a project: what Spark must be told so that it works, and works again.

Decided here: the static settings of the catalog and the warehouse, the environment of the driver, what of its output
is news, and how a run is stopped. The run itself happens in `runner`, in a process of its own; how far it has come is
read from the checkpoints by whoever watches.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from jetspark.clock import Clock, SystemClock
from jetspark.spark.left_out import LeftOut, from_line
from jetspark.spark.pipelines.errors import PipelineError
from jetspark.spark.pipelines.project import CONF_PREFIX, Project
from jetspark.spark.pipelines.run_records import RUNNING, only_run, put_record
from jetspark.spark.pipelines.runner import JVM_ENDED, how_ended
from jetspark.spark.spark_session import KEPT_PARTITIONS, REDACTION, REDACTION_SETTING

STOP_TIMEOUT_S = 20.0
_EVENT = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: (.*)$")
_FLOW = re.compile(r"^Flow '?([^' ]+)'? (?:is|has) ([A-Z_]+)")
# What Java escapes in the path of a URI.
_ESCAPED = re.compile(r'[\s"<>\\^`{|}%#?\[\]\x00-\x1f\x7f]')
_DERBY_BUSY = "Another instance of Derby may have already booted"
_READS = re.compile(r"^(?:Importing|Registering SQL file) (.+)\.\.\.$")
_FRAME = re.compile(r'^\s+File "(.+)", line (\d+)')
# What Spark prints after the event of a flow that failed.
_FLOW_ERROR = "Error: "
_OF_FLOW = re.compile(r"^(?:Flow|Failed to resolve flow:) '?([^' ]+)")
_QUERY = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
_TRACEBACK = "Traceback (most recent call last):"
_AFTER_TRACEBACK = (" SQLSTATE", "===")
# The line of a traceback that says what was raised.
_RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$")
# What the last line of a Python traceback looks like: the error itself.
_ERROR = re.compile(r"^[\w.]*(?:Exception|Error)\b.*: ?")


@dataclass
class Reasons:
    """Finds in the output of a run why it failed: what Spark says of a flow, or else Python's last word and its place.

    What Spark says of a flow may be a traceback, whose last line is the reason. The place is the last line of a
    definition that a traceback names, or the file that was being read.
    """

    directory: Path = field(default_factory=Path)
    flows: list[str] = field(default_factory=list)
    last: str = ""
    place: str = ""
    file: str = ""
    flow: str = ""
    is_open: bool = False
    is_traced: bool = False
    root: str = ""
    """What the rest of what was said comes from."""

    def take(self, line: str) -> None:
        """One line that is no event."""
        frame = _FRAME.match(line)
        raised = _RAISED.match(line) if self.is_traced else None
        if frame is not None:
            self.place = self._within(frame[1], f", line {frame[2]}") or self.place
        elif raised is not None:
            # The last of several is what the others led to.
            name, words = raised[1], raised[2] or ""
            self.flows[-1] = self._of_flow(words if name.startswith("jetspark.") and words else line)
        elif _DERBY_BUSY in line:
            self.root = "another run of this project has its catalog open: wait for it to end"
        elif line.startswith(JVM_ENDED):
            self.root = line
        elif line.startswith(_FLOW_ERROR):
            self._begin_flow(line.removeprefix(_FLOW_ERROR))
        elif _ERROR.match(line) and not line.startswith(("org.", "java.")):
            # The JVM's own lines are its log.
            self.last, self.is_open = line, line.endswith(": ")
        elif self.is_open and line.strip():
            # Some errors say nothing on the line of their name.
            self.last, self.is_open = self.last + line.strip(), False
        self.is_traced = self.is_traced and not line.startswith(_AFTER_TRACEBACK)

    def _begin_flow(self, said: str) -> None:
        self.flows.append(self._of_flow(_QUERY.sub("", said)))
        self.is_traced = said.endswith(_TRACEBACK)

    def _of_flow(self, said: str) -> str:
        return f"flow {self.flow}: {said}" if self.flow else said

    def text(self) -> str:
        """The reason in one line, or nothing."""
        # A flow that is tried again says the same again.
        said = self.root or "; ".join(list(dict.fromkeys(self.flows))[:3])
        where = self.place or self.file
        return said or (f"{where}: {self.last}" if where and self.last else self.last)

    def begin(self, event: str) -> None:
        """A step that begins: the reading of a file, what becomes of a flow."""
        read, flow = _READS.match(event), _OF_FLOW.match(event)
        self.file = self._within(read[1], "") if read is not None else ""
        self.flow = flow[1].rstrip(".").rpartition(".")[2] if flow is not None else ""
        self.is_traced = False

    def _within(self, name: str, rest: str) -> str:
        """A file of the project with the rest behind it; nothing for a file of anybody else."""
        path = Path(name)
        return f"{path.relative_to(self.directory)}{rest}" if path.is_relative_to(self.directory) else ""


@dataclass
class Outcome:
    """How a run ended."""

    status: int
    log_path: Path
    flows: dict[str, str] = field(default_factory=dict)
    error: str = ""
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    """By flow, the rows that were left out for their time."""


def spark_settings(project: Project, master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of the driver: a catalog that outlives the run, and the caller's own on top."""
    chosen = {
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        REDACTION_SETTING: REDACTION,
        **KEPT_PARTITIONS,
    }
    if master.startswith("local"):
        # Each flow starts Python processes, which have ten seconds to come up: sixteen flows at once may not make it.
        chosen["spark.sql.pipelines.execution.maxConcurrentFlows"] = str(max(2, os.cpu_count() or 1))
    if not master.startswith("sc://"):
        metastore = f"jdbc:derby:;databaseName={project.metastore_dir};create=true"
        chosen |= {
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": project.warehouse_uri,
            "spark.hadoop.javax.jdo.option.ConnectionURL": metastore,
            # In quotes: the launcher takes a space for the end of an option.
            "spark.driver.extraJavaOptions": f'"-Dderby.system.home={project.state_dir}"',
            "spark.connect.grpc.binding.port": "0",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.app.name": project.name,
        }
    return chosen | {key: value for key, value in settings.items() if not key.startswith(CONF_PREFIX)}


def environment(master: str, settings: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """The environment of the driver process."""
    from jetspark.spark.java import ensure_java

    ensure_java()
    variables = {key: value for key, value in base.items() if key not in ("MASTER", "SPARK_REMOTE", "SPARK_API_MODE")}
    if "JAVA_HOME" in os.environ:
        variables["JAVA_HOME"] = os.environ["JAVA_HOME"]
    variables["PYSPARK_PYTHON"] = variables["PYSPARK_DRIVER_PYTHON"] = sys.executable
    variables["PYTHONUNBUFFERED"] = "1"
    if variables.get("PYTHONPATH"):
        # The run has the project as its folder, and executors have others still.
        paths = variables["PYTHONPATH"].split(os.pathsep)
        variables["PYTHONPATH"] = os.pathsep.join(str(Path(path).resolve()) for path in paths if path)
    if master.startswith("sc://"):
        variables["SPARK_REMOTE"] = master
    else:
        variables["SPARK_API_MODE"] = "connect"
        variables["MASTER"] = master
        options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        variables["PYSPARK_SUBMIT_ARGS"] = shlex.join([*options, "pyspark-shell"])
    return variables


@contextlib.contextmanager
def storage_for_spark(project: Project, master: str) -> Iterator[str]:
    """The address of the storage that Spark is given.

    Spark 4.3 escapes the path of a pipeline's storage once too often: the checkpoints of `/my files` would go to
    `/my%20files`. On one machine such a path is given another name for the length of the run.
    """
    if not project.storage_uri.startswith("file:") or not _ESCAPED.search(project.storage_uri):
        yield project.storage_uri
        return
    if not master.startswith("local"):
        raise PipelineError(
            f"{project.storage_uri} has a space or another sign in it that Spark writes in another way on a cluster:"
            " give the spec a `storage` of letters, digits and - _ . /"
        )
    with tempfile.TemporaryDirectory(prefix="jetspark-storage-") as folder:
        name = Path(folder) / "storage"
        name.symlink_to(project.state_dir, target_is_directory=True)
        yield f"file://{name}"


@contextlib.contextmanager
def lifeline() -> Iterator[int]:
    """A descriptor for a child: it can be read to its end when this process is gone, however it went."""
    read_end, write_end = os.pipe()
    try:
        yield read_end
    finally:
        os.close(read_end)
        os.close(write_end)


class PipelineRun:
    """One run of `run` or `dry-run`, in a process of its own so that Ctrl-C is ours to handle."""

    def __init__(
        self,
        project: Project,
        action: str,
        *,
        master: str = "local[*]",
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        settings = settings or {}
        ours = {key: value for key, value in settings.items() if key.startswith(CONF_PREFIX)}
        self.project = project.with_configuration(ours)
        self._action = action
        self._master = master
        self._settings = settings
        self._arguments = list(arguments)
        self._clock = clock or SystemClock()
        self._started_ns = self._clock.now_ns()
        stamp = datetime.fromtimestamp(self._started_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%S")
        self.outcome = Outcome(status=-1, log_path=project.log_dir / f"{stamp}-{action}.log")
        self._process: subprocess.Popen[str] | None = None
        self._done = threading.Event()
        self._stopped = False
        self._reasons = Reasons(self.project.directory)

    @contextlib.contextmanager
    def started(self, on_event: Callable[[str], None]) -> Iterator[PipelineRun]:
        """Start it; `on_event` hears of each step, from another thread."""
        project = self.project
        project.check_definitions()
        with (
            only_run(project) as lock,
            lifeline() as parent,
            storage_for_spark(project, self._master) as storage_uri,
            project.resolved_spec(storage_uri) as spec,
        ):
            project.log_dir.mkdir(parents=True, exist_ok=True)
            self._process = process = self._start(spec, lock, parent)
            reader = threading.Thread(target=self._read, args=(process, on_event), daemon=True)
            reader.start()
            self._record(is_over=False)
            try:
                yield self
            finally:
                self.stop()
                reader.join()
                self._record(is_over=True)

    def _start(self, spec: Path, lock: int, parent: int) -> subprocess.Popen[str]:
        settings = spark_settings(self.project, self._master, self._settings)
        command = [sys.executable, "-m", "jetspark.spark.pipelines.runner", str(lock), str(parent)]
        return subprocess.Popen(
            [*command, self._action, "--spec", str(spec), *self._arguments],
            cwd=self.project.directory,
            env=environment(self._master, settings, os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            # Ctrl-C is for the one who watches: this process ends when it is told to.
            start_new_session=True,
            pass_fds=(lock, parent),
        )

    def _read(self, process: subprocess.Popen[str], on_event: Callable[[str], None]) -> None:
        assert process.stdout is not None
        with process.stdout as lines, self.outcome.log_path.open("w", encoding="utf-8") as log:
            for line in lines:
                log.write(line)
                log.flush()
                self._note(line.rstrip("\n"), on_event)
        self.outcome.status = process.wait()
        if self.outcome.status != 0 and not self._stopped:
            # What a driver says while it is being ended is no reason.
            self.outcome.error = self._reasons.text()
            if self.outcome.status < 0:
                self.outcome.error = f"the driver ended {how_ended(self.outcome.status)}"
        self._done.set()

    def _note(self, line: str, on_event: Callable[[str], None]) -> None:
        event, left_out = _EVENT.match(line), from_line(line)
        if left_out is not None:
            self._note_left_out(*left_out, on_event)
        elif event:
            flow = _FLOW.match(event.group(1))
            if flow:
                self.outcome.flows[flow.group(1)] = flow.group(2)
            self._reasons.begin(event.group(1))
            on_event(event.group(1))
        else:
            self._reasons.take(line)

    def _note_left_out(self, name: str, left_out: LeftOut, on_event: Callable[[str], None]) -> None:
        flow, known = name.rpartition(".")[2], self.outcome.left_out
        if flow not in known:
            on_event(f"Warning: flow {flow} leaves out rows for their time: {left_out.words()}.")
        known[flow] = known.get(flow, LeftOut()) + left_out

    def wait(self, timeout_s: float) -> bool:
        """Whether the run is over, after waiting for that at most so long."""
        return self._done.wait(timeout_s)

    def stop(self) -> None:
        """End it now, if it has not ended by itself."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self._stopped = True
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _record(self, *, is_over: bool) -> None:
        """One line for `status`: when, how long, and how it ended."""
        result, seconds = RUNNING, None
        if is_over:
            result = "stopped" if self._stopped else "completed" if self.outcome.status == 0 else "failed"
            seconds = round((self._clock.now_ns() - self._started_ns) / 1e9, 1)
        record = {
            "action": self._action,
            "started": datetime.fromtimestamp(self._started_ns / 1e9, UTC).isoformat(timespec="seconds"),
            "seconds": seconds,
            "result": result,
            "error": self.outcome.error,
            "flows": self.outcome.flows,
            "left_out": {flow: asdict(one) for flow, one in self.outcome.left_out.items()},
            "log": str(self.outcome.log_path),
        }
        put_record(self.project.runs_path, record)
