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


class BlockDecoder:
    """A walk over one block, tag by tag."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        self._at: i64 = 0
        self._end: i64 = len(block)
        self._out = bytearray()
        # Of the copy before, for those that repeat it.
        self._offset: i64 = 0

    def run(self) -> bytes:
        size = self._read_size()
        out = self._out
        while self._at < self._end:
            tag: i64 = self._block[self._at]
            kind: i64 = tag & 3
            if kind == TAG_LITERAL:
                self._at = copy_literal(self._block, self._at, self._end, out)
            elif kind == TAG_COPY_1:
                self._copy_near(tag)
            else:
                width: i64 = 2 if kind == TAG_COPY_2 else 4
                self._offset = number(self._block, self._at + 1, width)
                self._at += 1 + width
                copy_back(out, self._offset, 1 + (tag >> 2))
            if len(out) > size:
                raise DamagedArchive(DAMAGED)
        if len(out) != size:
            raise DamagedArchive(DAMAGED)
        return bytes(out)

    def _read_size(self) -> i64:
        size: i64 = 0
        shift: i64 = 0
        while self._at < self._end and shift <= 28:
            byte: i64 = self._block[self._at]
            self._at += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                if size <= BLOCK_SIZE_MAX:
                    return size
                break
            shift += 7
        raise DamagedArchive(DAMAGED)

    def _copy_near(self, tag: i64) -> None:
        """A copy with an offset of eleven bits, or, with none, one that repeats the offset before."""
        near: i64 = (tag & 0xE0) << 3 | number(self._block, self._at + 1, 1)
        length: i64 = (tag >> 2) & 7
        self._at += 2
        if near != 0:
            self._offset = near
        elif length > 4:
            extra: i64 = length - 4
            length = repeat_length(self._block, self._at, extra)
            self._at += extra
        copy_back(self._out, self._offset, length + 4)


def decode_block(block: bytes) -> bytes:
    """The bytes a block stands for."""
    return BlockDecoder(block).run()


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
