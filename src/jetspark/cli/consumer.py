"""`jetspark consumer`: the group with all its commands. They are in the files beside this one, by what they do."""

from __future__ import annotations

from jetspark.cli import (
    consumer_cluster,
    consumer_control,
    consumer_graph,
    consumer_look,
    consumer_make,
    consumer_messages,
)
from jetspark.cli.consumer_group import consumer

__all__ = [
    "consumer",
    "consumer_cluster",
    "consumer_control",
    "consumer_graph",
    "consumer_look",
    "consumer_make",
    "consumer_messages",
]
