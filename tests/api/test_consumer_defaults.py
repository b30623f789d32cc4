"""What the server fills into a consumer's configuration."""

import pytest

from jetspark.api.consumer_config import AckPolicy, ConsumerConfig, PriorityPolicy
from jetspark.api.consumer_defaults import with_defaults
from jetspark.api.error_codes import ApiError
from jetspark.api.limits import AccountLimits, ServerLimits
from jetspark.api.stream_config import ConsumerLimits, StreamConfig
from jetspark.api.timestamps import MINUTE, SECOND

STREAM = StreamConfig(name="S")


def filled(config: ConsumerConfig, stream: StreamConfig = STREAM, *, pedantic: bool = False) -> ConsumerConfig:
    return with_defaults(config, stream, ServerLimits(), AccountLimits(), pedantic=pedantic)


def test_a_pull_consumer_waits_for_512_requests_and_a_push_consumer_for_none() -> None:
    assert filled(ConsumerConfig()).max_waiting == 512
    assert filled(ConsumerConfig(deliver_subject="d")).max_waiting == 0


@pytest.mark.parametrize(
    ("policy", "ack_wait", "max_ack_pending"),
    [
        (AckPolicy.NONE, 0, 0),
        (AckPolicy.ALL, 30 * SECOND, 1000),
        (AckPolicy.EXPLICIT, 30 * SECOND, 1000),
        (AckPolicy.FLOW_CONTROL, 0, 1000),
    ],
)
def test_waits_and_pending_follow_the_ack_policy(policy: AckPolicy, ack_wait: int, max_ack_pending: int) -> None:
    config = filled(ConsumerConfig(ack_policy=policy))

    assert (config.ack_wait, config.max_ack_pending, config.max_deliver) == (ack_wait, max_ack_pending, -1)


def test_a_backoff_overrides_the_ack_wait() -> None:
    assert filled(ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, ack_wait=1, backoff=(7, 8))).ack_wait == 7


def test_the_streams_limits_come_before_the_servers_defaults() -> None:
    stream = StreamConfig(name="S", consumer_limits=ConsumerLimits(max_ack_pending=5, inactive_threshold=9))

    config = filled(ConsumerConfig(ack_policy=AckPolicy.EXPLICIT), stream)

    assert (config.max_ack_pending, config.inactive_threshold) == (5, 9)


def test_only_pinned_clients_get_a_timeout() -> None:
    assert filled(ConsumerConfig(priority_policy=PriorityPolicy.PINNED_CLIENT)).priority_timeout == 2 * MINUTE
    assert filled(ConsumerConfig(priority_policy=PriorityPolicy.OVERFLOW)).priority_timeout == 0


def test_filling_in_twice_changes_nothing() -> None:
    once = filled(ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, max_deliver=-7, max_batch=-1))

    assert filled(once) == once


def test_pedantic_requests_are_refused_instead_of_corrected() -> None:
    with pytest.raises(ApiError, match="max_batch must not be negative"):
        filled(ConsumerConfig(max_batch=-1), pedantic=True)
