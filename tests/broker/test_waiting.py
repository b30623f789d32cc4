"""Who waits for messages and what they are told."""

from __future__ import annotations

from jetspark.testing.broker_driver import BrokerDriver


def test_a_request_whose_inbox_nobody_listens_on_no_longer_waits() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S"})
    client.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}})
    client.send(b"SUB inbox 77\r\n")
    client.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":1}', reply="inbox")
    assert client.api("CONSUMER.INFO.S.C")["num_waiting"] == 1

    client.send(b"UNSUB 77\r\n")

    assert client.api("CONSUMER.INFO.S.C")["num_waiting"] == 0


def test_a_request_that_does_not_wait_is_answered_by_a_paused_consumer() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S"})
    client.publish_acked("S", b"x")
    client.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}})
    client.api("CONSUMER.PAUSE.S.C", {"pause_until": "2099-01-01T00:00:00Z"})

    reply = client.request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":2,"no_wait":true}')

    assert reply is not None
    assert reply.status == "404 No Messages"
    client.api("CONSUMER.PAUSE.S.C")
    assert [message.subject for message in client.take_messages()] == []


def test_others_hear_what_a_deliver_group_is_sent_while_it_listens() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S"})
    config = {"durable_name": "P", "deliver_subject": "d", "deliver_group": "g", "ack_policy": "none"}
    client.api("CONSUMER.CREATE.S.P", {"stream_name": "S", "config": config})
    tap, other = client.subscribe("d"), client.subscribe("d", "other")
    client.publish_acked("S", b"x")
    assert client.take_messages(tap) == []

    member = client.subscribe("d", "g")

    assert [len(client.take_messages(sid)) for sid in (member, tap, other)] == [1, 1, 1]
