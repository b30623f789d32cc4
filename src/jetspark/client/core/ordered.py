"""Is this the next delivery? The gap check of ordered consumers.

Hot: one call a message, which reads the consumer sequence and nothing else. Two bodies of the same check: native
integers when compiled, CPython's own splitting when not.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from jetspark.client.core.message import MessageCore, status_code
from jetspark.client.core.metadata import sequences
from jetspark.client.core.pull import PullBuffer

IS_NATIVE: Final = not __file__.endswith(".py")
_DOT: Final = 46
_SPACE: Final = 32

# What is to be done with a message whose turn has come.
GIVE: Final = 0
GIVE_AND_PULL: Final = 1
STATUS: Final = 2
GAP: Final = 3


class OrderCheck:
    """Where a consumer's deliveries have come to."""

    def __init__(self) -> None:
        self.consumer_sequence: int = 0
        # The last delivery in order, and the stream sequence before it; read when asked for, which is seldom.
        self._last_reply: bytes = b""
        self._stream_sequence: int = 0

    @property
    def stream_sequence(self) -> int:
        """The last sequence of the stream that was delivered in order; survives the consumer."""
        if self._last_reply:
            self._stream_sequence = sequences(self._last_reply)[0]
            self._last_reply = b""
        return self._stream_sequence

    @stream_sequence.setter
    def stream_sequence(self, sequence: int) -> None:
        self._last_reply = b""
        self._stream_sequence = sequence

    def restart(self) -> None:
        """A new consumer counts its deliveries from one."""
        self._stream_sequence = self.stream_sequence
        self.consumer_sequence = 0

    def begin(self, stream_sequence: int) -> None:
        """A new consumer, which starts after this sequence when nothing was delivered before."""
        self.restart()
        if not self._stream_sequence:
            self._stream_sequence = stream_sequence

    def move(self, stream_sequence: int, consumer_sequence: int) -> None:
        """Somebody else has checked the deliveries up to here."""
        self._stream_sequence = stream_sequence
        self._last_reply = b""
        self.consumer_sequence = consumer_sequence

    def accept(self, reply: bytes) -> bool:
        """True when the delivery is the next one; False when something is missing before it."""
        expected = self.consumer_sequence + 1
        if not (_is_delivery(reply, expected) if IS_NATIVE else _is_delivery_plain(reply, expected)):
            return False
        self.consumer_sequence = expected
        self._last_reply = reply
        return True


def judge(message: MessageCore, position: OrderCheck, buffer: PullBuffer) -> int:
    """Everything there is to decide about a message of an ordered consumer, in one call."""
    block = message.header_block
    if block and block[8] == _SPACE and status_code(block):
        return STATUS
    if not position.accept(message.reply_bytes):
        return GAP
    if buffer.max_bytes:
        buffer.took(message.size_bytes)
    else:
        buffer.pending_messages -= 1
    return GIVE_AND_PULL if buffer.wants() else GIVE


def _is_delivery_plain(reply: bytes, expected: int) -> bool:
    tokens = reply.split(b".", 7)
    # v1 has the consumer sequence sixth from nought; in v2 a name or the stream sequence stands there.
    if len(tokens) != 8 or tokens[6] != b"%d" % expected or tokens[7].count(b".") != 1:
        return sequences(reply)[1] == expected
    return True


def _is_delivery(reply: bytes, expected: i64) -> bool:
    """The same over native integers: the number after the sixth dot of eight, or the eighth of ten or more."""
    end: i64 = len(reply)
    at: i64 = 0
    dots: i64 = 0
    sixth: i64 = 0
    eighth: i64 = 0
    while at < end:
        if reply[at] == _DOT:
            dots += 1
            if dots == 6:
                sixth = at
            elif dots == 8:
                eighth = at
        at += 1
    if dots != 8 and dots < 10:
        return False
    at = (sixth if dots == 8 else eighth) + 1
    number: i64 = 0
    while at < end:
        byte: i64 = reply[at]
        if byte == _DOT:
            break
        if byte < 48 or byte > 57:
            return False
        number = number * 10 + byte - 48
        at += 1
    return number == expected
