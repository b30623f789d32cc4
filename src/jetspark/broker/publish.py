"""One message on its way into a stream, with what its headers ask for.

Knows the names of the headers that mean something to a stream, and how they are read: exact names, the first of each
counts, spaces before the value do not. What the values mean is decided in `ingest.py` and beside it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from jetspark.protocol import headers

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
