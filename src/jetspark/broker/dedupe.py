"""Which message ids a stream has seen within its duplicate window.

An id is remembered from the time its message was stored. Ids past the window are dropped as new ones come, so memory
follows the rate of publishing. Deleting or purging messages forgets nothing.
"""

from __future__ import annotations

from collections import deque

from mypy_extensions import i64


class DedupeWindow:
    """Message ids of one stream."""

    def __init__(self, window_ns: int) -> None:
        self.window_ns: i64 = window_ns
        self._sequences: dict[bytes, tuple[int, int]] = {}
        self._order: deque[tuple[int, bytes]] = deque()
        # The id of the message stored last, for Nats-Expected-Last-Msg-Id; empty when that message had none.
        self.last_id: bytes = b""

    def find(self, message_id: bytes, now_ns: i64) -> i64:
        """The sequence stored under this id within the window, or 0."""
        known = self._sequences.get(message_id)
        if known is None or known[1] + self.window_ns <= now_ns:
            return 0
        return known[0]

    def remember(self, message_id: bytes, seq: i64, ts_ns: i64) -> None:
        self._expire(ts_ns)
        self._sequences[message_id] = (seq, ts_ns)
        self._order.append((ts_ns, message_id))

    def forget_above(self, seq: i64) -> None:
        """Messages above this sequence were not stored after all."""
        gone = [message_id for message_id, known in self._sequences.items() if known[0] > seq]
        for message_id in gone:
            del self._sequences[message_id]

    def _expire(self, now_ns: i64) -> None:
        order = self._order
        while order:
            ts_ns, message_id = order[0]
            if ts_ns + self.window_ns > now_ns:
                return
            order.popleft()
            known = self._sequences.get(message_id)
            # The id may have been stored again since; that entry has its own place in the order.
            if known is not None and known[1] == ts_ns:
                del self._sequences[message_id]

    def size(self) -> int:
        return len(self._sequences)
