"""Where a new consumer must begin, by its deliver policy."""

from __future__ import annotations

from jetspark.api.consumer_config import ConsumerConfig, DeliverPolicy
from jetspark.api.consumer_defaults import DEFAULT_INACTIVE_THRESHOLD_NS
from jetspark.testing.sim.consumer_model import ConsumerModel


def threshold_ns(config: ConsumerConfig) -> int:
    """How long a consumer may go unused; 0 for ever."""
    if config.inactive_threshold == 0 and not config.is_durable:
        return DEFAULT_INACTIVE_THRESHOLD_NS
    return config.inactive_threshold


def place(consumer: ConsumerModel) -> None:
    """Set the model where the broker must begin."""
    stream = consumer.stream
    config = consumer.config
    policy = config.deliver_policy
    matching = [seq for seq in stream.seqs if consumer.accepts(stream.messages[seq].subject)]
    first = stream.first_seq
    if policy == DeliverPolicy.LAST:
        if not consumer.patterns:
            consumer.next_seq = max(stream.last_seq, first)
        else:
            consumer.next_seq = matching[-1] if matching else first
    elif policy == DeliverPolicy.NEW:
        consumer.next_seq = stream.last_seq + 1
    elif policy == DeliverPolicy.BY_START_SEQUENCE:
        consumer.next_seq = max(config.opt_start_seq, first)
    elif policy == DeliverPolicy.BY_START_TIME and config.opt_start_time is not None:
        start_ns = config.opt_start_time.unix_ns
        later = [seq for seq in stream.seqs if stream.messages[seq].ts_ns >= start_ns]
        consumer.next_seq = later[0] if later else stream.last_seq + 1
    elif policy == DeliverPolicy.LAST_PER_SUBJECT and stream.config.max_msgs_per_subject != 1:
        last = {stream.messages[seq].subject: seq for seq in matching}
        consumer.first_list = sorted(last.values())
        consumer.list_until_seq = stream.last_seq
        consumer.next_seq = stream.last_seq + 1 if consumer.first_list else max(stream.last_seq, first)
    else:
        consumer.next_seq = first
    consumer.base_seq = consumer.next_seq
    consumer.delivered_seq = (consumer.first_list[0] if consumer.first_list else consumer.next_seq) - 1
    consumer.floor_seq = 0


def place_again(consumer: ConsumerModel, *, is_new: bool) -> None:
    """The stream has gone back to its last durable commit: a place that depended on what is gone is found anew."""
    stream = consumer.stream
    policy = consumer.config.deliver_policy
    last_seq = stream.last_seq
    delivered_seq = consumer.delivered_seq
    began_last = is_new and policy == DeliverPolicy.LAST
    began_beyond = consumer.list_until_seq > last_seq or (began_last and consumer.next_seq > last_seq)
    if consumer.consumer_seq == 0 and began_beyond:
        consumer.list_until_seq = 0
        place(consumer)
    elif policy == DeliverPolicy.LAST_PER_SUBJECT and delivered_seq < consumer.list_until_seq:
        until = consumer.list_until_seq = min(consumer.list_until_seq, last_seq)
        subjects = {kept.subject: seq for seq, kept in sorted(stream.messages.items()) if seq <= until}
        consumer.first_list = sorted(
            seq for subject, seq in subjects.items() if consumer.accepts(subject) and seq > delivered_seq
        )
        consumer.next_seq = consumer.base_seq = until + 1
    else:
        start_seq = consumer.asked_seq
        if start_seq == 0 and policy == DeliverPolicy.BY_START_SEQUENCE:
            start_seq = consumer.config.opt_start_seq
        consumer.first_list = []
        consumer.next_seq = consumer.base_seq = min(consumer.base_seq, max(last_seq + 1, start_seq))
    consumer.floor_seq = min(consumer.floor_seq, last_seq)


def reset_seq(consumer: ConsumerModel, asked: int, floor_seq: int) -> int:
    """Where a reset must set a consumer; 0 when it must be refused."""
    config = consumer.config
    if asked == 0:
        return floor_seq + 1
    if config.deliver_policy == DeliverPolicy.ALL:
        return asked
    if config.deliver_policy == DeliverPolicy.BY_START_SEQUENCE and asked >= config.opt_start_seq:
        return asked
    return 0
