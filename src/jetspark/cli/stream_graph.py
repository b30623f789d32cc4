"""`jetspark stream graph`: what a stream gets and loses, over time.

Decided here: what two looks at a stream tell of the time between them. How it is drawn is in `graphs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from jetspark.api.stream_state import StreamState
from jetspark.cli.connect import jetstream
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import human_count
from jetspark.cli.graphs import Look, look_options, rate, show_looks, ticks
from jetspark.cli.names import pick_stream, stream_argument
from jetspark.cli.stream_group import stream

if TYPE_CHECKING:
    from jetspark.sync import Stream

PLOTS: Final = (
    ("messages", "Messages Stored"),
    ("removed_per_sec", "Messages Removed / second"),
    ("stored_per_sec", "Messages Stored / second"),
)


def look(before: StreamState, after: StreamState, elapsed_s: float) -> dict[str, float]:
    """A stream as it is now, and how fast it was since the look before."""
    added = max(0, after.last_seq - before.last_seq)
    return {
        "messages": after.messages,
        # By what is missing: a work queue loses messages from its middle too, where the first sequence stays.
        "removed_per_sec": rate(before.messages + added, after.messages, elapsed_s),
        "stored_per_sec": added / elapsed_s,
    }


def looks(found: Stream, interval_ns: int, count: int | None) -> Iterator[Look]:
    """Look after look."""
    before = found.cached_info.state
    for elapsed_s in ticks(interval_ns, count):
        after = found.info().state
        yield look(before, after, elapsed_s)
        before = after


@stream.verb("graph")
@stream_argument
@look_options
@pass_settings
def graph(settings: Settings, stream: str | None, interval: int, count: int | None) -> None:
    """Draw what a stream holds, gets and loses, live."""
    with jetstream() as js:
        found = pick_stream(js, stream)
        title = f"Stream Statistics for {found.name}"
        show_looks(settings, title, {"stream": found.name}, PLOTS, looks(found, interval, count), line)


def line(seen: Look) -> str:
    """A look for a pipe."""
    return (
        f"stored: {seen['stored_per_sec']:,.1f}/s  removed: {seen['removed_per_sec']:,.1f}/s"
        f"  messages: {human_count(int(seen['messages']))}"
    )
