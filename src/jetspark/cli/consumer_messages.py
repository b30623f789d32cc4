"""Taking messages from a consumer: next, sub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jetspark.cli.connect import jetstream
from jetspark.cli.consumer_group import consumer
from jetspark.cli.consumer_show import is_pull
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import DURATION, SECOND_NS, human_duration
from jetspark.cli.errors import TIMED_OUT, CliError, UsageError
from jetspark.cli.messages import raw_option, show_delivery
from jetspark.cli.names import consumer_argument, pick_consumer, pick_stream, stream_argument
from jetspark.cli.output import echo, note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jetspark.sync import Consumer, Msg

# How long one pull waits when nothing else is said; then comes the next.
PATIENCE_S = 30.0
ack_option = click.option("--ack/--no-ack", default=True, help="Acknowledge what was received")


@consumer.verb("next")
@stream_argument
@consumer_argument
@ack_option
@click.option("--nak", is_flag=True, help="Have it delivered again instead")
@click.option("--term", is_flag=True, help="Have it never delivered again instead")
@raw_option
@click.option("--wait", type=DURATION, help="How long to wait for a message  [default: --timeout]")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="How many messages to take")
@click.option("--group", default="", help="The priority group to pull for")
@click.option("--min-pending", type=int, default=0, help="Only when so many messages are pending (overflow)")
@click.option("--min-ack-pending", type=int, default=0, help="Only when so many acks are pending (overflow)")
@click.option("--priority", type=click.IntRange(0, 9), help="Priority of the pull (prioritized); 0 is first")
@pass_settings
def take_next(
    settings: Settings,
    /,
    stream: str | None,
    consumer: str | None,
    ack: bool,
    nak: bool,
    term: bool,
    raw: bool,
    wait: int | None,
    count: int,
    **pull: Any,
) -> None:
    """Take the next messages from a pull consumer and acknowledge them."""
    if nak and term:
        raise UsageError("give --nak or --term, not both")
    answer = "nak" if nak else "term" if term else "ack" if ack else ""
    wait_ns = wait or settings.timeout
    with jetstream() as js:
        found = pick_consumer(pick_stream(js, stream), consumer)
        if not is_pull(found.cached_info):
            hint = f"It pushes to {found.cached_info.config.deliver_subject}: use consumer sub."
            raise UsageError(f"{found.stream.name} > {found.name} is no pull consumer", hint=hint)
        pull["group"] = pull["group"] or _only_group(found)
        for _ in range(count):
            message = found.next(expires=wait_ns / SECOND_NS, **pull)
            if message is None:
                hint = f"Is anything left for it? jetspark consumer info {found.stream.name} {found.name}"
                raise CliError(f"no message received in {human_duration(wait_ns)}", hint=hint, exit_code=TIMED_OUT)
            show_delivery(message, raw=raw, as_json=settings.json)
            _answer(message, answer, quiet=raw or settings.json)


def _only_group(found: Consumer) -> str:
    """A consumer with one priority group leaves no choice."""
    groups = found.cached_info.config.priority_groups
    return groups[0] if len(groups) == 1 else ""


def _answer(message: Msg, answer: str, *, quiet: bool) -> None:
    """Answer and wait until the server has it, so that what follows on the line sees it."""
    told = {"ack": "Acknowledged message", "nak": "Negatively acknowledged message", "term": "Terminated message"}
    if not answer:
        return
    getattr(message, answer)(wait=True)
    if not quiet:
        echo(told[answer] + "\n")


@consumer.verb("sub")
@stream_argument
@consumer_argument
@ack_option
@raw_option
@click.option("--count", type=int, default=0, help="End after so many messages")
@click.option("--wait", type=DURATION, help="End after so long without a message")
@click.option("--group", default="", help="The priority group to pull for")
@click.option("--deliver-group", default="", help="The queue group of a push consumer  [default: its own]")
@pass_settings
def sub(
    settings: Settings,
    stream: str | None,
    consumer: str | None,
    ack: bool,
    raw: bool,
    count: int,
    wait: int | None,
    group: str,
    deliver_group: str,
) -> None:
    """Show the messages of a consumer, pull or push, as they come; end with Ctrl-C."""
    with jetstream() as js:
        found = pick_consumer(pick_stream(js, stream), consumer)
        config = found.cached_info.config
        if not raw and not settings.json:
            note(f"Showing messages of {found.stream.name} > {found.name}; Ctrl-C ends")
        wait_s = None if wait is None else wait / SECOND_NS
        for message in _stream_of(found, count, wait_s, group, deliver_group):
            show_delivery(message, raw=raw, as_json=settings.json)
            if ack and config.ack_policy != "none":
                _answer(message, "ack", quiet=raw or settings.json)


def _stream_of(found: Consumer, count: int, wait_s: float | None, group: str, deliver_group: str) -> Iterator[Msg]:
    """Messages until there were `count`, or none came for `wait_s`."""
    config = found.cached_info.config
    if not is_pull(found.cached_info):
        queue = deliver_group or config.deliver_group
        js = found.stream.jetstream
        source: Any = js.subscribe(
            stream=found.stream.name, consumer=found.name, queue=queue, config=config, delete_on_close=False
        )
    elif count:
        # One at a time: a buffer would take more than is shown, and leave the rest unacknowledged.
        yield from _one_by_one(found, count, wait_s, group or _only_group(found))
        return
    else:
        source = found.consume(group=group or _only_group(found))
    with source:
        shown = 0
        while (not count or shown < count) and (message := source.next(wait_s)) is not None:
            yield message
            shown += 1


def _one_by_one(found: Consumer, count: int, wait_s: float | None, group: str) -> Iterator[Msg]:
    shown = 0
    while shown < count and (message := next_of(found, wait_s, group)) is not None:
        yield message
        shown += 1


def next_of(found: Consumer, wait_s: float | None, group: str = "") -> Msg | None:
    """The next message of a pull consumer; without a time it waits for as long as it takes."""
    while True:
        message = found.next(expires=wait_s or PATIENCE_S, group=group)
        if message is not None or wait_s is not None:
            return message
