"""Message ids: what makes two attempts at the same row recognisable as one.

Three ways, and what each needs to be true on a replay. From a column: the user names the row. From the content: equal
rows of a partition are counted, so the id is the same in whatever order the rows come. From the position: rows come in
the same order; a checksum in the id shows when they did not. All but the first start with who wrote it (write, batch,
partition), so two batches with equal rows do not take each other for copies.
"""

from __future__ import annotations

import binascii
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from jetspark.spark.sink_options import COLUMN, CONTENT, NONE, POSITION

# 120 bits: no two different rows of a batch will ever share one, and it is 20 characters of base 64 without padding.
DIGEST_BYTES = 15
WRITE_DIGEST_BYTES = 9

IdMaker = Callable[[bytes, bytes, bytes], bytes]


@dataclass(frozen=True)
class Place:
    """Which part of which write a task is: stable over retries and restarts."""

    write: str
    batch: int
    partition: int

    @property
    def prefix(self) -> bytes:
        """What the ids of the rows of this task begin with."""
        digest = hashlib.blake2b(self.write.encode(), digest_size=WRITE_DIGEST_BYTES).digest()
        name = binascii.b2a_base64(digest, newline=False).replace(b"/", b"_").replace(b"+", b"-")
        return b"%b:%d:%d:" % (name, self.batch, self.partition)

    def __str__(self) -> str:
        return f"batch {self.batch}, partition {self.partition}"


def id_maker(mode: str, place: Place) -> IdMaker:
    """A function from a row's subject, headers and data to its id. It counts, so it serves one pass over the rows."""
    if mode == CONTENT:
        return _content_ids(place.prefix)
    if mode == POSITION:
        return _position_ids(place.prefix)
    assert mode in (COLUMN, NONE), mode
    return lambda subject, block, data: b""


def _content_ids(prefix: bytes) -> IdMaker:
    seen: set[bytes] = set()
    repeated: dict[bytes, int] = {}
    blake2b, base64 = hashlib.blake2b, binascii.b2a_base64

    def make(subject: bytes, block: bytes, data: bytes) -> bytes:
        # Neither a subject nor a header block has a zero byte, so the parts cannot be mistaken for one another.
        digest = base64(
            blake2b(b"%b\0%b\0%b" % (subject, block, data), digest_size=DIGEST_BYTES).digest(), newline=False
        )
        if digest not in seen:
            seen.add(digest)
            return prefix + digest
        count = repeated[digest] = repeated.get(digest, 0) + 1
        return b"%b%b:%d" % (prefix, digest, count)

    return make


def _position_ids(prefix: bytes) -> IdMaker:
    row = -1

    def make(subject: bytes, block: bytes, data: bytes) -> bytes:
        nonlocal row
        row += 1
        return b"%br%d.%x" % (prefix, row, zlib.crc32(data, zlib.crc32(block, zlib.crc32(subject))))

    return make
