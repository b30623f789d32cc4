"""What replies become when the commit they waited for failed.

Replies are held as finished frames, so that the normal case costs nothing; in the rare case they are read back here
and each turned into the error its requester understands. An acknowledgement is never sent for what is not durable.
"""

from __future__ import annotations

import json

from jetspark.protocol.outbox import Outbox


def refusals(frames: bytes, error: str) -> bytes:
    """The held MSG/HMSG frames, each as an error reply to the same subscription."""
    out = Outbox()
    position = 0
    while position < len(frames):
        end = frames.index(b"\r\n", position)
        words = frames[position:end].split()
        size = int(words[-1])
        header_size = int(words[-2]) if words[0] == b"HMSG" else 0
        start = end + 2
        body = frames[start : start + size]
        position = start + size + 2
        # Only a message read directly has headers: there is no such message, and its reader asks again.
        refusal = refuse(body, error) if header_size == 0 else b""
        if refusal:
            out.put_message(words[1], words[2], b"", 0, refusal)
    return out.take()


def refuse(body: bytes, error: str) -> bytes:
    """The error document for one reply; b"" for one that is no document (double ack, message): it is asked again."""
    if not body:
        return b""
    try:
        document = json.loads(body)
    except ValueError:
        return b""
    if not isinstance(document, dict):
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
