"""Opening a store again: what is read, what is cut, what is lost, and that it is said."""

from __future__ import annotations

from random import Random

import pytest

from jetspark.store.block_cache import BlockCache
from jetspark.store.block_head import HEAD_SIZE
from jetspark.store.disk import APPEND, OVERWRITE, REMOVE, SYNC, WRITE_FILE, Commit, DiskOp
from jetspark.store.store_base import StoreOptions
from jetspark.store.stream_store import StreamStore
from jetspark.store.view import RecordView
from jetspark.testing.sim_disk import SimDisk
from tests.store.model import Stored, check_consistent, commit, commit_all, live_messages, reopened

FIRST_BLOCK = "s/msgs/1.blk"
FIRST_INDEX = "s/msgs/1.idx"
RECORD_SIZE = 30 + 1 + 20


def small_options(block_size: int = 10_000, *, compress: bool = False) -> StoreOptions:
    options = StoreOptions(block_size=block_size, compress=compress)
    options.cache = BlockCache(0)
    return options


def filled(disk: SimDisk, options: StoreOptions, count: int) -> StreamStore:
    """A store with messages 1 to `count` of equal size, durable."""
    store = reopened(disk, options)
    for number in range(1, count + 1):
        store.append(b"s", 0, b"%020d" % number, 1_000 + number)
    commit_all(store, disk)
    return store


def message(number: int) -> Stored:
    return Stored(b"s", b"", b"%020d" % number, 1_000 + number)


def test_hello_on_a_subject_of_four_takes_39_bytes() -> None:
    disk = SimDisk()
    store = reopened(disk, small_options())

    store.append(b"ORDS", 0, b"hello", 1)
    commit(store, disk)

    assert store.byte_count == 39
    assert disk.size(FIRST_BLOCK) == HEAD_SIZE + 39


def test_a_torn_last_record_is_cut_and_reported() -> None:
    disk = SimDisk()
    filled(disk, small_options(), 10)
    del disk.files[FIRST_BLOCK].content[-5:]

    store = reopened(disk, small_options())

    assert store.last_seq == 9
    assert store.report.cut_bytes == RECORD_SIZE - 5
    assert disk.size(FIRST_BLOCK) == HEAD_SIZE + 9 * RECORD_SIZE
    assert live_messages(store) == {number: message(number) for number in range(1, 10)}
    assert store.append(b"s", 0, b"again", 2_000) == 10


def test_a_sequence_that_is_known_only_by_its_removal_is_not_given_out_again() -> None:
    disk = SimDisk()
    store = filled(disk, small_options(), 3)
    store.remove(3, False)
    commit_all(store, disk)
    # Never synced: the removal made it to the disk, the message did not.
    disk.files[FIRST_BLOCK].content[HEAD_SIZE + 2 * RECORD_SIZE : HEAD_SIZE + 3 * RECORD_SIZE] = bytes(RECORD_SIZE)

    store = reopened(disk, small_options())
    seq = store.append(b"s", 0, b"%020d" % 4, 1_004)
    commit_all(store, disk)

    assert seq == 4
    assert live_messages(reopened(disk, small_options())) == {1: message(1), 2: message(2), 4: message(4)}


def test_a_torn_tail_is_cut_durably_before_anything_is_appended() -> None:
    disk = SimDisk(Random(3))
    filled(disk, small_options(), 3)
    # Two records that were never synced: the first did not make it, the second did.
    disk.perform(DiskOp(APPEND, FIRST_BLOCK, bytes(RECORD_SIZE) + b"later"))

    reopened(disk, small_options())
    disk.crash()

    assert disk.size(FIRST_BLOCK) == HEAD_SIZE + 3 * RECORD_SIZE


@pytest.mark.parametrize("byte", [0, 3, 5, 13, 21, 22, 30, RECORD_SIZE - 1])
def test_a_flipped_bit_costs_one_record(byte: int) -> None:
    disk = SimDisk()
    filled(disk, small_options(), 10)
    disk.flip_bit(FIRST_BLOCK, HEAD_SIZE + 4 * RECORD_SIZE + byte, bit=2)

    store = reopened(disk, small_options())

    assert live_messages(store) == {number: message(number) for number in range(1, 11) if number != 5}
    assert store.report.lost == [5]
    assert store.last_seq == 10
    check_consistent(store)


@pytest.mark.parametrize("byte", range(0, HEAD_SIZE, 7))
def test_a_flipped_bit_in_the_head_costs_nothing(byte: int) -> None:
    disk = SimDisk()
    filled(disk, small_options(), 4)
    disk.flip_bit(FIRST_BLOCK, byte, bit=6)

    store = reopened(disk, small_options())

    assert len(live_messages(store)) == 4


@pytest.mark.parametrize("byte", [0, 3, 5, 13, 21, 22, 30, RECORD_SIZE - 1])
def test_rot_in_a_full_block_is_found_when_it_is_read_and_never_served(byte: int) -> None:
    disk = SimDisk()
    filled(disk, small_options(block_size=500), 30)
    # Eight records a block: the third of the second block is message 11.
    disk.flip_bit("s/msgs/2.blk", HEAD_SIZE + 2 * RECORD_SIZE + byte, bit=1)

    store = reopened(disk, small_options(block_size=500))
    assert store.report.is_clean()
    assert store.report.blocks_indexed >= 2
    view = RecordView()

    assert not store.view(11, view)
    assert store.view(10, view)
    assert store.report.lost == [11]
    assert live_messages(store) == {number: message(number) for number in range(1, 31) if number != 11}
    check_consistent(store)


def test_a_message_lost_to_rot_stays_lost_after_the_next_restart() -> None:
    disk = SimDisk()
    options = small_options(block_size=500)
    filled(disk, options, 30)
    disk.flip_bit(FIRST_BLOCK, HEAD_SIZE + 2 * RECORD_SIZE + 25)
    store = reopened(disk, options)
    assert len(live_messages(store)) == 29
    commit_all(store, disk)

    again = reopened(disk, options)

    assert again.message_count == 29
    assert again.report.lost == []
    check_consistent(again)


def test_rot_in_the_first_message_moves_the_first_sequence() -> None:
    disk = SimDisk()
    options = small_options(block_size=500)
    filled(disk, options, 30)
    disk.flip_bit(FIRST_BLOCK, HEAD_SIZE + 25)
    # The first message's time is needed at once, so the block is read when the store is opened.
    store = reopened(disk, options)

    assert store.first_seq == 2
    assert store.first_ts_ns == 1_002
    assert store.report.lost == [1]
    check_consistent(store)


def test_a_restart_reads_index_files_and_scans_only_the_open_block() -> None:
    disk = SimDisk()
    options = small_options(block_size=500)
    filled(disk, options, 100)

    store = reopened(disk, options)

    assert store.report.blocks_scanned == 1
    assert store.report.blocks_indexed == len(store.blocks) - 1
    assert store.report.blocks_indexed > 5


@pytest.mark.parametrize("damage", ["missing", "front", "index", "short", "another"])
def test_an_index_file_that_is_not_sound_is_rebuilt(damage: str) -> None:
    disk = SimDisk()
    options = small_options(block_size=500)
    filled(disk, options, 60)
    if damage == "missing":
        disk.perform(DiskOp(REMOVE, FIRST_INDEX))
    elif damage == "front":
        disk.flip_bit(FIRST_INDEX, 40)
    elif damage == "index":
        disk.flip_bit(FIRST_INDEX, disk.size(FIRST_INDEX) - 3)
    elif damage == "short":
        del disk.files[FIRST_INDEX].content[100:]
    else:
        disk.perform(DiskOp(WRITE_FILE, FIRST_INDEX, disk.read_all("s/msgs/2.idx")))
    store = reopened(disk, options)
    assert live_messages(store) == {number: message(number) for number in range(1, 61)}
    assert store.report.lost == []
    commit_all(store, disk)

    again = reopened(disk, options)

    assert again.report.blocks_scanned == 1
    assert live_messages(again) == {number: message(number) for number in range(1, 61)}


def test_a_block_whose_head_is_unreadable_is_set_aside_and_reported() -> None:
    disk = SimDisk()
    options = small_options(block_size=500)
    filled(disk, options, 60)
    disk.flip_bit(FIRST_BLOCK, 3)
    disk.flip_bit(FIRST_BLOCK, 60)

    store = reopened(disk, options)

    assert store.report.blocks_unreadable == [FIRST_BLOCK]
    assert disk.exists(FIRST_BLOCK)
    assert store.last_seq == 60
    check_consistent(store)


def test_erasing_overwrites_the_payload_on_disk() -> None:
    disk = SimDisk()
    store = reopened(disk, small_options())
    for payload in (b"keep this one", b"forget this secret", b"and keep this"):
        store.append(b"s", 0, payload, 1)
    commit(store, disk)

    assert store.remove(2, True)
    commit_all(store, disk)

    data = disk.read_all(FIRST_BLOCK)
    assert b"secret" not in data
    assert b"keep this one" in data
    assert b"and keep this" in data
    assert sorted(live_messages(reopened(disk, small_options()))) == [1, 3]


@pytest.mark.parametrize("compress", [False, True])
def test_erasing_reaches_full_blocks_too(compress: bool) -> None:
    disk = SimDisk()
    options = small_options(block_size=500, compress=compress)
    store = filled(disk, options, 60)

    assert store.remove(3, True)
    commit_all(store, disk)

    again = reopened(disk, options)
    assert b"%020d" % 3 not in again.read_block(1)
    assert sorted(live_messages(again)) == [seq for seq in range(1, 61) if seq != 3]
    assert again.report.is_clean()


def test_a_crash_between_deleting_and_erasing_is_made_good() -> None:
    disk = SimDisk()
    store = filled(disk, small_options(), 5)
    store.remove(3, True)
    commit(store, disk)
    assert b"%020d" % 3 in disk.read_all(FIRST_BLOCK)

    store = reopened(disk, small_options())
    commit_all(store, disk)

    assert b"%020d" % 3 not in disk.read_all(FIRST_BLOCK)


def test_nothing_is_destroyed_by_the_commit_that_first_says_so() -> None:
    disk = SimDisk()
    store = filled(disk, small_options(block_size=500), 60)
    store.remove(50, True)
    store.purge_below(40)

    pending = Commit()
    store.collect(pending, True)

    assert {op.kind for op in pending.ops} <= {APPEND, SYNC}
    store.committed(60)
    following = Commit()
    store.collect(following, True)
    assert {op.kind for op in following.ops} >= {REMOVE, OVERWRITE}


@pytest.mark.parametrize("compress", [False, True])
def test_a_block_less_than_half_alive_is_rewritten(compress: bool) -> None:
    disk = SimDisk()
    options = small_options(block_size=2_000, compress=compress)
    store = filled(disk, options, 200)
    before = disk.used_bytes()

    for seq in range(2, 200):
        if seq % 10:
            store.remove(seq, False)
    for _ in range(20):
        store.append(b"s", 0, b"%020d" % 0, 9_000)
        commit_all(store, disk)

    assert disk.used_bytes() < before
    expected = live_messages(store)
    again = reopened(disk, options)
    assert live_messages(again) == expected
    assert again.report.is_clean()
    check_consistent(again)


def test_compressed_blocks_are_smaller_and_read_the_same() -> None:
    plain_disk, packed_disk = SimDisk(), SimDisk()
    filled(plain_disk, small_options(block_size=5_000), 300)
    options = small_options(block_size=5_000, compress=True)
    filled(packed_disk, options, 300)

    store = reopened(packed_disk, options)

    assert packed_disk.size(FIRST_BLOCK) * 2 < plain_disk.size(FIRST_BLOCK)
    assert store.report.blocks_scanned == 1
    assert live_messages(store) == {number: message(number) for number in range(1, 301)}


def test_damage_in_a_compressed_block_is_found_and_not_served() -> None:
    disk = SimDisk()
    options = small_options(block_size=5_000, compress=True)
    filled(disk, options, 300)
    disk.flip_bit(FIRST_BLOCK, disk.size(FIRST_BLOCK) // 2)

    store = reopened(disk, options)
    found = live_messages(store)

    assert 100 < len(found) < 300
    assert all(stored == message(seq) for seq, stored in found.items())
    assert len(store.report.lost) == 300 - len(found)
    check_consistent(store)


def test_a_file_left_half_made_is_cleaned_up() -> None:
    disk = SimDisk()
    filled(disk, small_options(), 3)
    disk.perform(DiskOp(APPEND, "s/msgs/1.blk.new", b"half"))
    disk.perform(DiskOp(APPEND, "s/msgs/9.idx", b"no block"))

    reopened(disk, small_options())

    assert disk.list_dir("s/msgs") == ["1.blk"]


def test_the_listener_is_shown_every_message_with_headers() -> None:
    disk = SimDisk()
    options = small_options(block_size=500)
    store = reopened(disk, options)
    for number in range(1, 41):
        header = b"NATS/1.0\r\nNats-TTL: 1s\r\n\r\n" if number % 5 == 0 else b""
        store.append(b"s", len(header), header + b"x" * 20, number)
    commit_all(store, disk)
    shown: list[int] = []

    again = reopened(disk, options)
    again.scan_headers(20, lambda view: shown.append(view.seq))

    assert shown == [20, 25, 30, 35, 40]


def test_blocks_without_headers_are_not_read_for_them() -> None:
    disk = SimDisk()
    options = small_options(block_size=500)
    filled(disk, options, 60)

    store = reopened(disk, options)
    shown: list[int] = []
    store.scan_headers(0, lambda view: shown.append(view.seq))

    assert shown == []
    assert store.blocks_with_headers() == 0
    assert sum(block.has_data for block in store.blocks) <= 2


def test_a_first_sequence_that_only_tombstones_tell_is_noted_before_they_are_dropped() -> None:
    disk = SimDisk()
    # Eight records fill a block, and so do seven and a tombstone.
    options = small_options(block_size=480)
    store = filled(disk, options, 63)
    store.remove(1, True)
    commit(store, disk)
    # The crash took the state note at the end of the commit and left the tombstone before it, in a block that is full.
    del disk.files["s/msgs/8.blk"].content[-38:]
    store = reopened(disk, options)
    assert store.first_seq == 2
    assert store.open.number == 9

    for seq in range(57, 63):
        store.remove(seq, False)
    commit_all(store, disk)

    assert sorted(live_messages(reopened(disk, options))) == [*range(2, 57), 63]
