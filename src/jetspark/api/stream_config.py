"""What a stream is configured to be, as a document.

Decided here: the fields of a stream configuration, their wire names, order and emptiness rules.
Not known here: which combinations are allowed, and what the server fills in; see `stream_checks`.

Field names are the wire's own, so that they can be looked up anywhere. Durations (`max_age`, `duplicate_window`,
`subject_delete_marker_ttl`, `inactive_threshold`) are nanoseconds, sizes are bytes, and -1 means no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from jetspark.api.error_codes import ErrorCode, make
from jetspark.api.json_text import JsonObject
from jetspark.api.schema import (
    BOOL,
    DURATION,
    INT,
    INT32,
    INT64,
    STRING,
    STRING_LIST,
    STRING_MAP,
    TIME,
    UINT64,
    EnumOf,
    Kind,
    ListOf,
    Place,
    SchemaError,
    StructOf,
    WireField,
    decode_documents,
    decode_into,
    encode_struct,
    wire,
    wire_fields,
)
from jetspark.api.timestamps import WireTime


class Retention(StrEnum):
    """What removes a message besides the limits."""

    LIMITS = "limits"
    INTEREST = "interest"
    WORKQUEUE = "workqueue"


class Discard(StrEnum):
    """Who gives way when a limit is reached: the oldest message, or the new one."""

    OLD = "old"
    NEW = "new"


class Storage(StrEnum):
    """Where messages are kept."""

    FILE = "file"
    MEMORY = "memory"


class Compression(StrEnum):
    """How stored blocks are compressed."""

    NONE = "none"
    S2 = "s2"


class PersistMode(StrEnum):
    """Whether a publish is acknowledged before (`async`) or after (`default`) it is written."""

    DEFAULT = "default"
    ASYNC = "async"


class _CompressionKind(EnumOf):
    """Unlike its siblings, nats-server reads this one as a string first, and complains in two ways."""

    def decode(self, value: Any, place: Place, strict: bool) -> StrEnum | str:
        if value is not None:
            STRING.decode(value, Place("compression"), strict)
        return super().decode(value, place, strict)


_RETENTION: Final[Kind] = EnumOf(Retention, Retention.LIMITS)
_DISCARD: Final[Kind] = EnumOf(Discard, Discard.OLD, any_case=True)
_STORAGE: Final[Kind] = EnumOf(Storage, Storage.FILE)
_COMPRESSION: Final[Kind] = _CompressionKind(
    Compression, Compression.NONE, unknown=lambda _: "unknown compression algorithm"
)
_PERSIST_MODE: Final[Kind] = EnumOf(PersistMode, PersistMode.DEFAULT, aliases={"": PersistMode.DEFAULT})


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where in a cluster a stream should live."""

    cluster: str = wire(STRING, omit_empty=True)
    tags: tuple[str, ...] = wire(STRING_LIST, omit_empty=True)
    preferred: str = wire(STRING, omit_empty=True)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SubjectTransform:
    """Subjects under `src` are rewritten to `dest`."""

    src: str = wire(STRING)
    dest: str = wire(STRING)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RePublish:
    """Stored messages under `src` are published again on `dest`."""

    src: str = wire(STRING, omit_empty=True)
    dest: str = wire(STRING)
    headers_only: bool = wire(BOOL, omit_empty=True)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ExternalStream:
    """How to reach a stream of another account or domain."""

    api: str = wire(STRING)
    deliver: str = wire(STRING)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StreamConsumerSource:
    """The durable consumer to read an origin through, instead of one made for the purpose."""

    name: str = wire(STRING, omit_empty=True)
    deliver_subject: str = wire(STRING, omit_empty=True)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StreamSource:
    """The origin of a mirror, or one origin of a sourcing stream."""

    name: str = wire(STRING)
    opt_start_seq: int = wire(UINT64, omit_empty=True)
    opt_start_time: WireTime | None = wire(TIME, omit_empty=True)
    filter_subject: str = wire(STRING, omit_empty=True)
    subject_transforms: tuple[SubjectTransform, ...] = wire(
        ListOf(StructOf(SubjectTransform, "server.SubjectTransformConfig", optional=False),
               "[]server.SubjectTransformConfig"),
        omit_empty=True,
    )  # fmt: skip
    external: ExternalStream | None = wire(StructOf(ExternalStream, "server.ExternalStream"), omit_empty=True)
    consumer: StreamConsumerSource | None = wire(
        StructOf(StreamConsumerSource, "server.StreamConsumerSource"), omit_empty=True
    )
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "subject_transforms", tuple(self.subject_transforms))


@dataclass(frozen=True, kw_only=True)
class ConsumerLimits:
    """Defaults and caps for the stream's consumers."""

    inactive_threshold: int = wire(DURATION, omit_empty=True)
    max_ack_pending: int = wire(INT, omit_empty=True)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """A stream's configuration. `StreamConfig(name="ORDERS")` is complete: everything else has a default."""

    name: str = wire(STRING)
    description: str = wire(STRING, omit_empty=True)
    subjects: tuple[str, ...] = wire(STRING_LIST, omit_empty=True)
    retention: Retention = wire(_RETENTION, default=Retention.LIMITS)
    max_consumers: int = wire(INT, default=-1)
    max_msgs: int = wire(INT64, default=-1)
    max_bytes: int = wire(INT64, default=-1)
    max_age: int = wire(DURATION)
    max_msgs_per_subject: int = wire(INT64, default=-1)
    max_msg_size: int = wire(INT32, default=-1, omit_empty=True)
    discard: Discard = wire(_DISCARD, default=Discard.OLD)
    storage: Storage = wire(_STORAGE, default=Storage.FILE)
    num_replicas: int = wire(INT, default=1)
    no_ack: bool = wire(BOOL, omit_empty=True)
    duplicate_window: int = wire(DURATION, omit_empty=True)
    placement: Placement | None = wire(StructOf(Placement, "server.Placement"), omit_empty=True)
    mirror: StreamSource | None = wire(StructOf(StreamSource, "server.StreamSource"), omit_empty=True)
    sources: tuple[StreamSource, ...] = wire(
        ListOf(StructOf(StreamSource, "server.StreamSource"), "[]*server.StreamSource"), omit_empty=True
    )
    compression: Compression = wire(_COMPRESSION, default=Compression.NONE)
    first_seq: int = wire(UINT64, omit_empty=True)
    subject_transform: SubjectTransform | None = wire(
        StructOf(SubjectTransform, "server.SubjectTransformConfig"), omit_empty=True
    )
    republish: RePublish | None = wire(StructOf(RePublish, "server.RePublish"), omit_empty=True)
    allow_direct: bool = wire(BOOL)
    mirror_direct: bool = wire(BOOL)
    discard_new_per_subject: bool = wire(BOOL, omit_empty=True)
    sealed: bool = wire(BOOL)
    deny_delete: bool = wire(BOOL)
    deny_purge: bool = wire(BOOL)
    allow_rollup_hdrs: bool = wire(BOOL)
    consumer_limits: ConsumerLimits = wire(StructOf(ConsumerLimits, "server.StreamConsumerLimits", optional=False))
    allow_msg_ttl: bool = wire(BOOL)
    subject_delete_marker_ttl: int = wire(DURATION, omit_empty=True)
    allow_msg_counter: bool = wire(BOOL, omit_empty=True)
    allow_atomic: bool = wire(BOOL, omit_empty=True)
    allow_msg_schedules: bool = wire(BOOL, omit_empty=True)
    persist_mode: PersistMode = wire(_PERSIST_MODE, default=PersistMode.DEFAULT, omit_empty=True)
    allow_batched: bool = wire(BOOL, omit_empty=True)
    metadata: Mapping[str, str] = wire(STRING_MAP, omit_empty=True)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields this version does not know, kept so that a newer server's configuration survives an update."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "subjects", tuple(self.subjects))
        object.__setattr__(self, "sources", tuple(self.sources))

    def encode(self) -> dict[str, Any]:
        """The document, keys in nats-server's order."""
        return encode_struct(self)

    @classmethod
    def decode(cls, document: Mapping[str, Any] | JsonObject, *, strict: bool = False) -> StreamConfig:
        """Read a parsed document; strict refuses unknown fields and words with `ApiError` 10025."""
        values: dict[str, Any] = {}
        try:
            decode_into(values, wire_fields(cls), document, "StreamConfig", strict)
        except SchemaError as error:
            raise make(ErrorCode.INVALID_JSON, err=error) from None
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class StreamConfigRequest:
    """The body of a stream create or update."""

    config: StreamConfig
    pedantic: bool = False


_REQUEST_FIELDS: Final = (*wire_fields(StreamConfig), WireField("pedantic", BOOL, True))


def parse_stream_config_request(body: bytes, *, strict: bool = True) -> StreamConfigRequest:
    """Read the body of STREAM.CREATE or STREAM.UPDATE; an empty body is an empty configuration."""
    values = decode_documents(_REQUEST_FIELDS, body, "StreamConfigRequest", strict)
    values.pop("extra", None)
    pedantic = bool(values.pop("pedantic", False))
    return StreamConfigRequest(config=StreamConfig(**values), pedantic=pedantic)
