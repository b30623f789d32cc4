"""CRC-32C (Castagnoli), as the S2 framing wants it. The standard library has the other polynomial only."""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

COMPILED: Final = not __file__.endswith(".py")
POLYNOMIAL: Final = 0x82F63B78
SLICES: Final = 8


def make_tables() -> vec[i64]:
    """Table k holds the effect of one byte followed by k zero bytes; all in one row, 256 entries each."""
    tables = vec[i64]()
    index: i64 = 0
    while index < 256:
        value: i64 = index
        bit: i64 = 0
        while bit < 8:
            value = (value >> 1) ^ POLYNOMIAL if value & 1 else value >> 1
            bit += 1
        tables = append(tables, value)
        index += 1
    while index < 256 * SLICES:
        before: i64 = tables[index - 256]
        tables = append(tables, (before >> 8) ^ tables[before & 0xFF])
        index += 1
    return tables


TABLES: Final = make_tables()


# The same first table as a list: what plain Python indexes fastest.
BYTES: Final = [int(TABLES[index]) for index in range(256)]


def crc32c(data: bytes) -> int:
    """The checksum of the whole; of two bodies the one that suits how this module runs."""
    return crc32c_native(data) if COMPILED else crc32c_plain(data)


def crc32c_plain(data: bytes) -> int:
    """A byte at a time."""
    table = BYTES
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def crc32c_native(data: bytes) -> i64:
    """Eight bytes at a step."""
    tables = TABLES
    crc: i64 = 0xFFFFFFFF
    at: i64 = 0
    end: i64 = len(data)
    while at + 8 <= end:
        crc ^= data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
        crc = (
            tables[1792 + (crc & 0xFF)]
            ^ tables[1536 + ((crc >> 8) & 0xFF)]
            ^ tables[1280 + ((crc >> 16) & 0xFF)]
            ^ tables[1024 + (crc >> 24)]
            ^ tables[768 + data[at + 4]]
            ^ tables[512 + data[at + 5]]
            ^ tables[256 + data[at + 6]]
            ^ tables[data[at + 7]]
        )
        at += 8
    while at < end:
        crc = (crc >> 8) ^ tables[(crc ^ data[at]) & 0xFF]
        at += 1
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """The form in which checksums are stored beside the data they cover."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
