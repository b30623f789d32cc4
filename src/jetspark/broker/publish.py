"""One message on its way into a stream, with what its headers ask for.

Knows the names of the headers that mean something to a stream, and how they are read: exact names, the first of each
counts, spaces before the value do not. What the values mean is decided in `ingest.py` and beside it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from jetspark.protocol import headers
from jetspark.protocol.outbox import COMPILED
from jetspark.protocol.subjects import is_at

HEADER_SIZE_MAX: Final = 65535

MESSAGE_ID: Final = b"Nats-Msg-Id"
EXPECTED_STREAM: Final = b"Nats-Expected-Stream"
EXPECTED_LAST_SEQUENCE: Final = b"Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE: Final = b"Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT: Final = b"Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_LAST_MESSAGE_ID: Final = b"Nats-Expected-Last-Msg-Id"
ROLLUP: Final = b"Nats-Rollup"
TTL: Final = b"Nats-TTL"
STREAM_SOURCE: Final = b"Nats-Stream-Source"
INCREMENT: Final = b"Nats-Incr"
SCHEDULE: Final = b"Nats-Schedule"
SCHEDULE_NEXT: Final = b"Nats-Schedule-Next"
SCHEDULER: Final = b"Nats-Scheduler"
BATCH_ID: Final = b"Nats-Batch-Id"
BATCH_SEQUENCE: Final = b"Nats-Batch-Sequence"
BATCH_COMMIT: Final = b"Nats-Batch-Commit"
# How the reply of a part of a fast batch ends, whatever the stream thinks of such batches.
FAST_BATCH_SUFFIX: Final = b".$FI"
# What a service import may add about who asked; never stored.
REQUEST_INFO: Final = b"Nats-Request-Info"

# How a header block begins that has no status, a line that asks for something, and the one that most ask with.
PLAIN_START: Final = b"NATS/1.0\r\n"
ASK_START: Final = b"\r\nNats-"
MESSAGE_ID_START: Final = b"\r\nNats-Msg-Id:"
LINE_END: Final = b"\r\n"
CARRIAGE_RETURN: Final = 13
LINE_FEED: Final = 10
SPACE: Final = 32


class Publish:
    """A message that wants to be stored."""

    def __init__(self, subject: bytes, reply: bytes, header: bytes, payload: bytes) -> None:
        self.subject = subject
        self.reply = reply
        self.header = header
        self.payload = payload
        self.asks: dict[bytes, bytes] = nats_headers(header) if header else {}
        if self.asks and REQUEST_INFO in self.asks:
            self.header = headers.remove_headers(header, [REQUEST_INFO], [])
        self.message_id: bytes = self.asks.get(MESSAGE_ID, b"")
        # b"", b"sub" or b"all".
        self.rollup: bytes = self.asks.get(ROLLUP, b"").lower()
        # Text that ends the acknowledgement, after the sequence.
        self.ack_after: bytes = b"}"
        # The sequence of the earlier message with the same id.
        self.duplicate_of: i64 = 0
        # Sourced and scheduled messages and markers are the server's own: rules for clients do not apply.
        self.is_internal: bool = False
        # Seconds; 0 is none of its own, -1 never ends.
        self.lifetime_s: int = 0
        self.has_increment: bool = False
        self.increment: int = 0
        # When a message that is a schedule fires first; 0 for any other.
        self.fires_ns: i64 = 0
        # A subject whose schedule ends with this message.
        self.ends_schedule: bytes = b""
        # A copy (mirror) keeps the sequence and time of its original; 0 for a message that is new here.
        self.copy_seq: i64 = 0
        self.copy_ts_ns: i64 = 0


def nats_headers(block: bytes) -> dict[bytes, bytes]:
    """The `Nats-…` lines of a block; the first of each name counts."""
    found: dict[bytes, bytes] = {}
    if b"\r\nNats-" not in block:
        return found
    for line in block.split(b"\r\n"):
        if line.startswith(b"Nats-"):
            name, colon, value = line.partition(b":")
            if colon and name not in found:
                found[name] = value.lstrip(b" ")
    return found


def plain_message_id(header: bytes) -> bytes | None:
    """The id of a message whose headers ask for nothing else; empty when they ask for nothing at all.

    None when they ask for more, or are not plain lines: such a message takes the long way.
    """
    if len(header) > HEADER_SIZE_MAX or not header.startswith(PLAIN_START):
        return None
    return message_id_native(header) if COMPILED else message_id_plain(header)


def message_id_plain(header: bytes) -> bytes | None:
    at = header.find(ASK_START)
    if at < 0:
        return b""
    start = at + len(MESSAGE_ID_START)
    end = header.find(LINE_END, start)
    if end < 0 or not header.startswith(MESSAGE_ID_START, at) or header.find(ASK_START, start) >= 0:
        return None
    return header[start:end].lstrip(b" ")


def message_id_native(header: bytes) -> bytes | None:
    """The same, byte by byte: compiled, a search costs more to call than to do."""
    size: i64 = len(header)
    start: i64 = 0
    end: i64 = 0
    at: i64 = 0
    while at + 1 < size:
        if header[at] != CARRIAGE_RETURN or header[at + 1] != LINE_FEED:
            at += 1
            continue
        if start > 0 and end == 0:
            end = at
        if is_at(ASK_START, header, at, min(at + len(ASK_START), size)):
            if start > 0 or not is_at(MESSAGE_ID_START, header, at, min(at + len(MESSAGE_ID_START), size)):
                return None
            start = at + len(MESSAGE_ID_START)
            while start < size and header[start] == SPACE:
                start += 1
            at = start
        else:
            at += 2
    if start == 0:
        return b""
    return header[start:end] if end > 0 else None
