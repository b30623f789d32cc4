"""Looking at streams: ls, info, state, find, subjects, gaps. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from jetspark.cli.clusters import PATTERN, placed
from jetspark.cli.connect import jetstream
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import DURATION, human_count, local_time, now_ns, wire_ns
from jetspark.cli.names import is_internal, pick_stream, stream_argument
from jetspark.cli.output import Sheet, echo, emit_json, show_table
from jetspark.cli.stream_group import stream
from jetspark.cli.stream_show import (
    NO_STREAMS,
    STREAM_COLUMNS,
    add_state,
    api_level,
    plain_document,
    stream_row,
    stream_sheet,
)
from jetspark.client.infos import StreamInfo

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

names_option = click.option("--names", "-n", is_flag=True, help="Show just the names")


def _show_list(found: list[StreamInfo], settings: Settings, *, names: bool) -> None:
    if settings.json:
        emit_json([one.name for one in found] if names else [plain_document(one.raw) for one in found])
    elif names:
        for one in found:
            echo(one.name)
    else:
        show_table("Streams", STREAM_COLUMNS, map(stream_row, found), right=("Messages", "Size"), empty=NO_STREAMS)


@stream.verb("ls", aliases=("list", "l"))
@click.option("--subject", default="", help="Only streams with matching subjects")
@names_option
@click.option("--all", "-a", "show_all", is_flag=True, help="Include the streams of buckets and the like")
@pass_settings
def ls(settings: Settings, subject: str, names: bool, show_all: bool) -> None:
    """List the streams."""
    with jetstream() as js:
        found = [one for one in js.streams(subject) if show_all or not is_internal(one.name)]
    # As with `nats`, a list in JSON is of names; whole documents come from `report` and `find`.
    _show_list(sorted(found, key=lambda one: one.name), settings, names=names or settings.json)


@stream.verb("info", aliases=("nfo", "i"))
@stream_argument
@click.option("--state", "state_only", is_flag=True, help="Show only the state")
@click.option("--no-select", is_flag=True, help="Do not offer a list to choose from")
@pass_settings
def info(settings: Settings, stream: str | None, state_only: bool, no_select: bool) -> None:
    """Settings and state of a stream."""
    _show_stream(settings, stream, no_select, state_only=state_only)


@stream.verb("state")
@stream_argument
@click.option("--no-select", is_flag=True, help="Do not offer a list to choose from")
@pass_settings
def state(settings: Settings, stream: str | None, no_select: bool) -> None:
    """State of a stream: what is in it now."""
    _show_stream(settings, stream, no_select, state_only=True)


def _show_stream(settings: Settings, name: str | None, no_select: bool, *, state_only: bool) -> None:
    if no_select and not name:
        raise click.UsageError("missing STREAM")
    with jetstream() as js:
        found = pick_stream(js, name).cached_info
    if settings.json:
        # Whole in either case, as with `nats`: a script picks `.state`.
        emit_json(plain_document(found.raw))
    elif state_only:
        show_state(found)
    else:
        stream_sheet(found).show()


def show_state(found: StreamInfo) -> None:
    """The state alone."""
    sheet = Sheet(f"State for Stream {found.name} created {local_time(wire_ns(found.created))}")
    add_state(sheet, found)
    sheet.show()


# The conditions of `find`, which `cluster balance` takes too.
_CONDITIONS: Final = (
    click.option("--empty", is_flag=True, help="Streams without messages"),
    click.option("--idle", type=DURATION, help="Streams with no new messages for so long"),
    click.option("--created", type=DURATION, help="Streams created longer ago than this"),
    click.option("--consumers", type=int, help="Streams with fewer consumers than this"),
    click.option("--subject", default="", help="Streams with matching subjects"),
    click.option("--replicas", type=int, help="Streams with at most so many replicas"),
    click.option("--server-name", type=PATTERN, help="Streams on a server whose name matches"),
    click.option("--cluster", type=PATTERN, help="Streams in a cluster whose name matches"),
    click.option("--leader", metavar="SERVER", help="Streams that this server leads"),
    click.option("--api-level", type=int, help="Streams that need at least this API level"),
    click.option("--sourced", is_flag=True, help="Streams that source data from others"),
    click.option("--mirrored", is_flag=True, help="Streams that mirror others"),
    click.option("--invert/--no-invert", default=False, help="Those that do not match"),
)


def find_options(decorated: Decorated) -> Decorated:
    """What `matches` asks for, as options; without one, everything matches."""
    for option in reversed(_CONDITIONS):
        decorated = option(decorated)
    return decorated


@stream.verb("find", aliases=("query",))
@find_options
@names_option
@pass_settings
def find(settings: Settings, /, subject: str, invert: bool, names: bool, **wanted: Any) -> None:
    """Find the streams that match every condition given."""
    with jetstream() as js:
        found = [one for one in js.streams(subject) if matches(one, wanted, now_ns()) != invert]
    _show_list(sorted(found, key=lambda one: one.name), settings, names=names)


def matches(one: StreamInfo, wanted: dict[str, Any], at_ns: int) -> bool:
    """Does a stream meet every condition that was given?"""
    idle, created, consumers, replicas = (wanted.get(key) for key in ("idle", "created", "consumers", "replicas"))
    level = wanted.get("api_level")
    last_ns = wire_ns(str(one.state.last_ts)) or wire_ns(one.created)
    conditions = [
        not wanted.get("empty") or one.state.messages == 0,
        idle is None or at_ns - last_ns >= idle,
        created is None or at_ns - wire_ns(one.created) >= created,
        consumers is None or one.state.consumer_count < consumers,
        replicas is None or one.config.num_replicas <= replicas,
        not wanted.get("sourced") or bool(one.config.sources),
        not wanted.get("mirrored") or one.config.mirror is not None,
        level is None or int(api_level(dict(one.config.metadata))) >= level,
        placed(one.cluster, wanted),
    ]
    return all(conditions)


@stream.verb("subjects", aliases=("subj",))
@stream_argument
@click.argument("filter_subject", metavar="[FILTER]", default=">")
@click.option("--sort", type=click.Choice(["name", "messages"]), default="messages", show_default=True)
@click.option("--reverse", "-R", is_flag=True, help="The other way round")
@click.option("--names/--no-names", default=False, help="List only the subjects")
@pass_settings
def subjects(
    settings: Settings, stream: str | None, filter_subject: str, sort: str, reverse: bool, names: bool
) -> None:
    """The subjects a stream holds, with how many messages each has."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        counts = dict(picked.info(subjects_filter=filter_subject).state.subjects)
    order = sorted(counts, key=(lambda name: (counts[name], name)) if sort == "messages" else None, reverse=reverse)
    if settings.json:
        emit_json(order if names else {name: counts[name] for name in order})
    elif names:
        for name in order:
            echo(name)
    else:
        title = f"{human_count(len(order))} Subjects in stream {picked.name}"
        rows = ((name, human_count(counts[name])) for name in order)
        empty = f"No subjects in {picked.name} match {filter_subject}"
        show_table(title, ("Subject", "Count"), rows, right=("Count",), empty=empty)


@stream.verb("gaps")
@stream_argument
@click.option("--force", "-f", is_flag=True, help="Accepted for `nats`; nothing is asked here")
@click.option("--progress/--no-progress", default=True, help="Accepted for `nats`; it takes one request")
@pass_settings
def gaps(settings: Settings, stream: str | None, force: bool, progress: bool) -> None:
    """Ranges of sequences that are missing between the first message and the last."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        ranges = runs(picked.info(deleted_details=True).state.deleted)
    if settings.json:
        emit_json([{"first_seq": first, "last_seq": last} for first, last in ranges])
        return
    columns = ("First Message", "Last Message", "Messages")
    rows = ((human_count(first), human_count(last), human_count(last - first + 1)) for first, last in ranges)
    show_table(f"Gaps in {picked.name}", columns, rows, right=columns, empty=f"No deleted messages in {picked.name}")


def runs(numbers: tuple[int, ...]) -> list[tuple[int, int]]:
    """Rising numbers as ranges without holes."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] + 1 == number:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
