"""Random sequences of calls, made from a seed, give the same answers on our server and on nats-server.

JETSPARK_SEQUENCE_SEEDS=start:stop runs that range of seeds instead of the fixed set, JETSPARK_SEQUENCE_STEPS
sets their length. A failure prints the seed and the steps that are still needed to show it.
"""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.compare import transcript_differences
from tests.conformance.scenario import Event, Run, delete_streams
from tests.conformance.sequences import READ_ONLY, Side, Step, steps_of
from tests.conformance.servers import Pair, PairPool

FIXED_SEEDS = range(1, 21)
SETTLE_ATTEMPTS = 20
SHRINK_RUNS_MAX = 120
series = itertools.count()


def chosen_seeds() -> range:
    text = os.environ.get("JETSPARK_SEQUENCE_SEEDS", "")
    if not text:
        return FIXED_SEEDS
    start, _, stop = text.partition(":")
    return range(int(start), int(stop or int(start) + 1))


def first_difference(pair: Pair, steps: list[Step]) -> tuple[int, list[str]] | None:
    """Perform the steps on both servers in lockstep; the first step whose answers differ, and how."""
    number_of_run = next(series)
    sides = [Side(Run(pair.reference), number_of_run), Side(Run(pair.ours), number_of_run)]
    with ThreadPoolExecutor(2) as pool:

        def on_both(step: Step) -> tuple[list[Event], list[Event]]:
            expected, actual = pool.map(lambda side: side.perform(step), sides)
            return expected, actual

        try:
            for number, step in enumerate(steps):
                lines = transcript_differences(*on_both(step))
                for _ in range(SETTLE_ATTEMPTS if step.kind in READ_ONLY else 0):
                    if not lines:
                        break
                    # nats-server finishes some removals behind its answers: what is only read may settle.
                    sides[0].run.client.drain_arrived(0.02)
                    lines = transcript_differences(*on_both(step))
                if lines:
                    return number, lines
        finally:
            for side in sides:
                side.run.close()
            list(pool.map(delete_streams, (pair.reference, pair.ours)))
    return None


def shrink(pool: PairPool, steps: list[Step]) -> tuple[list[Step], list[str]]:
    """Leave out steps, halves first, as long as the servers still differ; nothing left if they did so only once."""
    runs = 0
    found = first_difference(pool.pair(), steps)
    if found is None:
        return [], []
    steps, lines = steps[: found[0] + 1], found[1]
    size = len(steps) // 2
    while size >= 1 and runs < SHRINK_RUNS_MAX:
        start = 0
        while start < len(steps) and runs < SHRINK_RUNS_MAX:
            shorter = steps[:start] + steps[start + size :]
            runs += 1
            found = first_difference(pool.pair(), shorter)
            if found is None:
                start += size
            else:
                steps, lines = shorter[: found[0] + 1], found[1]
        size //= 2
    return steps, lines


@pytest.mark.oracle
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", chosen_seeds())
def test_random_sequence_gives_the_same_answers(seed: int, pair_pool: PairPool) -> None:
    steps = steps_of(seed, int(os.environ.get("JETSPARK_SEQUENCE_STEPS", "150")))

    found = first_difference(pair_pool.pair(), steps)
    if found is None:
        return
    needed, lines = shrink(pair_pool, steps)
    if not needed:
        # Something that nats-server did behind its answer, perhaps: the second attempt of the whole test decides.
        number, lines = found
        pytest.fail("\n".join([f"seed {seed}: step {number} differed once", *lines[:20]]), pytrace=False)
    text = "\n".join([f"seed {seed}: {len(needed)} steps still differ", *map(str, needed), *lines[:20]])
    pytest.fail(text, pytrace=False)
