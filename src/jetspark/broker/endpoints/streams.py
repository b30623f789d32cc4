"""Streams through the API: create, update, list, look at, purge, delete.

Which configuration is allowed is the `api` room's decision; what a change does is the stream's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.api import responses
from jetspark.api.error_codes import ErrorCode, make
from jetspark.api.requests import (
    parse_purge_request,
    parse_stream_info_request,
    parse_stream_list_request,
    parse_stream_names_request,
    require_empty_body,
)
from jetspark.api.stream_checks import check_new_stream, check_stream_update
from jetspark.api.stream_config import StreamConfig, parse_stream_config_request
from jetspark.broker.bounds import bounded_sequence
from jetspark.broker.endpoints.call import ApiCall
from jetspark.broker.endpoints.contexts import stream_context
from jetspark.broker.info import stream_fields, stream_state, subject_counts
from jetspark.protocol.subjects import SubjectFilter, collides

if TYPE_CHECKING:
    from jetspark.broker.jetstream import JetStream


def create(call: ApiCall, names: list[str], rest: str) -> None:
    """STREAM.CREATE.<stream>; the same again for a stream that is already exactly so."""
    jetstream = call.jetstream
    request = parse_stream_config_request(call.body, strict=call.is_strict())
    jetstream.verify_stream_free(request.config)
    config = check_new_stream(
        request.config, stream_context(jetstream), subject_name=names[0], pedantic=request.pedantic
    )
    stream = jetstream.streams.get(config.name)
    if stream is None:
        if jetstream.restores.is_restoring(config.name):
            raise make(ErrorCode.STREAM_NAME_EXIST)
        stream = jetstream.create_stream(config)
    fields = stream_fields(stream, stream_state(stream), with_domain=False)
    call.answer_about(stream, responses.stream_created(fields))


def update(call: ApiCall, names: list[str], rest: str) -> None:
    """STREAM.UPDATE.<stream>"""
    jetstream = call.jetstream
    request = parse_stream_config_request(call.body, strict=call.is_strict())
    existing = jetstream.streams.get(request.config.name)
    if existing is None and jetstream.offline_stream(request.config.name) is not None:
        jetstream.stream(request.config.name)
    config = check_stream_update(
        request.config,
        stream_context(jetstream),
        subject_name=names[0],
        pedantic=request.pedantic,
        consumers={} if existing is None else {name: c.config for name, c in existing.consumers.items()},
    )
    stream = jetstream.stream(config.name)
    jetstream.update_stream(stream, config)
    call.answer_about(stream, responses.stream_updated(stream_fields(stream, stream_state(stream))))


def names(call: ApiCall, names: list[str], rest: str) -> None:
    """STREAM.NAMES"""
    request = parse_stream_names_request(call.body, strict=call.is_strict())
    call.answer(responses.stream_names(matching_names(call.jetstream, request.subject), request.offset))


def infos(call: ApiCall, names: list[str], rest: str) -> None:
    """STREAM.LIST"""
    request = parse_stream_list_request(call.body, strict=call.is_strict())
    found = matching_names(call.jetstream, request.subject)
    start, end = responses.page(len(found), request.offset, responses.LIST_PAGE_LIMIT)
    documents = []
    offline: dict[str, str] = {}
    reasons = {gone.name: gone.reason for gone in call.jetstream.offline.streams()}
    for name in found[start:end]:
        stream = call.jetstream.streams.get(name)
        if stream is not None:
            documents.append(stream_fields(stream, stream_state(stream), is_listed=True))
        else:
            offline[name] = reasons[name]
    call.answer(responses.stream_list(documents, len(found), request.offset, offline))


def matching_names(jetstream: JetStream, subject: str) -> list[str]:
    """Names of the streams that could hold a message on this subject or pattern, sorted; all without one."""
    found: list[str] = []
    for name, stream in jetstream.streams.items():
        if not subject or captures(stream.config, subject):
            found.append(name)
    found.extend(
        offline.name
        for offline in jetstream.offline.streams()
        if not subject or (offline.config is not None and captures(offline.config, subject))
    )
    found.sort()
    return found


def captures(config: StreamConfig, subject: str) -> bool:
    wanted = subject.encode()
    for captured in config.subjects:
        if collides(wanted, captured.encode()):
            return True
    return False


def info(call: ApiCall, names: list[str], rest: str) -> None:
    """STREAM.INFO.<stream>, on request with counts by subject and with deleted sequences."""
    request = parse_stream_info_request(call.body, strict=call.is_strict())
    stream = call.jetstream.stream(names[0])
    subjects: dict[str, int] = {}
    total = offset = limit = 0
    if request.subjects_filter:
        wanted = SubjectFilter([request.subjects_filter.encode()])
        total, subjects = subject_counts(stream, wanted, request.offset, responses.SUBJECTS_PAGE_LIMIT)
        if total > 0:
            offset, limit = request.offset, responses.SUBJECTS_PAGE_LIMIT
    state = stream_state(stream, subjects, with_deleted=request.deleted_details)
    fields = stream_fields(stream, state, leader=call.broker.options.server_name)
    call.answer_reading(stream, responses.stream_info(fields, total=total, offset=offset, limit=limit))


def delete(call: ApiCall, names: list[str], rest: str) -> None:
    """STREAM.DELETE.<stream>"""
    require_empty_body(call.body)
    offline = call.jetstream.offline_stream(names[0])
    if offline is not None and names[0] not in call.jetstream.streams:
        call.jetstream.delete_offline(offline)
        call.answer_durable(responses.success(responses.STREAM_DELETE))
        return
    stream = call.jetstream.stream(names[0])
    call.jetstream.delete_stream(stream)
    call.answer_about(stream, responses.success(responses.STREAM_DELETE))


def purge(call: ApiCall, names: list[str], rest: str) -> None:
    """STREAM.PURGE.<stream>"""
    request = parse_purge_request(call.body, strict=call.is_strict())
    stream = call.jetstream.stream(names[0])
    if stream.config.sealed:
        raise make(ErrorCode.STREAM_SEALED)
    if stream.config.deny_purge:
        raise make(ErrorCode.STREAM_PURGE_FAILED, err="stream purge not permitted")
    purged = stream.purge(request.filter.encode(), bounded_sequence(request.seq), bounded_sequence(request.keep))
    call.answer_about(stream, responses.stream_purged(purged))
