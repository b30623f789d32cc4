"""Streams that mirror others of the same server. What a mirror looks like was asked of nats-server 2.15.1."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.copying import STORAGES, count, fill, info, message, shape, stream, update

from jetspark.testing.broker_driver import SECOND_NS, BrokerDriver


@STORAGES
def test_a_mirror_has_the_sequences_times_and_gaps_of_its_origin(storage: str) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "O", storage=storage)
    fill(client, "O.a", 6)
    for seq in (1, 3, 6):
        client.api("STREAM.MSG.DELETE.O", {"seq": seq})
    driver.advance(60)
    stream(client, "M", storage=storage, mirror={"name": "O"})
    driver.advance(0)

    assert shape(client, "M") == (3, 2, 5, [3])
    assert message(client, "M", 2) == message(client, "O", 2)
    client.publish_acked("O.b", b"live", {"X": "y"})
    assert shape(client, "M") == (4, 2, 7, [3, 6])
    assert message(client, "M", 7) == message(client, "O", 7)


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ({"filter_subject": "O.a"}, (2, 2, 4, [3])),
        ({"opt_start_seq": 4}, (2, 4, 5, [])),
        ({"opt_start_seq": 50}, (0, 50, 49, [])),
        ({"opt_start_seq": 18446744073709551615}, (0, 1 << 62, (1 << 62) - 1, [])),
        ({"filter_subject": "O.none"}, (0, 2, 1, [])),
        ({"opt_start_time": "2099-01-01T00:00:00Z"}, (0, 7, 6, [])),
        ({"opt_start_time": "2000-01-01T00:00:00Z"}, (3, 2, 5, [3])),
    ],
)
def test_where_a_mirror_starts_and_what_it_takes(
    origin: dict[str, Any], expected: tuple[int, int, int, list[int]]
) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "O")
    for number in range(6):
        client.publish_acked("O.a" if number % 2 else "O.b")
    for seq in (1, 3, 6):
        client.api("STREAM.MSG.DELETE.O", {"seq": seq})
    stream(client, "M", mirror={"name": "O", **origin})
    driver.advance(0)

    assert shape(client, "M") == expected


def test_an_origin_that_starts_high_moves_its_mirror() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "O", first_seq=100)
    stream(client, "M", mirror={"name": "O"})
    driver.advance(0)

    assert shape(client, "M") == (0, 100, 99, [])
    client.publish_acked("O.a")
    assert shape(client, "M") == (1, 100, 100, [])


def test_a_mirror_drops_headers_only_its_origin_could_check() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "O", allow_atomic=True, allow_rollup_hdrs=True)
    batch = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}
    client.publish_acked("O.a", b"", {"Nats-Msg-Id": "m", "Nats-Expected-Last-Sequence": "0", "K": "v"})
    client.publish_acked("O.a", b"", batch)
    client.publish_acked("O.a", b"", {"Nats-Rollup": "sub"})
    stream(client, "M", mirror={"name": "O", "opt_start_seq": 1})
    driver.advance(0)
    assert message(client, "M", 3)[1] == b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"

    client.publish_acked("O.b", b"", {"Nats-Msg-Id": "m2", "Nats-Expected-Last-Sequence": "3", "K": "v"})
    client.publish_acked("O.b", b"", batch)

    assert message(client, "M", 4)[1] == b"NATS/1.0\r\nNats-Msg-Id: m2\r\nK: v\r\n\r\n"
    assert message(client, "M", 5)[1] == b""
    client.publish_acked("O.b", b"", {"Nats-Rollup": "sub"})
    assert count(client, "M") == 4, "a mirror that may not roll up keeps what its origin has rolled up"


def test_a_mirror_renames_what_its_transforms_name() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "O")
    fill(client, "O.a", 1)
    fill(client, "O.b", 1)
    stream(client, "M", mirror={"name": "O", "subject_transforms": [{"src": "O.a", "dest": "m.a"}]})
    driver.advance(0)

    assert info(client, "M")["state"]["subjects"] == {"m.a": 1}


def test_a_mirror_has_limits_of_its_own() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "O")
    fill(client, "O.a", 4)
    stream(client, "M", mirror={"name": "O"}, max_msgs=2)
    stream(client, "A", mirror={"name": "O"}, max_age=5 * SECOND_NS)
    driver.advance(1)
    client.api("STREAM.PURGE.O")

    assert shape(client, "M") == (2, 3, 4, [])
    assert count(client, "A") == 4, "what the origin forgets its mirror keeps"
    driver.advance(6)
    assert count(client, "A") == 0


def test_a_mirror_of_a_mirror() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "O")
    stream(client, "M", mirror={"name": "O"})
    stream(client, "MM", storage="memory", mirror={"name": "M"})
    driver.advance(0)

    fill(client, "O.a", 3)

    assert shape(client, "MM") == (3, 1, 3, [])


def test_a_mirror_may_be_there_first_and_outlive_its_origin() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "M", mirror={"name": "O"})
    assert info(client, "M")["mirror"] == {"name": "O", "lag": 0, "active": -1}
    driver.advance(0.3)
    not_found = {"code": 404, "err_code": 10059, "description": "stream not found"}
    assert info(client, "M")["mirror"] == {"name": "O", "lag": 0, "active": -1, "error": not_found}

    stream(client, "O")
    driver.advance(0)
    fill(client, "O.a", 3)
    assert shape(client, "M") == (3, 1, 3, [])
    driver.advance(0.4)
    assert info(client, "M")["mirror"] == {"name": "O", "lag": 0, "active": 400_000_000}

    client.api("STREAM.DELETE.O")
    driver.advance(5)
    assert info(client, "M")["mirror"]["error"] == not_found
    stream(client, "O")
    driver.advance(0)
    fill(client, "O.a", 4)
    assert shape(client, "M") == (4, 1, 4, []), "it goes on behind what it has"


def test_a_mirror_without_its_mirror_setting_is_a_stream_like_any_other() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "O")
    stream(client, "M", mirror={"name": "O"})
    driver.advance(0)
    fill(client, "O.a", 2)

    update(client, "M", subjects=["m.>"])
    fill(client, "O.a", 2)

    assert client.publish_acked("m.x") == {"stream": "M", "seq": 3}
    assert "mirror" not in info(client, "M")


def test_lifetimes_hold_in_a_mirror_that_has_them() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "O", allow_msg_ttl=True)
    stream(client, "M", mirror={"name": "O"}, allow_msg_ttl=True)
    stream(client, "N", mirror={"name": "O"}, max_age=10 * SECOND_NS)
    driver.advance(0)
    client.publish_acked("O.a", b"", {"Nats-TTL": "5"})
    client.publish_acked("O.a", b"", {"Nats-TTL": "never"})

    driver.advance(6)
    assert shape(client, "M") == (1, 2, 2, [])
    assert count(client, "N") == 2
    driver.advance(6)
    assert shape(client, "N") == (1, 2, 2, []), "never counts even where lifetimes do not"
