"""One message as it came: slices of the wire, and what can be read from them when asked.

Decides what an acknowledgement is (its bytes, whether it is still allowed) and nothing about how it is sent.
Everything is parsed on demand: most messages are acknowledged without anyone looking at their sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from mypy_extensions import mypyc_attr

from jetspark.client.core.metadata import Metadata, parse_metadata
from jetspark.client.errors import NotJetStreamMessageError
from jetspark.client.headers import Headers

if TYPE_CHECKING:
    from jetspark.client.core.routes import Inbox

ACK: Final = b"+ACK"
NAK: Final = b"-NAK"
PROGRESS: Final = b"+WPI"
NEXT: Final = b"+NXT"
TERM: Final = b"+TERM"


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageCore:
    """What both faces' `Msg` are made of."""

    __slots__ = ("_headers", "_metadata", "acked", "data", "header_block", "inbox", "reply_bytes", "subject_bytes")

    def __init__(self, inbox: Inbox, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        self.inbox = inbox
        self.subject_bytes = subject
        self.reply_bytes = reply
        self.header_block = header
        self.data = data
        # A terminal acknowledgement was sent: all further ones are ignored (seed 3, "Ack Handling").
        self.acked: bool = False
        self._headers: Headers | None = None
        self._metadata: Metadata | None = None

    @property
    def subject(self) -> str:
        """Where it was published."""
        return self.subject_bytes.decode("utf-8", "surrogateescape")

    @property
    def reply(self) -> str:
        """Where an answer goes; empty when none is wanted."""
        return self.reply_bytes.decode("utf-8", "surrogateescape")

    @property
    def headers(self) -> Headers:
        """Its headers; empty when it has none."""
        if self._headers is None:
            self._headers = Headers.from_block(self.header_block)
        return self._headers

    @property
    def status_code(self) -> int:
        """The status of a message that is about the conversation, such as 404; 0 for an ordinary one."""
        return status_code(self.header_block)

    @property
    def status_text(self) -> str:
        """The words after the status code."""
        return status_text(self.header_block)

    @property
    def metadata(self) -> Metadata:
        """What the acknowledgement subject tells: stream, consumer, sequences, deliveries, pending, timestamp."""
        if self._metadata is None:
            self._metadata = parse_metadata(self.reply_bytes)
        return self._metadata

    @property
    def is_jetstream(self) -> bool:
        """It was delivered by a consumer."""
        return self.reply_bytes.startswith(b"$JS.ACK.")

    @property
    def size_bytes(self) -> int:
        """As the server counts it against max_bytes: subject, reply, headers and data."""
        return len(self.subject_bytes) + len(self.reply_bytes) + len(self.header_block) + len(self.data)

    def ack_allowed(self) -> bool:
        """False when the call should do nothing: already finished, or the consumer wants no acks."""
        if self.acked or self.inbox.ack_none:
            return False
        if not self.reply_bytes.startswith(b"$JS.ACK."):
            raise NotJetStreamMessageError(f"message on {self.subject} was not delivered by a JetStream consumer")
        return True


def status_code(block: bytes) -> int:
    """The code on a header block's first line; 0 when there is none."""
    if len(block) < 12 or block[8] != 32:
        return 0
    word = block[9:12]
    return int(word) if word.isdigit() else 0


def status_text(block: bytes) -> str:
    """The words after the code on a header block's first line."""
    end = block.find(b"\r\n")
    return block[12:end].strip().decode("utf-8", "replace") if end > 12 else ""


def says(document: bytes, field: str) -> bool:
    """Whether a JSON object has this field, with something other than false or null.

    Ask only when the quoted name occurs in it: a value may have the same letters. What is no JSON object says
    everything, because it is not what was expected.
    """
    try:
        told: dict[str, Any] = msgspec.json.decode(document, type=dict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    value = told.get(field)
    return value is not None and value is not False


def nak_body(delay_ns: int) -> bytes:
    """A negative acknowledgement, with or without a delay before the next delivery."""
    return b'-NAK {"delay": %d}' % delay_ns if delay_ns > 0 else NAK


def term_body(reason: str) -> bytes:
    """Stop redelivery, saying why."""
    return b"+TERM " + reason.replace("\r", " ").replace("\n", " ").encode() if reason else TERM
