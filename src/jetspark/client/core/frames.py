"""The bytes the client sends.

Checks what goes on a control line, because a subject with a line break in it would be a second command. A subject
is checked once and remembered: a publisher uses few subjects many times.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from jetspark.client.errors import BadSubjectError
from jetspark.protocol.outbox import put_int
from jetspark.protocol.subjects import has_wildcard, is_valid_subject

IS_NATIVE: Final = not __file__.endswith(".py")
# Above this a payload is worth copying once less.
SMALL_SIZE: Final = 4096
_SPACE: Final = 32

# What a header block begins with, and the line of a message id.
_FIRST_LINE: Final = b"NATS/1.0\r\n"
_ID_START: Final = b"Nats-Msg-Id: "

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"

# Beyond this many different subjects the memory of checked ones starts afresh instead of growing.
CHECKED_MAX: Final = 16384


def _encode(subject: str) -> bytes:
    try:
        return subject.encode("utf-8", "surrogateescape")
    except (UnicodeEncodeError, AttributeError):
        raise BadSubjectError(f"not a subject: {subject!r}") from None


def pattern_bytes(subject: str) -> bytes:
    """A subject to subscribe to, checked; wildcards allowed."""
    encoded = _encode(subject)
    if not is_valid_subject(encoded):
        raise BadSubjectError(f"not a subject: {subject!r}")
    return encoded


def queue_bytes(queue: str) -> bytes:
    """A queue group's name, checked; empty for none."""
    encoded = _encode(queue)
    if encoded and not is_valid_subject(encoded):
        raise BadSubjectError(f"not a queue group: {queue!r}")
    return encoded


class SubjectBook:
    """Subjects already checked for publishing."""

    def __init__(self) -> None:
        self.checked: dict[str, bytes] = {}

    def literal(self, subject: str) -> bytes:
        """The bytes of a subject one can publish to; BadSubjectError for a pattern or for no subject."""
        known = self.checked.get(subject)
        if known is not None:
            return known
        encoded = _encode(subject)
        if not is_valid_subject(encoded) or has_wildcard(encoded):
            raise BadSubjectError(f"not a subject to publish to: {subject!r}")
        if len(self.checked) >= CHECKED_MAX:
            self.checked.clear()
        self.checked[subject] = encoded
        return encoded


def block_frames(
    prefix: bytes, subjects: list[bytes], blocks: list[bytes], payloads: list[bytes], ids: list[bytes]
) -> bytes:
    """Messages one after another, each with a reply subject that ends in its place; `ids` may be empty."""
    if not IS_NATIVE:
        return block_frames_plain(prefix, subjects, blocks, payloads, ids)
    return block_frames_native(prefix, subjects, blocks, payloads, ids)


def block_frames_plain(
    prefix: bytes, subjects: list[bytes], blocks: list[bytes], payloads: list[bytes], ids: list[bytes]
) -> bytes:
    """The same, formatted by CPython."""
    if ids:
        blocks = [
            b"%bNats-Msg-Id: %b\r\n\r\n" % (block[:-2] if block else _FIRST_LINE, one)
            for block, one in zip(blocks, ids, strict=True)
        ]
    return b"".join(
        [
            publish_plain(subjects[place], b"%b%d" % (prefix, place), blocks[place], payloads[place])
            for place in range(len(payloads))
        ]
    )


def block_frames_native(
    prefix: bytes, subjects: list[bytes], blocks: list[bytes], payloads: list[bytes], ids: list[bytes]
) -> bytes:
    """The same by native writes, all into one buffer."""
    writer = BytesWriter()
    count: i64 = len(payloads)
    place: i64 = 0
    while place < count:
        block = blocks[place]
        data = payloads[place]
        message_id = ids[place] if ids else b""
        size: i64 = len(data)
        header_size: i64 = len(block)
        if message_id:
            header_size = (header_size - 2 if block else len(_FIRST_LINE)) + len(_ID_START) + len(message_id) + 4
        writer.write(b"HPUB " if header_size > 0 else b"PUB ")
        writer.write(subjects[place])
        writer.append(_SPACE)
        writer.write(prefix)
        put_int(writer, place)
        writer.append(_SPACE)
        if header_size > 0:
            put_int(writer, header_size)
            writer.append(_SPACE)
        put_int(writer, header_size + size)
        writer.write(b"\r\n")
        if message_id:
            writer.write(block[:-2] if block else _FIRST_LINE)
            writer.write(_ID_START)
            writer.write(message_id)
            writer.write(b"\r\n\r\n")
        else:
            writer.write(block)
        writer.write(data)
        writer.write(b"\r\n")
        place += 1
    return writer.getvalue()


class FrameMaker:
    """Makes the frames of messages. Two bodies: one writes into a buffer it keeps, which is what compiled code does
    fast; the other lets CPython format, which is better for a large payload too, because it is copied once.
    """

    def __init__(self) -> None:
        self._writer = BytesWriter()

    def publish(self, subject: bytes, reply: bytes, block: bytes, data: bytes) -> bytes:
        """PUB, or HPUB when there are headers."""
        if IS_NATIVE and len(data) <= SMALL_SIZE:
            return self.publish_native(subject, reply, block, data)
        return publish_plain(subject, reply, block, data)

    def publish_native(self, subject: bytes, reply: bytes, block: bytes, data: bytes) -> bytes:
        """The same by native writes."""
        writer = self._writer
        size: i64 = len(data)
        writer.write(b"HPUB " if block else b"PUB ")
        writer.write(subject)
        writer.append(_SPACE)
        if reply:
            writer.write(reply)
            writer.append(_SPACE)
        if block:
            header_size: i64 = len(block)
            put_int(writer, header_size)
            writer.append(_SPACE)
            put_int(writer, header_size + size)
            writer.write(b"\r\n")
            writer.write(block)
        else:
            put_int(writer, size)
            writer.write(b"\r\n")
        writer.write(data)
        writer.write(b"\r\n")
        frame = writer.getvalue()
        writer.truncate(0)
        return frame


def publish_plain(subject: bytes, reply: bytes, block: bytes, data: bytes) -> bytes:
    """PUB, or HPUB when there are headers."""
    size = len(data)
    if block:
        header_size = len(block)
        if reply:
            return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject, reply, header_size, header_size + size, block, data)
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, header_size, header_size + size, block, data)
    if reply:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, size, data)
    return b"PUB %b %d\r\n%b\r\n" % (subject, size, data)


def published_block(frame: bytes) -> bytes:
    """The header block of a PUB or HPUB frame, without the body; empty when there are no headers."""
    if not frame.startswith(b"HPUB "):
        return b""
    start = frame.index(b"\r\n") + 2
    # HPUB <subject> [reply] <size of the block> <size of all>
    size = int(frame[:start].split()[-2])
    return frame[start : start + size]
