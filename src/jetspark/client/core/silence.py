"""When a server that should send heartbeats has been silent for too long.

Decided here: since when nothing arrived, however often and however briefly a reader waits. Not known here: the clock,
which the caller reads, and what to do about the silence.
"""

from __future__ import annotations

from typing import Final

# A reader that comes back late waits at least this long: what arrived meanwhile may still be in the socket.
LOOK_S: Final = 0.05


class Silence:
    """The time since the last arrival of one subscription, against a limit; a limit of 0 is none."""

    def __init__(self, limit_s: float, now_s: float) -> None:
        self.limit_s = limit_s
        self._heard_s = now_s
        self._arrived_count = 0

    def restart(self, now_s: float, arrived_count: int) -> None:
        """Something was asked for just now: the answer has the whole limit."""
        self._heard_s = now_s
        self._arrived_count = arrived_count

    def is_over(self, now_s: float, arrived_count: int) -> bool:
        """Whether nothing arrived for the whole limit."""
        if arrived_count != self._arrived_count:
            self.restart(now_s, arrived_count)
        return self.limit_s > 0 and now_s - self._heard_s >= self.limit_s

    def wait_s(self, now_s: float, arrived_count: int, limit_s: float | None) -> float | None:
        """How long to wait for the next arrival, at most the caller's own limit; None is without end."""
        if self.limit_s <= 0:
            return limit_s
        if arrived_count != self._arrived_count:
            self.restart(now_s, arrived_count)
        left_s = max(LOOK_S, self._heard_s + self.limit_s - now_s)
        return left_s if limit_s is None or left_s < limit_s else limit_s
