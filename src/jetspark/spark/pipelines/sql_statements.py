"""What a SQL file of definitions makes and reads, as far as its text tells.

Spark parses these files itself when a pipeline runs; this is for drawing the graph without starting Spark. Names after
FROM and JOIN are taken as inputs, common table expressions are left out. Anything unusual is drawn without its inputs,
never wrongly refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NAME = r"(?:`[^`]+`|[A-Za-z_]\w*)(?:\s*\.\s*(?:`[^`]+`|[A-Za-z_]\w*))*"
_CREATE = re.compile(
    rf"\s*CREATE\s+(?:OR\s+REFRESH\s+)?(?P<kind>STREAMING\s+TABLE|MATERIALIZED\s+VIEW|TEMPORARY\s+VIEW|FLOW)\s+"
    rf"(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>{_NAME})(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_INSERT = re.compile(rf"\s*AS\s+INSERT\s+INTO\s+(?:ONCE\s+)?(?P<target>{_NAME})(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_INPUT = re.compile(
    rf"\b(?:FROM|JOIN)\s+(?:(?P<stream>STREAM)\s*\(?\s*)?(?P<name>{_NAME})(?P<call>\s*\()?", re.IGNORECASE
)
_COMMON = re.compile(rf"(?:\bWITH\s+(?:RECURSIVE\s+)?|,\s*)(?P<name>{_NAME})\s+AS\s*\(", re.IGNORECASE)
# Comments and texts may hold anything, FROM and ; included.
_NOISE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'", re.DOTALL)


@dataclass(frozen=True)
class Statement:
    """One statement that defines something."""

    kind: str
    name: str
    target: str
    inputs: tuple[tuple[str, bool], ...]
    """Names, and whether each is read as a stream."""
    has_query: bool


def statements(text: str) -> Iterator[Statement]:
    """The definitions of a file, in order."""
    for part in _NOISE.sub(" ", text).split(";"):
        made = _CREATE.match(part)
        if made is None:
            continue
        kind = " ".join(made["kind"].lower().split())
        name, query = _plain(made["name"]), made["rest"]
        target = name
        if kind == "flow":
            insert = _INSERT.match(query)
            if insert is None:
                continue
            target, query = _plain(insert["target"]), insert["rest"]
        has_query = kind == "flow" or re.search(r"\bAS\b", query, re.IGNORECASE) is not None
        yield Statement(kind, name, target, tuple(query_inputs(query)) if has_query else (), has_query)


def query_inputs(query: str) -> Iterator[tuple[str, bool]]:
    """The tables a query names, each once, and whether as a stream."""
    query = _NOISE.sub(" ", query)
    common = {_plain(found["name"]).lower() for found in _COMMON.finditer(query)}
    seen: set[str] = set()
    for found in _INPUT.finditer(query):
        name = _plain(found["name"])
        is_function = found["call"] is not None and found["stream"] is None
        if is_function or name.lower() in common or name in seen:
            continue
        seen.add(name)
        yield name, found["stream"] is not None


def _plain(name: str) -> str:
    return ".".join(part.strip().strip("`") for part in name.split("."))
