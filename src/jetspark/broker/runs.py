"""Publishes to one subject in a row, stored and acknowledged together: what the plain build makes of a busy publisher.

The outcome is that of the same messages one by one, to the byte; a call for each step of each message is what is
saved, which compiled code need not. Where a message could be refused, change what the next one meets, or be seen by
anybody but the stream, the run is not taken here and goes the usual way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.store.record import SUBJECT_SIZE_MAX

if TYPE_CHECKING:
    from jetspark.broker.account import Account
    from jetspark.broker.stream import Stream


def publish(account: Account, subject: bytes, replies: list[bytes], bodies: list[bytes]) -> bool:
    """Store and acknowledge them all; False when each has to be looked at, and nothing was done."""
    route = account.interest.route(subject)
    stream = route.stream
    if stream is None or route.has_subscribers or len(subject) > SUBJECT_SIZE_MAX or not stream.takes_runs():
        return False
    first_seq = stream.put_run(subject, bodies)
    stream.dedupe.last_id = b""
    if stream.acknowledges:
        _acknowledge(stream, replies, first_seq)
    return True


def _acknowledge(stream: Stream, replies: list[bytes], first_seq: i64) -> None:
    interest = stream.account.interest
    first = replies[0]
    route = interest.reply_route(first)
    if len(route.plain) == 1 and not route.queues:
        subscription = route.plain[0]
        target = subscription.session
        # One listener for all of them, who stays to the end.
        is_simple = target.permissions is None and subscription.delivered_max == 0
        if is_simple and all(reply == first or interest.reply_route(reply) is route for reply in replies):
            out = stream.reply_outbox(target)
            size = out.put_number_replies(replies, subscription.sid, stream.ack_before, first_seq, b"}")
            subscription.delivered += len(replies)
            target.out_msgs += len(replies)
            target.out_bytes += size
            return
    seq: i64 = first_seq
    for reply in replies:
        stream.acknowledge(reply, seq)
        seq += 1
