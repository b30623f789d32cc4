"""The record: one message, tombstone or state note as bytes.

    u32 length | i64 sequence | i64 time | u16 subject length | subject | [u32 header length | headers] | payload | hash

Little endian; bit 31 of the length says that headers follow, and the length counts everything, the hash included.
Bit 62 of the sequence marks a note that is not a message (a tombstone when it has a subject, a state note when it has
none), bit 63 an erased one. The hash is xxh3-64 (big endian, its canonical form) over everything before it, seeded per
block, so bytes left over from another file cannot pass for a record, and zeros never can: a length of 0 is refused.

Writing and reading have two bodies each: native reads and writers when compiled, `struct` when plain.
"""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64
from xxhash import xxh3_64_digest

from jetspark.store.numbers import COMPILED, get_i64, get_u16, get_u32, put_u16, put_u32
from jetspark.store.view import RecordView

LENGTH_MASK: Final = 0x7FFFFFFF
HEADERS_BIT: Final = 0x80000000
# Longer than any message a server takes (64 MiB) with its headers; a length beyond this is damage.
LENGTH_MAX: Final = 80 * 1024 * 1024

# The largest number in the two bytes that hold a subject's length.
SUBJECT_SIZE_MAX: Final = 0xFFFF

NOTE_BIT: Final = 1 << 62
ERASED_BIT: Final = -(1 << 63)
SEQ_MASK: Final = (1 << 62) - 1

_PREFIX: Final = struct.Struct("<IqqH")
_U32: Final = struct.Struct("<I")


def record_size(subject_size: i64, header_size: i64, body_size: i64) -> i64:
    """Bytes on disk, where `body_size` counts headers and payload together."""
    if header_size > 0:
        return 34 + subject_size + body_size
    return 30 + subject_size + body_size


def encode_record(
    writer: BytesWriter, seq_field: i64, ts_ns: i64, subject: bytes, header_size: i64, body: bytes
) -> bytes:
    """The record without its hash. `body` is the header block and the payload together; the writer is scratch."""
    if COMPILED:
        writer.truncate(0)
        subject_size: i64 = len(subject)
        length: i64 = 30 + subject_size + len(body)
        if header_size > 0:
            length = length + 4 + HEADERS_BIT
        put_u32(writer, length)
        write_i64_le(writer, seq_field)
        write_i64_le(writer, ts_ns)
        put_u16(writer, subject_size)
        writer.write(subject)
        if header_size > 0:
            put_u32(writer, header_size)
        writer.write(body)
        return writer.getvalue()
    return encode_record_plain(seq_field, ts_ns, subject, header_size, body)


def encode_record_plain(seq_field: i64, ts_ns: i64, subject: bytes, header_size: i64, body: bytes) -> bytes:
    """The same with `struct`."""
    if header_size > 0:
        length = 34 + len(subject) + len(body)
        prefix = _PREFIX.pack(length | HEADERS_BIT, seq_field, ts_ns, len(subject))
        return prefix + subject + _U32.pack(header_size) + body
    return _PREFIX.pack(30 + len(subject) + len(body), seq_field, ts_ns, len(subject)) + subject + body


def encode_records(first_seq: i64, ts_ns: i64, subject: bytes, bodies: list[bytes]) -> list[bytes]:
    """Several messages of one subject and time, without headers: the records without their hashes."""
    fixed_size = 30 + len(subject)
    subject_size = len(subject)
    pack = _PREFIX.pack
    numbered = enumerate(bodies, first_seq)
    return [pack(fixed_size + len(body), seq, ts_ns, subject_size) + subject + body for seq, body in numbered]


def encode_tombstone(writer: BytesWriter, seq: i64, erase: bool, ts_ns: i64, subject: bytes, buried: i64) -> bytes:
    """Says that `seq` is gone, with its subject and length, so that counts can be kept without reading it."""
    seq_field: i64 = seq | NOTE_BIT
    if erase:
        seq_field = seq_field | ERASED_BIT
    if COMPILED:
        writer.truncate(0)
        subject_size: i64 = len(subject)
        put_u32(writer, 34 + subject_size)
        write_i64_le(writer, seq_field)
        write_i64_le(writer, ts_ns)
        put_u16(writer, subject_size)
        writer.write(subject)
        put_u32(writer, buried)
        return writer.getvalue()
    return encode_record_plain(seq_field, ts_ns, subject, 0, _U32.pack(buried))


def encode_state(writer: BytesWriter, first_seq: i64, last_seq: i64, last_ts_ns: i64) -> bytes:
    """Says that every sequence below `first_seq` is gone and that `last_seq` is used up."""
    return encode_record(writer, last_seq | NOTE_BIT, last_ts_ns, b"", 0, struct.pack("<q", first_seq))


def record_hash(record: bytes, seed: int) -> bytes:
    return xxh3_64_digest(record, seed)


def read_record(data: bytes, at: i64, into: RecordView) -> None:
    """Fill the view, all but its subject, from a record known to be whole."""
    if COMPILED:
        word = get_u32(data, at)
        into.block = data
        into.seq = get_i64(data, at + 4) & SEQ_MASK
        into.ts_ns = get_i64(data, at + 12)
        start: i64 = at + 22 + get_u16(data, at + 20)
        end: i64 = at + (word & LENGTH_MASK) - 8
        if word > LENGTH_MASK:
            header_size = get_u32(data, start)
            start += 4
            into.header_start = start
            into.header_size = header_size
            into.body_start = start + header_size
            into.body_size = end - start - header_size
            into.end = end
            return
        into.header_start = start
        into.header_size = 0
        into.body_start = start
        into.body_size = end - start
        into.end = end
        return
    read_record_plain(data, at, into)


def read_record_plain(data: bytes, at: i64, into: RecordView) -> None:
    """The same with `struct`."""
    word, seq_field, ts_ns, subject_size = _PREFIX.unpack_from(data, at)
    into.block = data
    into.seq = seq_field & SEQ_MASK
    into.ts_ns = ts_ns
    start = at + 22 + subject_size
    header_size = 0
    if word > LENGTH_MASK:
        word -= HEADERS_BIT
        header_size = _U32.unpack_from(data, start)[0]
        start += 4
    end = at + word - 8
    into.header_start = start
    into.header_size = header_size
    into.body_start = start + header_size
    into.body_size = end - start - header_size
    into.end = end


def record_length(data: bytes, at: i64) -> i64:
    """Length of a record known to be whole."""
    return get_u32(data, at) & LENGTH_MASK


def record_seq_field(data: bytes, at: i64) -> i64:
    """Sequence with its flag bits, as a signed number."""
    return get_i64(data, at + 4)


def record_ts_ns(data: bytes, at: i64) -> i64:
    return get_i64(data, at + 12)


def record_subject(data: bytes, at: i64) -> bytes:
    return data[at + 22 : at + 22 + get_u16(data, at + 20)]


def record_has_headers(data: bytes, at: i64) -> bool:
    return get_u32(data, at) > LENGTH_MASK


def valid_length(data: bytes, at: i64, end: i64, seed: int) -> i64:
    """Length of the record at `at` if it is whole and its hash agrees, otherwise 0."""
    if at + 30 > end:
        return 0
    word = get_u32(data, at)
    length: i64 = word & LENGTH_MASK
    if length < 30 or length > LENGTH_MAX or at + length > end:
        return 0
    body_end: i64 = at + length - 8
    if xxh3_64_digest(data[at:body_end], seed) != data[body_end : at + length]:
        return 0
    # A hash that agrees vouches for the writer, not for the numbers making sense together; these are cheap to check.
    start: i64 = at + 22 + get_u16(data, at + 20)
    if word > LENGTH_MASK:
        start += 4
        if start > body_end or start + get_u32(data, start - 4) > body_end:
            return 0
    elif start > body_end:
        return 0
    return length
