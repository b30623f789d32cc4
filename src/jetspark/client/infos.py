"""What the server tells about streams, consumers and publishes, as typed values.

Every value keeps the whole document it was read from in `raw`, so that fields of a newer server are not lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.stream_config import StreamConfig
from jetspark.api.stream_state import StreamState
from jetspark.client.api_errors import api_error
from jetspark.client.errors import JetStreamError

_BAD_DOCUMENT: Final = (KeyError, TypeError, ValueError, AttributeError)


def read_answer(data: bytes) -> dict[str, Any]:
    """The document an API request was answered with; raises the ApiError it may be."""
    try:
        answer: dict[str, Any] = msgspec.json.decode(data, type=dict)
        refusal = api_error(answer["error"]) if answer.get("error") else None
    except (msgspec.DecodeError, *_BAD_DOCUMENT):
        raise JetStreamError(f"not an answer of the JetStream API: {data[:80]!r}") from None
    if refusal is not None:
        raise refusal
    return answer


def _bad(kind: str, raw: object, error: Exception) -> JetStreamError:
    return JetStreamError(f"not a {kind} as the JetStream API gives it ({error!r}): {str(raw)[:80]}")


@dataclass(frozen=True, slots=True)
class PubAck:
    """The acknowledgement of a publish: the message is in the stream."""

    stream: str
    """The stream that stored the message."""
    seq: int
    """The sequence of the message in the stream."""
    duplicate: bool = False
    """The message id was stored before: nothing new is stored, and `seq` is that of the first message."""
    domain: str = ""
    """The JetStream domain; empty if there is none."""
    batch: str = ""
    """The id of the batch, for atomic and fast batches."""
    count: int = 0
    """The number of messages in the batch."""
    value: str = ""
    """The new value of the counter, on a stream with `allow_msg_counter`."""


def parse_pub_ack(document: bytes) -> PubAck:
    """Read an acknowledgement; raises the ApiError it may be."""
    try:
        raw = msgspec.json.decode(document, type=dict)
        refusal = api_error(raw["error"]) if "error" in raw else None
    except (msgspec.DecodeError, *_BAD_DOCUMENT):
        raise JetStreamError(f"not an acknowledgement of a stream: {document[:80]!r}") from None
    if refusal is not None:
        raise refusal
    if not isinstance(raw.get("stream"), str) or not isinstance(raw.get("seq"), int):
        # Somebody else answered: the subject has a responder that is no stream.
        raise JetStreamError(f"not an acknowledgement of a stream: {document[:80]!r}")
    return PubAck(
        raw["stream"],
        raw["seq"],
        bool(raw.get("duplicate", False)),
        raw.get("domain", ""),
        raw.get("batch", ""),
        raw.get("count", 0),
        raw.get("val", ""),
    )


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """Settings and state of a stream."""

    config: StreamConfig
    """The settings of the stream."""
    state: StreamState
    """Number of messages, bytes, first and last sequence, and more."""
    created: str
    """When the stream was created."""
    domain: str = ""
    """The JetStream domain; empty if there is none."""
    cluster: dict[str, Any] | None = None
    """Leader and replicas, on a cluster."""
    mirror: dict[str, Any] | None = None
    """The stream it mirrors, with its lag."""
    sources: list[dict[str, Any]] = field(default_factory=list)
    """The streams it copies from, with their lag."""
    raw: dict[str, Any] = field(default_factory=dict, repr=False)
    """The answer of the server, as it came."""

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.config.name

    @classmethod
    def read(cls, raw: dict[str, Any]) -> StreamInfo:
        """From an answer."""
        try:
            return cls(
                StreamConfig.decode(raw["config"]),
                StreamState.decode(raw["state"]),
                str(raw.get("created", "")),
                str(raw.get("domain", "")),
                raw.get("cluster"),
                raw.get("mirror"),
                list(raw.get("sources") or []),
                raw,
            )
        except _BAD_DOCUMENT as error:
            raise _bad("stream", raw, error) from None


@dataclass(frozen=True, slots=True)
class SequencePair:
    """A position, as a consumer sequence (which counts deliveries) and as a stream sequence."""

    consumer_seq: int
    """Counts the deliveries of the consumer."""
    stream_seq: int
    """The sequence in the stream."""
    last_active: str = ""
    """When it last changed."""

    @classmethod
    def read(cls, raw: dict[str, Any]) -> SequencePair:
        """From an answer."""
        return cls(int(raw.get("consumer_seq", 0)), int(raw.get("stream_seq", 0)), str(raw.get("last_active", "")))


@dataclass(frozen=True, slots=True)
class PriorityGroupState:
    """The pinned client of a priority group; empty if there is none."""

    group: str
    """The name of the group."""
    pinned_client_id: str = ""
    """The id of the pinned client."""
    pinned_ts: str = ""
    """Since when it is pinned."""

    @classmethod
    def read(cls, raw: dict[str, Any]) -> PriorityGroupState:
        """From an answer, in today's words or in the first specification's."""
        pinned = raw.get("pinned_client_id", raw.get("pinned_id", ""))
        return cls(str(raw.get("group", raw.get("name", ""))), str(pinned), str(raw.get("pinned_ts", "")))


@dataclass(frozen=True, slots=True)
class ConsumerInfo:
    """Settings and state of a consumer."""

    stream_name: str
    """The stream it reads."""
    name: str
    """Its name."""
    config: ConsumerConfig
    """The settings of the consumer."""
    delivered: SequencePair
    """The last delivery."""
    ack_floor: SequencePair
    """Everything up to here is acknowledged."""
    num_ack_pending: int
    """Messages that are delivered and not acknowledged."""
    num_redelivered: int
    """Messages that were delivered more than once and are not acknowledged."""
    num_waiting: int
    """Pull requests that wait for messages."""
    num_pending: int
    """Messages that are still to be delivered: the lag."""
    created: str = ""
    """When the consumer was created."""
    push_bound: bool = False
    """Whether somebody receives from this push consumer."""
    paused: bool = False
    """Whether it is paused."""
    pause_remaining_ns: int = 0
    """How long the pause still lasts, in nanoseconds."""
    priority_groups: list[PriorityGroupState] = field(default_factory=list)
    """The priority groups and their pinned clients."""
    cluster: dict[str, Any] | None = None
    """Leader and replicas, on a cluster."""
    raw: dict[str, Any] = field(default_factory=dict, repr=False)
    """The answer of the server, as it came."""

    @property
    def soonest_redelivery_s(self) -> float:
        """The shortest time in seconds after which a message may be delivered again; 0 if it is not known."""
        return min(self.config.backoff, default=self.config.ack_wait) / 1e9

    @classmethod
    def read(cls, raw: dict[str, Any]) -> ConsumerInfo:
        """From an answer."""
        try:
            return cls._read(raw)
        except _BAD_DOCUMENT as error:
            raise _bad("consumer", raw, error) from None

    @classmethod
    def _read(cls, raw: dict[str, Any]) -> ConsumerInfo:
        return cls(
            stream_name=str(raw.get("stream_name", "")),
            name=str(raw.get("name", "")),
            config=ConsumerConfig.decode(raw.get("config", {})),
            delivered=SequencePair.read(raw.get("delivered") or {}),
            ack_floor=SequencePair.read(raw.get("ack_floor") or {}),
            num_ack_pending=int(raw.get("num_ack_pending", 0)),
            num_redelivered=int(raw.get("num_redelivered", 0)),
            num_waiting=int(raw.get("num_waiting", 0)),
            num_pending=int(raw.get("num_pending", 0)),
            created=str(raw.get("created", "")),
            push_bound=bool(raw.get("push_bound", False)),
            paused=bool(raw.get("paused", False)),
            pause_remaining_ns=int(raw.get("pause_remaining", 0)),
            priority_groups=[PriorityGroupState.read(one) for one in raw.get("priority_groups") or []],
            cluster=raw.get("cluster"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class AccountInfo:
    """How much of JetStream an account uses, and its limits."""

    memory: int
    """Bytes used by memory streams."""
    storage: int
    """Bytes used by file streams."""
    streams: int
    """Number of streams."""
    consumers: int
    """Number of consumers."""
    limits: dict[str, Any]
    """The limits of the account."""
    api: dict[str, Any]
    """Number of API requests and errors."""
    domain: str = ""
    """The JetStream domain; empty if there is none."""
    raw: dict[str, Any] = field(default_factory=dict, repr=False)
    """The answer of the server, as it came."""

    @classmethod
    def read(cls, raw: dict[str, Any]) -> AccountInfo:
        """From an answer."""
        return cls(
            int(raw.get("memory", 0)),
            int(raw.get("storage", 0)),
            int(raw.get("streams", 0)),
            int(raw.get("consumers", 0)),
            dict(raw.get("limits") or {}),
            dict(raw.get("api") or {}),
            str(raw.get("domain", "")),
            raw,
        )
