"""Streams that source others of the same server. What a sourced message looks like was asked of nats-server 2.15.1."""

from __future__ import annotations

from tests.broker.copying import STORAGES, count, fill, info, message, shape, stream, update

from jetspark.broker.mirroring import short_hash
from jetspark.testing.broker_driver import SECOND_NS, BrokerDriver


@STORAGES
def test_sourced_messages_are_new_messages_that_say_where_they_are_from(storage: str) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "A", storage=storage, allow_msg_ttl=True)
    stream(client, "S", storage=storage, sources=[{"name": "A"}])
    driver.advance(60)

    client.publish_acked("A.x", b"1", {"Nats-Msg-Id": "m1", "Nats-Expected-Last-Sequence": "0", "K": "v"})
    client.publish_acked("A.x", b"2")

    subject, header, data, _ = message(client, "S", 1)
    identity = header.split(b" ")[-1].removesuffix(b"\r\n\r\n")
    assert (subject, data) == ("A.x", b"1")
    assert header == (
        b"NATS/1.0\r\nNats-Msg-Id: m1\r\nK: v\r\nNats-Stream-Source: A 1 > > A.x " + identity + b"\r\n\r\n"
    )
    assert len(identity) == 8
    assert message(client, "S", 2)[1] == b"NATS/1.0\r\nNats-Stream-Source: A 2 > > A.x " + identity + b"\r\n\r\n"
    assert info(client, "S")["sources"] == [{"name": "A", "lag": 0, "active": 0, "seq": 2}]


def test_the_identity_is_the_one_nats_server_computes() -> None:
    assert short_hash("2026-11-15T22:13:57.043681534Z") == b"GNfKhezf"


def test_a_source_of_a_source_names_only_the_last() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "A")
    stream(client, "S", sources=[{"name": "A"}])
    stream(client, "D", sources=[{"name": "S"}])
    driver.advance(0)

    fill(client, "A.x", 1)

    header = message(client, "D", 1)[1]
    assert header.count(b"Nats-Stream-Source") == 1
    assert b"Nats-Stream-Source: S 1 > > A.x " in header


def test_filters_transforms_and_starts_of_sources() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "A")
    fill(client, "A.1", 2)
    driver.advance(10)
    fill(client, "A.2", 2)
    stream(client, "F", sources=[{"name": "A", "filter_subject": "A.2", "opt_start_seq": 4}])
    stream(client, "T", sources=[{"name": "A", "opt_start_time": "2023-11-14T22:13:25Z"}])
    transforms = [{"src": "A.1", "dest": "t.one"}, {"src": "A.2", "dest": ""}]
    stream(client, "R", sources=[{"name": "A", "subject_transforms": transforms}])
    stream(client, "B", sources=[{"name": "A", "opt_start_seq": 400}])
    driver.advance(0)

    assert count(client, "F") == 1
    assert b"Nats-Stream-Source: A 4 A.2 > A.2 " in message(client, "F", 1)[1]
    assert count(client, "T") == 2
    assert info(client, "R")["state"]["subjects"] == {"A.2": 2, "t.one": 2}
    assert b"Nats-Stream-Source: A 1 A.1\x0cA.2 t.one\x0c> A.1 " in message(client, "R", 1)[1]
    assert info(client, "R")["sources"][0]["subject_transforms"] == transforms
    assert info(client, "B")["sources"] == [{"name": "A", "lag": 0, "active": 0}]


def test_several_sources_and_own_subjects() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "A")
    stream(client, "B")
    stream(client, "S", sources=[{"name": "A"}, {"name": "B"}], subjects=["s.>"])
    driver.advance(0)
    fill(client, "A.1", 1)
    fill(client, "B.1", 1)
    fill(client, "s.1", 1)

    assert info(client, "S")["state"]["subjects"] == {"A.1": 1, "B.1": 1, "s.1": 1}


def test_duplicates_are_passed_over() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "A")
    stream(client, "S", subjects=["s.>"], sources=[{"name": "A"}], duplicate_window=60 * SECOND_NS)
    driver.advance(0)
    client.publish_acked("s.1", b"", {"Nats-Msg-Id": "k"})

    client.publish_acked("A.1", b"", {"Nats-Msg-Id": "k"})
    client.publish_acked("A.1", b"", {"Nats-Msg-Id": "l"})

    assert count(client, "S") == 2
    assert info(client, "S")["sources"][0]["seq"] == 2


def test_a_full_stream_takes_the_rest_when_there_is_room() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "A")
    fill(client, "A.1", 5)
    stream(client, "S", sources=[{"name": "A"}], max_msgs=2, discard="new")
    driver.advance(1)
    source = info(client, "S")["sources"][0]
    assert (count(client, "S"), source["seq"], source["lag"]) == (2, 2, 3)

    client.api("STREAM.PURGE.S")
    driver.advance(3)

    assert shape(client, "S") == (2, 3, 4, [])


def test_counters_of_several_streams_add_up() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    for name in "AB":
        stream(client, name, allow_msg_counter=True)
    sources = [{"name": n, "subject_transforms": [{"src": f"{n}.>", "dest": "T.>"}]} for n in "AB"]
    stream(client, "T", allow_msg_counter=True, sources=sources)
    stream(client, "V", sources=[{"name": "A"}])
    driver.advance(0)
    client.publish_acked("A.x", b"", {"Nats-Incr": "5"})
    client.publish_acked("A.x", b"", {"Nats-Incr": "5"})
    client.publish_acked("B.x", b"", {"Nats-Incr": "-2", "H": "v"})

    subject, header, data, _ = message(client, "T", 3)
    assert (subject, data) == ("T.x", b'{"val":"8"}')
    assert header.startswith(b"NATS/1.0\r\nNats-Incr: -2\r\nH: v\r\nNats-Stream-Source: B 1 B.> T.> B.x ")
    assert header.endswith(b'\r\nNats-Counter-Sources: {"A":{"A.x":"10"},"B":{"B.x":"-2"}}\r\n\r\n')
    assert message(client, "V", 2)[2] == b'{"val":"10"}', "a stream that does not count stores what it gets"


def test_sources_may_be_added_and_removed() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "A")
    fill(client, "A.1", 2)
    stream(client, "S", subjects=["s.>"])
    fill(client, "s.1", 1)
    update(client, "S", subjects=["s.>"], sources=[{"name": "A"}])
    driver.advance(0)
    assert count(client, "S") == 3

    update(client, "S", subjects=["s.>"])
    fill(client, "A.1", 1)
    driver.advance(1)
    assert count(client, "S") == 3
    update(client, "S", subjects=["s.>"], sources=[{"name": "A"}])
    driver.advance(0)

    assert count(client, "S") == 4, "it goes on where it was"


def test_a_source_added_to_a_stream_that_has_forgotten_something_starts_from_now() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "A")
    fill(client, "A.1", 2)
    driver.advance(1)
    stream(client, "S", subjects=["s.>"])
    fill(client, "s.1", 3)
    client.api("STREAM.PURGE.S")
    driver.advance(1)
    update(client, "S", subjects=["s.>"], sources=[{"name": "A"}])
    driver.advance(0)

    fill(client, "A.1", 1)

    assert shape(client, "S") == (1, 4, 4, [])


def test_an_origin_made_anew_is_sourced_from_its_beginning() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "A")
    stream(client, "S", sources=[{"name": "A"}])
    driver.advance(0)
    fill(client, "A.1", 3)
    client.api("STREAM.DELETE.A")
    driver.advance(1)

    stream(client, "A")
    driver.advance(0)
    fill(client, "A.1", 2)

    assert count(client, "S") == 5
