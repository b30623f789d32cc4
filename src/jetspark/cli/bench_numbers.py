"""The arithmetic of a benchmark: percentiles, rates over time, and what they look like as text.

Decided here: how many durations become a few numbers, how clients are added up, and how a chart is drawn.
Not known here: what was measured, and where the words go.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

PERCENTS: Final = (50.0, 90.0, 99.0, 99.9)
CHART_COLUMNS: Final = 48
BAR_COLUMNS: Final = 32
HISTOGRAM_ROWS: Final = 8


@dataclass(frozen=True, slots=True)
class ClientResult:
    """What one client did. Times are of the machine's monotonic clock, which all clients share."""

    count: int
    byte_count: int
    start_ns: int
    end_ns: int
    latencies_ns: list[int] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)
    """How many were done at which time, now and then."""

    @property
    def elapsed_s(self) -> float:
        """How long it took; never zero, so that it can be divided by."""
        return max(1, self.end_ns - self.start_ns) / 1e9

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.count / self.elapsed_s


def percentile(ordered: Sequence[int], percent: float) -> int:
    """The smallest value that so many percent of the values do not exceed. `ordered` is sorted and not empty."""
    rank = math.ceil(len(ordered) * percent / 100)
    return ordered[min(len(ordered), max(1, rank)) - 1]


@dataclass(frozen=True, slots=True)
class Latency:
    """A heap of durations in a few numbers."""

    count: int
    min_ns: int
    mean_ns: float
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int

    @classmethod
    def of(cls, durations_ns: Sequence[int]) -> Latency | None:
        """None when there are none."""
        if not durations_ns:
            return None
        ordered = sorted(durations_ns)
        p50, p90, p99, p999 = (percentile(ordered, percent) for percent in PERCENTS)
        return cls(len(ordered), ordered[0], sum(ordered) / len(ordered), p50, p90, p99, p999, ordered[-1])

    def document(self) -> dict[str, Any]:
        """For machines, in microseconds as `nats bench` counts them."""
        return {
            "count": self.count,
            "min_us": self.min_ns / 1e3,
            "avg_us": self.mean_ns / 1e3,
            "p50_us": self.p50_ns / 1e3,
            "p90_us": self.p90_ns / 1e3,
            "p99_us": self.p99_ns / 1e3,
            "p999_us": self.p999_ns / 1e3,
            "max_us": self.max_ns / 1e3,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """All clients of one run together."""

    clients: list[ClientResult]

    @property
    def count(self) -> int:
        """Messages in all."""
        return sum(client.count for client in self.clients)

    @property
    def byte_count(self) -> int:
        """Payload bytes in all."""
        return sum(client.byte_count for client in self.clients)

    @property
    def elapsed_s(self) -> float:
        """From the first client's start to the last one's end."""
        start_ns, end_ns = self._span()
        return max(1, end_ns - start_ns) / 1e9

    def _span(self) -> tuple[int, int]:
        """When the first client began and the last ended; those that had nothing to do do not count."""
        busy = [client for client in self.clients if client.count] or self.clients
        return min(client.start_ns for client in busy), max(client.end_ns for client in busy)

    @property
    def rate(self) -> float:
        """Messages a second, over all clients."""
        return self.count / self.elapsed_s

    @property
    def byte_rate(self) -> float:
        """Bytes a second, over all clients."""
        return self.byte_count / self.elapsed_s

    def latency(self) -> Latency | None:
        """The durations of all clients together."""
        return Latency.of(self.latencies_ns())

    def latencies_ns(self) -> list[int]:
        """Every duration that was measured."""
        return [one for client in self.clients for one in client.latencies_ns]

    def spread(self) -> tuple[float, float, float, float]:
        """Of the clients' own rates: min, mean, max and standard deviation."""
        rates = [client.rate for client in self.clients]
        return min(rates), statistics.fmean(rates), max(rates), statistics.pstdev(rates)

    def rates_over_time(self, column_count: int = CHART_COLUMNS) -> list[float]:
        """Messages a second in each of so many equal slices of the run."""
        start_ns, end_ns = self._span()
        span_ns = end_ns - start_ns
        if span_ns <= 0:
            return []
        done = [0.0] * (column_count + 1)
        for client in self.clients:
            marks = [(client.start_ns, 0), *client.marks, (client.end_ns, client.count)]
            for edge in range(column_count + 1):
                done[edge] += _done_at(marks, start_ns + span_ns * edge / column_count)
        slice_s = span_ns / column_count / 1e9
        return [max(0.0, after - before) / slice_s for before, after in itertools.pairwise(done)]


def _done_at(marks: Sequence[tuple[int, int]], time_ns: float) -> float:
    """How many were done then: a straight line between the marks around it."""
    if time_ns <= marks[0][0]:
        return 0.0
    for (before_ns, before), (after_ns, after) in itertools.pairwise(marks):
        if time_ns <= after_ns:
            part = (time_ns - before_ns) / max(1, after_ns - before_ns)
            return before + (after - before) * part
    return float(marks[-1][1])


@dataclass(frozen=True, slots=True)
class HistogramRow:
    """How many durations were up to a limit and above the row before."""

    limit_ns: int
    count: int
    bar: str


def histogram(durations_ns: Sequence[int], *, row_count: int = HISTOGRAM_ROWS, block: str = "█") -> list[HistogramRow]:
    """Durations by size, in rows whose limits grow by a constant factor: latencies spread over orders of magnitude."""
    if not durations_ns:
        return []
    low, high = max(1, min(durations_ns)), max(1, max(durations_ns))
    if low == high:
        return [HistogramRow(high, len(durations_ns), block * BAR_COLUMNS)]
    growth = (high / low) ** (1 / row_count)
    limits = [math.ceil(low * growth ** (row + 1)) for row in range(row_count)]
    limits[-1] = high
    counts = [0] * row_count
    scale = 1 / math.log(growth)
    for duration_ns in durations_ns:
        row = min(row_count - 1, int(math.log(max(low, duration_ns) / low) * scale))
        counts[row] += 1
    top = max(counts)
    # What is there at all is seen: a single slow one is what people look for.
    bars = [block * (math.ceil(count / top * BAR_COLUMNS) if count else 0) for count in counts]
    return [HistogramRow(*row) for row in zip(limits, counts, bars, strict=True)]
