"""Is this the next delivery? The gap check of ordered consumers.

Hot: one call a message. Only the consumer sequence is read, at the place where the usual form of the acknowledgement
subject has it; a surprise is looked at again with the full parser before it counts as a gap.
"""

from __future__ import annotations

from jetspark.client.core.metadata import sequences


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

    def move(self, stream_sequence: int, consumer_sequence: int) -> None:
        """Somebody else has checked the deliveries up to here."""
        self._stream_sequence = stream_sequence
        self._last_reply = b""
        self.consumer_sequence = consumer_sequence

    def accept(self, reply: bytes) -> bool:
        """True when the delivery is the next one; False when something is missing before it."""
        expected = self.consumer_sequence + 1
        tokens = reply.split(b".", 7)
        # v1 has the consumer sequence sixth from nought; in v2 a name or the stream sequence stands there.
        if len(tokens) != 8 or tokens[6] != b"%d" % expected or tokens[7].count(b".") != 1:
            if sequences(reply)[1] != expected:
                return False
        self.consumer_sequence = expected
        self._last_reply = reply
        return True
