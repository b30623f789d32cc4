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

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from jetspark.spark.sink_options import CONTENT, NONE, POSITION

# 120 bits: no two different rows of a batch will ever share one, and it is 20 characters of base 64 without padding.
DIGEST_BYTES = 15
CONTENT_KEY_SIZE = 20
WRITE_DIGEST_BYTES = 9
DIGEST_MASK = 2**64 - 1

# From the subjects, header blocks and payloads of some rows to their ids.
IdMaker = Callable[[list[bytes], list[bytes], list[bytes]], list[bytes]]


@dataclass(frozen=True)
class Place:
    """Which part of which write a task is: stable over retries and restarts."""

    write: str
    batch: int
    partition: int

    @property
    def batch_prefix(self) -> bytes:
        """What the ids of all rows of this batch begin with."""
        digest = hashlib.blake2b(self.write.encode(), digest_size=WRITE_DIGEST_BYTES).digest()
        name = binascii.b2a_base64(digest, newline=False).replace(b"/", b"_").replace(b"+", b"-")
        return b"%b:%d:" % (name, self.batch)

    @property
    def prefix(self) -> bytes:
        """What the ids of the rows of this task begin with."""
        return b"%b%d:" % (self.batch_prefix, self.partition)

    def __str__(self) -> str:
        return f"batch {self.batch}, partition {self.partition}"


@dataclass(frozen=True)
class Run:
    """Which execution of a batch a task belongs to: the same for its retries and rivals, another after a restart."""

    name: str = ""
    is_query: bool = False
    """A batch of a streaming query: the one before it was committed."""
    keeps_partitions: bool = True
    """Spark gives each partition the same rows in every run."""


ONLY_RUN = Run()


def rows_digest(mode: str, place: Place, ids: list[bytes]) -> int:
    """A sum over rows: the same for the same rows in any order and in any partition, another for other rows."""
    if mode == CONTENT:
        start = len(place.prefix)
        keys = [one[start : start + CONTENT_KEY_SIZE] for one in ids]
    elif mode == POSITION:
        keys = [one.rpartition(b".")[2] for one in ids]
    else:
        keys = ids
    return sum(map(xxh3_64_intdigest, keys)) & DIGEST_MASK


def content_key(msg_id: bytes) -> bytes:
    """What of an id by content says which content, in whichever partition."""
    return msg_id.split(b":", 4)[3]


def id_maker(mode: str, place: Place) -> IdMaker:
    """A function from rows to their ids. It counts, so it serves one pass over the rows of a task."""
    if mode == CONTENT:
        return _content_ids(place)
    if mode == POSITION:
        return _position_ids(place.prefix)
    assert mode == NONE, mode
    return lambda subjects, blocks, payloads: [b""] * len(payloads)


def _content_ids(place: Place) -> IdMaker:
    prefix = place.prefix
    seen: set[bytes] = set()
    repeated: dict[bytes, int] = {}
    base64 = binascii.b2a_base64
    # A fast hash is not proof against somebody who makes rows collide on purpose; who does not know the seed cannot.
    # The same for every partition, so that a row is known again in another one.
    seed = int.from_bytes(hashlib.blake2b(place.batch_prefix, digest_size=8).digest(), "big")

    def make(subjects: list[bytes], blocks: list[bytes], payloads: list[bytes]) -> list[bytes]:
        # Neither a subject nor a header block has a zero byte: no part can be mistaken for another.
        if subjects and subjects.count(subjects[0]) == len(subjects) and not any(blocks):
            head = subjects[0] + b"\0\0"
            contents = [head + data for data in payloads]
        else:
            parts = zip(subjects, blocks, payloads, strict=True)
            contents = [b"%b\0%b\0%b" % (subject, block, data) for subject, block, data in parts]
        digests = [base64(xxh3_128_digest(content, seed)[:DIGEST_BYTES], newline=False) for content in contents]
        fresh = set(digests)
        if len(fresh) == len(digests) and seen.isdisjoint(fresh):
            seen.update(fresh)
            return [prefix + digest for digest in digests]
        return [named(digest) for digest in digests]

    def named(digest: bytes) -> bytes:
        """The id of one of several rows with this content."""
        if digest not in seen:
            seen.add(digest)
            return prefix + digest
        count = repeated[digest] = repeated.get(digest, 0) + 1
        return b"%b%b:%d" % (prefix, digest, count)

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
