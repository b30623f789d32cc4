"""`jetspark stream report`: the numbers of all streams side by side, what copies what, and who leads.

Decided here: the columns, and the graph of copies as GraphViz reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jetspark.cli.clusters import members, show_leaders
from jetspark.cli.connect import jetstream
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import human_count, human_duration, human_size
from jetspark.cli.output import emit_json, note, show_table
from jetspark.cli.stream_group import stream
from jetspark.cli.stream_show import NO_STREAMS, api_level, plain_document, word
from jetspark.client.infos import StreamInfo

if TYPE_CHECKING:
    from jetspark.api.stream_config import StreamSource

COLUMNS = (
    "Stream", "Storage", "Placement", "Consumers", "Messages", "Bytes", "Lost", "Deleted", "API Level", "Replicas",
)  # fmt: skip
NUMBERS = ("Consumers", "Messages", "Bytes", "Lost", "Deleted", "API Level")
LINK_COLUMNS = ("Stream", "Kind", "API Prefix", "Source Stream", "Filters and Transforms", "Active", "Lag", "Error")


@stream.verb("report")
@click.option("--subject", default="", help="Only streams with matching subjects")
@click.option("--cluster", help="Only streams within this cluster")
@click.option("--consumers", "-o", "order", flag_value="consumers", help="Sort by number of consumers")
@click.option("--messages", "-m", "order", flag_value="messages", help="Sort by number of messages")
@click.option("--name", "-n", "order", flag_value="name", help="Sort by name")
@click.option("--storage", "-t", "order", flag_value="storage", help="Sort by storage")
@click.option("--raw", "-r", is_flag=True, help="Show unformatted numbers")
@click.option("--leaders", "-l", is_flag=True, help="Show how many streams each server of a cluster leads")
@click.option("--dot", type=click.Path(dir_okay=False, path_type=Path), help="Write what copies what for GraphViz")
@pass_settings
def report(
    settings: Settings,
    /,
    subject: str,
    cluster: str | None,
    order: str | None,
    raw: bool,
    leaders: bool,
    dot: Path | None,
) -> None:
    """Numbers of all streams side by side; sorted by size unless told otherwise."""
    keys: dict[str, Any] = {
        "consumers": lambda one: -one.state.consumer_count,
        "messages": lambda one: -one.state.messages,
        "name": lambda one: one.name,
        "storage": lambda one: str(one.config.storage),
    }
    with jetstream() as js:
        found = sorted(js.streams(subject), key=keys.get(order or "", lambda one: -one.state.bytes))
    if cluster is not None:
        found = [one for one in found if (one.cluster or {}).get("name", "") == cluster]
    if dot is not None:
        dot.write_text(replication_graph(found), "utf-8")
        note(f"Wrote {dot}")
    if settings.json:
        emit_json([plain_document(one.raw) for one in found])
        return
    rows = (_row(one, raw=raw) for one in found)
    show_table("Stream Report", COLUMNS, rows, right=NUMBERS, empty=NO_STREAMS)
    links = [row for one in found for row in _links(one)]
    if links:
        show_table("Replication Report", LINK_COLUMNS, links, right=("Active", "Lag"))
    if leaders:
        show_leaders((one.cluster for one in found), "Streams")


def _row(one: StreamInfo, *, raw: bool) -> tuple[str, ...]:
    config, state = one.config, one.state
    placement = config.placement
    placed = ", ".join(filter(None, [placement.cluster, *placement.tags])) if placement is not None else ""
    count: Any = str if raw else human_count
    return (
        one.name,
        word(config.storage),
        placed,
        count(state.consumer_count),
        count(state.messages),
        str(state.bytes) if raw else human_size(state.bytes),
        count(len(state.lost.msgs) if state.lost is not None else 0),
        count(state.num_deleted),
        api_level(dict(config.metadata)),
        members(one.cluster),
    )


def origins(one: StreamInfo) -> Iterator[tuple[str, StreamSource]]:
    """What a stream copies, and how."""
    if one.config.mirror is not None:
        yield "Mirror", one.config.mirror
    for source in one.config.sources:
        yield "Source", source


def _filters(origin: StreamSource) -> str:
    if origin.filter_subject:
        return origin.filter_subject
    return ", ".join(f"{each.src} to {each.dest}" if each.dest else each.src for each in origin.subject_transforms)


def _links(one: StreamInfo) -> list[tuple[str, ...]]:
    """What is configured, with how it goes; the server lists the states of sources in no certain order."""
    states = list(one.sources) + ([one.mirror] if one.mirror else [])
    made: list[tuple[str, ...]] = []
    for kind, origin in origins(one):
        state = next((each for each in states if each.get("name") == origin.name), {})
        active_ns = int(state.get("active", -1))
        made.append(
            (
                one.name,
                kind,
                origin.external.api if origin.external is not None else "",
                origin.name,
                _filters(origin),
                "never" if active_ns < 0 else human_duration(active_ns),
                human_count(int(state.get("lag", 0))),
                str((state.get("error") or {}).get("description", "")),
            )
        )
    return made


def replication_graph(found: list[StreamInfo]) -> str:
    """What copies what, as a drawing GraphViz can make."""
    lines = ["digraph {", '  label="Stream Replication Structure";']
    for one in sorted(found, key=lambda one: one.name):
        for kind, origin in origins(one):
            label, color = ("Mirror", "blue") if kind == "Mirror" else (_filters(origin), "green")
            ends = f"{json.dumps(origin.name)} -> {json.dumps(one.name)}"
            lines.append(f"  {ends} [color={color}, label={json.dumps(label)}];")
    return "\n".join([*lines, "}", ""])
