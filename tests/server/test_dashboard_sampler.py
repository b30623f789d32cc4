"""The memory of the dashboard: the last hour, kept cheaply and without holding up the loop."""

from __future__ import annotations

import asyncio

import pytest
from tests.server.harness import Running, StartServer

from jetspark.api.stream_config import Storage, StreamConfig
from jetspark.broker.stream import Stream
from jetspark.server.dashboard import sampler as sampling
from jetspark.server.dashboard.sampler import Sampler
from jetspark.server.dashboard.series import STEP_COUNT, STEP_S, Series
from jetspark.server.embedded import embedded_options
from jetspark.server.histogram import Histogram, quantile_s
from jetspark.server.observations import Observations


class HandClock:
    """Time that moves when the test moves it."""

    def __init__(self) -> None:
        self.time_ns = 10**18

    def now_ns(self) -> int:
        return self.time_ns

    def monotonic_ns(self) -> int:
        return self.time_ns

    def advance(self, seconds: float) -> None:
        self.time_ns += int(seconds * 1e9)


class Laboratory:
    """A server whose dashboard looks when the test says so."""

    def __init__(self, running: Running) -> None:
        self.clock = HandClock()
        self.server = running.server
        self.server.clock = self.clock
        self.sampler = Sampler(running.server, Observations())

    def add_stream(self, name: str) -> Stream:
        config = StreamConfig(name=name, subjects=(f"{name}.>",), storage=Storage.MEMORY)
        return self.server.broker.account("$G").jetstream.create_stream(config)

    def fill(self, stream: Stream, count: int) -> None:
        for _ in range(count):
            stream.store.append(f"{stream.name}.x".encode(), 0, b"body", self.clock.now_ns())

    async def pass_after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.sampler.sample()


@pytest.fixture
async def laboratory(start_server: StartServer) -> Laboratory:
    return Laboratory(await start_server(embedded_options()))


def test_a_series_keeps_the_mean_of_each_step_and_marks_the_gaps() -> None:
    series = Series()
    for step, value in ((7, 10.0), (7, 20.0), (8, 5.0), (11, 1.0)):
        series.put(step, value)

    assert series.until(11) == [15.0, 5.0, None, None, 1.0]
    assert series.until(12, 3) == [1.0, None]
    assert series.until(11, 2) == [1.0]


def test_a_series_holds_one_hour_and_no_more() -> None:
    series = Series()
    for step in range(3 * STEP_COUNT):
        series.put(step, step)

    assert STEP_COUNT * STEP_S == 3600
    assert series.until(3 * STEP_COUNT - 1) == list(range(2 * STEP_COUNT, 3 * STEP_COUNT))
    series.put(10 * STEP_COUNT, 1)
    assert series.until(10 * STEP_COUNT) == [1]


def test_a_percentile_is_read_from_counts() -> None:
    histogram = Histogram((0.001, 0.01, 0.1))
    for milliseconds in [0.5] * 90 + [50] * 10:
        histogram.observe(int(milliseconds * 1e6))

    assert histogram.cumulative() == [("0.001", 90.0), ("0.01", 90.0), ("0.1", 100.0), ("+Inf", 100.0)]
    assert quantile_s(histogram.bounds_s, histogram.counts, 0.45) == pytest.approx(0.0005)
    assert 0.09 < quantile_s(histogram.bounds_s, histogram.counts, 0.99) < 0.1
    assert quantile_s(histogram.bounds_s, [0, 0, 0, 7], 0.5) == 0.1
    assert quantile_s(histogram.bounds_s, [0, 0, 0, 0], 0.5) == 0


async def test_rates_are_differences_between_two_looks(laboratory: Laboratory) -> None:
    stream = laboratory.add_stream("S")
    await laboratory.pass_after(2)
    laboratory.fill(stream, 50)

    await laboratory.pass_after(2)
    busy = laboratory.sampler.streams[stream].in_rate
    await laboratory.pass_after(STEP_S)

    assert busy == 25
    track = laboratory.sampler.streams[stream]
    assert track.in_rate == 0
    assert track.in_series is not None
    assert track.in_series.until(laboratory.sampler.step)[-1] == 0


async def test_what_never_moved_costs_no_memory_and_what_is_gone_is_forgotten(laboratory: Laboratory) -> None:
    quiet, busy = laboratory.add_stream("QUIET"), laboratory.add_stream("BUSY")
    await laboratory.pass_after(2)
    laboratory.fill(busy, 1)
    await laboratory.pass_after(2)
    assert laboratory.sampler.streams[quiet].in_series is None
    assert laboratory.sampler.streams[busy].in_series is not None

    laboratory.server.broker.account("$G").jetstream.delete_stream(busy)
    await laboratory.pass_after(2)

    assert list(laboratory.sampler.streams) == [quiet]


@pytest.mark.long
async def test_a_look_at_a_thousand_streams_lets_the_loop_work_in_between(laboratory: Laboratory) -> None:
    for number in range(1000):
        laboratory.add_stream(f"S{number}")
    loop, turns, is_over = asyncio.get_running_loop(), 0, False

    def others() -> None:
        nonlocal turns
        turns += 1
        if not is_over:
            loop.call_soon(others)

    others()
    await laboratory.pass_after(2)
    is_over = True

    assert len(laboratory.sampler.streams) == 1000
    assert turns >= 1000 // sampling.SLICE_COUNT


async def test_it_looks_more_often_while_somebody_watches(laboratory: Laboratory) -> None:
    laboratory.sampler.start()
    begun = laboratory.sampler.step
    laboratory.clock.advance(60)

    laboratory.sampler.watch()
    async with asyncio.timeout(10):
        await laboratory.sampler.next_pass()

    assert laboratory.sampler.step > begun
    await laboratory.sampler.stop()
