"""Streams whose subjects count."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from jetspark.testing.broker_driver import BrokerDriver, FakeConnection


def stream(client: FakeConnection, name: str = "C", **config: Any) -> None:
    config = {"name": name, "subjects": [f"{name}.>"], "allow_msg_counter": True, **config}
    reply = client.api(f"STREAM.CREATE.{name}", config)
    assert "error" not in reply, reply


def add(client: FakeConnection, value: str, subject: str = "C.a", **more: str) -> Any:
    return client.publish_acked(subject, b"", {"Nats-Incr": value, **{k.replace("_", "-"): v for k, v in more.items()}})


def message(client: FakeConnection, seq: int) -> tuple[bytes, bytes]:
    found = client.api("STREAM.MSG.GET.C", {"seq": seq})["message"]
    return base64.b64decode(found.get("hdrs", "")), base64.b64decode(found.get("data", ""))


def code(ack: Any) -> int:
    return int(ack.get("error", {}).get("err_code", 0))


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_increments_add_up_by_subject_without_limit(storage: str) -> None:
    client = BrokerDriver().connect()
    stream(client, storage=storage)

    assert add(client, "+5") == {"stream": "C", "seq": 1, "val": "5"}
    assert add(client, "-20") == {"stream": "C", "seq": 2, "val": "-15"}
    assert add(client, "007") == {"stream": "C", "seq": 3, "val": "-8"}
    assert add(client, "9" * 40, "C.b") == {"stream": "C", "seq": 4, "val": "9" * 40}
    assert add(client, "1", "C.b")["val"] == "1" + "0" * 40
    assert add(client, "-0", "C.c")["val"] == "0"
    assert message(client, 3) == (b"NATS/1.0\r\nNats-Incr: 007\r\n\r\n", b'{"val":"-8"}')


def test_other_headers_are_kept() -> None:
    client = BrokerDriver().connect()
    stream(client)

    client.publish_acked("C.a", b"", {"A": "1", "Nats-Incr": "+2", "B": "2"})

    assert message(client, 1) == (b"NATS/1.0\r\nA: 1\r\nNats-Incr: +2\r\nB: 2\r\n\r\n", b'{"val":"2"}')


# Asked of nats-server 2.15.1.
@pytest.mark.parametrize(
    ("headers", "payload", "expected"),
    [
        ({}, b"", 10169),
        ({"Nats-Msg-Id": "1"}, b"", 10169),
        ({"Nats-Incr": ""}, b"", 10169),
        ({"Nats-Expected-Stream": "X"}, b"", 10060),
        ({"Nats-Incr": "5"}, b"x", 10170),
        ({"Nats-Incr": "x"}, b"", 10171),
        ({"Nats-Incr": "5 "}, b"", 10171),
        ({"Nats-Incr": "1_0"}, b"", 10171),
        ({"Nats-Incr": "0x10"}, b"", 10171),
        ({"Nats-Incr": "-"}, b"", 10171),
        ({"Nats-Incr": "1.5"}, b"", 10171),
        ({"Nats-Incr": "1", "Nats-Rollup": "sub"}, b"", 10171),
        ({"Nats-Incr": "1", "Nats-Rollup": ""}, b"", 0),
        ({"Nats-Incr": "1", "Nats-Expected-Stream": "C"}, b"", 10171),
        ({"Nats-Incr": "1", "Nats-Expected-Last-Msg-Id": "x"}, b"", 10171),
        ({"Nats-Incr": "1", "Nats-Expected-Last-Sequence": "0"}, b"", 10171),
        ({"Nats-Incr": "1", "Nats-TTL": "1"}, b"", 10166),
        ({"Nats-Incr": "1", "Nats-Stream-Source": "x"}, b"", 10227),
        ({"Nats-Incr": "1", "Nats-Schedule": "@every 1s"}, b"", 10188),
        ({"Nats-Incr": " 5"}, b"", 0),
    ],
)
def test_what_a_counter_takes(headers: dict[str, str], payload: bytes, expected: int) -> None:
    client = BrokerDriver().connect()
    stream(client, allow_rollup_hdrs=True)

    assert code(client.publish_acked("C.a", payload, headers or None)) == expected


def test_a_stream_that_does_not_count_says_so() -> None:
    client = BrokerDriver().connect()
    client.api("STREAM.CREATE.S", {"name": "S"})

    assert code(client.publish_acked("S", b"", {"Nats-Incr": "1"})) == 10168
    assert code(client.publish_acked("S", b"", {"Nats-Incr": "x"})) == 10171
    assert code(client.publish_acked("S", b"", {"Nats-Incr": ""})) == 0


def test_a_duplicate_counts_once() -> None:
    client = BrokerDriver().connect()
    stream(client)

    add(client, "1", Nats_Msg_Id="i")

    assert add(client, "1", Nats_Msg_Id="i") == {"stream": "C", "seq": 1, "duplicate": True}
    assert add(client, "1")["val"] == "2"


def test_the_size_that_counts_is_that_of_the_total() -> None:
    client = BrokerDriver().connect()
    stream(client, max_msg_size=40)

    assert add(client, "1")["val"] == "1"
    assert code(add(client, "11111")) == 10054
    assert add(client, "9")["val"] == "10"


def test_a_counter_that_was_meddled_with_is_broken() -> None:
    client = BrokerDriver().connect()
    stream(client)
    add(client, "1", Nats_Counter_Sources="bad")

    assert code(add(client, "1")) == 10172


def test_numbers_beyond_four_thousand_digits_are_refused() -> None:
    client = BrokerDriver().connect()
    stream(client)

    assert len(add(client, "9" * 4000)["val"]) == 4000
    assert code(add(client, "1")) == 10171
    assert code(add(client, "9" * 4001, "C.b")) == 10171
    assert add(client, "-" + "9" * 3999)["val"] == "9" + "0" * 3999


def test_a_purged_subject_starts_from_nothing_and_a_removed_message_is_forgotten() -> None:
    client = BrokerDriver().connect()
    stream(client)
    add(client, "1")
    add(client, "1")
    client.api("STREAM.MSG.DELETE.C", {"seq": 2})
    assert add(client, "5")["val"] == "6"

    client.api("STREAM.PURGE.C")

    assert add(client, "5")["val"] == "5"


def test_totals_are_there_after_a_restart() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    add(client, "41")

    driver.restart()

    assert add(driver.connect(), "1")["val"] == "42"
