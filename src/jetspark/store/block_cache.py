"""Which blocks keep their bytes in memory. One cache serves every stream of a server.

Blocks come in when they are written or read, and the least recently used leave when the sum exceeds the budget. What is
not durable yet stays whatever the budget says.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from jetspark.store.block import Block

BUDGET_BYTES: Final = 16 * 1024 * 1024
# A dropped block's subjects are remembered when they are this few, so that filters can skip it unread.
KNOWN_SUBJECTS_MAX: Final = 64


class BlockCache:
    """Blocks in memory that could be read from disk instead."""

    def __init__(self, budget_bytes: i64 = BUDGET_BYTES) -> None:
        self.budget_bytes: i64 = budget_bytes
        self.held_bytes: i64 = 0
        self.blocks: list[Block] = []
        self.tick: i64 = 0

    def touch(self, block: Block) -> None:
        self.tick += 1
        block.used_at = self.tick

    def admit(self, block: Block) -> None:
        """Something of the block came into memory; others may have to leave."""
        self.touch(block)
        if not block.is_cached:
            block.is_cached = True
            self.blocks.append(block)
        held = footprint(block)
        self.held_bytes += held - block.held_bytes
        block.held_bytes = held
        while self.held_bytes > self.budget_bytes and self.evict_one(block):
            pass

    def evict_one(self, keep: Block) -> bool:
        oldest = keep
        for block in self.blocks:
            if block is not keep and block.is_evictable() and (oldest is keep or block.used_at < oldest.used_at):
                oldest = block
        if oldest is keep:
            return False
        self.release(oldest)
        oldest.drop_data()
        if oldest.closed:
            remember_subjects(oldest)
            oldest.drop_index()
        return True

    def release(self, block: Block) -> None:
        """The block is no longer the cache's business."""
        if block.is_cached:
            block.is_cached = False
            self.blocks.remove(block)
            self.held_bytes -= block.held_bytes
            block.held_bytes = 0


# Every stream of the process shares it, so that many streams take no more memory than one.
SHARED: Final = BlockCache()


def footprint(block: Block) -> i64:
    """Bytes that the parts of a block take which could be dropped. The index of the open block could not."""
    held: i64 = block.sealed_size - block.missing_end
    if block.has_index and block.closed:
        held += 8 * (block.count + len(block.subject_table))
    return held


def remember_subjects(block: Block) -> None:
    """Keep the subject table of a block about to be dropped, if it is short."""
    if block.has_index and len(block.subject_table) <= KNOWN_SUBJECTS_MAX:
        block.known_subjects = block.subject_table
        block.subjects_known = True
