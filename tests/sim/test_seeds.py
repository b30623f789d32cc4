"""The broker in the simulator: a fixed set of seeds, each a whole life with crashes, faults and restarts."""

import pytest

from jetspark.testing.sim.run import run_seed


@pytest.mark.parametrize("seed", range(1, 6))
def test_no_promise_is_broken(seed: int) -> None:
    result = run_seed(seed)

    assert not result.failure, result.failure
