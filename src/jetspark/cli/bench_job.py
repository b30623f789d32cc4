"""One client of a benchmark: what all kinds share.

Decided here: when the clock starts and stops, how often progress is told, and the loop of the kinds that do one thing
after another. Not known here: what is done (`bench_jobs`, `bench_core_jobs`), and what becomes of the numbers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from random import Random

from jetspark.cli.bench_numbers import ClientResult
from jetspark.cli.bench_plan import Kind, Plan
from jetspark.client.errors import JetStreamError
from jetspark.clock import Clock
from jetspark.sync import Connection

# Progress is told this often; more would be measured, less would look stuck.
REPORT_INTERVAL_NS = 50_000_000
# How long a client that shares its work waits before it looks whether the others are done.
LOOK_INTERVAL_S = 0.1
# Messages between two looks at the clock, where that is not a batch.
CHUNK_COUNT = 100


class Meter:
    """Counts, times and now and then tells how far it is."""

    def __init__(self, clock: Clock, report: Callable[[int], None], *, duration_s: float = 0.0) -> None:
        self._now_ns = clock.monotonic_ns
        self._report = report
        self._duration_ns = round(duration_s * 1e9)
        self.count = 0
        self.byte_count = 0
        self.latencies_ns: list[int] = []
        self.marks: list[tuple[int, int]] = []
        self.start_ns = self.end_ns = self._next_report_ns = 0

    def start(self) -> int:
        """Now the timed part begins."""
        self.start_ns = self.end_ns = self._now_ns()
        self._next_report_ns = self.start_ns + REPORT_INTERVAL_NS
        return self.start_ns

    def done(self, count: int, byte_count: int) -> int:
        """So many more are done; the time."""
        self.count += count
        self.byte_count += byte_count
        self.end_ns = now_ns = self._now_ns()
        if now_ns >= self._next_report_ns:
            self._next_report_ns = now_ns + REPORT_INTERVAL_NS
            self.marks.append((now_ns, self.count))
            self._report(self.count)
        return now_ns

    @property
    def is_over(self) -> bool:
        """The duration asked for, if one was, has passed."""
        return 0 < self._duration_ns <= self.end_ns - self.start_ns

    @property
    def left_s(self) -> float:
        """How much of the duration is left; without end where none was asked for."""
        if not self._duration_ns:
            return math.inf
        return max(0, self.start_ns + self._duration_ns - self.end_ns) / 1e9

    def tell(self) -> None:
        """Report at once."""
        self._report(self.count)

    def result(self) -> ClientResult:
        """What was measured."""
        return ClientResult(self.count, self.byte_count, self.start_ns, self.end_ns, self.latencies_ns, self.marks)


class Job:
    """One client: `prepare` is not timed, `run` is."""

    def __init__(
        self, plan: Plan, client: int, connection: Connection, meter: Meter, is_stopped: Callable[[], bool]
    ) -> None:
        self.plan = plan
        self.share = plan.share(client)
        self.connection = connection
        self.jetstream = connection.jetstream(
            domain=str(plan.connection.get("js_domain", "")),
            api_prefix=str(plan.connection.get("js_api_prefix", "")),
            publish_window=max(1, plan.batch_count),
        )
        self.meter = meter
        self.is_stopped = is_stopped
        self.subjects = plan.subjects(self.share, Random(client))
        self.body = plan.body()
        # Confirmed acknowledgements are so slow that a whole batch would be late to be counted.
        is_small = plan.kind is Kind.PUB or plan.double_ack
        self.chunk_count = min(plan.batch_count, CHUNK_COUNT) if is_small else plan.batch_count

    def prepare(self) -> None:
        """Everything that has to be there before the clock starts."""

    def run(self) -> None:
        """The part that is measured."""
        raise NotImplementedError

    def subject(self, place: int) -> str:
        """Where the message at a place of the share goes."""
        return self.subjects[place % len(self.subjects)]

    def pace(self) -> None:
        """Wait as --sleep and --throughput ask."""
        plan = self.plan
        if plan.sleep_s:
            time.sleep(min(plan.sleep_s, self.meter.left_s))
        if plan.throughput:
            due_s = self.meter.count * plan.client_count / plan.throughput
            ahead_s = min(due_s - (self.meter.end_ns - self.meter.start_ns) / 1e9, self.meter.left_s)
            if ahead_s > 0:
                time.sleep(ahead_s)

    def too_few(self) -> JetStreamError:
        """Messages stopped coming."""
        had = f"{self.meter.count:,} of {len(self.share):,} messages"
        return JetStreamError(f"nothing came for {self.plan.idle_timeout_s:g} s after {had}")


class OneByOne(Job):
    """One thing at a time, each waited for and timed."""

    def run(self) -> None:
        """Do the next, until the share is done or the time is over."""
        meter = self.meter
        is_paced = bool(self.plan.sleep_s or self.plan.throughput)
        before_ns = meter.start()
        for place in range(len(self.share)):
            size_bytes = self.do(place)
            after_ns = meter.done(1, size_bytes)
            meter.latencies_ns.append(after_ns - before_ns)
            before_ns = after_ns
            if is_paced:
                self.pace()
                before_ns = meter.done(0, 0)
            if meter.is_over:
                return

    def do(self, place: int) -> int:
        """What is to be done at a place of the share; the bytes it moved."""
        raise NotImplementedError
