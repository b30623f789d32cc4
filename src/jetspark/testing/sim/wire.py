"""Bytes to and from the broker: operations with what they mean, frames with what they carry.

An operation remembers what it asks for, so that the models can be told once its last byte has arrived.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from jetspark.testing.sim.consumer_model import Delivery
from jetspark.testing.sim.model import Attempt

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1}\r\n'


@dataclass(slots=True)
class Op:
    """Something a client sends, and how much of it has arrived."""

    data: bytes
    reply: bytes = b""
    arrived: int = 0


@dataclass(slots=True)
class PublishOp(Op):
    """A message for a stream."""

    stream: str = ""
    attempt: Attempt | None = None


@dataclass(slots=True)
class AckOp(Op):
    """What a client says about a delivery."""

    stream: str = ""
    consumer: str = ""
    seq: int = 0
    body: bytes = b""


@dataclass(slots=True)
class PullOp(Op):
    """A request for messages."""

    stream: str = ""
    consumer: str = ""


@dataclass(slots=True)
class ApiOp(Op):
    """A request to `$JS.API.`"""

    verb: str = ""
    stream: str = ""
    consumer: str = ""
    document: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """A message as it left the broker."""

    subject: bytes
    sid: bytes
    reply: bytes
    header: bytes
    payload: bytes

    @property
    def status(self) -> bytes:
        """`404` and the like; empty for a message without one."""
        return self.header[9:12] if self.header.startswith(b"NATS/1.0 ") else b""


def publish_bytes(subject: bytes, reply: bytes, header: bytes, payload: bytes) -> bytes:
    """PUB, or HPUB when there are headers."""
    to = subject + b" " + reply if reply else subject
    if header:
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (to, len(header), len(header) + len(payload), header, payload)
    return b"PUB %b %d\r\n%b\r\n" % (to, len(payload), payload)


def header_block(lines: list[tuple[bytes, bytes]]) -> bytes:
    """A block of headers; nothing for no lines."""
    if not lines:
        return b""
    return b"NATS/1.0\r\n" + b"".join(b"%b: %b\r\n" % line for line in lines) + b"\r\n"


def api_bytes(verb: str, reply: bytes, document: dict[str, Any] | None) -> bytes:
    """A request to the API."""
    body = b"" if document is None else json.dumps(document).encode()
    return publish_bytes(b"$JS.API." + verb.encode(), reply, b"", body)


def read_frames(data: bytes) -> list[Frame]:
    """The messages in what the broker wrote; its other words are skipped."""
    frames: list[Frame] = []
    position = 0
    while position < len(data):
        end = data.index(b"\r\n", position)
        words = data[position:end].split(b" ")
        position = end + 2
        verb = words[0]
        if verb == b"MSG":
            size, header_size, count = int(words[-1]), 0, 5
        elif verb == b"HMSG":
            size, header_size, count = int(words[-1]), int(words[-2]), 6
        else:
            assert verb in (b"INFO", b"PONG", b"PING"), f"the broker said {data[position - 80 : end]!r}"
            continue
        body = data[position : position + size]
        position += size + 2
        reply = words[3] if len(words) == count else b""
        frames.append(Frame(words[1], words[2], reply, body[:header_size], body[header_size:]))
    return frames


def read_delivery(frame: Frame) -> Delivery | None:
    """What the ack subject of a delivery says; None for any other message."""
    if not frame.reply.startswith(b"$JS.ACK."):
        return None
    words = frame.reply.split(b".")
    return Delivery(
        stream=words[2].decode(),
        consumer=words[3].decode(),
        deliveries=int(words[4]),
        seq=int(words[5]),
        consumer_seq=int(words[6]),
        ts_ns=int(words[7]),
        pending=int(words[8]),
        subject=frame.subject,
        header=frame.header,
        payload=frame.payload,
    )
