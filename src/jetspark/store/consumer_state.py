"""What a consumer remembers: how far it delivered, how far it is acknowledged, and what is outstanding.

The broker changes it and tells the log each change in the same words; replaying the log makes the same changes again.
The rules that decide the changes (when the floor moves, when a message is given up) are the broker's alone.
"""

from __future__ import annotations

from mypy_extensions import i64


class PendingEntry:
    """A message delivered and not acknowledged."""

    def __init__(self, consumer_seq: i64, delivered_ts_ns: i64, deliveries: i64) -> None:
        # Of its first delivery; the time is that of its latest.
        self.consumer_seq: i64 = consumer_seq
        self.delivered_ts_ns: i64 = delivered_ts_ns
        self.deliveries: i64 = deliveries


class ConsumerState:
    """The state of one consumer."""

    def __init__(self) -> None:
        self.delivered_consumer_seq: i64 = 0
        self.delivered_stream_seq: i64 = 0
        self.floor_consumer_seq: i64 = 0
        self.floor_stream_seq: i64 = 0
        self.last_delivered_ts_ns: i64 = 0
        self.last_ack_ts_ns: i64 = 0
        self.pending: dict[int, PendingEntry] = {}
        # Deliveries of messages delivered more than once; an entry may outlive its place among the pending ones.
        self.redelivered: dict[int, int] = {}
