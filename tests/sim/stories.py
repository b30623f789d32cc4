"""Steps of the stories that tests tell about one broker: one stream S, its consumers, and a disk that fails."""

from __future__ import annotations

import errno
import json
from random import Random

from jetspark.store.disk import APPEND
from jetspark.testing.broker_driver import BrokerDriver, FakeConnection
from jetspark.testing.sim_disk import SimDisk


def new_driver(seed: int = 1) -> BrokerDriver:
    disk = SimDisk(Random(seed))
    disk.folders.add("/store")
    return BrokerDriver(disk)


def disk_of(driver: BrokerDriver) -> SimDisk:
    assert isinstance(driver.disk, SimDisk)
    return driver.disk


def stop_before(driver: BrokerDriver, kind: int, part: str) -> None:
    """Perform the commit under way up to an operation, as a process that is killed just then."""
    commit = driver._commit
    assert commit is not None
    for op in commit.ops:
        if op.kind == kind and part in op.path:
            return
        driver.disk.perform(op)
    raise AssertionError(f"no such operation in {commit.ops}")


def power_fails(driver: BrokerDriver) -> None:
    disk_of(driver).crash()
    driver.crash()


def fail_next_commit(driver: BrokerDriver) -> None:
    """The disk is full for one commit."""
    disk_of(driver).fail_next(APPEND, errno.ENOSPC)


def make_stream(client: FakeConnection, **config: object) -> None:
    answer = client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], **config})
    assert "error" not in answer, answer


def make_consumer(client: FakeConnection, name: str = "c", **config: object) -> None:
    document = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit", **config}}
    answer = client.api(f"CONSUMER.DURABLE.CREATE.S.{name}", document)
    assert "error" not in answer, answer


def pull(client: FakeConnection, name: str = "c", **request: object) -> list[tuple[str, bytes]]:
    """Ask for messages at once; ack subject and payload of each that came."""
    inbox = client.start_request(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", pull_body(request))
    client.replies(inbox)
    found = [(message.reply, message.data) for message in client.take_messages() if message.reply.startswith("$JS.ACK")]
    return found


def pull_body(request: dict[str, object]) -> bytes:
    return json.dumps({"batch": 10, "no_wait": True, **request}).encode()


def info(client: FakeConnection, name: str = "c") -> dict[str, object]:
    answer = client.api(f"CONSUMER.INFO.S.{name}")
    assert isinstance(answer, dict)
    return answer
