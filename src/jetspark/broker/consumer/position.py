"""Where a new consumer starts in its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.api.consumer_config import DeliverPolicy
from jetspark.broker.bounds import bounded_sequence, bounded_time
from jetspark.protocol.subjects import SubjectFilter

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer


def place(consumer: Consumer) -> None:
    """Set the first sequence to look at, and the state that says nothing was delivered yet."""
    state = consumer.state
    start = starting_seq(consumer)
    consumer.next_seq = start
    if consumer.first_list:
        first = consumer.first_list[0]
    else:
        first = start
    state.delivered_consumer_seq = 0
    state.delivered_stream_seq = first - 1
    state.floor_consumer_seq = 0
    state.floor_stream_seq = first - 1
    consumer.recount()


def furthest_place(consumer: Consumer) -> i64:
    """The last sequence that may count as dealt with: the stream's, unless the consumer was told to start later."""
    last_seq: i64 = consumer.stream.store.last_seq
    config = consumer.config
    told = consumer.asked_seq
    if told == 0 and config.deliver_policy == DeliverPolicy.BY_START_SEQUENCE:
        told = bounded_sequence(config.opt_start_seq)
    return max(last_seq, told - 1)


def starting_seq(consumer: Consumer) -> i64:
    """The sequence the deliver policy asks for, no lower than what the stream still has."""
    store = consumer.stream.store
    config = consumer.config
    policy = config.deliver_policy
    first = store.first_seq if store.first_seq > 0 else 1
    if policy == DeliverPolicy.ALL:
        return first
    if policy == DeliverPolicy.LAST:
        if consumer.filter.match_all:
            # Also when that message is gone: then what comes next is the first.
            return max(store.last_seq, first)
        last = store.last_match(consumer.filter, store.last_seq)
        return last if last > 0 else first
    if policy == DeliverPolicy.NEW:
        return store.last_seq + 1
    if policy == DeliverPolicy.BY_START_SEQUENCE:
        return max(bounded_sequence(config.opt_start_seq), first)
    if policy == DeliverPolicy.BY_START_TIME and config.opt_start_time is not None:
        return first_match_near(consumer, store.seq_at_time(bounded_time(config.opt_start_time.unix_ns)))
    if policy == DeliverPolicy.LAST_PER_SUBJECT:
        if consumer.stream.config.max_msgs_per_subject == 1:
            # The last of each subject is all there is.
            return first
        consumer.list_until_seq = store.last_seq
        list_last_per_subject(consumer, 0, store.last_seq)
        # Without any, nats-server stands at the last message, which does not match either.
        return store.last_seq + 1 if consumer.first_list else max(store.last_seq, first)
    return first


def first_match_near(consumer: Consumer, seq: i64) -> i64:
    """A start found by time moves on to the first message of a filter, as nats-server has it, but not past another."""
    store = consumer.stream.store
    nearest: i64 = store.last_seq
    for pattern in consumer.filter.patterns:
        found = store.next_match(store.first_seq, store.last_seq, SubjectFilter([pattern]), consumer.view)
        if seq <= found < nearest:
            nearest = found
    if nearest <= seq or nearest >= store.last_seq:
        return seq
    passed_over = store.next_match(seq, nearest - 1, consumer.filter, consumer.view)
    return nearest if passed_over == 0 else seq


def list_last_per_subject(consumer: Consumer, above_seq: i64, upto_seq: i64) -> None:
    """The last message of each matching subject in a range, in order, to be delivered before what comes after."""
    store = consumer.stream.store
    wanted: list[int] = []
    for subject in [subject for subject in store.subjects if consumer.filter.accepts(subject)]:
        last = store.subject_last_seq(subject)
        if last > upto_seq:
            last = store.last_match(SubjectFilter([subject]), upto_seq)
        if last > above_seq:
            wanted.append(last)
    wanted.sort()
    consumer.first_list = wanted
    consumer.first_list_at = 0
