"""Bytes of a consumer's log: its head, its frames, the entries in them.

    head:   "JSC1" | u32 version | 8 bytes salt | 8 bytes hash, twice in a row
    frame:  u32 length | u8 kind | content | 8 bytes hash, seeded by the salt
    entry:  u8 kind | its numbers, i64 each

The salt is drawn whenever the file is written anew, so a frame of an older file can never be taken for one of this.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from jetspark.store.consumer_state import ConsumerState, PendingEntry
from jetspark.store.numbers import get_i64, get_u32, put_i64, put_u32

HEAD_MAGIC: Final = b"JSC1\x01\x00\x00\x00"
HEAD_COPY_SIZE: Final = 24
HEAD_SIZE: Final = 48

# Kinds of frame.
ENTRIES: Final = 1
SNAPSHOT: Final = 2
FRAME_OVERHEAD: Final = 13
FRAME_LENGTH_MAX: Final = 1 << 30

# Kinds of entry, and how many numbers follow.
DELIVERED_RUN: Final = 1
REDELIVERED: Final = 2
POSITION: Final = 3
ACKED_RUN: Final = 4
ACKED_ALL: Final = 5
FLOOR: Final = 6
DROPPED: Final = 7
FORGOTTEN: Final = 8
PROGRESS: Final = 9
NUMBER_COUNTS: Final = (0, 4, 4, 3, 2, 2, 2, 2, 2, 2)

SNAPSHOT_FIXED: Final = 64
PENDING_SIZE: Final = 32
REDELIVERED_SIZE: Final = 16


def encode_head(salt: bytes) -> bytes:
    fields = HEAD_MAGIC + salt
    copy = fields + xxh3_64_digest(fields)
    return copy + copy


def read_seed(data: bytes) -> int:
    """The seed of the frames' hashes, 0 when the head is damaged beyond use."""
    for start in (0, HEAD_COPY_SIZE):
        copy = data[start : start + HEAD_COPY_SIZE]
        if copy[:8] == HEAD_MAGIC and xxh3_64_digest(copy[:16]) == copy[16:]:
            return xxh3_64_intdigest(copy[8:16]) | (1 << 63)
    return 0


def frame(kind: i64, content: bytes, seed: int) -> bytes:
    writer = BytesWriter()
    put_u32(writer, len(content) + FRAME_OVERHEAD)
    writer.append(kind)
    writer.write(content)
    data = writer.getvalue()
    return data + xxh3_64_digest(data, seed)


def frame_length(data: bytes, at: i64, end: i64, seed: int) -> i64:
    """Length of the frame at `at` if it is whole, otherwise 0."""
    if at + FRAME_OVERHEAD > end:
        return 0
    length = get_u32(data, at)
    if length < FRAME_OVERHEAD or length > FRAME_LENGTH_MAX or at + length > end:
        return 0
    hash_at: i64 = at + length - 8
    if xxh3_64_digest(data[at:hash_at], seed) != data[hash_at : at + length]:
        return 0
    return length


def apply_frame(data: bytes, at: i64, length: i64, state: ConsumerState) -> None:
    """Make the changes of one whole frame."""
    start: i64 = at + 5
    end: i64 = at + length - 8
    if data[at + 4] == SNAPSHOT:
        apply_snapshot(data, start, state)
        return
    while start < end:
        kind = data[start]
        apply_entry(kind, data, start + 1, state)
        start += 1 + 8 * NUMBER_COUNTS[kind]


def apply_entry(kind: int, data: bytes, at: i64, state: ConsumerState) -> None:
    first = get_i64(data, at)
    second = get_i64(data, at + 8)
    if kind == DELIVERED_RUN:
        apply_delivered_run(state, first, second, get_i64(data, at + 16), get_i64(data, at + 24))
    elif kind == REDELIVERED:
        apply_delivered(state, first, second, get_i64(data, at + 16), get_i64(data, at + 24))
    elif kind == POSITION:
        state.delivered_consumer_seq = first
        state.delivered_stream_seq = second
        state.last_delivered_ts_ns = max(state.last_delivered_ts_ns, get_i64(data, at + 16))
    elif kind == ACKED_RUN:
        for seq in range(first, first + second):
            state.pending.pop(seq, None)
            state.redelivered.pop(seq, None)
    elif kind == FLOOR:
        state.floor_consumer_seq = first
        state.floor_stream_seq = second
    else:
        apply_rare(kind, first, second, state)


def apply_rare(kind: int, first: i64, second: i64, state: ConsumerState) -> None:
    if kind == ACKED_ALL:
        for seq in [seq for seq in state.pending if seq <= first]:
            del state.pending[seq]
        for seq in [seq for seq in state.redelivered if seq <= first]:
            del state.redelivered[seq]
        state.floor_stream_seq = first
        state.floor_consumer_seq = second
    elif kind == PROGRESS:
        entry = state.pending.get(first)
        if entry is not None:
            entry.delivered_ts_ns = second
    else:
        state.pending.pop(first, None)
        if kind == FORGOTTEN:
            state.redelivered.pop(first, None)
        elif second > 0:
            state.redelivered[first] = second


def apply_delivered_run(state: ConsumerState, stream_seq: i64, consumer_seq: i64, count: i64, ts_ns: i64) -> None:
    at: i64 = 0
    while at < count:
        apply_delivered(state, stream_seq + at, consumer_seq + at, 1, ts_ns)
        at += 1


def apply_delivered(state: ConsumerState, stream_seq: i64, consumer_seq: i64, deliveries: i64, ts_ns: i64) -> None:
    state.delivered_consumer_seq = consumer_seq
    if stream_seq > state.delivered_stream_seq:
        state.delivered_stream_seq = stream_seq
    state.last_delivered_ts_ns = ts_ns
    entry = state.pending.get(stream_seq)
    if entry is None:
        state.pending[stream_seq] = PendingEntry(consumer_seq, ts_ns, deliveries)
    else:
        entry.delivered_ts_ns = ts_ns
        entry.deliveries = deliveries
    if deliveries > 1:
        state.redelivered[stream_seq] = deliveries


def encode_snapshot(state: ConsumerState) -> bytes:
    writer = BytesWriter()
    put_i64(writer, state.delivered_consumer_seq)
    put_i64(writer, state.delivered_stream_seq)
    put_i64(writer, state.floor_consumer_seq)
    put_i64(writer, state.floor_stream_seq)
    put_i64(writer, state.last_delivered_ts_ns)
    put_i64(writer, state.last_ack_ts_ns)
    put_i64(writer, len(state.pending))
    put_i64(writer, len(state.redelivered))
    for seq, entry in state.pending.items():
        put_i64(writer, seq)
        put_i64(writer, entry.consumer_seq)
        put_i64(writer, entry.delivered_ts_ns)
        put_i64(writer, entry.deliveries)
    for seq, count in state.redelivered.items():
        put_i64(writer, seq)
        put_i64(writer, count)
    return writer.getvalue()


def apply_snapshot(data: bytes, start: i64, state: ConsumerState) -> None:
    state.delivered_consumer_seq = get_i64(data, start)
    state.delivered_stream_seq = get_i64(data, start + 8)
    state.floor_consumer_seq = get_i64(data, start + 16)
    state.floor_stream_seq = get_i64(data, start + 24)
    state.last_delivered_ts_ns = get_i64(data, start + 32)
    state.last_ack_ts_ns = get_i64(data, start + 40)
    pending_count = get_i64(data, start + 48)
    redelivered_count = get_i64(data, start + 56)
    state.pending.clear()
    state.redelivered.clear()
    at: i64 = start + SNAPSHOT_FIXED
    while pending_count > 0:
        entry = PendingEntry(get_i64(data, at + 8), get_i64(data, at + 16), get_i64(data, at + 24))
        state.pending[get_i64(data, at)] = entry
        at += PENDING_SIZE
        pending_count -= 1
    while redelivered_count > 0:
        state.redelivered[get_i64(data, at)] = get_i64(data, at + 8)
        at += REDELIVERED_SIZE
        redelivered_count -= 1
