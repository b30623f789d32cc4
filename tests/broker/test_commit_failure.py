"""What waited for a commit that the disk refused."""

import pytest

from jetspark.testing.broker_driver import BrokerDriver


@pytest.mark.parametrize("payload", [b"404", b"[]", b"null", b"text", b'{"type": "mine"}', b""])
def test_a_direct_read_of_what_the_disk_refused_is_not_answered(payload: bytes) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], "allow_direct": True})
    driver.holds_commits = True
    publish = client.start_request("S.a", payload)
    read = client.start_request("$JS.API.DIRECT.GET.S", b'{"seq": 1}')

    driver.finish_commit("no space left")
    driver.holds_commits = False
    driver.settle()

    assert client.replies(publish)[0].json()["error"]["description"] == "no space left"
    assert client.replies(read) == []


def test_a_request_that_changes_a_stream_is_told_what_the_disk_said() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})
    client.publish_acked("S.a", b"x")
    driver.holds_commits = True
    purge = client.start_request("$JS.API.STREAM.PURGE.S")

    driver.finish_commit("no space left")
    driver.holds_commits = False
    driver.settle()

    answer = client.replies(purge)[0].json()
    assert (answer["type"], answer["error"]["err_code"]) == ("io.nats.jetstream.api.v1.stream_purge_response", 10077)


def test_a_consumer_made_during_a_commit_that_fails_delivers() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})
    client.publish_acked("S.a", b"kept")
    driver.holds_commits = True
    client.publish("S.a", b"refused")
    config = {"name": "C", "ack_policy": "explicit", "mem_storage": True}
    client.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})

    driver.finish_commit("no space left")
    driver.holds_commits = False
    driver.settle()

    client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": 5, "no_wait": true}')
    assert [message.data for message in client.take_messages() if message.data] == [b"kept"]
