"""What an operator does to a running consumer: pause it, release its pinned client, set it back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.api import responses
from jetspark.api.asset_metadata import with_stored_metadata
from jetspark.api.consumer_config import DeliverPolicy
from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.priority_group import is_valid_group_name
from jetspark.api.requests import parse_pause_request, parse_reset_request, parse_unpin_request
from jetspark.api.timestamps import WireTime
from jetspark.broker.bounds import bounded_sequence, bounded_time
from jetspark.broker.consumer import jumps
from jetspark.broker.endpoints.call import ApiCall
from jetspark.broker.info import consumer_fields

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer


def pause(call: ApiCall, names: list[str], rest: str) -> None:
    """CONSUMER.PAUSE.<stream>.<consumer>: until a time; without one, resume."""
    request = parse_pause_request(call.body, strict=call.is_strict())
    consumer = call.jetstream.consumer(names[0], names[1])
    until = request.pause_until
    kept: WireTime | None = None if until.is_zero else until
    before = consumer.config
    consumer.config = with_stored_metadata(replace(before, pause_until=kept))
    call.jetstream.save_consumer(consumer, before)
    consumer.lifecycle.pause(until.unix_ns)
    if not consumer.lifecycle.is_paused:
        consumer.deliver()
    document = responses.consumer_paused(until.unix_ns, call.broker.now_ns)
    if consumer.log.enabled:
        call.answer_durable(document)
    else:
        call.answer(document)


def unpin(call: ApiCall, names: list[str], rest: str) -> None:
    """CONSUMER.UNPIN.<stream>.<consumer>, the group in the body or as one more token of the subject."""
    if len(names) > 2:
        group = names[2]
        if not is_valid_group_name(group):
            raise make(ErrorCode.CONSUMER_INVALID_GROUP_NAME)
    else:
        group = parse_unpin_request(call.body).group
    consumer = call.jetstream.consumer(names[0], names[1])
    if group not in consumer.config.priority_groups:
        raise make(ErrorCode.CONSUMER_INVALID_PRIORITY_GROUP)
    consumer.pinning.unpin("admin")
    call.answer(responses.consumer_unpinned())


def reset(call: ApiCall, names: list[str], rest: str) -> None:
    """CONSUMER.RESET.<stream>.<consumer>: back to just after the ack floor, or to a sequence."""
    stream = call.jetstream.streams.get(names[0])
    consumer = stream.consumers.get(names[1]) if stream is not None else None
    if consumer is None:
        # The consumer itself would listen here; without it nobody answers.
        return
    call.is_counted = False
    request = parse_reset_request(call.body)
    asked = bounded_sequence(request.seq)
    seq = reset_seq(consumer, asked)
    # Without a sequence it stays ahead of its stream if one was asked for before.
    jumps.restart_at(consumer, seq, asked or consumer.asked_seq)
    # A consumer of last messages no longer is one, and the place it was set to may be ahead of its stream.
    call.jetstream.save_consumer(consumer, consumer.config)
    document = responses.consumer_reset(consumer_fields(consumer), seq)
    if consumer.log.enabled:
        call.answer_durable(document)
    else:
        call.answer(document)


def reset_seq(consumer: Consumer, asked: int) -> i64:
    """Where a reset may go: anywhere for a consumer of everything, not before its start for one that has one."""
    if asked == 0:
        # Messages it looked at after the floor and passed over are done with as well; a failed commit may undo that.
        looked_at = min(consumer.settled_seq, consumer.next_seq - 1)
        return max(consumer.state.floor_stream_seq, looked_at) + 1
    config = consumer.config
    policy = config.deliver_policy
    if policy == DeliverPolicy.ALL:
        return asked
    if policy == DeliverPolicy.BY_START_SEQUENCE:
        if asked < config.opt_start_seq:
            raise invalid_reset("below start seq")
        return asked
    if policy == DeliverPolicy.BY_START_TIME and config.opt_start_time is not None:
        if asked < consumer.stream.store.seq_at_time(bounded_time(config.opt_start_time.unix_ns)):
            raise invalid_reset("below start time")
        return asked
    raise invalid_reset("not allowed")


def invalid_reset(reason: str) -> ApiError:
    return make(ErrorCode.CONSUMER_INVALID_RESET, err=reason)
