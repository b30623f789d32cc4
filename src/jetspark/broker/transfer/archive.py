"""The archive of a stream, before it is framed: `NATSARC1`, then entries, then an empty one.

An entry is a name, a time, a sequence, headers and a payload. First comes `state.json`, then `consumers/<name>` for
each consumer, then every message under its subject. Decided here: the bytes. What the documents say is not.
"""

from __future__ import annotations

from typing import Final

from jetspark.broker.transfer.s2_block import DamagedArchive

MAGIC: Final = b"NATSARC1"
STATE_NAME: Final = b"state.json"
CONSUMER_PREFIX: Final = b"consumers/"
END: Final = b"\0\0\0\0\0"

# A subject, headers and a payload; nothing an honest archive holds is larger.
PART_SIZE_MAX: Final = 128 * 1024 * 1024
DAMAGED: Final = "invalid archive"


def uvarint(value: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_entry(name: bytes, ts_ns: int, seq: int, header: bytes, payload: bytes) -> bytes:
    sign = -1 if ts_ns < 0 else 0
    parts = [
        uvarint(len(name)),
        uvarint((ts_ns << 1) ^ sign),
        uvarint(seq),
        uvarint(len(header)),
        uvarint(len(payload)),
        name,
        header,
        payload,
    ]
    return b"".join(parts)


class ArchiveEntry:
    """One entry as it was read."""

    def __init__(self, name: bytes, ts_ns: int, seq: int, header: bytes, payload: bytes) -> None:
        self.name = name
        self.ts_ns = ts_ns
        self.seq = seq
        self.header = header
        self.payload = payload


class ArchiveReader:
    """Entries out of pieces of any size. The magic has been read by whoever chose this reader."""

    def __init__(self) -> None:
        self._data: bytes = b""
        self._at: int = 0
        self.has_ended: bool = False

    def feed(self, data: bytes) -> list[ArchiveEntry]:
        """The entries that are whole now."""
        self._data = self._data[self._at :] + data
        self._at = 0
        found: list[ArchiveEntry] = []
        while not self.has_ended:
            entry = self._next()
            if entry is None:
                return found
            if not entry.name:
                self.has_ended = True
            else:
                found.append(entry)
        return found

    def _next(self) -> ArchiveEntry | None:
        numbers: list[int] = []
        at = self._at
        for _ in range(5):
            value, at = self._number(at)
            if at == 0:
                return None
            numbers.append(value)
        name_size, zigzag, seq, header_size, payload_size = numbers
        if max(name_size, header_size, payload_size) > PART_SIZE_MAX or seq >= 1 << 62:
            raise DamagedArchive(DAMAGED)
        end = at + name_size + header_size + payload_size
        data = self._data
        if end > len(data):
            return None
        header_at = at + name_size
        payload_at = header_at + header_size
        self._at = end
        ts_ns = (zigzag >> 1) ^ -(zigzag & 1)
        return ArchiveEntry(data[at:header_at], ts_ns, seq, data[header_at:payload_at], data[payload_at:end])

    def _number(self, at: int) -> tuple[int, int]:
        """A number and where it ends; 0 for the end when it is not all there."""
        value = 0
        shift = 0
        data = self._data
        while at < len(data):
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift > 63:
                raise DamagedArchive(DAMAGED)
        return 0, 0
