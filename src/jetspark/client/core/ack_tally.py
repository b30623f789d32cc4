"""Many messages sent at once, and their acknowledgements counted instead of kept.

A place in a table costs a byte, so a message of a block makes no object at all on its way back; only refusals are kept.
Compiled, an acknowledgement like the one before is read where it lies in the wire's bytes, and everything else is left
to the general way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import i64

from jetspark.client.core.connection import ConnectionCore
from jetspark.client.core.denials import PUBLISH, Denial
from jetspark.client.core.message import MessageCore, says, status_code
from jetspark.client.core.routes import Inbox
from jetspark.protocol.client_parser import FrameSink
from jetspark.protocol.subjects import is_at

IS_NATIVE: Final = not __file__.endswith(".py")

# A block has fewer messages than any number of more digits.
PLACE_DIGITS_MAX: Final = 10

_CR: Final = 13
_LF: Final = 10
_BRACE: Final = 125

WAITING: Final = 0
STORED: Final = 1
REFUSED: Final = 2


class AckTally(Inbox):
    """Where the acknowledgements of one block arrive: each names its message by the last token of its subject."""

    def __init__(
        self, sid: bytes, prefix: bytes, count: int, make_message: Callable[..., MessageCore], owner: Any
    ) -> None:
        super().__init__(sid, prefix + b"*", b"", make_message, owner)
        self.prefix: bytes = prefix
        self.prefix_size: int = len(prefix)
        self.count: int = count
        self.outcomes: bytearray = bytearray(count)
        self.answered_count: int = 0
        self.duplicate_count: int = 0
        # Where the last acknowledgement that came lies in the bytes it came with.
        self._last_wire: bytes = b""
        self._last_start: i64 = 0
        self._last_stop: i64 = 0
        # The place in the block and what was answered; empty when nobody takes the subject.
        self.refusals: list[tuple[int, bytes]] = []
        # Where the messages of the block went, and the server's word that one of these is not allowed.
        self.subjects: list[bytes] = []
        self.denial: Denial | None = None
        # What an acknowledgement is before its sequence, learnt from the first one: all of a stream begin alike.
        self.usual: bytes = b""
        self.sink: TallySink = TallySink(self)

    def deliver(self, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        place = place_in(subject, self.prefix_size, self.count)
        if place >= self.count or self.outcomes[place] != WAITING:
            return
        self.answered_count += 1
        is_unheard = header != b"" and status_code(header) == 503
        if is_unheard or b'"seq"' not in data or (b'"error"' in data and says(data, "error")):
            self.outcomes[place] = REFUSED
            self.refusals.append((place, b"" if is_unheard else data))
        else:
            self.outcomes[place] = STORED
            self.keep_last(data, 0, len(data))
            if b'"duplicate"' in data and says(data, "duplicate"):
                self.duplicate_count += 1
            elif not self.usual:
                self.usual = usual_part(data)
        if self.answered_count == self.count and self.waiters:
            self.wake()

    def fail_denied(self, denial: Denial) -> None:
        if denial.kind != PUBLISH:
            is_ours = denial.subject.encode().startswith(self.prefix)
        else:
            is_ours = denial.subject.encode() in self.subjects
        if is_ours:
            self.denial = denial
            self.wake()

    def keep_last(self, wire: bytes, start: i64, stop: i64) -> None:
        self._last_wire = wire
        self._last_start = start
        self._last_stop = stop

    def last_ack(self) -> bytes:
        """The last acknowledgement that came; empty when none did."""
        return self._last_wire[self._last_start : self._last_stop]

    def stored(self, place: i64) -> None:
        """One more has its place in the stream."""
        if place >= self.count or self.outcomes[place] != WAITING:
            return
        self.outcomes[place] = STORED
        self.answered_count += 1
        if self.answered_count == self.count and self.waiters:
            self.wake()


class TallySink(FrameSink):
    """Takes the usual acknowledgements of a block before anything is cut out of the bytes."""

    def __init__(self, tally: AckTally) -> None:
        super().__init__(tally.sid)
        self._tally = tally
        self._head: bytes = b"MSG " + tally.prefix
        self._middle: bytes = b" " + tally.sid + b" "
        self._value: i64 = 0

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
        return False

    def take_like(self, data: bytes, position: i64, end: i64) -> i64:
        tally = self._tally
        usual = tally.usual
        at: i64 = position + len(self._head)
        if not usual or at >= end or not is_at(self._head, data, position, at):
            return -1
        at = self._digits(data, at, end)
        place: i64 = self._value
        after: i64 = at + len(self._middle)
        if at < 0 or after >= end or not is_at(self._middle, data, at, after):
            return -1
        at = self._digits(data, after, end)
        body: i64 = at + 2
        stop: i64 = body + self._value
        after = body + len(usual)
        if at < 0 or stop + 2 > end or after >= stop or data[at] != _CR or not is_at(usual, data, body, after):
            return -1
        at = self._digits(data, after, stop)
        if at != stop - 1 or data[at] != _BRACE or data[stop] != _CR or data[stop + 1] != _LF:
            return -1
        tally.keep_last(data, body, stop)
        tally.stored(place)
        return stop + 2

    def _digits(self, data: bytes, start: i64, end: i64) -> i64:
        """Read digits into `_value`; where they end, -1 when there are none, too many, or the bytes end with them."""
        number: i64 = 0
        at: i64 = start
        while at < end:
            digit: i64 = data[at] - 48
            if digit < 0 or digit > 9:
                break
            number = number * 10 + digit
            at += 1
        if not start < at < end or at - start > 18:
            return -1
        self._value = number
        return at


def usual_part(ack: bytes) -> bytes:
    """An acknowledgement up to its sequence, when that is all that follows; nothing for any other."""
    start = ack.rstrip(b"0123456789}")
    return start if ack == start + ack[len(start) : -1] + b"}" and start.endswith(b'"seq":') else b""


def place_in(subject: bytes, start: i64, limit: i64) -> i64:
    """The number from there to the end of a subject; the limit for anything that is no place below it."""
    end: i64 = len(subject)
    if not IS_NATIVE:
        token = subject[start:]
        return min(int(token), limit) if token.isdigit() and len(token) <= PLACE_DIGITS_MAX else limit
    if start >= end or end - start > PLACE_DIGITS_MAX:
        return limit
    place: i64 = 0
    at: i64 = start
    while at < end:
        digit: i64 = subject[at] - 48
        if digit < 0 or digit > 9:
            return limit
        place = place * 10 + digit
        at += 1
    return min(place, limit)


def open_tally(core: ConnectionCore, count: int, owner: Any) -> AckTally:
    """Listen for the acknowledgements of a block."""
    tally = AckTally(core.new_sid(), core.new_inbox_subject() + b".", count, core.make_message, owner)
    core.add_route(tally)
    if IS_NATIVE:
        core.parser.sinks.append(tally.sink)
    return tally


def close_tally(core: ConnectionCore, tally: AckTally) -> None:
    """Listen no longer; what came stays counted."""
    if tally.sink in core.parser.sinks:
        core.parser.sinks.remove(tally.sink)
    core.remove_route(tally)
