"""The index file beside a full block: enough to restart without reading the block, and to find records in it.

    front:  fixed fields | subjects with count, first and last | tombstones | hash of the front
    index:  offset and subject number of each sequence's record | (its hash is in the front)

A restart reads the fronts only. The file is a cache: it is checked against its block (size, last hash), ignored when
it disagrees or is damaged, and written without a sync. Layout, byte by byte: docs/store-format.md.
"""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import BytesWriter
from librt.vecs import append, vec
from mypy_extensions import i64
from xxhash import xxh3_64_digest

from jetspark.store.block import SUBJECT_MASK, Block
from jetspark.store.numbers import get_i64, get_u16, get_u32, put_i64, put_u16, put_u32

MAGIC: Final = b"JSI1"
VERSION: Final = 1
# magic, version, 11 numbers, then subject count and bytes, tombstone count, unused, hashes of block, tail and index.
_FIXED: Final = struct.Struct("<4sI11qIIII8s8s8s")
FIXED_SIZE: Final = _FIXED.size
HASH_SIZE: Final = 8
ENTRY_SIZE: Final = 8
TOMBSTONE_SIZE: Final = 24
# Fixed part, a few hundred subjects: most fronts come with the first read.
FRONT_READ_SIZE: Final = 16384


class Sidecar:
    """The front of an index file."""

    def __init__(self) -> None:
        self.number: i64 = 0
        self.base_seq: i64 = 0
        self.count: i64 = 0
        self.absent_count: i64 = 0
        self.raw_size: i64 = 0
        self.record_bytes: i64 = 0
        self.last_ts_ns: i64 = 0
        self.header_count: i64 = 0
        # What the state notes of the block, and its head, say.
        self.state_first_seq: i64 = 0
        self.state_last_seq: i64 = 0
        self.state_last_ts_ns: i64 = 0
        self.block_hash: bytes = b""
        self.tail: bytes = b""
        self.subjects: list[bytes] = []
        self.subject_counts: vec[i64] = vec[i64]()
        self.subject_firsts: vec[i64] = vec[i64]()
        self.subject_lasts: vec[i64] = vec[i64]()
        self.tombstone_seqs: vec[i64] = vec[i64]()
        self.tombstone_ids: vec[i64] = vec[i64]()
        self.tombstone_sizes: vec[i64] = vec[i64]()
        self.front_size: i64 = 0
        self.index_hash: bytes = b""


def count_subjects(block: Block, into: Sidecar) -> None:
    """Count, first and last index of each subject among the records present."""
    counts = vec[i64]([0] * len(block.subject_table))
    firsts = vec[i64]([0] * len(block.subject_table))
    lasts = vec[i64]([0] * len(block.subject_table))
    index: i64 = 0
    count: i64 = block.count
    while index < count:
        entry: i64 = block.entries[index]
        if entry >= 0:
            subject_id: i64 = entry & SUBJECT_MASK
            if counts[subject_id] == 0:
                firsts[subject_id] = index
            counts[subject_id] = counts[subject_id] + 1
            lasts[subject_id] = index
        index += 1
    into.subject_counts = counts
    into.subject_firsts = firsts
    into.subject_lasts = lasts


def encode_sidecar(block: Block, raw: bytes) -> bytes:
    """The index file of a full block whose index is in memory. `raw` is the block's bytes."""
    state = Sidecar()
    index = memoryview(block.entries).tobytes()
    count_subjects(block, state)
    subjects = encode_subjects(block.subject_table, state)
    tombstones = encode_tombstones(block)
    fixed = _FIXED.pack(
        MAGIC,
        VERSION,
        block.number,
        block.base_seq,
        block.count,
        block.absent_count,
        len(raw),
        block.record_bytes,
        block.last_ts_ns,
        block.header_count,
        block.state_first_seq,
        block.state_last_seq,
        block.state_last_ts_ns,
        len(block.subject_table),
        len(subjects),
        len(block.tombstone_seqs),
        0,
        xxh3_64_digest(raw),
        raw[-8:],
        xxh3_64_digest(index),
    )
    front = fixed + subjects + tombstones
    block.index_start = len(front) + HASH_SIZE
    return front + xxh3_64_digest(front) + index


def encode_subjects(table: list[bytes], state: Sidecar) -> bytes:
    writer = BytesWriter()
    for at, subject in enumerate(table):
        put_u16(writer, len(subject))
        writer.write(subject)
        put_u32(writer, state.subject_counts[at])
        put_u32(writer, state.subject_firsts[at])
        put_u32(writer, state.subject_lasts[at])
    return writer.getvalue()


def encode_tombstones(block: Block) -> bytes:
    writer = BytesWriter()
    at: i64 = 0
    count: i64 = len(block.tombstone_seqs)
    while at < count:
        put_i64(writer, block.tombstone_seqs[at])
        put_i64(writer, block.tombstone_ids[at])
        put_i64(writer, block.tombstone_sizes[at])
        at += 1
    return writer.getvalue()


def front_size_of(start: bytes) -> i64:
    """How long the front is, going by its fixed part; 0 when that cannot be an index file."""
    if len(start) < FIXED_SIZE or start[:4] != MAGIC:
        return 0
    fields = _FIXED.unpack_from(start)
    if fields[1] != VERSION:
        return 0
    subjects_size: i64 = fields[14]
    tombstone_count: i64 = fields[15]
    return FIXED_SIZE + subjects_size + tombstone_count * TOMBSTONE_SIZE + HASH_SIZE


def decode_front(front: bytes) -> Sidecar | None:
    """The front, if it is whole."""
    size = front_size_of(front)
    if size == 0 or len(front) < size:
        return None
    body_end = size - HASH_SIZE
    if xxh3_64_digest(front[:body_end]) != front[body_end:size]:
        return None
    fields = _FIXED.unpack_from(front)
    car = Sidecar()
    car.front_size = size
    car.number = fields[2]
    car.base_seq = fields[3]
    car.count = fields[4]
    car.absent_count = fields[5]
    car.raw_size = fields[6]
    car.record_bytes = fields[7]
    car.last_ts_ns = fields[8]
    car.header_count = fields[9]
    car.state_first_seq = fields[10]
    car.state_last_seq = fields[11]
    car.state_last_ts_ns = fields[12]
    car.block_hash = fields[17]
    car.tail = fields[18]
    car.index_hash = fields[19]
    decode_subjects(front, fields[13], car)
    decode_tombstones(front, FIXED_SIZE + fields[14], fields[15], car)
    return car


def decode_subjects(front: bytes, count: i64, car: Sidecar) -> None:
    counts = vec[i64](capacity=count)
    firsts = vec[i64](capacity=count)
    lasts = vec[i64](capacity=count)
    at: i64 = FIXED_SIZE
    left: i64 = count
    while left > 0:
        size = get_u16(front, at)
        at += 2
        car.subjects.append(front[at : at + size])
        at += size
        counts = append(counts, get_u32(front, at))
        firsts = append(firsts, get_u32(front, at + 4))
        lasts = append(lasts, get_u32(front, at + 8))
        at += 12
        left -= 1
    car.subject_counts = counts
    car.subject_firsts = firsts
    car.subject_lasts = lasts


def decode_tombstones(front: bytes, start: i64, count: i64, car: Sidecar) -> None:
    at: i64 = start
    left: i64 = count
    while left > 0:
        car.tombstone_seqs = append(car.tombstone_seqs, get_i64(front, at))
        car.tombstone_ids = append(car.tombstone_ids, get_i64(front, at + 8))
        car.tombstone_sizes = append(car.tombstone_sizes, get_i64(front, at + 16))
        at += TOMBSTONE_SIZE
        left -= 1


def decode_index(car: Sidecar, index: bytes, block: Block) -> bool:
    """Give the block its index entries; False if the index is damaged."""
    if len(index) != car.count * ENTRY_SIZE or xxh3_64_digest(index) != car.index_hash:
        return False
    block.entries = vec[i64](memoryview(index).cast("q"))
    return True
