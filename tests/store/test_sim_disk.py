"""The simulated disk forgets exactly what a real one may forget."""

from __future__ import annotations

import errno
from random import Random

import pytest

from jetspark.store.disk import APPEND, MKDIRS, REMOVE, RENAME, SYNC, SYNC_DIR, WRITE_CACHE, WRITE_FILE, DiskOp
from jetspark.testing.sim_disk import SimDisk


def disk_with_folder(seed: int) -> SimDisk:
    disk = SimDisk(Random(seed))
    disk.perform(DiskOp(MKDIRS, "d"))
    return disk


def after_crash(disk: SimDisk) -> bytes | None:
    disk.crash()
    return disk.read_all("d/f") if disk.exists("d/f") else None


def test_what_was_synced_with_its_directory_survives() -> None:
    for seed in range(30):
        disk = disk_with_folder(seed)
        disk.perform(DiskOp(APPEND, "d/f", b"abc"))
        disk.perform(DiskOp(SYNC, "d/f"))
        disk.perform(DiskOp(SYNC_DIR, "d"))

        assert after_crash(disk) == b"abc"


def test_a_file_synced_without_its_directory_may_be_gone() -> None:
    outcomes = set()
    for seed in range(30):
        disk = disk_with_folder(seed)
        disk.perform(DiskOp(APPEND, "d/f", b"abc"))
        disk.perform(DiskOp(SYNC, "d/f"))
        outcomes.add(after_crash(disk))

    assert outcomes == {None, b"abc"}


def test_writes_that_were_not_synced_survive_in_part_and_independently() -> None:
    outcomes = set()
    for seed in range(300):
        disk = disk_with_folder(seed)
        disk.perform(DiskOp(APPEND, "d/f", b"A"))
        disk.perform(DiskOp(SYNC, "d/f"))
        disk.perform(DiskOp(SYNC_DIR, "d"))
        disk.perform(DiskOp(APPEND, "d/f", b"BB"))
        disk.perform(DiskOp(APPEND, "d/f", b"CC"))
        outcomes.add(after_crash(disk))

    assert {b"A", b"AB", b"ABB", b"ABBC", b"ABBCC"} <= outcomes
    # The second without the first: a hole of zeros.
    assert b"A\0\0CC" in outcomes


def test_replacing_a_file_leaves_the_old_or_the_new_one() -> None:
    outcomes = set()
    for seed in range(200):
        disk = disk_with_folder(seed)
        disk.perform(DiskOp(WRITE_FILE, "d/f", b"old"))
        disk.perform_partly(DiskOp(WRITE_FILE, "d/f", b"new"))
        outcomes.add(after_crash(disk))

    assert outcomes == {b"old", b"new"}


def test_a_cache_file_may_be_torn() -> None:
    outcomes = set()
    for seed in range(200):
        disk = disk_with_folder(seed)
        disk.perform(DiskOp(WRITE_CACHE, "d/f", b"cache"))
        outcomes.add(after_crash(disk))

    assert {None, b"", b"cache", b"cac"} <= outcomes


def test_a_removed_or_renamed_file_may_be_back_until_the_directory_is_synced() -> None:
    outcomes = set()
    for seed in range(50):
        disk = disk_with_folder(seed)
        disk.perform(DiskOp(WRITE_FILE, "d/f", b"abc"))
        disk.perform(DiskOp(REMOVE, "d/f"))
        outcomes.add(after_crash(disk))
    assert outcomes == {None, b"abc"}

    disk = disk_with_folder(1)
    disk.perform(DiskOp(WRITE_FILE, "d/f", b"abc"))
    disk.perform(DiskOp(RENAME, "d/f", target="d/g"))
    assert after_crash(disk) is None
    assert disk.read_all("d/g") == b"abc"


def test_a_sync_that_failed_once_must_not_be_trusted() -> None:
    outcomes = set()
    for seed in range(50):
        disk = disk_with_folder(seed)
        disk.perform(DiskOp(WRITE_FILE, "d/f", b""))
        disk.perform(DiskOp(APPEND, "d/f", b"abc"))
        disk.fail_next(SYNC)
        with pytest.raises(OSError, match="simulated"):
            disk.perform(DiskOp(SYNC, "d/f"))
        outcomes.add(after_crash(disk))

    assert b"" in outcomes


def test_a_full_disk_takes_part_of_a_write() -> None:
    disk = disk_with_folder(0)
    disk.capacity_bytes = 5

    with pytest.raises(OSError, match="space") as caught:
        disk.perform(DiskOp(APPEND, "d/f", b"0123456789"))

    assert caught.value.errno == errno.ENOSPC
    assert disk.read_all("d/f") == b"01234"


def test_the_same_seed_crashes_the_same_way() -> None:
    def run() -> bytes | None:
        disk = disk_with_folder(7)
        for number in range(20):
            disk.perform(DiskOp(APPEND, "d/f", b"%d" % number))
        return after_crash(disk)

    assert run() == run()
