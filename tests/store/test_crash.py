"""After any crash, every durable message is there, nothing else is, and the counters are right."""

import pytest

from tests.store.crash_harness import CrashHarness


@pytest.mark.parametrize("first_seed", range(0, 100, 10))
def test_a_store_survives_crashes_and_failures(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 10):
        CrashHarness(seed).run(steps=120)


# Each of these once lost or resurrected a message.
@pytest.mark.parametrize("seed", [349, 475, 1019, 21_613, 31_742, 81_161])
def test_seeds_that_once_found_something(seed: int) -> None:
    CrashHarness(seed).run(steps=200)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1_000, 2_000, 100))
def test_a_store_survives_crashes_and_failures_for_longer(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 100):
        CrashHarness(seed).run(steps=150)
