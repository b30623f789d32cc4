"""An index file is a cache: whatever happens to its bytes, the store opens with the same messages."""

from __future__ import annotations

import errno
from random import Random

import pytest

from jetspark.store.block_cache import BlockCache
from jetspark.store.disk import COMPRESSED_HEAD_SIZE
from jetspark.store.sidecar import FRONT_READ_SIZE
from jetspark.store.store_base import StoreOptions
from jetspark.testing.sim_disk import SimDisk
from tests.store.model import Stored, check_consistent, commit_all, live_messages, reopened

BLOCK = "s/msgs/1.blk"
INDEX = "s/msgs/1.idx"


class StrictDisk(SimDisk):
    """Asks for memory as a real disk does: room for all of a read is taken before anything is read."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        # Paths that cannot be read at this offset and after it.
        self.bad_from: dict[str, int] = {}

    def read(self, path: str, offset: int, size: int) -> bytes:
        if size > max(self.size(path), FRONT_READ_SIZE):
            raise MemoryError(f"{size} bytes asked of {path}, which has {self.size(path)}")
        if path in self.bad_from and offset >= self.bad_from[path]:
            raise OSError(errno.EIO, "Input/output error", path)
        return super().read(path, offset, size)


def options(*, compress: bool = False) -> StoreOptions:
    made = StoreOptions(block_size=700, compress=compress)
    made.cache = BlockCache(0)
    return made


def filled(disk: SimDisk, *, compress: bool = False) -> dict[int, Stored]:
    """Some blocks; the first has tombstones, sequences without a record, messages with headers and two subjects."""
    store = reopened(disk, options(compress=compress))
    header = b"NATS/1.0\r\nA: b\r\n\r\n"
    for number in range(1, 9):
        subject = b"orders" if number % 2 else b"refunds"
        store.append(subject, len(header) if number == 3 else 0, header * (number == 3) + b"%020d" % number, number)
    store.remove(2, False)
    store.remove(5, True)
    store.skip_to(11, 9)
    for number in range(12, 40):
        store.append(b"orders", 0, b"%020d" % number, number)
    commit_all(store, disk)
    assert disk.size(INDEX) > 0
    assert len(store.blocks) > 3
    return live_messages(store)


def check_opens_the_same(disk: SimDisk, expected: dict[int, Stored]) -> None:
    store = reopened(disk, options())
    assert live_messages(store) == expected
    assert store.report.lost == []
    check_consistent(store)


@pytest.mark.long
@pytest.mark.parametrize("bit", range(8))
def test_any_flipped_bit_in_an_index_file_is_made_good(bit: int) -> None:
    disk = StrictDisk()
    expected = filled(disk)
    for position in range(disk.size(INDEX)):
        disk.flip_bit(INDEX, position, bit)
        check_opens_the_same(disk, expected)
        disk.flip_bit(INDEX, position, bit)


def test_an_index_file_cut_anywhere_is_made_good() -> None:
    disk = StrictDisk()
    expected = filled(disk)
    whole = disk.read_all(INDEX)
    for size in range(len(whole)):
        disk.files[INDEX].content = bytearray(whole[:size])
        check_opens_the_same(disk, expected)


def test_garbage_in_place_of_an_index_file_is_made_good() -> None:
    rng = Random(7)
    disk = StrictDisk()
    expected = filled(disk)
    whole = disk.read_all(INDEX)
    garbage = [
        b"\xff" * len(whole),
        bytes(len(whole)),
        whole[:8] + b"\xff" * len(whole),
        whole + whole,
        b"\xff" * 40000,
    ]
    garbage += [rng.randbytes(rng.randrange(2 * len(whole))) for _ in range(100)]
    garbage += [whole[:8] + rng.randbytes(len(whole)) for _ in range(100)]
    for content in garbage:
        disk.files[INDEX].content = bytearray(content)
        check_opens_the_same(disk, expected)


@pytest.mark.parametrize("from_byte", [0, 1])
def test_an_index_file_that_cannot_be_read_is_made_good(from_byte: int) -> None:
    """All of it, or only the entries behind its front."""
    disk = StrictDisk()
    expected = filled(disk)
    disk.bad_from[INDEX] = from_byte
    check_opens_the_same(disk, expected)


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_in_the_head_of_a_compressed_block_costs_nothing(bit: int) -> None:
    disk = StrictDisk()
    expected = filled(disk, compress=True)
    assert disk.read(BLOCK, 0, 4) == b"JSZ1"
    for position in range(4, COMPRESSED_HEAD_SIZE):
        disk.flip_bit(BLOCK, position, bit)
        store = reopened(disk, options(compress=True))
        assert live_messages(store) == expected
        assert store.report.is_clean()
        disk.flip_bit(BLOCK, position, bit)
