"""A picked message as it goes out: subject, ack subject, headers, payload.

One subscriber gets it written straight into its outbox; several, or one with permissions, take the general way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.broker.consumer.outcomes import ACK_NONE
from jetspark.broker.consumer.pull_queue import WaitingPull
from jetspark.broker.interest import Subscription
from jetspark.protocol import headers
from jetspark.protocol.outbox import Outbox

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer

NINETEEN_DIGITS: Final = 10**18


def delivery_size(consumer: Consumer) -> i64:
    """What the picked message counts against a byte budget: subject, reply, headers and payload as they are sent."""
    view = consumer.view
    size = len(view.subject) + reply_size(consumer)
    if not consumer.headers_only:
        return size + view.header_size + view.body_size
    # The line that tells the payload's size, in a block of its own where the message has none.
    line = len(b"Nats-Msg-Size: \r\n") + digits(view.body_size)
    return size + line + (view.header_size if view.header_size > 0 else len(headers.EMPTY))


def reply_subject(consumer: Consumer) -> bytes:
    """The ack subject of the picked message, as it will be delivered."""
    state = consumer.state
    pending = consumer.num_pending() - (1 if consumer.picked_is_new else 0)
    return b"%b%d.%d.%d.%d.%d" % (
        consumer.ack_prefix,
        consumer.picked_deliveries,
        consumer.picked_seq,
        state.delivered_consumer_seq + 1,
        consumer.view.ts_ns,
        pending,
    )


def write(consumer: Consumer, out: Outbox, target: Subscription, pull: WaitingPull | None) -> None:
    """The hot way: one subscriber, written straight into its outbox."""
    view = consumer.view
    header_size = view.header_size
    if consumer.headers_only or consumer.pinning.stamps:
        header, payload = dressed(consumer, pull)
        body = header + payload
        header_size = len(header)
    else:
        body = view.block[view.header_start : view.end]
    if header_size > 0 and not target.session.headers:
        body = body[header_size:]
        header_size = 0
    subject = view.subject
    ts_ns = view.ts_ns
    seq = consumer.picked_seq
    deliveries = consumer.picked_deliveries
    consumer_seq = consumer.record()
    out.put_delivery(
        subject,
        target.sid,
        consumer.ack_prefix,
        deliveries,
        seq,
        consumer_seq,
        ts_ns,
        consumer.num_pending(),
        header_size,
        body,
    )
    if consumer.stream.keeps_by_interest and consumer.ack_policy == ACK_NONE:
        consumer.stream.retention.consumed(seq)


def fan_out(consumer: Consumer, inbox: bytes, pull: WaitingPull | None) -> None:
    """The general way: whoever listens on the inbox, by the rules of plain and queue subscriptions."""
    view = consumer.view
    header, payload = dressed(consumer, pull)
    reply = reply_subject(consumer)
    subject = view.subject
    seq = consumer.picked_seq
    consumer.record()
    route = consumer.account.interest.reply_route(inbox)
    consumer.account.fan_out(None, route, subject, reply, len(header), header + payload)
    if consumer.stream.keeps_by_interest and consumer.ack_policy == ACK_NONE:
        consumer.stream.retention.consumed(seq)


def dressed(consumer: Consumer, pull: WaitingPull | None) -> tuple[bytes, bytes]:
    """Header block and payload as this consumer sends them."""
    view = consumer.view
    header = view.block[view.header_start : view.header_start + view.header_size]
    payload = view.block[view.body_start : view.end]
    if consumer.headers_only:
        header = headers.append_headers(header, [(b"Nats-Msg-Size", b"%d" % len(payload))])
        payload = b""
    if consumer.pinning.stamps and pull is not None and pull.pin_id:
        header = headers.append_headers(header, [(b"Nats-Pin-Id", pull.pin_id.encode())])
    return header, payload


def reply_size(consumer: Consumer) -> i64:
    """How long the ack subject of the picked message will be, without making it."""
    pending = consumer.num_pending() - (1 if consumer.picked_is_new else 0)
    # Four dots between five numbers.
    return (
        len(consumer.ack_prefix)
        + 4
        + digits(consumer.picked_deliveries)
        + digits(consumer.picked_seq)
        + digits(consumer.state.delivered_consumer_seq + 1)
        + digits(consumer.view.ts_ns)
        + digits(pending)
    )


def digits(number: i64) -> i64:
    # A time in nanoseconds, mostly; multiplying is faster than dividing, and must not run over.
    if number >= NINETEEN_DIGITS:
        return 19
    count: i64 = 1
    limit: i64 = 10
    while number >= limit:
        limit *= 10
        count += 1
    return count
