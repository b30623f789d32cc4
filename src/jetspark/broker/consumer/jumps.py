"""When a consumer's place changes without a delivery: purges of its stream, and being set back.

Decided here: where it stands afterwards, and what of the things it was owed is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.broker.consumer import floor
from jetspark.protocol.subjects import is_subset

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer


def purge_requested(consumer: Consumer, subject: bytes, first_left_seq: i64) -> None:
    """The stream, or a subject of it, was purged on request; `first_left_seq` is the first message left of that, or 0.

    Where the consumer then stands is nats-server's rule: one of nothing but what was purged goes to the first message
    left of that, one of more to the first message of the stream, and any other stays.
    """
    store = consumer.stream.store
    state = consumer.state
    start_seq = start_after_purge(consumer, subject, first_left_seq)
    # While the list of last messages is worked off, its next one is where the consumer stands.
    place_seq: i64 = state.delivered_stream_seq + 1 if consumer.first_list else consumer.next_seq
    if consumer.first_list:
        consumer.first_list = [s for s in consumer.first_list[consumer.first_list_at :] if store.is_live(s)]
        consumer.first_list_at = 0
    if consumer.next_seq < start_seq:
        consumer.next_seq = start_seq
    floor_before_seq = state.floor_stream_seq
    floor_consumer_seq = forget_gone(consumer, start_seq if floor_before_seq < start_seq else 0)
    if start_seq > 0:
        # What it still owes may be older than the purged: from before its filter was changed.
        is_past = not state.pending or start_seq <= min(state.pending)
        # The floor may have gone further already, to just before the first message still owed.
        is_behind = state.floor_stream_seq < start_seq
        if is_behind and is_past:
            state.floor_stream_seq = start_seq - 1
            state.floor_consumer_seq = floor_consumer_seq
            consumer.log.floor(floor_consumer_seq, start_seq - 1)
        # What was queued to go out again waits for its time instead, as in nats-server.
        if consumer.redelivery.queue:
            consumer.redelivery.clear()
            consumer.look_at_acks()
        if not state.pending and not consumer.stream.keeps_by_interest:
            # Those given up count as long as anything is owed; unless being given up keeps them in the stream.
            for seq in list(state.redelivered):
                del state.redelivered[seq]
                consumer.log.forgotten(seq)
        if not state.pending or is_behind or state.floor_stream_seq == floor_before_seq:
            move_delivered(consumer, max(place_seq, start_seq) - 1)
    consumer.mark_dirty()
    consumer.recount()


def start_after_purge(consumer: Consumer, subject: bytes, first_left_seq: i64) -> i64:
    """No lower than this is the consumer to look for messages; 0 when the purge is none of its business."""
    store = consumer.stream.store
    if not subject:
        return store.first_seq
    is_within = not consumer.filter.match_all
    is_touched = consumer.filter.match_all
    for pattern in consumer.filter.patterns:
        is_within = is_within and is_subset(pattern, subject)
        is_touched = is_touched or is_subset(subject, pattern)
    if is_within:
        return first_left_seq if first_left_seq > 0 else store.last_seq + 1
    return store.first_seq if is_touched else 0


def forget_gone(consumer: Consumer, start_seq: i64) -> i64:
    """What was owed and is gone is forgotten; returns the floor's consumer sequence after what lay before a start."""
    store = consumer.stream.store
    state = consumer.state
    floor_consumer_seq = state.floor_consumer_seq
    gone = sorted(seq for seq in state.pending if not store.is_live(seq))
    for seq in gone:
        entry = state.pending.pop(seq)
        consumer.second_thoughts.forget(seq, entry)
        if seq < start_seq and entry.consumer_seq > floor_consumer_seq:
            floor_consumer_seq = entry.consumer_seq
        state.redelivered.pop(seq, None)
        consumer.redelivery.unqueue(seq)
        consumer.log.forgotten(seq)
        if floor.advance(state, entry):
            consumer.log.floor(state.floor_consumer_seq, state.floor_stream_seq)
    if gone:
        state.last_ack_ts_ns = consumer.broker.now_ns
    for seq in [seq for seq in state.redelivered if not store.is_live(seq)]:
        consumer.forget_given_up(seq)
    return floor_consumer_seq


def move_delivered(consumer: Consumer, stream_seq: i64) -> None:
    """Count everything up to here as dealt with, though nothing was sent."""
    state = consumer.state
    state.delivered_stream_seq = stream_seq
    consumer.log.delivered_position(state.delivered_consumer_seq, stream_seq, state.last_delivered_ts_ns)
    if not state.pending:
        state.floor_consumer_seq = state.delivered_consumer_seq
        state.floor_stream_seq = stream_seq
        consumer.log.floor(state.floor_consumer_seq, stream_seq)
    consumer.mark_dirty()


def restart_at(consumer: Consumer, seq: i64, asked_seq: i64) -> None:
    """Begin again at a sequence, as if nothing had been delivered. A request named `asked_seq` last; 0: none did."""
    state = consumer.state
    state.pending.clear()
    state.redelivered.clear()
    consumer.redelivery.clear()
    consumer.first_list = []
    consumer.first_list_at = 0
    consumer.list_until_seq = 0
    consumer.asked_seq = asked_seq
    state.delivered_consumer_seq = 0
    state.delivered_stream_seq = seq - 1
    state.floor_consumer_seq = 0
    state.floor_stream_seq = seq - 1
    state.last_delivered_ts_ns = 0
    state.last_ack_ts_ns = 0
    consumer.next_seq = seq
    consumer.is_new = False
    consumer.settled_seq = 0
    # It may be ahead of the stream now.
    consumer.stream.sort_consumers()
    consumer.second_thoughts.clear()
    consumer.log.snapshot(state)
    consumer.mark_dirty()
    consumer.recount()
    # What nobody will read any more goes.
    consumer.stream.retention.interest_changed()
    consumer.broker.deliver_after_commit(consumer)
