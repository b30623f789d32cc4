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

from xxhash import xxh3_128_digest

from jetspark.spark.sink_options import CONTENT, NONE, POSITION

# 120 bits: no two different rows of a batch will ever share one, and it is 20 characters of base 64 without padding.
DIGEST_BYTES = 15
WRITE_DIGEST_BYTES = 9

# From the subjects, header blocks and payloads of some rows to their ids.
IdMaker = Callable[[list[bytes], list[bytes], list[bytes]], list[bytes]]


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
    """A function from rows to their ids. It counts, so it serves one pass over the rows of a task."""
    if mode == CONTENT:
        return _content_ids(place.prefix)
    if mode == POSITION:
        return _position_ids(place.prefix)
    assert mode == NONE, mode
    return lambda subjects, blocks, payloads: [b""] * len(payloads)


def _content_ids(prefix: bytes) -> IdMaker:
    seen: set[bytes] = set()
    repeated: dict[bytes, int] = {}
    base64 = binascii.b2a_base64
    # A fast hash is not proof against somebody who makes rows collide on purpose; who does not know the seed cannot.
    seed = int.from_bytes(hashlib.blake2b(prefix, digest_size=8).digest(), "big")

    def make(subjects: list[bytes], blocks: list[bytes], payloads: list[bytes]) -> list[bytes]:
        ids = []
        for subject, block, data in zip(subjects, blocks, payloads, strict=True):
            # Neither a subject nor a header block has a zero byte: no part can be mistaken for another.
            content = b"%b\0%b\0%b" % (subject, block, data)
            digest = base64(xxh3_128_digest(content, seed)[:DIGEST_BYTES], newline=False)
            if digest in seen:
                count = repeated[digest] = repeated.get(digest, 0) + 1
                ids.append(b"%b%b:%d" % (prefix, digest, count))
            else:
                seen.add(digest)
                ids.append(prefix + digest)
        return ids

    return make


def _position_ids(prefix: bytes) -> IdMaker:
    next_row = 0

    def make(subjects: list[bytes], blocks: list[bytes], payloads: list[bytes]) -> list[bytes]:
        nonlocal next_row
        ids = []
        for subject, block, data in zip(subjects, blocks, payloads, strict=True):
            checksum = zlib.crc32(data, zlib.crc32(block, zlib.crc32(subject)))
            ids.append(b"%br%d.%x" % (prefix, next_row, checksum))
            next_row += 1
        return ids

    return make
