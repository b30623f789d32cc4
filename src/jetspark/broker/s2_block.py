"""One compressed block of the S2 format, decoded.

S2 is Snappy with longer blocks and one more kind of copy: a copy with offset 0 repeats the offset of the copy before
it. Every Snappy block is an S2 block. Decided here: what the bytes of a block mean. Checksums and framing are not.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from jetspark.errors import JetsparkError

# The largest block the format allows.
BLOCK_SIZE_MAX: Final = 4 * 1024 * 1024

TAG_LITERAL: Final = 0
TAG_COPY_1: Final = 1
TAG_COPY_2: Final = 2

DAMAGED: Final = "s2: corrupt input"


class DamagedArchive(JetsparkError):
    """The bytes are not what they claim to be."""


def decode_block(block: bytes) -> bytes:
    """The bytes a block stands for."""
    at: i64 = 0
    size: i64 = 0
    shift: i64 = 0
    end: i64 = len(block)
    byte: i64 = 0
    while True:
        if at >= end or shift > 28:
            raise DamagedArchive(DAMAGED)
        byte = block[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if size > BLOCK_SIZE_MAX:
        raise DamagedArchive(DAMAGED)
    out = bytearray()
    offset: i64 = 0
    while at < end:
        tag: i64 = block[at]
        kind: i64 = tag & 3
        if kind == TAG_LITERAL:
            at = copy_literal(block, at, end, out)
            continue
        length: i64 = 0
        if kind == TAG_COPY_1:
            near: i64 = (tag & 0xE0) << 3 | number(block, at + 1, 1)
            length = (tag >> 2) & 7
            at += 2
            if near == 0:
                extra: i64 = length - 4
                if extra > 0:
                    length = repeat_length(block, at, extra)
                    at += extra
            else:
                offset = near
            length += 4
        elif kind == TAG_COPY_2:
            length = 1 + (tag >> 2)
            offset = number(block, at + 1, 2)
            at += 3
        else:
            length = 1 + (tag >> 2)
            offset = number(block, at + 1, 4)
            at += 5
        copy_back(out, offset, length)
        if len(out) > size:
            raise DamagedArchive(DAMAGED)
    if len(out) != size:
        raise DamagedArchive(DAMAGED)
    return bytes(out)


def number(data: bytes, at: i64, size: i64) -> i64:
    """A little-endian number of some bytes, which must be there."""
    if at + size > len(data):
        raise DamagedArchive(DAMAGED)
    value: i64 = 0
    shift: i64 = 0
    end: i64 = at + size
    while at < end:
        value |= data[at] << shift
        shift += 8
        at += 1
    return value


def repeat_length(block: bytes, at: i64, extra: i64) -> i64:
    """The length of a long repeat, of which the shortest follows in one byte, the longest in three."""
    value = number(block, at, extra)
    if extra == 1:
        return value + 4
    if extra == 2:
        return value + (1 << 8)
    return value + (1 << 16)


def copy_literal(block: bytes, at: i64, end: i64, out: bytearray) -> i64:
    """Bytes that stand for themselves; returns where the next tag is."""
    length: i64 = block[at] >> 2
    at += 1
    if length >= 60:
        extra: i64 = length - 59
        length = number(block, at, extra)
        at += extra
    length += 1
    if at + length > end:
        raise DamagedArchive(DAMAGED)
    out += block[at : at + length]
    return at + length


def copy_back(out: bytearray, offset: i64, length: i64) -> None:
    """Append bytes that are already there; a copy longer than its offset repeats itself."""
    start: i64 = len(out) - offset
    if offset <= 0 or start < 0:
        raise DamagedArchive(DAMAGED)
    if length <= offset:
        out += out[start : start + length]
        return
    pattern = bytes(out[start:])
    whole: i64 = length // offset
    out += pattern * whole
    rest: i64 = length - whole * offset
    out += pattern[:rest]
