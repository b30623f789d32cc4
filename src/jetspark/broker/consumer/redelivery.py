"""What has been delivered and not acknowledged, and when it is owed again.

Messages come back when their wait has passed or a client said no; in which order is decided here. The counts live in
the store's ConsumerState, so that they survive a restart; this room changes them and logs each change.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.store.consumer_state import PendingEntry

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer


class Redelivery:
    """The messages one consumer waits for, and those it must send again."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.queue: deque[int] = deque()
        self._queued: set[int] = set()

    # -- the queue -----------------------------------------------------------------------------------------------

    def push(self, seq: int) -> None:
        if seq not in self._queued:
            self._queued.add(seq)
            self.queue.append(seq)

    def pop(self) -> int:
        seq = self.queue.popleft()
        self._queued.discard(seq)
        return seq

    def push_front(self, seq: int) -> None:
        if seq not in self._queued:
            self._queued.add(seq)
            self.queue.appendleft(seq)

    def is_queued(self, seq: int) -> bool:
        return seq in self._queued

    def unqueue(self, seq: int) -> None:
        if seq in self._queued:
            self._queued.discard(seq)
            self.queue.remove(seq)

    def clear(self) -> None:
        self.queue.clear()
        self._queued.clear()

    # -- waiting for acks ----------------------------------------------------------------------------------------

    def wait_ns(self, deliveries: i64) -> i64:
        """How long the n-th delivery may stay unacknowledged."""
        backoff = self._consumer.backoff
        if backoff:
            step = deliveries - 1
            if step >= len(backoff):
                step = len(backoff) - 1
            return backoff[step if step > 0 else 0]
        return self._consumer.ack_wait_ns

    def due_ns(self, entry: PendingEntry) -> i64:
        return entry.delivered_ts_ns + self.wait_ns(entry.deliveries)

    def collect_expired(self, now_ns: i64) -> i64:
        """Queue everything whose wait has passed; returns when to look again, 0 for never."""
        consumer = self._consumer
        next_due: i64 = 0
        expired: list[int] = []
        for seq, entry in consumer.state.pending.items():
            if seq in self._queued:
                continue
            due = self.due_ns(entry)
            if due <= now_ns:
                expired.append(seq)
            elif next_due == 0 or due < next_due:
                next_due = due
        expired.sort()
        for seq in expired:
            if consumer.deliveries_max == 1:
                # The only delivery there will be has failed; nothing needs to be sent to know that.
                consumer.give_up(seq, 1)
            else:
                self.push(seq)
        return next_due
