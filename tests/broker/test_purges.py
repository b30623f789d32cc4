"""What purges and removals leave to consumers, where nats-server would leave less."""

from typing import Any

import pytest

from jetspark.testing.broker_driver import BrokerDriver, FakeConnection


@pytest.fixture
def client() -> FakeConnection:
    client = BrokerDriver().connect()
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})
    for subject in ("S.a", "S.b", "S.c", "S.b"):
        client.publish_acked(subject, subject.encode())
    return client


def make_consumer(client: FakeConnection, **config: Any) -> None:
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit", **config}}
    assert "error" not in client.api("CONSUMER.CREATE.S.C", body)


def pull(client: FakeConnection) -> list[bytes]:
    client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": 10, "no_wait": true}')
    return [message.data for message in client.take_messages() if not message.status]


def test_a_purge_of_one_filter_leaves_the_messages_of_the_others(client: FakeConnection) -> None:
    make_consumer(client, filter_subjects=["S.a", "S.b"])

    client.api("STREAM.PURGE.S", {"filter": "S.a"})

    assert pull(client) == [b"S.b", b"S.b"]


def test_a_purge_that_cuts_through_a_filter_counts_only_what_is_left(client: FakeConnection) -> None:
    client.publish_acked("S.b.1", b"S.b.1")
    client.publish_acked("S.c.1", b"S.c.1")
    make_consumer(client, filter_subject="S.*.1")
    assert pull(client) == [b"S.b.1", b"S.c.1"]

    client.api("STREAM.PURGE.S", {"filter": "S.b.*"})

    answer = client.api("CONSUMER.INFO.S.C")
    assert (answer["num_pending"], answer["num_ack_pending"]) == (0, 1)


def test_a_list_of_last_messages_goes_on_after_one_that_was_removed(client: FakeConnection) -> None:
    make_consumer(client, deliver_policy="last_per_subject", filter_subject="S.>")

    client.api("STREAM.MSG.DELETE.S", {"seq": 1})

    assert pull(client) == [b"S.c", b"S.b"]


def test_a_start_by_time_passes_over_no_message_of_another_filter(client: FakeConnection) -> None:
    driver = client.driver
    driver.advance(5)
    start = client.api("STREAM.INFO.S")["ts"]
    driver.advance(1)
    for subject in ("S.a", "S.d", "S.e"):
        client.publish_acked(subject, b"late " + subject.encode())

    make_consumer(client, filter_subjects=["S.a", "S.d"], deliver_policy="by_start_time", opt_start_time=start)

    assert pull(client) == [b"late S.a", b"late S.d"]
