"""The two faces of the client offer the same names with the same arguments, and the generated one is up to date."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import jetspark.client.aio as aio
import jetspark.client.sync as sync

TOOL = Path(__file__).parent.parent.parent / "tools" / "generate_sync.py"


def load_tool() -> Any:
    spec = importlib.util.spec_from_file_location("generate_sync", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def test_the_generated_face_is_what_the_tool_gives() -> None:
    tool = load_tool()
    assert [path.name for path in tool.sources() if not tool.is_current(path)] == []


def test_both_faces_offer_the_same_names() -> None:
    assert aio.__all__ == sync.__all__


def members(kind: type) -> dict[str, Any]:
    renamed = {"__anext__": "__next__", "__aiter__": "__iter__", "__aenter__": "__enter__", "__aexit__": "__exit__"}
    found = {renamed.get(name, name): value for name, value in inspect.getmembers(kind)}
    return {name: value for name, value in found.items() if not name.startswith("_") or name in renamed.values()}


def signature(function: Any) -> str:
    return re.sub(r"client\.(aio|sync)\.|Async(?=Iterator)", "", str(inspect.signature(function)))


def without_waiting(text: str | None) -> str | None:
    """A docstring whose examples do not await."""
    return None if text is None else re.sub(r"\b(await|async) (?=\w)", "", text)


@pytest.mark.parametrize("name", aio.__all__)
def test_every_class_has_the_same_methods_arguments_and_docs(name: str) -> None:
    left, right = getattr(aio, name), getattr(sync, name)
    if not inspect.isclass(left):
        assert signature(left) == signature(right)
        assert without_waiting(left.__doc__) == right.__doc__
        return
    ours, theirs = members(left), members(right)
    assert sorted(ours) == sorted(theirs)
    for member, value in ours.items():
        if inspect.isfunction(value):
            assert signature(value) == signature(theirs[member]), member
            assert without_waiting(inspect.getdoc(value)) == inspect.getdoc(theirs[member]), member
            assert not inspect.iscoroutinefunction(theirs[member]), member


@pytest.mark.parametrize("module", ["link", "waiting"])
def test_the_hand_written_drivers_offer_the_same_to_what_is_above_them(module: str) -> None:
    left = importlib.import_module(f"jetspark.client.aio.{module}")
    right = importlib.import_module(f"jetspark.client.sync.{module}")
    for name in {"link": ["Link"], "waiting": ["Signal", "Awaited"]}[module]:
        wanted = {one for one in vars(getattr(left, name)) if not one.startswith("_")}
        wanted -= {"received", "wire_lost"}
        offered = {one for one, _ in inspect.getmembers(getattr(right, name))}
        assert wanted <= offered
