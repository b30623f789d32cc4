"""Giving space back: blocks without a live message go, blocks less than half alive are written anew.

Works on removals that are durable only; records whose removal is not are kept, since it may have to be undone. A block
is rewritten beside itself and renamed, with the tombstones that still bury something elsewhere.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from jetspark.store.block import SUBJECT_MASK, Block
from jetspark.store.block_head import HEAD_SIZE, block_path, index_path
from jetspark.store.disk import REMOVE, WRITE_CACHE, WRITE_COMPRESSED, WRITE_FILE, DiskOp
from jetspark.store.record import encode_tombstone, record_hash, record_length
from jetspark.store.sidecar import encode_sidecar
from jetspark.store.store_writer import StoreWriter

# What may be wasted in any block: one in so many bytes of its full size.
WASTE_SHARE: Final = 64
# A block of tombstones only is looked at again when this share of the blocks (one in so many) was rewritten since.
LOOK_AGAIN_SHARE: Final = 4


def sweep(store: StoreWriter, durable_epoch: i64) -> list[DiskOp]:
    """Look at the blocks that lost messages; returns what to do to the disk in the next commit."""
    removals: list[DiskOp] = []
    rewrites: list[DiskOp] = []
    later: list[Block] = []
    for block in store.touched:
        if not block.closed:
            # Looked at again when it is full.
            block.is_touched = False
        elif not store.memory and (block.pinned or (block.live_count == 0 and block.removal_epoch > durable_epoch)):
            # Not durable yet, or dead by something that may have to be undone.
            later.append(block)
        elif block.live_count == 0 and not buries_others(store, block):
            removals.extend(drop(store, block))
        elif not is_wasteful(store, block):
            # Tombstones alone are worth another look when more of what they bury is gone.
            block.is_touched = block.live_count == 0
            if block.is_touched:
                later.append(block)
        elif rewrites:
            # One a commit: it takes some milliseconds.
            later.append(block)
        else:
            try:
                rewrites = rewrite(store, block)
                later.append(block)
            except OSError:
                # It stays as it is, until it loses another message.
                block.is_touched = False
    store.touched = later
    # Removals first: a rewritten block has no tombstones any more for the records of a removed one.
    return removals + rewrites


def is_wasteful(store: StoreWriter, block: Block) -> bool:
    """Is less than half of the block of use?"""
    needed: i64 = block.live_bytes + block.needed_note_bytes
    if block.live_count == 0 and (store.rewrite_count - block.rewrite_number) * LOOK_AGAIN_SHARE > len(store.blocks):
        needed = 0
    wasted: i64 = block.size - HEAD_SIZE - needed
    # A small block is left until it is dead: most die altogether before long.
    return wasted > needed and wasted > store.block_size // WASTE_SHARE


def buries_others(store: StoreWriter, block: Block) -> bool:
    """Does the block hold a tombstone for a record that may still be on disk elsewhere?"""
    # By the first sequence as the disk knows it: a later one may have to be taken back.
    return block.tombstone_max_seq > 0 and block.tombstone_max_seq >= store.durable.first_seq


def drop(store: StoreWriter, block: Block) -> list[DiskOp]:
    """Forget the block, and remove its files."""
    block.is_touched = False
    store.cache.release(block)
    store.blocks.remove(block)
    if store.near is block:
        store.near = store.open
    if store.memory:
        return []
    store.has_pending = True
    return [
        DiskOp(REMOVE, block_path(store.folder, block.number)),
        DiskOp(REMOVE, index_path(store.folder, block.number)),
    ]


def rewrite(store: StoreWriter, block: Block) -> list[DiskOp]:
    """Rebuild the block from what has to stay."""
    if not block.has_data or not block.has_index:
        store.load(block)
    data = block.bytes_from(0)
    kept = Block(block.number, block.seed, block.base_seq)
    parts: list[bytes] = []
    if not store.memory:
        parts.append(data[:HEAD_SIZE])
        kept.size = HEAD_SIZE
    # The new number of each subject, once it has one.
    numbers = vec[i64]([-1] * len(block.subject_table))
    keep_records(store, block, data, kept, parts, numbers)
    record_end: i64 = kept.size
    if not store.memory:
        keep_tombstones(store, block, kept, parts, numbers)
    raw = b"".join(parts)
    store.rewrite_count += 1
    block.rewrite_number = store.rewrite_count
    # Records kept because their removal may be undone count as needed too, or the block would be rewritten at once.
    block.needed_note_bytes = kept.size - record_end + kept.record_bytes - block.live_bytes
    store.cache.release(block)
    adopt(block, kept, raw)
    if store.memory:
        return []
    return rewrite_ops(store, block, raw)


def rewrite_ops(store: StoreWriter, block: Block, raw: bytes) -> list[DiskOp]:
    """Replace the files of a full block that is loaded."""
    # Its bytes stay in memory until the new file is durable: until then either file may be there.
    block.pinned = True
    block.is_packed = store.options.compress
    if not block.is_rewriting:
        block.is_rewriting = True
        store.rewriting.append(block)
    store.cache.admit(block)
    path = block_path(store.folder, block.number)
    if store.options.compress:
        write = DiskOp(WRITE_COMPRESSED, path, raw, "", HEAD_SIZE)
    else:
        write = DiskOp(WRITE_FILE, path, raw)
    return [write, DiskOp(WRITE_CACHE, index_path(store.folder, block.number), encode_sidecar(block, raw))]


def keep_records(
    store: StoreWriter, block: Block, data: bytes, kept: Block, parts: list[bytes], numbers: vec[i64]
) -> None:
    """Copy live records, and dead ones whose removal could still be undone."""
    undoable = set(store.undo_removed)
    hash_size: i64 = 0 if store.memory else 8
    # What lies together is copied together.
    run_start: i64 = 0
    run_end: i64 = 0
    index: i64 = 0
    while index < block.count:
        offset = block.offset_of(index)
        live = block.is_live(index)
        seq: i64 = block.base_seq + index
        if offset >= 0 and (live or seq in undoable):
            length = record_length(data, offset) - 8 + hash_size
            if offset != run_end:
                parts.append(data[run_start:run_end])
                run_start = offset
            run_end = offset + length
            keep_entry(block, kept, seq, length, block.entries[index] & SUBJECT_MASK, numbers)
            if not live:
                kept.mark_dead(kept.count - 1)
        index += 1
    parts.append(data[run_start:run_end])


def keep_entry(block: Block, kept: Block, seq: i64, length: i64, subject_id: i64, numbers: vec[i64]) -> None:
    """The index entry of a record that is kept."""
    if kept.count == 0:
        kept.base_seq = seq
    while kept.base_seq + kept.count < seq:
        kept.put_absent()
    kept.put(kept.size, kept_number(block, kept, subject_id, numbers))
    kept.size += length
    kept.record_bytes += length


def kept_number(block: Block, kept: Block, subject_id: i64, numbers: vec[i64]) -> i64:
    """The subject's number in the new table, which has only the subjects still needed."""
    number: i64 = numbers[subject_id]
    if number < 0:
        number = len(kept.subject_table)
        numbers[subject_id] = number
        kept.subject_table.append(block.subject_table[subject_id])
    return number


def keep_tombstones(store: StoreWriter, block: Block, kept: Block, parts: list[bytes], numbers: vec[i64]) -> None:
    """Write again the tombstones whose record may still lie in a block on disk."""
    at: i64 = 0
    count: i64 = len(block.tombstone_seqs)
    while at < count:
        seq: i64 = block.tombstone_seqs[at]
        if is_on_disk(store, seq, kept):
            subject_id: i64 = block.tombstone_ids[at]
            size: i64 = block.tombstone_sizes[at]
            buried: i64 = -size if size < 0 else size
            subject = block.subject_table[subject_id]
            note = encode_tombstone(store.writer, seq, size < 0, block.last_ts_ns, subject, buried)
            parts.append(note)
            parts.append(record_hash(note, block.seed))
            kept.put_tombstone(seq, kept_number(block, kept, subject_id, numbers), size)
            kept.size += len(note) + 8
        at += 1


def is_on_disk(store: StoreWriter, seq: i64, kept: Block) -> bool:
    """Is the dead record `seq` still among the bytes of some block (of `kept`, for the one being rewritten)?"""
    if seq < store.durable.first_seq:
        return False
    at = store.find_block_index(seq)
    if at >= len(store.blocks):
        return False
    block = store.blocks[at]
    if block.number == kept.number:
        block = kept
    index: i64 = seq - block.base_seq
    if index < 0 or index >= block.count:
        return False
    return not block.is_absent(index)


def adopt(block: Block, kept: Block, raw: bytes) -> None:
    """Give the block its new content. Counts of live messages do not change by it."""
    block.base_seq = kept.base_seq
    block.count = kept.count
    block.size = kept.size
    block.record_bytes = kept.record_bytes
    block.absent_count = kept.absent_count
    block.dead_count = kept.dead_count
    block.dead = kept.dead
    block.absent = kept.absent
    block.entries = kept.entries
    block.subject_table = kept.subject_table
    block.tombstone_seqs = kept.tombstone_seqs
    block.tombstone_ids = kept.tombstone_ids
    block.tombstone_sizes = kept.tombstone_sizes
    block.tombstone_max_seq = kept.tombstone_max_seq
    block.has_index = True
    block.set_data(raw, 0)
    block.written_size = kept.size
