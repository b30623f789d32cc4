"""The client's side of the wire: bytes from a server become calls on a handler.

Decides where one frame ends and the next begins, for any split of the stream. Knows nothing of what a frame
means: no subscriptions, no JetStream, no JSON. A message costs one call and no object beyond its own slices.

Two bodies of the same loop: `_scan_plain` finds and splits, which is what CPython does fast; `_scan_native` walks
byte by byte over native integers, which is what compiled code does fast. One is chosen when the module loads.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from jetspark.errors import JetsparkError

IS_NATIVE: Final = not __file__.endswith(".py")

# INFO of a big cluster is the longest honest line; anything longer is a broken or hostile peer.
LINE_SIZE_MAX: Final = 1024 * 1024
# nats-server refuses to be configured with more than this.
PAYLOAD_SIZE_MAX: Final = 64 * 1024 * 1024

_M: Final = 77
_H: Final = 72
_SPACE: Final = 32
_TAB: Final = 9
_CR: Final = 13
_LF: Final = 10


class ProtocolError(JetsparkError):
    """The server sent bytes that are not NATS."""


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


class ClientParser:
    """Splits the stream of one connection. After a ProtocolError it must not be fed again."""

    def __init__(self, handler: ClientHandler) -> None:
        self._handler = handler
        self._rest: list[bytes] = []
        self._rest_size: int = 0
        # Bytes that must be there before looking again is worth it: a large payload in many reads is joined once.
        self._needed_size: int = 0

    def reset(self) -> None:
        """Forget a half-read frame: a new connection begins."""
        self._rest = []
        self._rest_size = 0
        self._needed_size = 0

    def feed(self, data: bytes) -> None:
        """Take what the socket had."""
        if self._rest_size:
            self._rest.append(data)
            self._rest_size += len(data)
            if self._rest_size < self._needed_size:
                return
            data = b"".join(self._rest)
            self._rest = []
            self._rest_size = 0
        self._needed_size = 0
        used = self._scan_native(data) if IS_NATIVE else self._scan_plain(data)
        size = len(data)
        if used < size:
            self._rest.append(data[used:])
            self._rest_size = size - used
            if self._rest_size > LINE_SIZE_MAX and not self._needed_size:
                raise ProtocolError("a line from the server is longer than 1 MiB")

    def _scan_plain(self, data: bytes) -> int:
        """Handle every whole frame; the number of bytes used."""
        on_msg = self._handler.on_msg
        find = data.find
        end = len(data)
        position = 0
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
            start = line_end + 2
            try:
                size = int(words[-1])
                if first == _M:
                    if words[0] != b"MSG" or count < 4 or count > 5:
                        raise ValueError
                    header_size = 0
                    reply = words[3] if count == 5 else b""
                else:
                    if words[0] != b"HMSG" or count < 5 or count > 6:
                        raise ValueError
                    header_size = int(words[-2])
                    reply = words[3] if count == 6 else b""
                if header_size < 0 or size < header_size or size > PAYLOAD_SIZE_MAX:
                    raise ValueError
            except (ValueError, IndexError):
                raise ProtocolError(f"not a NATS message line: {data[position : position + 80]!r}") from None
            stop = start + size
            if stop + 2 > end:
                self._needed_size = stop + 2 - position
                break
            if header_size:
                body = start + header_size
                on_msg(words[2], words[1], reply, data[start:body], data[body:stop])
            else:
                on_msg(words[2], words[1], reply, b"", data[start:stop])
            position = stop + 2
        return position

    def _scan_native(self, data: bytes) -> int:
        """The same over native integers."""
        handler = self._handler
        end: i64 = len(data)
        position: i64 = 0
        while position < end:
            first: i64 = data[position]
            if first != _M and first != _H:
                line_end: i64 = data.find(b"\r\n", position)
                if line_end < 0:
                    break
                self._control(data[position:line_end])
                position = line_end + 2
                continue
            at: i64 = position
            starts_0: i64 = 0
            stops_0: i64 = 0
            starts_1: i64 = 0
            stops_1: i64 = 0
            starts_2: i64 = 0
            stops_2: i64 = 0
            words: i64 = 0
            number: i64 = 0
            number_before: i64 = 0
            bad: bool = False
            byte: i64 = 0
            while at < end:
                byte = data[at]
                if byte == _LF:
                    break
                if byte == _SPACE or byte == _TAB or byte == _CR:
                    at += 1
                    continue
                word_start: i64 = at
                number_before = number
                number = 0
                bad = False
                while at < end:
                    byte = data[at]
                    if byte <= _SPACE:
                        break
                    if 48 <= byte <= 57 and number < PAYLOAD_SIZE_MAX:
                        number = number * 10 + byte - 48
                    else:
                        bad = True
                    at += 1
                if words == 1:
                    starts_0 = word_start
                    stops_0 = at
                elif words == 2:
                    starts_1 = word_start
                    stops_1 = at
                elif words == 3:
                    starts_2 = word_start
                    stops_2 = at
                words += 1
            if at >= end:
                break
            has_header: bool = first == _H
            expected: i64 = 5 if has_header else 4
            header_size: i64 = number_before if has_header else 0
            if (
                bad
                or words < expected
                or words > expected + 1
                or number < header_size
                or number > PAYLOAD_SIZE_MAX
                or data[position + (4 if has_header else 3)] > _SPACE
            ):
                raise ProtocolError(f"not a NATS message line: {data[position : position + 80]!r}")
            start: i64 = at + 1
            stop: i64 = start + number
            if stop + 2 > end:
                self._needed_size = stop + 2 - position
                break
            reply = data[starts_2:stops_2] if words == expected + 1 else b""
            body: i64 = start + header_size
            handler.on_msg(
                data[starts_1:stops_1],
                data[starts_0:stops_0],
                reply,
                data[start:body] if has_header else b"",
                data[body:stop],
            )
            position = stop + 2
        return position

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
