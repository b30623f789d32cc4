"""What mirrors and sources share: origins that wait for their readers, restarts, disks that fail, what is refused."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from tests.broker.copying import STORAGES, count, fill, info, message, shape, stream

from jetspark.broker.source_positions import MESSAGES_BETWEEN_SAVES
from jetspark.testing.broker_driver import BrokerDriver, frame
from jetspark.testing.memory_disk import MemoryDisk
from jetspark.testing.sim_disk import SimDisk

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


@pytest.mark.long
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
