"""The server's own entries in the metadata of streams and consumers."""

import pytest

from jetspark.api.asset_metadata import (
    required_api_level,
    same_config,
    users_metadata,
    with_response_metadata,
    with_stored_metadata,
)
from jetspark.api.consumer_config import AckPolicy, ConsumerConfig, PriorityPolicy
from jetspark.api.stream_config import PersistMode, StreamConfig
from jetspark.api.timestamps import ZERO_TIME_NS, WireTime


@pytest.mark.parametrize(
    ("config", "level"),
    [
        (StreamConfig(), 0),
        (StreamConfig(allow_msg_ttl=True), 1),
        (StreamConfig(subject_delete_marker_ttl=1), 1),
        (StreamConfig(allow_msg_counter=True), 2),
        (StreamConfig(allow_atomic=True), 2),
        (StreamConfig(allow_msg_schedules=True), 2),
        (StreamConfig(persist_mode=PersistMode.ASYNC), 2),
        (StreamConfig(allow_batched=True, allow_msg_ttl=True), 4),
        (ConsumerConfig(), 0),
        (ConsumerConfig(pause_until=WireTime(ZERO_TIME_NS)), 0),
        (ConsumerConfig(pause_until=WireTime(5)), 1),
        (ConsumerConfig(priority_policy=PriorityPolicy.OVERFLOW), 1),
        (ConsumerConfig(priority_groups=("A",)), 1),
        (ConsumerConfig(priority_timeout=1), 1),
        (ConsumerConfig(ack_policy=AckPolicy.FLOW_CONTROL), 4),
    ],
)
def test_newer_features_require_newer_servers(config: StreamConfig | ConsumerConfig, level: int) -> None:
    assert required_api_level(config) == level


def test_the_stored_form_has_the_level_and_the_answer_also_the_server() -> None:
    stored = with_stored_metadata(StreamConfig(name="S", metadata={"_nats.ver": "1", "_nats.req.level": "9", "k": "v"}))
    shown = with_response_metadata(stored, "2.15.1")

    assert stored.metadata == {"k": "v", "_nats.req.level": "0"}
    assert shown.metadata == {"k": "v", "_nats.req.level": "0", "_nats.ver": "2.15.1", "_nats.level": "5"}
    assert users_metadata(shown.metadata) == {"k": "v"}


def test_configurations_are_compared_without_the_servers_entries() -> None:
    config = ConsumerConfig(name="c", metadata={"k": "v"})

    assert same_config(with_response_metadata(with_stored_metadata(config), "9.9"), config)
    assert not same_config(config, ConsumerConfig(name="c"))
