"""Answers of the JetStream API, as documents.

Decided here: the `type` of each answer, its keys, their order and which of them appear when empty. An answer with an
error still carries its non-omittable fields, zeroed, because nats-server's clients expect their shape.
Not known here: the numbers in them.

Builders return plain dicts ready for `encode_json`. Times come in as unix nanoseconds.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from jetspark.api.error_codes import ApiError
from jetspark.api.requests import API_LEVEL
from jetspark.api.stream_state import StreamState
from jetspark.api.timestamps import ZERO_TIME_NS, ZERO_TIME_TEXT, format_time

TYPE_PREFIX: Final = "io.nats.jetstream.api.v1."

ACCOUNT_INFO: Final = "account_info_response"
STREAM_CREATE: Final = "stream_create_response"
STREAM_UPDATE: Final = "stream_update_response"
STREAM_INFO: Final = "stream_info_response"
STREAM_NAMES: Final = "stream_names_response"
STREAM_LIST: Final = "stream_list_response"
STREAM_DELETE: Final = "stream_delete_response"
STREAM_PURGE: Final = "stream_purge_response"
STREAM_MSG_GET: Final = "stream_msg_get_response"
STREAM_MSG_DELETE: Final = "stream_msg_delete_response"
STREAM_SNAPSHOT: Final = "stream_snapshot_response"
STREAM_RESTORE: Final = "stream_restore_response"
STREAM_REMOVE_PEER: Final = "stream_remove_peer_response"
STREAM_LEADER_STEPDOWN: Final = "stream_leader_stepdown_response"
CONSUMER_CREATE: Final = "consumer_create_response"
CONSUMER_INFO: Final = "consumer_info_response"
CONSUMER_NAMES: Final = "consumer_names_response"
CONSUMER_LIST: Final = "consumer_list_response"
CONSUMER_DELETE: Final = "consumer_delete_response"
CONSUMER_PAUSE: Final = "consumer_pause_response"
CONSUMER_UNPIN: Final = "consumer_unpin_response"
CONSUMER_RESET: Final = "consumer_reset_response"
CONSUMER_LEADER_STEPDOWN: Final = "consumer_leader_stepdown_response"

NAMES_PAGE_LIMIT: Final = 1024
LIST_PAGE_LIMIT: Final = 256
SUBJECTS_PAGE_LIMIT: Final = 100_000
# The longest duration clients can read; longer ones are written as this.
DURATION_MAX_NS: Final = (1 << 63) - 1

_ENCODER: Final = msgspec.json.Encoder()
_NOBODY: Final[Mapping[str, str]] = {}


def encode_json(document: Mapping[str, Any]) -> bytes:
    """The document as compact JSON bytes."""
    return _ENCODER.encode(document)


# What an answer still carries beside its error, by type. Types not listed carry nothing.
_ZERO_PAGE: Final[Mapping[str, Any]] = {"total": 0, "offset": 0, "limit": 0}
_ZERO_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    STREAM_INFO: _ZERO_PAGE,
    STREAM_NAMES: {**_ZERO_PAGE, "streams": None},
    STREAM_LIST: {**_ZERO_PAGE, "streams": []},
    STREAM_PURGE: {"purged": 0},
    STREAM_RESTORE: {"deliver_subject": ""},
    CONSUMER_NAMES: {**_ZERO_PAGE, "consumers": []},
    CONSUMER_LIST: {**_ZERO_PAGE, "consumers": []},
    CONSUMER_PAUSE: {"paused": False, "pause_until": ZERO_TIME_TEXT},
    CONSUMER_RESET: {"reset_seq": 0},
}


def error(response_type: str, api_error: ApiError) -> dict[str, Any]:
    """The answer of that type that reports an error."""
    return {
        "type": TYPE_PREFIX + response_type,
        "error": api_error.to_document(),
        **_ZERO_FIELDS.get(response_type, {}),
    }


def success(response_type: str) -> dict[str, Any]:
    """The answer that only says it worked: deletes and the like."""
    return {"type": TYPE_PREFIX + response_type, "success": True}


def page(total: int, offset: int, limit: int) -> tuple[int, int]:
    """Where a page starts and ends in a list of `total`: an offset past the end is pulled back to it."""
    start = min(max(offset, 0), total)
    return start, min(start + limit, total)


def _paged(response_type: str, total: int, offset: int, limit: int) -> dict[str, Any]:
    return {"type": TYPE_PREFIX + response_type, "total": total, "offset": offset, "limit": limit}


def stream_names(names: Sequence[str], offset: int) -> dict[str, Any]:
    """One page of all matching stream names, given sorted; no names at all are `null`."""
    start, end = page(len(names), offset, NAMES_PAGE_LIMIT)
    document = _paged(STREAM_NAMES, len(names), start, NAMES_PAGE_LIMIT)
    document["streams"] = list(names[start:end]) or None
    return document


def stream_list(
    infos: Iterable[dict[str, Any]], total: int, offset: int, offline: Mapping[str, str] = _NOBODY
) -> dict[str, Any]:
    """A page of stream infos, already cut by `page` with `LIST_PAGE_LIMIT`; and why some of it have no info."""
    start, _ = page(total, offset, LIST_PAGE_LIMIT)
    document = _paged(STREAM_LIST, total, start, LIST_PAGE_LIMIT)
    document["streams"] = list(infos)
    return _with_offline(document, offline)


def consumer_names(names: Sequence[str], offset: int) -> dict[str, Any]:
    """One page of all consumer names, given sorted."""
    start, end = page(len(names), offset, NAMES_PAGE_LIMIT)
    document = _paged(CONSUMER_NAMES, len(names), start, NAMES_PAGE_LIMIT)
    document["consumers"] = list(names[start:end])
    return document


def consumer_list(
    infos: Iterable[dict[str, Any]], total: int, offset: int, offline: Mapping[str, str] = _NOBODY
) -> dict[str, Any]:
    """A page of consumer infos, already cut by `page` with `LIST_PAGE_LIMIT`; and why some of it have no info."""
    start, _ = page(total, offset, LIST_PAGE_LIMIT)
    document = _paged(CONSUMER_LIST, total, start, LIST_PAGE_LIMIT)
    document["consumers"] = list(infos)
    return _with_offline(document, offline)


def _with_offline(document: dict[str, Any], offline: Mapping[str, str]) -> dict[str, Any]:
    if offline:
        document["missing"] = list(offline)
        document["offline"] = dict(offline)
    return document


def source_info(
    name: str,
    *,
    lag: int,
    active_ns: int,
    seq: int = 0,
    external: Mapping[str, Any] | None = None,
    error: ApiError | None = None,
    filter_subject: str = "",
    subject_transforms: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """How far a mirror or one source has come; `active_ns` -1 means its origin was never heard from."""
    document: dict[str, Any] = {"name": name}
    if external is not None:
        document["external"] = external
    document["lag"] = lag
    if seq:
        document["seq"] = seq
    document["active"] = active_ns
    if error is not None:
        document["error"] = error.to_document()
    if filter_subject:
        document["filter_subject"] = filter_subject
    if subject_transforms:
        document["subject_transforms"] = list(subject_transforms)
    return document


def stream_info_fields(
    *,
    config: Mapping[str, Any],
    created_ns: int,
    state: StreamState,
    now_ns: int,
    domain: str = "",
    leader: str = "",
    mirror: Mapping[str, Any] | None = None,
    sources: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """What every answer about a stream carries. A leader is only named in answers to STREAM.INFO."""
    document: dict[str, Any] = {"config": config, "created": format_time(created_ns), "state": state.encode()}
    if domain:
        document["domain"] = domain
    if leader:
        document["cluster"] = {"leader": leader}
    if mirror is not None:
        document["mirror"] = mirror
    if sources:
        document["sources"] = list(sources)
    document["ts"] = format_time(now_ns)
    return document


def stream_created(fields: Mapping[str, Any], *, did_create: bool = True) -> dict[str, Any]:
    """The answer to STREAM.CREATE, and with `did_create` false the last answer of a restore."""
    document = {"type": TYPE_PREFIX + STREAM_CREATE, **fields}
    if did_create:
        document["did_create"] = True
    return document


def stream_updated(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to STREAM.UPDATE."""
    return {"type": TYPE_PREFIX + STREAM_UPDATE, **fields}


def stream_info(fields: Mapping[str, Any], *, total: int = 0, offset: int = 0, limit: int = 0) -> dict[str, Any]:
    """The answer to STREAM.INFO; paging is zero unless subjects were asked for."""
    return {**_paged(STREAM_INFO, total, offset, limit), **fields}


def stream_purged(purged: int) -> dict[str, Any]:
    """The answer to STREAM.PURGE."""
    return {"type": TYPE_PREFIX + STREAM_PURGE, "success": True, "purged": purged}


def stream_message(subject: str, seq: int, headers: bytes, data: bytes, timestamp_ns: int) -> dict[str, Any]:
    """The answer to STREAM.MSG.GET; headers and data are base64 and left out when empty."""
    message: dict[str, Any] = {"subject": subject, "seq": seq}
    if headers:
        message["hdrs"] = b64encode(headers).decode()
    if data:
        message["data"] = b64encode(data).decode()
    message["time"] = format_time(timestamp_ns)
    return {"type": TYPE_PREFIX + STREAM_MSG_GET, "message": message}


def stream_snapshot(config: Mapping[str, Any], state: StreamState) -> dict[str, Any]:
    """The first answer to STREAM.SNAPSHOT."""
    return {"type": TYPE_PREFIX + STREAM_SNAPSHOT, "config": config, "state": state.encode()}


def stream_restore(deliver_subject: str) -> dict[str, Any]:
    """The first answer to STREAM.RESTORE: where the chunks go."""
    return {"type": TYPE_PREFIX + STREAM_RESTORE, "deliver_subject": deliver_subject}


def sequence_info(consumer_seq: int, stream_seq: int, last_active_ns: int = 0) -> dict[str, Any]:
    """A pair of sequences; the time is left out until there was activity."""
    document: dict[str, Any] = {"consumer_seq": consumer_seq, "stream_seq": stream_seq}
    if last_active_ns:
        document["last_active"] = format_time(last_active_ns)
    return document


def priority_group_state(group: str, pinned_client_id: str = "", pinned_ns: int = ZERO_TIME_NS) -> dict[str, Any]:
    """One priority group; the time is always there, zero when nobody is pinned."""
    document: dict[str, Any] = {"group": group}
    if pinned_client_id:
        document["pinned_client_id"] = pinned_client_id
    document["pinned_ts"] = format_time(pinned_ns)
    return document


def consumer_info_fields(
    *,
    stream: str,
    name: str,
    created_ns: int,
    config: Mapping[str, Any],
    delivered: Mapping[str, Any],
    ack_floor: Mapping[str, Any],
    num_ack_pending: int,
    num_redelivered: int,
    num_waiting: int,
    num_pending: int,
    now_ns: int,
    push_bound: bool = False,
    pause_remaining_ns: int = 0,
    priority_groups: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """What every answer about a consumer carries; a positive remaining pause makes it paused."""
    document: dict[str, Any] = {
        "stream_name": stream,
        "name": name,
        "created": format_time(created_ns),
        "config": config,
        "delivered": delivered,
        "ack_floor": ack_floor,
        "num_ack_pending": num_ack_pending,
        "num_redelivered": num_redelivered,
        "num_waiting": num_waiting,
        "num_pending": num_pending,
    }
    if push_bound:
        document["push_bound"] = True
    if pause_remaining_ns > 0:
        document["paused"] = True
        document["pause_remaining"] = min(pause_remaining_ns, DURATION_MAX_NS)
    document["ts"] = format_time(now_ns)
    if priority_groups:
        document["priority_groups"] = list(priority_groups)
    return document


def consumer_created(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to every form of consumer create, whether it created, updated or found."""
    return {"type": TYPE_PREFIX + CONSUMER_CREATE, **fields}


def consumer_info(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to CONSUMER.INFO."""
    return {"type": TYPE_PREFIX + CONSUMER_INFO, **fields}


def consumer_reset(fields: Mapping[str, Any], reset_seq: int) -> dict[str, Any]:
    """The answer to CONSUMER.RESET."""
    return {"type": TYPE_PREFIX + CONSUMER_RESET, **fields, "reset_seq": reset_seq}


def consumer_paused(pause_until_ns: int, now_ns: int) -> dict[str, Any]:
    """The answer to CONSUMER.PAUSE; a time already past is not a pause."""
    paused = pause_until_ns != ZERO_TIME_NS and pause_until_ns > now_ns
    document: dict[str, Any] = {
        "type": TYPE_PREFIX + CONSUMER_PAUSE,
        "paused": paused,
        "pause_until": format_time(pause_until_ns),
    }
    if paused:
        document["pause_remaining"] = min(pause_until_ns - now_ns, DURATION_MAX_NS)
    return document


def consumer_unpinned() -> dict[str, Any]:
    """The answer to CONSUMER.UNPIN."""
    return {"type": TYPE_PREFIX + CONSUMER_UNPIN}


def account_limits(
    *,
    max_memory: int = -1,
    max_storage: int = -1,
    max_streams: int = -1,
    max_consumers: int = -1,
    max_ack_pending: int = -1,
    memory_max_stream_bytes: int = -1,
    storage_max_stream_bytes: int = -1,
    max_bytes_required: bool = False,
) -> dict[str, Any]:
    """The limits of an account; -1 is none."""
    return {
        "max_memory": max_memory,
        "max_storage": max_storage,
        "max_streams": max_streams,
        "max_consumers": max_consumers,
        "max_ack_pending": max_ack_pending,
        "memory_max_stream_bytes": memory_max_stream_bytes,
        "storage_max_stream_bytes": storage_max_stream_bytes,
        "max_bytes_required": max_bytes_required,
    }


def account_info(
    *,
    memory: int,
    storage: int,
    reserved_memory: int,
    reserved_storage: int,
    streams: int,
    consumers: int,
    limits: Mapping[str, Any],
    api_total: int,
    api_errors: int,
    domain: str = "",
) -> dict[str, Any]:
    """The answer to INFO; `api_total` does not count the request being answered."""
    document: dict[str, Any] = {
        "type": TYPE_PREFIX + ACCOUNT_INFO,
        "memory": memory,
        "storage": storage,
        "reserved_memory": reserved_memory,
        "reserved_storage": reserved_storage,
        "streams": streams,
        "consumers": consumers,
        "limits": limits,
    }
    if domain:
        document["domain"] = domain
    document["api"] = {"level": API_LEVEL, "total": api_total, "errors": api_errors}
    return document


def pub_ack_error(api_error: ApiError, stream: str) -> dict[str, Any]:
    """A publish that was refused. Acks that succeed are written as bytes by the broker, not here."""
    return {"error": api_error.to_document(), "stream": stream, "seq": 0}
