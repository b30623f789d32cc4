"""Searching a stream by subject, by time, by count.

Reads only. A search goes block by block: blocks whose known subjects cannot match are skipped unread, for the others
the index is enough. A literal subject is bounded by its state before anything is searched.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from jetspark.protocol.subjects import SubjectFilter
from jetspark.store.block import SUBJECT_MASK, Block
from jetspark.store.record import record_ts_ns
from jetspark.store.store_base import StoreBase

# With more subjects than this, the last match is looked for from the end of the stream rather than subject by subject.
SUBJECTS_QUICK: Final = 4096


def may_match(block: Block, wanted: SubjectFilter) -> bool:
    """Could the block hold a match? True when unsure."""
    if block.live_count == 0:
        return False
    if block.has_index or not block.subjects_known:
        return True
    for subject in block.known_subjects:
        if wanted.accepts(subject):
            return True
    return False


def find_next(store: StoreBase, seq: i64, upto: i64, wanted: SubjectFilter) -> i64:
    """Smallest live sequence in [seq, upto] that the filter takes; 0 if none."""
    if wanted.match_all:
        found = store.next_live(seq)
        return found if found <= upto else 0
    if wanted.literal:
        state = store.subjects.get(wanted.literal)
        if state is None or state.last_seq < seq:
            return 0
        upto = min(upto, state.last_seq)
        if state.first_seq > seq:
            seq = state.first_seq
            if not state.first_inexact:
                return seq if seq <= upto else 0
    return search_blocks(store, seq, upto, wanted)


def search_blocks(store: StoreBase, seq: i64, upto: i64, wanted: SubjectFilter) -> i64:
    """The same, by looking."""
    at = store.find_block_index(seq)
    count: i64 = len(store.blocks)
    while at < count:
        block = store.blocks[at]
        if block.base_seq > upto:
            return 0
        if may_match(block, wanted):
            if not block.has_index:
                store.load_index(block)
            last: i64 = min(block.count - 1, upto - block.base_seq)
            index = next_in_block(block, max(0, seq - block.base_seq), last, wanted)
            if index >= 0:
                return block.base_seq + index
        at += 1
    return 0


def next_in_block(block: Block, index: i64, last: i64, wanted: SubjectFilter) -> i64:
    """Smallest live index in [index, last] that the filter takes; -1 if none."""
    table = block.subject_table
    literal = wanted.literal
    while index <= last:
        index = block.next_live_index(index)
        if index < 0 or index > last:
            return -1
        subject = table[block.entries[index] & SUBJECT_MASK]
        if literal:
            if subject == literal:
                return index
        elif wanted.accepts(subject):
            return index
        index += 1
    return -1


def find_last(store: StoreBase, wanted: SubjectFilter, upto: i64) -> i64:
    """Largest live sequence at or below `upto` that the filter takes; 0 if none."""
    if wanted.literal:
        state = store.subjects.get(wanted.literal)
        if state is None or state.first_seq > upto:
            return 0
        if not state.last_inexact and state.last_seq <= upto:
            return state.last_seq
        upto = min(upto, state.last_seq)
    elif not wanted.match_all and upto >= store.last_seq and len(store.subjects) <= SUBJECTS_QUICK:
        return last_of_subjects(store, wanted)
    at: i64 = min(store.find_block_index(upto), len(store.blocks) - 1)
    while at >= 0:
        block = store.blocks[at]
        if block.base_seq <= upto and may_match(block, wanted):
            if not block.has_index:
                store.load_index(block)
            index = previous_in_block(block, min(block.count - 1, upto - block.base_seq), wanted)
            if index >= 0:
                return block.base_seq + index
        at -= 1
    return 0


def previous_in_block(block: Block, index: i64, wanted: SubjectFilter) -> i64:
    """Largest live index at or below `index` that the filter takes; -1 if none."""
    table = block.subject_table
    while index >= 0:
        index = block.previous_live_index(index)
        if index < 0:
            return -1
        if wanted.match_all or wanted.accepts(table[block.entries[index] & SUBJECT_MASK]):
            return index
        index -= 1
    return -1


def last_of_subjects(store: StoreBase, wanted: SubjectFilter) -> i64:
    """The same by asking each subject for its last."""
    found: i64 = 0
    for subject, state in store.subjects.items():
        # The bound first: most subjects cannot be the last.
        if state.last_seq > found and wanted.accepts(subject):
            found = max(found, exact_last_seq(store, subject))
    return found


def exact_first_seq(store: StoreBase, subject: bytes) -> i64:
    """First live sequence of a subject, 0 if it has none."""
    state = store.subjects.get(subject)
    if state is None:
        return 0
    if state.first_inexact:
        found = find_next(store, state.first_seq, state.last_seq, SubjectFilter([subject]))
        state.first_seq = found
        state.first_inexact = False
    return state.first_seq


def exact_last_seq(store: StoreBase, subject: bytes) -> i64:
    """Last live sequence of a subject, 0 if it has none."""
    state = store.subjects.get(subject)
    if state is None:
        return 0
    if state.last_inexact:
        found = find_last(store, SubjectFilter([subject]), state.last_seq)
        state.last_seq = found
        state.last_inexact = False
    return state.last_seq


def count_from(store: StoreBase, from_seq: i64, wanted: SubjectFilter) -> i64:
    """Live messages at or after `from_seq` that the filter takes."""
    if from_seq > store.last_seq or store.message_count == 0:
        return 0
    if from_seq <= store.first_seq:
        if wanted.match_all:
            return store.message_count
        return count_by_subject(store, wanted)
    at = store.find_block_index(from_seq)
    found: i64 = 0
    while at < len(store.blocks):
        block = store.blocks[at]
        index: i64 = max(0, from_seq - block.base_seq)
        if wanted.match_all:
            found += block.count_live_from(index)
        elif may_match(block, wanted):
            if not block.has_index:
                store.load_index(block)
            found += count_in_block(block, index, wanted)
        at += 1
    return found


def count_by_subject(store: StoreBase, wanted: SubjectFilter) -> i64:
    if wanted.literal:
        state = store.subjects.get(wanted.literal)
        return 0 if state is None else state.message_count
    found: i64 = 0
    for subject, state in store.subjects.items():
        if wanted.accepts(subject):
            found += state.message_count
    return found


def count_in_block(block: Block, index: i64, wanted: SubjectFilter) -> i64:
    found: i64 = 0
    while True:
        index = next_in_block(block, index, block.count - 1, wanted)
        if index < 0:
            return found
        found += 1
        index += 1


def find_time(store: StoreBase, ts_ns: i64) -> i64:
    """First live sequence stored at or after a time; one past the last if none."""
    for block in store.blocks:
        if block.live_count == 0 or block.last_ts_ns < ts_ns:
            continue
        if not block.has_data or not block.has_index:
            store.load(block)
        index = time_in_block(block, ts_ns)
        if index >= 0:
            return block.base_seq + index
    return store.last_seq + 1


def time_in_block(block: Block, ts_ns: i64) -> i64:
    """First live index with a time at or after `ts_ns`, -1 if none. The block is loaded."""
    # Times rise with sequences unless the clock was set back. Halving finds the place when they rise; the walk from
    # a little before it is exact in both cases for the record found, and costs nothing.
    low: i64 = 0
    high: i64 = block.count - 1
    while low < high:
        middle = (low + high) >> 1
        at = block.next_live_index(middle)
        if at < 0 or at > high or time_at(block, at) >= ts_ns:
            high = middle
        else:
            low = at + 1
    index = block.next_live_index(low)
    while index >= 0 and time_at(block, index) < ts_ns:
        index = block.next_live_index(index + 1)
    return index


def time_at(block: Block, index: i64) -> i64:
    offset = block.offset_of(index)
    if offset < block.near_start or offset >= block.near_end:
        block.move_near(offset)
    return record_ts_ns(block.near_data, offset - block.near_start)


def list_deleted(store: StoreBase, limit: i64) -> list[int]:
    """Sequences between the first and the last that are not live, lowest first; all of them if the limit is 0."""
    found: list[int] = []
    if store.message_count == 0:
        return found
    most: i64 = limit if limit > 0 else store.last_seq
    expected: i64 = store.first_seq
    for block in store.blocks:
        if block.live_count == 0:
            continue
        index = block.next_live_index(max(0, expected - block.base_seq))
        while index >= 0 and len(found) < most:
            seq: i64 = block.base_seq + index
            found.extend(range(expected, min(seq, expected + most - len(found))))
            expected = seq + 1
            if block.dead_count == 0:
                expected = block.base_seq + block.count
                break
            index = block.next_live_index(index + 1)
    if len(found) < most and expected <= store.last_seq:
        found.extend(range(expected, min(store.last_seq + 1, expected + most - len(found))))
    return found
