"""What `jetspark subscribe` shows of many messages together: counts by subject, and rates over time.

Decided here: what is counted, and when it is shown: at a terminal every second, else once at the end, however it ends.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from jetspark.cli.context import Settings
from jetspark.cli.durations import human_count, human_size
from jetspark.cli.graphs import Look, show_looks
from jetspark.cli.output import emit_json, is_terminal, pictures, show_table, table
from jetspark.cli.sub_sources import Arrival

REFRESH_S: Final = 1.0
# More plots than that fit no screen.
GRAPHS_MAX: Final = 4
COLUMNS: Final = ("Subject", "Message Count", "Bytes")
NUMBERS: Final = ("Message Count", "Bytes")


class Tally:
    """Messages and bytes by subject, or by the subscription they came by."""

    def __init__(self, *, by_subscription: bool, top: int) -> None:
        self._by_subscription = by_subscription
        self._top = top
        self.counts: Counter[str] = Counter()
        self.byte_counts: Counter[str] = Counter()

    def add(self, arrival: Arrival) -> None:
        """One more."""
        name = arrival.pattern if self._by_subscription else arrival.message.subject
        self.counts[name] += 1
        self.byte_counts[name] += len(arrival.message.data)

    @property
    def title(self) -> str:
        """What the table is called."""
        kind = "Subscriptions" if self._by_subscription else "Subjects"
        return f"Top {self._top} Active {kind} Report"

    def rows(self) -> list[tuple[str, str, str]]:
        """The busiest, and all together, which are more where not all are shown."""
        if not self.counts:
            return []
        made = [
            (name, human_count(count), human_size(self.byte_counts[name]))
            for name, count in self.counts.most_common(self._top)
        ]
        return [*made, ("Totals", human_count(self.counts.total()), human_size(self.byte_counts.total()))]

    def document(self) -> dict[str, int]:
        """The busiest for a script."""
        return dict(self.counts.most_common(self._top))


def show_tally(settings: Settings, tally: Tally, arrivals: Iterable[Arrival | None]) -> None:
    """Count until they end or Ctrl-C does it; what was counted is shown in either case."""
    live = is_terminal() and not settings.json
    shown_s = 0.0
    try:
        with pictures(live=live) as show:
            for arrival in arrivals:
                if arrival is not None:
                    tally.add(arrival)
                if live and time.monotonic() - shown_s >= REFRESH_S:
                    shown_s = time.monotonic()
                    show(table(tally.title, COLUMNS, tally.rows(), right=NUMBERS))
    finally:
        if settings.json:
            emit_json(tally.document())
        else:
            show_table(tally.title, COLUMNS, tally.rows(), right=NUMBERS, empty="No messages came")


def show_graph(settings: Settings, patterns: list[str], arrivals: Iterable[Arrival | None]) -> None:
    """Rates by subscription, a look a second."""
    plots = [(pattern, f"{pattern} / second") for pattern in patterns]

    def line(look: Look) -> str:
        return "  ".join(f"{pattern}: {look[pattern]:,.1f}/s" for pattern in patterns)

    show_looks(settings, "Message Rates", {}, plots, _rates(patterns, arrivals), line)


def _rates(patterns: list[str], arrivals: Iterable[Arrival | None]) -> Iterator[Look]:
    counts: Counter[str] = Counter()
    before_s = time.monotonic()

    def look() -> Look:
        elapsed_s = max(1e-9, time.monotonic() - before_s)
        return {pattern: counts[pattern] / elapsed_s for pattern in patterns}

    for arrival in arrivals:
        if arrival is not None:
            counts[arrival.pattern] += 1
        if time.monotonic() - before_s >= REFRESH_S:
            yield look()
            counts.clear()
            before_s = time.monotonic()
    if counts:
        yield look()
