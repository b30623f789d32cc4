"""The runs of a project: which one is under way, and how the others ended.

Decided here: one line of JSON when a run begins and one when it ends, that a state is used only in the folder in which
it was made, and a lock that one run at a time holds. The lock is free when the last process of the run is gone, so a
run that was killed blocks nothing, and is told from one that is under way.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from jetspark.spark.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from jetspark.spark.pipelines.project import Project

RUNNING = "running"
# A run that began, did not say how it ended, and is no longer there.
KILLED = "killed"
# Somebody who looks whether there is a run holds the lock for a moment.
LOOK_AGAIN_S = 0.2


@contextlib.contextmanager
def only_run(project: Project) -> Iterator[int]:
    """Be the one run of a project, or say that there is another. Gives the lock's descriptor, for who takes part."""
    project.state_dir.mkdir(parents=True, exist_ok=True)
    with project.lock_path.open("a", encoding="utf-8") as file:
        if not _locked(file):
            time.sleep(LOOK_AGAIN_S)
            if not _locked(file):
                raise PipelineError(f"another run of {project.name} is under way{_since(project)}: wait for it to end")
        check_location(project)
        yield file.fileno()


def check_location(project: Project) -> None:
    """Refuse a state that was made in another folder: its tables are still there, and would be written to."""
    here = str(project.state_dir.resolve())
    try:
        made_in = project.location_path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        project.location_path.write_text(f"{here}\n", encoding="utf-8")
        return
    if made_in != here:
        raise PipelineError(
            f"the state of {project.name} was made in {made_in} and is now in {here}. Its catalog and lists of files "
            f"name the old folder, so that this run would write there. Move it back; or remove {here} to compute "
            "everything anew, which also publishes everything again"
        )


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_running(project: Project) -> bool:
    """Whether a run of the project is under way on this machine."""
    try:
        with project.lock_path.open("r+", encoding="utf-8") as file:
            return not _locked(file)
    except (FileNotFoundError, PermissionError):
        return False


def _since(project: Project) -> str:
    found = last_runs(project, action=None)
    return f" since {found[0]['started']}" if found and found[0]["result"] == RUNNING else ""


def put_record(path: Path, record: dict[str, Any]) -> None:
    """Add a line."""
    with path.open("a", encoding="utf-8") as records:
        records.write(json.dumps(record) + "\n")


def last_runs(project: Project, count_max: int = 1, action: str | None = "run") -> list[dict[str, Any]]:
    """The latest runs, newest first; one that is under way has the result `running`."""
    try:
        lines = project.runs_path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    records: list[dict[str, Any]] = []
    ended: set[str] = set()
    running = is_running(project)
    for position, line in enumerate(reversed(lines)):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise PipelineError(f"{project.runs_path} holds a line that is not JSON: remove it") from error
        if record.get("result") != RUNNING:
            ended.add(record.get("log", ""))
        elif record.get("log") in ended:
            continue
        elif not running or position:
            # Only the newest can be the one that holds the lock.
            record["result"] = KILLED
        if action is None or record.get("action") == action:
            records.append(record)
        if len(records) == count_max:
            break
    return records
