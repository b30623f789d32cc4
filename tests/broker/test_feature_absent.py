"""A stream without special settings: what it says to headers that ask for them, and when it acknowledges."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from jetspark.testing.broker_driver import BrokerDriver, FakeConnection


def stream(client: FakeConnection, **config: Any) -> None:
    reply = client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], **config})
    assert "error" not in reply, reply


# Asked of nats-server 2.15.1: an empty value is no value, except for a time zone.
@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("Nats-Expected-Last-Sequence", "", 0),
        ("Nats-Expected-Last-Sequence", "0", 10071),
        ("Nats-Expected-Last-Sequence", "1", 0),
        ("Nats-Expected-Last-Sequence", "  1", 0),
        ("Nats-Expected-Last-Sequence", "1 ", 10071),
        ("Nats-Expected-Last-Sequence", "x", 10071),
        ("Nats-Expected-Last-Sequence", "-1", 10071),
        ("Nats-Expected-Last-Sequence", "+1", 10071),
        ("Nats-Expected-Last-Sequence", "18446744073709551615", 10071),
        ("Nats-Expected-Last-Sequence", "9" * 400, 10071),
        ("Nats-Expected-Last-Subject-Sequence", "", 0),
        ("Nats-Expected-Last-Subject-Sequence-Subject", "", 0),
        ("Nats-Expected-Last-Subject-Sequence-Subject", "S.a", 10193),
        ("Nats-Expected-Stream", "", 0),
        ("Nats-Expected-Stream", "X", 10060),
        ("Nats-Expected-Last-Msg-Id", "", 0),
        ("Nats-Expected-Last-Msg-Id", "x", 10070),
        ("Nats-Msg-Id", "", 0),
        ("Nats-Rollup", "", 0),
        ("Nats-Rollup", "sub", 10111),
        ("Nats-Batch-Id", "", 0),
        ("Nats-Batch-Id", "x", 10174),
        ("Nats-Batch-Sequence", "1", 0),
        ("Nats-Batch-Commit", "1", 0),
        ("Nats-Stream-Source", "", 0),
        ("Nats-Stream-Source", "x", 10227),
        ("Nats-Required-Api-Level", "99", 0),
        ("Nats-Counter-Sources", "{}", 0),
        ("Nats-Schedule-TTL", "x", 0),
    ],
)
def test_headers_of_features_that_are_off(name: str, value: str, code: int) -> None:
    client = BrokerDriver().connect()
    stream(client)
    client.publish_acked("S.a")

    ack = client.publish_acked("S.a", b"", {name: value})

    assert ack.get("error", {}).get("err_code", 0) == code
    assert ack["seq"] == (0 if code else 2)


def test_what_an_import_adds_about_the_requester_is_not_stored() -> None:
    client = BrokerDriver().connect()
    stream(client)
    client.publish_acked("S.a", b"x", {"Nats-Request-Info": "{}"})
    client.publish_acked("S.a", b"x", {"A": "1", "Nats-Request-Info": "{}"})

    first, second = (client.api("STREAM.MSG.GET.S", {"seq": seq})["message"] for seq in (1, 2))

    assert "hdrs" not in first
    assert base64.b64decode(second["hdrs"]) == b"NATS/1.0\r\nA: 1\r\n\r\n"


def test_a_plain_stream_has_no_features() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, max_age=3_600_000_000_000, max_msgs=10, allow_rollup_hdrs=True, allow_direct=True)

    assert driver.broker.account("$G").jetstream.streams["S"].features is None


@pytest.mark.parametrize(("mode", "waits"), [("default", True), ("async", False)])
def test_an_asynchronous_stream_acknowledges_before_the_disk_has_it(mode: str, waits: bool) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, persist_mode=mode)
    driver.holds_commits = True

    plain = client.start_request("S.a", b"")
    checked = client.start_request("S.a", b"", {"A": "b"})

    assert [bool(client.replies(inbox)) for inbox in (plain, checked)] == [not waits, not waits]


def test_what_an_asynchronous_stream_has_written_is_there_after_a_restart() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, persist_mode="async")
    client.publish_acked("S.a")

    driver.crash()

    assert driver.connect().api("STREAM.INFO.S")["state"]["messages"] == 1
