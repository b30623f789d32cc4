"""Messages that live for a time of their own, and the markers they leave."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from jetspark.testing.broker_driver import BrokerDriver, FakeConnection

SECOND_NS = 1_000_000_000
STORAGES = pytest.mark.parametrize("storage", ["file", "memory"])


def stream(client: FakeConnection, **config: Any) -> None:
    reply = client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], **config})
    assert "error" not in reply, reply


def sequences(client: FakeConnection) -> list[int]:
    state = client.api("STREAM.INFO.S", {"deleted_details": True})["state"]
    gone = state.get("deleted") or []
    if state["messages"] == 0:
        return []
    return [seq for seq in range(state["first_seq"], state["last_seq"] + 1) if seq not in gone]


def header_of(client: FakeConnection, seq: int) -> bytes:
    return base64.b64decode(client.api("STREAM.MSG.GET.S", {"seq": seq})["message"].get("hdrs", ""))


def error_code(ack: Any) -> int:
    return int(ack.get("error", {}).get("err_code", 0))


# Asked of nats-server 2.15.1.
@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("1", 0), ("5s", 0), ("1h", 0), ("never", 0), ("NEVER", 0), ("", 0), ("1.5s", 0), (" 5", 0), ("1h30m", 0),
        ("+5s", 0), (".5h", 0), ("9223372036854775807", 0), ("99999999999999999999", 0),
        ("0", 10165), ("0s", 10165), ("500ms", 10165), ("-1", 10165), ("-5s", 10165), ("abc", 10165), ("1d", 10165),
        ("5 ", 10165), ("+5", 10165), ("1e3s", 10165), ("999999999h", 10165), ("1_000", 10165),
    ],
)  # fmt: skip
def test_values_of_the_header(value: str, code: int) -> None:
    client = BrokerDriver().connect()
    stream(client, allow_msg_ttl=True)

    assert error_code(client.publish_acked("S.a", b"", {"Nats-TTL": value})) == code


@pytest.mark.parametrize(("value", "code"), [("1", 10166), ("never", 10166), ("", 0), ("0", 10165), ("x", 10165)])
def test_a_stream_without_lifetimes_refuses_those_that_make_sense_for_being_there(value: str, code: int) -> None:
    client = BrokerDriver().connect()
    stream(client)

    assert error_code(client.publish_acked("S.a", b"", {"Nats-TTL": value})) == code


@STORAGES
def test_a_message_goes_when_its_time_is_over(storage: str) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, storage=storage, allow_msg_ttl=True)
    for value in ("2", "1", "10s"):
        client.publish_acked("S.a", b"", {"Nats-TTL": value})
    client.publish_acked("S.a")

    driver.advance(0.9)
    assert sequences(client) == [1, 2, 3, 4]
    driver.advance(0.2)
    assert sequences(client) == [1, 3, 4]
    driver.advance(1)
    assert sequences(client) == [3, 4]
    driver.advance(10)
    assert sequences(client) == [4]


@STORAGES
def test_never_outlives_the_age_limit(storage: str) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, storage=storage, allow_msg_ttl=True, max_age=SECOND_NS)
    client.publish_acked("S.a", b"", {"Nats-TTL": "never"})
    client.publish_acked("S.a")

    driver.advance(5)

    assert sequences(client) == [1]


def test_lifetimes_are_known_again_after_a_restart() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, allow_msg_ttl=True)
    client.publish_acked("S.a", b"", {"Nats-TTL": "5"})
    client.publish_acked("S.a", b"", {"Nats-TTL": "20"})
    driver.advance(3)

    driver.restart()
    driver.advance(1)
    client = driver.connect()
    assert sequences(client) == [1, 2]
    driver.advance(1.5)
    assert sequences(client) == [2]
    driver.now_ns += 60 * SECOND_NS
    driver.crash()
    driver.advance(1)

    assert sequences(driver.connect()) == []


def test_an_update_of_the_stream_keeps_the_deadlines() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, allow_msg_ttl=True)
    client.publish_acked("S.a", b"", {"Nats-TTL": "5"})

    client.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>", "T.>"], "allow_msg_ttl": True})
    driver.advance(6)

    assert sequences(client) == []


def test_a_refused_write_forgets_its_deadline() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, allow_msg_ttl=True)
    driver.holds_commits = True
    client.publish("S.a", b"", headers={"Nats-TTL": "5"})
    driver.finish_commit("disk full")
    driver.holds_commits = False
    driver.advance(1)
    client.publish_acked("S.a", b"stays")

    driver.advance(10)

    assert sequences(client) == [1]


def test_a_message_whose_removal_the_disk_refused_is_removed_later() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, allow_msg_ttl=True)
    client.publish_acked("S.a", b"", {"Nats-TTL": "5"})
    client.publish_acked("S.a")
    driver.holds_commits = True
    driver.advance(5.1)
    assert sequences(client) == [2]
    driver.finish_commit("disk full")
    driver.holds_commits = False
    assert sequences(client) == [1, 2]

    driver.advance(1)

    assert sequences(client) == [2]
    driver.crash()
    assert sequences(driver.connect()) == [2]


# -- markers ---------------------------------------------------------------------------------------------------------


@STORAGES
def test_the_last_message_of_a_subject_leaves_a_marker_when_it_ages(storage: str) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, storage=storage, subject_delete_marker_ttl=60 * SECOND_NS, max_age=2 * SECOND_NS)
    client.publish_acked("S.a")
    client.publish_acked("S.a")
    driver.advance(1)
    client.publish_acked("S.b")

    driver.advance(1.5)
    assert sequences(client) == [3, 4]
    assert header_of(client, 4) == (
        b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 1m0s\r\nNats-Rollup: sub\r\n\r\n"
    )
    driver.advance(1)
    assert sequences(client) == [4, 5]
    driver.advance(10)
    assert sequences(client) == [], "markers age as well, and leave no marker"


def test_a_lifetime_leaves_a_marker_and_the_marker_goes_after_its_own() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, subject_delete_marker_ttl=3 * SECOND_NS, max_msgs_per_subject=1)
    client.publish_acked("S.a", b"x", {"Nats-TTL": "1"})

    driver.advance(1.1)
    assert sequences(client) == [2]
    assert b"Nats-TTL: 3s" in header_of(client, 2)
    driver.advance(3.1)
    assert sequences(client) == []


def test_a_purge_of_a_key_is_marker_enough() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, subject_delete_marker_ttl=SECOND_NS, max_msgs_per_subject=1)
    client.publish_acked("S.a", b"", {"KV-Operation": "PURGE", "Nats-TTL": "1"})

    driver.advance(2)

    assert sequences(client) == []


def test_lifetimes_are_at_least_the_markers_own() -> None:
    client = BrokerDriver().connect()
    stream(client, subject_delete_marker_ttl=3 * SECOND_NS)

    client.publish_acked("S.a", b"x", {"Nats-TTL": "1", "Z": "1"})
    client.publish_acked("S.a", b"x", {"Nats-TTL": "never"})
    client.publish_acked("S.a", b"x", {"Nats-TTL": "4"})

    assert header_of(client, 1) == b"NATS/1.0\r\nZ: 1\r\nNats-TTL: 3\r\n\r\n"
    assert header_of(client, 2) == b"NATS/1.0\r\nNats-TTL: never\r\n\r\n"
    assert header_of(client, 3) == b"NATS/1.0\r\nNats-TTL: 4\r\n\r\n"


def test_markers_are_republished_like_any_message() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, subject_delete_marker_ttl=SECOND_NS, max_age=SECOND_NS, republish={"src": "S.>", "dest": "R.>"})
    listener = client.subscribe("R.>")
    client.publish_acked("S.a", b"x")

    driver.advance(1.5)

    _, marker = client.take_messages(listener)
    assert marker.headers["Nats-Marker-Reason"] == "MaxAge"
    assert marker.headers["Nats-Last-Sequence"] == "1"
