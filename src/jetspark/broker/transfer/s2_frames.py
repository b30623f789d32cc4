"""S2's framing: a stream cut into chunks, each with the checksum of what it stands for.

Written here: one compressed block a chunk, or the bytes themselves where that is shorter. Read here: everything a
writer of S2 or Snappy may send, in pieces of any size.
"""

from __future__ import annotations

from typing import Final

from jetspark.broker.transfer.crc32c import crc32c, masked
from jetspark.broker.transfer.s2_block import BLOCK_SIZE_MAX, DamagedArchive, decode_block
from jetspark.broker.transfer.s2_encoder import encode_block

COMPRESSED: Final = 0x00
PLAIN: Final = 0x01
# Chunk types below this must be understood, those from it on may be passed over.
SKIPPABLE: Final = 0x80
STREAM_START: Final = 0xFF

START: Final = b"\xff\x06\x00\x00S2sTwO"
START_WORDS: Final = (b"S2sTwO", b"sNaPpY")
# What one chunk stands for, at most. The format would take 4 MiB; less keeps a turn of the loop short.
CHUNK_SIZE: Final = 256 * 1024
# Nothing a writer makes of the largest block comes near this.
FRAME_SIZE_MAX: Final = BLOCK_SIZE_MAX * 2

UNSUPPORTED: Final = "s2: unsupported input"
CHECKSUM_WRONG: Final = "s2: crc mismatch"


def encode_frames(data: bytes) -> bytes:
    """The data as chunks; `START` comes before the first of them."""
    parts: list[bytes] = []
    for start in range(0, len(data), CHUNK_SIZE):
        piece = data[start : start + CHUNK_SIZE]
        kind = COMPRESSED
        content = encode_block(piece)
        if len(content) >= len(piece):
            kind, content = PLAIN, piece
        parts.append(bytes([kind]) + (len(content) + 4).to_bytes(3, "little"))
        parts.append(masked(crc32c(piece)).to_bytes(4, "little"))
        parts.append(content)
    return b"".join(parts)


class FrameReader:
    """Puts chunks back together, whatever the pieces they come in."""

    def __init__(self) -> None:
        self._rest: bytes = b""
        self._has_started: bool = False

    def feed(self, data: bytes) -> bytes:
        """What the chunks that are whole now stand for."""
        data = self._rest + data
        parts: list[bytes] = []
        at = 0
        while at + 4 <= len(data):
            size = int.from_bytes(data[at + 1 : at + 4], "little")
            if size > FRAME_SIZE_MAX or (not self._has_started and data[at] != STREAM_START):
                raise DamagedArchive(UNSUPPORTED)
            if at + 4 + size > len(data):
                break
            parts.append(self._chunk(data[at], data[at + 4 : at + 4 + size]))
            at += 4 + size
        self._rest = data[at:]
        return b"".join(parts)

    def _chunk(self, kind: int, content: bytes) -> bytes:
        if kind == STREAM_START:
            if content not in START_WORDS:
                raise DamagedArchive(UNSUPPORTED)
            self._has_started = True
            return b""
        if kind >= SKIPPABLE:
            return b""
        if kind not in (COMPRESSED, PLAIN) or len(content) < 4:
            raise DamagedArchive(UNSUPPORTED)
        data = decode_block(content[4:]) if kind == COMPRESSED else content[4:]
        if masked(crc32c(data)) != int.from_bytes(content[:4], "little"):
            raise DamagedArchive(CHECKSUM_WRONG)
        return data

    def is_whole(self) -> bool:
        """Did the stream end at the end of a chunk?"""
        return not self._rest
