"""Figures the server keeps about itself: how long commits and syncs take, how long clients take to acknowledge.

Decided here: what is counted, per consumer and for the disk. Not known here: who shows it (`metrics`, `dashboard`).
The disk's figures are written by whichever thread performs a commit, the others by the loop.
"""

from __future__ import annotations

from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.observer import Observer
from jetspark.server.histogram import Histogram


class CommitFigures:
    """What commits cost: the whole of each, the syncs in them, and the bytes they wrote."""

    def __init__(self) -> None:
        self.commits = Histogram()
        self.syncs = Histogram()
        self.written_bytes = 0


class ConsumerFigures:
    """What was sampled of one consumer since the server started."""

    __slots__ = ("ack_times", "deliveries", "exhausted_count", "last_ack_time_ns", "refused_count", "terminated_count")

    def __init__(self) -> None:
        self.ack_times = Histogram()
        self.last_ack_time_ns = 0
        self.deliveries = 0
        self.refused_count = 0
        self.terminated_count = 0
        self.exhausted_count = 0


class Observations(Observer):
    """The broker's observer: figures by consumer, made when there is something to count."""

    def __init__(self) -> None:
        super().__init__()
        self.by_consumer: dict[Consumer, ConsumerFigures] = {}

    def figures(self, consumer: Consumer) -> ConsumerFigures:
        known = self.by_consumer.get(consumer)
        if known is None:
            known = self.by_consumer[consumer] = ConsumerFigures()
        return known

    def forget_deleted(self) -> None:
        """Figures do not outlive their consumers."""
        for consumer in [consumer for consumer in self.by_consumer if consumer.deleted]:
            del self.by_consumer[consumer]

    def acknowledged(self, consumer: Consumer, ack_time_ns: int, deliveries: int) -> None:
        figures = self.figures(consumer)
        figures.ack_times.observe(ack_time_ns)
        figures.last_ack_time_ns = ack_time_ns
        figures.deliveries += deliveries

    def refused(self, consumer: Consumer) -> None:
        self.figures(consumer).refused_count += 1

    def terminated(self, consumer: Consumer) -> None:
        self.figures(consumer).terminated_count += 1

    def exhausted(self, consumer: Consumer) -> None:
        self.figures(consumer).exhausted_count += 1
