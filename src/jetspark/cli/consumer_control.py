"""Holding and moving consumers: pause, resume, unpin, reset."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from jetspark.cli.connect import jetstream
from jetspark.cli.consumer_group import consumer
from jetspark.cli.consumer_options import pause_moment
from jetspark.cli.consumer_show import state_sheet
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import SECOND_NS, human_duration, local_time, now_ns, wire_ns
from jetspark.cli.errors import UsageError
from jetspark.cli.names import consumer_argument, pick_consumer, pick_stream, stream_argument
from jetspark.cli.output import echo, emit_json
from jetspark.cli.prompts import choose, confirm, force_option, given
from jetspark.cli.stream_show import plain_document
from jetspark.client.infos import ConsumerInfo


@consumer.verb("pause")
@stream_argument
@consumer_argument
@click.argument("until", metavar="[UNTIL]", required=False)
@force_option
@pass_settings
def pause(settings: Settings, stream: str | None, consumer: str | None, until: str | None, force: bool) -> None:
    """Deliver nothing for a while: UNTIL is a duration such as 1h, or a time such as '2030-01-31 12:00:00'."""
    with jetstream() as js:
        found = pick_consumer(pick_stream(js, stream), consumer)
        until_ns = wire_ns(pause_moment(given(until, "Pause for or until", argument="UNTIL"), now_ns()))
        if until_ns <= now_ns():
            raise UsageError(f"{local_time(until_ns)} has passed: a pause ends later than now")
        name = f"{found.stream.name} > {found.name}"
        if not confirm(f"Really pause consumer {name} until {local_time(until_ns)}", force=force):
            return
        found.pause(datetime.fromtimestamp(until_ns / SECOND_NS, UTC))
        after = found.info()
    if settings.json:
        emit_json(plain_document(after.raw))
    else:
        echo(f"Paused {name} until {local_time(until_ns)} ({human_duration(after.pause_remaining_ns)})")


@consumer.verb("resume")
@stream_argument
@consumer_argument
@force_option
@pass_settings
def resume(settings: Settings, stream: str | None, consumer: str | None, force: bool) -> None:
    """Deliver again."""
    with jetstream() as js:
        found = pick_consumer(pick_stream(js, stream), consumer)
        name = f"{found.stream.name} > {found.name}"
        before = found.cached_info
        if not before.paused:
            _show_unpaused(settings, before, name)
            return
        if not confirm(f"Really resume consumer {name}", force=force):
            return
        found.resume()
        after = found.info()
    if settings.json:
        emit_json(plain_document(after.raw))
    else:
        until = local_time(now_ns() + before.pause_remaining_ns)
        echo(f"Consumer {name} was resumed while previously paused until {until}")


def _show_unpaused(settings: Settings, info: ConsumerInfo, name: str) -> None:
    if settings.json:
        emit_json(plain_document(info.raw))
    else:
        echo(f"Consumer {name} is not paused")


@consumer.verb("unpin")
@stream_argument
@consumer_argument
@click.argument("group", required=False)
@force_option
@pass_settings
def unpin(settings: Settings, stream: str | None, consumer: str | None, group: str | None, force: bool) -> None:
    """Take the pin of a priority group from the client that has it; the server pins another."""
    with jetstream() as js:
        found = pick_consumer(pick_stream(js, stream), consumer)
        info = found.cached_info
        name = f"{found.stream.name} > {found.name}"
        if info.config.priority_policy != "pinned_client":
            raise UsageError(f"{name} pins no clients", hint="Make one that does with --pinned-groups GROUP.")
        pinned = {one.group: one.pinned_client_id for one in info.priority_groups if one.pinned_client_id}
        group = group or choose("Which group?", list(info.config.priority_groups), argument="GROUP")
        if group not in info.config.priority_groups:
            groups = ", ".join(info.config.priority_groups)
            raise UsageError(f"{name} has no priority group {group}; groups here: {groups}")
        if not confirm(f"Really unpin the client of group {group} on {name}", force=force):
            return
        found.unpin(group)
        after = found.info()
    if settings.json:
        emit_json(plain_document(after.raw))
    elif group in pinned:
        echo(f"Unpinned client {pinned[group]} from Priority Group {name} > {group}")
    else:
        echo(f"No client was pinned in Priority Group {name} > {group}")


@consumer.verb("reset")
@stream_argument
@consumer_argument
@click.option("--sequence", "--seq", type=int, default=0, help="Deliver again from this stream sequence")
@force_option
@pass_settings
def reset(settings: Settings, stream: str | None, consumer: str | None, sequence: int, force: bool) -> None:
    """Go back: to what follows the last acknowledged message, or to a sequence."""
    with jetstream() as js:
        found = pick_consumer(pick_stream(js, stream), consumer)
        name = f"{found.stream.name} > {found.name}"
        if not confirm(f"Really reset consumer {name}", force=force):
            return
        found.reset(sequence)
        after = found.info()
    if settings.json:
        emit_json(plain_document(after.raw))
    else:
        state_sheet(after).show()
