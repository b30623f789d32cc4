"""A request that is refused changes nothing; one that is accepted survives a restart as it was answered."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jetspark.broker.rebuild import read_consumer
from jetspark.broker.transfer.s2_block import DamagedArchive
from jetspark.testing.broker_driver import BrokerDriver, FakeConnection

STREAM = {"name": "S", "subjects": ["s.>"]}
# Half a surrogate pair, as JSON may spell it: "\ud800".
HALF = "\ud800"
ODD_VALUES: list[Any] = [
    HALF,
    "a" + HALF,
    "",
    "x" * 5_000,
    "\x00",
    -1,
    0,
    1 << 63,
    10**400,
    1e300,
    True,
    None,
    [HALF],
    {HALF: HALF},
]
STREAM_FIELDS = [
    "description", "retention", "storage", "discard", "max_msgs", "max_bytes", "max_age", "max_msg_size", "metadata",
    "subject_transform", "republish", "placement", "duplicate_window", "first_seq", "compression", "template_owner",
    "subjects", "sources", "mirror", "consumer_limits", "unknown",
]  # fmt: skip
CONSUMER_FIELDS = [
    "description", "deliver_policy", "ack_policy", "ack_wait", "backoff", "filter_subject", "filter_subjects",
    "sample_freq", "metadata", "priority_policy", "priority_groups", "pause_until", "inactive_threshold",
    "deliver_subject", "deliver_group", "opt_start_seq", "opt_start_time", "max_deliver", "unknown",
]  # fmt: skip


def everything(client: FakeConnection) -> tuple[Any, Any]:
    """What clients can see of streams and consumers, without times that pass."""
    streams = client.api("STREAM.LIST")
    consumers = client.api("CONSUMER.LIST.S")
    assert "error" not in streams, streams
    for one in [*streams["streams"], *consumers.get("consumers", [])]:
        one.pop("ts", None)
        one.get("ack_floor", {}).pop("last_active", None)
    return streams["streams"], consumers.get("consumers", [])


@pytest.mark.parametrize("field", ["description", "metadata"])
@pytest.mark.parametrize("storage", ["file", "memory"])
def test_half_a_surrogate_pair_is_replaced_as_go_does(field: str, storage: str) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    odd: Any = HALF if field == "description" else {HALF: HALF}

    made = client.api("STREAM.CREATE.S", {**STREAM, "storage": storage, field: odd})

    found = made["config"][field]
    assert found == "\ufffd" if field == "description" else found["\ufffd"] == "\ufffd"
    client.publish_acked("s.1", b"kept")
    before = everything(client)
    if storage == "file":
        driver.restart()
        assert everything(driver.connect()) == before


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["CREATE", "UPDATE"]),
    st.dictionaries(st.sampled_from(STREAM_FIELDS), st.sampled_from(ODD_VALUES), min_size=1, max_size=2),
)
def test_a_stream_request_is_done_or_changes_nothing(verb: str, odd: dict[str, Any]) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    if verb == "UPDATE":
        client.api("STREAM.CREATE.S", STREAM)
    before = everything(client)

    answer = client.api(f"STREAM.{verb}.S", {**STREAM, **odd})

    if "error" in answer:
        assert everything(client) == before
    else:
        after = everything(client)
        driver.restart()
        if answer["config"]["storage"] == "file":
            assert everything(driver.connect()) == after


@pytest.mark.long
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.booleans(),
    st.dictionaries(st.sampled_from(CONSUMER_FIELDS), st.sampled_from(ODD_VALUES), min_size=1, max_size=2),
)
def test_a_consumer_request_is_done_or_changes_nothing(exists: bool, odd: dict[str, Any]) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.S", STREAM)
    config = {"durable_name": "C", "ack_policy": "explicit"}
    if exists:
        client.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    before = everything(client)

    answer = client.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {**config, **odd}})

    after = everything(client)
    if "error" in answer:
        assert after == before
    driver.restart()
    assert everything(driver.connect()) == after


@pytest.mark.parametrize(
    "document",
    [
        {"config": {"description": HALF, "ack_wait": "x"}},
        {"config": {"durable_name": "C"}, "state": {"pending": {"1": {}}}},
        {"config": {"durable_name": "C"}, "state": {"delivered": 7}},
        {"config": {"durable_name": "C"}, "state": {"redelivered": {"x": 1}}},
        {"config": {"durable_name": "C", "description": HALF}},
    ],
)
def test_a_consumer_in_an_archive_is_read_or_refused_before_anything_is_made(document: dict[str, Any]) -> None:
    with pytest.raises(DamagedArchive):
        read_consumer(document)
