"""What the messages of a push subscription that are not for the user ask of us (seed 3, "Automatic Status Management").

Judged when their turn comes. Remembers the last delivery (for gaps) and the last flow control subject answered.
"""

from __future__ import annotations

from jetspark.client.core.message import status_code, status_text
from jetspark.client.core.metadata import sequences
from jetspark.client.errors import MessageGapError, PullError
from jetspark.protocol.headers import find_value


class PushStatus:
    """The state of one push subscription."""

    def __init__(self, checks_gaps: bool) -> None:
        # Members of a queue see only some deliveries, so gaps mean nothing to them.
        self.checks_gaps = checks_gaps
        self.consumer_sequence: int = 0
        # The furthest: a redelivery does not take it back.
        self.stream_sequence: int = 0
        self._answered: bytes = b""
        # The connection that took the answer.
        self._answered_epoch: int = 0

    def on_message(self, reply: bytes) -> MessageGapError | None:
        """A message's turn: the gap before it, if there is one."""
        if not self.checks_gaps:
            return None
        stream_sequence, consumer_sequence = sequences(reply)
        if not consumer_sequence:
            return None
        expected = self.consumer_sequence + 1
        is_first = self.consumer_sequence == 0
        self.consumer_sequence = consumer_sequence
        self.stream_sequence = max(self.stream_sequence, stream_sequence)
        if consumer_sequence != expected and not is_first:
            return MessageGapError(expected, consumer_sequence)
        return None

    def on_heartbeat(self, block: bytes) -> MessageGapError | None:
        """A heartbeat's turn: deliveries it knows of that never came."""
        if not self.checks_gaps:
            return None
        last = find_value(block, b"Nats-Last-Consumer")
        if last is None or not last.isdigit() or self.consumer_sequence == 0:
            return None
        sent = int(last)
        if sent <= self.consumer_sequence:
            return None
        gap = MessageGapError(self.consumer_sequence + 1, sent)
        self.consumer_sequence = sent
        return gap

    def begin_again(self) -> None:
        """Another consumer delivers from here: it counts its deliveries anew."""
        self.consumer_sequence = 0
        self._answered = b""

    def to_answer(self, reply: bytes, block: bytes, epoch: int) -> bytes:
        """The subject to answer a flow control request (or a stall) on; empty when there is nothing to answer.

        Never looked into, and answered once on each connection: the same subject comes again on heartbeats until the
        answer arrives. What the connection before was given may be lost.
        """
        subject = reply
        if not subject:
            stalled = find_value(block, b"Nats-Consumer-Stalled")
            subject = stalled if stalled is not None else b""
        if not subject or (subject == self._answered and epoch == self._answered_epoch):
            return b""
        self._answered = subject
        self._answered_epoch = epoch
        return subject

    def is_heartbeat(self, block: bytes) -> bool:
        """An idle heartbeat, as against a flow control request."""
        return "heartbeat" in status_text(block).lower()


def push_error(block: bytes) -> PullError | None:
    """The error a status is; None for those that are kept from the user without being errors."""
    code = status_code(block)
    if code in (100, 404, 408):
        return None
    return PullError(code, status_text(block))
