"""`jetspark stream`: the group with all its commands. They are in the files beside this one, by what they do."""

from __future__ import annotations

from jetspark.cli import (
    stream_cluster,
    stream_graph,
    stream_look,
    stream_make,
    stream_messages,
    stream_report,
    stream_transfer,
)
from jetspark.cli.stream_group import stream

__all__ = [
    "stream",
    "stream_cluster",
    "stream_graph",
    "stream_look",
    "stream_make",
    "stream_messages",
    "stream_report",
    "stream_transfer",
]
