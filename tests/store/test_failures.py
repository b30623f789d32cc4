"""A disk that is full or failing: nothing is half done, reads go on, and it recovers."""

from __future__ import annotations

import errno

import pytest

from jetspark.store.block_cache import BlockCache
from jetspark.store.disk import APPEND, SYNC, WRITE_FILE, Commit
from jetspark.store.store_base import StoreOptions
from jetspark.store.stream_store import StreamStore
from jetspark.store.view import RecordView
from jetspark.testing.sim_disk import SimDisk
from tests.store.model import check_consistent, commit, commit_all, live_messages, reopened


def small_options() -> StoreOptions:
    options = StoreOptions(block_size=1_000)
    options.cache = BlockCache(0)
    return options


def fill(store: StreamStore, count: int) -> None:
    for _ in range(count):
        store.append(b"a.b", 0, b"payload" * 5, store.last_seq + 1)


def commit_fails(store: StreamStore, disk: SimDisk) -> None:
    pending = Commit()
    store.collect(pending, True)
    with pytest.raises(OSError):  # noqa: PT012 - which operation fails is the disk's business
        for op in pending.ops:
            disk.perform(op)
    store.rollback()


def test_a_full_disk_refuses_then_takes_again_when_there_is_room() -> None:
    disk = SimDisk()
    store = reopened(disk, small_options())
    fill(store, 30)
    commit_all(store, disk)
    expected = live_messages(store)
    disk.capacity_bytes = disk.used_bytes() + 150

    for _ in range(5):
        fill(store, 30)
        commit_fails(store, disk)
        assert store.last_seq == 30
        assert live_messages(store) == expected
        check_consistent(store)

    disk.capacity_bytes = 0
    fill(store, 10)
    commit_all(store, disk)
    assert store.visible_seq == 40
    assert sorted(live_messages(reopened(disk, small_options()))) == list(range(1, 41))


def test_making_room_by_removing_works_on_a_full_disk() -> None:
    disk = SimDisk()
    store = reopened(disk, small_options())
    fill(store, 100)
    commit_all(store, disk)
    # Room for the note that says so, and no more.
    disk.capacity_bytes = disk.used_bytes() + 60

    store.purge_below(90)
    commit_all(store, disk)
    fill(store, 20)
    commit_all(store, disk)

    assert sorted(live_messages(reopened(disk, small_options()))) == list(range(90, 121))


@pytest.mark.parametrize("kind", [APPEND, SYNC, WRITE_FILE])
@pytest.mark.parametrize("error_number", [errno.EIO, errno.ENOSPC])
def test_whatever_fails_everything_since_the_last_commit_is_forgotten(kind: int, error_number: int) -> None:
    disk = SimDisk()
    store = reopened(disk, small_options())
    fill(store, 100)
    commit_all(store, disk)
    # Leaves blocks mostly dead, so that the next commit rewrites one.
    for seq in range(10, 90):
        store.remove(seq, False)
    commit(store, disk)
    expected = live_messages(store)

    store.remove(5, True)
    store.purge_below(4)
    fill(store, 40)
    disk.fail_next(kind, error_number)
    commit_fails(store, disk)

    assert live_messages(store) == expected
    check_consistent(store)
    commit_all(store, disk)
    again = reopened(disk, small_options())
    assert live_messages(again) == expected
    check_consistent(again)


def test_uncommitted_messages_can_be_seen_removed_and_taken_back() -> None:
    disk = SimDisk()
    store = reopened(disk, small_options())
    fill(store, 3)
    view = RecordView()

    assert store.view(2, view)
    assert store.remove(2, True)
    assert not store.view(2, view)
    assert store.visible_seq == 0
    disk.fail_next(APPEND)
    commit_fails(store, disk)

    assert store.last_seq == 0
    assert store.message_count == 0
    assert store.subjects == {}
    assert store.append(b"z", 0, b"", 9) == 1


def test_without_sync_the_files_are_written_and_synced_when_asked() -> None:
    disk = SimDisk()
    store = reopened(disk, small_options())
    fill(store, 3)

    commit(store, disk, sync=False)
    assert store.visible_seq == 3
    assert store.needs_sync
    commit(store, disk, sync=True)
    assert not store.needs_sync
    disk.crash()

    assert len(live_messages(reopened(disk, small_options()))) == 3
