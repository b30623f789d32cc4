"""One flipped bit anywhere in a store's files costs at most the record it is in, and is never served."""

from __future__ import annotations

import pytest

from jetspark.store.disk import Commit
from tests.store.crash_harness import CrashHarness
from tests.store.model import check_consistent, live_messages


def rot(seed: int) -> None:
    harness = CrashHarness(seed)
    harness.crash_rate = 0.0
    harness.fault_rate = 0.0
    harness.options.compress = False
    harness.run(steps=60)
    pending = Commit()
    seq = harness.store.collect(pending, True)
    assert harness.perform(pending.ops)
    harness.store.committed(seq)
    expected = live_messages(harness.store)
    victim = harness.rng.choice(sorted(harness.disk.files))
    if harness.disk.size(victim) == 0:
        return
    harness.disk.flip_bit(victim, harness.rng.randrange(harness.disk.size(victim)), harness.rng.randrange(8))

    store = harness.open()
    found = live_messages(store)
    check_consistent(store)

    buried = {seq for block in harness.store.blocks for seq in block.tombstone_seqs}
    for seq, stored in found.items():
        # A tombstone that rots gives its message back, unchanged; anything else that is served was there before.
        assert stored == expected.get(seq, stored)
        assert seq in expected or seq in buried or seq < harness.store.first_seq
    missing = set(expected) - set(found)
    assert len(missing) <= 1
    # It is said. By name, unless the bit was in the length or the sequence itself and nothing after it tells.
    assert not missing or not store.report.is_clean()
    if victim.endswith(".idx"):
        assert found == expected


@pytest.mark.parametrize("first_seed", range(0, 300, 50))
def test_a_flipped_bit_costs_at_most_one_message(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 50):
        rot(seed)
