"""Looks at the server now and then, and remembers the last hour.

Decided here: how often (seldom while nobody watches), what is read, and that a pass over thousands of streams is cut
into slices between which the loop does its real work. Not known here: how the figures are shown.

Rates are differences of counters that exist anyway, so nothing is counted for this on any message's way.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from jetspark.broker.account import Account
from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.stream import Stream
from jetspark.server.dashboard.series import STEP_S, Series
from jetspark.server.histogram import LATENCY_BOUNDS_S, quantile_s
from jetspark.server.observations import Observations
from jetspark.server.varz import memory_bytes

if TYPE_CHECKING:
    from jetspark.server.server import Server

PASS_WATCHED_S: Final = 2.0
PASS_UNWATCHED_S: Final = float(STEP_S)
# A page asks again well within this.
WATCHED_FOR_NS: Final = 15_000_000_000
# Streams and consumers looked at between two turns of the loop: about a millisecond.
SLICE_COUNT: Final = 200
# Streams and consumers of an account that its overview names.
TOP_COUNT: Final = 6
# About 1.5 kB each; what never moved has none.
SERIES_MAX: Final = 6000

SERVER_SERIES: Final = (
    "in_msgs",
    "out_msgs",
    "in_bytes",
    "out_bytes",
    "connections",
    "memory",
    "cpu",
    "commits",
    "commit_p50_ms",
    "commit_p99_ms",
    "stored_bytes",
)


class StreamTrack:
    """What is remembered of one stream."""

    __slots__ = ("in_rate", "in_series", "last_seq", "pass_number", "stored_series")

    def __init__(self, last_seq: int) -> None:
        self.last_seq = last_seq
        self.in_rate = 0.0
        self.in_series: Series | None = None
        self.stored_series: Series | None = None
        self.pass_number = 0


class ConsumerTrack:
    """What is remembered of one consumer."""

    __slots__ = (
        "ack_ms",
        "ack_series",
        "acks_seen",
        "acks_sum_ns",
        "delivered",
        "lag_series",
        "out_rate",
        "out_series",
        "pass_number",
        "pinned_by",
    )

    def __init__(self, delivered: int) -> None:
        self.delivered = delivered
        self.out_rate = 0.0
        # The mean of the acknowledgements sampled lately; None before the first.
        self.ack_ms: float | None = None
        self.acks_seen = 0
        self.acks_sum_ns = 0
        self.out_series: Series | None = None
        self.lag_series: Series | None = None
        self.ack_series: Series | None = None
        # The pin, and who was last seen asking with it.
        self.pinned_by: tuple[str, dict[str, object]] | None = None
        self.pass_number = 0


class AccountFigures:
    """Sums over the streams of one account, and those of them that matter most."""

    def __init__(self) -> None:
        self.streams = 0
        self.consumers = 0
        self.messages = 0
        self.bytes = 0
        self.in_rate = 0.0
        self.busiest: list[Stream] = []
        self.lagging: list[Consumer] = []
        # Everything, with what it is ranked by, until the sum is made.
        self._ranked_streams: list[tuple[float, int, Stream]] = []
        self._ranked_consumers: list[tuple[int, int, Consumer]] = []

    def add_stream(self, stream: Stream, in_rate: float) -> None:
        self.streams += 1
        self.messages += int(stream.store.message_count)
        self.bytes += int(stream.store.byte_count)
        self.in_rate += in_rate
        self._ranked_streams.append((in_rate, int(stream.store.message_count), stream))

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers += 1
        self._ranked_consumers.append((int(consumer.num_pending()), len(consumer.state.pending), consumer))

    def finish(self) -> None:
        """Nothing more comes."""
        streams = nlargest(TOP_COUNT, self._ranked_streams, key=lambda item: item[:2])
        consumers = nlargest(TOP_COUNT, self._ranked_consumers, key=lambda item: item[:2])
        self.busiest, self.lagging = [item[2] for item in streams], [item[2] for item in consumers]
        self._ranked_streams, self._ranked_consumers = [], []


class Sampler:
    """The memory of one server's dashboard."""

    def __init__(self, server: Server, observations: Observations) -> None:
        self._server = server
        self.observations = observations
        self.streams: dict[Stream, StreamTrack] = {}
        self.consumers: dict[Consumer, ConsumerTrack] = {}
        self.accounts: dict[Account, AccountFigures] = {}
        self.figures: dict[str, float] = dict.fromkeys(SERVER_SERIES, 0.0)
        self.server_series = {name: Series() for name in SERVER_SERIES}
        self.step = 0
        self._series_left = SERIES_MAX
        self._pass_number = 0
        self._pass_ns = server.clock.monotonic_ns()
        self._watched_until_ns = 0
        self._counters = self._read_counters()
        self._commit_counts = list(server.commit_figures.commits.counts)
        self._hurry = asyncio.Event()
        self._passed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def watch(self) -> None:
        """Somebody is looking: look more often for a while."""
        now_ns = self._server.clock.monotonic_ns()
        if now_ns >= self._watched_until_ns:
            self._hurry.set()
        self._watched_until_ns = now_ns + WATCHED_FOR_NS

    async def next_pass(self) -> None:
        """Wait until there is something new to show."""
        await self._passed.wait()

    async def _run(self) -> None:
        while True:
            is_watched = self._server.clock.monotonic_ns() < self._watched_until_ns
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PASS_WATCHED_S if is_watched else PASS_UNWATCHED_S):
                    await self._hurry.wait()
            self._hurry.clear()
            if self._server.is_ready:
                await self.sample()

    async def sample(self) -> None:
        """One pass over everything."""
        now_ns = self._server.clock.monotonic_ns()
        elapsed_s = (now_ns - self._pass_ns) / 1e9
        if elapsed_s <= 0:
            return
        self._pass_ns = now_ns
        self._pass_number += 1
        self.step = now_ns // (STEP_S * 1_000_000_000)
        self._sample_server(elapsed_s)
        left = SLICE_COUNT
        for account in list(self._server.broker.accounts.values()):
            sums = AccountFigures()
            for stream in list(account.jetstream.streams.values()):
                sums.add_stream(stream, self._sample_stream(stream, elapsed_s))
                left -= 1
                for consumer in list(stream.consumers.values()):
                    self._sample_consumer(consumer, elapsed_s)
                    sums.add_consumer(consumer)
                    left -= 1
                    if left <= 0:
                        left = SLICE_COUNT
                        await asyncio.sleep(0)
                if left <= 0:
                    left = SLICE_COUNT
                    await asyncio.sleep(0)
            sums.finish()
            self.accounts[account] = sums
        self._forget_gone()
        passed, self._passed = self._passed, asyncio.Event()
        passed.set()

    # -- the server --------------------------------------------------------------------------------------------------

    def _read_counters(self) -> dict[str, float]:
        totals = self._server.edge.totals()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "in_msgs": totals.in_msgs,
            "out_msgs": totals.out_msgs,
            "in_bytes": totals.in_bytes,
            "out_bytes": totals.out_bytes,
            "cpu": 100.0 * (usage.ru_utime + usage.ru_stime),
            "commits": self._server.commit_figures.commits.total,
        }

    def _sample_server(self, elapsed_s: float) -> None:
        before, self._counters = self._counters, self._read_counters()
        figures = self.figures
        for name, value in self._counters.items():
            figures[name] = max(0.0, value - before[name]) / elapsed_s
        figures["connections"] = len(self._server.edge.connections)
        figures["memory"] = memory_bytes()
        accounts = self._server.broker.accounts.values()
        figures["stored_bytes"] = sum(account.jetstream.used(False) for account in accounts)
        counts = list(self._server.commit_figures.commits.counts)
        recent = [new - old for new, old in zip(counts, self._commit_counts, strict=True)]
        self._commit_counts = counts
        has_commits = sum(recent) > 0
        for name, share in (("commit_p50_ms", 0.5), ("commit_p99_ms", 0.99)):
            if has_commits:
                # Without a commit the last ones say more than a zero would.
                figures[name] = 1000 * quantile_s(LATENCY_BOUNDS_S, recent, share)
                self.server_series[name].put(self.step, figures[name])
        for name in SERVER_SERIES:
            if not name.startswith("commit_"):
                self.server_series[name].put(self.step, figures[name])

    # -- streams and consumers ---------------------------------------------------------------------------------------

    def _sample_stream(self, stream: Stream, elapsed_s: float) -> float:
        """Remember where it stands; its rate."""
        store = stream.store
        last_seq = int(store.last_seq)
        track = self.streams.get(stream)
        if track is None:
            track = self.streams[stream] = StreamTrack(last_seq)
        track.pass_number = self._pass_number
        track.in_rate = max(0, last_seq - track.last_seq) / elapsed_s
        track.last_seq = last_seq
        track.in_series = self._put(track.in_series, track.in_rate)
        track.stored_series = self._put(track.stored_series, int(store.byte_count))
        return track.in_rate

    def _sample_consumer(self, consumer: Consumer, elapsed_s: float) -> None:
        delivered = int(consumer.state.delivered_consumer_seq)
        track = self.consumers.get(consumer)
        if track is None:
            track = self.consumers[consumer] = ConsumerTrack(delivered)
        track.pass_number = self._pass_number
        track.out_rate = max(0, delivered - track.delivered) / elapsed_s
        track.delivered = delivered
        track.out_series = self._put(track.out_series, track.out_rate)
        track.lag_series = self._put(track.lag_series, int(consumer.num_pending()))
        figures = self.observations.by_consumer.get(consumer)
        if figures is not None:
            self._sample_acks(track, figures.ack_times.total, figures.ack_times.sum_ns)

    def _sample_acks(self, track: ConsumerTrack, total: int, sum_ns: int) -> None:
        fresh = total - track.acks_seen
        if fresh > 0:
            track.ack_ms = (sum_ns - track.acks_sum_ns) / fresh / 1e6
            track.acks_seen, track.acks_sum_ns = total, sum_ns
            track.ack_series = self._put(track.ack_series, track.ack_ms)

    def _put(self, series: Series | None, value: float) -> Series | None:
        if series is None:
            if value == 0 or self._series_left <= 0:
                return None
            self._series_left -= 1
            series = Series()
        series.put(self.step, value)
        return series

    def _forget_gone(self) -> None:
        number = self._pass_number
        for stream in [stream for stream, track in self.streams.items() if track.pass_number != number]:
            gone = self.streams.pop(stream)
            self._give_back(gone.in_series, gone.stored_series)
        for consumer in [consumer for consumer, track in self.consumers.items() if track.pass_number != number]:
            left = self.consumers.pop(consumer)
            self._give_back(left.out_series, left.lag_series, left.ack_series)
        self.observations.forget_deleted()

    def _give_back(self, *series: Series | None) -> None:
        self._series_left += sum(one is not None for one in series)
