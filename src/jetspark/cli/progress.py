"""Progress of anything long: a bar with rate and time left on a terminal, nothing at all in a pipe or with --json.

Decided here: bars live on stderr and vanish when done, so that stdout holds results only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from jetspark.cli.durations import human_count, human_size
from jetspark.cli.output import console

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task, TaskID
    from rich.text import Text

BAR_WIDTH_MAX: Final = 40

progress_option = click.option("--progress/--no-progress", default=True, help="Show progress at a terminal")


class Bar:
    """Counts what is done."""

    def __init__(self, progress: Progress | None, task: TaskID | None) -> None:
        self._progress = progress
        self._task = task
        self.done = 0

    def advance(self, count: int = 1) -> None:
        """So much more is done."""
        self.move_to(self.done + count)

    def move_to(self, done: int) -> None:
        """So much is done altogether."""
        self.done = done
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done)

    def set_total(self, total: int) -> None:
        """It became known how much there is."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, total=total)


def _amount(count: float, unit: str) -> str:
    return human_size(count) if unit == "bytes" else f"{human_count(int(count))} {unit}"


def _columns(unit: str) -> list[ProgressColumn]:
    from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class Done(ProgressColumn):
        def render(self, task: Task) -> Text:
            if task.total is None:
                return Text(_amount(task.completed, unit))
            show = human_size if unit == "bytes" else human_count
            return Text(f"{show(int(task.completed))} of {show(int(task.total))}")

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{_amount(speed, unit)}/s")

    # On one line: the bar has what the words leave.
    def unbroken() -> Column:
        return Column(no_wrap=True)

    return [
        TextColumn("{task.description}", table_column=unbroken()),
        BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4, max_width=BAR_WIDTH_MAX)),
        Done(table_column=unbroken()),
        Rate(table_column=unbroken()),
        TextColumn("left", table_column=unbroken()),
        TimeRemainingColumn(table_column=unbroken()),
    ]


@contextmanager
def progress_bar(description: str, total: int | None, *, unit: str = "messages", show: bool = True) -> Iterator[Bar]:
    """A bar for one task; `unit` is what is counted (`bytes` shows sizes). Shown only on a terminal."""
    with progress_bars(show=show, unit=unit) as bars:
        yield bars.add(description, total)


class Bars:
    """Several bars below each other."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def add(self, description: str, total: int | None) -> Bar:
        """One more."""
        if self._progress is None:
            return Bar(None, None)
        return Bar(self._progress, self._progress.add_task(description, total=total))


@contextmanager
def progress_bars(*, show: bool = True, unit: str = "messages") -> Iterator[Bars]:
    """Bars for several tasks at once."""
    if not show or not sys.stderr.isatty():
        yield Bars(None)
        return
    from rich.progress import Progress

    with Progress(*_columns(unit), console=console(stderr=True), transient=True, expand=True) as progress:
        yield Bars(progress)
