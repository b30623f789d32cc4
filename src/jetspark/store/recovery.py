"""Opening a stream: from the index files of its full blocks, and a scan of whatever has none.

Blocks are entered in order, tombstones are applied to the counts, everything below the first sequence is dropped. A
torn tail is cut and the cut made durable before anything can be appended, so that nothing which survived behind it
can come back. What was cut, damaged or lost is in the store's report.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from jetspark.store import undo
from jetspark.store.block import NO_RECORD, Block
from jetspark.store.block_head import HEAD_SIZE, block_number, block_path, decode_head, file_number, index_path
from jetspark.store.disk import (
    COMPRESSED_HEAD_SIZE,
    COMPRESSED_MAGIC,
    REMOVE,
    SYNC_DIR,
    TEMPORARY_SUFFIX,
    TRUNCATE,
    Disk,
    DiskOp,
)
from jetspark.store.numbers import get_i64
from jetspark.store.record import ERASED_BIT, record_seq_field
from jetspark.store.scan import BlockScanner, ScanResult
from jetspark.store.sidecar import Sidecar
from jetspark.store.store_base import StoreOptions
from jetspark.store.stream_store import StreamStore
from jetspark.store.subject_state import SubjectState
from jetspark.store.view import RecordView

# What a crash leaves of a file that was being replaced.
HALF_MADE: Final = (f"blk{TEMPORARY_SUFFIX}", f"idx{TEMPORARY_SUFFIX}")


def new_stream_store(disk: Disk, path: str, options: StoreOptions) -> StreamStore:
    """An empty store. What its folder holds is not looked at: an earlier stream of that name may just be going."""
    store = StreamStore(disk, path, options)
    store.first_seq = options.first_seq
    store.last_seq = options.first_seq - 1
    store.visible_seq = store.last_seq
    store.blocks = []
    store.begin_block()
    store.near = store.open
    store.durable = undo.take_mark(store)
    store.in_flight = store.durable
    return store


def open_stream_store(
    disk: Disk, path: str, options: StoreOptions, listener: Callable[[RecordView], None] | None = None
) -> StreamStore:
    """The store of one stream, as its files have it. The listener is shown every live message with headers."""
    if options.memory:
        return new_stream_store(disk, path, options)
    store = StreamStore(disk, path, options)
    Recovery(store).run()
    store.durable = undo.take_mark(store)
    store.in_flight = store.durable
    store.open.durable_size = store.open.written_size
    store.cache.admit(store.open)
    store.visible_seq = store.last_seq
    if options.track_sequences:
        store.rebuild_tracking()
    if listener is not None:
        store.scan_headers(0, listener)
    return store


class Recovery:
    """One opening of one store."""

    def __init__(self, store: StreamStore) -> None:
        self.store = store
        self.report = store.report
        # What each block's index file says, by number; blocks that were scanned have none.
        self.cars: dict[int, Sidecar] = {}
        self.lost: list[int] = []
        # What must be done to the files before anything is appended. Not before all of them were read: a stream that
        # cannot be opened is left as it is.
        self.ops: list[DiskOp] = []
        self.must_sync_folder: bool = False
        self.first_seq: i64 = 1
        self.last_seq: i64 = 0
        self.last_ts_ns: i64 = 0

    def run(self) -> None:
        store = self.store
        store.blocks = []
        names = store.disk.list_dir(store.folder)
        numbers = sorted(number for number in (block_number(name) for name in names) if number > 0)
        self.remove_leftovers(names)
        for number in numbers:
            self.enter_block(number, number == numbers[-1])
            store.next_number = number + 1
        if numbers:
            store.is_folder_made = True
        if not store.blocks:
            # Only a stream that has never held anything begins where its settings say; they may have changed since.
            self.first_seq = store.options.first_seq
            self.last_seq = store.options.first_seq - 1
        self.drop_dead_blocks()
        for block in store.blocks:
            self.add_subjects(block)
        for block in store.blocks:
            self.bury_by_tombstones(block)
        self.choose_open_block()
        self.bury_below_first()
        self.settle_counters()
        self.settle_lost()
        self.erase_again()
        for op in self.ops:
            store.disk.perform(op)
        if self.must_sync_folder:
            store.disk.perform(DiskOp(SYNC_DIR, store.folder))

    def remove_leftovers(self, names: list[str]) -> None:
        """Files that a crash left half made, and index files without a block."""
        for name in names:
            stem, _, extension = name.partition(".")
            is_half_made = extension in HALF_MADE
            is_alone = extension == "idx" and f"{stem}.blk" not in names
            if (is_half_made or is_alone) and file_number(stem) > 0:
                self.ops.append(DiskOp(REMOVE, f"{self.store.folder}/{name}"))

    # One block.

    def enter_block(self, number: i64, is_last: bool) -> None:
        """By its index file if that belongs to it, otherwise by a scan."""
        store = self.store
        path = block_path(store.folder, number)
        try:
            start = store.disk.read(path, 0, COMPRESSED_HEAD_SIZE + HEAD_SIZE)
        except IsADirectoryError:
            # Never a block. Its number is taken all the same.
            self.report.blocks_unreadable.append(path)
            return
        is_packed = start[:4] == COMPRESSED_MAGIC
        if is_packed:
            start = start[COMPRESSED_HEAD_SIZE:]
        # Records begin after a whole head, so a shorter file is one that was never written to its end.
        head = decode_head(start) if len(start) >= HEAD_SIZE else None
        if head is None:
            self.refuse_block(number)
            return
        if head.next_seq <= self.last_seq:
            # Left by a commit that failed and was taken back: its sequences were given out again, before this block.
            self.ops.append(DiskOp(REMOVE, path))
            return
        block = Block(number, head.seed(), head.next_seq)
        block.is_packed = is_packed
        block.state_first_seq = head.first_seq
        block.state_last_seq = head.next_seq - 1
        block.state_last_ts_ns = head.last_ts_ns
        car = store.read_front(number)
        if car is not None and self.belongs(car, number) and self.mark_absent(block, car):
            self.enter_indexed(block, car)
        else:
            self.enter_scanned(block, is_last)
        store.blocks.append(block)
        self.learn_state(block)

    def refuse_block(self, number: i64) -> None:
        """A file without a readable head: set aside, unless there was no room in it for a record."""
        store = self.store
        path = block_path(store.folder, number)
        size = store.disk.size(path)
        if size <= HEAD_SIZE:
            self.report.cut_bytes += size
            self.ops.append(DiskOp(REMOVE, path))
        else:
            self.report.blocks_unreadable.append(path)

    def belongs(self, car: Sidecar, number: i64) -> bool:
        """Does the index file describe the block as it is?"""
        store = self.store
        path = block_path(store.folder, number)
        if car.number != number:
            return False
        start = store.disk.read(path, 0, COMPRESSED_HEAD_SIZE)
        if start[:4] == COMPRESSED_MAGIC:
            return get_i64(start, 4) == car.raw_size and start[12:20] == car.tail
        return store.disk.size(path) == car.raw_size and store.disk.read(path, car.raw_size - 8, 8) == car.tail

    def enter_indexed(self, block: Block, car: Sidecar) -> None:
        self.report.blocks_indexed += 1
        self.cars[block.number] = car
        block.base_seq = car.base_seq
        block.count = car.count
        block.size = car.raw_size
        block.written_size = car.raw_size
        block.sealed_size = car.raw_size
        block.live_count = car.count - car.absent_count
        block.live_bytes = car.record_bytes
        block.record_bytes = car.record_bytes
        block.last_ts_ns = car.last_ts_ns
        block.header_count = car.header_count
        block.index_start = car.front_size
        block.state_first_seq = max(block.state_first_seq, car.state_first_seq)
        block.state_last_seq = max(block.state_last_seq, car.state_last_seq)
        block.state_last_ts_ns = max(block.state_last_ts_ns, car.state_last_ts_ns)
        for seq in car.tombstone_seqs:
            block.tombstone_max_seq = max(block.tombstone_max_seq, seq)
        block.closed = True
        block.pinned = False
        block.is_filed = True
        block.drop_data()
        block.drop_index()

    def mark_absent(self, block: Block, car: Sidecar) -> bool:
        """Mark the sequences without a record as dead; False if the index that knows them is damaged."""
        if car.absent_count == 0:
            return True
        if not self.store.read_entries(car, block):
            return False
        at: i64 = 0
        while at < car.count:
            if block.entries[at] == NO_RECORD:
                block.mark_absent(at)
            at += 1
        return True

    def enter_scanned(self, block: Block, is_last: bool) -> None:
        store = self.store
        self.report.blocks_scanned += 1
        path = block_path(store.folder, block.number)
        data = store.read_block(block.number)
        result = BlockScanner(block, data).run()
        torn: i64 = len(data) - result.end
        self.report.damaged_bytes += result.damaged_bytes
        self.note_lost(block, result)
        if block.is_packed:
            # Written whole, so what does not read is damage; and never appended to.
            self.report.damaged_bytes += torn
            block.closed = True
        else:
            self.report.cut_bytes += torn
            # Cut before anything is appended, and synced in any case. Were the tail left, a later append could end
            # where something whole begins; and what a process wrote before it was killed is read here, but may not be
            # on the medium.
            self.ops.append(DiskOp(TRUNCATE, path, b"", "", result.end))
            self.must_sync_folder = True
            block.closed = not is_last
        block.set_data(data[: result.end] if torn else data, 0)
        block.written_size = result.end

    def note_lost(self, block: Block, result: ScanResult) -> None:
        self.lost.extend(result.lost)
        self.report.lost_bytes += result.damaged_bytes

    def learn_state(self, block: Block) -> None:
        """Where the stream stands, as far as this block knows."""
        self.first_seq = max(self.first_seq, block.state_first_seq)
        if block.state_last_seq >= self.last_seq:
            self.last_seq = block.state_last_seq
            self.last_ts_ns = block.state_last_ts_ns
        last = block.base_seq + block.count - 1
        if block.count > 0 and last >= self.last_seq:
            self.last_seq = last
            self.last_ts_ns = block.last_ts_ns
        # The removal of a message says that its sequence was given out, also where the message itself is not readable.
        # Given out again, the sequence would be taken for removed at the next start.
        self.last_seq = max(self.last_seq, block.tombstone_max_seq)

    # All blocks.

    def drop_dead_blocks(self) -> None:
        """Blocks that end below the first sequence; the last one stays, it is the open one."""
        store = self.store
        kept: list[Block] = []
        for block in store.blocks:
            is_below = block.count == 0 or block.base_seq + block.count <= self.first_seq
            if is_below and block is not store.blocks[-1] and block.tombstone_max_seq < self.first_seq:
                store.deferred.append(DiskOp(REMOVE, block_path(store.folder, block.number)))
                store.deferred.append(DiskOp(REMOVE, index_path(store.folder, block.number)))
                store.cache.release(block)
                store.has_pending = True
                continue
            if is_below and block is not store.blocks[-1]:
                block.live_count = 0
                block.live_bytes = 0
            kept.append(block)
        store.blocks = kept

    def add_subjects(self, block: Block) -> None:
        if block.live_count == 0:
            return
        car = self.cars.get(block.number)
        if car is None:
            undo.count_subjects(self.store, block)
            return
        for at, subject in enumerate(car.subjects):
            count: i64 = car.subject_counts[at]
            if count > 0:
                first: i64 = block.base_seq + car.subject_firsts[at]
                self.add_subject(subject, count, first, block.base_seq + car.subject_lasts[at])

    def add_subject(self, subject: bytes, count: i64, first_seq: i64, last_seq: i64) -> None:
        subjects = self.store.subjects
        state = subjects.get(subject)
        if state is None:
            state = SubjectState(subject)
            state.first_seq = first_seq
            subjects[subject] = state
        state.message_count += count
        state.last_seq = last_seq

    def bury_by_tombstones(self, block: Block) -> None:
        car = self.cars.get(block.number)
        at: i64 = 0
        if car is None:
            while at < len(block.tombstone_seqs):
                subject = block.subject_table[block.tombstone_ids[at]]
                self.bury(block.tombstone_seqs[at], subject, block.tombstone_sizes[at])
                at += 1
            return
        while at < len(car.tombstone_seqs):
            self.bury(car.tombstone_seqs[at], car.subjects[car.tombstone_ids[at]], car.tombstone_sizes[at])
            at += 1

    def bury(self, seq: i64, subject: bytes, size: i64) -> None:
        """Apply one tombstone, unless its record is gone already."""
        store = self.store
        if not store.is_live(seq):
            return
        block = store.near
        block.mark_dead(seq - block.base_seq)
        block.live_count -= 1
        block.live_bytes -= -size if size < 0 else size
        self.touch(block)
        self.uncount(subject, seq)

    def touch(self, block: Block) -> None:
        if not block.is_touched:
            block.is_touched = True
            self.store.touched.append(block)

    def uncount(self, subject: bytes, seq: i64) -> None:
        state = self.store.subjects.get(subject)
        if state is not None:
            state.removed(seq)
            if state.message_count <= 0:
                del self.store.subjects[subject]

    def bury_below_first(self) -> None:
        """The one block that the first sequence cuts through."""
        store = self.store
        for block in store.blocks:
            if block.base_seq >= self.first_seq:
                break
            if block.live_count == 0:
                continue
            if not block.has_data or not block.has_index:
                store.load(block)
            index = block.next_live_index(0)
            while index >= 0 and block.base_seq + index < self.first_seq:
                block.read(index, store.scratch)
                block.mark_dead(index)
                block.live_count -= 1
                block.live_bytes -= store.scratch.raw_size()
                self.uncount(store.scratch.subject, block.base_seq + index)
                self.touch(block)
                index = block.next_live_index(index + 1)

    def choose_open_block(self) -> None:
        """Go on with the last block if it is not full; every other block becomes a full one."""
        store = self.store
        # As the disk has it, for the head of a block begun now; the first message itself is looked for afterwards.
        store.first_seq = self.first_seq
        store.noted_first_seq = self.first_seq
        store.last_seq = self.last_seq
        store.last_ts_ns = self.last_ts_ns
        if store.blocks and not store.blocks[-1].closed and store.blocks[-1].size < store.block_size:
            store.open = store.blocks[-1]
        else:
            store.begin_block()
        for block in store.blocks:
            if block.is_filed and block.live_count == 0:
                self.touch(block)
            if block is not store.open and not block.is_filed:
                # Scanned for want of an index file: it gets one with the next commit.
                block.closed = True
                store.closing.append(block)
        store.near = store.open

    def settle_counters(self) -> None:
        store = self.store
        # Damage found on the way was counted, from nothing: the blocks know better.
        store.message_count = 0
        store.byte_count = 0
        for block in store.blocks:
            store.message_count += block.live_count
            store.byte_count += block.live_bytes
        store.move_first(0)
        store.note_state = False
        store.has_pending = bool(store.closing) or bool(store.deferred) or bool(self.report.lost)

    def settle_lost(self) -> None:
        """Of the sequences that damage may have held, those that no tombstone buried are lost."""
        store = self.store
        if not self.lost:
            return
        buried: set[int] = set()
        for block in store.blocks:
            car = self.cars.get(block.number)
            buried.update(block.tombstone_seqs if car is None else car.tombstone_seqs)
        self.report.lost.extend(seq for seq in self.lost if seq >= self.first_seq and seq not in buried)

    def erase_again(self) -> None:
        """A crash may have come between a durable deletion and the overwriting of its bytes."""
        store = self.store
        for block in store.blocks[-2:]:
            car = self.cars.get(block.number)
            seqs = block.tombstone_seqs if car is None else car.tombstone_seqs
            sizes = block.tombstone_sizes if car is None else car.tombstone_sizes
            at: i64 = 0
            while at < len(seqs):
                if sizes[at] < 0 and self.has_bytes(seqs[at]):
                    store.erasing.append((seqs[at], 0))
                    store.has_pending = True
                at += 1

    def has_bytes(self, seq: i64) -> bool:
        """Is the record of a deleted message there, not yet overwritten?"""
        store = self.store
        if not store.move_near(seq):
            return False
        block = store.near
        if not block.has_data or not block.has_index:
            store.load(block)
        offset = block.offset_of(seq - block.base_seq)
        if offset < 0:
            return False
        if offset < block.near_start or offset >= block.near_end:
            block.move_near(offset)
        return record_seq_field(block.near_data, offset - block.near_start) & ERASED_BIT == 0
