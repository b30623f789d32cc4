"""Archives as nats-server made them before 2.15: its store's files in a tar.

Decided here: how those files are read. Messages lie in blocks of records; deletions are records too, or marks in the
sequence. The records' own hashes are not checked, because the archive's framing has checked every byte already.
"""

from __future__ import annotations

from typing import Any, Final

from jetspark.broker.transfer.archive import ArchiveEntry
from jetspark.broker.transfer.s2_block import DamagedArchive
from jetspark.broker.transfer.s2_frames import FrameReader

TAR_BLOCK: Final = 512
REGULAR_FILES: Final = (b"0", b"\0")
EXTENDED_HEADER: Final = b"x"
FILE_SIZE_MAX: Final = 1 << 30

RECORD_FIXED: Final = 22
HASH_SIZE: Final = 8
HAS_HEADERS: Final = 1 << 31
ERASED: Final = 1 << 63
TOMBSTONE: Final = 1 << 62
COMPRESSED_MAGIC: Final = b"cmp"
S2: Final = 1

STATE_MAGIC: Final = 22
STATE_VERSION: Final = 2
SECOND_NS: Final = 1_000_000_000

DAMAGED: Final = "invalid archive"


class TarReader:
    """Files out of a tar that comes in pieces of any size."""

    def __init__(self) -> None:
        self._data: bytes = b""
        # The name of the next file, where it did not fit into its header.
        self._long_name: str = ""
        self.has_ended: bool = False

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Names and contents of the files that are whole now."""
        self._data += data
        found: list[tuple[str, bytes]] = []
        at = 0
        while not self.has_ended and at + TAR_BLOCK <= len(self._data):
            header = self._data[at : at + TAR_BLOCK]
            if header.count(0) == TAR_BLOCK:
                self.has_ended = True
                break
            size = file_size(header)
            start = at + TAR_BLOCK
            padded_end = start + (size + TAR_BLOCK - 1) // TAR_BLOCK * TAR_BLOCK
            if padded_end > len(self._data):
                break
            content = self._data[start : start + size]
            at = padded_end
            if header[156:157] == EXTENDED_HEADER:
                self._long_name = extended_name(content)
            elif header[156:157] in REGULAR_FILES:
                found.append((self._long_name or text_field(header[:100]), content))
                self._long_name = ""
        self._data = self._data[at:]
        return found


def text_field(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")


def file_size(header: bytes) -> int:
    try:
        size = int(header[124:136].strip(b" \0") or b"0", 8)
    except ValueError:
        raise DamagedArchive(DAMAGED) from None
    if size > FILE_SIZE_MAX:
        raise DamagedArchive(DAMAGED)
    return size


def extended_name(content: bytes) -> str:
    """The path in an extended header: lines of `<length> <key>=<value>`."""
    for line in content.split(b"\n"):
        _, _, pair = line.partition(b" ")
        key, _, value = pair.partition(b"=")
        if key == b"path":
            return value.decode("utf-8", "replace")
    return ""


class OldBlock:
    """What one block holds."""

    def __init__(self) -> None:
        self.entries: list[ArchiveEntry] = []
        # Sequences deleted, here or in blocks before.
        self.removed: list[int] = []


def read_block(content: bytes) -> OldBlock:
    """The records of a block, decompressed if need be."""
    if content.startswith(COMPRESSED_MAGIC):
        content = decompress(content)
    block = OldBlock()
    at = 0
    while at + RECORD_FIXED + HASH_SIZE <= len(content):
        length = int.from_bytes(content[at : at + 4], "little")
        has_headers = bool(length & HAS_HEADERS)
        length &= ~HAS_HEADERS
        if length < RECORD_FIXED + HASH_SIZE or at + length > len(content):
            # The tail of the open block, cut while it was being written.
            break
        read_record(content[at : at + length], has_headers, block)
        at += length
    return block


def read_record(record: bytes, has_headers: bool, block: OldBlock) -> None:
    seq = int.from_bytes(record[4:12], "little")
    if seq & TOMBSTONE:
        block.removed.append(seq & ~(TOMBSTONE | ERASED))
        return
    if seq & ERASED or seq == 0:
        return
    ts_ns = int.from_bytes(record[12:20], "little", signed=True)
    start = RECORD_FIXED + int.from_bytes(record[20:22], "little")
    subject = record[RECORD_FIXED:start]
    header = b""
    if has_headers:
        header_size = int.from_bytes(record[start : start + 4], "little")
        header = record[start + 4 : start + 4 + header_size]
        start += 4 + header_size
    block.entries.append(ArchiveEntry(subject, ts_ns, seq, header, record[start:-HASH_SIZE]))


def decompress(content: bytes) -> bytes:
    """A block that was compressed when it was full: all of it but its last eight bytes."""
    if content[3:4] != bytes([S2]):
        raise DamagedArchive(DAMAGED)
    _, at = uvarint_at(content, 4)
    return FrameReader().feed(content[at:-HASH_SIZE]) + content[-HASH_SIZE:]


def uvarint_at(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise DamagedArchive(DAMAGED)


def varint_at(data: bytes, at: int) -> tuple[int, int]:
    zigzag, at = uvarint_at(data, at)
    return (zigzag >> 1) ^ -(zigzag & 1), at


def read_consumer_state(content: bytes) -> dict[str, Any]:
    """A consumer's state file, in the words of newer archives."""
    if len(content) < 2 or content[0] != STATE_MAGIC or content[1] != STATE_VERSION:
        return {}
    at = 2
    numbers: list[int] = []
    for _ in range(5):
        number, at = uvarint_at(content, at)
        numbers.append(number)
    floor_consumer, floor_stream, delivered_consumer, delivered_stream, pending_count = numbers
    pending: dict[str, dict[str, int]] = {}
    if pending_count > 0:
        base_seconds, at = varint_at(content, at)
        for _ in range(pending_count):
            stream_seq, at = uvarint_at(content, at)
            consumer_seq, at = uvarint_at(content, at)
            ago_seconds, at = varint_at(content, at)
            pending[str(stream_seq + floor_stream)] = {
                "Sequence": consumer_seq + floor_consumer,
                "Timestamp": (base_seconds - ago_seconds) * SECOND_NS,
            }
    redelivered: dict[str, int] = {}
    redelivered_count, at = uvarint_at(content, at)
    for _ in range(redelivered_count):
        stream_seq, at = uvarint_at(content, at)
        count, at = uvarint_at(content, at)
        redelivered[str(stream_seq + floor_stream)] = count
    return {
        "delivered": {"consumer_seq": delivered_consumer, "stream_seq": delivered_stream},
        "ack_floor": {"consumer_seq": floor_consumer, "stream_seq": floor_stream},
        "pending": pending,
        "redelivered": redelivered,
    }
