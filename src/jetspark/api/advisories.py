"""Events JetStream publishes about itself, as (subject, document).

Decided here: subjects, types, keys and their order. Not known here: whether anyone listens, and when an event is due.
The unique `id` and the time come in as arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jetspark.api.api_subjects import ADVISORY_PREFIX, METRIC_PREFIX
from jetspark.api.stream_state import StreamState
from jetspark.api.timestamps import format_time

ADVISORY_TYPE_PREFIX: Final = "io.nats.jetstream.advisory.v1."
METRIC_TYPE_PREFIX: Final = "io.nats.jetstream.metric.v1."

Event = tuple[str, dict[str, Any]]

_STREAM_VERBS: Final = {"create": "CREATED", "delete": "DELETED", "modify": "UPDATED"}


@dataclass(frozen=True, slots=True)
class Stamp:
    """What makes an event one of its kind: its id and its time, and the server's domain if it has one."""

    id: str
    time_ns: int
    domain: str = ""

    def start(self, event_type: str) -> dict[str, Any]:
        """The keys every event begins with."""
        return {"type": event_type, "id": self.id, "timestamp": format_time(self.time_ns)}

    def finish(self, document: dict[str, Any]) -> dict[str, Any]:
        """Add the domain, where there is one."""
        if self.domain:
            document["domain"] = self.domain
        return document


def api_audit(
    stamp: Stamp, *, server: str, client: Mapping[str, Any], subject: str, request: str, response: str
) -> Event:
    """Someone used the API."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "api_audit")
    document |= {"server": server, "client": client, "subject": subject}
    if request:
        document["request"] = request
    document["response"] = response
    return f"{ADVISORY_PREFIX}.API", stamp.finish(document)


def stream_action(stamp: Stamp, *, stream: str, action: str) -> Event:
    """A stream was created, changed or deleted; action is `create`, `modify` or `delete`."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "stream_action")
    document |= {"stream": stream, "action": action}
    return f"{ADVISORY_PREFIX}.STREAM.{_STREAM_VERBS[action]}.{stream}", stamp.finish(document)


def consumer_action(stamp: Stamp, *, stream: str, consumer: str, action: str) -> Event:
    """A consumer was created or deleted; action is `create` or `delete`."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "consumer_action")
    document |= {"stream": stream, "consumer": consumer, "action": action}
    verb = _STREAM_VERBS[action]
    return f"{ADVISORY_PREFIX}.CONSUMER.{verb}.{stream}.{consumer}", stamp.finish(document)


def consumer_pause(stamp: Stamp, *, stream: str, consumer: str, paused: bool, pause_until_ns: int) -> Event:
    """A consumer was paused, or its pause ended."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "consumer_pause")
    document |= {"stream": stream, "consumer": consumer, "paused": paused, "pause_until": format_time(pause_until_ns)}
    return f"{ADVISORY_PREFIX}.CONSUMER.PAUSE.{stream}.{consumer}", stamp.finish(document)


def max_deliver(stamp: Stamp, *, stream: str, consumer: str, stream_seq: int, deliveries: int) -> Event:
    """A message was delivered as often as it may be, without an ack."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "max_deliver")
    document |= {"stream": stream, "consumer": consumer, "stream_seq": stream_seq, "deliveries": deliveries}
    return f"{ADVISORY_PREFIX}.CONSUMER.MAX_DELIVERIES.{stream}.{consumer}", stamp.finish(document)


def nak(stamp: Stamp, *, stream: str, consumer: str, consumer_seq: int, stream_seq: int, deliveries: int) -> Event:
    """A client refused a message."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "nak")
    document |= {
        "stream": stream,
        "consumer": consumer,
        "consumer_seq": consumer_seq,
        "stream_seq": stream_seq,
        "deliveries": deliveries,
    }
    return f"{ADVISORY_PREFIX}.CONSUMER.MSG_NAKED.{stream}.{consumer}", stamp.finish(document)


def terminated(
    stamp: Stamp,
    *,
    stream: str,
    consumer: str,
    consumer_seq: int,
    stream_seq: int,
    deliveries: int,
    reason: str = "",
) -> Event:
    """A message will not be delivered again, because a client or a limit said so."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "terminated")
    document |= {
        "stream": stream,
        "consumer": consumer,
        "consumer_seq": consumer_seq,
        "stream_seq": stream_seq,
        "deliveries": deliveries,
    }
    if reason:
        document["reason"] = reason
    return f"{ADVISORY_PREFIX}.CONSUMER.MSG_TERMINATED.{stream}.{consumer}", stamp.finish(document)


def consumer_ack(
    stamp: Stamp,
    *,
    stream: str,
    consumer: str,
    consumer_seq: int,
    stream_seq: int,
    ack_time_ns: int,
    deliveries: int,
) -> Event:
    """A sampled ack: how long after its delivery it came."""
    document = stamp.start(METRIC_TYPE_PREFIX + "consumer_ack")
    document |= {
        "stream": stream,
        "consumer": consumer,
        "consumer_seq": consumer_seq,
        "stream_seq": stream_seq,
        "ack_time": ack_time_ns,
        "deliveries": deliveries,
    }
    return f"{METRIC_PREFIX}.CONSUMER.ACK.{stream}.{consumer}", stamp.finish(document)


def group_pinned(stamp: Stamp, *, account: str, stream: str, consumer: str, group: str, pinned_id: str) -> Event:
    """A client became the pinned one of its priority group."""
    document = _group(stamp, "consumer_group_pinned", account, stream, consumer, group)
    document["pinned_id"] = pinned_id
    return f"{ADVISORY_PREFIX}.CONSUMER.PINNED.{stream}.{consumer}", document


def group_unpinned(stamp: Stamp, *, account: str, stream: str, consumer: str, group: str, reason: str) -> Event:
    """A priority group lost its pinned client; reason is `admin` or `timeout`."""
    document = _group(stamp, "consumer_group_unpinned", account, stream, consumer, group)
    document["reason"] = reason
    return f"{ADVISORY_PREFIX}.CONSUMER.UNPINNED.{stream}.{consumer}", document


def _group(stamp: Stamp, name: str, account: str, stream: str, consumer: str, group: str) -> dict[str, Any]:
    document = stamp.start(ADVISORY_TYPE_PREFIX + name)
    if account:
        document["account"] = account
    document |= {"stream": stream, "consumer": consumer}
    # Here, unlike elsewhere, the domain comes before the last keys.
    stamp.finish(document)
    document["group"] = group
    return document


def snapshot_create(stamp: Stamp, *, stream: str, state: StreamState, client: Mapping[str, Any]) -> Event:
    """A snapshot started."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "snapshot_create")
    document |= {"stream": stream, "state": state.encode(), "client": client}
    return f"{ADVISORY_PREFIX}.STREAM.SNAPSHOT_CREATE.{stream}", stamp.finish(document)


def snapshot_complete(
    stamp: Stamp, *, stream: str, start_ns: int, end_ns: int, client: Mapping[str, Any], error: str = ""
) -> Event:
    """A snapshot ended, well or with an error."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "snapshot_complete")
    document |= {"stream": stream, "start": format_time(start_ns), "end": format_time(end_ns), "client": client}
    stamp.finish(document)
    if error:
        document["error"] = error
    return f"{ADVISORY_PREFIX}.STREAM.SNAPSHOT_COMPLETE.{stream}", document


def restore_create(stamp: Stamp, *, stream: str, client: Mapping[str, Any]) -> Event:
    """A restore started."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "restore_create")
    document |= {"stream": stream, "client": client}
    return f"{ADVISORY_PREFIX}.STREAM.RESTORE_CREATE.{stream}", stamp.finish(document)


def restore_complete(
    stamp: Stamp, *, stream: str, start_ns: int, end_ns: int, received_bytes: int, client: Mapping[str, Any]
) -> Event:
    """A restore ended."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "restore_complete")
    document |= {
        "stream": stream,
        "start": format_time(start_ns),
        "end": format_time(end_ns),
        "bytes": received_bytes,
        "client": client,
    }
    return f"{ADVISORY_PREFIX}.STREAM.RESTORE_COMPLETE.{stream}", stamp.finish(document)


def batch_abandoned(stamp: Stamp, *, account: str, stream: str, batch: str, reason: str) -> Event:
    """An atomic batch was given up: `timeout`, `large`, `incomplete` or `unsupported`."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "stream_batch_abandoned")
    if account:
        document["account"] = account
    document["stream"] = stream
    stamp.finish(document)
    document |= {"batch": batch, "reason": reason}
    return f"{ADVISORY_PREFIX}.STREAM.BATCH_ABANDONED.{stream}", document


def out_of_storage(stamp: Stamp, *, server: str, server_id: str, stream: str, cluster: str = "") -> Event:
    """The disk is full; JetStream stops taking messages."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "server_out_of_space")
    document |= {"server": server, "server_id": server_id}
    if stream:
        document["stream"] = stream
    document["cluster"] = cluster
    return f"{ADVISORY_PREFIX}.SERVER.OUT_OF_STORAGE", stamp.finish(document)


def api_limit_reached(stamp: Stamp, *, server: str, dropped: int) -> Event:
    """More API requests waited than are allowed; all of them were dropped."""
    document = stamp.start(ADVISORY_TYPE_PREFIX + "api_limit_reached")
    document |= {"server": server}
    stamp.finish(document)
    document["dropped"] = dropped
    return f"{ADVISORY_PREFIX}.API.LIMIT_REACHED", document
