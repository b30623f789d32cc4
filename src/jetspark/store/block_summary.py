"""What is always known of a block: its range, its counts, and which of its sequences are dead.

Small, because a stream keeps one for every block it has. Dead bits are set for removed messages and for sequences that
have no record; a block whose live count is 0 is dead whatever its bits say, so that a purge need not touch them.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

# Dead bits are kept in words of 32, so that no word is ever negative.
WORD_SHIFT: Final = 5
WORD_MASK: Final = 31
WORD_FULL: Final = 0xFFFFFFFF


class BlockSummary:
    """Range, counts and dead bits of one block."""

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
        self.dead_count: i64 = 0
        self.dead: vec[i64] = vec[i64]()
        # Entries without a record (burned or compacted away): they are dead too.
        self.absent_count: i64 = 0
        self.absent: vec[i64] = vec[i64]()
        self.last_ts_ns: i64 = 0
        self.header_count: i64 = 0
        # What the head and the state notes say.
        self.state_first_seq: i64 = 0
        self.state_last_seq: i64 = 0
        self.state_last_ts_ns: i64 = 0
        # The highest sequence that a tombstone here buries, in this block or another.
        self.tombstone_max_seq: i64 = 0
        # Bytes of notes that were still needed when the block was last rewritten, and which rewrite that was.
        self.needed_note_bytes: i64 = 0
        self.rewrite_number: i64 = 0
        # Where the entries begin in its index file; 0 when it has none.
        self.index_start: i64 = 0
        # The entry that was read alone last, and how many were: many of them, or one after the other, and it is loaded.
        self.probe_index: i64 = -2
        self.probe_count: i64 = 0
        # The commit that will make the latest removal in this block durable.
        self.removal_epoch: i64 = 0
        # Waits to be looked at by compaction.
        self.is_touched: bool = False
        self.is_rewriting: bool = False
        # Full: never appended to again.
        self.closed: bool = False
        # Full and durable, with its index file.
        self.is_filed: bool = False
        # Its file is compressed, or about to be: it can only be replaced, not written into.
        self.is_packed: bool = False

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
            self.dead = grown(self.dead, word, self.count)
        self.dead[word] = self.dead[word] | (1 << (index & WORD_MASK))
        self.dead_count += 1

    def mark_live(self, index: i64) -> None:
        word: i64 = index >> WORD_SHIFT
        self.dead[word] = self.dead[word] & ~(1 << (index & WORD_MASK))
        self.dead_count -= 1

    def mark_absent(self, index: i64) -> None:
        """Dead, and without a record."""
        self.mark_dead(index)
        word: i64 = index >> WORD_SHIFT
        if word >= len(self.absent):
            self.absent = grown(self.absent, word, self.count)
        self.absent[word] = self.absent[word] | (1 << (index & WORD_MASK))
        self.absent_count += 1

    def is_absent(self, index: i64) -> bool:
        word: i64 = index >> WORD_SHIFT
        return word < len(self.absent) and (self.absent[word] >> (index & WORD_MASK)) & 1 == 1

    def forget_mark(self, index: i64) -> None:
        """The entry is taken back; whatever it was, the next one in its place begins alive."""
        word: i64 = index >> WORD_SHIFT
        if self.is_dead(index):
            self.mark_live(index)
        if self.is_absent(index):
            self.absent[word] = self.absent[word] & ~(1 << (index & WORD_MASK))
            self.absent_count -= 1

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


def grown(bits: vec[i64], word: i64, count: i64) -> vec[i64]:
    """Bits that reach a word, and the end of the index with it: removals rarely come alone."""
    wanted: i64 = max(word + 1, (count + WORD_MASK) >> WORD_SHIFT)
    while len(bits) < wanted:
        bits = append(bits, 0)
    return bits
