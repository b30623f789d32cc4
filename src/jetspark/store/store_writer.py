"""Changing a stream in memory: append, burn, remove, purge; and what is needed to take it back.

Appended records and notes wait in the open block until they are collected. Removals since the last durable commit are
kept as a journal of sequences, so that they can be undone from the records themselves, which are still there.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate

from librt.vecs import append as push
from librt.vecs import vec
from mypy_extensions import i64

from jetspark.protocol.subjects import SubjectFilter
from jetspark.store import queries
from jetspark.store.block import Block
from jetspark.store.block_head import HEAD_SIZE, BlockHead
from jetspark.store.disk import Disk, DiskOp
from jetspark.store.marks import KilledBlock, Mark
from jetspark.store.record import encode_record, encode_records, encode_tombstone, record_hash, record_size
from jetspark.store.scan import GAP_MAX
from jetspark.store.store_base import StoreBase, StoreOptions
from jetspark.store.subject_state import SubjectState
from jetspark.store.view import RecordView


class StoreWriter(StoreBase):
    """A stream's content, and the changes to it that are not durable yet."""

    def __init__(self, disk: Disk, path: str, options: StoreOptions) -> None:
        super().__init__(disk, path, options)
        self.block_size: i64 = options.block_size
        # Something to collect.
        self.has_pending: bool = False
        # The first sequence moved, or sequences were burned: one note a commit says so.
        self.note_state: bool = False
        # The first sequence as the latest head or state note has it: what the disk knows, or will with the next commit.
        self.noted_first_seq: i64 = 1
        # Reading found the first message damaged; the next one is to be found.
        self.lost_first: bool = False
        # Numbers are not used twice, even when a block is taken back.
        self.next_number: i64 = 1
        # Full, and not collected yet; collected, and not durable yet.
        self.closing: list[Block] = []
        self.closing_in_flight: list[Block] = []
        # Operations for the next commit, which the last durable one allowed; and those under way.
        self.deferred: list[DiskOp] = []
        self.deferred_in_flight: list[DiskOp] = []
        self.rewriting: list[Block] = []
        self.rewrite_count: i64 = 0
        # Files written and not synced since.
        self.unsynced: dict[str, bool] = {}
        self.is_folder_made: bool = False
        self.is_folder_unsynced: bool = False
        self.durable: Mark = Mark()
        self.in_flight: Mark = Mark()
        # Commits are counted, to know which removals are durable.
        self.epoch: i64 = 1
        self.undo_removed: vec[i64] = vec[i64]()
        self.undo_killed: list[KilledBlock] = []
        self.undo_purged: bool = False
        self.touched: list[Block] = []
        # Removed for good, waiting for their bytes to be overwritten; with the epoch that makes the removal durable.
        self.erasing: list[tuple[int, int]] = []
        self.tracks_sequences: bool = options.track_sequences
        self.sequences: dict[bytes, deque[int]] = {}

    # Appending.

    def begin_block(self) -> Block:
        """A new open block at the end."""
        number = self.next_number
        self.next_number = number + 1
        if self.memory:
            block = Block(number, 0, self.last_seq + 1)
        else:
            head = BlockHead(number, self.last_seq + 1, self.first_seq, self.last_ts_ns, self.disk.fresh_salt())
            block = Block(number, head.seed(), self.last_seq + 1)
            block.parts.append(head.encode())
            block.size = HEAD_SIZE
            block.state_first_seq = self.first_seq
            block.state_last_seq = self.last_seq
            block.state_last_ts_ns = self.last_ts_ns
            self.noted_first_seq = self.first_seq
        self.blocks.append(block)
        self.open = block
        return block

    def roll(self) -> Block:
        """The open block is full: close it and begin the next."""
        full = self.open
        full.closed = True
        if self.memory:
            full.seal()
        else:
            self.closing.append(full)
        return self.begin_block()

    def bridge(self, seq: i64) -> Block:
        """Make `seq` the next sequence of the open block, across burned ones."""
        block = self.open
        if block.count == 0:
            block.base_seq = seq
            return block
        gap: i64 = seq - block.base_seq - block.count
        if gap > GAP_MAX:
            block = self.roll()
            block.base_seq = seq
            return block
        while gap > 0:
            block.put_absent()
            gap -= 1
        return block

    def append(self, subject: bytes, header_size: i64, body: bytes, ts_ns: i64) -> i64:
        """Store a message as the next sequence and return that. `body` is the header block and the payload."""
        block = self.open
        if block.size >= self.block_size:
            block = self.roll()
        seq: i64 = self.last_seq + 1
        if block.base_seq + block.count != seq:
            block = self.bridge(seq)
        state = self.subjects.get(subject)
        if state is None:
            state = SubjectState(subject)
            self.subjects[subject] = state
        if state.block_number != block.number:
            self.enter_subject(block, state)
        record = encode_record(self.writer, seq, ts_ns, subject, header_size, body)
        block.parts.append(record)
        raw_size: i64 = len(record) + 8
        accounted: i64 = raw_size
        if self.memory:
            raw_size -= 8
            accounted -= 14 if header_size == 0 else 18
        else:
            block.parts.append(record_hash(record, block.seed))
        block.put(block.size, state.block_index)
        block.size += raw_size
        block.live_count += 1
        block.live_bytes += accounted
        block.record_bytes += raw_size
        if ts_ns > block.last_ts_ns:
            block.last_ts_ns = ts_ns
        if header_size > 0:
            block.header_count += 1
        state.added(seq)
        if self.tracks_sequences:
            self.track(subject, seq)
        if self.message_count == 0:
            self.first_seq = seq
            self.first_ts_ns = ts_ns
        self.message_count += 1
        self.byte_count += accounted
        self.last_seq = seq
        self.last_ts_ns = ts_ns
        self.has_pending = True
        return seq

    def append_run(self, subject: bytes, bodies: list[bytes], ts_ns: i64) -> i64:
        """Store messages without headers one after the other, and return the sequence of the first."""
        first_seq: i64 = self.last_seq + 1
        # The first goes the usual way, which sees to it that block and subject are ready for the others.
        self.append(subject, 0, bodies[0], ts_ns)
        rest = bodies[1:]
        size_max: i64 = sum(map(len, rest)) + len(rest) * record_size(len(subject), 0, 0)
        if self.tracks_sequences or self.open.size + size_max >= self.block_size:
            for body in rest:
                self.append(subject, 0, body, ts_ns)
        elif rest:
            self.put_records(subject, encode_records(self.last_seq + 1, ts_ns, subject, rest))
        return first_seq

    def put_records(self, subject: bytes, records: list[bytes]) -> None:
        """Encoded messages without headers to the end of the open block, which has room, and knows their subject."""
        block = self.open
        state = self.subjects[subject]
        count: i64 = len(records)
        sizes = list(map(len, records)) if self.memory else [len(record) + 8 for record in records]
        if self.memory:
            block.parts.extend(records)
        else:
            seed = block.seed
            for record in records:
                block.parts.append(record)
                block.parts.append(record_hash(record, seed))
        ends = list(accumulate(sizes, initial=block.size))
        block.put_all(ends[:-1], state.block_index)
        raw_size: i64 = ends[-1] - block.size
        accounted: i64 = raw_size - 6 * count if self.memory else raw_size
        block.size += raw_size
        block.live_count += count
        block.live_bytes += accounted
        block.record_bytes += raw_size
        state.message_count += count - 1
        self.message_count += count
        self.byte_count += accounted
        self.last_seq += count
        state.added(self.last_seq)

    def append_at(self, seq: i64, subject: bytes, header_size: i64, body: bytes, ts_ns: i64) -> i64:
        """Store a message under a sequence of the caller's choice, above the last; those between are burned."""
        assert seq > self.last_seq, (seq, self.last_seq)
        if seq > self.last_seq + 1:
            self.last_seq = seq - 1
        return self.append(subject, header_size, body, ts_ns)

    def skip_to(self, seq: i64, ts_ns: i64) -> None:
        """Use up the sequences to `seq` without storing anything."""
        if seq <= self.last_seq:
            return
        self.last_seq = seq
        self.last_ts_ns = ts_ns
        if self.message_count == 0:
            self.first_seq = seq + 1
        self.note_state = True
        self.has_pending = True

    def enter_subject(self, block: Block, state: SubjectState) -> None:
        """Give the subject a number in the block's table."""
        state.block_number = block.number
        state.block_index = len(block.subject_table)
        block.subject_table.append(state.subject)

    def put_note(self, note: bytes) -> None:
        """A tombstone or state note into the open block."""
        block = self.open
        block.parts.append(note)
        block.parts.append(record_hash(note, block.seed))
        block.size += len(note) + 8
        self.has_pending = True

    def put_tombstone(self, seq: i64, subject: bytes, buried: i64, erase: bool) -> None:
        block = self.open
        if block.size >= self.block_size:
            block = self.roll()
        state = self.subjects.get(subject)
        if state is not None:
            if state.block_number != block.number:
                self.enter_subject(block, state)
            subject_id: i64 = state.block_index
        else:
            subject_id = len(block.subject_table)
            block.subject_table.append(subject)
        block.put_tombstone(seq, subject_id, -buried if erase else buried)
        self.put_note(encode_tombstone(self.writer, seq, erase, self.last_ts_ns, subject, buried))

    # Removing.

    def size_of(self, subject_size: i64, header_size: i64, payload_size: i64) -> i64:
        """What a message of these sizes would count for in the stream's bytes."""
        if self.memory:
            return 16 + subject_size + header_size + payload_size
        return record_size(subject_size, header_size, header_size + payload_size)

    def accounted_size(self, view: RecordView) -> i64:
        """What a record counts for in the stream's bytes, as nats-server counts."""
        size = view.raw_size()
        if self.memory:
            return size - 14 if view.header_size == 0 else size - 18
        return size

    def remove(self, seq: i64, erase: bool) -> bool:
        """Remove a message; with `erase` its bytes are overwritten on disk too. False if there is none."""
        view = self.scratch
        if not self.view(seq, view):
            return False
        block = self.near
        subject = view.subject
        raw_size = view.raw_size()
        accounted = self.accounted_size(view)
        is_first = seq == self.first_seq
        self.bury(block, seq, subject, accounted)
        if not self.memory:
            self.undo_removed = push(self.undo_removed, seq)
            if erase:
                self.erasing.append((seq, self.epoch))
            # Below the first sequence everything is gone anyway: one state note a commit says so for all of them.
            if erase or not is_first:
                self.put_tombstone(seq, subject, raw_size, erase)
        if is_first:
            self.move_first(seq + 1)
        return True

    def bury(self, block: Block, seq: i64, subject: bytes, accounted: i64) -> None:
        """Take a live record out of every count."""
        block.mark_dead(seq - block.base_seq)
        block.live_count -= 1
        block.live_bytes -= accounted
        self.touch_removed(block)
        self.message_count -= 1
        self.byte_count -= accounted
        self.uncount_subject(subject, seq)
        self.has_pending = True

    def touch_removed(self, block: Block) -> None:
        block.removal_epoch = self.epoch
        if not block.is_touched:
            block.is_touched = True
            self.touched.append(block)

    def uncount_subject(self, subject: bytes, seq: i64) -> None:
        state = self.subjects.get(subject)
        if state is None:
            return
        state.removed(seq)
        if state.message_count == 0:
            del self.subjects[subject]
        if self.tracks_sequences:
            self.untrack(subject, seq)

    def move_first(self, seq: i64) -> None:
        """The messages below `seq` are gone; find the first one left."""
        self.note_state = True
        self.has_pending = True
        found: i64 = 0
        ts_ns: i64 = 0
        if self.message_count > 0:
            # next_live answers from first_seq for anything below it.
            self.first_seq = seq
            # The next one, more often than not.
            found = max(1, seq)
            while found > 0:
                ts_ns = self.time_of(found)
                if ts_ns >= 0:
                    break
                # Gone, or found damaged when its block was loaded.
                found = self.next_live(found + 1)
        if found > 0:
            self.first_seq = found
            self.first_ts_ns = ts_ns
        else:
            self.first_seq = self.last_seq + 1
            self.first_ts_ns = 0

    def purge_below(self, seq: i64) -> i64:
        """Remove every message below `seq`; whole blocks at a time. Returns how many."""
        if self.message_count == 0 or seq <= self.first_seq:
            return 0
        before = self.message_count
        whole = seq > self.last_seq
        try:
            self.kill_below(seq, whole)
        except OSError:
            # What was reached is gone.
            self.move_first(0)
            raise
        self.move_first(seq)
        return before - self.message_count

    def kill_below(self, seq: i64, whole: bool) -> None:
        if whole:
            if self.open.live_count > 0 and (not self.open.has_data or not self.open.has_index):
                self.load(self.open)
            self.undo_purged = True
            self.subjects.clear()
            self.sequences.clear()
        for block in self.blocks:
            if block.base_seq >= seq:
                break
            if block.live_count == 0:
                continue
            if block.base_seq + block.count <= seq and block is not self.open:
                self.kill(block, not whole)
            else:
                self.bury_below(block, seq)

    def kill(self, block: Block, count_subjects: bool) -> None:
        """Every record of a full block dies."""
        if count_subjects:
            if not block.has_index:
                self.load_index(block)
            index = block.next_live_index(0)
            while index >= 0:
                self.uncount_subject(block.subject_of(index), block.base_seq + index)
                index = block.next_live_index(index + 1)
        if not self.memory:
            self.undo_killed.append(KilledBlock(block))
        self.message_count -= block.live_count
        self.byte_count -= block.live_bytes
        block.live_count = 0
        block.live_bytes = 0
        self.touch_removed(block)

    def bury_below(self, block: Block, seq: i64) -> None:
        """The records of a block below a sequence die one by one."""
        if not block.has_data or not block.has_index:
            self.load(block)
        index = block.next_live_index(0)
        while index >= 0 and block.base_seq + index < seq:
            self.near = block
            if self.view(block.base_seq + index, self.scratch):
                view = self.scratch
                if not self.memory:
                    self.undo_removed = push(self.undo_removed, view.seq)
                self.bury(block, view.seq, view.subject, self.accounted_size(view))
            index = block.next_live_index(index + 1)

    def purge_subject(self, wanted: SubjectFilter, below_seq: i64, keep: i64) -> i64:
        """Remove what the filter takes: below a sequence (0: all), but not the last `keep`. Returns how many."""
        upto: i64 = self.last_seq if below_seq <= 0 else min(self.last_seq, below_seq - 1)
        left: i64 = self.message_count
        if keep > 0:
            left = queries.count_from(self, self.first_seq, wanted) - keep
        removed: i64 = 0
        seq: i64 = self.first_seq
        while removed < left:
            seq = queries.find_next(self, seq, upto, wanted)
            if seq == 0:
                break
            if self.remove(seq, False):
                removed += 1
            seq += 1
        return removed

    def bury_damaged(self, block: Block, index: i64, size: i64) -> None:
        """A record on disk fails its hash: it is lost, in this life and, by its tombstone, in the next."""
        seq: i64 = block.base_seq + index
        subject = block.subject_of(index) if block.offset_of(index) >= 0 else b""
        block.mark_dead(index)
        block.live_count -= 1
        block.live_bytes -= size
        self.touch_removed(block)
        self.lost_damaged(seq, subject, size)

    def lost_damaged(self, seq: i64, subject: bytes, size: i64) -> None:
        self.report.lost.append(seq)
        self.report.lost_bytes += size
        self.message_count -= 1
        self.byte_count -= size
        if subject:
            self.uncount_subject(subject, seq)
            self.put_tombstone(seq, subject, size, False)
        self.lost_first = self.lost_first or seq == self.first_seq
        self.has_pending = True

    def after_load(self) -> None:
        if self.lost_first:
            self.lost_first = False
            self.move_first(self.first_seq + 1)

    # Each subject's sequences, for those who ask for them.

    def track_subject_sequences(self, wanted: bool) -> None:
        """Keep each subject's sequences from now on (or no longer), beginning with those already stored."""
        if wanted == self.tracks_sequences:
            return
        self.tracks_sequences = wanted
        self.sequences.clear()
        if wanted:
            try:
                self.rebuild_tracking()
            except OSError:
                # Without them they are looked for when they are needed.
                self.tracks_sequences = False
                self.sequences.clear()

    def rebuild_tracking(self) -> None:
        self.sequences.clear()
        for block in self.blocks:
            if block.live_count == 0:
                continue
            if not block.has_index:
                self.load_index(block)
            index = block.next_live_index(0)
            while index >= 0:
                self.track(block.subject_of(index), block.base_seq + index)
                index = block.next_live_index(index + 1)

    def track(self, subject: bytes, seq: i64) -> None:
        known = self.sequences.get(subject)
        if known is None:
            known = deque()
            self.sequences[subject] = known
        known.append(seq)

    def untrack(self, subject: bytes, seq: i64) -> None:
        known = self.sequences.get(subject)
        if known is None:
            return
        if known[0] == seq:
            known.popleft()
        else:
            known.remove(seq)
        if not known:
            del self.sequences[subject]

    def subject_first_seq(self, subject: bytes) -> i64:
        """First live sequence of a subject, 0 if it has none."""
        if self.tracks_sequences:
            known = self.sequences.get(subject)
            return 0 if known is None else known[0]
        return queries.exact_first_seq(self, subject)

    def subject_last_seq(self, subject: bytes) -> i64:
        """Last live sequence of a subject, 0 if it has none."""
        return queries.exact_last_seq(self, subject)
