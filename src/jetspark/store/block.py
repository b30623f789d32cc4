"""A block: a run of sequences, the index of its records, and their bytes.

    sequence  ->  index entry (offset, subject number)  ->  bytes of the record

The summary is always in memory. The index and the bytes may be dropped for a block that is full and durable, the bytes
alone for the open one, and loaded again; deciding when belongs to the cache, reading them to the loader. The bytes
come in segments, because the open block grows by what each commit adds and nothing is copied for it.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, extend, vec
from mypy_extensions import i64

from jetspark.store.block_summary import BlockSummary
from jetspark.store.record import read_record
from jetspark.store.view import RecordView

# Small segments are joined with their neighbours up to this size, so one message a commit does not leave thousands.
SEGMENT_SIZE: Final = 65536
# An index entry is a record's offset above its subject's number.
OFFSET_SHIFT: Final = 32
SUBJECT_MASK: Final = 0xFFFFFFFF
# The entry of a sequence that has no record here: burned, or compacted away.
NO_RECORD: Final = -1


class Block(BlockSummary):
    """One block of a stream."""

    def __init__(self, number: i64, seed: int, base_seq: i64) -> None:
        super().__init__(number, seed, base_seq)
        self.has_index: bool = True
        self.entries: vec[i64] = vec[i64]()
        self.subject_table: list[bytes] = []
        # Notes in this block that bury records of any block; a negative size says that the record is to be erased.
        self.tombstone_seqs: vec[i64] = vec[i64]()
        self.tombstone_ids: vec[i64] = vec[i64]()
        self.tombstone_sizes: vec[i64] = vec[i64]()
        # The table of a block whose index is dropped, when it is short enough to be worth keeping.
        self.known_subjects: list[bytes] = []
        self.subjects_known: bool = False

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
        # What the cache knows of it.
        self.is_cached: bool = False
        self.is_read_back: bool = False
        self.used_at: i64 = 0
        self.held_bytes: i64 = 0

    # Growing.

    def put(self, offset: i64, subject_id: i64) -> None:
        """The next index entry."""
        self.entries = append(self.entries, (offset << OFFSET_SHIFT) | subject_id)
        self.count += 1

    def put_all(self, offsets: list[int], subject_id: i64) -> None:
        """The same for several records of one subject."""
        self.entries = extend(self.entries, [(offset << OFFSET_SHIFT) | subject_id for offset in offsets])
        self.count += len(offsets)

    def put_absent(self) -> None:
        """An index entry for a sequence without a record."""
        self.entries = append(self.entries, NO_RECORD)
        self.count += 1
        self.mark_absent(self.count - 1)

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
        self.probe_count = 0
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
