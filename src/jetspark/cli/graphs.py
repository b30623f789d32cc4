"""Numbers over time, live: plots at a terminal, a line a look in a pipe, a document a look with --json.

Decided here: how looks are drawn, and where they go. Not known here: what is looked at, and what two looks tell of the
time between them.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from jetspark.cli.charts import can_draw, columns
from jetspark.cli.context import Settings
from jetspark.cli.durations import DURATION, SECOND_NS, local_time, now_ns
from jetspark.cli.output import console, echo, emit_json_line, is_terminal, pictures
from jetspark.clock import SystemClock

if TYPE_CHECKING:
    from rich.text import Text

# More looks than a terminal has columns.
KEPT_COUNT: Final = 1000

Function = TypeVar("Function", bound=Callable[..., Any])
Look = Mapping[str, float]
# What is drawn of a look, from top to bottom, and its words.
Plots = Sequence[tuple[str, str]]


def look_options(function: Function) -> Function:
    """How often to look, and how many times."""
    for option in (
        click.option("--count", "-n", type=click.IntRange(min=1), help="End after so many looks  [default: by Ctrl-C]"),
        click.option("--interval", "-d", type=DURATION, default="1s", show_default=True, help="Time between two looks"),
    ):
        function = option(function)
    return function


def ticks(interval_ns: int, count: int | None) -> Iterator[float]:
    """Wait, then give the seconds since the time before; so many times, or without end."""
    clock = SystemClock()
    before_ns = clock.monotonic_ns()
    for _ in range(count) if count is not None else itertools.count():
        time.sleep(interval_ns / SECOND_NS)
        after_ns = clock.monotonic_ns()
        yield max(1, after_ns - before_ns) / SECOND_NS
        before_ns = after_ns


def rate(now: float, then: float, elapsed_s: float) -> float:
    """How much was added a second. What was made anew or reset counts from there."""
    return max(0.0, now - then) / elapsed_s


def show_looks(
    settings: Settings,
    title: str,
    about: Mapping[str, str],
    plots: Plots,
    looks: Iterator[Look],
    line: Callable[[Any], str],
) -> None:
    """Every look as it comes; `about` stands in each document, and `line` says a look in words."""
    kept = deque[Look](maxlen=KEPT_COUNT)
    live = is_terminal() and not settings.json
    with pictures(live=live) as show:
        for look in looks:
            kept.append(look)
            if settings.json:
                emit_json_line({**about, **look})
            elif live:
                size = console().size
                show(picture(title, plots, kept, size.width, size.height))
            else:
                echo(f"{local_time(now_ns())}  {line(look)}")


def picture(title: str, plots: Plots, looks: Sequence[Look], width: int, height: int) -> Text:
    """The plots below each other, the newest look at the right, as large as the screen allows."""
    from rich.text import Text

    # Each plot has a caption and an empty line besides.
    line_count = max(1, (height - 2) // len(plots) - 2)
    edge = "┤" if can_draw() else "|"
    made = Text(no_wrap=True)
    made.append(title, style="bold")
    for name, caption in plots:
        values = [float(one[name]) for one in looks]
        top = f"{max(values):,.0f}"
        labels = [top, *[""] * (line_count - 2), "0"][:line_count]
        drawn = columns(values[-max(1, width - len(top) - 3) :], line_count)
        made.append(f"\n\n{caption}: {values[-1]:,.0f}")
        for label, row in zip(labels, drawn, strict=True):
            made.append(f"\n{label:>{len(top)}} {edge} {row}")
    return made
