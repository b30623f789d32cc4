"""Streams and consumers that could not be recovered: everything else runs, and nothing of them is touched."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.failing_disk import FailingDisk

from jetspark.store.disk import Disk
from jetspark.testing.broker_driver import BrokerDriver, FakeConnection
from jetspark.testing.memory_disk import MemoryDisk

ROOT = "/store/jetstream/%24G/streams"


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def driver(disk: FailingDisk) -> BrokerDriver:
    return BrokerDriver(disk)


@pytest.fixture
def client(driver: BrokerDriver) -> FakeConnection:
    return driver.connect()


def ok(answer: Any) -> Any:
    assert "error" not in answer, answer
    return answer


def error(answer: Any) -> tuple[int, str]:
    return answer["error"]["err_code"], answer["error"]["description"]


def make_stream(client: FakeConnection, name: str, **config: Any) -> None:
    ok(client.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **config}))


def make_consumer(client: FakeConnection, stream: str, name: str, **config: Any) -> None:
    body = {"stream_name": stream, "config": {"durable_name": name, "ack_policy": "explicit", **config}}
    ok(client.api(f"CONSUMER.CREATE.{stream}.{name}", body))


def publish(client: FakeConnection, subject: str, count: int = 1) -> None:
    for number in range(count):
        ok(client.publish_acked(subject, b"%d" % number))


def pull(client: FakeConnection, stream: str, name: str, count: int = 10) -> list[Any]:
    client.start_request(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", b'{"batch": %d, "no_wait": true}' % count)
    return [message for message in client.take_messages() if not message.status]


def messages(client: FakeConnection, stream: str) -> int:
    count: int = ok(client.api(f"STREAM.INFO.{stream}"))["state"]["messages"]
    return count


def files_below(disk: MemoryDisk, folder: str) -> dict[str, bytes]:
    return {path: bytes(content) for path, content in disk.files.items() if path.startswith(folder + "/")}


def flip(disk: Disk, path: str) -> None:
    """Damage a file, both copies of what it holds if it is a description."""
    assert isinstance(disk, MemoryDisk)
    data = disk.files[path]
    data[3] ^= 1
    data[len(data) // 2 + 3] ^= 1


@pytest.mark.parametrize("damage", ["A/meta.inf", "A/msgs/1.blk", "A/msgs", "A/obs", "A"])
def test_an_unreadable_stream_is_offline_and_the_others_run(
    disk: FailingDisk, driver: BrokerDriver, client: FakeConnection, damage: str
) -> None:
    make_stream(client, "A")
    make_consumer(client, "A", "C")
    make_stream(client, "B")
    publish(client, "A.x", 3)
    publish(client, "B.x", 2)
    disk.unreadable.add(f"/streams/{damage}")
    if damage == "A":
        disk.unreadable.add("/streams/A/meta.inf")
    before = files_below(disk, f"{ROOT}/A")

    driver.crash()
    again = driver.connect()

    code, description = error(again.api("STREAM.INFO.A"))
    assert (code, "Input/output error" in description) == (10194, True)
    assert messages(again, "B") == 2
    publish(again, "B.x")
    assert again.api("STREAM.NAMES")["streams"] == ["A", "B"]
    listed = again.api("STREAM.LIST")
    assert [each["config"]["name"] for each in listed["streams"]] == ["B"]
    assert (listed["total"], listed["missing"], list(listed["offline"])) == (2, ["A"], ["A"])
    assert any("Stream '$G > A' is offline" in notice for notice in driver.broker.notices)
    assert files_below(disk, f"{ROOT}/A") == before

    disk.unreadable.clear()
    driver.crash()
    assert messages(driver.connect(), "A") == 3


@pytest.mark.parametrize("request_name", ["CREATE", "UPDATE", "PURGE", "RESTORE"])
def test_the_name_of_an_offline_stream_is_taken_and_nothing_of_it_is_touched(
    disk: FailingDisk, driver: BrokerDriver, client: FakeConnection, request_name: str
) -> None:
    make_stream(client, "A")
    publish(client, "A.x", 3)
    flip(disk, f"{ROOT}/A/meta.inf")
    driver.crash()
    before = files_below(disk, f"{ROOT}/A")
    again = driver.connect()
    config = {"name": "A", "subjects": ["A.>"]}
    bodies: dict[str, Any] = {"PURGE": {}, "RESTORE": {"config": config, "state": {}}}

    answer = again.api(f"STREAM.{request_name}.A", bodies.get(request_name, config))

    code, description = error(answer)
    assert code == 10194
    assert description.startswith("stream is offline: its description is missing or damaged")
    driver.advance(1)
    assert files_below(disk, f"{ROOT}/A") == before


def test_an_offline_stream_keeps_its_subjects(disk: FailingDisk, driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client, "A")
    publish(client, "A.x")
    disk.unreadable.add("/streams/A/msgs/1.blk")
    driver.crash()

    answer = driver.connect().api("STREAM.CREATE.OTHER", {"name": "OTHER", "subjects": ["A.x"]})

    assert error(answer)[0] == 10065
    assert driver.connect().api("STREAM.NAMES", {"subject": "A.x"})["streams"] == ["A"]


def test_an_offline_stream_can_be_deleted_and_made_again(
    disk: FailingDisk, driver: BrokerDriver, client: FakeConnection
) -> None:
    make_stream(client, "A")
    publish(client, "A.x", 3)
    flip(disk, f"{ROOT}/A/meta.inf")
    driver.crash()
    again = driver.connect()

    assert again.api("STREAM.DELETE.A")["success"]

    assert files_below(disk, f"{ROOT}/A") == {}
    assert error(again.api("STREAM.INFO.A"))[0] == 10059
    make_stream(again, "A")
    assert messages(again, "A") == 0


@pytest.mark.parametrize("damage", ["meta.inf", "state.log", "description"])
def test_an_unreadable_consumer_is_offline_and_its_stream_runs(
    disk: FailingDisk, driver: BrokerDriver, client: FakeConnection, damage: str
) -> None:
    make_stream(client, "A")
    make_consumer(client, "A", "BAD")
    make_consumer(client, "A", "GOOD")
    publish(client, "A.x", 3)
    assert len(pull(client, "A", "BAD", 2)) == 2
    driver.advance(1)
    if damage == "description":
        flip(disk, f"{ROOT}/A/obs/BAD/meta.inf")
    else:
        disk.unreadable.add(f"/obs/BAD/{damage}")
    before = files_below(disk, f"{ROOT}/A/obs/BAD")
    driver.crash()
    again = driver.connect()

    assert error(again.api("CONSUMER.INFO.A.BAD"))[0] == 10195
    assert again.api("CONSUMER.NAMES.A")["consumers"] == ["BAD", "GOOD"]
    listed = again.api("CONSUMER.LIST.A")
    assert ([each["name"] for each in listed["consumers"]], list(listed["offline"])) == (["GOOD"], ["BAD"])
    assert len(pull(again, "A", "GOOD")) == 3
    body = {"stream_name": "A", "config": {"durable_name": "BAD", "ack_policy": "explicit"}}
    assert error(again.api("CONSUMER.CREATE.A.BAD", body))[0] == 10195
    publish(again, "A.x")
    assert files_below(disk, f"{ROOT}/A/obs/BAD") == before

    assert again.api("CONSUMER.DELETE.A.BAD")["success"]
    make_consumer(again, "A", "BAD")
    disk.unreadable.clear()
    assert len(pull(again, "A", "BAD")) == 4


def test_messages_stay_for_a_consumer_that_is_offline(
    disk: FailingDisk, driver: BrokerDriver, client: FakeConnection
) -> None:
    make_stream(client, "A", retention="interest")
    make_consumer(client, "A", "BAD")
    make_consumer(client, "A", "GOOD")
    publish(client, "A.x", 2)
    disk.unreadable.add("/obs/BAD/state.log")
    driver.crash()
    again = driver.connect()
    publish(again, "A.x", 1)
    for message in pull(again, "A", "GOOD"):
        again.request(message.reply, b"+ACK")
    ok(again.api("CONSUMER.DELETE.A.GOOD"))
    publish(again, "A.x", 1)
    assert messages(again, "A") == 4

    disk.unreadable.clear()
    driver.crash()
    repaired = driver.connect()

    for message in pull(repaired, "A", "BAD"):
        repaired.request(message.reply, b"+ACK")
    assert messages(repaired, "A") == 0


def test_messages_go_once_the_consumer_they_stayed_for_is_deleted(
    disk: FailingDisk, driver: BrokerDriver, client: FakeConnection
) -> None:
    make_stream(client, "A", retention="interest")
    make_consumer(client, "A", "BAD")
    publish(client, "A.x", 2)
    disk.unreadable.add("/obs/BAD/state.log")
    driver.crash()
    again = driver.connect()
    assert messages(again, "A") == 2

    ok(again.api("CONSUMER.DELETE.A.BAD"))

    assert messages(again, "A") == 0


def test_messages_stay_for_a_stream_that_copies_and_is_offline(
    disk: FailingDisk, driver: BrokerDriver, client: FakeConnection
) -> None:
    make_stream(client, "A", retention="interest")
    ok(client.api("STREAM.CREATE.COPY", {"name": "COPY", "sources": [{"name": "A"}]}))
    publish(client, "A.x", 2)
    driver.advance(1)
    disk.unreadable.add("/streams/COPY/msgs/1.blk")
    driver.crash()
    again = driver.connect()
    publish(again, "A.x", 3)
    driver.advance(1)
    assert messages(again, "A") == 3

    disk.unreadable.clear()
    driver.crash()
    driver.advance(10)

    assert messages(driver.connect(), "COPY") == 5


def test_nothing_is_made_where_it_is_not_known_what_is_there(
    disk: FailingDisk, driver: BrokerDriver, client: FakeConnection
) -> None:
    make_stream(client, "A")
    publish(client, "A.x", 3)
    disk.unreadable.add("/%24G/streams")
    before = files_below(disk, ROOT)
    driver.crash()
    again = driver.connect()

    code, description = error(again.api("STREAM.CREATE.A", {"name": "A", "subjects": ["A.>"]}))
    assert (code, "cannot be listed" in description) == (10194, True)
    make_stream(again, "M", storage="memory")
    publish(again, "M.x")
    assert files_below(disk, ROOT) == before

    disk.unreadable.clear()
    driver.crash()
    assert messages(driver.connect(), "A") == 3


def test_a_folder_with_the_description_of_another_stream_is_offline(
    disk: FailingDisk, driver: BrokerDriver, client: FakeConnection
) -> None:
    make_stream(client, "A")
    publish(client, "A.x", 3)
    for path, content in files_below(disk, f"{ROOT}/A").items():
        disk.files[path.replace("/streams/A/", "/streams/B/")] = bytearray(content)
        disk.files[path.replace("/streams/A/", "/streams/A.bak/")] = bytearray(content)

    driver.crash()
    again = driver.connect()

    assert messages(again, "A") == 3
    assert error(again.api("STREAM.INFO.B")) == (10194, "stream is offline: its description is that of stream 'A'")
    assert again.api("STREAM.NAMES")["streams"] == ["A", "B"]
    assert f"{ROOT}/A.bak/meta.inf" in disk.files
