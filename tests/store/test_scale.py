"""What must not grow with the stream: memory for cold blocks, work for a restart, searching many subjects."""

from __future__ import annotations

import pytest

from jetspark.protocol.subjects import SubjectFilter
from jetspark.store.block_cache import READ_BACK_SHARE, BlockCache
from jetspark.store.disk import Commit
from jetspark.store.recovery import open_stream_store
from jetspark.store.store_base import StoreOptions
from jetspark.store.stream_store import StreamStore
from jetspark.store.view import RecordView
from jetspark.testing.sim_disk import SimDisk
from tests.store.model import commit


class CountingDisk(SimDisk):
    """Counts bytes read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes = 0

    def read(self, path: str, offset: int, size: int) -> bytes:
        data = super().read(path, offset, size)
        self.read_bytes += len(data)
        return data

    def read_all(self, path: str) -> bytes:
        data = super().read_all(path)
        self.read_bytes += len(data)
        return data


def filled(disk: SimDisk, count: int, subject_count: int, budget_bytes: int) -> StreamStore:
    options = StoreOptions(block_size=64 * 1024)
    options.cache = BlockCache(budget_bytes)
    store = open_stream_store(disk, "s", options)
    for number in range(count):
        store.append(b"s.%d" % (number % subject_count), 0, b"x" * 100, number)
        if number % 1_000 == 999:
            commit(store, disk)
    commit(store, disk)
    return store


def loaded_bytes(store: StreamStore) -> int:
    return sum(block.size for block in store.blocks if block.has_data)


def test_full_blocks_leave_memory() -> None:
    store = filled(SimDisk(), 20_000, 10, 200_000)

    assert loaded_bytes(store) < 200_000 + 3 * 70_000
    assert store.message_count == 20_000


def test_reading_through_keeps_to_the_budget_once_it_is_over() -> None:
    store = filled(SimDisk(), 20_000, 10, 200_000)
    view = RecordView()

    for seq in range(1, 20_001):
        assert store.view(seq, view)

    assert loaded_bytes(store) < (1 + READ_BACK_SHARE) * 200_000 + 3 * 70_000
    for _ in range(2):
        store.cache.age()
    assert loaded_bytes(store) < 200_000 + 3 * 70_000


def test_readers_in_several_places_read_each_block_once() -> None:
    disk = CountingDisk()
    store = filled(disk, 20_000, 10, 140_000)
    disk.read_bytes = 0
    view = RecordView()

    # Four readers with a quarter each, turn by turn, as sessions with a share of the loop.
    for start in range(1, 5_001, 50):
        for reader in range(4):
            for seq in range(reader * 5_000 + start, reader * 5_000 + start + 50):
                assert store.view(seq, view)

    assert disk.read_bytes < 1.5 * disk.used_bytes()


def test_what_readers_take_turns_on_stays_and_what_nobody_reads_leaves() -> None:
    store = filled(SimDisk(), 20_000, 10, 140_000)
    view = RecordView()
    for place in (2_000, 5_000, 7_000):
        for seq in (place + 1, place + 2):
            assert store.view(seq, view)

    for seq in range(1, 5):
        for reader in (0, 10_000):
            assert store.view(reader + seq, view)
        store.cache.age()

    loaded = {block.base_seq for block in store.blocks if block.is_cached and block.is_read_back}
    assert {store.blocks[store.find_block_index(seq)].base_seq for seq in (1, 10_001)} == loaded


def test_a_slow_reader_keeps_its_block() -> None:
    disk = CountingDisk()
    store = filled(disk, 20_000, 10, 200_000)
    view = RecordView()
    for seq in (1, 2):
        assert store.view(seq, view)
    disk.read_bytes = 0

    for seq in range(3, 100):
        for _ in range(3):
            store.cache.age()
        assert store.view(seq, view)

    assert disk.read_bytes == 0


def test_many_streams_share_one_budget_with_their_open_blocks() -> None:
    disk = SimDisk()
    cache = BlockCache(100_000)
    stores = []
    for number in range(20):
        options = StoreOptions()
        options.cache = cache
        store = open_stream_store(disk, f"s{number}", options)
        for _ in range(200):
            store.append(b"s", 0, b"x" * 100, 1)
        commit(store, disk)
        stores.append(store)
    view = RecordView()

    assert sum(block.sealed_size - block.missing_end for store in stores for block in store.blocks) <= 130_000
    for store in stores:
        # New messages are read without bringing the old ones back; those come when they are asked for.
        store.append(b"s", 0, b"y", 1)
        assert store.view(201, view)
        assert view.payload() == b"y"
        assert all(store.view(seq, view) for seq in range(1, 202))
        commit(store, disk)
    for _ in range(2):
        cache.age()
    assert cache.held_bytes <= 130_000


def test_a_restart_reads_a_small_part() -> None:
    disk = CountingDisk()
    filled(disk, 20_000, 10, 200_000)
    total = disk.used_bytes()
    disk.read_bytes = 0

    options = StoreOptions(block_size=64 * 1024)
    options.cache = BlockCache(200_000)
    store = open_stream_store(disk, "s", options)

    assert store.message_count == 20_000
    assert disk.read_bytes < total / 8


def test_a_filter_skips_blocks_that_cannot_match_unread() -> None:
    disk = CountingDisk()
    options = StoreOptions(block_size=64 * 1024)
    options.cache = BlockCache(0)
    store = open_stream_store(disk, "s", options)
    for number in range(20_000):
        subject = b"rare.one" if number == 19_000 or number == 5 else b"common.%d" % (number % 3)
        store.append(subject, 0, b"x" * 100, number)
    commit(store, disk)
    commit(store, disk)
    disk.read_bytes = 0
    view = RecordView()

    assert store.next_match(7, 20_000, SubjectFilter([b"rare.*"]), view) == 19_001
    assert store.last_match(SubjectFilter([b"rare.*"]), 18_000) == 6
    assert disk.read_bytes < 500_000


def test_evicting_the_oldest_writes_one_note_a_commit() -> None:
    disk = SimDisk()
    store = filled(disk, 2_000, 10, 1 << 20)
    for number in range(500):
        store.append(b"s.1", 0, b"x" * 100, number)
        store.remove(store.first_seq, False)

    pending = Commit()
    store.collect(pending, True)

    written = sum(len(op.data) for op in pending.ops if op.path.endswith(".blk"))
    assert written < 500 * (30 + 3 + 100) + 1_000


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_million_subjects() -> None:
    disk = SimDisk()
    options = StoreOptions()
    options.cache = BlockCache(1 << 24)
    store = open_stream_store(disk, "s", options)
    for number in range(1_000_000):
        store.append(b"device.%d" % number, 0, b"", number)
        if number % 50_000 == 0:
            commit(store, disk)
    commit(store, disk)
    view = RecordView()

    assert len(store.subjects) == 1_000_000
    for number in range(0, 1_000_000, 1_001):
        wanted = SubjectFilter([b"device.%d" % number])
        assert store.next_match(1, 1_000_000, wanted, view) == number + 1
        assert store.last_match(wanted, 1_000_000) == number + 1
        assert store.count_match(1, wanted) == 1
