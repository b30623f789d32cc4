"""Request bodies of the JetStream API, as typed values.

Decided here: what a body means, and the exact error when it means nothing. `ApiError` is raised for requests that are
answered with JSON; direct gets are answered with a status line, so theirs is `DirectGetError`.
Not known here: streams and consumers. Whether a named thing exists is the broker's question.

Some requests ignore a body that is not an object, some refuse any body; each parser says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.json_text import JsonObject, JsonSyntaxError, read_document
from jetspark.api.priority_group import is_valid_group_name
from jetspark.api.pull_request import PullRequest as PullRequest
from jetspark.api.pull_request import parse_pull_request as parse_pull_request
from jetspark.api.schema import (
    BOOL,
    INT,
    STRING,
    STRING_LIST,
    TIME,
    TIME_VALUE,
    UINT64,
    StructOf,
    decode_documents,
    decode_one,
    wire,
    wire_fields,
)
from jetspark.api.stream_config import StreamConfig
from jetspark.api.stream_state import StreamState
from jetspark.api.timestamps import WireTime
from jetspark.errors import JetsparkError
from jetspark.protocol.subjects import is_literal

API_LEVEL: Final = 5
"""The API level this package implements, as nats-server 2.15 does."""

REQUIRED_API_LEVEL_HEADER: Final = "Nats-Required-Api-Level"


def api_level_is_met(header_value: bytes | None) -> bool:
    """Whether a request's `Nats-Required-Api-Level` header can be honoured; an unreadable one can not."""
    if not header_value:
        return True
    try:
        return int(header_value) <= API_LEVEL
    except ValueError:
        return False


def is_empty_body(body: bytes) -> bool:
    """Whether a body counts as empty: no bytes, or a JSON object without keys."""
    if not body or body == b"{}":
        return True
    try:
        document = read_document(body)
    except JsonSyntaxError:
        return False
    return isinstance(document, JsonObject) and not document


def require_empty_body(body: bytes) -> None:
    """Refuse a body where none belongs: STREAM.DELETE, CONSUMER.DELETE, CONSUMER.INFO."""
    if not is_empty_body(body):
        raise make(ErrorCode.NOT_EMPTY_REQUEST)


def _starts_like_json(body: bytes) -> bool:
    return body.lstrip(b" \t\r\n")[:1] in (b"{", b"[")


@dataclass(frozen=True, kw_only=True)
class PagedRequest:
    """STREAM.NAMES, STREAM.LIST, CONSUMER.NAMES and CONSUMER.LIST: where the page starts, and a subject filter."""

    offset: int = wire(INT)
    subject: str = wire(STRING, omit_empty=True)


_OFFSET_ONLY: Final = tuple(item for item in wire_fields(PagedRequest) if item.name == "offset")


def _parse_paged(body: bytes, go_name: str, strict: bool, *, with_subject: bool) -> PagedRequest:
    if not _starts_like_json(body):
        return PagedRequest()
    spec = wire_fields(PagedRequest) if with_subject else _OFFSET_ONLY
    values = decode_documents(spec, body, go_name, strict)
    values.pop("extra", None)
    request = PagedRequest(**values)
    return replace(request, offset=max(request.offset, 0))


def parse_stream_names_request(body: bytes, *, strict: bool = True) -> PagedRequest:
    """STREAM.NAMES: a body that is not an object or array is ignored."""
    return _parse_paged(body, "JSApiStreamNamesRequest", strict, with_subject=True)


def parse_stream_list_request(body: bytes, *, strict: bool = True) -> PagedRequest:
    """STREAM.LIST: a body that is not an object or array is ignored."""
    return _parse_paged(body, "JSApiStreamListRequest", strict, with_subject=True)


def parse_consumers_request(body: bytes, *, strict: bool = True) -> PagedRequest:
    """CONSUMER.NAMES and CONSUMER.LIST: a body that is not an object or array is ignored."""
    return _parse_paged(body, "JSApiConsumersRequest", strict, with_subject=False)


@dataclass(frozen=True, kw_only=True)
class StreamInfoRequest:
    """STREAM.INFO: which details to add."""

    offset: int = wire(INT)
    deleted_details: bool = wire(BOOL, omit_empty=True)
    subjects_filter: str = wire(STRING, omit_empty=True)


def parse_stream_info_request(body: bytes, *, strict: bool = True) -> StreamInfoRequest:
    """STREAM.INFO: a body that is not an object or array is ignored."""
    if not _starts_like_json(body):
        return StreamInfoRequest()
    values = decode_documents(wire_fields(StreamInfoRequest), body, "JSApiStreamInfoRequest", strict)
    values.pop("extra", None)
    return StreamInfoRequest(**values)


@dataclass(frozen=True, kw_only=True)
class PurgeRequest:
    """STREAM.PURGE: everything below `seq`, or all but the newest `keep`, on subjects under `filter`."""

    seq: int = wire(UINT64, omit_empty=True)
    filter: str = wire(STRING, omit_empty=True)
    keep: int = wire(UINT64, omit_empty=True)


def parse_purge_request(body: bytes, *, strict: bool = True) -> PurgeRequest:
    """STREAM.PURGE: `seq` and `keep` exclude each other; a body that is not an object or array means everything."""
    if not _starts_like_json(body):
        return PurgeRequest()
    values = decode_documents(wire_fields(PurgeRequest), body, "JSApiStreamPurgeRequest", strict)
    values.pop("extra", None)
    request = PurgeRequest(**values)
    if request.seq > 0 and request.keep > 0:
        raise make(ErrorCode.BAD_REQUEST)
    return request


@dataclass(frozen=True, kw_only=True)
class MsgGetRequest:
    """STREAM.MSG.GET and DIRECT.GET: which message or messages."""

    seq: int = wire(UINT64, omit_empty=True)
    last_by_subj: str = wire(STRING, omit_empty=True)
    next_by_subj: str = wire(STRING, omit_empty=True)
    batch: int = wire(INT, omit_empty=True)
    max_bytes: int = wire(INT, omit_empty=True)
    start_time: WireTime | None = wire(TIME, omit_empty=True)
    multi_last: tuple[str, ...] = wire(STRING_LIST, omit_empty=True)
    up_to_seq: int = wire(UINT64, omit_empty=True)
    up_to_time: WireTime | None = wire(TIME, omit_empty=True)
    no_hdr: bool = wire(BOOL, omit_empty=True)


def parse_msg_get_request(body: bytes, *, strict: bool = True) -> MsgGetRequest:
    """STREAM.MSG.GET: exactly one way to choose, except that `next_by_subj` may start at `seq` or `start_time`."""
    if is_empty_body(body):
        raise make(ErrorCode.BAD_REQUEST)
    values = decode_documents(wire_fields(MsgGetRequest), body, "JSApiMsgGetRequest", strict)
    values.pop("extra", None)
    request = MsgGetRequest(**values)
    by_seq = request.seq > 0
    by_last = bool(request.last_by_subj)
    by_next = bool(request.next_by_subj)
    by_time = request.start_time is not None
    if (
        request.batch > 0
        or request.max_bytes > 0
        or not (by_seq or by_last or by_next or by_time)
        or (by_last and (by_seq or by_time or by_next))
        or (by_seq and by_time)
    ):
        raise make(ErrorCode.BAD_REQUEST)
    return request


class DirectGetError(JetsparkError):
    """A direct get that can not be served: answered with a bare status line."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{code} {description}")
        self.code = code
        self.description = description


def parse_direct_get_request(body: bytes) -> MsgGetRequest:
    """DIRECT.GET.<stream>: unknown fields are ignored; errors are status lines."""
    if not body:
        raise DirectGetError(408, "Empty Request")
    request = _parse_direct(body)
    by_seq = request.seq > 0
    by_last = bool(request.last_by_subj)
    by_next = bool(request.next_by_subj)
    by_multi = bool(request.multi_last)
    by_time = request.start_time is not None
    if not (by_seq or by_last or by_next or by_multi or by_time):
        raise DirectGetError(408, "Empty Request")
    if (
        (by_last and (by_seq or by_time or by_next or by_multi or request.batch > 0))
        or (by_seq and by_time)
        or (by_next and by_multi)
        or (request.up_to_seq > 0 and request.up_to_time is not None)
    ):
        raise DirectGetError(408, "Bad Request")
    return request


def parse_direct_get_last_request(body: bytes, subject: str) -> MsgGetRequest:
    """DIRECT.GET.<stream>.<subject>: the subject's last message; the body may only say `no_hdr`."""
    request = _parse_direct(body) if body else MsgGetRequest()
    chooses = request.last_by_subj or request.next_by_subj or request.multi_last or request.seq or request.batch
    limits = request.start_time or request.up_to_seq or request.up_to_time
    if not subject or chooses or limits:
        raise DirectGetError(408, "Bad Request")
    return replace(request, last_by_subj=subject)


def _parse_direct(body: bytes) -> MsgGetRequest:
    try:
        return MsgGetRequest(**decode_one(wire_fields(MsgGetRequest), body, "JSApiMsgGetRequest"))
    except ApiError:
        raise DirectGetError(408, "Malformed Request") from None


@dataclass(frozen=True, kw_only=True)
class MsgDeleteRequest:
    """STREAM.MSG.DELETE: which message, and whether its bytes may stay on disk."""

    seq: int = wire(UINT64)
    no_erase: bool = wire(BOOL, omit_empty=True)


def parse_msg_delete_request(body: bytes, *, strict: bool = True) -> MsgDeleteRequest:
    """STREAM.MSG.DELETE: a body is required."""
    if is_empty_body(body):
        raise make(ErrorCode.BAD_REQUEST)
    values = decode_documents(wire_fields(MsgDeleteRequest), body, "JSApiMsgDeleteRequest", strict)
    values.pop("extra", None)
    return MsgDeleteRequest(**values)


@dataclass(frozen=True, kw_only=True)
class PauseRequest:
    """CONSUMER.PAUSE: until when; None resumes."""

    pause_until: WireTime = wire(TIME_VALUE)


def parse_pause_request(body: bytes, *, strict: bool = True) -> PauseRequest:
    """CONSUMER.PAUSE: a body that is not an object or array resumes; the time is kept in UTC."""
    if not _starts_like_json(body):
        return PauseRequest()
    values = decode_documents(wire_fields(PauseRequest), body, "JSApiConsumerPauseRequest", strict)
    values.pop("extra", None)
    request = PauseRequest(**values)
    return PauseRequest(pause_until=WireTime(request.pause_until.unix_ns))


@dataclass(frozen=True, kw_only=True)
class UnpinRequest:
    """CONSUMER.UNPIN: which priority group to release."""

    group: str = wire(STRING)


def parse_unpin_request(body: bytes) -> UnpinRequest:
    """CONSUMER.UNPIN: the group must be named, and named well."""
    request = UnpinRequest(**decode_one(wire_fields(UnpinRequest), body, "JSApiConsumerUnpinRequest"))
    if not request.group:
        raise make(ErrorCode.INVALID_JSON, err="consumer group not specified")
    if not is_valid_group_name(request.group):
        raise make(ErrorCode.CONSUMER_INVALID_GROUP_NAME)
    return request


@dataclass(frozen=True, kw_only=True)
class ResetRequest:
    """CONSUMER.RESET: the sequence to start from; 0 means just after the ack floor."""

    seq: int = wire(UINT64, omit_empty=True)


def parse_reset_request(body: bytes) -> ResetRequest:
    """CONSUMER.RESET: an empty body means 0."""
    if not body:
        return ResetRequest()
    return ResetRequest(**decode_one(wire_fields(ResetRequest), body, "JSApiConsumerResetRequest"))


_KIB: Final = 1024
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class SnapshotRequest:
    """STREAM.SNAPSHOT: where to send it and in what pieces. Sizes of 0 mean the default."""

    deliver_subject: str = wire(STRING)
    no_consumers: bool = wire(BOOL, omit_empty=True)
    chunk_size: int = wire(INT, omit_empty=True)
    window_size: int = wire(INT, omit_empty=True)
    jsck: bool = wire(BOOL, omit_empty=True)

    @property
    def chunk_bytes(self) -> int:
        """The piece size to use: 128 KiB unless asked, kept within 1 KiB and 1 MiB."""
        return min(max(self.chunk_size, _KIB), _MIB) if self.chunk_size else 128 * _KIB

    @property
    def window_bytes(self) -> int:
        """How much may be unacknowledged: 8 MiB unless asked, kept within 1 KiB and 32 MiB."""
        return min(max(self.window_size, _KIB), 32 * _MIB) if self.window_size else 8 * _MIB


def parse_snapshot_request(body: bytes, *, strict: bool = True) -> SnapshotRequest:
    """STREAM.SNAPSHOT: a body with a literal deliver subject is required."""
    if is_empty_body(body):
        raise make(ErrorCode.BAD_REQUEST)
    values = decode_documents(wire_fields(SnapshotRequest), body, "JSApiStreamSnapshotRequest", strict)
    values.pop("extra", None)
    request = SnapshotRequest(**values)
    if not is_literal(request.deliver_subject.encode()):
        raise make(ErrorCode.SNAPSHOT_DELIVER_SUBJECT_INVALID)
    return request


@dataclass(frozen=True, kw_only=True)
class RestoreRequest:
    """STREAM.RESTORE: the stream to make, and what it held when the snapshot was taken."""

    config: StreamConfig = wire(StructOf(StreamConfig, "server.StreamConfig", optional=False))
    state: StreamState = wire(StructOf(StreamState, "server.StreamState", optional=False))
    extra: Mapping[str, Any] = field(default_factory=dict)


def parse_restore_request(body: bytes, stream: str, *, strict: bool = True) -> RestoreRequest:
    """STREAM.RESTORE: a body is required; its config may leave the name to the subject."""
    if is_empty_body(body):
        raise make(ErrorCode.BAD_REQUEST)
    values = decode_documents(wire_fields(RestoreRequest), body, "JSApiStreamRestoreRequest", strict)
    request = RestoreRequest(**values)
    if request.config.name and request.config.name != stream:
        raise make(ErrorCode.STREAM_MISMATCH)
    return replace(request, config=replace(request.config, name=stream))
