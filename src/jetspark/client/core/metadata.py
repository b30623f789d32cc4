"""What an acknowledgement subject tells about a delivery.

Nine tokens (v1) or eleven and more (v2, with domain and account); anything else is not a JetStream message.
`sequences` is the hot half: two numbers and no object, for the gap check of an ordered consumer.
"""

from __future__ import annotations

from datetime import UTC, datetime

from jetspark.client.errors import NotJetStreamMessageError


class Metadata:
    """Facts about the delivery of a message, as `message.metadata`.

    `stream` and `consumer` are names; `domain` is empty if there is none. `stream_sequence` is the number of the
    message in its stream. `consumer_sequence` counts the deliveries of the consumer, `delivery_count` those of this
    message (1 for the first). `pending_count` is the number of messages that are still to be delivered, `timestamp_ns`
    the time at which the message was stored.
    """

    __slots__ = (
        "consumer",
        "consumer_sequence",
        "delivery_count",
        "domain",
        "pending_count",
        "stream",
        "stream_sequence",
        "timestamp_ns",
    )

    def __init__(self, stream: str, consumer: str, domain: str, numbers: list[int]) -> None:
        self.stream = stream
        self.consumer = consumer
        # The server writes `_` for "no domain"; here that is the empty string.
        self.domain = domain
        self.delivery_count = numbers[0]
        self.stream_sequence = numbers[1]
        self.consumer_sequence = numbers[2]
        self.timestamp_ns = numbers[3]
        self.pending_count = numbers[4]

    @property
    def timestamp(self) -> datetime:
        """When the message was stored."""
        return datetime.fromtimestamp(self.timestamp_ns / 1e9, UTC)

    def __repr__(self) -> str:
        return (
            f"Metadata(stream={self.stream!r}, consumer={self.consumer!r}, stream_sequence={self.stream_sequence}, "
            f"consumer_sequence={self.consumer_sequence}, delivery_count={self.delivery_count}, "
            f"pending_count={self.pending_count})"
        )


def parse_metadata(reply: bytes) -> Metadata:
    """Read an acknowledgement subject; NotJetStreamMessageError when it is none."""
    tokens = reply.split(b".")
    count = len(tokens)
    if tokens[0] != b"$JS" or count < 9 or count == 10 or tokens[1] != b"ACK":
        raise NotJetStreamMessageError(f"not an acknowledgement subject: {reply[:120]!r}")
    domain = b""
    first = 2
    if count >= 11:
        domain = tokens[2] if tokens[2] != b"_" else b""
        first = 4
    try:
        numbers = [int(token) for token in tokens[first + 2 : first + 7]]
    except ValueError:
        raise NotJetStreamMessageError(f"not an acknowledgement subject: {reply[:120]!r}") from None
    return Metadata(tokens[first].decode(), tokens[first + 1].decode(), domain.decode(), numbers)


def sequences(reply: bytes) -> tuple[int, int]:
    """(stream sequence, consumer sequence) of a delivery; (0, 0) when the subject is not an acknowledgement."""
    tokens = reply.split(b".")
    count = len(tokens)
    try:
        if count == 9:
            return int(tokens[5]), int(tokens[6])
        if count >= 11:
            return int(tokens[7]), int(tokens[8])
    except ValueError:
        pass
    return 0, 0
