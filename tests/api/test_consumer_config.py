"""The consumer configuration and its create request as documents."""

from jetspark.api.consumer_config import (
    AckPolicy,
    ConsumerAction,
    ConsumerConfig,
    ConsumerCreateRequest,
    DeliverPolicy,
    PriorityPolicy,
    ReplayPolicy,
    parse_consumer_create_request,
)
from jetspark.api.responses import encode_json
from jetspark.api.timestamps import WireTime

FULL = ConsumerConfig(
    durable_name="d",
    name="d",
    description="x",
    deliver_policy=DeliverPolicy.BY_START_TIME,
    opt_start_seq=1,
    opt_start_time=WireTime(5),
    ack_policy=AckPolicy.EXPLICIT,
    ack_wait=2,
    max_deliver=3,
    backoff=(4, 5),
    filter_subject="a",
    filter_subjects=("b", "c"),
    replay_policy=ReplayPolicy.ORIGINAL,
    rate_limit_bps=6,
    sample_freq="7%",
    max_waiting=8,
    max_ack_pending=9,
    flow_control=True,
    headers_only=True,
    max_batch=10,
    max_expires=11,
    max_bytes=12,
    deliver_subject="s",
    deliver_group="g",
    idle_heartbeat=13,
    inactive_threshold=14,
    num_replicas=1,
    mem_storage=True,
    direct=True,
    sourcing=True,
    metadata={"k": "v"},
    pause_until=WireTime(15),
    priority_groups=("A",),
    priority_policy=PriorityPolicy.PINNED_CLIENT,
    priority_timeout=16,
)


def test_a_full_configuration_survives_writing_and_reading() -> None:
    assert ConsumerConfig.decode(FULL.encode(), strict=True) == FULL


def test_only_four_fields_are_always_written() -> None:
    assert ConsumerConfig().encode() == {
        "deliver_policy": "all",
        "ack_policy": "none",
        "replay_policy": "instant",
        "num_replicas": 0,
    }


def test_a_create_request_survives_writing_and_reading() -> None:
    request = ConsumerCreateRequest(stream_name="S", config=FULL, action=ConsumerAction.UPDATE, pedantic=True)

    assert parse_consumer_create_request(encode_json(request.encode())) == request


def test_filters_are_gathered_from_both_fields() -> None:
    assert FULL.filters == ("b", "c", "a")
    assert ConsumerConfig().filters == ()


def test_push_and_durable_are_told_by_their_fields() -> None:
    assert FULL.is_push
    assert FULL.is_durable
    assert not ConsumerConfig(name="x").is_push
    assert not ConsumerConfig(name="x").is_durable
