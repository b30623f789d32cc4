"""The last hour of one figure, in a ring of fixed size.

Decided here: one value for each step of time, the mean of what was put in during it. Not known here: what the values
are. Steps are numbers handed in, so every ring of a server can be laid over every other.
"""

from __future__ import annotations

import math
from array import array
from typing import Final

STEP_S: Final = 10
STEP_COUNT: Final = 3600 // STEP_S
_NOTHING: Final = math.nan


class Series:
    """One ring of values."""

    __slots__ = ("_count", "_last_step", "_values")

    def __init__(self) -> None:
        self._values = array("f", [_NOTHING]) * STEP_COUNT
        self._last_step = -1
        # How many values the newest step has had.
        self._count = 0

    def put(self, step: int, value: float) -> None:
        """The figure is `value` in this step. Steps may be left out and never go back."""
        place = step % STEP_COUNT
        if step == self._last_step:
            self._count += 1
            self._values[place] += (value - self._values[place]) / self._count
            return
        if self._last_step >= 0:
            for missed in range(max(self._last_step + 1, step - STEP_COUNT + 1), step):
                self._values[missed % STEP_COUNT] = _NOTHING
        self._values[place] = value
        self._last_step, self._count = step, 1

    def until(self, step: int, count: int = STEP_COUNT) -> list[float | None]:
        """The last `count` values up to this step; None where there was none, and none before the first."""
        values = [self._at(number) for number in range(step - count + 1, step + 1)]
        first = next((place for place, value in enumerate(values) if value is not None), len(values))
        return values[first:]

    def _at(self, step: int) -> float | None:
        if step < 0 or step > self._last_step or step <= self._last_step - STEP_COUNT:
            return None
        value = self._values[step % STEP_COUNT]
        return None if math.isnan(value) else float(f"{value:.5g}")
