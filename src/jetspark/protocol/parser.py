"""What a client says, read from whatever the socket had: PUB, HPUB, SUB, UNSUB, CONNECT, PING, PONG.

The parser calls its handler once an operation with slices of the input and keeps what is incomplete for the next
read. Decided here: grammar, limits of line and payload, which mistakes close with a text and which in silence. Not
known here: what any operation means.
"""

from __future__ import annotations

import re
from typing import Final

from mypy_extensions import i64, mypyc_attr, u8

from jetspark.protocol.outbox import COMPILED
from jetspark.protocol.subjects import is_at

UNKNOWN_OPERATION: Final = "Unknown Protocol Operation"
PAYLOAD_VIOLATION: Final = "Maximum Payload Violation"
CONTROL_LINE_EXCEEDED: Final = "maximum control line exceeded"

NEEDS_ARGUMENTS: Final = (b"PUB", b"HPUB", b"SUB", b"UNSUB")

# As nearly all publishes are: no headers, a reply that is no subject of the server's own nor a part of a fast batch.
_USUAL_PUBLISH: Final = re.compile(rb"PUB (?!\$|_GR_\.)(\S+) (?!\$|_G?R_\.)(\S*[^\sI]) (\d{1,9})\r\n")

# What the scan of one publish line can say besides a position.
INCOMPLETE: Final = -1
FAILED: Final = -2


@mypyc_attr(allow_interpreted_subclasses=True)
class OpHandler:
    """Who is told what was read. `halted` stops the parser after the current operation."""

    def __init__(self) -> None:
        self.halted: bool = False

    def on_pub(self, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> None:
        raise NotImplementedError

    def on_hpub(self, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> None:
        raise NotImplementedError

    def on_run(self, subject: bytes, replies: list[bytes], bodies: list[bytes]) -> None:
        """Usual publishes to one subject, in a row. Plain Python pays by the call, so they come together there."""
        for reply, body in zip(replies, bodies, strict=True):
            if not self.halted:
                self.on_pub(subject, reply, 0, body)

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        raise NotImplementedError

    def on_unsub(self, sid: bytes, max_messages: i64) -> None:
        raise NotImplementedError

    def on_connect(self, document: bytes) -> None:
        """May be longer than a line may be, and then is not whole: who has not logged in yet hears that here."""
        raise NotImplementedError

    def on_ping(self) -> None:
        raise NotImplementedError

    def on_pong(self) -> None:
        raise NotImplementedError

    def on_violation(self, text: str) -> None:
        """The peer broke the protocol and must go; an empty text means without a word."""
        raise NotImplementedError


def read_number(text: bytes) -> int:
    """A size argument; -1 for anything but digits, and for more digits than any limit allows."""
    if not text or len(text) > 9 or not text.isdigit():
        return -1
    return int(text)


class Parser:
    """Feeds a handler from a byte stream cut at arbitrary places."""

    def __init__(self, handler: OpHandler, max_payload: int, max_control_line: int) -> None:
        self._handler = handler
        self.max_payload: i64 = max_payload
        self.max_control_line: i64 = max_control_line
        self._chunks: list[bytes] = []
        self._chunks_size: i64 = 0
        self._needed: i64 = 0
        # The subject of the publish before: most publish to it again, and the same object is found faster in every
        # memory that is asked for it.
        self._subject: bytes = b""

    def feed(self, data: bytes) -> None:
        """Handle every complete operation in what came so far and now."""
        if self._chunks_size > 0:
            self._chunks.append(data)
            self._chunks_size += len(data)
            # A large payload arrives in many reads: join once, when it is whole.
            if self._chunks_size < self._needed:
                return
            data = b"".join(self._chunks)
            self._chunks = []
            self._chunks_size = 0
        self._needed = 0
        position: i64 = 0
        size: i64 = len(data)
        handler = self._handler
        while position < size and not handler.halted:
            if COMPILED:
                after = self._publish_native(data, position, size)
            else:
                after = self._run(data, position)
                if after == position:
                    after = self._operation(data, position)
            if after < 0:
                break
            position = after
        if position < size:
            rest = data[position:] if position > 0 else data
            self._chunks.append(rest)
            self._chunks_size = len(rest)
            if self._needed > 0:
                self._needed -= position

    def is_empty(self) -> bool:
        """Is nothing kept, so that the next byte begins an operation?"""
        return self._chunks_size == 0

    def discard(self) -> None:
        """Nobody will ask for what was kept."""
        self._chunks = []
        self._chunks_size = 0
        self._needed = 0
        self._subject = b""

    def resume(self) -> None:
        """Go on with what was kept while the handler had halted."""
        if self._chunks_size > 0:
            self._needed = 0
            kept = b"".join(self._chunks)
            self._chunks = []
            self._chunks_size = 0
            self.feed(kept)

    def _publish_native(self, data: bytes, position: i64, size: i64) -> i64:  # noqa: C901 - a call a step costs more
        """One operation, byte by byte where it is a publish; everything rarer goes to `_operation`."""
        if size - position < 5:
            return self._operation(data, position)
        at: i64 = position
        first: u8 = data[at]
        with_headers = False
        if first == 72 or first == 104:  # H
            with_headers = True
            at += 1
        if (data[at] | 32) != 112 or (data[at + 1] | 32) != 117 or (data[at + 2] | 32) != 98:  # pub
            return self._operation(data, position)
        at += 3
        if at >= size or (data[at] != 32 and data[at] != 9):
            return self._operation(data, position)
        # Tokens: subject, [reply], [header size], size. Starts and ends in plain locals: a list would cost more
        # than the whole scan.
        args_start: i64 = at
        start0: i64 = 0
        end0: i64 = 0
        start1: i64 = 0
        end1: i64 = 0
        start2: i64 = 0
        end2: i64 = 0
        start3: i64 = 0
        end3: i64 = 0
        count: i64 = 0
        inside = False
        done = False
        byte: u8 = 0
        while at < size:
            byte = data[at]
            if byte == 32 or byte == 9 or byte == 10 or byte == 13:
                if inside:
                    inside = False
                    if count == 1:
                        end0 = at
                    elif count == 2:
                        end1 = at
                    elif count == 3:
                        end2 = at
                    else:
                        end3 = at
                if byte == 10:
                    done = True
                    break
            elif not inside:
                inside = True
                count += 1
                if count == 1:
                    start0 = at
                elif count == 2:
                    start1 = at
                elif count == 3:
                    start2 = at
                else:
                    start3 = at
            at += 1
        if at - args_start > self.max_control_line + 2:
            self._handler.on_violation(CONTROL_LINE_EXCEEDED)
            return FAILED
        if not done:
            return INCOMPLETE
        header_size: i64 = 0
        total: i64 = 0
        has_reply = False
        if with_headers:
            if count == 3:
                header_size = scan_number(data, start1, end1)
                total = scan_number(data, start2, end2)
            elif count == 4:
                has_reply = True
                header_size = scan_number(data, start2, end2)
                total = scan_number(data, start3, end3)
            else:
                self._handler.on_violation("")
                return FAILED
        elif count == 2:
            total = scan_number(data, start1, end1)
        elif count == 3:
            has_reply = True
            total = scan_number(data, start2, end2)
        else:
            self._handler.on_violation("")
            return FAILED
        if total < 0 or header_size < 0 or header_size > total:
            self._handler.on_violation("")
            return FAILED
        if total > self.max_payload:
            self._handler.on_violation(PAYLOAD_VIOLATION)
            return FAILED
        body_start: i64 = at + 1
        body_end: i64 = body_start + total
        if body_end + 2 > size:
            self._needed = body_end + 2
            return INCOMPLETE
        if data[body_end] != 13 or data[body_end + 1] != 10:
            self._handler.on_violation(UNKNOWN_OPERATION)
            return FAILED
        subject = self._subject
        if not is_at(subject, data, start0, end0):
            subject = data[start0:end0]
            self._subject = subject
        reply = data[start1:end1] if has_reply else b""
        if with_headers:
            self._handler.on_hpub(subject, reply, header_size, data[body_start:body_end])
        else:
            self._handler.on_pub(subject, reply, 0, data[body_start:body_end])
        return body_end + 2

    def _run(self, data: bytes, position: i64) -> i64:
        """Usual publishes to one subject, as many as there are in a row; what is anything else is left where it is."""
        found = _USUAL_PUBLISH.match(data, position)
        if found is None:
            return position
        subject = found[1]
        replies: list[bytes] = []
        bodies: list[bytes] = []
        while found is not None:
            name, reply, digits = found.groups()
            size = int(digits)
            start = found.end()
            end = start + size
            if name != subject or size > self.max_payload or start - position > self.max_control_line:
                break
            # Not so when it is incomplete, too.
            if data[end : end + 2] != b"\r\n":
                break
            replies.append(reply)
            bodies.append(data[start:end])
            position = end + 2
            found = _USUAL_PUBLISH.match(data, position)
        if bodies:
            self._handler.on_run(subject, replies, bodies)
        return position

    def _operation(self, data: bytes, position: i64) -> i64:
        """One operation of any kind, by lines and words."""
        end = data.find(b"\n", position)
        if end < 0:
            return self._unfinished(data, position)
        line = data[position:end]
        if line.endswith(b"\r"):
            line = line[:-1]
        stripped = line.lstrip(b" \t")
        if stripped[:7].upper() == b"CONNECT":
            self._handler.on_connect(stripped[7:].strip())
            return end + 1
        words = stripped.split(None, 1)
        if not words:
            self._handler.on_violation(UNKNOWN_OPERATION)
            return FAILED
        verb = words[0].upper()
        rest = words[1] if len(words) == 2 else b""
        if len(verb) == len(stripped) and verb in NEEDS_ARGUMENTS:
            # A verb that must be followed by a space or tab and is not was never an operation.
            self._handler.on_violation(UNKNOWN_OPERATION)
            return FAILED
        if len(rest) > self.max_control_line:
            self._handler.on_violation(CONTROL_LINE_EXCEEDED)
            return FAILED
        if verb == b"PUB" or verb == b"HPUB":
            return self._publish(data, end, rest.split(), verb == b"HPUB")
        if self._control(verb, rest):
            return end + 1
        return FAILED

    def _unfinished(self, data: bytes, position: i64) -> i64:
        """No line end yet: wait, unless the line is already too long or cannot become an operation."""
        size: i64 = len(data) - position
        if size <= self.max_control_line + 10:
            return INCOMPLETE
        if data[position : position + 7].upper() == b"CONNECT":
            self._handler.on_connect(data[position + 7 :])
        else:
            self._handler.on_violation(CONTROL_LINE_EXCEEDED)
        return FAILED

    def _publish(self, data: bytes, line_end: i64, args: list[bytes], with_headers: bool) -> i64:
        header_size = 0
        count = len(args)
        if with_headers:
            if count != 3 and count != 4:
                self._handler.on_violation("")
                return FAILED
            header_size = read_number(args[count - 2])
            reply = args[1] if count == 4 else b""
        else:
            if count != 2 and count != 3:
                self._handler.on_violation("")
                return FAILED
            reply = args[1] if count == 3 else b""
        total = read_number(args[count - 1])
        if total < 0 or header_size < 0 or header_size > total:
            self._handler.on_violation("")
            return FAILED
        if total > self.max_payload:
            self._handler.on_violation(PAYLOAD_VIOLATION)
            return FAILED
        start: i64 = line_end + 1
        end: i64 = start + total
        if end + 2 > len(data):
            self._needed = end + 2
            return INCOMPLETE
        if data[end : end + 2] != b"\r\n":
            self._handler.on_violation(UNKNOWN_OPERATION)
            return FAILED
        if with_headers:
            self._handler.on_hpub(args[0], reply, header_size, data[start:end])
        else:
            self._handler.on_pub(args[0], reply, 0, data[start:end])
        return end + 2

    def _control(self, verb: bytes, rest: bytes) -> bool:
        """The operations that are one line; False when the connection must go.

        What follows PING, PONG and +OK is not looked at.
        """
        handler = self._handler
        if verb.startswith(b"PING"):
            handler.on_ping()
            return True
        if verb.startswith(b"PONG"):
            handler.on_pong()
            return True
        if verb == b"SUB":
            args = rest.split()
            if len(args) == 2:
                handler.on_sub(args[0], b"", args[1])
                return True
            if len(args) == 3:
                handler.on_sub(args[0], args[1], args[2])
                return True
            handler.on_violation("")
            return False
        if verb == b"UNSUB":
            return self._unsubscribe(rest.split())
        if verb.startswith(b"+OK") or verb == b"INFO":
            return True
        if verb == b"-ERR":
            handler.on_violation("")
            return False
        handler.on_violation(UNKNOWN_OPERATION)
        return False

    def _unsubscribe(self, args: list[bytes]) -> bool:
        if len(args) == 1:
            self._handler.on_unsub(args[0], 0)
            return True
        if len(args) == 2:
            count = read_number(args[1])
            self._handler.on_unsub(args[0], count if count > 0 else 0)
            return True
        self._handler.on_violation("")
        return False


def scan_number(data: bytes, start: i64, end: i64) -> i64:
    """The same as `read_number`, on a range and in native arithmetic."""
    if end <= start or end - start > 9:
        return -1
    value: i64 = 0
    at: i64 = start
    while at < end:
        digit: i64 = data[at] - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
        at += 1
    return value
