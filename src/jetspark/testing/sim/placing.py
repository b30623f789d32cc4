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
        consumer.next_seq = matching[-1] if matching else first
    elif policy == DeliverPolicy.NEW:
        consumer.next_seq = stream.last_seq + 1
    elif policy == DeliverPolicy.BY_START_SEQUENCE:
        consumer.next_seq = max(config.opt_start_seq, first)
    elif policy == DeliverPolicy.BY_START_TIME and config.opt_start_time is not None:
        start_ns = config.opt_start_time.unix_ns
        later = [seq for seq in stream.seqs if stream.messages[seq].ts_ns >= start_ns]
        consumer.next_seq = later[0] if later else stream.last_seq + 1
    elif policy == DeliverPolicy.LAST_PER_SUBJECT:
        last = {stream.messages[seq].subject: seq for seq in matching}
        consumer.first_list = sorted(last.values())
        consumer.next_seq = stream.last_seq + 1
    else:
        consumer.next_seq = first
    consumer.floor_seq = 0


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
