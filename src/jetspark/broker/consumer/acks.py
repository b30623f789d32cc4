"""What a client says about a delivered message: done, not now, still at it, next, never again.

`receive` reads the body of a message to an ack subject and changes the consumer's state; the reply to a double ack is
held until that change is durable. Bodies nobody knows are answered and otherwise ignored, as nats-server does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.api.pull_request import parse_nak_delay
from jetspark.broker.consumer import floor, pulls
from jetspark.broker.consumer.outcomes import ACK_ALL, ACK_NONE

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer


def receive(consumer: Consumer, stream_seq: i64, consumer_seq: i64, deliveries: i64, reply: bytes, body: bytes) -> None:
    """One acknowledgement."""
    consumer.lifecycle.active()
    if stream_seq >= consumer.next_seq and not consumer.first_list:
        # Not delivered yet, or not any more since a reset. What would have changed nothing is confirmed all the same.
        if reply and (body.startswith(b"-NAK") or body == b"+WPI"):
            confirm(consumer, reply)
        return
    if not body or body == b"+ACK" or body == b"+OK":
        acknowledge(consumer, stream_seq, consumer_seq, deliveries)
    elif body.startswith(b"+NXT"):
        acknowledge(consumer, stream_seq, consumer_seq, deliveries)
        if reply and not consumer.is_push:
            pulls.request(consumer, reply, body[4:].strip())
        return
    elif body.startswith(b"-NAK"):
        refuse(consumer, stream_seq, consumer_seq, deliveries, body)
    elif body == b"+WPI":
        in_progress(consumer, stream_seq)
    elif body.startswith(b"+TERM"):
        terminate(consumer, stream_seq, consumer_seq, deliveries, body[5:].strip())
    if reply:
        confirm(consumer, reply)


def confirm(consumer: Consumer, reply: bytes) -> None:
    """Answer a double ack, once what it changed is durable."""
    if consumer.log.enabled:
        consumer.account.hold_reply(reply, 0, b"")
    else:
        consumer.account.publish_internal(reply, b"", 0, b"")


def acknowledge(consumer: Consumer, stream_seq: i64, consumer_seq: i64, deliveries: i64) -> None:
    """Done, with sampling."""
    if consumer.ack_policy == ACK_NONE:
        return
    was_stalled = is_full(consumer)
    if consumer.ack_policy == ACK_ALL:
        acknowledge_all(consumer, stream_seq, consumer_seq)
    else:
        if consumer.sample_percent > 0:
            entry = consumer.state.pending.get(stream_seq)
            if entry is not None:
                consumer.announcer.sample(entry, stream_seq, consumer_seq, deliveries)
        acknowledge_one(consumer, stream_seq)
    if was_stalled and not is_full(consumer):
        consumer.deliver()


def acknowledge_one(consumer: Consumer, stream_seq: i64) -> None:
    """This message and no other."""
    state = consumer.state
    if stream_seq in state.pending:
        settle(consumer, stream_seq)
        return
    # Nothing changes for one that was acknowledged before, except when that was last done.
    state.last_ack_ts_ns = consumer.broker.now_ns
    if consumer.redelivery.is_queued(stream_seq):
        consumer.redelivery.unqueue(stream_seq)
    elif stream_seq in state.redelivered:
        # Given up on, and acknowledged after all: no longer worth remembering.
        del state.redelivered[stream_seq]
        consumer.log.forgotten(stream_seq)
        consumer.mark_dirty()
        consumer.stream.retention.consumed(stream_seq)
    else:
        consumer.stream.retention.acknowledged(stream_seq)


def is_full(consumer: Consumer) -> bool:
    return consumer.ack_pending_max > 0 and len(consumer.state.pending) >= consumer.ack_pending_max


def settle(consumer: Consumer, stream_seq: i64) -> None:
    """Take one message off what is owed; the floor follows, the stream may let go of it."""
    state = consumer.state
    entry = state.pending.pop(stream_seq, None)
    if entry is None:
        return
    if state.redelivered:
        state.redelivered.pop(stream_seq, None)
    if consumer.redelivery.queue:
        consumer.redelivery.unqueue(stream_seq)
    state.last_ack_ts_ns = consumer.broker.now_ns
    consumer.log.acked(stream_seq, entry.consumer_seq)
    if floor.advance(state, entry):
        consumer.log.floor(state.floor_consumer_seq, state.floor_stream_seq)
    if not state.pending:
        consumer.settled_seq = consumer.next_seq - 1
    if not consumer.is_dirty:
        consumer.mark_dirty()
    if consumer.stream.keeps_by_interest:
        consumer.stream.retention.consumed(stream_seq)


def acknowledge_all(consumer: Consumer, stream_seq: i64, consumer_seq: i64) -> None:
    """This one and everything before it."""
    state = consumer.state
    if stream_seq <= state.floor_stream_seq:
        return
    done = [seq for seq in state.pending if seq <= stream_seq]
    for seq in done:
        del state.pending[seq]
        state.redelivered.pop(seq, None)
        consumer.redelivery.unqueue(seq)
        consumer.log.acked(seq, 0)
    state.last_ack_ts_ns = consumer.broker.now_ns
    if not state.pending:
        state.floor_consumer_seq = state.delivered_consumer_seq
        state.floor_stream_seq = state.delivered_stream_seq
    else:
        # An ack subject may be older than a reset, or than a crash that forgot some deliveries.
        state.floor_consumer_seq = min(consumer_seq, state.delivered_consumer_seq)
        state.floor_stream_seq = stream_seq
    consumer.log.floor(state.floor_consumer_seq, state.floor_stream_seq)
    consumer.mark_dirty()
    for seq in done:
        consumer.stream.retention.consumed(seq)
    if stream_seq not in done:
        consumer.stream.retention.acknowledged(stream_seq)


def refuse(consumer: Consumer, stream_seq: i64, consumer_seq: i64, deliveries: i64, body: bytes) -> None:
    """Not now: again at once, or after a delay."""
    entry = consumer.state.pending.get(stream_seq)
    if entry is None:
        return
    consumer.announcer.nak(stream_seq, consumer_seq, deliveries)
    delay_ns = parse_nak_delay(body) if len(body) > 4 else None
    now_ns = consumer.broker.now_ns
    if delay_ns is not None and delay_ns >= 0:
        consumer.redelivery.unqueue(stream_seq)
        # Stays outstanding; its wait is set so that it ends when the delay does.
        entry.delivered_ts_ns = now_ns + delay_ns - consumer.redelivery.wait_ns(entry.deliveries)
        consumer.log.progress(stream_seq, entry.delivered_ts_ns)
        consumer.mark_dirty()
        consumer.broker.timers.arm_if_earlier(consumer.ack_timer, now_ns + delay_ns)
        return
    consumer.redelivery.push(stream_seq)
    consumer.deliver()


def in_progress(consumer: Consumer, stream_seq: i64) -> None:
    """Still at it: the wait starts again."""
    entry = consumer.state.pending.get(stream_seq)
    if entry is not None:
        entry.delivered_ts_ns = consumer.broker.now_ns
        consumer.log.progress(stream_seq, entry.delivered_ts_ns)
        consumer.mark_dirty()


def terminate(consumer: Consumer, stream_seq: i64, consumer_seq: i64, deliveries: i64, reason: bytes) -> None:
    """Never again: an acknowledgement that says it failed."""
    was_stalled = is_full(consumer)
    consumer.announcer.terminated_by_client(stream_seq, consumer_seq, deliveries, reason.decode("utf-8", "replace"))
    if consumer.ack_policy == ACK_ALL:
        acknowledge_all(consumer, stream_seq, consumer_seq)
    elif consumer.ack_policy != ACK_NONE:
        acknowledge_one(consumer, stream_seq)
    if was_stalled and not is_full(consumer):
        consumer.deliver()
