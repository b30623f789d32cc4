"""How far a project is: its checkpoints, its last run, and the server's word about what is still to do.

A flow's progress is what Spark has committed: the newest number in `commits`, and the offsets of that number. Read
through Arrow's file systems, so a checkpoint on S3 or HDFS is read as one on disk. Which streams a flow reads, and how
to reach them, is told by the project's definitions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jetspark.errors import JetsparkError
from jetspark.spark.pipelines.errors import PipelineError
from jetspark.spark.pipelines.graph import JETSTREAM, Graph, Input
from jetspark.spark.pipelines.run_records import last_runs

if TYPE_CHECKING:
    from jetspark.spark.pipelines.project import Project

# <catalog>/<database>/<table>/<flow>/<number>; sinks have fewer folders above.
DEPTH_MAX = 6


@dataclass
class StreamStatus:
    """One stream of one flow."""

    stream: str
    done: int
    """The last sequence that is committed."""
    last: int | None = None
    behind: int | None = None
    behind_s: float | None = None
    problem: str = ""


@dataclass
class FlowStatus:
    """One flow."""

    flow: str
    target: str
    batch: int | None = None
    committed: str = ""
    streams: list[StreamStatus] = field(default_factory=list)


@dataclass
class Status:
    """A whole project."""

    pipeline: str
    last_run: dict[str, Any] | None
    flows: list[FlowStatus]

    def document(self) -> dict[str, Any]:
        """For a script."""
        return asdict(self)


@dataclass(frozen=True)
class Checkpoint:
    """What a flow's newest checkpoint says is done (nothing: batch -1), and the last batch that was begun."""

    flow: str
    batch: int
    planned: int
    committed: str
    positions: dict[str, int]

    @property
    def is_running(self) -> bool:
        """A batch was begun and is not done."""
        return self.planned > self.batch


def parse_offsets(text: str) -> dict[str, int]:
    """The sequences in a file of Spark's offset log, by stream; other sources' lines say nothing here."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            continue
        streams = document.get("streams") if isinstance(document, dict) else None
        for name, position in (streams or {}).items():
            found[name] = int(position["seq"])
    return found


def read_checkpoints(uri: str) -> dict[str, Checkpoint]:
    """Each flow's newest checkpoint, by the flow's name."""
    system, root = _file_system(uri)
    found: dict[str, tuple[int, Checkpoint]] = {}
    for folder in _checkpoint_folders(system, root, DEPTH_MAX):
        parent, _, number = folder.rpartition("/")
        flow = parent.rpartition("/")[2]
        checkpoint = _read_checkpoint(system, folder, flow)
        if flow not in found or int(number) > found[flow][0]:
            found[flow] = (int(number), checkpoint)
    return {flow: checkpoint for flow, (_, checkpoint) in found.items()}


def _file_system(uri: str) -> tuple[Any, str]:
    """Arrow's file system of an address, and the path in it."""
    import pyarrow.fs as filesystems

    if uri.startswith("file:"):
        # As Hadoop takes it, with spaces and other signs as they are; Arrow would want them escaped.
        return filesystems.LocalFileSystem(), "/" + uri.removeprefix("file:").lstrip("/")
    try:
        system, root = filesystems.FileSystem.from_uri(uri)
    except (ValueError, OSError) as error:
        raise PipelineError(f"the checkpoints at {uri} cannot be read from here: {error}") from error
    return system, root


def _children(system: Any, folder: str) -> list[Any]:
    import pyarrow.fs as filesystems

    return list(system.get_file_info(filesystems.FileSelector(folder, allow_not_found=True)))


def _checkpoint_folders(system: Any, folder: str, depth: int) -> Iterator[str]:
    names = {info.base_name: info for info in _children(system, folder)}
    if "offsets" in names and folder.rpartition("/")[2].isdigit():
        yield folder
    elif depth:
        for info in names.values():
            if not info.is_file:
                yield from _checkpoint_folders(system, info.path, depth - 1)


def _numbered(system: Any, folder: str) -> dict[int, Any]:
    return {int(info.base_name): info for info in _children(system, folder) if info.base_name.isdigit()}


def _read_checkpoint(system: Any, folder: str, flow: str) -> Checkpoint:
    commits = _numbered(system, f"{folder}/commits")
    planned = max(_numbered(system, f"{folder}/offsets"), default=-1)
    if not commits:
        return Checkpoint(flow, -1, planned, "", {})
    batch = max(commits)
    when = commits[batch].mtime
    with system.open_input_stream(f"{folder}/offsets/{batch}") as file:
        text = file.read().decode()
    committed = when.astimezone(UTC).isoformat(timespec="seconds") if isinstance(when, datetime) else ""
    return Checkpoint(flow, batch, max(planned, batch), committed, parse_offsets(text))


Ask = Callable[[Input, str, int], StreamStatus]


def read_status(project: Project, graph: Graph, ask: Ask | None = None) -> Status:
    """Where every flow of a project is."""
    checkpoints = read_checkpoints(project.checkpoints_uri)
    flows = []
    for flow in graph.flows:
        status = FlowStatus(flow.name, flow.target)
        checkpoint = checkpoints.get(flow.name.rpartition(".")[2])
        if checkpoint is not None and checkpoint.batch >= 0:
            status.batch, status.committed = checkpoint.batch, checkpoint.committed
        for read in flow.inputs:
            if read.format == JETSTREAM and read.streaming:
                for name in [part.strip() for part in read.name.split(",")]:
                    done = checkpoint.positions.get(name, 0) if checkpoint is not None else 0
                    status.streams.append((ask or ask_server)(read, name, done))
        flows.append(status)
    runs = last_runs(project)
    return Status(project.name, runs[0] if runs else None, flows)


def ask_server(read: Input, stream: str, done: int) -> StreamStatus:
    """What a stream still has for a flow, by the server; a server that does not answer is a fact to report."""
    from jetspark.spark.facts import facts_of, message_time_ns
    from jetspark.spark.source_options import source_options

    status = StreamStatus(stream, done)
    try:
        options = source_options({**read.options, "numRetries": "0"})
        last = facts_of(options, stream).last
        status.last, status.behind, status.behind_s = last, max(0, last - done), 0.0
        if status.behind:
            status.behind_s = _waiting_s(message_time_ns(options, stream, done + 1))
    except (JetsparkError, OSError) as error:
        status.problem = str(error)
    return status


def _waiting_s(found: tuple[int, int] | None) -> float | None:
    from jetspark.clock import SystemClock

    return None if found is None else round(max(0, SystemClock().now_ns() - found[1]) / 1e9, 1)
