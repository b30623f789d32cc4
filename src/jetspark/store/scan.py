"""Reading a block's bytes record by record: for blocks without a usable index file, and for finding damage.

Every record is checked by its hash. After a damaged one the next is looked for where its length says, and failing that
byte by byte; damage with nothing whole behind it is a torn tail. What to do about either is the caller's business.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from jetspark.store.block import Block
from jetspark.store.block_head import HEAD_SIZE
from jetspark.store.numbers import get_i64, get_u32
from jetspark.store.record import (
    LENGTH_MASK,
    LENGTH_MAX,
    NOTE_BIT,
    SEQ_MASK,
    record_has_headers,
    record_subject,
    record_ts_ns,
    valid_length,
)

# A jump in sequences wider than this begins a new block when writing, so a wider one inside a block is damage.
GAP_MAX: Final = 65536


class ScanResult:
    """What a scan found besides the index entries it put into the block."""

    def __init__(self) -> None:
        # Where the last whole record ends; what follows is torn.
        self.end: i64 = HEAD_SIZE
        # Sequences that a damaged stretch may have held.
        self.lost: list[int] = []
        self.damaged_bytes: i64 = 0


class BlockScanner:
    """Fills an empty block's index from its bytes."""

    def __init__(self, block: Block, data: bytes) -> None:
        self.block = block
        self.data = data
        self.result = ScanResult()
        self.ids: dict[bytes, int] = {}

    def run(self) -> ScanResult:
        block = self.block
        data = self.data
        seed = block.seed
        at: i64 = HEAD_SIZE
        end: i64 = len(data)
        damaged = False
        while at < end:
            length = valid_length(data, at, end, seed)
            if length == 0 or not self.take(at, length, damaged):
                resume = self.next_whole(at, end)
                if resume == end:
                    break
                self.result.damaged_bytes += resume - at
                damaged = True
                at = resume
                continue
            if get_i64(data, at + 4) & NOTE_BIT == 0:
                damaged = False
            at += length
            self.result.end = at
        block.size = self.result.end
        return self.result

    def take(self, at: i64, length: i64, after_damage: bool) -> bool:
        """Enter one whole record; False if its sequence cannot follow the ones before it."""
        data = self.data
        field = get_i64(data, at + 4)
        seq = field & SEQ_MASK
        subject = record_subject(data, at)
        ts_ns = record_ts_ns(data, at)
        if field & NOTE_BIT:
            if subject:
                buried: i64 = get_u32(data, at + length - 12)
                # A negative size says that the buried record is to be erased.
                self.block.put_tombstone(seq, self.subject_id(subject), -buried if field < 0 else buried)
            else:
                self.take_state(seq, ts_ns, get_i64(data, at + length - 16))
            return True
        block = self.block
        if block.count == 0:
            block.base_seq = seq
        else:
            expected: i64 = block.base_seq + block.count
            if seq < expected or seq - expected > GAP_MAX:
                return False
            while expected < seq:
                if after_damage:
                    self.result.lost.append(expected)
                block.put_absent()
                expected += 1
        block.put(at, self.subject_id(subject))
        self.took(at, length, ts_ns, field)
        return True

    def took(self, at: i64, length: i64, ts_ns: i64, field: i64) -> None:
        block = self.block
        if ts_ns > block.last_ts_ns:
            block.last_ts_ns = ts_ns
        block.record_bytes += length
        if field < 0:
            # Erased in place; its tombstone says the same.
            block.mark_dead(block.count - 1)
            return
        block.live_count += 1
        block.live_bytes += length
        if record_has_headers(self.data, at):
            block.header_count += 1

    def take_state(self, last_seq: i64, last_ts_ns: i64, first_seq: i64) -> None:
        block = self.block
        if first_seq > block.state_first_seq:
            block.state_first_seq = first_seq
        if last_seq >= block.state_last_seq:
            block.state_last_seq = last_seq
            block.state_last_ts_ns = last_ts_ns

    def subject_id(self, subject: bytes) -> i64:
        known = self.ids.get(subject)
        if known is None:
            known = len(self.block.subject_table)
            self.ids[subject] = known
            self.block.subject_table.append(subject)
        return known

    def next_whole(self, at: i64, end: i64) -> i64:
        """Where the next whole record begins after a damaged one; `end` if there is none."""
        data = self.data
        seed = self.block.seed
        length: i64 = 0
        if at + 4 <= end:
            length = get_u32(data, at) & LENGTH_MASK
        if length >= 30 and at + length < end and valid_length(data, at + length, end, seed) > 0:
            return at + length
        position: i64 = at + 1
        last: i64 = end - 30
        while position <= last:
            length = get_u32(data, position) & LENGTH_MASK
            # Most positions fail here, before a hash is computed.
            if (
                length >= 30
                and length <= LENGTH_MAX
                and position + length <= end
                and valid_length(data, position, end, seed) > 0
            ):
                return position
            position += 1
        return end
