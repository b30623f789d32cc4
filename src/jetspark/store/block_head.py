"""The head of a block file: which block it is, where the stream stood when it was begun, and the salt of its hashes.

    "JSB1" | u32 number | i64 next sequence | i64 first sequence | i64 last time | 8 bytes salt | 8 bytes hash

Written twice in a row, so that a flipped bit in one copy leaves the other. The salt is drawn per block: bytes of an
older file that the file system hands back after a crash hash differently and are not taken for records.
"""

from __future__ import annotations

import struct
from typing import Final

from mypy_extensions import i64
from xxhash import xxh3_64_digest, xxh3_64_intdigest

MAGIC: Final = b"JSB1"
_FIELDS: Final = struct.Struct("<4sIqqq8s")
COPY_SIZE: Final = 48
HEAD_SIZE: Final = 96


class BlockHead:
    """What the head of a block says."""

    def __init__(self, number: i64, next_seq: i64, first_seq: i64, last_ts_ns: i64, salt: bytes) -> None:
        self.number: i64 = number
        # The sequence the next message would have had: everything below was used up.
        self.next_seq: i64 = next_seq
        self.first_seq: i64 = first_seq
        self.last_ts_ns: i64 = last_ts_ns
        self.salt: bytes = salt

    def seed(self) -> int:
        """The seed of every record hash in this block."""
        # The top bit keeps it from ever being 0, and keeps it a whole Python integer that costs nothing to pass on.
        return xxh3_64_intdigest(self.salt, int(self.number)) | (1 << 63)

    def encode(self) -> bytes:
        fields = _FIELDS.pack(MAGIC, self.number, self.next_seq, self.first_seq, self.last_ts_ns, self.salt)
        copy = fields + xxh3_64_digest(fields)
        return copy + copy


def decode_head(data: bytes) -> BlockHead | None:
    """The head, from whichever copy is whole."""
    for start in (0, COPY_SIZE):
        copy = data[start : start + COPY_SIZE]
        if len(copy) == COPY_SIZE and xxh3_64_digest(copy[:40]) == copy[40:]:
            magic, number, next_seq, first_seq, last_ts_ns, salt = _FIELDS.unpack_from(copy)
            if magic == MAGIC:
                return BlockHead(number, next_seq, first_seq, last_ts_ns, salt)
    return None


def block_path(folder: str, number: i64) -> str:
    return f"{folder}/{number}.blk"


def index_path(folder: str, number: i64) -> str:
    return f"{folder}/{number}.idx"


def block_number(name: str) -> i64:
    """Number in the name of a block file, 0 for any other name."""
    stem, _, extension = name.partition(".")
    return file_number(stem) if extension == "blk" else 0


def file_number(stem: str) -> i64:
    """The number that a file's name begins with; 0 if that is not how a number is written there."""
    if stem.isdecimal() and len(stem) < 18 and str(int(stem)) == stem:
        return int(stem)
    return 0
