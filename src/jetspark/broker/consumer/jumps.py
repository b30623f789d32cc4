"""When a consumer's place changes without a delivery: purges of its stream, and being set back.

Decided here: where it stands afterwards, and what of the things it was owed is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.protocol.subjects import is_subset

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer


def skip_purged(consumer: Consumer, purged_subject: bytes) -> None:
    """The stream was purged on request: a consumer of nothing but what went looks only at what comes."""
    store = consumer.stream.store
    if store.first_seq > consumer.next_seq:
        consumer.next_seq = store.first_seq
    if purged_subject and not consumer.filter.match_all:
        for pattern in consumer.filter.patterns:
            if not is_subset(pattern, purged_subject):
                return
        found = store.next_match(consumer.next_seq, store.last_seq, consumer.filter, consumer.view)
        # One that begins later than anything stored stays there.
        consumer.next_seq = found if found > 0 else max(consumer.next_seq, store.last_seq + 1)
    if not consumer.first_list and consumer.state.delivered_stream_seq < consumer.next_seq - 1:
        move_delivered(consumer, consumer.next_seq - 1)


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


def purged(consumer: Consumer) -> None:
    """Many messages left at once: positions move past them, what was owed and is gone is forgotten."""
    store = consumer.stream.store
    state = consumer.state
    if store.first_seq > consumer.next_seq:
        consumer.next_seq = store.first_seq
    gone = [seq for seq in state.pending if not store.is_live(seq)]
    floor_consumer_seq = state.floor_consumer_seq
    for seq in gone:
        entry = state.pending.pop(seq)
        consumer.second_thoughts.forget(seq, entry)
        if seq < store.first_seq and entry.consumer_seq > floor_consumer_seq:
            floor_consumer_seq = entry.consumer_seq
        state.redelivered.pop(seq, None)
        consumer.redelivery.unqueue(seq)
        consumer.log.forgotten(seq)
    if gone:
        state.last_ack_ts_ns = consumer.broker.now_ns
    if consumer.first_list:
        consumer.first_list = [s for s in consumer.first_list[consumer.first_list_at :] if store.is_live(s)]
        consumer.first_list_at = 0
    before_first = store.first_seq - 1
    if state.delivered_stream_seq < before_first:
        move_delivered(consumer, before_first)
    elif gone and not state.pending:
        move_delivered(consumer, state.delivered_stream_seq)
    elif state.pending and state.floor_stream_seq < before_first:
        state.floor_stream_seq = before_first
        state.floor_consumer_seq = floor_consumer_seq
        consumer.log.floor(floor_consumer_seq, before_first)
    consumer.mark_dirty()
    consumer.recount()


def restart_at(consumer: Consumer, seq: i64) -> None:
    """Begin again at a sequence, as if nothing had been delivered."""
    state = consumer.state
    state.pending.clear()
    state.redelivered.clear()
    consumer.redelivery.clear()
    consumer.first_list = []
    consumer.first_list_at = 0
    consumer.list_until_seq = 0
    state.delivered_consumer_seq = 0
    state.delivered_stream_seq = seq - 1
    state.floor_consumer_seq = 0
    state.floor_stream_seq = seq - 1
    state.last_delivered_ts_ns = 0
    state.last_ack_ts_ns = 0
    consumer.next_seq = seq
    # It may be ahead of the stream now.
    consumer.stream.sort_consumers()
    consumer.second_thoughts.clear()
    consumer.log.snapshot(state)
    consumer.mark_dirty()
    consumer.recount()
    consumer.broker.deliver_after_commit(consumer)
