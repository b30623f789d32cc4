"""Bytes on their way to one peer: the frames a server writes, joined before they leave.

The hot frames (a message, a stored message with its ack subject, a publish acknowledgement) have two bodies: native
digits into a BytesWriter when this module is compiled, CPython's own formatting when it is not. A property test holds
the two equal. Knows nothing of sockets: `take()` hands the bytes to whoever writes them.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

COMPILED: Final[bool] = not __file__.endswith(".py")

SPACE: Final = 32
DOT: Final = 46


# Four digits at a time from a table: a division a digit is what a number costs otherwise.
FOUR_DIGITS: Final[list[bytes]] = [b"%04d" % number for number in range(10000)]
SHORT_NUMBERS: Final[list[bytes]] = [b"%d" % number for number in range(10000)]
# How a line ends that says a payload's size.
SIZE_ENDINGS: Final[list[bytes]] = [b" %d\r\n" % number for number in range(4096)]


def put_int(writer: BytesWriter, value: i64) -> None:
    """Decimal digits of a number that is not negative."""
    if value < 10000:
        writer.write(SHORT_NUMBERS[value])
        return
    high: i64 = value // 10000
    if high < 10000:
        writer.write(SHORT_NUMBERS[high])
    else:
        higher: i64 = high // 10000
        if higher < 10000:
            writer.write(SHORT_NUMBERS[higher])
        else:
            put_int(writer, higher)
        writer.write(FOUR_DIGITS[high - higher * 10000])
    writer.write(FOUR_DIGITS[value - high * 10000])


def put_size(writer: BytesWriter, size: i64) -> None:
    """The end of a line: the size of what follows it."""
    if size < len(SIZE_ENDINGS):
        writer.write(SIZE_ENDINGS[size])
        return
    writer.append(SPACE)
    put_int(writer, size)
    writer.write(b"\r\n")


class Outbox:
    """Frames waiting for one peer. `size` counts their bytes."""

    def __init__(self) -> None:
        self._writer: BytesWriter = BytesWriter()
        self._parts: list[bytes] = []
        self.size: i64 = 0
        # The time of the delivery before, and the last one that came twice as text: what was published together has
        # one time, and its nineteen digits are the longest number of a delivery.
        self._last_ts_ns: i64 = -1
        self._text_ts_ns: i64 = -1
        self._ts_text: bytes = b""
        # How the last first delivery without headers began, and what that was made of: the next begins alike.
        self._head: bytes = b""
        self._head_subject: bytes = b""
        self._head_sid: bytes = b""
        self._head_prefix: bytes = b""

    def take(self) -> bytes:
        """Everything written so far; the box is empty afterwards."""
        self.size = 0
        if COMPILED:
            data = self._writer.getvalue()
            self._writer = BytesWriter()
            return data
        joined = b"".join(self._parts)
        self._parts = []
        return joined

    def put(self, data: bytes) -> None:
        if COMPILED:
            self._writer.write(data)
            self.size = len(self._writer)
        else:
            self._parts.append(data)
            self.size += len(data)

    def put_message(self, subject: bytes, sid: bytes, reply: bytes, header_size: i64, body: bytes) -> None:
        """`MSG subject sid [reply] size` or, with headers, `HMSG …`; body is header block and payload together."""
        if COMPILED:
            writer = self._writer
            writer.write(b"HMSG " if header_size > 0 else b"MSG ")
            writer.write(subject)
            writer.append(SPACE)
            writer.write(sid)
            writer.append(SPACE)
            if reply:
                writer.write(reply)
                writer.append(SPACE)
            if header_size > 0:
                put_int(writer, header_size)
                writer.append(SPACE)
            put_int(writer, len(body))
            writer.write(b"\r\n")
            writer.write(body)
            writer.write(b"\r\n")
            self.size = len(writer)
            return
        where = b"%b %b %b " % (subject, sid, reply) if reply else b"%b %b " % (subject, sid)
        if header_size > 0:
            frame = b"HMSG %b%d %d\r\n%b\r\n" % (where, header_size, len(body), body)
        else:
            frame = b"MSG %b%d\r\n%b\r\n" % (where, len(body), body)
        self._parts.append(frame)
        self.size += len(frame)

    def put_number_reply(self, subject: bytes, sid: bytes, before: bytes, number: i64, after: bytes) -> i64:
        """A reply whose body is one number between two constant texts: a publish acknowledgement. The body's size."""
        if COMPILED:
            writer = self._writer
            digits: i64 = 1
            left: i64 = number
            while left >= 10:
                left = left // 10
                digits += 1
            writer.write(b"MSG ")
            writer.write(subject)
            writer.append(SPACE)
            writer.write(sid)
            writer.append(SPACE)
            body_size: i64 = len(before) + digits + len(after)
            put_int(writer, body_size)
            writer.write(b"\r\n")
            writer.write(before)
            put_int(writer, number)
            writer.write(after)
            writer.write(b"\r\n")
            self.size = len(writer)
            return body_size
        body = b"%b%d%b" % (before, number, after)
        frame = b"MSG %b %b %d\r\n%b\r\n" % (subject, sid, len(body), body)
        self._parts.append(frame)
        self.size += len(frame)
        return len(body)

    def put_number_replies(self, subjects: list[bytes], sid: bytes, before: bytes, first: int, after: bytes) -> int:
        """The same for consecutive numbers, one subject each. The bodies' size together."""
        if COMPILED:
            total = 0
            number: i64 = first
            for subject in subjects:
                total += self.put_number_reply(subject, sid, before, number, after)
                number += 1
            return total
        fixed_size = len(before) + len(after)
        frames: list[bytes] = []
        total = fixed_size * len(subjects)
        for value, subject in enumerate(subjects, first):
            digits = b"%d" % value
            total += len(digits)
            frames.append(
                b"MSG %b %b %d\r\n%b%b%b\r\n" % (subject, sid, fixed_size + len(digits), before, digits, after)
            )
        joined = b"".join(frames)
        self._parts.append(joined)
        self.size += len(joined)
        return total

    def put_delivery(
        self,
        subject: bytes,
        sid: bytes,
        ack_prefix: bytes,
        deliveries: i64,
        stream_seq: i64,
        consumer_seq: i64,
        ts_ns: i64,
        pending: i64,
        header_size: i64,
        body: bytes,
    ) -> None:
        """A stored message with the reply subject that acknowledges it: `<prefix>deliveries.sseq.cseq.ts.pending`."""
        if COMPILED:
            writer = self._writer
            if header_size == 0 and deliveries == 1:
                self._put_usual_head(subject, sid, ack_prefix)
            else:
                writer.write(b"HMSG " if header_size > 0 else b"MSG ")
                writer.write(subject)
                writer.append(SPACE)
                writer.write(sid)
                writer.append(SPACE)
                writer.write(ack_prefix)
                put_int(writer, deliveries)
                writer.append(DOT)
            put_int(writer, stream_seq)
            writer.append(DOT)
            put_int(writer, consumer_seq)
            self._put_time(ts_ns)
            put_int(writer, pending)
            if header_size > 0:
                writer.append(SPACE)
                put_int(writer, header_size)
            put_size(writer, len(body))
            writer.write(body)
            writer.write(b"\r\n")
            self.size = len(writer)
            return
        reply = b"%b%d.%d.%d.%d.%d" % (ack_prefix, deliveries, stream_seq, consumer_seq, ts_ns, pending)
        if header_size > 0:
            frame = b"HMSG %b %b %b %d %d\r\n%b\r\n" % (subject, sid, reply, header_size, len(body), body)
        else:
            frame = b"MSG %b %b %b %d\r\n%b\r\n" % (subject, sid, reply, len(body), body)
        self._parts.append(frame)
        self.size += len(frame)

    def _put_usual_head(self, subject: bytes, sid: bytes, ack_prefix: bytes) -> None:
        """Everything before the sequence of a first delivery. Identity is asked for, which costs nothing."""
        if subject is not self._head_subject or sid is not self._head_sid or ack_prefix is not self._head_prefix:
            self._head_subject = subject
            self._head_sid = sid
            self._head_prefix = ack_prefix
            self._head = b"MSG " + subject + b" " + sid + b" " + ack_prefix + b"1."
        self._writer.write(self._head)

    def _put_time(self, ts_ns: i64) -> None:
        """The time of a delivery between its dots."""
        writer = self._writer
        if ts_ns == self._last_ts_ns:
            if ts_ns != self._text_ts_ns:
                self._text_ts_ns = ts_ns
                self._ts_text = b"." + str(ts_ns).encode("ascii") + b"."
            writer.write(self._ts_text)
            return
        self._last_ts_ns = ts_ns
        writer.append(DOT)
        put_int(writer, ts_ns)
        writer.append(DOT)
