"""The broker in the simulator: a fixed set of seeds, each a whole life with crashes, faults and restarts."""

from __future__ import annotations

import functools

import pytest

from jetspark.testing.sim.run import Result, run_seed, run_twins

SEEDS = range(1, 31)


@functools.cache
def result_of(seed: int) -> Result:
    return run_seed(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_promise_is_broken(seed: int) -> None:
    result = result_of(seed)

    assert not result.failure, result.failure


def test_together_the_seeds_see_everything() -> None:
    """A simulator that no longer crashes, fails, acknowledges or redelivers would find nothing."""
    seen: dict[str, int] = {}
    for seed in SEEDS:
        for what, count in result_of(seed).counts.items():
            seen[what] = seen.get(what, 0) + count

    for what in (
        "publish", "publish refused", "duplicate", "delivery", "redelivery", "double ack confirmed", "expired",
        "commit failed", "kill", "power loss", "restart", "ack +ACK", "ack -NAK", "ack +TER", "ack +WPI", "ack +NXT",
        "STREAM.CREATE", "STREAM.UPDATE", "STREAM.PURGE", "STREAM.MSG", "STREAM.INFO", "DIRECT.GET",
        "CONSUMER.CREATE", "CONSUMER.DELETE", "CONSUMER.INFO", "CONSUMER.RESET", "CONSUMER.PAUSE",
    ):  # fmt: skip
        assert seen.get(what, 0) > 0, f"no {what} in any of the seeds"


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("first_seed", range(1_000, 1_500, 25))
def test_no_promise_is_broken_in_many_lives(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 25):
        result = run_seed(seed)
        assert not result.failure, result.failure


@pytest.mark.parametrize("seed", range(1, 11))
def test_a_file_stream_and_a_memory_stream_end_up_the_same(seed: int) -> None:
    on_files, in_memory = run_twins(seed, steps=250)

    assert not on_files.failure, on_files.failure
    assert not in_memory.failure, in_memory.failure
    assert on_files.content == in_memory.content
