"""What a consumer is configured to be, as a document.

Decided here: the fields of a consumer configuration and of the request that creates one.
Not known here: which combinations are allowed, and what the server fills in; see `consumer_checks`.

Field names are the wire's own. Durations (`ack_wait`, `backoff`, `max_expires`, `idle_heartbeat`,
`inactive_threshold`, `priority_timeout`) are nanoseconds; `rate_limit_bps` is bits a second; `max_bytes` is bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from jetspark.api.error_codes import ErrorCode, make
from jetspark.api.json_text import JsonObject, to_text
from jetspark.api.schema import (
    BOOL,
    DURATION,
    DURATION_LIST,
    INT,
    STRING,
    STRING_LIST,
    STRING_MAP,
    TIME,
    UINT64,
    EnumOf,
    Kind,
    SchemaError,
    StructOf,
    decode_documents,
    decode_into,
    encode_struct,
    wire,
    wire_fields,
)
from jetspark.api.timestamps import WireTime


class DeliverPolicy(StrEnum):
    """Where in the stream a consumer starts."""

    ALL = "all"
    LAST = "last"
    NEW = "new"
    BY_START_SEQUENCE = "by_start_sequence"
    BY_START_TIME = "by_start_time"
    LAST_PER_SUBJECT = "last_per_subject"


class AckPolicy(StrEnum):
    """What an ack means: nothing, everything up to here, this message, or flow control's answers."""

    NONE = "none"
    ALL = "all"
    EXPLICIT = "explicit"
    FLOW_CONTROL = "flow_control"


class ReplayPolicy(StrEnum):
    """How fast stored messages are delivered: at once, or with the gaps they were stored with."""

    INSTANT = "instant"
    ORIGINAL = "original"


class PriorityPolicy(StrEnum):
    """Which of several pulling clients gets the next message."""

    NONE = "none"
    OVERFLOW = "overflow"
    PINNED_CLIENT = "pinned_client"
    PRIORITIZED = "prioritized"


class ConsumerAction(StrEnum):
    """What a create request may do: create or update (empty), only create, or only update."""

    CREATE_OR_UPDATE = ""
    CREATE = "create"
    UPDATE = "update"


_DELIVER_POLICY: Final[Kind] = EnumOf(DeliverPolicy, DeliverPolicy.ALL, aliases={"undefined": DeliverPolicy.ALL})
_ACK_POLICY: Final[Kind] = EnumOf(AckPolicy, AckPolicy.NONE)
_REPLAY_POLICY: Final[Kind] = EnumOf(ReplayPolicy, ReplayPolicy.INSTANT)
_PRIORITY_POLICY: Final[Kind] = EnumOf(
    PriorityPolicy, PriorityPolicy.NONE, unknown=lambda value: f"unknown priority policy: {to_text(value)}"
)
_ACTION: Final[Kind] = EnumOf(
    ConsumerAction,
    ConsumerAction.CREATE_OR_UPDATE,
    unknown=lambda value: f"unknown consumer action: {to_text(value)}",
)


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig:
    """A consumer's configuration. Zero or empty leaves a field to the server's default."""

    durable_name: str = wire(STRING, omit_empty=True)
    name: str = wire(STRING, omit_empty=True)
    description: str = wire(STRING, omit_empty=True)
    deliver_policy: DeliverPolicy = wire(_DELIVER_POLICY, default=DeliverPolicy.ALL)
    opt_start_seq: int = wire(UINT64, omit_empty=True)
    opt_start_time: WireTime | None = wire(TIME, omit_empty=True)
    ack_policy: AckPolicy = wire(_ACK_POLICY, default=AckPolicy.NONE)
    ack_wait: int = wire(DURATION, omit_empty=True)
    max_deliver: int = wire(INT, omit_empty=True)
    backoff: tuple[int, ...] = wire(DURATION_LIST, omit_empty=True)
    filter_subject: str = wire(STRING, omit_empty=True)
    filter_subjects: tuple[str, ...] = wire(STRING_LIST, omit_empty=True)
    replay_policy: ReplayPolicy = wire(_REPLAY_POLICY, default=ReplayPolicy.INSTANT)
    rate_limit_bps: int = wire(UINT64, omit_empty=True)
    sample_freq: str = wire(STRING, omit_empty=True)
    max_waiting: int = wire(INT, omit_empty=True)
    max_ack_pending: int = wire(INT, omit_empty=True)
    flow_control: bool = wire(BOOL, omit_empty=True)
    headers_only: bool = wire(BOOL, omit_empty=True)
    max_batch: int = wire(INT, omit_empty=True)
    max_expires: int = wire(DURATION, omit_empty=True)
    max_bytes: int = wire(INT, omit_empty=True)
    deliver_subject: str = wire(STRING, omit_empty=True)
    deliver_group: str = wire(STRING, omit_empty=True)
    idle_heartbeat: int = wire(DURATION, omit_empty=True)
    inactive_threshold: int = wire(DURATION, omit_empty=True)
    num_replicas: int = wire(INT)
    mem_storage: bool = wire(BOOL, omit_empty=True)
    direct: bool = wire(BOOL, omit_empty=True)
    sourcing: bool = wire(BOOL, omit_empty=True)
    metadata: Mapping[str, str] = wire(STRING_MAP, omit_empty=True)
    pause_until: WireTime | None = wire(TIME, omit_empty=True)
    priority_groups: tuple[str, ...] = wire(STRING_LIST, omit_empty=True)
    priority_policy: PriorityPolicy = wire(_PRIORITY_POLICY, default=PriorityPolicy.NONE, omit_empty=True)
    priority_timeout: int = wire(DURATION, omit_empty=True)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields this version does not know, kept so that a newer server's configuration survives an update."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "backoff", tuple(self.backoff))
        object.__setattr__(self, "filter_subjects", tuple(self.filter_subjects))
        object.__setattr__(self, "priority_groups", tuple(self.priority_groups))

    @property
    def filters(self) -> tuple[str, ...]:
        """All subject filters, whichever field they came in; empty means everything."""
        if self.filter_subject:
            return (*self.filter_subjects, self.filter_subject)
        return self.filter_subjects

    @property
    def is_push(self) -> bool:
        """Whether the server delivers on its own to `deliver_subject`, rather than on request."""
        return bool(self.deliver_subject)

    @property
    def is_durable(self) -> bool:
        """Whether the consumer outlives its clients."""
        return bool(self.durable_name)

    def encode(self) -> dict[str, Any]:
        """The document, keys in nats-server's order."""
        return encode_struct(self)

    @classmethod
    def decode(cls, document: Mapping[str, Any] | JsonObject, *, strict: bool = False) -> ConsumerConfig:
        """Read a parsed document; strict refuses unknown fields and words with `ApiError` 10025."""
        values: dict[str, Any] = {}
        try:
            decode_into(values, wire_fields(cls), document, "ConsumerConfig", strict)
        except SchemaError as error:
            raise make(ErrorCode.INVALID_JSON, err=error) from None
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class ConsumerCreateRequest:
    """The body of every form of consumer create."""

    stream_name: str = wire(STRING)
    config: ConsumerConfig = wire(StructOf(ConsumerConfig, "server.ConsumerConfig", optional=False))
    action: ConsumerAction = wire(_ACTION, default=ConsumerAction.CREATE_OR_UPDATE)
    pedantic: bool = wire(BOOL, omit_empty=True)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> dict[str, Any]:
        """The document, keys in the order nats-server's own clients write them."""
        return encode_struct(self)


def parse_consumer_create_request(body: bytes, *, strict: bool = True) -> ConsumerCreateRequest:
    """Read the body of a consumer create; `ApiError` 10025 when it is not one."""
    values = decode_documents(wire_fields(ConsumerCreateRequest), body, "CreateConsumerRequest", strict)
    values.pop("extra", None)
    return ConsumerCreateRequest(**values)
