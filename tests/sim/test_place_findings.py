"""What the simulator once found about the place of a consumer that is ahead of its stream."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.sim.stories import fail_next_commit, make_consumer, make_stream, new_driver, pull

from jetspark.testing.broker_driver import BrokerDriver
from jetspark.testing.memory_disk import MemoryDisk


def lose_newest(driver: BrokerDriver, stored: dict[str, bytearray]) -> None:
    """The power fails, and of the messages only those are left that were stored at an earlier time."""
    assert isinstance(driver.disk, MemoryDisk)
    files = driver.disk.files
    for path in [path for path in files if "/msgs/" in path]:
        del files[path]
    files.update(copy.deepcopy(stored))
    driver.crash()


def message_files(driver: BrokerDriver) -> dict[str, bytearray]:
    assert isinstance(driver.disk, MemoryDisk)
    return {path: bytearray(data) for path, data in driver.disk.files.items() if "/msgs/" in path}


@pytest.mark.parametrize("policy", ["all", "new", "last", "last_per_subject"])
def test_a_consumer_that_began_at_messages_a_power_failure_took_reads_those_stored_next(policy: str) -> None:
    driver = BrokerDriver(MemoryDisk())
    client = driver.connect()
    make_stream(client, retention="interest")
    make_consumer(client, "keeps_all")
    client.publish_acked("s.a", b"old")
    stored = message_files(driver)
    for number in range(3):
        client.publish_acked("s.a", b"%d" % number)
    if policy == "all":
        client.api("STREAM.PURGE.S")
    make_consumer(client, deliver_policy=policy, filter_subject="s.*")
    lose_newest(driver, stored)
    client = driver.connect()
    for number in range(3):
        client.publish_acked("s.a", b"new %d" % number)

    driver.restart()
    client = driver.connect()

    assert [data for _, data in pull(client)][-3:] == [b"new 0", b"new 1", b"new 2"]


@pytest.mark.parametrize("config", [{}, {"deliver_policy": "by_start_sequence", "opt_start_seq": 2}])
def test_a_consumer_that_was_set_ahead_of_its_stream_is_still_there_after_a_restart(config: dict[str, Any]) -> None:
    driver = BrokerDriver(MemoryDisk())
    client = driver.connect()
    make_stream(client)
    make_consumer(client, **config)
    client.api("CONSUMER.RESET.S.c", {"seq": 4})
    driver.restart()
    client = driver.connect()
    for number in range(5):
        client.publish_acked("s.a", b"%d" % number)

    assert [data for _, data in pull(client)] == [b"3", b"4"]


def test_a_consumer_that_was_set_ahead_of_its_stream_stays_there_after_a_refused_commit() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client)
    make_consumer(client)
    client.api("CONSUMER.RESET.S.c", {"seq": 3})
    fail_next_commit(driver)
    assert "error" in client.publish_acked("s.a", b"refused")
    driver.advance(1)

    for number in range(3):
        client.publish_acked("s.a", b"%d" % number)

    assert [data for _, data in pull(client)] == [b"2"]


def test_a_reset_without_a_sequence_keeps_the_place_ahead_that_one_before_asked_for() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client)
    make_consumer(client)
    client.api("CONSUMER.RESET.S.c", {"seq": 4})
    assert client.api("CONSUMER.RESET.S.c")["reset_seq"] == 4

    driver.restart()
    client = driver.connect()
    for number in range(5):
        client.publish_acked("s.a", b"%d" % number)

    assert [data for _, data in pull(client)] == [b"3", b"4"]
