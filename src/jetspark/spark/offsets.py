"""Offsets: where a query is in each stream, as JSON that is the same text every time.

A position is the last sequence that was read. It carries the stream's creation time, so that a stream which was deleted
and made again is not taken for the old one. The end of a stream's first batch also carries where that batch began
(`from`): Spark asks for the beginning again when it repeats the batch, and "latest" is another place by then. And it
carries into how many parts the batch was cut (`parts`), so that a repeated batch is cut the same way.

    {"v": 1, "streams": {"ORDERS": {"created": "2026-...", "from": 0, "parts": 2, "seq": 1200}}}

Spark compares offsets as text to see whether anything is new: keys have an order, and nothing here depends on the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jetspark.errors import JetsparkError

VERSION = 1


class BadOffsetError(JetsparkError):
    """A checkpoint holds an offset this version cannot read."""


@dataclass(frozen=True)
class Position:
    """Where a query is in one stream."""

    seq: int
    created: str
    start: int | None = None
    parts: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As a document, keys in order."""
        document: dict[str, Any] = {"created": self.created}
        if self.start is not None:
            document["from"] = self.start
        if self.parts is not None:
            document["parts"] = self.parts
        document["seq"] = self.seq
        return document


@dataclass(frozen=True)
class Offset:
    """Where a query is in all its streams. An initial one was made up, not read from a checkpoint."""

    positions: Mapping[str, Position] = field(default_factory=dict)
    is_initial: bool = False

    def to_json(self) -> dict[str, Any]:
        """As a document, keys in order."""
        streams = {name: self.positions[name].to_json() for name in sorted(self.positions)}
        document: dict[str, Any] = {"v": VERSION, "streams": streams}
        if self.is_initial:
            document["initial"] = True
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Offset:
        """Read what `to_json` wrote."""
        if document.get("v") != VERSION:
            raise BadOffsetError(
                f"the checkpoint's offset has version {document.get('v')!r}, this source reads {VERSION}:"
                " use the version of jetspark that wrote it, or a new checkpoint"
            )
        try:
            positions = {
                name: Position(int(one["seq"]), str(one["created"]), one.get("from"), one.get("parts"))
                for name, one in document["streams"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadOffsetError(f"the checkpoint's offset is not one of this source ({error!r})") from None
        return cls(positions, bool(document.get("initial", False)))
