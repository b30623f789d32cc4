"""A pull request arrives: may it wait here, and what is it told if not.

The checks come in nats-server's order. A request that passes joins the consumer's queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.api.pull_request import PullRequest, parse_pull_request
from jetspark.api.timestamps import format_duration
from jetspark.broker.consumer import serving
from jetspark.broker.consumer.pull_queue import WaitingPull
from jetspark.protocol import headers

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer


def request(consumer: Consumer, reply: bytes, body: bytes) -> None:
    """`CONSUMER.MSG.NEXT`, or what follows `+NXT`."""
    if not reply:
        return
    refusal = b""
    parsed: PullRequest | None = None
    if consumer.is_push:
        refusal = headers.status_block(409, b"Consumer is push based", [])
    else:
        read = parse_pull_request(body)
        if isinstance(read, str):
            refusal = headers.status_block(400, b"Bad Request - " + read.encode(), [])
        else:
            parsed = read
            refusal = refusal_by_limits(consumer, parsed) or consumer.pinning.refusal(parsed)
    if refusal or parsed is None:
        consumer.account.publish_internal(reply, b"", len(refusal), refusal)
        return
    consumer.lifecycle.active()
    route = consumer.account.interest.reply_route(reply)
    pull = WaitingPull(reply, parsed, route, consumer.broker.now_ns)
    if parsed.no_wait and parsed.expires_ns <= 0:
        pull.expires_at_ns = 0
    serving.enqueue(consumer, pull, parsed.idle_heartbeat_ns > 0)


def refusal_by_limits(consumer: Consumer, parsed: PullRequest) -> bytes:
    """The consumer's caps on batch, time and bytes; b"" when the request is within them."""
    config = consumer.config
    if config.max_batch > 0 and parsed.batch > config.max_batch:
        return headers.status_block(409, b"Exceeded MaxRequestBatch of %d" % config.max_batch, [])
    if config.max_expires > 0 and parsed.expires_ns > config.max_expires:
        text = format_duration(config.max_expires).encode()
        return headers.status_block(409, b"Exceeded MaxRequestExpires of " + text, [])
    if config.max_bytes > 0 and parsed.max_bytes > config.max_bytes:
        return headers.status_block(409, b"Exceeded MaxRequestMaxBytes of %d" % config.max_bytes, [])
    return b""
