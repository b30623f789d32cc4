"""When something must be looked at again: one heap of deadlines for the whole broker.

Time is a number given by the caller. Moving a deadline later costs nothing (the entry is put back when it comes up
early); the edge arms one real timer for `next_ns()`.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from mypy_extensions import i64, mypyc_attr

# What the disk did not let happen is tried again after this long.
RETRY_NS: Final = 1_000_000_000


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerOwner:
    """Whoever wants to be called back."""

    def on_timer(self, kind: int, now_ns: i64) -> None:
        raise NotImplementedError

    def timer_failed(self, error: Exception) -> None:
        """`on_timer` raised: whoever this timer belongs to goes offline, and nobody else."""
        raise NotImplementedError


class Timer:
    """One thing to be reminded of; `kind` tells the owner which of its timers this is."""

    def __init__(self, owner: TimerOwner, kind: int) -> None:
        self.owner = owner
        self.kind = kind
        self.deadline_ns: i64 = 0
        self.queued_ns: i64 = 0


class TimerQueue:
    """All timers of a broker, earliest first."""

    def __init__(self) -> None:
        # Errors of the disk that callbacks met; whoever runs the timers takes them from here.
        self.failures: list[OSError] = []
        self._heap: list[tuple[int, int, Timer]] = []
        self._serial: int = 0

    def arm(self, timer: Timer, deadline_ns: i64) -> None:
        """Call back at the deadline, replacing an earlier wish."""
        timer.deadline_ns = deadline_ns
        if timer.queued_ns == 0 or deadline_ns < timer.queued_ns:
            self._push(timer, deadline_ns)

    def arm_if_earlier(self, timer: Timer, deadline_ns: i64) -> None:
        if timer.deadline_ns == 0 or deadline_ns < timer.deadline_ns:
            self.arm(timer, deadline_ns)

    def cancel(self, timer: Timer) -> None:
        timer.deadline_ns = 0

    def _push(self, timer: Timer, deadline_ns: i64) -> None:
        timer.queued_ns = deadline_ns
        self._serial += 1
        heappush(self._heap, (deadline_ns, self._serial, timer))

    def next_ns(self) -> i64:
        """The earliest deadline, 0 when nothing waits."""
        heap = self._heap
        while heap:
            deadline, _, timer = heap[0]
            if timer.queued_ns == deadline and timer.deadline_ns != 0:
                return deadline
            heappop(heap)
            if timer.queued_ns == deadline:
                timer.queued_ns = 0
        return 0

    def run(self, now_ns: i64) -> None:
        """Call back everything that is due. A timer armed meanwhile for the past runs in the next call."""
        due: list[Timer] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            deadline, _, timer = heappop(heap)
            if timer.queued_ns != deadline:
                continue
            timer.queued_ns = 0
            if timer.deadline_ns == 0:
                continue
            if timer.deadline_ns > now_ns:
                self._push(timer, timer.deadline_ns)
            else:
                due.append(timer)
        for timer in due:
            if timer.deadline_ns == 0 or timer.deadline_ns > now_ns:
                continue
            timer.deadline_ns = 0
            try:
                timer.owner.on_timer(timer.kind, now_ns)
            except OSError as error:
                # One stream that cannot be read holds up nobody else's timers, and its own come back.
                self.failures.append(error)
                self.arm_if_earlier(timer, now_ns + RETRY_NS)
            except Exception as error:  # noqa: BLE001 - the others are due all the same
                timer.owner.timer_failed(error)
