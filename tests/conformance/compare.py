"""The differences between two transcripts, as lines a person can read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MISSING = "<missing>"
LINE_WIDTH_MAX = 400


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[str]:
    """One line for each field that differs; `expected` is the reference server's."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            yield from differences(expected.get(key, MISSING), actual.get(key, MISSING), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(actual, list):
        for index in range(max(len(expected), len(actual))):
            left = expected[index] if index < len(expected) else MISSING
            right = actual[index] if index < len(actual) else MISSING
            yield from differences(left, right, f"{path}[{index}]")
    elif expected != actual or type(expected) is not type(actual):
        yield f"{path}: reference {_short(expected)} | ours {_short(actual)}"


def transcript_differences(expected: list[dict[str, Any]], actual: list[dict[str, Any]]) -> list[str]:
    """Compare event by event; a line starts with the event's number and what was asked."""
    lines = []
    for index in range(max(len(expected), len(actual))):
        left: Any = expected[index] if index < len(expected) else MISSING
        right: Any = actual[index] if index < len(actual) else MISSING
        event = left if isinstance(left, dict) else right
        title = f"#{index} {event.get('event', '')} {event.get('what', '')}".rstrip()
        lines += [f"{title} {line}" for line in differences(left, right)]
    return lines


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LINE_WIDTH_MAX else text[:LINE_WIDTH_MAX] + "…"
