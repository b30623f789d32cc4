"""One block compressed in the S2 format.

Greedy: the last place where the next six bytes stood is tried, and a match is taken as long as it is. Long matches use
S2's repeats. Where nothing matches the steps grow longer, so that bytes which do not compress cost little.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

KEY_SIZE: Final = 6
NEAR_OFFSET_MAX: Final = 2047
NEAR_LENGTH_MAX: Final = 11
COPY_LENGTH_MAX: Final = 64
# The first part of a copy too long for one tag; what is left is then long enough to be a repeat.
COPY_LENGTH_SPLIT: Final = 60
COMPARE_MAX: Final = 4096


def encode_block(data: bytes) -> bytes:
    """The block that stands for these bytes; may be longer than they are."""
    out = bytearray()
    put_uvarint(out, len(data))
    places: dict[bytes, int] = {}
    literal_start: i64 = 0
    repeated: i64 = 0
    misses: i64 = 32
    at: i64 = 0
    last: i64 = len(data) - KEY_SIZE
    while at <= last:
        key = data[at : at + KEY_SIZE]
        place: i64 = places.get(key, -1)
        places[key] = at
        if place < 0:
            at += misses >> 5
            misses += 1
            continue
        misses = 32
        length = KEY_SIZE + match_length(data, place + KEY_SIZE, at + KEY_SIZE)
        while at > literal_start and place > 0 and data[at - 1] == data[place - 1]:
            at -= 1
            place -= 1
            length += 1
        put_literal(out, data[literal_start:at])
        offset: i64 = at - place
        if offset == repeated:
            put_repeat(out, length)
        else:
            put_copy(out, offset, length)
            repeated = offset
        at += length
        literal_start = at
    put_literal(out, data[literal_start:])
    return bytes(out)


def match_length(data: bytes, left: i64, right: i64) -> i64:
    """How many bytes are the same from two places on, the right one the later."""
    start: i64 = right
    end: i64 = len(data)
    step: i64 = 16
    is_growing = True
    # Ever longer strides while they are equal, then ever shorter ones up to the difference.
    while step > 0:
        if right + step <= end and data[left : left + step] == data[right : right + step]:
            left += step
            right += step
            if is_growing and step < COMPARE_MAX:
                step *= 2
        else:
            is_growing = False
            step //= 2
    return right - start


def put_uvarint(out: bytearray, value: i64) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_number(out: bytearray, value: i64, size: i64) -> None:
    while size > 0:
        out.append(value & 0xFF)
        value >>= 8
        size -= 1


def put_literal(out: bytearray, literal: bytes) -> None:
    """Bytes that stand for themselves."""
    if not literal:
        return
    length: i64 = len(literal) - 1
    if length < 60:
        out.append(length << 2)
    elif length < 1 << 8:
        out.append(60 << 2)
        out.append(length)
    elif length < 1 << 16:
        out.append(61 << 2)
        put_number(out, length, 2)
    else:
        out.append(62 << 2)
        put_number(out, length, 3)
    out += literal


def put_copy(out: bytearray, offset: i64, length: i64) -> None:
    """A copy from an offset that is not the last one used."""
    if offset <= NEAR_OFFSET_MAX and length <= NEAR_LENGTH_MAX:
        out.append((offset >> 8) << 5 | (length - 4) << 2 | 1)
        out.append(offset & 0xFF)
        return
    first: i64 = length if length <= COPY_LENGTH_MAX else COPY_LENGTH_SPLIT
    if offset < 1 << 16:
        out.append((first - 1) << 2 | 2)
        put_number(out, offset, 2)
    else:
        out.append((first - 1) << 2 | 3)
        put_number(out, offset, 4)
    if length > first:
        put_repeat(out, length - first)


def put_repeat(out: bytearray, length: i64) -> None:
    """A copy from the offset used last, of at least four bytes."""
    if length <= 8:
        out.append((length - 4) << 2 | 1)
        out.append(0)
    elif length < 260:
        out.append(5 << 2 | 1)
        out.append(0)
        out.append(length - 8)
    elif length < 65540:
        out.append(6 << 2 | 1)
        out.append(0)
        put_number(out, length - 260, 2)
    else:
        out.append(7 << 2 | 1)
        out.append(0)
        put_number(out, length - 65540, 3)
