"""Which blocks keep their bytes in memory. One cache serves every stream of a server.

Blocks come in when they are written or read, and the least recently used leave when the sum exceeds the budget. What is
not durable yet stays whatever the budget says. Blocks that were read back from disk have a larger budget of their own,
because each of several readers needs its block until it is through with it, and nobody knows how many there are; what
is above the budget leaves soon after its readers (`age`), so a server that nobody reads from is small.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from jetspark.store.block import Block

BUDGET_BYTES: Final = 16 * 1024 * 1024
# Blocks read back may take this many times the budget: sixteen readers, each with a block of the usual size.
READ_BACK_SHARE: Final = 8
# A dropped block's subjects are remembered when they are this few, so that filters can skip it unread.
KNOWN_SUBJECTS_MAX: Final = 64


class BlockCache:
    """Blocks in memory that could be read from disk instead."""

    def __init__(self, budget_bytes: i64 = BUDGET_BYTES) -> None:
        self.budget_bytes: i64 = budget_bytes
        self.held_bytes: i64 = 0
        # Of these, the bytes of blocks that were read back.
        self.read_back_bytes: i64 = 0
        self.blocks: list[Block] = []
        self.tick: i64 = 0
        self.aged_tick: i64 = 0

    def touch(self, block: Block) -> None:
        self.tick += 1
        block.used_at = self.tick

    def admit(self, block: Block, is_read_back: bool = False) -> None:
        """Something of the block came into memory; others may have to leave."""
        self.touch(block)
        if not block.is_cached:
            block.is_cached = True
            block.is_read_back = is_read_back
            self.blocks.append(block)
        held = footprint(block)
        self.held_bytes += held - block.held_bytes
        if block.is_read_back:
            self.read_back_bytes += held - block.held_bytes
        block.held_bytes = held
        while self.held_bytes - self.read_back_bytes > self.budget_bytes and self.evict_one(block, False):
            pass
        while self.read_back_bytes > READ_BACK_SHARE * self.budget_bytes and self.evict_one(block, True):
            pass

    def evict_one(self, keep: Block, is_read_back: bool) -> bool:
        """Drop the block of one kind that was used longest ago; False if there is none to drop."""
        oldest = keep
        for block in self.blocks:
            if block is keep or block.is_read_back != is_read_back or not block.is_evictable():
                continue
            if oldest is keep or block.used_at < oldest.used_at:
                oldest = block
        if oldest is keep:
            return False
        self.evict(oldest)
        return True

    def evict(self, block: Block) -> None:
        self.release(block)
        block.drop_data()
        if block.closed:
            remember_subjects(block)
            block.drop_index()

    def is_swollen(self) -> bool:
        """Is more in memory than may stay when nobody reads?"""
        return self.read_back_bytes > 0 and self.held_bytes > self.budget_bytes

    def age(self) -> None:
        """Down to the budget, as far as blocks were not used since the last call; the longest unused first."""
        unused = [block for block in self.blocks if block.used_at <= self.aged_tick]
        unused.sort(key=used_at)
        for block in unused:
            if self.held_bytes > self.budget_bytes and block.is_evictable():
                self.evict(block)
        self.aged_tick = self.tick

    def release(self, block: Block) -> None:
        """The block is no longer the cache's business."""
        if block.is_cached:
            block.is_cached = False
            self.blocks.remove(block)
            self.held_bytes -= block.held_bytes
            if block.is_read_back:
                self.read_back_bytes -= block.held_bytes
            block.held_bytes = 0


# Every stream of the process shares it, so that many streams take no more memory than one.
SHARED: Final = BlockCache()


def used_at(block: Block) -> int:
    return block.used_at


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
