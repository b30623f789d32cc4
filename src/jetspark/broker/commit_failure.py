"""What replies become when the commit they waited for failed.

Replies are held as finished frames, so that the normal case costs nothing; in the rare case they are read back here
and each turned into the error its requester understands. An acknowledgement is never sent for what is not durable.
Replies that tell of a removal are told apart: whether something is gone depends on nothing else in the commit.
"""

from __future__ import annotations

import json
from typing import Any, Final

from jetspark.api.responses import CONSUMER_DELETE, STREAM_DELETE, TYPE_PREFIX
from jetspark.protocol.outbox import Outbox

_REMOVED: Final = (TYPE_PREFIX + STREAM_DELETE, TYPE_PREFIX + CONSUMER_DELETE)


class Frame:
    """One held MSG or HMSG frame."""

    def __init__(self, frames: bytes, start: int) -> None:
        line_end = frames.index(b"\r\n", start)
        words = frames[start:line_end].split()
        size = int(words[-1])
        self.subject: bytes = words[1]
        self.sid: bytes = words[2]
        self.has_header: bool = words[0] == b"HMSG"
        self.body: bytes = frames[line_end + 2 : line_end + 2 + size]
        self.whole: bytes = frames[start : line_end + 2 + size + 2]


def read_frames(frames: bytes) -> list[Frame]:
    found: list[Frame] = []
    position = 0
    while position < len(frames):
        frame = Frame(frames, position)
        found.append(frame)
        position += len(frame.whole)
    return found


def split_removals(frames: bytes) -> tuple[bytes, bytes]:
    """The frames that tell of a removed stream or consumer, and the others."""
    removals: list[bytes] = []
    others: list[bytes] = []
    for frame in read_frames(frames):
        document = read_document(frame.body) if not frame.has_header else None
        is_removal = document is not None and document.get("type") in _REMOVED
        (removals if is_removal else others).append(frame.whole)
    return b"".join(removals), b"".join(others)


def refusals(frames: bytes, error: str) -> bytes:
    """The held MSG/HMSG frames, each as an error reply to the same subscription."""
    out = Outbox()
    for frame in read_frames(frames):
        # Only a message read directly has headers: there is no such message, and its reader asks again.
        refusal = refuse(frame.body, error) if not frame.has_header else b""
        if refusal:
            out.put_message(frame.subject, frame.sid, b"", 0, refusal)
    return out.take()


def read_document(body: bytes) -> dict[str, Any] | None:
    """The document a reply consists of; None for one that is none."""
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def refuse(body: bytes, error: str) -> bytes:
    """The error document for one reply; b"" for one that is no document (double ack, message): it is asked again."""
    document = read_document(body)
    if document is None:
        return b""
    failure = {"code": 503, "err_code": 10077, "description": error}
    if document.get("type") == "ack":
        # The flow of a fast batch.
        failed = {"type": "err", "seq": document["seq"], "error": failure}
        return json.dumps(failed, separators=(",", ":")).encode()
    if "type" in document:
        return json.dumps({"type": document["type"], "error": failure}, separators=(",", ":")).encode()
    stream = document.get("stream", "")
    return json.dumps({"error": failure, "stream": stream, "seq": 0}, separators=(",", ":")).encode()
