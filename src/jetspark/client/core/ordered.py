"""Is this the next delivery? The gap check of ordered consumers.

Hot: one call a message. The acknowledgement subject of a consumer does not change its form, so the form is learnt once
and only the two sequences are read; a surprise is looked at again with the full parser before it counts as a gap.
"""

from __future__ import annotations

from jetspark.client.core.metadata import sequences


class OrderCheck:
    """Where a consumer's deliveries have come to."""

    def __init__(self) -> None:
        # The last sequence of the stream that was delivered in order; survives the consumer.
        self.stream_sequence: int = 0
        self.consumer_sequence: int = 0

    def restart(self) -> None:
        """A new consumer counts its deliveries from one."""
        self.consumer_sequence = 0

    def accept(self, reply: bytes) -> bool:
        """True when the delivery is the next one; False when something is missing before it."""
        expected = self.consumer_sequence + 1
        # v1 ends `.<stream seq>.<consumer seq>.<timestamp>.<pending>`.
        parts = reply.rsplit(b".", 4)
        if len(parts) == 5 and parts[2] == b"%d" % expected and reply.count(b".") == 8:
            self.consumer_sequence = expected
            self.stream_sequence = int(parts[1])
            return True
        stream_sequence, consumer_sequence = sequences(reply)
        if consumer_sequence != expected:
            return False
        self.consumer_sequence = expected
        self.stream_sequence = stream_sequence
        return True
