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
    record_length,
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
        # Sequences that damaged stretches may have held.
        self.lost: list[int] = []
        self.damaged_bytes: i64 = 0


class BlockScanner:
    """Fills an empty block's index from its bytes. The block's first sequence is the one its head announces."""

    def __init__(self, block: Block, data: bytes) -> None:
        self.block = block
        self.data = data
        self.result = ScanResult()
        self.ids: dict[bytes, int] = {}
        # Sequences that damaged records since the last whole message say they had, and whether some could not be told.
        self.claims: list[int] = []
        self.is_wide: bool = False

    def run(self) -> ScanResult:
        block = self.block
        data = self.data
        seed = block.seed
        at: i64 = HEAD_SIZE
        end: i64 = len(data)
        while at < end:
            length = valid_length(data, at, end, seed)
            if length == 0 or not self.take(at, length):
                resume = self.next_whole(at, end)
                if resume == end:
                    break
                self.note_damage(at, resume)
                at = resume
                continue
            at += length
            self.result.end = at
        self.settle_damage_at_end()
        block.size = self.result.end
        return self.result

    # Damage.

    def note_damage(self, at: i64, resume: i64) -> None:
        self.result.damaged_bytes += resume - at
        field = get_i64(self.data, at + 4)
        if resume != at + record_length(self.data, at) or resume - at < 30:
            self.is_wide = True
        elif field & NOTE_BIT == 0:
            seq = field & SEQ_MASK
            # What it says, unless it makes no sense: then the next in order.
            expected: i64 = self.block.base_seq + self.block.count + len(self.claims)
            if seq < expected or seq - expected > GAP_MAX:
                seq = expected
            self.claims.append(seq)

    def settle_damage(self, before_seq: i64) -> None:
        """The next whole message says how far damage can have reached."""
        if not self.claims and not self.is_wide:
            return
        expected: i64 = self.block.base_seq + self.block.count
        if self.is_wide or max(self.claims) >= before_seq:
            # Some of these may have been burned; which, the damaged bytes do not tell.
            self.result.lost.extend(range(expected, min(before_seq, expected + GAP_MAX)))
        else:
            self.result.lost.extend(self.claims)
        self.claims = []
        self.is_wide = False

    def settle_damage_at_end(self) -> None:
        """No message follows: believe claims that go on from the last message, and what state notes say."""
        block = self.block
        upto: i64 = block.base_seq + block.count - 1
        for claim in self.claims:
            if claim == upto + 1:
                upto = claim
        # Used up, whether or not anything else says so.
        block.state_last_seq = max(block.state_last_seq, upto)
        self.settle_damage(block.state_last_seq + 1)

    # Whole records.

    def take(self, at: i64, length: i64) -> bool:
        """Enter one whole record; False if its sequence cannot follow the ones before it."""
        data = self.data
        field = get_i64(data, at + 4)
        seq = field & SEQ_MASK
        subject = record_subject(data, at)
        if field & NOTE_BIT:
            if subject:
                buried: i64 = get_u32(data, at + length - 12)
                # A negative size says that the buried record is to be erased.
                self.block.put_tombstone(seq, self.subject_id(subject), -buried if field < 0 else buried)
            else:
                self.take_state(seq, record_ts_ns(data, at), get_i64(data, at + length - 16))
            return True
        block = self.block
        gap: i64 = seq - block.base_seq - block.count
        if gap < 0 or (block.count > 0 and gap > GAP_MAX):
            return False
        self.settle_damage(seq)
        if block.count == 0:
            block.base_seq = seq
            gap = 0
        while gap > 0:
            block.put_absent()
            gap -= 1
        block.put(at, self.subject_id(subject))
        self.took(at, length, field)
        return True

    def took(self, at: i64, length: i64, field: i64) -> None:
        block = self.block
        block.last_ts_ns = max(block.last_ts_ns, record_ts_ns(self.data, at))
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
