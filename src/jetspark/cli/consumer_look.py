"""Looking at consumers: ls, info, state, report, find. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from jetspark.cli.clusters import members, placed, servers, show_leaders
from jetspark.cli.connect import jetstream
from jetspark.cli.consumer_group import consumer
from jetspark.cli.consumer_show import CONSUMER_COLUMNS, consumer_row, consumer_sheet, is_pull, pins, state_sheet
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import DURATION, human_count, human_duration, now_ns, wire_ns
from jetspark.cli.names import consumer_argument, pick_consumer, pick_stream, stream_argument
from jetspark.cli.output import echo, emit_json, show_table
from jetspark.cli.stream_show import api_level, plain_document, word
from jetspark.client.infos import ConsumerInfo

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

names_option = click.option("--names", "-n", is_flag=True, help="Show just the names")
select_option = click.option("--no-select", is_flag=True, help="Do not offer a list to choose from")


def _show_list(found: list[ConsumerInfo], stream: str, settings: Settings, *, names: bool) -> None:
    found = sorted(found, key=lambda one: one.name)
    if settings.json:
        emit_json([one.name for one in found] if names else [plain_document(one.raw) for one in found])
    elif names:
        for one in found:
            echo(one.name)
    else:
        empty = f"No Consumers defined on {stream}; make one with: jetspark consumer add {stream}"
        right = ("Ack Pending", "Unprocessed")
        show_table("Consumers", CONSUMER_COLUMNS, map(consumer_row, found), right=right, empty=empty)


@consumer.verb("ls", aliases=("list",))
@stream_argument
@names_option
@select_option
@pass_settings
def ls(settings: Settings, stream: str | None, names: bool, no_select: bool) -> None:
    """List the consumers of a stream."""
    if no_select and not stream:
        raise click.UsageError("missing STREAM")
    with jetstream() as js:
        picked = pick_stream(js, stream)
        # As with `nats`, a list in JSON is of names; whole documents come from `report` and `find`.
        _show_list(picked.consumers(), picked.name, settings, names=names or settings.json)


@consumer.verb("info", aliases=("nfo",))
@stream_argument
@consumer_argument
@select_option
@pass_settings
def info(settings: Settings, stream: str | None, consumer: str | None, no_select: bool) -> None:
    """Settings and state of a consumer."""
    found = _find_one(stream, consumer, no_select)
    if settings.json:
        emit_json(plain_document(found.raw))
    else:
        consumer_sheet(found).show()


@consumer.verb("state")
@stream_argument
@consumer_argument
@select_option
@pass_settings
def state(settings: Settings, stream: str | None, consumer: str | None, no_select: bool) -> None:
    """State of a consumer: where it is and what it waits for."""
    found = _find_one(stream, consumer, no_select)
    if settings.json:
        emit_json(plain_document(found.raw))
    else:
        state_sheet(found).show()


def _find_one(stream: str | None, consumer: str | None, no_select: bool) -> ConsumerInfo:
    if no_select and not (stream and consumer):
        raise click.UsageError("missing STREAM or CONSUMER")
    with jetstream() as js:
        return pick_consumer(pick_stream(js, stream), consumer).cached_info


REPORT_COLUMNS = (
    "Consumer",
    "Mode",
    "Ack Policy",
    "Ack Wait",
    "Ack Pending",
    "Redelivered",
    "Unprocessed",
    "Ack Floor",
    "Waiting",
    "Pinned",
    "API Level",
    "Cluster",
)


@consumer.verb("report")
@stream_argument
@click.option("--raw", "-r", is_flag=True, help="Show unformatted numbers")
@click.option("--leaders", "-l", is_flag=True, help="Show how many consumers each server of a cluster leads")
@pass_settings
def report(settings: Settings, stream: str | None, raw: bool, leaders: bool) -> None:
    """Numbers of all consumers of a stream side by side."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        found = sorted(picked.consumers(), key=lambda one: one.name)
    if settings.json:
        emit_json([plain_document(one.raw) for one in found])
        return
    messages = picked.cached_info.state.messages
    title = f"Consumer report for {picked.name} with {human_count(len(found))} consumers"
    rows = (_report_row(one, messages, raw=raw) for one in found)
    right = ("Ack Pending", "Redelivered", "Unprocessed", "Ack Floor", "Waiting", "API Level")
    show_table(title, REPORT_COLUMNS, rows, right=right, empty=f"No Consumers defined on {picked.name}")
    if leaders:
        show_leaders((one.cluster for one in found), "Consumers")


def _report_row(one: ConsumerInfo, messages: int, *, raw: bool) -> tuple[str, ...]:
    count: Any = str if raw else human_count
    unprocessed = count(one.num_pending)
    if one.num_pending and messages and not raw:
        unprocessed += f" / {100 * one.num_pending // messages}%"
    return (
        one.name,
        "Pull" if is_pull(one) else "Push",
        word(one.config.ack_policy),
        human_duration(one.config.ack_wait),
        count(one.num_ack_pending),
        count(one.num_redelivered),
        unprocessed,
        count(one.ack_floor.stream_seq),
        count(one.num_waiting),
        ", ".join(pins(one)),
        api_level(dict(one.config.metadata)),
        members(one.cluster),
    )


# The conditions of `find`, which `cluster balance` takes too.
_CONDITIONS: Final = (
    click.option("--pull", is_flag=True, help="Pull consumers"),
    click.option("--push", is_flag=True, help="Push consumers"),
    click.option("--bound", is_flag=True, help="Push consumers with a subscriber, pull consumers with waiting pulls"),
    click.option("--waiting", type=int, help="Fewer waiting pulls than this"),
    click.option("--ack-pending", type=int, help="Fewer outstanding acks than this"),
    click.option("--pending", type=int, help="Fewer unprocessed messages than this"),
    click.option("--idle", type=DURATION, help="No delivery for so long"),
    click.option("--created", type=DURATION, help="Created longer ago than this"),
    click.option("--replicas", type=int, help="At most so many replicas"),
    click.option("--leader", metavar="SERVER", help="Led by this server"),
    click.option("--api-level", type=int, help="Needs at least this API level"),
    click.option("--pinned", is_flag=True, help="Every priority group has a pinned client"),
    click.option("--invert/--no-invert", default=False, help="Those that do not match"),
)


def find_options(decorated: Decorated) -> Decorated:
    """What `matches` asks for, as options; without one, everything matches."""
    for option in reversed(_CONDITIONS):
        decorated = option(decorated)
    return decorated


@consumer.verb("find", aliases=("query",))
@stream_argument
@find_options
@names_option
@pass_settings
def find(settings: Settings, /, stream: str | None, invert: bool, names: bool, **wanted: Any) -> None:
    """Find the consumers of a stream that match every condition given."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        found = [one for one in picked.consumers() if matches(one, wanted, now_ns()) != invert]
    _show_list(found, picked.name, settings, names=names)


def matches(one: ConsumerInfo, wanted: dict[str, Any], at_ns: int) -> bool:
    """Does a consumer meet every condition that was given?"""
    idle, created, replicas, level = (wanted.get(key) for key in ("idle", "created", "replicas", "api_level"))
    active_ns = wire_ns(one.delivered.last_active) or wire_ns(one.created)
    below = (("waiting", one.num_waiting), ("ack_pending", one.num_ack_pending), ("pending", one.num_pending))
    conditions = [
        not wanted.get("pull") or is_pull(one),
        not wanted.get("push") or not is_pull(one),
        not wanted.get("bound") or one.push_bound or one.num_waiting > 0,
        idle is None or at_ns - active_ns >= idle,
        created is None or at_ns - wire_ns(one.created) >= created,
        not wanted.get("pinned")
        or (one.priority_groups and all(group.pinned_client_id for group in one.priority_groups)),
        # Without a number of its own a consumer has its stream's; those who lead or follow are told.
        replicas is None or (one.config.num_replicas or len(servers(one.cluster)) or 1) <= replicas,
        level is None or int(api_level(dict(one.config.metadata))) >= level,
        placed(one.cluster, wanted),
        *(wanted.get(key) is None or value < wanted[key] for key, value in below),
    ]
    return all(conditions)
