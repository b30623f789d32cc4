"""A block: a run of sequences, its records' bytes, and which of them are dead.

    sequence  ->  index entry (offset, subject number)  ->  bytes of the record

The summary (range, counts, times, dead bits) is always in memory. The index and the bytes may be dropped for a block
that is full and durable, and loaded again; deciding when belongs to the cache, reading them to the loader. The bytes
come in segments, because the open block grows by what each commit adds and nothing is copied for it.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from jetspark.store.record import read_record
from jetspark.store.view import RecordView

# Small segments are joined with their neighbours up to this size, so one message a commit does not leave thousands.
SEGMENT_SIZE: Final = 65536
# An index entry is a record's offset above its subject's number.
OFFSET_SHIFT: Final = 32
SUBJECT_MASK: Final = 0xFFFFFFFF
# The entry of a sequence that has no record here: burned, or compacted away.
NO_RECORD: Final = -1
# Dead bits are kept in words of 32, so that no word is ever negative.
WORD_SHIFT: Final = 5
WORD_MASK: Final = 31
WORD_FULL: Final = 0xFFFFFFFF


class Block:
    """One block of a stream."""

    def __init__(self, number: i64, seed: int, base_seq: i64) -> None:
        self.number: i64 = number
        self.seed: int = seed
        self.base_seq: i64 = base_seq
        # Index entries, one a sequence from base_seq on.
        self.count: i64 = 0
        # Bytes of the block as written, head and notes included.
        self.size: i64 = 0
        self.live_count: i64 = 0
        self.live_bytes: i64 = 0
        # Bytes of all records here, dead ones included.
        self.record_bytes: i64 = 0
        # Entries without a record (burned or compacted away): they are dead too.
        self.absent_count: i64 = 0
        self.dead_count: i64 = 0
        self.last_ts_ns: i64 = 0
        self.header_count: i64 = 0
        self.closed: bool = False
        self.dead: vec[i64] = vec[i64]()

        self.has_index: bool = True
        self.entries: vec[i64] = vec[i64]()
        self.subject_table: list[bytes] = []
        # The table of a block whose index is dropped, when it is short enough to be worth keeping.
        self.known_subjects: list[bytes] = []
        self.subjects_known: bool = False

        # Notes in this block that bury records of any block.
        self.tombstone_seqs: vec[i64] = vec[i64]()
        self.tombstone_ids: vec[i64] = vec[i64]()
        self.tombstone_sizes: vec[i64] = vec[i64]()
        self.tombstone_max_seq: i64 = 0
        # Of them, the bytes that were still needed when the block was last rewritten, and which rewrite that was.
        self.needed_note_bytes: i64 = 0
        self.rewrite_number: i64 = 0

        self.has_data: bool = True
        self.segments: list[bytes] = []
        self.segment_starts: vec[i64] = vec[i64]()
        # Appended, not yet joined into a segment: record, hash, record, hash...
        self.parts: list[bytes] = []
        self.sealed_size: i64 = 0
        # Bytes up to here are on disk only; none, or all but the latest segments.
        self.missing_end: i64 = 0
        # How far the file is written, or being written; and how far it is durable.
        self.written_size: i64 = 0
        self.durable_size: i64 = 0
        # The segment that answered last.
        self.near_data: bytes = b""
        self.near_start: i64 = 0
        self.near_end: i64 = 0

        # Not to be dropped: its bytes or its index are not durable yet.
        self.pinned: bool = True
        self.is_cached: bool = False
        self.used_at: i64 = 0
        self.held_bytes: i64 = 0
        # What the state notes written here, and the head, say.
        self.state_first_seq: i64 = 0
        self.state_last_seq: i64 = 0
        self.state_last_ts_ns: i64 = 0
        # The commit that will make the latest removal in this block durable.
        self.removal_epoch: i64 = 0
        self.is_touched: bool = False
        # Full and durable, with its index file.
        self.is_filed: bool = False
        # Its file is compressed, or about to be: it can only be replaced, not written into.
        self.is_packed: bool = False
        self.is_rewriting: bool = False

    @property
    def last_seq(self) -> i64:
        return self.base_seq + self.count - 1

    # Liveness.

    def is_dead(self, index: i64) -> bool:
        """Dead by its bit; callers have checked that the block has dead entries at all."""
        word: i64 = index >> WORD_SHIFT
        return word < len(self.dead) and (self.dead[word] >> (index & WORD_MASK)) & 1 == 1

    def is_live(self, index: i64) -> bool:
        if self.live_count == 0:
            return False
        return self.dead_count == 0 or not self.is_dead(index)

    def mark_dead(self, index: i64) -> None:
        word: i64 = index >> WORD_SHIFT
        if word >= len(self.dead):
            self.grow_dead_bits(word)
        self.dead[word] = self.dead[word] | (1 << (index & WORD_MASK))
        self.dead_count += 1

    def mark_live(self, index: i64) -> None:
        word: i64 = index >> WORD_SHIFT
        self.dead[word] = self.dead[word] & ~(1 << (index & WORD_MASK))
        self.dead_count -= 1

    def grow_dead_bits(self, word: i64) -> None:
        # To the end of the index at once: removals rarely come alone.
        wanted: i64 = max(word + 1, (self.count + WORD_MASK) >> WORD_SHIFT)
        bits = self.dead
        while len(bits) < wanted:
            bits = append(bits, 0)
        self.dead = bits

    def next_live_index(self, index: i64) -> i64:
        """Smallest live index at or after `index`, -1 if none."""
        if self.live_count == 0:
            return -1
        if self.dead_count == 0:
            return index if index < self.count else -1
        count: i64 = self.count
        word_count: i64 = len(self.dead)
        while index < count:
            word: i64 = index >> WORD_SHIFT
            if word >= word_count:
                return index
            bits: i64 = self.dead[word]
            if bits == WORD_FULL:
                index = (word + 1) << WORD_SHIFT
            elif (bits >> (index & WORD_MASK)) & 1 == 0:
                return index
            else:
                index += 1
        return -1

    def previous_live_index(self, index: i64) -> i64:
        """Largest live index at or before `index`, -1 if none."""
        if self.live_count == 0:
            return -1
        while index >= 0:
            if self.dead_count == 0 or not self.is_dead(index):
                return index
            index -= 1
        return -1

    def count_live_from(self, index: i64) -> i64:
        """Live entries at or after `index`."""
        if index <= 0:
            return self.live_count
        if self.live_count == 0 or index >= self.count:
            return 0
        if self.dead_count == 0:
            return self.count - index
        found: i64 = 0
        while True:
            index = self.next_live_index(index)
            if index < 0:
                return found
            found += 1
            index += 1

    # Growing.

    def put(self, offset: i64, subject_id: i64) -> None:
        """The next index entry."""
        self.entries = append(self.entries, (offset << OFFSET_SHIFT) | subject_id)
        self.count += 1

    def put_absent(self) -> None:
        """An index entry for a sequence without a record."""
        self.entries = append(self.entries, NO_RECORD)
        self.count += 1
        self.mark_dead(self.count - 1)
        self.absent_count += 1

    def put_tombstone(self, seq: i64, subject_id: i64, buried: i64) -> None:
        self.tombstone_seqs = append(self.tombstone_seqs, seq)
        self.tombstone_ids = append(self.tombstone_ids, subject_id)
        self.tombstone_sizes = append(self.tombstone_sizes, buried)
        if seq > self.tombstone_max_seq:
            self.tombstone_max_seq = seq

    def seal(self) -> None:
        """Join what was appended into a segment."""
        if not self.parts:
            return
        data = b"".join(self.parts)
        self.parts.clear()
        self.add_segment(data)

    def add_segment(self, data: bytes) -> None:
        start = self.sealed_size
        self.sealed_size = start + len(data)
        count: i64 = len(self.segments)
        while count > 0:
            before = self.segments[count - 1]
            # Doubling: each byte is copied a few times at most, however small the pieces.
            if len(before) + len(data) > SEGMENT_SIZE or len(before) > 2 * len(data):
                break
            # Bytes handed to a commit stay as they are; the joined copy is for reading.
            data = before + data
            start = self.segment_starts[count - 1]
            count -= 1
        self.cut_segments(count)
        self.segments.append(data)
        self.segment_starts = append(self.segment_starts, start)
        self.forget_near()

    def cut_segments(self, count: i64) -> None:
        if count < len(self.segments):
            del self.segments[count:]
            self.segment_starts = self.segment_starts[:count]

    def set_data(self, data: bytes, start: i64) -> None:
        """Take the bytes of the block from `start` on as its only segment."""
        self.segments = [data]
        self.segment_starts = append(vec[i64](), start)
        self.sealed_size = start + len(data)
        self.has_data = True
        self.missing_end = start
        self.forget_near()

    def fill_missing(self, data: bytes) -> None:
        """Take back the bytes that were dropped, before the segments added since."""
        self.segments.insert(0, data)
        starts = append(vec[i64](), 0)
        for start in self.segment_starts:
            starts = append(starts, start)
        self.segment_starts = starts
        self.has_data = True
        self.missing_end = 0
        self.forget_near()

    def drop_data(self) -> None:
        self.segments = []
        self.segment_starts = vec[i64]()
        self.has_data = False
        self.missing_end = self.sealed_size
        self.forget_near()

    def is_evictable(self) -> bool:
        """Could its bytes be read again from disk?"""
        return not self.pinned or (not self.closed and self.durable_size == self.size)

    def drop_index(self) -> None:
        self.entries = vec[i64]()
        self.subject_table = []
        self.tombstone_seqs = vec[i64]()
        self.tombstone_ids = vec[i64]()
        self.tombstone_sizes = vec[i64]()
        self.has_index = False

    def forget_near(self) -> None:
        self.near_data = b""
        self.near_start = 0
        self.near_end = 0

    def patch(self, offset: i64, image: bytes) -> None:
        """Replace bytes within one segment, which stays the length it is."""
        if offset >= self.sealed_size:
            self.seal()
        at = self.find_segment(offset)
        data = self.segments[at]
        start = offset - self.segment_starts[at]
        self.segments[at] = data[:start] + image + data[start + len(image) :]
        self.forget_near()

    # Reading. The index and the bytes are there: the caller has seen to it.

    def offset_of(self, index: i64) -> i64:
        """Where the record at an index begins; negative if there is none."""
        return self.entries[index] >> OFFSET_SHIFT

    def subject_of(self, index: i64) -> bytes:
        """Subject of the record at an index that has one."""
        return self.subject_table[self.entries[index] & SUBJECT_MASK]

    def bytes_from(self, start: i64) -> bytes:
        """Everything from an offset to the end, in one piece."""
        self.seal()
        if start >= self.sealed_size:
            return b""
        at = self.find_segment(start)
        first = self.segments[at]
        skip = start - self.segment_starts[at]
        if at == len(self.segments) - 1:
            return first if skip == 0 else first[skip:]
        pieces = self.segments[at:]
        if skip:
            pieces[0] = first[skip:]
        return b"".join(pieces)

    def find_segment(self, offset: i64) -> i64:
        """Index of the segment that holds an offset."""
        low: i64 = 0
        high: i64 = len(self.segments) - 1
        while low < high:
            middle = (low + high + 1) >> 1
            if self.segment_starts[middle] <= offset:
                low = middle
            else:
                high = middle - 1
        return low

    def move_near(self, offset: i64) -> None:
        """Make the segment that holds an offset the near one."""
        if offset >= self.sealed_size:
            self.seal()
        at = self.find_segment(offset)
        self.near_data = self.segments[at]
        self.near_start = self.segment_starts[at]
        self.near_end = self.near_start + len(self.near_data)

    def read(self, index: i64, into: RecordView) -> None:
        """Fill the view from the record at an index."""
        entry: i64 = self.entries[index]
        offset: i64 = entry >> OFFSET_SHIFT
        if offset < self.near_start or offset >= self.near_end:
            self.move_near(offset)
        read_record(self.near_data, offset - self.near_start, into)
        into.subject = self.subject_table[entry & SUBJECT_MASK]
