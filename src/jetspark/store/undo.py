"""Going back to the last durable commit.

A mark notes where the open block stood and how long the journals were when a commit was collected. Going back drops
what was appended after the durable mark, revives what was removed after it from the records themselves, and derives
the counters again from the blocks. The files are cut back by operations in the next commit.
"""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from jetspark.store.block import NO_RECORD, Block
from jetspark.store.block_head import block_path, index_path
from jetspark.store.disk import MKDIRS, REMOVE, SYNC_DIR, TRUNCATE, DiskOp
from jetspark.store.marks import Mark
from jetspark.store.store_writer import StoreWriter
from jetspark.store.subject_state import SubjectState


def take_mark(store: StoreWriter) -> Mark:
    mark = Mark()
    block = store.open
    mark.first_seq = store.noted_first_seq
    mark.last_seq = store.last_seq
    mark.last_ts_ns = store.last_ts_ns
    mark.open_number = block.number
    mark.open_size = block.size
    mark.open_written_size = block.written_size
    mark.open_count = block.count
    mark.open_subject_count = len(block.subject_table)
    mark.open_tombstone_count = len(block.tombstone_seqs)
    mark.open_state_first_seq = block.state_first_seq
    mark.open_state_last_seq = block.state_last_seq
    mark.open_state_last_ts_ns = block.state_last_ts_ns
    mark.removed_count = len(store.undo_removed)
    mark.killed_count = len(store.undo_killed)
    mark.purged = store.undo_purged
    store.undo_purged = False
    return mark


def settle(store: StoreWriter, mark: Mark) -> None:
    """What the mark covers is durable and need not be undone any more."""
    if mark.removed_count > 0:
        store.undo_removed = store.undo_removed[mark.removed_count :]
    if mark.killed_count > 0:
        del store.undo_killed[: mark.killed_count]
    mark.removed_count = 0
    mark.killed_count = 0
    mark.purged = False


def roll_back(store: StoreWriter) -> None:
    """Everything as it was at the durable mark."""
    # A purge of everything emptied the subjects at once; they are counted anew rather than piece by piece.
    recount = store.undo_purged or store.in_flight.purged
    for killed in store.undo_killed:
        killed.block.live_count = killed.live_count
        killed.block.live_bytes = killed.live_bytes
        if not recount:
            count_subjects(store, killed.block)
    repairs = take_back_appends(store, recount)
    revive_removed(store, recount)
    if recount:
        store.subjects.clear()
        for block in store.blocks:
            count_subjects(store, block)
    reset_journals(store)
    derive_counters(store)
    if store.tracks_sequences:
        store.rebuild_tracking()
    wanted = repairs + [op for op in store.deferred_in_flight if not repeats(op, repairs)] + store.deferred
    store.deferred_in_flight = []
    store.deferred = wanted
    store.has_pending = True


def repeats(op: DiskOp, others: list[DiskOp]) -> bool:
    """Is the same repair there already, from a rollback before?"""
    for other in others:
        if op.kind == other.kind and op.path == other.path and op.kind in (TRUNCATE, REMOVE, MKDIRS, SYNC_DIR):
            return True
    return False


def count_subjects(store: StoreWriter, block: Block) -> None:
    """Count the live records of a block to their subjects."""
    if block.live_count == 0:
        return
    if not block.has_index:
        store.load_index(block)
    index = block.next_live_index(0)
    while index >= 0:
        revive_subject(store, block.subject_of(index), block.base_seq + index)
        index = block.next_live_index(index + 1)


def revive_subject(store: StoreWriter, subject: bytes, seq: i64) -> None:
    state = store.subjects.get(subject)
    if state is None:
        state = SubjectState(subject)
        store.subjects[subject] = state
    state.revived(seq)


def take_back_appends(store: StoreWriter, recount: bool) -> list[DiskOp]:
    """Drop blocks begun since the mark, and cut the one that was open then."""
    mark = store.durable
    repairs: list[DiskOp] = []
    kept: list[Block] = []
    for block in store.blocks:
        if block.number < mark.open_number:
            kept.append(block)
            continue
        start: i64 = mark.open_count if block.number == mark.open_number else 0
        if not recount:
            uncount_from(store, block, start)
        if block.number == mark.open_number:
            cut_block(store, block, mark)
            kept.append(block)
            store.open = block
        else:
            store.cache.release(block)
            repairs.append(DiskOp(REMOVE, block_path(store.folder, block.number)))
        # The block that is open again may have got an index file as a full one.
        repairs.append(DiskOp(REMOVE, index_path(store.folder, block.number)))
    store.blocks = kept
    store.near = store.open
    path = block_path(store.folder, mark.open_number)
    if mark.open_written_size == 0:
        repairs.append(DiskOp(REMOVE, path))
    else:
        repairs.append(DiskOp(TRUNCATE, path, b"", "", mark.open_written_size))
        store.unsynced[path] = True
    # Before anything new is written: a file that came back would hold sequences that are used again.
    repairs.append(DiskOp(MKDIRS, store.folder))
    repairs.append(DiskOp(SYNC_DIR, store.folder))
    store.is_folder_made = False
    store.is_folder_unsynced = True
    return repairs


def uncount_from(store: StoreWriter, block: Block, start: i64) -> None:
    """Take the live records from an index on out of their subjects' counts."""
    # From the end, so that each subject loses its last first and is left with bounds that are as good as they can be.
    index = block.previous_live_index(block.count - 1)
    while index >= start:
        subject = block.subject_of(index)
        state = store.subjects.get(subject)
        if state is not None:
            state.removed(block.base_seq + index)
            if state.message_count == 0:
                del store.subjects[subject]
        index = block.previous_live_index(index - 1)


def cut_block(store: StoreWriter, block: Block, mark: Mark) -> None:
    """Take the block that was open back to its size at the mark."""
    if not block.has_data:
        store.load(block)
    index: i64 = mark.open_count
    while index < block.count:
        if block.entries[index] != NO_RECORD:
            block.read(index, store.scratch)
            size = store.scratch.raw_size()
            block.record_bytes -= size
            if block.is_live(index):
                block.live_count -= 1
                block.live_bytes -= size
        block.forget_mark(index)
        index += 1
    for subject in block.subject_table[mark.open_subject_count :]:
        state = store.subjects.get(subject)
        if state is not None:
            state.block_number = 0
    del block.subject_table[mark.open_subject_count :]
    data = block.bytes_from(0)
    block.set_data(data[: mark.open_size], 0)
    block.entries = block.entries[: mark.open_count]
    block.count = mark.open_count
    block.size = mark.open_size
    block.written_size = mark.open_written_size
    block.durable_size = mark.open_written_size
    block.tombstone_seqs = block.tombstone_seqs[: mark.open_tombstone_count]
    block.tombstone_ids = block.tombstone_ids[: mark.open_tombstone_count]
    block.tombstone_sizes = block.tombstone_sizes[: mark.open_tombstone_count]
    block.state_first_seq = mark.open_state_first_seq
    block.state_last_seq = mark.open_state_last_seq
    block.state_last_ts_ns = mark.open_state_last_ts_ns
    block.closed = False
    block.pinned = True
    if block.count == 0:
        block.base_seq = mark.last_seq + 1


def revive_removed(store: StoreWriter, recount: bool) -> None:
    """Bring back the messages removed since the mark."""
    at: i64 = len(store.undo_removed) - 1
    while at >= 0:
        seq: i64 = store.undo_removed[at]
        at -= 1
        # Those appended since the mark are gone with their block's end.
        if seq > store.durable.last_seq or not store.move_near(seq):
            continue
        block = store.near
        index: i64 = seq - block.base_seq
        if not block.has_data or not block.has_index:
            store.load(block)
        block.mark_live(index)
        block.read(index, store.scratch)
        block.live_count += 1
        block.live_bytes += store.scratch.raw_size()
        if not recount:
            revive_subject(store, store.scratch.subject, seq)


def reset_journals(store: StoreWriter) -> None:
    store.undo_removed = vec[i64]()
    store.undo_killed = []
    store.undo_purged = False
    store.in_flight = store.durable
    store.erasing = []
    # Full before the mark, and only waiting for their index files.
    store.closing = [
        block for block in store.closing_in_flight + store.closing if block.number < store.durable.open_number
    ]
    store.closing_in_flight = []
    store.note_state = False
    store.noted_first_seq = store.durable.first_seq
    store.touched = [block for block in store.touched if block.number <= store.open.number]


def derive_counters(store: StoreWriter) -> None:
    """The stream's counters from its blocks."""
    mark = store.durable
    store.last_seq = mark.last_seq
    store.last_ts_ns = mark.last_ts_ns
    store.message_count = 0
    store.byte_count = 0
    for block in store.blocks:
        store.message_count += block.live_count
        store.byte_count += block.live_bytes
    store.first_seq = 0
    store.move_first(0)
    # Nothing moved: it is where the durable commit had it.
    store.note_state = False
