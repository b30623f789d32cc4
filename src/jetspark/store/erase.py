"""Overwriting the bytes of messages that were deleted for good.

Once a removal is durable, its record is replaced in place by one of the same length, marked erased, with zeros for
headers and payload: in the file, and in the block's bytes in memory, which may still be written elsewhere.
"""

from __future__ import annotations

from mypy_extensions import i64

from jetspark.store import compaction
from jetspark.store.block import Block
from jetspark.store.block_head import block_path, index_path
from jetspark.store.disk import OVERWRITE, WRITE_CACHE, DiskOp
from jetspark.store.record import ERASED_BIT, encode_record, record_hash
from jetspark.store.sidecar import encode_sidecar
from jetspark.store.store_writer import StoreWriter


def erase_durable(store: StoreWriter, durable_epoch: i64) -> list[DiskOp]:
    """Erase what the last durable commit removed for good; returns what to do to the disk in the next."""
    later: list[tuple[int, int]] = []
    by_block: dict[int, list[int]] = {}
    for seq, epoch in store.erasing:
        if epoch > durable_epoch:
            later.append((seq, epoch))
        elif store.move_near(seq):
            by_block.setdefault(store.near.number, []).append(seq)
    ops: list[DiskOp] = []
    for seqs in by_block.values():
        store.move_near(seqs[0])
        try:
            erase_in_block(store, store.near, seqs, ops)
        except OSError:
            # Tried again with the next commit, and at the next start.
            later.extend([(seq, 0) for seq in seqs])
    store.erasing = later
    return ops


def erase_in_block(store: StoreWriter, block: Block, seqs: list[int], ops: list[DiskOp]) -> None:
    if not block.has_data or not block.has_index:
        store.load(block)
    found = False
    for seq in seqs:
        if erase_record(store, block, seq - block.base_seq, ops):
            found = True
    if found and block.is_packed:
        ops.extend(compaction.rewrite_ops(store, block, block.bytes_from(0)))
    elif found and block.is_filed:
        sidecar = encode_sidecar(block, block.bytes_from(0))
        ops.append(DiskOp(WRITE_CACHE, index_path(store.folder, block.number), sidecar))


def erase_record(store: StoreWriter, block: Block, index: i64, ops: list[DiskOp]) -> bool:
    """Replace one record's bytes; False if they are gone already."""
    offset = block.offset_of(index)
    if offset < 0:
        return False
    view = store.scratch
    block.read(index, view)
    zeros = bytes(view.header_size + view.body_size)
    seq_field: i64 = view.seq | ERASED_BIT
    record = encode_record(store.writer, seq_field, view.ts_ns, view.subject, view.header_size, zeros)
    image = record + record_hash(record, block.seed)
    block.patch(offset, image)
    if not block.is_packed:
        ops.append(DiskOp(OVERWRITE, block_path(store.folder, block.number), image, "", offset))
    return True
