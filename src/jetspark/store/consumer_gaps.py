"""What the frames that are left of a damaged consumer log tell about those that are lost.

Every delivery has a number of its own, one higher than the one before. So a delivery after a gap tells whether others
were lost in it, and which messages these may have been: those between the last one before the gap and itself. Of some
of them the frames that are left say that they are done with; what became of the others is not known.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from mypy_extensions import i64

from jetspark.store.consumer_codec import (
    ACKED_ALL,
    ACKED_RUN,
    DELIVERED_RUN,
    DROPPED,
    FORGOTTEN,
    NUMBER_COUNTS,
    POSITION,
    REDELIVERED,
    SNAPSHOT,
)
from jetspark.store.numbers import get_i64

SEQ_MAX: Final = (1 << 63) - 1


class LogGaps:
    """Fed with the whole frames of a log and with the gaps between them, in order."""

    def __init__(self) -> None:
        # Stream sequences, first and last, of messages that may have been delivered without the log knowing of it.
        self.unknown: list[tuple[int, int]] = []
        # The same of messages that were acknowledged, given up or gone, in the words of frames that are left.
        self._settled: list[tuple[int, int]] = []
        self._is_after_gap: bool = False
        self._has_lost: bool = False
        self._consumer_seq: i64 = 0
        self._stream_seq: i64 = 0

    def is_settled(self, seq: int) -> bool:
        """Do the frames that are left say that this message is done with?"""
        at = bisect_right(self._settled, (seq, SEQ_MAX)) - 1
        return at >= 0 and seq <= self._settled[at][1]

    def sort(self) -> None:
        """All frames were seen."""
        runs = sorted(self._settled)
        self._settled = []
        for first, last in runs:
            if self._settled and first <= self._settled[-1][1] + 1:
                before = self._settled.pop()
                first, last = before[0], max(before[1], last)
            self._settled.append((first, last))

    def gap(self) -> None:
        """Something is missing here."""
        self._is_after_gap = True

    def take_frame(self, data: bytes, at: i64, length: i64) -> None:
        start: i64 = at + 5
        end: i64 = at + length - 8
        if data[at + 4] == SNAPSHOT:
            self._consumer_seq = get_i64(data, start)
            self._stream_seq = get_i64(data, start + 8)
            return
        while start < end:
            kind = data[start]
            self._take_entry(kind, data, start + 1)
            start += 1 + 8 * NUMBER_COUNTS[kind]

    def _take_entry(self, kind: int, data: bytes, at: i64) -> None:
        first = get_i64(data, at)
        second = get_i64(data, at + 8)
        if kind == DELIVERED_RUN:
            count = get_i64(data, at + 16)
            self._delivered(first - 1, second, True)
            self._consumer_seq = second + count - 1
            self._stream_seq = max(self._stream_seq, first + count - 1)
        elif kind == REDELIVERED:
            # Delivered before: it says nothing of how far the others had come, unless it is ahead of them.
            self._delivered(first, second, first > self._stream_seq)
            self._consumer_seq = second
            self._stream_seq = max(self._stream_seq, first)
        elif kind == POSITION:
            self._delivered(second, first + 1, True)
            self._consumer_seq = first
            self._stream_seq = second
        elif kind == ACKED_RUN:
            self._settled.append((first, first + second - 1))
        elif kind == ACKED_ALL:
            self._settled.append((0, first))
        elif kind in (DROPPED, FORGOTTEN):
            self._settled.append((first, first))

    def _delivered(self, before_seq: i64, consumer_seq: i64, is_new: bool) -> None:
        """The next delivery has this number; with a new one, all before it in the stream had their turn."""
        if not self._is_after_gap:
            return
        if consumer_seq != self._consumer_seq + 1:
            self._has_lost = True
        if self._has_lost and is_new and before_seq > self._stream_seq:
            self.unknown.append((self._stream_seq + 1, before_seq))
        if is_new or not self._has_lost:
            self._is_after_gap = False
            self._has_lost = False
