"""Which message ids a stream has seen within its duplicate window.

An id is remembered from the time its message was stored. Ids past the window are dropped as new ones come, so memory
follows the rate of publishing. Deleting or purging messages forgets nothing.
"""

from __future__ import annotations

from collections import deque

from mypy_extensions import i64, mypyc_attr


# It refers to nothing that could refer back, so the garbage collector need not look at it; there may be millions.
@mypyc_attr(acyclic=True)
class KnownId:
    """One id, and where and when its message was stored."""

    def __init__(self, message_id: bytes, seq: i64, ts_ns: i64) -> None:
        self.message_id = message_id
        self.seq = seq
        self.ts_ns = ts_ns


class DedupeWindow:
    """Message ids of one stream."""

    def __init__(self, window_ns: int) -> None:
        self.window_ns: i64 = window_ns
        self._known: dict[bytes, KnownId] = {}
        self._order: deque[KnownId] = deque()
        # When the oldest was stored: nothing is to be dropped before its time is over.
        self._oldest_ts_ns: i64 = 0
        # The id of the message stored last, for Nats-Expected-Last-Msg-Id; empty when that message had none.
        self.last_id: bytes = b""

    def find(self, message_id: bytes, now_ns: i64) -> i64:
        """The sequence stored under this id within the window, or 0."""
        known = self._known.get(message_id)
        if known is None or known.ts_ns + self.window_ns <= now_ns:
            return 0
        return known.seq

    def note(self, message_id: bytes, seq: i64, now_ns: i64) -> None:
        """A message was stored, with this id or, when that is empty, with none."""
        self.last_id = message_id
        if message_id:
            self.remember(message_id, seq, now_ns)

    def remember(self, message_id: bytes, seq: i64, ts_ns: i64) -> None:
        if self._oldest_ts_ns + self.window_ns <= ts_ns:
            self._expire(ts_ns)
        known = KnownId(message_id, seq, ts_ns)
        self._known[message_id] = known
        self._order.append(known)

    def forget_above(self, seq: i64) -> None:
        """Messages above this sequence were not stored after all."""
        gone = [known.message_id for known in self._known.values() if known.seq > seq]
        for message_id in gone:
            del self._known[message_id]

    def _expire(self, now_ns: i64) -> None:
        order = self._order
        while order:
            oldest = order[0]
            if oldest.ts_ns + self.window_ns > now_ns:
                self._oldest_ts_ns = oldest.ts_ns
                return
            order.popleft()
            # The id may have been stored again since; that entry has its own place in the order.
            if self._known.get(oldest.message_id) is oldest:
                del self._known[oldest.message_id]
        self._oldest_ts_ns = now_ns

    def size(self) -> int:
        return len(self._known)
