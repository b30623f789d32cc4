"""The client's side of the wire: bytes from a server become calls on a handler.

Decides where one frame ends and the next begins, for any split of the stream. Knows nothing of what a frame
means: no subscriptions, no JetStream, no JSON. A message costs one call and no object beyond its own slices.

Two bodies of the same loop: `_scan_plain` finds and splits, which is what CPython does fast; `_scan_native` walks
byte by byte over native integers, which is what compiled code does fast. One is chosen when the module loads.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from jetspark.errors import JetsparkError
from jetspark.protocol.subjects import is_at

IS_NATIVE: Final = not __file__.endswith(".py")

# INFO of a big cluster is the longest honest line; anything longer is a broken or hostile peer.
LINE_SIZE_MAX: Final = 1024 * 1024
# nats-server refuses to be configured with more than this.
PAYLOAD_SIZE_MAX: Final = 64 * 1024 * 1024

# How much of a read is joined to the beginning of a line: more than most lines have.
HEAD_SIZE: Final = 512

_M: Final = 77
_S: Final = 83
_G: Final = 71
_H: Final = 72
_SPACE: Final = 32
_TAB: Final = 9
_CR: Final = 13
_LF: Final = 10


class ProtocolError(JetsparkError):
    """The server sent bytes that are not NATS."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ClientHandler:
    """What the parser calls. An absent reply or header block is `b""`."""

    def on_msg(self, sid: bytes, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        """One MSG or HMSG."""
        raise NotImplementedError

    def on_info(self, document: bytes) -> None:
        """The JSON of an INFO line."""
        raise NotImplementedError

    def on_ping(self) -> None:
        """The server asks whether we are there."""
        raise NotImplementedError

    def on_pong(self) -> None:
        """The server answers one of our pings."""
        raise NotImplementedError

    def on_error(self, text: str) -> None:
        """The text of an -ERR line, without its quotes."""
        raise NotImplementedError


class FrameSink:
    """Takes the messages of one subscription where they lie in the bytes, before anything is cut out of them."""

    def __init__(self, sid: bytes) -> None:
        self.sid = sid

    def take(
        self,
        data: bytes,
        subject_start: i64,
        subject_stop: i64,
        reply_start: i64,
        reply_stop: i64,
        header_start: i64,
        body_start: i64,
        body_stop: i64,
    ) -> bool:
        """One message, by its positions; an absent part is empty and in its place. False: the handler shall have it."""
        raise NotImplementedError

    def take_like(self, data: bytes, position: i64, end: i64) -> i64:
        """A frame like those before, but for its subject and numbers: where the next begins, -1 for any other.

        Only compiled code asks, which reads all of it in one go; a frame that is not whole is any other.
        """
        return -1


class ClientParser:
    """Splits the stream of one connection. After a ProtocolError it must not be fed again."""

    def __init__(self, handler: ClientHandler) -> None:
        self._handler = handler
        # Few: readers of whole batches. Everything else goes to the handler.
        self.sinks: list[FrameSink] = []
        self._rest: list[bytes] = []
        self._rest_size: int = 0
        # Bytes that must be there before looking again is worth it: a large payload in many reads is joined once.
        self._needed_size: int = 0
        # Of the message before: the next one mostly has the same, and the same object is looked up faster.
        self._sid: bytes = b""
        self._subject: bytes = b""

    def reset(self) -> None:
        """Forget a half-read frame: a new connection begins."""
        self._rest = []
        self._rest_size = 0
        self._needed_size = 0

    def feed(self, data: bytes) -> None:
        """Take what the socket had."""
        start = 0
        if self._rest_size:
            if self._rest_size + len(data) < self._needed_size:
                self._rest.append(data)
                self._rest_size += len(data)
                return
            start = self._finish_rest(data)
            if start < 0:
                return
        self._scan_and_keep(data, start)

    def _finish_rest(self, data: bytes) -> int:
        """Complete the frame begun in earlier reads; where `data` goes on after it, -1 when all of it was used.

        Only the beginning of `data` is joined to the rest: copying all of it for each half frame would cost more than
        the scan.
        """
        before = self._rest_size
        head_size = self._needed_size - before if self._needed_size else HEAD_SIZE
        self._needed_size = 0
        if head_size < len(data):
            self._rest.append(data[:head_size])
            joined = b"".join(self._rest)
            used = self._scan_native(joined) if IS_NATIVE else self._scan_plain(joined)
            if used >= before:
                self._rest = []
                self._rest_size = 0
                return used - before
            # Not enough after all.
            self._rest = [joined[used:before]]
        self._rest.append(data)
        joined = b"".join(self._rest)
        self._rest = []
        self._rest_size = 0
        self._scan_and_keep(joined, 0)
        return -1

    def _scan_and_keep(self, data: bytes, start: int) -> None:
        """Handle every whole frame, and keep what is left for the next read."""
        self._needed_size = 0
        used = self._scan_native(data, start) if IS_NATIVE else self._scan_plain(data, start)
        size = len(data)
        if used < size:
            self._rest.append(data[used:])
            self._rest_size = size - used
            if self._rest_size > LINE_SIZE_MAX and not self._needed_size:
                raise ProtocolError("a line from the server is longer than 1 MiB")

    def _scan_plain(self, data: bytes, start: int = 0) -> int:
        """Handle every whole frame; where the first one that is not whole begins."""
        on_msg = self._handler.on_msg
        find = data.find
        end = len(data)
        position = start
        while position < end:
            line_end = find(b"\r\n", position)
            if line_end < 0:
                break
            first = data[position]
            if first != _M and first != _H:
                self._control(data[position:line_end])
                position = line_end + 2
                continue
            words = data[position:line_end].split()
            count = len(words)
            has_header = first == _H
            size_word = words[-1]
            # The usual line is judged here, without the cost of a call.
            is_usual = first == _M and count == 5 and words[0] == b"MSG" and len(size_word) < 8 and size_word.isdigit()
            if not is_usual and not _is_message_line(data, position, words, has_header):
                raise _bad_line(data, position)
            size = int(size_word)
            start = line_end + 2
            stop = start + size
            if stop + 2 > end:
                self._needed_size = stop + 2 - position
                break
            if data[stop] != _CR or data[stop + 1] != _LF:
                raise _bad_line(data, position)
            if self.sinks and self._sink_took_plain(data, position, words, start, stop, has_header):
                position = stop + 2
                continue
            if has_header:
                body = start + int(words[-2])
                on_msg(words[2], words[1], words[3] if count == 6 else b"", data[start:body], data[body:stop])
            else:
                on_msg(words[2], words[1], words[3] if count == 5 else b"", b"", data[start:stop])
            position = stop + 2
        return position

    def _scan_native(self, data: bytes, start: int = 0) -> int:
        """The same over native integers."""
        line = _Line()
        end: i64 = len(data)
        position: i64 = start
        while position < end:
            like = self._sink_took_like(data, position, end)
            if like > 0:
                position = like
                continue
            first: i64 = data[position]
            if first != _M and first != _H:
                line_end: i64 = data.find(b"\r\n", position)
                if line_end < 0:
                    break
                self._control(data[position:line_end])
                position = line_end + 2
                continue
            after: i64 = line.scan(data, position, end)
            if after < 0:
                break
            has_header: bool = first == _H
            if not line.is_message(data, position, has_header):
                raise _bad_line(data, position)
            stop: i64 = after + line.number
            if stop + 2 > end:
                self._needed_size = stop + 2 - position
                break
            if data[stop] != _CR or data[stop + 1] != _LF:
                raise _bad_line(data, position)
            body: i64 = after + line.number_before if has_header else after
            if not self.sinks or not self._sink_took(data, line, after, body, stop):
                self._hand_over(data, line, after, body, stop)
            position = stop + 2
        return position

    def _hand_over(self, data: bytes, line: _Line, after: i64, body: i64, stop: i64) -> None:
        if not line.is_for(data, self._sid):
            self._sid = data[line.start_2 : line.stop_2]
        if not is_at(self._subject, data, line.start_1, line.stop_1):
            self._subject = data[line.start_1 : line.stop_1]
        reply = data[line.start_3 : line.stop_3] if line.start_3 < line.stop_3 else b""
        header = data[after:body] if after < body else b""
        self._handler.on_msg(self._sid, self._subject, reply, header, data[body:stop])

    def _sink_took(self, data: bytes, line: _Line, after: i64, body: i64, stop: i64) -> bool:
        for sink in self.sinks:
            if line.is_for(data, sink.sid):
                return sink.take(
                    data, line.start_1, line.stop_1, line.start_3, line.stop_3, after, body, stop
                )  # fmt: skip
        return False

    def _sink_took_like(self, data: bytes, position: i64, end: i64) -> i64:
        for sink in self.sinks:
            after = sink.take_like(data, position, end)
            if after > 0:
                return after
        return -1

    def _sink_took_plain(
        self, data: bytes, position: int, words: list[bytes], start: int, stop: int, has_header: bool
    ) -> bool:
        for sink in self.sinks:
            if sink.sid == words[2]:
                subject = data.find(words[1], position + 4)
                subject_stop = subject + len(words[1])
                reply = reply_stop = subject_stop
                if len(words) == (6 if has_header else 5):
                    reply = data.find(words[3], data.find(words[2], subject_stop) + len(words[2]))
                    reply_stop = reply + len(words[3])
                body = start + int(words[-2]) if has_header else start
                return sink.take(data, subject, subject_stop, reply, reply_stop, start, body, stop)
        return False

    def _control(self, line: bytes) -> None:
        handler = self._handler
        if line == b"PING":
            handler.on_ping()
        elif line == b"PONG":
            handler.on_pong()
        elif line.startswith(b"INFO "):
            handler.on_info(line[5:])
        elif line.startswith(b"-ERR"):
            handler.on_error(line[4:].strip().strip(b"'").decode("utf-8", "replace"))
        elif line != b"+OK":
            raise ProtocolError(f"not a NATS line: {line[:80]!r}")


def _is_message_line(data: bytes, position: int, words: list[bytes], has_header: bool) -> bool:
    count = len(words)
    if not words[-1].isdigit() or len(words[-1]) > 9 or int(words[-1]) > PAYLOAD_SIZE_MAX:
        return False
    if not has_header:
        return 4 <= count <= 5 and data.startswith(b"MSG ", position)
    if not 5 <= count <= 6 or not data.startswith(b"HMSG ", position) or not words[-2].isdigit():
        return False
    return len(words[-2]) <= 9 and int(words[-2]) <= int(words[-1])


def _bad_line(data: bytes, position: int) -> ProtocolError:
    return ProtocolError(f"not a NATS message line: {data[position : position + 80]!r}")


class _Line:
    """Where the words of a message line are, in native integers. Words count from 0, the verb."""

    def __init__(self) -> None:
        self.words: i64 = 0
        self.start_1: i64 = 0
        self.stop_1: i64 = 0
        self.start_2: i64 = 0
        self.stop_2: i64 = 0
        self.start_3: i64 = 0
        self.stop_3: i64 = 0
        self._start: i64 = 0
        self._stop: i64 = 0
        self._start_before: i64 = 0
        self._stop_before: i64 = 0
        # The last two words as numbers, once the line is known to be a message's; -1 for a word that is none.
        self.number: i64 = 0
        self.number_before: i64 = 0

    def scan(self, data: bytes, position: i64, end: i64) -> i64:
        """Where the line ends and the payload begins; -1 when the line is not whole."""
        self.words = 0
        at: i64 = position
        while at < end:
            byte: i64 = data[at]
            if byte == _CR and at + 1 < end and data[at + 1] == _LF:
                return at + 2
            if byte == _SPACE or (_TAB <= byte <= _CR):
                at += 1
            else:
                at = self._word(data, at, end)
        return -1

    def _word(self, data: bytes, start: i64, end: i64) -> i64:
        at: i64 = start + 1
        while at < end:
            byte: i64 = data[at]
            if byte <= _SPACE and (byte == _SPACE or (_TAB <= byte <= _CR)):
                break
            at += 1
        self._start_before = self._start
        self._stop_before = self._stop
        self._start = start
        self._stop = at
        if self.words == 1:
            self.start_1 = start
            self.stop_1 = at
        elif self.words == 2:
            self.start_2 = start
            self.stop_2 = at
        elif self.words == 3:
            self.start_3 = start
            self.stop_3 = at
        self.words += 1
        return at

    def is_for(self, data: bytes, sid: bytes) -> bool:
        """The line carries this subscription's name."""
        return is_at(sid, data, self.start_2, self.stop_2)

    def is_message(self, data: bytes, position: i64, has_header: bool) -> bool:
        """The line is a well-formed MSG (or HMSG); reads its numbers. An absent reply is empty, after the sid."""
        at: i64 = position + 1 if has_header else position
        if data[at] != _M or data[at + 1] != _S or data[at + 2] != _G or data[at + 3] != _SPACE:
            return False
        if self.words != (6 if has_header else 5):
            self.start_3 = self.stop_3 = self.stop_2
        self.number = _number(data, self._start, self._stop)
        if self.number < 0 or self.number > PAYLOAD_SIZE_MAX:
            return False
        if not has_header:
            return 4 <= self.words <= 5
        self.number_before = _number(data, self._start_before, self._stop_before)
        return 5 <= self.words <= 6 and 0 <= self.number_before <= self.number


def _number(data: bytes, start: i64, stop: i64) -> i64:
    """A word of at most nine digits; -1 for anything else."""
    if stop - start > 9:
        return -1
    number: i64 = 0
    at: i64 = start
    while at < stop:
        byte: i64 = data[at]
        if byte < 48 or byte > 57:
            return -1
        number = number * 10 + byte - 48
        at += 1
    return number
