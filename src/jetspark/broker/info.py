"""What the API shows of streams, consumers and clients: their state, gathered into documents.

Reads only. The shape of the documents is the `api` room's; when an answer may leave is the endpoint's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jetspark.api import responses
from jetspark.api.asset_metadata import with_response_metadata
from jetspark.api.consumer_defaults import DEFAULT_INACTIVE_THRESHOLD_NS
from jetspark.api.stream_state import LostStreamData, StreamState
from jetspark.api.timestamps import ZERO_TIME_NS, WireTime, format_time
from jetspark.broker.options import VERSION
from jetspark.protocol.subjects import SubjectFilter

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.broker.session import Session
    from jetspark.broker.stream import Stream


def stream_state(stream: Stream, subjects: dict[str, int] | None = None, *, with_deleted: bool = False) -> StreamState:
    """Counts and ends of a stream; details only when they were asked for."""
    store = stream.store
    is_empty = store.message_count == 0
    # A stream that never held anything says 0, not 1, for the first sequence; unless it was purged all the same.
    first_seq = 0 if store.last_seq == 0 and not stream.was_purged_unused else store.first_seq
    report = store.report
    lost: LostStreamData | None = None
    if report.lost or report.lost_bytes > 0:
        lost = LostStreamData(msgs=tuple(report.lost), bytes=report.lost_bytes)
    return StreamState(
        messages=store.message_count,
        bytes=store.byte_count,
        first_seq=first_seq,
        first_ts=wire_time(0 if is_empty else store.first_ts_ns),
        last_seq=store.last_seq,
        last_ts=wire_time(store.last_ts_ns),
        num_subjects=len(store.subjects),
        subjects=subjects if subjects is not None else {},
        num_deleted=store.deleted_count(),
        deleted=tuple(store.deleted_list(0)) if with_deleted else (),
        lost=lost,
        # Where messages wait for their readers, a stream that copies this one is a reader like any other.
        consumer_count=len(stream.consumers) + (len(stream.followers) if stream.keeps_by_interest else 0),
    )


def wire_time(unix_ns: int) -> WireTime:
    """A time as documents show it: 0 is "never", which the wire writes as year 1."""
    return WireTime(unix_ns if unix_ns != 0 else ZERO_TIME_NS)


def subject_counts(stream: Stream, wanted: SubjectFilter, offset: int, limit: int) -> tuple[int, dict[str, int]]:
    """How many subjects match, and the counts of one page of them in order of name."""
    found: list[bytes] = []
    if wanted.literal:
        if wanted.literal in stream.store.subjects:
            found.append(wanted.literal)
    else:
        found = [subject for subject in stream.store.subjects if wanted.accepts(subject)]
    found.sort()
    start = min(max(offset, 0), len(found))
    counts: dict[str, int] = {}
    for subject in found[start : start + limit]:
        counts[subject.decode("utf-8", "replace")] = stream.store.subjects[subject].message_count
    return len(found), counts


def stream_fields(
    stream: Stream, state: StreamState, *, leader: str = "", with_domain: bool = True, is_listed: bool = False
) -> dict[str, Any]:
    """What every answer about a stream carries. In lists the metadata is shown as it is stored."""
    broker = stream.broker
    features = stream.features
    config = stream.config if is_listed else with_response_metadata(stream.config, VERSION)
    return responses.stream_info_fields(
        config=config.encode(),
        created_ns=stream.created_ns,
        state=state,
        now_ns=broker.now_ns,
        domain=broker.options.domain if with_domain else "",
        leader=leader,
        mirror=features.mirror_info() if features is not None else None,
        sources=features.source_infos() if features is not None else (),
    )


def consumer_fields(consumer: Consumer, *, is_listed: bool = False) -> dict[str, Any]:
    """What every answer about a consumer carries. In lists the metadata is shown as it is stored."""
    config = consumer.config
    if not config.is_durable and config.inactive_threshold == 0:
        config = replace(config, inactive_threshold=DEFAULT_INACTIVE_THRESHOLD_NS)
    if not is_listed:
        config = with_response_metadata(config, VERSION)
    state = consumer.state
    # A plain number: the end of a pause may lie beyond what native ones hold.
    now_ns: int = consumer.broker.now_ns
    until = consumer.config.pause_until
    remaining_ns = until.unix_ns - now_ns if until is not None and consumer.lifecycle.is_paused else 0
    if consumer.pulls.waiting:
        # Whoever left without a word is noticed when somebody asks.
        consumer.pulls.drop_dead()
        consumer.update_wants()
    return responses.consumer_info_fields(
        stream=consumer.stream.name,
        name=consumer.name,
        created_ns=consumer.created_ns,
        config=config.encode(),
        delivered=responses.sequence_info(
            state.delivered_consumer_seq, state.delivered_stream_seq, state.last_delivered_ts_ns
        ),
        ack_floor=responses.sequence_info(state.floor_consumer_seq, state.floor_stream_seq, state.last_ack_ts_ns),
        num_ack_pending=len(state.pending),
        # With a single delivery nothing is ever delivered again, whatever is remembered about it.
        num_redelivered=0 if consumer.deliveries_max == 1 else len(state.redelivered),
        num_waiting=len(consumer.pulls.waiting),
        num_pending=consumer.num_pending(),
        now_ns=now_ns,
        push_bound=consumer.is_push and consumer.push.is_bound,
        pause_remaining_ns=remaining_ns,
        priority_groups=priority_groups(consumer),
    )


def priority_groups(consumer: Consumer) -> list[dict[str, Any]]:
    """The group, and who is pinned in it. Of several groups nats-server shows the first, and so is it here."""
    pinning = consumer.pinning
    if not pinning.groups:
        return []
    if pinning.pin_id:
        return [responses.priority_group_state(pinning.groups[0], pinning.pin_id, pinning.pinned_ns)]
    return [responses.priority_group_state(pinning.groups[0])]


def client_document(session: Session) -> dict[str, Any]:
    """Who asked, as advisories tell it."""
    document: dict[str, Any] = {
        "start": format_time(session.start_ns),
        "host": session.host,
        "id": session.session_id,
        "acc": session.account.name,
    }
    if session.user_name:
        document["user"] = session.user_name
    if session.name:
        document["name"] = session.name
    if session.language:
        document["lang"] = session.language
    if session.version:
        document["ver"] = session.version
    if session.rtt_ns:
        document["rtt"] = session.rtt_ns
    document["server"] = session.broker.options.server_name
    document["kind"] = "Client"
    document["client_type"] = "websocket" if session.kind == "websocket" else "nats"
    return document
