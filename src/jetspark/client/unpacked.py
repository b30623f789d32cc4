"""How much is in a snapshot, counted while it passes by and without unpacking it.

A snapshot is S2 frames: a byte for the kind, three for the length, then the frame. A packed frame holds a checksum of
four bytes and then how long it is unpacked; a plain one holds the checksum and the bytes themselves.
"""

from __future__ import annotations

from typing import Final

HEADER_BYTES: Final = 4
CHECKSUM_BYTES: Final = 4
# A length is written seven bits a byte; no frame is longer than five such bytes tell.
LENGTH_BYTES: Final = 5
PACKED: Final = 0x00
PLAIN: Final = 0x01


class UnpackedCount:
    """Counts the unpacked bytes of the frames that are fed to it, in pieces of any size."""

    def __init__(self) -> None:
        self.byte_count = 0
        self._head = bytearray()
        self._skip_bytes = 0

    def feed(self, piece: bytes) -> None:
        """The next bytes of the snapshot."""
        position = 0
        while position < len(piece):
            if self._skip_bytes:
                step = min(self._skip_bytes, len(piece) - position)
                self._skip_bytes -= step
            else:
                step = min(self._head_bytes() - len(self._head), len(piece) - position)
                self._head += piece[position : position + step]
                if len(self._head) == self._head_bytes():
                    self._begin_frame()
            position += step

    def _frame_bytes(self) -> int:
        return int.from_bytes(self._head[1:HEADER_BYTES], "little")

    def _head_bytes(self) -> int:
        """How much of the frame's beginning has to be seen: for a packed one, its unpacked length too."""
        if len(self._head) < HEADER_BYTES or self._head[0] != PACKED:
            return HEADER_BYTES
        return HEADER_BYTES + min(self._frame_bytes(), CHECKSUM_BYTES + LENGTH_BYTES)

    def _begin_frame(self) -> None:
        head, length = self._head, self._frame_bytes()
        if head[0] == PACKED:
            for index, byte in enumerate(head[HEADER_BYTES + CHECKSUM_BYTES :]):
                self.byte_count += (byte & 0x7F) << (7 * index)
                if byte < 0x80:
                    break
        elif head[0] == PLAIN:
            self.byte_count += max(0, length - CHECKSUM_BYTES)
        self._skip_bytes = length - (len(head) - HEADER_BYTES)
        self._head = bytearray()
