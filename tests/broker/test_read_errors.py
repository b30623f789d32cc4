"""The disk does not give a stored message while the server runs: an error for who asked, a line in the log, no more.

Block 1 of the stream S (messages 1 to 31 or so) cannot be read; everything after it can.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.broker.failing_disk import FailingDisk

from jetspark.testing.broker_driver import BrokerDriver, FakeConnection

BLOCK = "/streams/S/msgs/1.blk"
COUNT = 80


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def driver(disk: FailingDisk) -> BrokerDriver:
    return BrokerDriver(disk)


def ok(answer: Any) -> Any:
    assert "error" not in answer, answer
    return answer


def filled(driver: BrokerDriver, disk: FailingDisk, *consumers: str, is_broken: bool = True, **config: Any) -> Any:
    """A client of a server that has started anew, on a stream S of three blocks."""
    client = driver.connect()
    ok(client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], "max_bytes": 100_000, **config}))
    for name in consumers:
        make_consumer(client, name)
    for number in range(COUNT):
        ok(client.publish_acked("S.odd" if number % 2 == 0 else "S.even", b"%01000d" % number))
    driver.restart()
    # Nothing stays in memory that the disk has.
    driver.broker.block_cache.budget_bytes = 0
    if is_broken:
        disk.unreadable.add(BLOCK)
    return driver.connect()


def make_consumer(client: FakeConnection, name: str, **config: Any) -> None:
    body = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit", **config}}
    ok(client.api(f"CONSUMER.CREATE.S.{name}", body))


def pull(client: FakeConnection, name: str, count: int = 1, **more: Any) -> list[Any]:
    client.start_request(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", json.dumps({"batch": count, **more}).encode())
    return client.take_messages()


def sequences(messages: list[Any]) -> list[int]:
    return [int(message.reply.split(".")[5]) for message in messages if not message.status]


def statuses(messages: list[Any]) -> list[str]:
    return [message.status for message in messages if message.status]


def complaints(driver: BrokerDriver) -> list[str]:
    return [notice for notice in driver.broker.notices if "Stream '$G > S' cannot be read" in notice]


def error(answer: Any) -> tuple[int, str]:
    return answer["error"]["err_code"], answer["error"]["description"]


@pytest.mark.parametrize(
    ("verb", "document"),
    [
        ("STREAM.MSG.GET.S", {"seq": 1}),
        ("STREAM.MSG.GET.S", {"next_by_subj": "S.odd", "seq": 1}),
        ("STREAM.MSG.DELETE.S", {"seq": 3}),
        ("STREAM.PURGE.S", {"filter": "S.odd"}),
        ("STREAM.PURGE.S", {"seq": 10}),
        ("STREAM.PURGE.S", {"keep": 70}),
    ],
)
def test_a_request_is_answered_with_the_error(
    driver: BrokerDriver, disk: FailingDisk, verb: str, document: dict[str, Any]
) -> None:
    client = filled(driver, disk)

    answer = client.api(verb, document)

    assert error(answer) == (10051, "stored message cannot be read: Input/output error")
    assert len(complaints(driver)) == 1
    assert ok(client.api("STREAM.MSG.GET.S", {"seq": COUNT}))["message"]["seq"] == COUNT
    ok(client.publish_acked("S.odd", b"more"))
    assert not client.is_closed
    disk.unreadable.clear()
    ok(client.api(verb, document))


def test_a_direct_get_is_answered_with_the_error(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk, allow_direct=True)

    (answer,) = client.replies(client.start_request("$JS.API.DIRECT.GET.S", b'{"seq": 1}'))

    assert answer.status == "500 Stored Message Cannot Be Read: Input/output error"
    (sound,) = client.replies(client.start_request("$JS.API.DIRECT.GET.S", b'{"seq": 80}'))
    assert sound.headers["Nats-Sequence"] == "80"


def test_the_log_is_told_once_in_a_while_not_each_time(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk)
    for _ in range(100):
        client.api("STREAM.MSG.GET.S", {"seq": 1})
    assert len(complaints(driver)) == 1

    driver.advance(60)
    client.api("STREAM.MSG.GET.S", {"seq": 1})

    assert len(complaints(driver)) == 2


def test_everything_can_be_purged_and_deleted_unread(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk)

    assert ok(client.api("STREAM.PURGE.S"))["purged"] == COUNT
    ok(client.publish_acked("S.odd", b"more"))
    assert client.api("STREAM.INFO.S")["state"]["messages"] == 1
    ok(client.api("STREAM.DELETE.S"))


def test_a_pull_is_told_and_no_message_is_passed_over(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk, "C")

    assert statuses(pull(client, "C", 5, expires=30_000_000_000)) == [
        "500 Stored Message Cannot Be Read: Input/output error"
    ]
    assert len(complaints(driver)) == 1

    disk.unreadable.clear()
    # Asked for while the disk is still left alone.
    assert pull(client, "C", 5, expires=30_000_000_000) == []
    driver.advance(2)
    assert sequences(client.take_messages()) == [1, 2, 3, 4, 5]


def test_a_disk_that_cannot_be_read_is_not_asked_without_a_pause(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk, "C")

    first = client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": 1, "expires": 30000000000}')
    second = client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": 1, "expires": 30000000000}')

    assert len(client.replies(first)) == 1
    assert client.replies(second) == []
    driver.advance(2)
    assert len(client.replies(second)) == 1


def test_a_consumer_of_what_can_be_read_goes_on(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk)
    make_consumer(client, "LATE", deliver_policy="by_start_sequence", opt_start_seq=70)

    assert sequences(pull(client, "LATE", 3)) == [70, 71, 72]


def test_a_push_consumer_goes_on_by_itself(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk)
    sid = client.subscribe("deliver")
    make_consumer(client, "C", deliver_subject="deliver", max_ack_pending=3)
    assert client.take_messages(sid) == []

    disk.unreadable.clear()
    driver.advance(2)

    assert sequences(client.take_messages(sid)) == [1, 2, 3]


def test_a_redelivery_that_cannot_be_read_is_not_forgotten(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk, is_broken=False)
    make_consumer(client, "C", ack_wait=5_000_000_000)
    assert sequences(pull(client, "C", 2)) == [1, 2]
    # Another block takes the place of theirs in memory.
    ok(client.api("STREAM.MSG.GET.S", {"seq": 70}))
    driver.broker.block_cache.age()
    driver.broker.block_cache.age()
    disk.unreadable.add(BLOCK)
    driver.advance(6)
    assert statuses(pull(client, "C", 2, expires=1_000_000_000))[:1] == [
        "500 Stored Message Cannot Be Read: Input/output error"
    ]

    disk.unreadable.clear()
    driver.advance(2)

    assert sequences(pull(client, "C", 2)) == [1, 2]


@pytest.mark.parametrize("limit", [{"max_msgs": COUNT}, {"max_msgs_per_subject": COUNT // 2}])
def test_a_publish_is_stored_although_the_oldest_cannot_go(
    driver: BrokerDriver, disk: FailingDisk, limit: dict[str, Any]
) -> None:
    client = filled(driver, disk, **limit)
    client.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}})

    assert ok(client.publish_acked("S.odd", b"one more"))["seq"] == COUNT + 1
    assert client.api("STREAM.INFO.S")["state"]["messages"] == COUNT + 1
    assert complaints(driver)

    disk.unreadable.clear()
    ok(client.publish_acked("S.odd", b"and one more"))
    assert client.api("STREAM.INFO.S")["state"]["messages"] == COUNT


def test_old_messages_go_once_they_can_be_read(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk, max_age=60_000_000_000)
    ok(client.api("STREAM.CREATE.T", {"name": "T", "max_age": 60_000_000_000}))
    ok(client.publish_acked("T", b"x"))

    driver.advance(90)

    assert client.api("STREAM.INFO.S")["state"]["messages"] == COUNT
    assert client.api("STREAM.INFO.T")["state"]["messages"] == 0
    disk.unreadable.clear()
    driver.advance(3)
    assert client.api("STREAM.INFO.S")["state"]["messages"] == 0


def test_an_acknowledgement_counts_although_the_message_cannot_go(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk, "C", is_broken=False, retention="workqueue")
    (message,) = pull(client, "C")
    driver.restart()
    driver.broker.block_cache.budget_bytes = 0
    disk.unreadable.add(BLOCK)
    client = driver.connect()

    answer = client.request(message.reply, b"+ACK")
    assert answer is not None
    assert answer.data == b""

    assert client.api("CONSUMER.INFO.S.C")["num_ack_pending"] == 0
    assert client.api("STREAM.INFO.S")["state"]["messages"] == COUNT
    disk.unreadable.clear()
    driver.restart()
    assert driver.connect().api("STREAM.INFO.S")["state"]["messages"] == COUNT - 1


def test_a_mirror_goes_on_once_its_origin_can_be_read(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk)
    ok(client.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}}))
    driver.advance(5)
    assert client.api("STREAM.INFO.M")["state"]["messages"] == 0

    disk.unreadable.clear()
    driver.advance(5)

    assert client.api("STREAM.INFO.M")["state"]["messages"] == COUNT


def test_a_snapshot_ends_with_the_error(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk)
    sid = client.subscribe("chunks")
    ok(client.api("STREAM.SNAPSHOT.S", {"deliver_subject": "chunks"}))
    driver.advance(1)

    assert statuses(client.take_messages(sid)) == ["500 stored message cannot be read: Input/output error"]


def test_a_consumer_that_cannot_find_its_place_is_not_made(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk)
    config = {"durable_name": "C", "deliver_policy": "by_start_time", "opt_start_time": "2023-11-14T22:13:20Z"}
    body = {"stream_name": "S", "config": config}
    disk.unreadable.add("/msgs/1.idx")

    answer = client.api("CONSUMER.CREATE.S.C", body)

    assert error(answer)[0] == 10051
    assert client.api("CONSUMER.NAMES.S")["consumers"] == []
    disk.unreadable.clear()
    ok(client.api("CONSUMER.CREATE.S.C", body))


def test_a_stream_that_can_be_neither_written_nor_read_is_offline(driver: BrokerDriver, disk: FailingDisk) -> None:
    client = filled(driver, disk, "C", is_broken=False)
    ok(client.api("STREAM.CREATE.T", {"name": "T"}))
    waiting = client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": 1000, "expires": 30000000000}')
    client.replies(waiting)
    driver.holds_commits = True
    inbox = client.start_request("$JS.API.STREAM.MSG.DELETE.S", b'{"seq": 3}')
    driver.broker.block_cache.age()
    driver.broker.block_cache.age()
    disk.unreadable.add(BLOCK)
    driver.holds_commits = False
    driver.finish_commit("Input/output error")
    driver.settle()

    assert "error" in client.replies(inbox)[0].json()
    assert error(client.api("STREAM.INFO.S"))[0] == 10194
    assert statuses(client.replies(waiting))[-1:] == ["500 Stored Message Cannot Be Read: Input/output error"]
    ok(client.publish_acked("T", b"x"))
    disk.unreadable.clear()
    driver.crash()
    assert driver.connect().api("STREAM.INFO.S")["state"]["messages"] == COUNT
