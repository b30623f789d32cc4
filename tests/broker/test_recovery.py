"""What is there again after a restart or a crash. What a crash does to bytes is tested in the store's own room."""

from typing import Any

import pytest

from jetspark.store.disk import APPEND, DiskOp
from jetspark.testing.broker_driver import BrokerDriver, FakeConnection
from jetspark.testing.memory_disk import MemoryDisk

STREAM_FOLDER = "/store/jetstream/%24G/streams/S"


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def driver(disk: MemoryDisk) -> BrokerDriver:
    return BrokerDriver(disk)


@pytest.fixture
def client(driver: BrokerDriver) -> FakeConnection:
    return driver.connect()


def make_stream(client: FakeConnection, **config: Any) -> None:
    answer = client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], **config})
    assert "error" not in answer, answer


def make_consumer(client: FakeConnection, name: str = "C", **config: Any) -> None:
    body = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit", **config}}
    answer = client.api(f"CONSUMER.CREATE.S.{name}", body)
    assert "error" not in answer, answer


def publish(client: FakeConnection, *subjects: str) -> None:
    for subject in subjects:
        assert client.publish_acked(subject, subject.encode())["stream"] == "S"


def pull(client: FakeConnection, count: int, name: str = "C") -> list[Any]:
    client.start_request(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", b'{"batch": %d, "no_wait": true}' % count)
    return [message for message in client.take_messages() if not message.status]


def sequences(messages: list[Any]) -> list[int]:
    return [int(message.reply.split(".")[5]) for message in messages]


def info(client: FakeConnection, name: str = "C") -> Any:
    return client.api(f"CONSUMER.INFO.S.{name}")


def test_an_acknowledged_message_is_there_after_a_crash(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client, max_msgs=10, description="kept")
    publish(client, "S.a", "S.b")
    created = client.api("STREAM.INFO.S")["created"]

    driver.crash()

    answer = driver.connect().api("STREAM.INFO.S")
    assert answer["created"] == created
    assert (answer["config"]["max_msgs"], answer["config"]["description"]) == (10, "kept")
    assert (answer["state"]["messages"], answer["state"]["last_seq"]) == (2, 2)


def test_nothing_of_an_unfinished_commit_is_there_after_a_crash(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    publish(client, "S.a")
    driver.holds_commits = True
    client.publish("S.a", b"unacknowledged")

    driver.crash()
    driver.holds_commits = False

    again = driver.connect()
    assert again.api("STREAM.INFO.S")["state"]["messages"] == 1
    assert again.publish_acked("S.a", b"x")["seq"] == 2


def test_message_ids_are_remembered_for_the_rest_of_their_window(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client, duplicate_window=10 * 10**9)
    client.publish_acked("S.a", b"x", {"Nats-Msg-Id": "one"})
    driver.advance(6)
    driver.crash()

    again = driver.connect()
    assert again.publish_acked("S.a", b"x", {"Nats-Msg-Id": "one"})["duplicate"] is True
    driver.advance(5)
    assert again.publish_acked("S.a", b"x", {"Nats-Msg-Id": "one"})["seq"] == 2


def test_the_last_message_id_is_still_expected(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    client.publish_acked("S.a", b"x", {"Nats-Msg-Id": "one"})
    driver.crash()

    answer = driver.connect().publish_acked("S.a", b"y", {"Nats-Expected-Last-Msg-Id": "one"})

    assert answer == {"stream": "S", "seq": 2}


def test_a_consumer_goes_on_where_it_was(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    publish(client, "S.a", "S.a", "S.a", "S.a")
    make_consumer(client)
    first, second = pull(client, 2)
    assert client.request(second.reply, b"+ACK") is not None

    driver.crash()

    again = driver.connect()
    answer = info(again)
    assert (answer["num_ack_pending"], answer["num_pending"]) == (1, 2)
    assert sequences(pull(again, 5)) == [3, 4]
    assert first.reply.split(".")[5] == "1"


def test_what_was_outstanding_comes_back_when_its_time_is_over(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    publish(client, "S.a")
    make_consumer(client, ack_wait=30 * 10**9)
    pull(client, 1)
    driver.advance(10)
    driver.crash()

    again = driver.connect()
    again.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b"1")
    driver.advance(19)
    assert again.take_messages() == []
    driver.advance(2)
    (message,) = again.take_messages()
    assert message.reply.startswith("$JS.ACK.S.C.2.1.")


def test_the_count_of_deliveries_survives(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    publish(client, "S.a")
    make_consumer(client, max_deliver=2)
    (message,) = pull(client, 1)
    client.publish(message.reply, b"-NAK")
    (message,) = pull(client, 1)
    driver.advance(1)
    driver.crash()

    again = driver.connect()
    assert info(again)["num_redelivered"] == 1
    sid = again.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C")
    again.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b"1")
    driver.advance(31)
    assert [event.json()["deliveries"] for event in again.take_messages(sid)] == [2]


def test_a_consumer_ahead_of_its_stream_is_pulled_back(
    disk: MemoryDisk, driver: BrokerDriver, client: FakeConnection
) -> None:
    make_stream(client)
    publish(client, "S.a", "S.a", "S.a")
    make_consumer(client)
    pull(client, 3)
    driver.stop()
    block = disk.files[f"{STREAM_FOLDER}/msgs/1.blk"]
    del block[-5:]

    driver.crash()

    again = driver.connect()
    assert again.api("STREAM.INFO.S")["state"]["last_seq"] == 2
    assert info(again)["delivered"]["stream_seq"] == 2
    assert info(again)["num_ack_pending"] == 2
    publish(again, "S.a")
    assert sequences(pull(again, 1)) == [3]
    assert any("recovered with damage" in notice for notice in driver.broker.notices)


def test_a_consumer_told_to_start_later_than_anything_still_does(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    make_consumer(client, deliver_policy="by_start_sequence", opt_start_seq=3)
    driver.crash()

    again = driver.connect()
    publish(again, "S.a", "S.a", "S.a", "S.a")

    assert sequences(pull(again, 9)) == [3, 4]


def test_a_consumer_of_last_messages_delivers_the_rest_of_its_list(
    driver: BrokerDriver, client: FakeConnection
) -> None:
    make_stream(client)
    publish(client, "S.a", "S.b", "S.a", "S.c", "S.b")
    make_consumer(client, deliver_policy="last_per_subject", filter_subject="S.>")
    assert sequences(pull(client, 1)) == [3]
    publish(client, "S.c", "S.c")
    driver.crash()

    again = driver.connect()

    assert info(again)["num_pending"] == 4
    assert sequences(pull(again, 9)) == [4, 5, 6, 7]


def test_a_consumer_past_its_list_skips_nothing(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    publish(client, "S.a", "S.b")
    make_consumer(client, deliver_policy="last_per_subject", filter_subject="S.>")
    pull(client, 2)
    publish(client, "S.a", "S.a")
    driver.crash()

    assert sequences(pull(driver.connect(), 9)) == [3, 4]


def test_ephemerals_survive_until_their_threshold(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    body = {"stream_name": "S", "config": {"inactive_threshold": 60 * 10**9}}
    name = client.api("CONSUMER.CREATE.S", body)["name"]
    driver.crash()

    again = driver.connect()
    assert again.api("CONSUMER.NAMES.S")["consumers"] == [name]
    driver.advance(62)
    assert again.api("CONSUMER.NAMES.S")["consumers"] == []


def test_consumers_kept_in_memory_are_gone(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    make_consumer(client, mem_storage=True)

    driver.restart()

    assert driver.connect().api("CONSUMER.NAMES.S")["consumers"] == []


def test_push_consumers_deliver_as_soon_as_somebody_listens(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    make_consumer(client, deliver_subject="d")
    publish(client, "S.a")
    driver.crash()

    again = driver.connect()
    sid = again.subscribe("d")

    assert [message.data for message in again.take_messages(sid)] == [b"S.a"]


def test_messages_too_old_by_now_are_gone(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client, max_age=60 * 10**9)
    publish(client, "S.a")
    driver.advance(30)
    publish(client, "S.a")
    driver.stop()
    driver.now_ns += 40 * 10**9

    driver.crash()
    driver.advance(0.1)

    assert driver.connect().api("STREAM.INFO.S")["state"]["first_seq"] == 2


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_what_was_consumed_does_not_come_back_when_its_removal_was_lost(
    disk: MemoryDisk, driver: BrokerDriver, client: FakeConnection, retention: str
) -> None:
    make_stream(client, retention=retention)
    make_consumer(client)
    publish(client, "S.a", "S.a")
    messages = pull(client, 2)
    before = bytes(disk.files[f"{STREAM_FOLDER}/msgs/1.blk"])
    assert client.request(messages[0].reply, b"+ACK") is not None

    # The acknowledgement reached the disk, the note that the message is gone did not.
    disk.files[f"{STREAM_FOLDER}/msgs/1.blk"] = bytearray(before)
    driver.crash()

    state = driver.connect().api("STREAM.INFO.S")["state"]
    assert (state["messages"], state["first_seq"]) == (1, 2)


def test_a_work_queue_keeps_what_nobody_asked_for_yet(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client, retention="workqueue")
    make_consumer(client, filter_subject="S.a")
    publish(client, "S.a", "S.b")
    (message,) = pull(client, 1)
    client.request(message.reply, b"+ACK")

    driver.crash()

    assert driver.connect().api("STREAM.INFO.S", {"subjects_filter": ">"})["state"]["subjects"] == {"S.b": 1}


def test_a_damaged_description_costs_one_stream_and_is_reported(
    disk: MemoryDisk, driver: BrokerDriver, client: FakeConnection
) -> None:
    make_stream(client)
    client.api("STREAM.CREATE.T", {"name": "T"})
    data = disk.files[f"{STREAM_FOLDER}/meta.inf"]
    data[3] ^= 1
    data[len(data) // 2 + 3] ^= 1

    driver.crash()

    again = driver.connect()
    assert again.api("STREAM.INFO.T")["config"]["name"] == "T"
    assert again.api("STREAM.INFO.S")["error"]["err_code"] == 10194
    assert any("is offline" in notice for notice in driver.broker.notices)
    assert f"{STREAM_FOLDER}/meta.inf" in disk.files


@pytest.mark.parametrize("described", ["stream", "consumer"])
def test_one_flipped_bit_in_a_description_costs_nothing(
    disk: MemoryDisk, driver: BrokerDriver, client: FakeConnection, described: str
) -> None:
    make_stream(client)
    for number in range(100):
        client.publish_acked("S.a", b"m%d" % number)
    make_consumer(client)
    path = f"{STREAM_FOLDER}/meta.inf" if described == "stream" else f"{STREAM_FOLDER}/obs/C/meta.inf"
    data = bytes(disk.files[path])
    disk.files[path][len(data) // 3] ^= 16

    driver.crash()

    # What every program does when it starts.
    again = driver.connect()
    make_stream(again)
    make_consumer(again)
    assert again.api("STREAM.INFO.S")["state"]["messages"] == 100
    assert again.api("CONSUMER.INFO.S.C")["num_pending"] == 100
    assert bytes(disk.files[path]) == data
    assert any("one copy of its description was damaged" in notice for notice in driver.broker.notices)


def test_names_hostile_to_file_systems_come_back(driver: BrokerDriver, client: FakeConnection) -> None:
    name = "Ünïcödé-" + "x" * 200
    client.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": ["S.>"]})
    body = {"stream_name": name, "config": {"durable_name": "ç%"}}
    assert "error" not in client.api(f"CONSUMER.CREATE.{name}.ç%", body)

    driver.crash()

    again = driver.connect()
    assert again.api("STREAM.NAMES")["streams"] == [name]
    assert again.api(f"CONSUMER.NAMES.{name}")["consumers"] == ["ç%"]


def test_streams_of_every_account_come_back(driver: BrokerDriver, client: FakeConnection) -> None:
    other = driver.connect()
    other.session.account = driver.broker.account("TEAM")
    other.api("STREAM.CREATE.X", {"name": "X"})

    driver.crash()

    assert list(driver.broker.accounts["TEAM"].jetstream.streams) == ["X"]
    assert driver.connect().api("STREAM.NAMES")["streams"] is None


def test_purged_positions_are_still_so(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    publish(client, "S.a", "S.b", "S.a", "S.b")
    make_consumer(client)
    pull(client, 2)
    client.api("STREAM.PURGE.S", {"seq": 4})
    driver.advance(1)
    before = info(client)
    driver.crash()

    after = info(driver.connect())

    assert after["delivered"]["stream_seq"] == before["delivered"]["stream_seq"] == 3
    assert after["ack_floor"]["stream_seq"] == 3
    assert (after["num_ack_pending"], after["num_pending"]) == (0, 1)


def test_a_first_sequence_that_comes_late_takes_nothing_away(driver: BrokerDriver) -> None:
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})
    client.publish_acked("S.a", b"kept")
    client.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>"], "first_seq": 999})
    driver.restart()
    client = driver.connect()

    assert client.publish_acked("S.a", b"next")["seq"] == 2
    assert client.api("STREAM.INFO.S")["state"]["first_seq"] == 1


def test_a_stream_that_never_held_anything_begins_where_its_settings_say_now(driver: BrokerDriver) -> None:
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], "first_seq": 50})
    client.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>"], "first_seq": 999})
    driver.restart()

    assert driver.connect().publish_acked("S.a")["seq"] == 999


def test_a_message_over_no_limit_is_there_whatever_a_crash_left_of_the_next_one() -> None:
    written_size, size = 1, 0
    while size <= written_size:
        disk = MemoryDisk()
        driver = BrokerDriver(disk)
        client = driver.connect()
        make_stream(client, max_msgs=3, max_msgs_per_subject=1)
        publish(client, "S.a", "S.b", "S.c")
        driver.holds_commits = True
        client.start_request("S.b", b"the newer one")
        commit = driver._commit
        assert commit is not None
        # The record of the new message and that of the old one's removal are one write.
        [written] = [op for op in commit.ops if op.kind == APPEND]
        written_size = len(written.data)
        disk.perform(DiskOp(APPEND, written.path, written.data[:size]))
        driver.holds_commits = False
        driver.crash()

        subjects = driver.connect().api("STREAM.INFO.S", {"subjects_filter": ">"})["state"]["subjects"]

        assert subjects == {"S.a": 1, "S.b": 1, "S.c": 1}, size
        size += 1
