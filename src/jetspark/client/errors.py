"""The errors of the client, as a tree. In parentheses: other bases.

    JetsparkError
    ├── ClientError
    │   ├── ConnectionFailure
    │   │   ├── NoServersError            no server could be reached
    │   │   ├── ConnectTimeoutError       (TimeoutError)
    │   │   │   └── ServersTimeoutError   (NoServersError)
    │   │   ├── AuthorizationError        the server refused the credentials
    │   │   ├── ConnectionClosedError     the connection was closed for good
    │   │   ├── ConnectionLostError       lost while waiting for an answer
    │   │   ├── StaleConnectionError      the server stopped answering pings
    │   │   └── SecureConnectionError     TLS is required and failed
    │   ├── ServerError                   another error (-ERR) of the server
    │   │   └── PermissionsError
    │   ├── SlowConsumerError
    │   ├── SubscriptionClosedError       it has ended
    │   ├── OutboundBufferError           too much was published while disconnected
    │   ├── MaxPayloadError
    │   ├── BadSubjectError, BadHeaderError, BadOptionError      (ValueError)
    │   ├── RequestTimeoutError           (TimeoutError)
    │   │   ├── FlushTimeoutError
    │   │   └── DrainTimeoutError
    │   ├── NoRespondersError
    │   ├── WrongLoopError                (RuntimeError) another event loop
    │   └── JetStreamError
    │       ├── PublishError
    │       │   ├── PublishTimeoutError   (TimeoutError) may be stored
    │       │   ├── PublishUnknownError   connection lost; may be stored
    │       │   ├── PublishNotSentError   (ConnectionClosedError) not stored
    │       │   ├── PublishDeniedError    (PermissionsError) not stored
    │       │   ├── FastBatchEndedError   a fast batch ended early
    │       │   └── NoStreamError         no stream takes the subject
    │       ├── PullError                 a pull ended with a status
    │       │   ├── ConsumerDeletedError, BadPullError, ConsumerIsPushError, PullLimitError, PullUnavailableError
    │       │   └── HeartbeatMissedError, PullTimeoutError       (TimeoutError)
    │       ├── SubscribeError            one class for each wrong argument
    │       ├── MessageGapError           messages were missed
    │       ├── BucketNotFoundError, KeyNotFoundError (KeyDeletedError), ObjectNotFoundError      (KeyError)
    │       ├── KeyRevisionError (KeyExistsError), ObjectDamagedError, ObjectLinkError
    │       ├── NotJetStreamMessageError
    │       └── AckTimeoutError           (TimeoutError)
    └── ApiError                          refused by the server, by err_code

Which class an answer of the API becomes is decided in `api_errors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.errors import JetsparkError
from jetspark.protocol.client_parser import ProtocolError

if TYPE_CHECKING:
    from jetspark.client.infos import PubAck


class ClientError(JetsparkError):
    """Base of the errors that the client raises itself."""


class ConnectionFailure(ClientError):
    """There is no working connection."""


class NoServersError(ConnectionFailure):
    """No server could be reached; `causes` has the reason for each address."""

    def __init__(self, causes: list[tuple[str, BaseException]]) -> None:
        self.causes = causes
        listed = "; ".join(f"{address}: {error or type(error).__name__}" for address, error in causes)
        super().__init__(f"no server could be reached ({listed or 'none given'})")


class ConnectTimeoutError(ConnectionFailure, TimeoutError):
    """The server did not answer in time."""


class ServersTimeoutError(NoServersError, ConnectTimeoutError):
    """None of several servers answered in time."""


def no_servers_error(causes: list[tuple[str, BaseException]]) -> NoServersError:
    """The error for a pool of which no server could be reached."""
    if causes and all(isinstance(error, TimeoutError) for _, error in causes):
        return ServersTimeoutError(causes)
    return NoServersError(causes)


class AuthorizationError(ConnectionFailure):
    """The server refused the credentials."""


class ConnectionClosedError(ConnectionFailure):
    """The connection was closed for good."""


class ConnectionLostError(ConnectionFailure):
    """The connection was lost while waiting for an answer."""


class StaleConnectionError(ConnectionFailure):
    """The server stopped answering pings."""


class SecureConnectionError(ConnectionFailure):
    """TLS is required and not available, or its handshake failed."""


class ServerError(ClientError):
    """The server sent an error (-ERR)."""


class PermissionsError(ServerError):
    """The server refused a publish or a subscription; `subject` is the one it named."""

    def __init__(self, text: str, subject: str) -> None:
        super().__init__(text)
        self.subject = subject


class SlowConsumerError(ClientError):
    """The buffer of a subscription is full; `dropped` is the number of messages lost so far."""

    def __init__(self, subject: str, dropped: int) -> None:
        super().__init__(f"subscription to {subject} is too slow: {dropped} messages dropped")
        self.subject = subject
        self.dropped = dropped


class SubscriptionClosedError(ClientError):
    """The subscription has ended, and all its messages have been taken."""


class OutboundBufferError(ClientError):
    """More was published while disconnected than fits into the buffer."""


class MaxPayloadError(ClientError, ValueError):
    """The message is larger than the server accepts."""


class BadSubjectError(ClientError, ValueError):
    """Not a valid subject, or not one that can be published to."""


class BadHeaderError(ClientError, ValueError):
    """Not a valid header name or value."""


class BadOptionError(ClientError, ValueError):
    """An unknown option, or a wrong value."""


class MissingExtraError(ClientError, ImportError):
    """An optional part of the package is not installed; the message names the extra."""


class RequestTimeoutError(ClientError, TimeoutError):
    """No answer came in time."""


class FlushTimeoutError(RequestTimeoutError):
    """The server did not confirm a flush in time."""


class DrainTimeoutError(RequestTimeoutError):
    """Drain could not finish in time."""


class NoRespondersError(ClientError):
    """Nobody is subscribed to the subject of a request."""

    what_is_missing = "no responders"

    def __init__(self, subject: str) -> None:
        super().__init__(f"{self.what_is_missing} on {subject}")
        self.subject = subject


class WrongLoopError(ClientError, RuntimeError):
    """The connection belongs to another event loop."""


class JetStreamError(ClientError):
    """Base of the JetStream errors that the client raises itself."""


class PublishError(JetStreamError):
    """A message was not acknowledged. `may_be_stored` says whether it may be in the stream anyway."""

    may_be_stored: bool = False


class PublishTimeoutError(PublishError, TimeoutError):
    """No acknowledgement came in time."""

    may_be_stored = True


class PublishUnknownError(PublishError):
    """The connection was lost or closed after the message was sent and before it was acknowledged."""

    may_be_stored = True


class PublishNotSentError(PublishError, ConnectionClosedError):
    """The connection was closed before the message was sent: it is not stored."""


class PublishDeniedError(PublishError, PermissionsError):
    """The user may not publish to the subject: the message is not stored."""


class FastBatchEndedError(PublishError):
    """The server ended a fast batch early. `ack.count` messages are stored, in order.

    Its cause, if there is one, is the error of the message that ended the batch; otherwise the server has missed a
    message.
    """

    def __init__(self, ack: PubAck, sent_count: int) -> None:
        super().__init__(f"stream {ack.stream} ended the batch {ack.batch} after {ack.count} of {sent_count} messages")
        self.ack = ack
        self.sent_count = sent_count


class NoStreamError(PublishError, NoRespondersError):
    """No stream takes messages on the subject."""

    what_is_missing = "no stream takes messages"


class PullError(JetStreamError):
    """The server ended a pull with a status."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{code} {description}".strip() if code else description)
        self.code = code
        self.description = description


class HeartbeatMissedError(PullError, TimeoutError):
    """The server was silent for too long."""


class ConsumerDeletedError(PullError):
    """The consumer is gone."""


class ConsumerIsPushError(PullError):
    """A push consumer cannot be pulled from."""


class BadPullError(PullError):
    """The server does not understand this pull request, or does not allow it."""


class PullLimitError(PullError):
    """The pull request exceeds a limit of the consumer."""


class PullUnavailableError(PullError):
    """There is no such consumer, or JetStream does not answer."""


class PullTimeoutError(PullError, TimeoutError):
    """No message arrived in time."""


class MessageGapError(JetStreamError):
    """Messages were missed: `expected` and `received` are consumer sequences."""

    def __init__(self, expected: int, received: int) -> None:
        super().__init__(f"expected delivery {expected}, got {received}")
        self.expected = expected
        self.received = received


class NotJetStreamMessageError(JetStreamError):
    """The message does not come from a consumer."""


class AckTimeoutError(JetStreamError, TimeoutError):
    """The server did not confirm an acknowledgement in time."""


class BucketNotFoundError(JetStreamError, KeyError):
    """No such key-value bucket or object store."""

    def __str__(self) -> str:
        return f"no bucket {self.args[0]}"


class KeyNotFoundError(JetStreamError, KeyError):
    """The key has no value."""

    def __str__(self) -> str:
        return f"no key {self.args[0]}"


class KeyDeletedError(KeyNotFoundError):
    """The key was deleted; `revision` is that of the deletion."""

    def __init__(self, key: str, revision: int) -> None:
        super().__init__(key)
        self.revision = revision


class KeyRevisionError(JetStreamError):
    """The key has another revision by now."""

    def __init__(self, key: str, expected: int) -> None:
        super().__init__(f"key {key} is not at revision {expected}")
        self.key = key
        self.expected = expected


class KeyExistsError(KeyRevisionError):
    """The key already has a value; `revision` is its current one."""

    def __init__(self, key: str, revision: int) -> None:
        JetStreamError.__init__(self, f"key {key} exists at revision {revision}")
        self.key = key
        self.expected = 0
        self.revision = revision


class ObjectNotFoundError(JetStreamError, KeyError):
    """No such object."""

    def __str__(self) -> str:
        return f"no object {self.args[0]}"


class ObjectDamagedError(JetStreamError):
    """The bytes of the object have the wrong size or checksum."""


class ObjectLinkError(JetStreamError):
    """The link cannot be created or followed."""


class SubscribeError(JetStreamError):
    """Base of the errors of `subscribe` and `pull_subscribe`."""


class SubjectRequiredError(SubscribeError):
    """Neither a subject nor a stream was given."""


class NoMatchingStreamError(SubscribeError):
    """No stream, or more than one, has the subject."""


class OrderedOptionError(SubscribeError):
    """An option that an ordered subscription cannot have."""


class QueueOptionError(SubscribeError):
    """Heartbeats or flow control cannot be used with a queue."""


class PullAckPolicyError(SubscribeError):
    """A pull subscription needs explicit acknowledgements."""


class DuplicateSubscriptionError(SubscribeError):
    """The push consumer already has a subscriber."""


class QueueRequiredError(SubscribeError):
    """The consumer belongs to a queue group, and none was given."""


class QueueMismatchError(SubscribeError):
    """The consumer belongs to another queue group."""


class NotAQueueConsumerError(SubscribeError):
    """A queue was given, but the consumer has no queue group."""


class SubjectMismatchError(SubscribeError):
    """The consumer has another subject as its filter."""


class PullOnPushError(SubscribeError):
    """`pull_subscribe` on a push consumer."""


class PushOnPullError(SubscribeError):
    """`subscribe` on a pull consumer."""


class ConfigMismatchError(SubscribeError):
    """The consumer exists with other settings; `fields` names them."""

    def __init__(self, fields: list[str]) -> None:
        super().__init__("the consumer exists with another " + ", ".join(fields))
        self.fields = fields


__all__ = [
    "AckTimeoutError",
    "AuthorizationError",
    "BadHeaderError",
    "BadOptionError",
    "BadPullError",
    "BadSubjectError",
    "BucketNotFoundError",
    "ClientError",
    "ConfigMismatchError",
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "ConnectionFailure",
    "ConnectionLostError",
    "ConsumerDeletedError",
    "ConsumerIsPushError",
    "DrainTimeoutError",
    "DuplicateSubscriptionError",
    "FlushTimeoutError",
    "HeartbeatMissedError",
    "JetStreamError",
    "JetsparkError",
    "KeyDeletedError",
    "KeyExistsError",
    "KeyNotFoundError",
    "KeyRevisionError",
    "MaxPayloadError",
    "MessageGapError",
    "MissingExtraError",
    "NoMatchingStreamError",
    "NoRespondersError",
    "NoServersError",
    "NoStreamError",
    "NotAQueueConsumerError",
    "NotJetStreamMessageError",
    "ObjectDamagedError",
    "ObjectLinkError",
    "ObjectNotFoundError",
    "OutboundBufferError",
    "PermissionsError",
    "ProtocolError",
    "PublishDeniedError",
    "PublishError",
    "PublishNotSentError",
    "PublishTimeoutError",
    "PublishUnknownError",
    "PullAckPolicyError",
    "PullError",
    "PullLimitError",
    "PullOnPushError",
    "PullTimeoutError",
    "PullUnavailableError",
    "PushOnPullError",
    "QueueMismatchError",
    "QueueOptionError",
    "QueueRequiredError",
    "RequestTimeoutError",
    "SecureConnectionError",
    "ServerError",
    "ServersTimeoutError",
    "SlowConsumerError",
    "StaleConnectionError",
    "SubjectMismatchError",
    "SubjectRequiredError",
    "SubscribeError",
    "SubscriptionClosedError",
    "WrongLoopError",
]
