"""Subjects rewritten on their way in, and stored messages published again on their way out."""

from __future__ import annotations

from typing import Any

import pytest

from jetspark.testing.broker_driver import BrokerDriver, FakeConnection


def stream(client: FakeConnection, name: str = "S", **config: Any) -> None:
    reply = client.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **config})
    assert "error" not in reply, reply


def stored_subjects(client: FakeConnection, name: str = "S") -> dict[str, int]:
    subjects: dict[str, int] = client.api(f"STREAM.INFO.{name}", {"subjects_filter": ">"})["state"]["subjects"]
    return subjects


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_subject_is_rewritten_before_it_is_checked_and_stored(storage: str) -> None:
    client = BrokerDriver().connect()
    stream(client, storage=storage, subject_transform={"src": "S.*.*", "dest": "T.{{wildcard(2)}}.{{wildcard(1)}}"})

    client.publish_acked("S.a.b", b"1")
    ack = client.publish_acked("S.a.b", b"2", {"Nats-Expected-Last-Subject-Sequence": "1"})

    assert ack == {"stream": "S", "seq": 2}
    assert stored_subjects(client) == {"T.b.a": 2}


def test_a_subject_outside_the_transform_stays_as_it_is() -> None:
    client = BrokerDriver().connect()
    stream(client, subject_transform={"src": "S.a", "dest": "S.z"})

    client.publish_acked("S.a")
    client.publish_acked("S.b")

    assert stored_subjects(client) == {"S.b": 1, "S.z": 1}


def test_random_partitions_are_drawn_for_every_message() -> None:
    client = BrokerDriver().connect()
    stream(client, subject_transform={"src": "S.*", "dest": "T.{{random(1000)}}.{{wildcard(1)}}"})

    for _ in range(20):
        client.publish_acked("S.a")

    assert len(stored_subjects(client)) > 5


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_stored_message_is_republished_with_where_it_is_stored(storage: str) -> None:
    client = BrokerDriver().connect()
    stream(client, storage=storage, republish={"src": "S.>", "dest": "R.>"})
    listener = client.subscribe("R.>")

    client.publish_acked("S.a", b"1")
    client.publish_acked("S.b", b"2", {"X": "y"})
    client.publish_acked("S.a", b"3")

    first, second, third = client.take_messages(listener)
    time = b"2023-11-14T22:13:20Z"
    assert first.subject == "R.a"
    assert first.data == b"1"
    assert first.reply == ""
    assert first.header == (
        b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: S.a\r\nNats-Sequence: 1\r\n"
        b"Nats-Time-Stamp: " + time + b"\r\nNats-Last-Sequence: 0\r\n\r\n"
    )
    assert second.header == (
        b"NATS/1.0\r\nX: y\r\nNats-Stream: S\r\nNats-Subject: S.b\r\nNats-Sequence: 2\r\n"
        b"Nats-Time-Stamp: " + time + b"\r\nNats-Last-Sequence: 0\r\n\r\n"
    )
    assert third.headers["Nats-Last-Sequence"] == "1"


def test_headers_only_says_how_large_the_message_was() -> None:
    client = BrokerDriver().connect()
    stream(client, republish={"src": "S.>", "dest": "R.>", "headers_only": True})
    listener = client.subscribe("R.>")

    client.publish_acked("S.a", b"12345")

    (message,) = client.take_messages(listener)
    assert message.data == b""
    assert message.headers["Nats-Msg-Size"] == "5"


def test_only_matching_stored_and_new_messages_are_republished() -> None:
    client = BrokerDriver().connect()
    stream(client, republish={"src": "S.a.*", "dest": "R.$1"})
    listener = client.subscribe("R.>")

    client.publish_acked("S.b", b"no match")
    client.publish_acked("S.a.x", b"yes", {"Nats-Msg-Id": "1"})
    client.publish_acked("S.a.x", b"duplicate", {"Nats-Msg-Id": "1"})

    assert [message.data for message in client.take_messages(listener)] == [b"yes"]


def test_a_message_nobody_wants_is_not_republished() -> None:
    client = BrokerDriver().connect()
    stream(client, retention="interest", republish={"src": "S.>", "dest": "R.>"})
    listener = client.subscribe("R.>")

    assert client.publish_acked("S.a") == {"stream": "S", "seq": 1}

    assert client.take_messages(listener) == []


def test_republishing_waits_for_the_disk() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, republish={"src": "S.>", "dest": "R.>"})
    listener = client.subscribe("R.>")
    driver.holds_commits = True

    client.publish("S.a", b"1")
    assert client.take_messages(listener) == []
    driver.finish_commit()
    driver.settle()

    assert [message.data for message in client.take_messages(listener)] == [b"1"]


def test_what_the_disk_refused_is_never_republished() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, republish={"src": "S.>", "dest": "R.>"})
    listener = client.subscribe("R.>")
    driver.holds_commits = True
    client.publish("S.a", b"lost")
    driver.finish_commit("disk full")
    driver.holds_commits = False
    driver.advance(1)

    client.publish_acked("S.a", b"kept")

    (message,) = client.take_messages(listener)
    assert message.data == b"kept"
    assert message.headers["Nats-Sequence"] == "1"


def test_another_stream_may_keep_what_is_republished() -> None:
    client = BrokerDriver().connect()
    stream(client, "S", republish={"src": "S.>", "dest": "R.>"})
    stream(client, "R")

    client.publish_acked("S.a", b"x")

    message = client.api("STREAM.MSG.GET.R", {"seq": 1})["message"]
    assert message["subject"] == "R.a"


def test_settings_may_change_and_go() -> None:
    client = BrokerDriver().connect()
    stream(client)
    listener = client.subscribe("R.>")
    client.publish_acked("S.a", b"before")
    client.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>"], "republish": {"src": "S.>", "dest": "R.>"}})
    client.publish_acked("S.a", b"republished")
    renaming = {"src": "S.a", "dest": "S.z"}
    client.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>"], "subject_transform": renaming})
    client.publish_acked("S.a", b"renamed")

    assert [message.data for message in client.take_messages(listener)] == [b"republished"]
    assert stored_subjects(client) == {"S.a": 2, "S.z": 1}
