"""What a stream holds right now, as a document.

Decided here: the fields of a stream's state and when they appear.
Not known here: how they are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jetspark.api.schema import (
    INT,
    TIME_VALUE,
    UINT64,
    UINT64_LIST,
    UINT64_MAP,
    StructOf,
    decode_into,
    encode_struct,
    wire,
    wire_fields,
)
from jetspark.api.timestamps import WireTime


@dataclass(frozen=True, kw_only=True)
class LostStreamData:
    """Messages that were stored once and could not be read back."""

    msgs: tuple[int, ...] = wire(UINT64_LIST)
    bytes: int = wire(UINT64)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """Counts, first and last sequence with their times; details only when they were asked for."""

    messages: int = wire(UINT64)
    """Number of messages."""
    bytes: int = wire(UINT64)
    """Size of the messages in bytes, with their overhead."""
    first_seq: int = wire(UINT64)
    """Sequence of the first message."""
    first_ts: WireTime = wire(TIME_VALUE)
    """Time of the first message."""
    last_seq: int = wire(UINT64)
    """Sequence of the last message."""
    last_ts: WireTime = wire(TIME_VALUE)
    """Time of the last message."""
    num_subjects: int = wire(INT, omit_empty=True)
    """Number of subjects."""
    subjects: Mapping[str, int] = wire(UINT64_MAP, omit_empty=True)
    """Number of messages of each subject, if `info` was called with `subjects_filter`."""
    num_deleted: int = wire(INT, omit_empty=True)
    """Number of deleted messages between the first and the last."""
    deleted: tuple[int, ...] = wire(UINT64_LIST, omit_empty=True)
    """The deleted sequences, if `info` was called with `deleted_details`."""
    lost: LostStreamData | None = wire(StructOf(LostStreamData, "server.LostStreamData"), omit_empty=True)
    """Messages that were damaged on disk and cannot be read."""
    consumer_count: int = wire(INT)
    """Number of consumers."""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> dict[str, Any]:
        """The document, keys in nats-server's order."""
        return encode_struct(self)

    @classmethod
    def decode(cls, document: Mapping[str, Any]) -> StreamState:
        """Read a parsed document, keeping fields this version does not know."""
        values: dict[str, Any] = {}
        decode_into(values, wire_fields(cls), document, "StreamState", strict=False)
        return cls(**values)
