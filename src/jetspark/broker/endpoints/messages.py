"""Single messages through the API: STREAM.MSG.GET and STREAM.MSG.DELETE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.api import responses
from jetspark.api.error_codes import ErrorCode, make
from jetspark.api.requests import MsgGetRequest, parse_msg_delete_request, parse_msg_get_request
from jetspark.broker.bounds import bounded_sequence, bounded_time
from jetspark.broker.endpoints.call import ApiCall
from jetspark.protocol.subjects import SubjectFilter

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream


def get(call: ApiCall, names: list[str], rest: str) -> None:
    """STREAM.MSG.GET.<stream>"""
    request = parse_msg_get_request(call.body, strict=call.is_strict())
    stream = call.jetstream.stream(names[0])
    seq = find(stream, request)
    view = stream.view
    if seq == 0 or not stream.store.view(seq, view):
        raise make(ErrorCode.NO_MESSAGE_FOUND)
    document = responses.stream_message(
        view.subject.decode("utf-8", "replace"),
        seq,
        b"" if request.no_hdr else view.header(),
        view.payload(),
        view.ts_ns,
    )
    call.answer_uncounted(document, not stream.in_memory and seq > stream.store.visible_seq)


def find(stream: Stream, request: MsgGetRequest) -> i64:
    """The sequence of the message a request asks for, 0 when there is none."""
    store = stream.store
    if request.last_by_subj:
        return store.last_match(SubjectFilter([request.last_by_subj.encode()]), store.last_seq)
    start: i64 = 0
    if request.start_time is not None:
        start = store.seq_at_time(bounded_time(request.start_time.unix_ns))
    else:
        start = bounded_sequence(request.seq)
    if request.next_by_subj:
        wanted = SubjectFilter([request.next_by_subj.encode()])
        return store.next_match(start, store.last_seq, wanted, stream.view)
    if request.start_time is not None:
        return store.next_live(start)
    return start


def delete(call: ApiCall, names: list[str], rest: str) -> None:
    """STREAM.MSG.DELETE.<stream>"""
    request = parse_msg_delete_request(call.body, strict=call.is_strict())
    stream = call.jetstream.stream(names[0])
    if stream.config.sealed:
        raise make(ErrorCode.STREAM_SEALED)
    if stream.config.deny_delete:
        raise make(ErrorCode.STREAM_MSG_DELETE_FAILED, err="message delete not permitted")
    call.is_error_counted = False
    store = stream.store
    seq = bounded_sequence(request.seq)
    if not stream.in_memory and seq > store.last_seq:
        raise make(ErrorCode.STREAM_MSG_DELETE_FAILED, err="stream store EOF")
    if not stream.in_memory and seq < store.first_seq:
        raise make(ErrorCode.STREAM_MSG_DELETE_FAILED, err="no message found")
    if not stream.remove(seq, not request.no_erase):
        raise make(ErrorCode.SEQUENCE_NOT_FOUND, seq=request.seq)
    call.answer_about(stream, responses.success(responses.STREAM_MSG_DELETE))
