"""STREAM.SNAPSHOT and STREAM.RESTORE: how a transfer of a whole stream begins.

The transfer itself goes on under `$JS.SNAPSHOT.`; see `snapshots` and `restores`.
"""

from __future__ import annotations

from dataclasses import replace

from jetspark.api import responses
from jetspark.api.error_codes import ErrorCode, make
from jetspark.api.requests import is_empty_body, parse_restore_request, parse_snapshot_request
from jetspark.broker.endpoints.call import ApiCall
from jetspark.broker.info import stream_state
from jetspark.broker.restores import checked_config
from jetspark.broker.snapshots import Snapshot


def snapshot(call: ApiCall, names: list[str], rest: str) -> None:
    """STREAM.SNAPSHOT.<stream>"""
    if is_empty_body(call.body):
        raise make(ErrorCode.BAD_REQUEST)
    # Before the body is read: who asks for a stream that is not there learns that first.
    stream = call.jetstream.stream(names[0])
    request = parse_snapshot_request(call.body, strict=call.is_strict())
    state = stream_state(stream)
    if request.no_consumers:
        state = replace(state, consumer_count=0)
    transfer = Snapshot(call.jetstream.restores, stream, call.session, request, state)
    call.jetstream.restores.add_snapshot(transfer)
    call.answer_reading(stream, responses.stream_snapshot(stream.config.encode(), state))
    transfer.start(state)


def restore(call: ApiCall, names: list[str], rest: str) -> None:
    """STREAM.RESTORE.<stream>"""
    request = parse_restore_request(call.body, names[0], strict=call.is_strict())
    jetstream = call.jetstream
    jetstream.verify_stream_free(request.config)
    config = checked_config(jetstream, request.config)
    if config.name in jetstream.streams or jetstream.restores.is_restoring(config.name):
        raise make(ErrorCode.STREAM_NAME_EXIST_RESTORE_FAILED)
    subject = jetstream.restores.begin(call.session, config, request.state)
    call.answer(responses.stream_restore(subject.decode()))
