"""`jetspark consumer graph`: how a consumer is doing, over time.

Decided here: what two looks at a consumer tell of the time between them. How it is drawn is in `graphs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from jetspark.cli.connect import jetstream
from jetspark.cli.consumer_group import consumer
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import human_count
from jetspark.cli.graphs import Look, look_options, rate, show_looks, ticks
from jetspark.cli.names import consumer_argument, pick_consumer, pick_stream, stream_argument
from jetspark.client.infos import ConsumerInfo

if TYPE_CHECKING:
    from jetspark.sync import Consumer

PLOTS: Final = (
    ("pending", "Messages Pending"),
    ("ack_pending", "Messages Waiting for Ack"),
    ("acked_per_sec", "Messages Acknowledged / second"),
    ("delivered_per_sec", "Messages Delivered / second"),
)


def look(before: ConsumerInfo, after: ConsumerInfo, elapsed_s: float) -> dict[str, float]:
    """A consumer as it is now, and how fast it was since the look before."""
    return {
        "pending": after.num_pending,
        "ack_pending": after.num_ack_pending,
        "acked_per_sec": rate(after.ack_floor.consumer_seq, before.ack_floor.consumer_seq, elapsed_s),
        "delivered_per_sec": rate(after.delivered.consumer_seq, before.delivered.consumer_seq, elapsed_s),
    }


def looks(found: Consumer, interval_ns: int, count: int | None) -> Iterator[Look]:
    """Look after look."""
    before = found.cached_info
    for elapsed_s in ticks(interval_ns, count):
        after = found.info()
        yield look(before, after, elapsed_s)
        before = after


@consumer.verb("graph")
@stream_argument
@consumer_argument
@look_options
@pass_settings
def graph(settings: Settings, stream: str | None, consumer: str | None, interval: int, count: int | None) -> None:
    """Draw what a consumer delivers, gets acknowledged and has left to do, live."""
    with jetstream() as js:
        found = pick_consumer(pick_stream(js, stream), consumer)
        info = found.cached_info
        title = f"Consumer Statistics for {info.stream_name} > {info.name}"
        about = {"stream": info.stream_name, "consumer": info.name}
        show_looks(settings, title, about, PLOTS, looks(found, interval, count), line)


def line(seen: Look) -> str:
    """A look for a pipe."""
    return (
        f"delivered: {seen['delivered_per_sec']:,.1f}/s  acknowledged: {seen['acked_per_sec']:,.1f}/s"
        f"  waiting for ack: {human_count(int(seen['ack_pending']))}  pending: {human_count(int(seen['pending']))}"
    )
