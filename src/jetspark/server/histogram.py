"""Durations counted in buckets: what a Prometheus histogram and a percentile need, and no more.

Decided here: how a duration finds its bucket, and how a percentile is read from counts. Not known here: what is
measured, and when. One thread writes; another may read at any time and is at most one duration behind.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

# From a tenth of a millisecond, which a good disk needs, to ten seconds, which nobody should.
LATENCY_BOUNDS_S: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)


class Histogram:
    """Counts of durations by their upper bounds; the last bucket has none."""

    __slots__ = ("_bounds_ns", "bounds_s", "counts", "sum_ns")

    def __init__(self, bounds_s: Sequence[float] = LATENCY_BOUNDS_S) -> None:
        self.bounds_s = tuple(bounds_s)
        self._bounds_ns = [int(bound * 1e9) for bound in self.bounds_s]
        self.counts = [0] * (len(self.bounds_s) + 1)
        self.sum_ns = 0

    def observe(self, duration_ns: int) -> None:
        self.counts[bisect_left(self._bounds_ns, duration_ns)] += 1
        self.sum_ns += duration_ns

    @property
    def total(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """Bucket bounds as Prometheus writes them, each with the count of everything up to it."""
        bounds = [str(bound) for bound in self.bounds_s] + ["+Inf"]
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))


def quantile_s(bounds_s: Sequence[float], counts: Sequence[int], share: float) -> float:
    """The duration below which `share` of the counted lie, evenly spread inside its bucket; 0 when none were."""
    wanted = share * sum(counts)
    if wanted <= 0:
        return 0.0
    seen, lower = 0, 0.0
    for bound, count in zip(bounds_s, counts, strict=False):
        if count and seen + count >= wanted:
            return lower + (bound - lower) * (wanted - seen) / count
        seen += count
        lower = bound
    return lower
