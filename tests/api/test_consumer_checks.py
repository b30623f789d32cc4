"""Rules on consumers; the wide table is in the tests against nats-server, here are those that hold without it."""

from dataclasses import replace

import pytest

from jetspark.api.consumer_checks import ConsumerContext, check_consumer, name_consumer, sampling_percent
from jetspark.api.consumer_config import AckPolicy, ConsumerAction, ConsumerConfig, ConsumerCreateRequest
from jetspark.api.error_codes import ApiError
from jetspark.api.limits import ServerLimits
from jetspark.api.stream_config import StreamConfig
from jetspark.api.timestamps import SECOND, WireTime

STREAM = StreamConfig(name="S", subjects=("s.>",))
PUSH = ConsumerConfig(durable_name="c", name="c", deliver_subject="d", ack_policy=AckPolicy.EXPLICIT)


def request(config: ConsumerConfig, action: ConsumerAction = ConsumerAction.CREATE_OR_UPDATE) -> ConsumerCreateRequest:
    return ConsumerCreateRequest(stream_name="S", config=config, action=action)


def created(config: ConsumerConfig) -> ConsumerConfig:
    return check_consumer(request(config), ConsumerContext(stream=STREAM))


def test_a_push_consumer_in_use_can_not_be_redirected() -> None:
    existing = {"c": created(PUSH)}
    redirected = request(replace(PUSH, deliver_subject="elsewhere"))
    idle = ConsumerContext(stream=STREAM, consumers=existing)
    busy = ConsumerContext(stream=STREAM, consumers=existing, has_interest=lambda subject: subject == "d")

    assert check_consumer(redirected, idle).deliver_subject == "elsewhere"
    with pytest.raises(ApiError, match="consumer name already in use"):
        check_consumer(redirected, busy)


def test_a_thousand_consumers_are_enough_unless_the_stream_says_otherwise() -> None:
    crowd = {f"c{number}": ConsumerConfig(durable_name=f"c{number}") for number in range(1000)}
    one_more = request(ConsumerConfig(durable_name="x", name="x"))

    with pytest.raises(ApiError, match="maximum consumers limit reached"):
        check_consumer(one_more, ConsumerContext(stream=STREAM, consumers=crowd))
    roomy = replace(STREAM, max_consumers=2000)
    assert check_consumer(one_more, ConsumerContext(stream=roomy, consumers=crowd)).name == "x"
    no_default = ServerLimits(default_max_consumers=-1)
    assert check_consumer(one_more, ConsumerContext(stream=STREAM, consumers=crowd, server_limits=no_default))


def test_an_ephemeral_consumer_gets_a_threshold_and_a_durable_one_does_not() -> None:
    assert created(ConsumerConfig(name="e")).inactive_threshold == 5 * SECOND
    assert created(ConsumerConfig(durable_name="d")).inactive_threshold == 0


def test_a_consumer_without_a_name_is_left_for_the_caller_to_name() -> None:
    named = name_consumer(request(ConsumerConfig()), stream="S")

    assert check_consumer(named, ConsumerContext(stream=STREAM)).name == ""


def test_an_update_keeps_the_pause_it_does_not_mention() -> None:
    paused = created(replace(PUSH, pause_until=WireTime(5, 3600)))

    updated = check_consumer(request(PUSH), ConsumerContext(stream=STREAM, consumers={"c": paused}))

    assert updated.pause_until == WireTime(5)
    assert str(updated.pause_until) == "1970-01-01T00:00:00.000000005Z"


def test_creating_the_same_consumer_again_is_fine_and_another_of_its_name_is_not() -> None:
    there = ConsumerContext(stream=STREAM, consumers={"c": created(PUSH)})

    assert check_consumer(request(PUSH, ConsumerAction.CREATE), there) == there.consumers["c"]
    with pytest.raises(ApiError, match="consumer already exists"):
        check_consumer(request(replace(PUSH, description="x"), ConsumerAction.CREATE), there)
    with pytest.raises(ApiError, match="consumer does not exist"):
        check_consumer(request(PUSH, ConsumerAction.UPDATE), ConsumerContext(stream=STREAM))


def test_sampling_is_a_percentage_with_or_without_its_sign() -> None:
    assert sampling_percent("30%") == sampling_percent("30") == 30
