"""What a stream store holds, and how a record is found in it.

Blocks in sequence order, subjects, counters; view and next_live. Loading a block that is not in memory reads its
index file and its bytes and checks them: what fails its hash is never shown, it is set aside as damaged. Searching
beyond that is in queries, changing anything in stream_store.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from librt.vecs import append, vec
from mypy_extensions import i64
from xxhash import xxh3_64_digest

from jetspark.store.block import NO_RECORD, OFFSET_SHIFT, Block
from jetspark.store.block_cache import SHARED, BlockCache
from jetspark.store.block_head import HEAD_SIZE, block_path, index_path
from jetspark.store.disk import COMPRESSED_MAGIC, Disk, decompress_block
from jetspark.store.meta import MESSAGES_NAME
from jetspark.store.numbers import get_i64
from jetspark.store.record import read_record, record_length, record_seq_field, record_subject, valid_length
from jetspark.store.scan import BlockScanner
from jetspark.store.sidecar import ENTRY_SIZE, FRONT_READ_SIZE, Sidecar, decode_front, decode_index, front_size_of
from jetspark.store.subject_state import SubjectState
from jetspark.store.view import RecordView

BLOCK_SIZE: Final = 8 * 1024 * 1024
# A record is read alone, with so much at first, until so many of a block were: loading it costs about as much.
PROBE_SIZE: Final = 1024
PROBES_MAX: Final = 256


class StoreOptions:
    """How a stream is stored."""

    def __init__(
        self, memory: bool = False, block_size: i64 = BLOCK_SIZE, compress: bool = False, track_sequences: bool = False
    ) -> None:
        self.memory: bool = memory
        self.block_size: i64 = block_size
        self.compress: bool = compress
        # Keep every subject's sequences, for streams with more than one message a subject as their limit.
        self.track_sequences: bool = track_sequences
        # Where the sequences of a stream begin that holds nothing yet.
        self.first_seq: i64 = 1
        self.cache: BlockCache = SHARED


class RecoveryReport:
    """What opening a store, or reading it later, found wrong. Nothing wrong: all zero and empty."""

    def __init__(self) -> None:
        # Bytes of torn tails that were cut off.
        self.cut_bytes: i64 = 0
        # Sequences whose records were damaged.
        self.lost: list[int] = []
        self.lost_bytes: i64 = 0
        self.damaged_bytes: i64 = 0
        self.blocks_scanned: i64 = 0
        self.blocks_unreadable: list[str] = []
        self.blocks_indexed: i64 = 0

    def is_clean(self) -> bool:
        return not self.lost and not self.blocks_unreadable and self.cut_bytes == 0 and self.damaged_bytes == 0


class StoreBase:
    """The content of one stream."""

    def __init__(self, disk: Disk, path: str, options: StoreOptions) -> None:
        self.disk: Disk = disk
        self.folder: str = f"{path}/{MESSAGES_NAME}"
        self.options: StoreOptions = options
        self.memory: bool = options.memory
        self.cache: BlockCache = options.cache
        self.first_seq: i64 = 1
        self.last_seq: i64 = 0
        self.first_ts_ns: i64 = 0
        self.last_ts_ns: i64 = 0
        self.message_count: i64 = 0
        self.byte_count: i64 = 0
        self.visible_seq: i64 = 0
        self.subjects: dict[bytes, SubjectState] = {}
        self.report: RecoveryReport = RecoveryReport()
        # Sequence order; the last is the open one.
        self.blocks: list[Block] = [Block(1, 1, 1)]
        self.open: Block = self.blocks[0]
        # The block that answered last: most reads are next to the one before.
        self.near: Block = self.open
        self.writer: BytesWriter = BytesWriter()
        self.scratch: RecordView = RecordView()

    # Finding.

    def find_block_index(self, seq: i64) -> i64:
        """Index of the first block that ends at or after a sequence; the number of blocks if none does."""
        low: i64 = 0
        high: i64 = len(self.blocks)
        while low < high:
            middle: i64 = (low + high) >> 1
            block = self.blocks[middle]
            if block.base_seq + block.count <= seq:
                low = middle + 1
            else:
                high = middle
        return low

    def move_near(self, seq: i64) -> bool:
        """Make the block that covers a sequence the near one; False if no block does."""
        at = self.find_block_index(seq)
        if at >= len(self.blocks):
            return False
        block = self.blocks[at]
        if seq < block.base_seq:
            return False
        self.near = block
        if block.is_cached:
            self.cache.touch(block)
        return True

    def is_live(self, seq: i64) -> bool:
        block = self.near
        index: i64 = seq - block.base_seq
        if index < 0 or index >= block.count:
            if not self.move_near(seq):
                return False
            block = self.near
            index = seq - block.base_seq
        return block.is_live(index)

    def view(self, seq: i64, into: RecordView) -> bool:
        """Show a live record, committed or not. False if there is none (any more)."""
        block = self.near
        index: i64 = seq - block.base_seq
        if index < 0 or index >= block.count:
            if not self.move_near(seq):
                return False
            block = self.near
            index = seq - block.base_seq
        if block.live_count == 0 or (block.dead_count != 0 and block.is_dead(index)):
            return False
        if not block.has_data or not block.has_index:
            return self.view_cold(block, index, into)
        block.read(index, into)
        return True

    def view_cold(self, block: Block, index: i64, into: RecordView) -> bool:
        """The same for a block that is not, or not wholly, in memory."""
        if not block.has_index or block.offset_of(index) < block.missing_end:
            if self.probe(block, index, into):
                return True
            self.load(block)
            # Loading may have looked at other blocks, because of damage.
            self.near = block
            if not block.is_live(index):
                return False
        block.read(index, into)
        return True

    def probe(self, block: Block, index: i64, into: RecordView) -> bool:
        """Read one record alone; False if the block should be loaded instead, or the record is not sound."""
        is_next = index == block.probe_index + 1
        block.probe_index = index
        block.probe_count += 1
        if is_next or block.is_packed or block.probe_count > PROBES_MAX:
            return False
        try:
            data = self.read_alone(block, index)
        except OSError:
            return False
        if not data or record_seq_field(data, 0) != block.base_seq + index:
            return False
        read_record(data, 0, into)
        into.subject = self.shared_subject(record_subject(data, 0))
        return True

    def read_alone(self, block: Block, index: i64) -> bytes:
        """The bytes of one record, checked; nothing when they are not to be had this way."""
        if block.has_index:
            offset = block.offset_of(index)
        elif block.index_start > 0:
            path = index_path(self.folder, block.number)
            entry = self.disk.read(path, block.index_start + ENTRY_SIZE * index, ENTRY_SIZE)
            if len(entry) < ENTRY_SIZE:
                return b""
            offset = get_i64(entry, 0) >> OFFSET_SHIFT
        else:
            return b""
        path = block_path(self.folder, block.number)
        data = self.disk.read(path, offset, PROBE_SIZE) if offset >= HEAD_SIZE else b""
        if len(data) >= 4 and record_length(data, 0) > len(data) and record_length(data, 0) <= block.size - offset:
            data = self.disk.read(path, offset, record_length(data, 0))
        return data if valid_length(data, 0, len(data), block.seed) > 0 else b""

    def next_live(self, seq: i64) -> i64:
        """Smallest live sequence at or after `seq`; 0 if none."""
        if self.message_count == 0:
            return 0
        if seq < self.first_seq:
            return self.first_seq
        block = self.near
        index: i64 = seq - block.base_seq
        if index >= 0 and index < block.count and block.dead_count == 0 and block.live_count != 0:
            return seq
        at = self.find_block_index(seq)
        count: i64 = len(self.blocks)
        while at < count:
            block = self.blocks[at]
            index = max(0, seq - block.base_seq)
            index = block.next_live_index(index)
            if index >= 0:
                return block.base_seq + index
            at += 1
        return 0

    def time_of(self, seq: i64) -> i64:
        """When a live message was stored, -1 if there is none. If it cannot be read, not earlier than that."""
        try:
            return self.scratch.ts_ns if self.view(seq, self.scratch) else -1
        except OSError:
            # Nothing may fail for want of this: removals have happened already.
            return self.blocks[self.find_block_index(seq)].last_ts_ns

    # Loading.

    def load(self, block: Block) -> None:
        """Bring index and bytes of a block into memory."""
        if not block.has_index:
            self.read_index(block)
        if not block.has_data:
            self.load_data(block)
        self.loaded(block)

    def load_index(self, block: Block) -> None:
        """Bring the index of a block into memory, its bytes only if there is no other way."""
        self.read_index(block)
        self.loaded(block)

    def loaded(self, block: Block) -> None:
        self.cache.admit(block, True)
        # What damage was found may make other blocks come in; this one was asked for and stays.
        was_pinned = block.pinned
        block.pinned = True
        try:
            self.after_load()
        finally:
            block.pinned = was_pinned

    def after_load(self) -> None:
        """Reading a block is over: deal with what it found."""
        raise NotImplementedError

    def read_index(self, block: Block) -> None:
        """From the index file; from the block itself when that cannot be used."""
        car = self.read_front(block.number)
        if (
            car is not None
            and car.base_seq == block.base_seq
            and car.count == block.count
            and car.raw_size == block.size
            and self.read_entries(car, block)
        ):
            block.subject_table = [self.shared_subject(subject) for subject in car.subjects]
            block.tombstone_seqs = car.tombstone_seqs
            block.tombstone_ids = car.tombstone_ids
            block.tombstone_sizes = car.tombstone_sizes
            block.index_start = car.front_size
            block.has_index = True
            return
        self.rebuild_index(block)

    def read_entries(self, car: Sidecar, block: Block) -> bool:
        """Give the block the entries of its index file; False when they are damaged or cannot be read."""
        path = index_path(self.folder, block.number)
        try:
            index = self.disk.read(path, car.front_size, car.count * ENTRY_SIZE)
        except OSError:
            return False
        return decode_index(car, index, block)

    def read_front(self, number: i64) -> Sidecar | None:
        """The front of a block's index file; None when it is missing or damaged."""
        path = index_path(self.folder, number)
        try:
            front = self.disk.read(path, 0, FRONT_READ_SIZE)
            size = front_size_of(front)
            if size > len(front):
                # What the file says of its size is not checked yet, and memory is taken before anything is read.
                if size > self.disk.size(path):
                    return None
                front = self.disk.read(path, 0, size)
        except OSError:
            return None
        return decode_front(front)

    def read_block(self, number: i64) -> bytes:
        """A block's bytes as they were before any compression."""
        data = self.disk.read_all(block_path(self.folder, number))
        if data[:4] == COMPRESSED_MAGIC:
            return decompress_block(data, HEAD_SIZE)
        return data

    def rebuild_index(self, block: Block) -> None:
        """Scan the bytes for what the index file should have said."""
        data = self.read_block(block.number)
        found = Block(block.number, block.seed, block.base_seq)
        BlockScanner(found, data).run()
        # The same range as before, whatever the damage: what is not found is absent.
        entries = found.entries
        shift: i64 = block.base_seq - found.base_seq if found.count else 0
        block.drop_index()
        block.subject_table = [self.shared_subject(subject) for subject in found.subject_table]
        block.tombstone_seqs = found.tombstone_seqs
        block.tombstone_ids = found.tombstone_ids
        block.tombstone_sizes = found.tombstone_sizes
        kept = vec[i64](capacity=block.count)
        index: i64 = 0
        while index < block.count:
            at = index + shift
            entry: i64 = NO_RECORD
            if at >= 0 and at < found.count:
                entry = entries[at]
            kept = append(kept, entry)
            index += 1
        block.entries = kept
        block.has_index = True
        block.set_data(data, 0)
        self.set_damaged_aside(block, data)

    def load_data(self, block: Block) -> None:
        # Of the open block, or one just full, the latest bytes never left.
        block.fill_missing(self.read_block(block.number)[: block.missing_end])
        data = block.bytes_from(0)
        car = self.read_front(block.number) if block.is_filed else None
        if car is None or xxh3_64_digest(data) != car.block_hash:
            self.set_damaged_aside(block, data)

    def set_damaged_aside(self, block: Block, data: bytes) -> None:
        """Bury every live record whose hash does not agree."""
        size: i64 = len(data)
        # The lengths of damaged records cannot be trusted; together they are what the others leave.
        left: i64 = block.live_bytes
        damaged: list[int] = []
        index = block.next_live_index(0)
        while index >= 0:
            offset = block.offset_of(index)
            length: i64 = 0 if offset < 0 else valid_length(data, offset, size, block.seed)
            left -= length
            if length == 0:
                damaged.append(index)
            index = block.next_live_index(index + 1)
        count: i64 = len(damaged)
        for index in damaged:
            share: i64 = left // count
            self.bury_damaged(block, index, share)
            left -= share
            count -= 1

    def bury_damaged(self, block: Block, index: i64, size: i64) -> None:
        """A live record turned out to be unreadable. How it is accounted for is the writing half's business."""
        raise NotImplementedError

    def shared_subject(self, subject: bytes) -> bytes:
        """The bytes object this subject already has, so that views hand out one object for it."""
        state = self.subjects.get(subject)
        return subject if state is None else state.subject
