"""A consumer whose log is damaged: what is not known to be acknowledged is owed.

A message delivered twice is what clients are ready for. One that is taken for acknowledged is never seen again, and
leaves a stream that keeps messages for its consumers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.api.stream_config import Retention
from jetspark.store.consumer_state import PendingEntry

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.store.consumer_gaps import LogGaps


def settle(consumer: Consumer, gaps: LogGaps) -> i64:
    """Make the state whole again; returns how many messages may have been acknowledged and are owed all the same."""
    state = consumer.state
    # Everything up to the floor was acknowledged, or given up. What is given up stays in a stream that keeps messages
    # for its consumers; what is acknowledged does not, or not for this one.
    done_seq: i64 = state.floor_stream_seq
    retention = consumer.stream.config.retention
    if retention == Retention.WORKQUEUE or (retention == Retention.INTEREST and consumer.deliveries_max > 0):
        done_seq = 0
    for seq in [seq for seq in state.pending if seq <= done_seq]:
        del state.pending[seq]
        state.redelivered.pop(seq, None)
    ranges = list(gaps.unknown)
    if done_seq < state.floor_stream_seq:
        ranges.append((1, state.floor_stream_seq))
    owed: list[int] = []
    for first, last in ranges:
        owed.extend(owed_between(consumer, gaps, max(first, done_seq + 1), last))
    state.delivered_stream_seq = max(state.delivered_stream_seq, state.floor_stream_seq)
    state.delivered_consumer_seq = max(state.delivered_consumer_seq, state.floor_consumer_seq)
    add_pending(consumer, owed)
    lower_floor(consumer)
    consumer.log.snapshot(state)
    consumer.mark_dirty()
    return len(owed)


def owed_between(consumer: Consumer, gaps: LogGaps, first: i64, last: i64) -> list[int]:
    """Messages of the stream in a range of which nothing is known."""
    store = consumer.stream.store
    state = consumer.state
    found: list[int] = []
    seq = store.next_match(first, min(last, store.last_seq), consumer.filter, consumer.view)
    while seq > 0:
        if seq not in state.pending and seq not in state.redelivered and not gaps.is_settled(seq):
            found.append(seq)
        seq = store.next_match(seq + 1, min(last, store.last_seq), consumer.filter, consumer.view)
    return found


def add_pending(consumer: Consumer, seqs: list[int]) -> None:
    """As if they had just been delivered, after everything that is done with."""
    state = consumer.state
    consumer_seq: i64 = state.floor_consumer_seq
    for seq in sorted(set(seqs)):
        if consumer_seq < state.delivered_consumer_seq:
            consumer_seq += 1
        state.pending[seq] = PendingEntry(consumer_seq, consumer.broker.now_ns, 1)


def lower_floor(consumer: Consumer) -> None:
    """Nothing that is owed is below the floor."""
    state = consumer.state
    if not state.pending:
        return
    first = min(state.pending)
    if first <= state.floor_stream_seq:
        state.floor_stream_seq = first - 1
        state.floor_consumer_seq = min(state.floor_consumer_seq, max(state.pending[first].consumer_seq - 1, 0))
