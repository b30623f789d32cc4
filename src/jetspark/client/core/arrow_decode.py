"""Messages of a consumer as columns: positions and numbers, read from the wire without an object for a message.

The bytes stay where the socket put them. For each message seven positions are written down (subject, reply, headers
and data are what lies between them) and the five numbers of its acknowledgement subject; Arrow copies the columns out
of the bytes later, all rows at once. Decides which messages belong to the read: in order, and before its end. Knows
nothing of Arrow itself.

Two bodies of the same work: native integers when compiled, CPython's own splitting and packing when not.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from jetspark.client.core.connection import ConnectionCore
from jetspark.client.core.metadata import parse_metadata
from jetspark.client.core.routes import Inbox
from jetspark.client.errors import NotJetStreamMessageError
from jetspark.protocol.client_parser import IS_NATIVE, PAYLOAD_SIZE_MAX, FrameSink
from jetspark.protocol.subjects import is_at

# Elements between the positions of a row: subject, gap, reply, gap, headers, data, gap.
ROW_STRIDE: Final = 7
SUBJECT: Final = 0
REPLY: Final = 2
DATA: Final = 5
# Elements between the positions of a header: name, gap, value, gap.
HEADER_STRIDE: Final = 4
# The numbers of a row.
NUMBER_STRIDE: Final = 5
DELIVERY_COUNT: Final = 0
SEQUENCE: Final = 1
CONSUMER_SEQUENCE: Final = 2
TIMESTAMP: Final = 3
PENDING_COUNT: Final = 4

_SEVEN: Final = Struct("<7i")
_FOUR: Final = Struct("<4i")
_ONE: Final = Struct("<i")
_NUMBERS: Final = Struct("<5q")
_NUMBER_MAX: Final = 2**63
# Positions are 32-bit. Reads are bounded well below this; only foreign bytes between the messages could get there.
CUT_ABOVE: Final = 256 * 1024 * 1024
# Large messages are handed on before they are many.
WAKE_BYTES: Final = 32 * 1024 * 1024
_DOT: Final = 46
_COLON: Final = 58
_SPACE: Final = 32
_CR: Final = 13
_MESSAGE: Final = b"MSG "
_LINE_END: Final = b"\r\n"


class Columns:
    """Rows taken from a sink. Positions are offsets into `wire`, as little-endian i32; the last one is its end."""

    def __init__(self, wire: bytes, rows: int, positions: bytes, numbers: bytes) -> None:
        self.wire = wire
        self.rows = rows
        self.positions = positions
        self.numbers = numbers
        # Where the headers of each row begin among all headers, and the positions of those.
        self.header_starts: bytes = b""
        self.header_positions: bytes = b""


class ColumnSink(FrameSink):
    """Collects the messages of one subscription. Statuses go on to the inbox, as always."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__(inbox.sid)
        self.inbox = inbox
        self.rows: i64 = 0
        # As the server counts them against max_bytes: subject, reply, headers and data.
        self.size: i64 = 0
        # Wake the inbox when this many rows or bytes are there.
        self.wake_rows: i64 = 1
        self.wake_bytes: i64 = WAKE_BYTES
        # With `ordered`, a delivery that is not the next one stops the sink: `has_gap`.
        self.ordered: bool = False
        self.has_gap: bool = False
        self.consumer_sequence: i64 = 0
        self.last_sequence: i64 = 0
        # A message at or after these ends the read (0: none), and so does the last one there is before them.
        self.end_sequence: i64 = 0
        self.end_timestamp_ns: i64 = 0
        self.last_pending_count: i64 = 0
        self.finished: bool = False
        # Without it headers are skipped over, and the rows have none.
        self.wants_headers: bool = True
        # The header block of the first row there is, which tells of a pin.
        self.first_header: bytes = b""
        # The part of the acknowledgement subject that does not change, learnt from the first one; and the part of the
        # line from the subject's end to the end of that.
        self._prefix: bytes = b""
        self._between: bytes = b""
        # The numbers of the message at hand.
        self._value: i64 = 0
        self._delivery_count: i64 = 0
        self._sequence: i64 = 0
        self._consumer_sequence: i64 = 0
        self._timestamp_ns: i64 = 0
        self._pending_count: i64 = 0
        self._chunks: list[bytes] = []
        self._last: bytes = b""
        self._base: i64 = 0
        self._headers: i64 = 0
        self._clear()

    def _clear(self) -> None:
        self._chunks = []
        self._last = b""
        self._base = 0
        self._headers = 0
        self._positions_out = BytesWriter()
        self._numbers_out = BytesWriter()
        self._header_starts_out = BytesWriter()
        self._headers_out = BytesWriter()

    def restart(self, inbox: Inbox) -> None:
        """A new consumer delivers to a new inbox: it counts from one. The rows that came stay."""
        self.inbox = inbox
        self.sid = inbox.sid
        self.consumer_sequence = 0
        self.has_gap = False
        self._prefix = b""
        self._between = b""

    def take_columns(self) -> Columns:
        """Everything collected so far; the sink is empty afterwards."""
        wire = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        end: i64 = len(wire)
        if IS_NATIVE:
            write_i32_le(self._positions_out, i32(end))
            write_i32_le(self._header_starts_out, i32(self._headers))
            write_i32_le(self._headers_out, i32(end))
        else:
            self._positions_out.write(_ONE.pack(end))
            self._header_starts_out.write(_ONE.pack(self._headers))
            self._headers_out.write(_ONE.pack(end))
        columns = Columns(wire, self.rows, self._positions_out.getvalue(), self._numbers_out.getvalue())
        columns.header_starts = self._header_starts_out.getvalue()
        columns.header_positions = self._headers_out.getvalue()
        self.rows = 0
        self.size = 0
        self._clear()
        return columns

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
        if body_start > header_start and (body_start - header_start < 12 or data[header_start + 8] == _SPACE):
            return False
        if not self._read_numbers(data, reply_start, reply_stop):
            return False
        if IS_NATIVE and not self._between:
            self._between = data[subject_stop : reply_start + len(self._prefix)]
        self._keep(data, subject_start, subject_stop, reply_start, reply_stop, header_start, body_start, body_stop)
        return True

    def take_like(self, data: bytes, position: i64, end: i64) -> i64:
        between = self._between
        if not between or position + 8 > end or not is_at(_MESSAGE, data, position, position + 4):
            return -1
        subject_start: i64 = position + 4
        subject_stop: i64 = subject_start
        while subject_stop < end and data[subject_stop] > _SPACE:
            subject_stop += 1
        at: i64 = subject_stop + len(between)
        if subject_stop == subject_start or data[subject_stop:at] != between:
            return -1
        reply_stop: i64 = self._read_five(data, at, end)
        if reply_stop < 0 or data[reply_stop] != _SPACE:
            return -1
        at = self._digits(data, reply_stop + 1, end)
        # What is too long to be a size is somebody else's to refuse.
        if at < 0 or self._value > PAYLOAD_SIZE_MAX or not is_at(_LINE_END, data, at, min(at + 2, end)):
            return -1
        body_start: i64 = at + 2
        body_stop: i64 = body_start + self._value
        if body_stop + 2 > end or not is_at(_LINE_END, data, body_stop, body_stop + 2):
            return -1
        reply_start: i64 = subject_stop + len(between) - len(self._prefix)
        self._keep(data, subject_start, subject_stop, reply_start, reply_stop, body_start, body_start, body_stop)
        return body_stop + 2

    def _keep(
        self,
        data: bytes,
        subject_start: i64,
        subject_stop: i64,
        reply_start: i64,
        reply_stop: i64,
        header_start: i64,
        body_start: i64,
        body_stop: i64,
    ) -> None:
        """A row of the message whose numbers were read, if it belongs to the read."""
        if self.has_gap or self.finished or not self._accept():
            return
        if self._base > CUT_ABOVE:
            # So much is kept that bytes of other subscriptions must not be kept with it.
            shift = subject_start
            data = data[shift:body_stop]
            subject_start, subject_stop, reply_start = 0, subject_stop - shift, reply_start - shift
            reply_stop, header_start = reply_stop - shift, header_start - shift
            body_start, body_stop = body_start - shift, body_stop - shift
        if data is not self._last:
            self._base += len(self._last)
            self._last = data
            self._chunks.append(data)
        if IS_NATIVE:
            self._write(subject_start, subject_stop, reply_start, reply_stop, header_start, body_start, body_stop)
        else:
            base = self._base
            self._write_plain(
                base + subject_start, base + subject_stop, base + reply_start, base + reply_stop,
                base + header_start, base + body_start, base + body_stop,
            )  # fmt: skip
        if body_start > header_start:
            self._read_headers(data, header_start, body_start)
        self.rows += 1
        self.size += subject_stop - subject_start + reply_stop - reply_start + body_stop - header_start
        if self.inbox.waiters and self.is_ready():
            self.inbox.wake()

    def is_ready(self) -> bool:
        """There is what a waiter waits for."""
        return self.rows >= self.wake_rows or self.size >= self.wake_bytes or self.finished or self.has_gap

    def _write(
        self,
        subject_start: i64,
        subject_stop: i64,
        reply_start: i64,
        reply_stop: i64,
        header_start: i64,
        body_start: i64,
        body_stop: i64,
    ) -> None:
        base: i64 = self._base
        out = self._positions_out
        write_i32_le(out, i32(base + subject_start))
        write_i32_le(out, i32(base + subject_stop))
        write_i32_le(out, i32(base + reply_start))
        write_i32_le(out, i32(base + reply_stop))
        write_i32_le(out, i32(base + header_start))
        write_i32_le(out, i32(base + body_start))
        write_i32_le(out, i32(base + body_stop))
        numbers_out = self._numbers_out
        write_i64_le(numbers_out, self._delivery_count)
        write_i64_le(numbers_out, self._sequence)
        write_i64_le(numbers_out, self._consumer_sequence)
        write_i64_le(numbers_out, self._timestamp_ns)
        write_i64_le(numbers_out, self._pending_count)
        write_i32_le(self._header_starts_out, i32(self._headers))

    def _write_plain(self, *positions: int) -> None:
        self._positions_out.write(_SEVEN.pack(*positions))
        numbers = (
            self._delivery_count, self._sequence, self._consumer_sequence, self._timestamp_ns, self._pending_count,
        )  # fmt: skip
        self._numbers_out.write(_NUMBERS.pack(*numbers))
        self._header_starts_out.write(_ONE.pack(self._headers))

    def _accept(self) -> bool:
        """Whether the message whose numbers were read belongs to the read."""
        if self.ordered:
            if self._consumer_sequence != self.consumer_sequence + 1:
                self.has_gap = True
                self.inbox.wake()
                return False
            self.consumer_sequence += 1
        sequence: i64 = self._sequence
        if (self.end_sequence and sequence >= self.end_sequence) or (
            self.end_timestamp_ns and self._timestamp_ns >= self.end_timestamp_ns
        ):
            self.finished = True
            self.inbox.wake()
            return False
        self.last_sequence = sequence
        self.last_pending_count = self._pending_count
        if self.end_sequence and (sequence + 1 == self.end_sequence or self._pending_count == 0):
            self.finished = True
        return True

    # The acknowledgement subject.

    def _read_numbers(self, data: bytes, start: i64, stop: i64) -> bool:
        """Fill `_numbers`; False when the reply is not an acknowledgement subject."""
        if not IS_NATIVE:
            return self._read_numbers_plain(data[start:stop])
        size: i64 = len(self._prefix)
        if not size or not _has_prefix(data, start, stop, self._prefix):
            if not self._learn(data[start:stop]):
                return False
            size = len(self._prefix)
        at: i64 = self._read_five(data, start + size, len(data))
        # A longer subject has more after them.
        return at == stop or (at > 0 and data[at] == _DOT)

    def _read_five(self, data: bytes, start: i64, end: i64) -> i64:
        """Five numbers with dots between them; where the last one ends, -1 for anything else."""
        at: i64 = self._digits(data, start, end)
        self._delivery_count = self._value
        if at < 0 or data[at] != _DOT:
            return -1
        at = self._digits(data, at + 1, end)
        self._sequence = self._value
        if at < 0 or data[at] != _DOT:
            return -1
        at = self._digits(data, at + 1, end)
        self._consumer_sequence = self._value
        if at < 0 or data[at] != _DOT:
            return -1
        at = self._digits(data, at + 1, end)
        self._timestamp_ns = self._value
        if at < 0 or data[at] != _DOT:
            return -1
        at = self._digits(data, at + 1, end)
        self._pending_count = self._value
        return at

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
        if not start < at < end or at - start > 19 or number < 0:
            return -1
        self._value = number
        return at

    def _learn(self, reply: bytes) -> bool:
        """Check an acknowledgement subject in full once, and remember what comes before its numbers."""
        tokens = reply.split(b".")
        count = len(tokens)
        if not _is_acknowledgement(reply):
            return False
        kept = tokens[:4] if count == 9 else tokens[:6]
        self._prefix = b".".join(kept) + b"."
        self._between = b""
        return True

    def _read_numbers_plain(self, reply: bytes) -> bool:
        tokens = reply.split(b".")
        count = len(tokens)
        first = 4
        if count >= 11:
            first = 6
        elif count != 9:
            return False
        if tokens[0] != b"$JS" or tokens[1] != b"ACK":
            return False
        for token in tokens[first : first + 5]:
            if not token.isdigit() or int(token) >= _NUMBER_MAX:
                return False
        self._delivery_count = int(tokens[first])
        self._sequence = int(tokens[first + 1])
        self._consumer_sequence = int(tokens[first + 2])
        self._timestamp_ns = int(tokens[first + 3])
        self._pending_count = int(tokens[first + 4])
        return True

    # Headers.

    def _read_headers(self, data: bytes, start: i64, stop: i64) -> None:
        if not self.rows:
            self.first_header = data[start:stop]
        if not self.wants_headers:
            return
        if not IS_NATIVE:
            self._read_headers_plain(data, start, stop)
            return
        base: i64 = self._base
        out = self._headers_out
        at: i64 = _line_end(data, start, stop) + 2
        while at < stop:
            end: i64 = _line_end(data, at, stop)
            colon: i64 = at
            while colon < end and data[colon] != _COLON:
                colon += 1
            if colon < end:
                first: i64 = colon + 1
                last: i64 = end
                while first < last and data[first] == _SPACE:
                    first += 1
                while last > first and data[last - 1] == _SPACE:
                    last -= 1
                write_i32_le(out, i32(base + at))
                write_i32_le(out, i32(base + colon))
                write_i32_le(out, i32(base + first))
                write_i32_le(out, i32(base + last))
                self._headers += 1
            at = end + 2

    def _read_headers_plain(self, data: bytes, start: int, stop: int) -> None:
        base = self._base
        at = data.find(b"\r\n", start, stop) + 2
        while 2 <= at < stop:
            end = data.find(b"\r\n", at, stop)
            if end < 0:
                end = stop
            colon = data.find(b":", at, end)
            if colon >= 0:
                value = data[colon + 1 : end]
                first = end - len(value.lstrip(b" "))
                last = max(first, end - len(value) + len(value.rstrip(b" ")))
                self._headers_out.write(_FOUR.pack(base + at, base + colon, base + first, base + last))
                self._headers += 1
            at = end + 2


def _has_prefix(data: bytes, start: i64, stop: i64, prefix: bytes) -> bool:
    size: i64 = len(prefix)
    return stop - start > size and is_at(prefix, data, start, start + size)


def _line_end(data: bytes, start: i64, stop: i64) -> i64:
    """Where the line's CR is; `stop` when there is none."""
    at: i64 = start
    while at < stop and data[at] != _CR:
        at += 1
    return at


def _is_acknowledgement(reply: bytes) -> bool:
    try:
        parse_metadata(reply)
    except NotJetStreamMessageError:
        return False
    return True


def open_sink(core: ConnectionCore, owner: object) -> ColumnSink:
    """Subscribe to a new inbox whose messages become rows."""
    inbox = core.add_pull_inbox(owner)
    sink = ColumnSink(inbox)
    core.parser.sinks.append(sink)
    return sink


def move_sink(core: ConnectionCore, sink: ColumnSink, owner: object) -> None:
    """Leave the old inbox for a new one: nothing of the old consumer can be taken for the new one's."""
    core.remove_route(sink.inbox)
    sink.restart(core.add_pull_inbox(owner))


def detach_sink(core: ConnectionCore, sink: ColumnSink) -> None:
    """From here on messages go to the inbox."""
    if sink in core.parser.sinks:
        core.parser.sinks.remove(sink)


def close_sink(core: ConnectionCore, sink: ColumnSink) -> None:
    """Unsubscribe. The rows that came can still be taken."""
    detach_sink(core, sink)
    core.remove_route(sink.inbox)
