"""Streams that copy other streams of the same server. What copies look like was asked of nats-server 2.15.1."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

import pytest

from jetspark.broker.mirroring import short_hash
from jetspark.broker.source_positions import MESSAGES_BETWEEN_SAVES
from jetspark.testing.broker_driver import SECOND_NS, BrokerDriver, FakeConnection, frame
from jetspark.testing.memory_disk import MemoryDisk
from jetspark.testing.sim_disk import SimDisk

STORAGES = pytest.mark.parametrize("storage", ["file", "memory"])


def stream(client: FakeConnection, name: str, **config: Any) -> None:
    if "mirror" not in config and "sources" not in config:
        config.setdefault("subjects", [f"{name}.>"])
    reply = client.api(f"STREAM.CREATE.{name}", {"name": name, **config})
    assert "error" not in reply, reply


def update(client: FakeConnection, name: str, **config: Any) -> None:
    reply = client.api(f"STREAM.UPDATE.{name}", {"name": name, **config})
    assert "error" not in reply, reply


def fill(client: FakeConnection, subject: str, count: int) -> None:
    for number in range(count):
        client.publish_acked(subject, str(number).encode())


def info(client: FakeConnection, name: str) -> Any:
    return client.api(f"STREAM.INFO.{name}", {"deleted_details": True, "subjects_filter": ">"})


def shape(client: FakeConnection, name: str) -> tuple[int, int, int, list[int]]:
    """Messages, first and last sequence, and the sequences missing between them."""
    state = info(client, name)["state"]
    return state["messages"], state["first_seq"], state["last_seq"], state.get("deleted") or []


def count(client: FakeConnection, name: str) -> int:
    return shape(client, name)[0]


def message(client: FakeConnection, name: str, seq: int) -> tuple[str, bytes, bytes, str]:
    found = client.api(f"STREAM.MSG.GET.{name}", {"seq": seq})["message"]
    header, data = (base64.b64decode(found.get(key, "")) for key in ("hdrs", "data"))
    return found["subject"], header, data, found["time"]


# -- mirrors ---------------------------------------------------------------------------------------------------------


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


# -- sources ---------------------------------------------------------------------------------------------------------


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


# -- origins that wait for their readers -----------------------------------------------------------------------------


@STORAGES
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
@pytest.mark.parametrize("kind", ["mirror", "sources"])
def test_an_origin_forgets_what_its_copies_have(storage: str, retention: str, kind: str) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "W", retention=retention, storage=storage)
    origin: Any = {"name": "W"}
    stream(client, "S", storage=storage, **{kind: origin if kind == "mirror" else [origin]})
    driver.advance(0)

    fill(client, "W.a", 3)
    driver.advance(0)

    assert count(client, "S") == 3
    assert count(client, "W") == 0


def test_a_copying_stream_counts_as_a_reader_of_such_an_origin_but_is_no_consumer() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "W", retention="workqueue")
    stream(client, "L")
    stream(client, "S", sources=[{"name": "W"}, {"name": "L"}])
    driver.advance(0)

    assert info(client, "W")["state"]["consumer_count"] == 1
    assert info(client, "L")["state"]["consumer_count"] == 0
    assert client.api("CONSUMER.NAMES.W")["consumers"] == []


def test_an_origin_keeps_its_messages_until_the_copies_are_durable() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "W", retention="workqueue")
    fill(client, "W.a", 3)
    stream(client, "S", sources=[{"name": "W"}])
    driver.holds_commits = True
    driver.advance(0)
    assert count(client, "W") == 3

    driver.finish_commit()
    driver.crash()
    driver.advance(0)
    client = driver.connect()

    assert count(client, "S") == 3
    driver.holds_commits = False
    driver.advance(3)
    assert (count(client, "S"), count(client, "W")) == (3, 0)


def test_an_interest_stream_waits_for_consumers_and_copies_alike() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "I", retention="interest")
    stream(client, "S", sources=[{"name": "I", "filter_subject": "I.b"}])
    driver.advance(0)
    consumer = {"durable_name": "c", "ack_policy": "explicit", "filter_subject": "I.a"}
    client.api("CONSUMER.CREATE.I.c", {"stream_name": "I", "config": consumer})

    for subject in ("I.a", "I.b", "I.c"):
        client.publish_acked(subject)
    driver.advance(0)
    assert info(client, "I")["state"]["subjects"] == {"I.a": 1}
    assert shape(client, "I")[2] == 3

    client.api("STREAM.DELETE.S")
    client.publish_acked("I.b")
    assert info(client, "I")["state"]["subjects"] == {"I.a": 1}, "nobody wants it any more"


def test_a_restart_loses_nothing_an_interest_stream_kept_for_its_copy() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "I", retention="interest")
    stream(client, "Z", sources=[{"name": "I"}], max_msgs=1, discard="new")
    driver.advance(0)
    consumer = {"durable_name": "c", "ack_policy": "none", "deliver_subject": "d"}
    client.subscribe("d")
    client.api("CONSUMER.CREATE.I.c", {"stream_name": "I", "config": consumer})
    fill(client, "I.a", 3)
    driver.advance(1)

    driver.restart()
    client = driver.connect()
    for _ in range(2):
        client.api("STREAM.PURGE.Z")
        driver.advance(5)

    assert shape(client, "Z") == (1, 3, 3, [])


# -- restart and disk ------------------------------------------------------------------------------------------------


def test_copying_goes_on_after_a_restart() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "A")
    stream(client, "M", mirror={"name": "A", "filter_subject": "A.a"})
    stream(client, "S", sources=[{"name": "A"}])
    stream(client, "P", sources=[{"name": "A"}])
    driver.advance(0)
    fill(client, "A.a", 3)
    fill(client, "A.b", 3)
    client.api("STREAM.PURGE.P")

    for restart in (driver.restart, driver.crash, driver.restart):
        restart()
        driver.advance(0)
    client = driver.connect()
    fill(client, "A.a", 1)

    assert shape(client, "M") == (4, 1, 7, [4, 5, 6])
    assert shape(client, "S") == (7, 1, 7, [])
    assert shape(client, "P") == (1, 7, 7, []), "also where the messages that told are gone"


def test_positions_of_sources_are_found_without_reading_the_whole_stream() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "A")
    stream(client, "S", sources=[{"name": "A"}])
    driver.advance(0)
    client.send(frame("A.a", b"x") * (MESSAGES_BETWEEN_SAVES + 100))
    driver.advance(1)
    assert isinstance(driver.disk, MemoryDisk)
    saved = next(data for path, data in driver.disk.files.items() if path.endswith("S/sources/meta.inf"))
    assert json.loads(bytes(saved).split(b"\n")[0])["seq"] >= MESSAGES_BETWEEN_SAVES

    driver.crash()
    driver.advance(0)
    client = driver.connect()
    fill(client, "A.a", 5)

    total = MESSAGES_BETWEEN_SAVES + 105
    assert shape(client, "S") == (total, 1, total, [])


@pytest.mark.parametrize("kind", ["mirror", "sources"])
def test_copies_the_disk_refused_are_made_again(kind: str) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, "A", storage="memory")
    origin: Any = {"name": "A"}
    stream(client, "S", **{kind: origin if kind == "mirror" else [origin]})
    driver.advance(0)
    fill(client, "A.a", 2)
    driver.holds_commits = True
    fill(client, "A.a", 2)
    driver.finish_commit("disk full")
    driver.holds_commits = False
    driver.settle()
    assert count(client, "S") == 2

    driver.advance(3)

    assert shape(client, "S") == (4, 1, 4, [])


@pytest.mark.parametrize("seed", range(40))
def test_a_crash_at_any_moment_never_loses_a_message_on_its_way(seed: int) -> None:
    rng = Random(seed)
    disk = SimDisk(rng)
    driver = BrokerDriver(disk, seed=seed)
    client = driver.connect()
    stream(client, "W", retention="workqueue")
    stream(client, "Q", retention="workqueue", sources=[{"name": "W"}])
    stream(client, "S", sources=[{"name": "Q"}])
    stream(client, "M", mirror={"name": "S"})
    driver.advance(0)
    published = 0
    for _ in range(6):
        for _ in range(rng.randrange(1, 8)):
            ack = client.publish_acked("W.a", b"%d" % published)
            if ack is None:
                break
            published += 1
        driver.holds_commits = True
        client.publish("W.a", b"unacknowledged")
        driver.advance(rng.choice((0, 0.001)))
        commit = driver.broker._in_flight
        if commit is not None:
            for op in commit.ops[: rng.randrange(len(commit.ops) + 1)]:
                disk.perform(op)
        disk.crash()
        driver.crash()
        driver.holds_commits = False
        driver.advance(rng.choice((0, 3)))
        client = driver.connect()
    driver.advance(5)

    for name in ("S", "M"):
        last = info(client, name)["state"]["last_seq"]
        found = {message(client, name, seq)[2] for seq in range(1, last + 1)}
        assert {b"%d" % number for number in range(published)} <= found
    assert count(client, "W") == 0
    assert count(client, "Q") == 0


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    [
        {"name": "A", "external": {"api": "$JS.other.API", "deliver": ""}},
        {"name": "A", "consumer": {"name": "c", "deliver_subject": "d"}},
    ],
)
def test_origins_that_only_another_server_could_reach_are_refused(origin: dict[str, Any]) -> None:
    client = BrokerDriver().connect()

    reply = client.api("STREAM.CREATE.S", {"name": "S", "sources": [origin]})

    assert reply["error"]["err_code"] == 10052
    assert "not supported" in reply["error"]["description"]
    assert client.api("STREAM.INFO.S")["error"]["err_code"] == 10059
