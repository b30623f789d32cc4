"""The simulator itself: the same seed is the same run, and what is broken is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from random import Random

import pytest

from jetspark.store.disk import REMOVE_TREE, SYNC, SYNC_DIR, TRUNCATE, DiskOp
from jetspark.testing.sim.run import run_seed
from jetspark.testing.sim_disk import SimDisk

REPEAT = "from jetspark.testing.sim.run import run_seed; print([run_seed(seed, 150).digest for seed in (3, 5, 7, 11)])"


@pytest.mark.long
def test_a_seed_decides_everything() -> None:
    """Also the order of sets, which differs between processes."""
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", REPEAT], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout)

    assert len(digests) == 1


class NeverSyncs(SimDisk):
    """Says it has synced, and has not."""

    def perform(self, op: DiskOp) -> None:
        if op.kind not in (SYNC, SYNC_DIR):
            super().perform(op)


class KeepsTails(SimDisk):
    """Does not cut files when asked to."""

    def perform(self, op: DiskOp) -> None:
        if op.kind != TRUNCATE:
            super().perform(op)


class KeepsDeleted(SimDisk):
    """Does not remove what was deleted."""

    def perform(self, op: DiskOp) -> None:
        if op.kind != REMOVE_TREE:
            super().perform(op)


class SwallowsErrors(SimDisk):
    """Reports success whatever happens."""

    def perform(self, op: DiskOp) -> None:
        try:
            super().perform(op)
        except OSError:
            self.fail_when = None


@pytest.mark.long
@pytest.mark.parametrize("make_disk", [NeverSyncs, KeepsTails, KeepsDeleted, SwallowsErrors])
def test_a_disk_that_does_not_keep_its_word_is_found_out(make_disk: Callable[[Random], SimDisk]) -> None:
    failures = (run_seed(seed, 300, make_disk).failure for seed in range(1, 400))

    found = next(filter(None, failures), "")

    assert "make sim SEED=" in found, "nobody noticed"
    assert "the last steps before it" in found
