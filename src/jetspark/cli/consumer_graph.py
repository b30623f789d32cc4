"""`jetspark consumer graph`: how a consumer is doing, over time.

Decided here: what two looks at a consumer tell of the time between them, and how that is drawn. At a terminal it fills
the screen until Ctrl-C; in a pipe it is a line a look, and with --json a document a look.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import click

from jetspark.cli.charts import can_draw, columns
from jetspark.cli.connect import jetstream
from jetspark.cli.consumer_group import consumer
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import DURATION, SECOND_NS, human_count, local_time, now_ns
from jetspark.cli.names import consumer_argument, pick_consumer, pick_stream, stream_argument
from jetspark.cli.output import console, echo, emit_json_line, is_terminal, pictures
from jetspark.client.infos import ConsumerInfo
from jetspark.clock import SystemClock

if TYPE_CHECKING:
    from rich.text import Text

# More looks than a terminal has columns.
KEPT_COUNT: Final = 1000


@dataclass(frozen=True, slots=True)
class Look:
    """A consumer at one moment, and how fast it was since the moment before."""

    pending: int
    ack_pending: int
    acked_per_sec: float
    delivered_per_sec: float


# What is drawn of a look, from top to bottom, and its words.
PLOTS: Final = (
    ("pending", "Messages Pending"),
    ("ack_pending", "Messages Waiting for Ack"),
    ("acked_per_sec", "Messages Acknowledged / second"),
    ("delivered_per_sec", "Messages Delivered / second"),
)


def look(before: ConsumerInfo, after: ConsumerInfo, elapsed_s: float) -> Look:
    """What happened between two looks. A consumer that was made anew or reset counts from there."""

    def rate(now_seq: int, then_seq: int) -> float:
        return max(0, now_seq - then_seq) / max(1e-9, elapsed_s)

    return Look(
        after.num_pending,
        after.num_ack_pending,
        rate(after.ack_floor.consumer_seq, before.ack_floor.consumer_seq),
        rate(after.delivered.consumer_seq, before.delivered.consumer_seq),
    )


@consumer.verb("graph")
@stream_argument
@consumer_argument
@click.option("--interval", "-d", type=DURATION, default="1s", show_default=True, help="Time between two looks")
@click.option("--count", "-n", type=click.IntRange(min=1), help="End after so many looks  [default: by Ctrl-C]")
@pass_settings
def graph(settings: Settings, stream: str | None, consumer: str | None, interval: int, count: int | None) -> None:
    """Draw what a consumer delivers, gets acknowledged and has left to do, live."""
    clock, looks = SystemClock(), deque[Look](maxlen=KEPT_COUNT)
    with jetstream() as js:
        found = pick_consumer(pick_stream(js, stream), consumer)
        before, before_ns = found.cached_info, clock.monotonic_ns()
        live = is_terminal() and not settings.json
        with pictures(live=live) as show:
            for number in itertools.count(1):
                time.sleep(interval / SECOND_NS)
                after, after_ns = found.info(), clock.monotonic_ns()
                looks.append(look(before, after, (after_ns - before_ns) / SECOND_NS))
                if settings.json:
                    emit_json_line({"stream": after.stream_name, "consumer": after.name, **asdict(looks[-1])})
                elif live:
                    size = console().size
                    title = f"Consumer Statistics for {after.stream_name} > {after.name}"
                    show(picture(title, looks, size.width, size.height))
                else:
                    echo(line(looks[-1], now_ns()))
                if number == count:
                    return
                before, before_ns = after, after_ns


def line(seen: Look, at_ns: int) -> str:
    """A look for a pipe."""
    return (
        f"{local_time(at_ns)}  delivered: {seen.delivered_per_sec:,.1f}/s  acknowledged: {seen.acked_per_sec:,.1f}/s"
        f"  waiting for ack: {human_count(seen.ack_pending)}  pending: {human_count(seen.pending)}"
    )


def picture(title: str, looks: Sequence[Look], width: int, height: int) -> Text:
    """Four plots below each other, the newest look at the right, as large as the screen allows."""
    from rich.text import Text

    # Each plot has a caption and an empty line besides.
    line_count = max(1, (height - 2) // len(PLOTS) - 2)
    edge = "┤" if can_draw() else "|"
    made = Text(no_wrap=True)
    made.append(title, style="bold")
    for name, caption in PLOTS:
        values = [float(getattr(one, name)) for one in looks]
        top = f"{max(values):,.0f}"
        labels = [top, *[""] * (line_count - 2), "0"][:line_count]
        drawn = columns(values[-max(1, width - len(top) - 3) :], line_count)
        made.append(f"\n\n{caption}: {values[-1]:,.0f}")
        for label, row in zip(labels, drawn, strict=True):
            made.append(f"\n{label:>{len(top)}} {edge} {row}")
    return made
