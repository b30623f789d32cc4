"""Whole streams out of and into the broker.

The files in `data` come from nats-server 2.15.1: the archive it sends today, and its store's files in a tar, as servers
before it sent them. Both hold ten messages on three subjects, some deleted, and a consumer with three outstanding.
"""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from jetspark.broker.recovery import RESTORE_MARK
from jetspark.store.disk import WRITE_FILE, DiskOp
from jetspark.testing.broker_driver import BrokerDriver, FakeConnection, Received
from jetspark.testing.memory_disk import MemoryDisk
from jetspark.testing.sim_disk import SimDisk

DATA = Path(__file__).parent / "data"
STREAM_FOLDER = "/store/jetstream/%24G/streams/S"
CONFIG = {"name": "S", "subjects": ["s.>"]}


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def driver(disk: MemoryDisk) -> BrokerDriver:
    return BrokerDriver(disk)


@pytest.fixture
def client(driver: BrokerDriver) -> FakeConnection:
    return driver.connect()


def fill(client: FakeConnection, count: int = 20, **config: Any) -> None:
    assert "error" not in client.api("STREAM.CREATE.S", {**CONFIG, **config})
    for number in range(1, count + 1):
        client.publish_acked(f"s.{number % 3}", b"%d" % number * 100, {"N": str(number)} if number % 2 else None)
    client.api("STREAM.MSG.DELETE.S", {"seq": 7})
    client.api("STREAM.MSG.DELETE.S", {"seq": 1})
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    client.api("CONSUMER.CREATE.S.C", body)
    client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": 4, "no_wait": true}')
    messages = client.take_messages()
    client.publish(messages[1].reply, b"+ACK")
    client.publish(messages[2].reply, b"-NAK")
    client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": 1, "no_wait": true}')
    client.take_messages()


def take_snapshot(driver: BrokerDriver, client: FakeConnection, **request: Any) -> tuple[bytes, list[Received]]:
    """The archive, and the messages it came in."""
    sid = client.subscribe("snap")
    answer = client.api("STREAM.SNAPSHOT.S", {"deliver_subject": "snap", **request})
    assert "error" not in answer, answer
    received: list[Received] = []
    while not received or received[-1].data:
        driver.advance(0.01)
        chunks = client.take_messages(sid)
        assert chunks, "the snapshot stopped"
        received += chunks
        for chunk in chunks:
            if chunk.reply:
                client.publish(chunk.reply)
    client.unsubscribe(sid)
    return b"".join(chunk.data for chunk in received), received


def restore(driver: BrokerDriver, client: FakeConnection, data: bytes, piece: int = 333, **config: Any) -> Any:
    """Upload an archive; the last answer."""
    request = {"config": {**CONFIG, **config}, "state": {}}
    subject = client.api("STREAM.RESTORE.S", request)["deliver_subject"]
    for at in range(0, len(data), piece):
        chunk = client.request(subject, data[at : at + piece])
        assert chunk is not None
        assert chunk.data == b""
    inbox = client.start_request(subject)
    driver.advance(0.01)
    (answer,) = client.replies(inbox)
    return answer.json()


def content(client: FakeConnection) -> Any:
    state = client.api("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})["state"]
    messages = [client.api("STREAM.MSG.GET.S", {"seq": seq}).get("message") for seq in range(1, state["last_seq"] + 1)]
    consumer = client.api("CONSUMER.INFO.S.C")
    for key in ("created", "ts"):
        del consumer[key]
    for key in ("delivered", "ack_floor"):
        consumer[key].pop("last_active", None)
    return state, messages, consumer


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_restored_snapshot_is_the_same_stream(driver: BrokerDriver, client: FakeConnection, storage: str) -> None:
    fill(client, storage=storage)
    before = content(client)
    data, _ = take_snapshot(driver, client)
    client.api("STREAM.DELETE.S")

    answer = restore(driver, client, data, storage=storage)

    assert answer["type"].endswith("stream_create_response")
    assert "did_create" not in answer
    assert content(client) == before


def test_a_restored_stream_remembers_its_message_ids(driver: BrokerDriver, client: FakeConnection) -> None:
    fill(client)
    first = client.publish_acked("s.0", b"once", headers={"Nats-Msg-Id": "id"})
    data, _ = take_snapshot(driver, client)
    client.api("STREAM.DELETE.S")
    restore(driver, client, data)

    again = client.publish_acked("s.0", b"twice", headers={"Nats-Msg-Id": "id"})

    assert again == {"stream": "S", "seq": first["seq"], "duplicate": True}


def test_a_restored_stream_survives_a_crash_and_takes_messages(driver: BrokerDriver, client: FakeConnection) -> None:
    fill(client)
    before = content(client)
    data, _ = take_snapshot(driver, client)
    client.api("STREAM.DELETE.S")
    restore(driver, client, data)

    driver.crash()

    again = driver.connect()
    assert content(again) == before
    assert again.publish_acked("s.0", b"next")["seq"] == 21


@pytest.mark.parametrize(("name", "deleted"), [("snapshot-2.15.s2", [4]), ("snapshot-tar.s2", [4, 6])])
def test_snapshots_of_nats_server_are_restored(
    driver: BrokerDriver, client: FakeConnection, name: str, deleted: list[int]
) -> None:
    restore(driver, client, (DATA / name).read_bytes())

    state, messages, consumer = content(client)
    assert (state["first_seq"], state["last_seq"], state["deleted"]) == (2, 10, deleted)
    assert messages[1]["subject"] == "s.1"
    assert (consumer["num_ack_pending"], consumer["num_redelivered"]) == (3, 1)
    assert consumer["ack_floor"] == {"consumer_seq": 0, "stream_seq": 1}
    assert consumer["config"]["ack_wait"] == 2_000_000_000


def test_the_outstanding_messages_of_a_restored_consumer_come_back(
    driver: BrokerDriver, client: FakeConnection
) -> None:
    fill(client)
    data, _ = take_snapshot(driver, client)
    client.api("STREAM.DELETE.S")
    restore(driver, client, data)

    client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b"17")
    driver.advance(31)

    deliveries = [message.reply.split(".")[4:6] for message in client.take_messages()]
    assert deliveries[14:] == [["2", "2"], ["3", "4"], ["2", "5"]]


def test_full_chunks_ask_for_confirmation_and_the_last_does_not(driver: BrokerDriver, client: FakeConnection) -> None:
    fill(client, 200)

    _, received = take_snapshot(driver, client, chunk_size=1024)

    *full, last, end = received
    assert len(full) > 1
    assert all(len(chunk.data) == 1024 for chunk in full)
    assert full[0].reply.startswith("$JS.SNAPSHOT.ACK.S.")
    assert full[1].reply.endswith(".1024.2")
    assert (last.reply, end.status) == ("", "204")


def test_a_snapshot_of_one_chunk_ends_without_a_status(driver: BrokerDriver, client: FakeConnection) -> None:
    fill(client)

    _, received = take_snapshot(driver, client)

    assert [(chunk.reply, chunk.header) for chunk in received] == [("", b""), ("", b"")]


def test_no_more_than_the_window_is_sent_unconfirmed(driver: BrokerDriver, client: FakeConnection) -> None:
    fill(client, 200)
    sid = client.subscribe("snap")

    client.api("STREAM.SNAPSHOT.S", {"deliver_subject": "snap", "chunk_size": 1024, "window_size": 2048})
    driver.advance(1)

    chunks = client.take_messages(sid)
    assert len(chunks) == 2
    client.publish(chunks[0].reply)
    driver.advance(1)
    assert len(client.take_messages(sid)) == 1


def test_a_receiver_that_stops_confirming_is_given_up(driver: BrokerDriver, client: FakeConnection) -> None:
    fill(client, 200)
    events = client.subscribe("$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S")
    sid = client.subscribe("snap")
    client.api("STREAM.SNAPSHOT.S", {"deliver_subject": "snap", "chunk_size": 1024, "window_size": 1024})

    driver.advance(6)

    assert client.take_messages(sid)[-1].status == "408 No Flow Response"
    assert client.take_messages(events)[0].json()["error"] == "no flow response"
    driver.advance(60)
    assert client.take_messages(sid) == []


def test_nobody_to_receive_ends_a_snapshot_after_a_while(driver: BrokerDriver, client: FakeConnection) -> None:
    fill(client)
    events = client.subscribe("$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S")
    client.api("STREAM.SNAPSHOT.S", {"deliver_subject": "snap"})

    driver.advance(1)
    assert client.take_messages(events) == []
    driver.advance(2)
    assert client.take_messages(events)[0].json()["error"] == "no interest"


def test_a_snapshot_without_consumers_restores_without_them(driver: BrokerDriver, client: FakeConnection) -> None:
    fill(client)
    data, _ = take_snapshot(driver, client, no_consumers=True)
    client.api("STREAM.DELETE.S")

    restore(driver, client, data)

    assert client.api("CONSUMER.NAMES.S")["consumers"] == []


def test_only_what_is_durable_is_handed_out(driver: BrokerDriver, client: FakeConnection) -> None:
    client.api("STREAM.CREATE.S", CONFIG)
    sid = client.subscribe("snap")
    driver.holds_commits = True
    client.publish("s.1", b"not yet")
    client.publish("$JS.API.STREAM.SNAPSHOT.S", b'{"deliver_subject": "snap"}')
    driver.advance(0.1)
    assert client.take_messages(sid) == []

    driver.holds_commits = False
    driver.advance(0.1)

    assert len(client.take_messages(sid)) == 2


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda data: data[:-20], "unexpected EOF"),
        (lambda data: data[:400] + bytes([data[400] ^ 1]) + data[401:], "s2: "),
        (lambda data: b"nonsense" * 10, "s2: unsupported input"),
    ],
)
def test_a_damaged_upload_leaves_nothing(
    disk: MemoryDisk, driver: BrokerDriver, client: FakeConnection, damage: Any, text: str
) -> None:
    data = damage((DATA / "snapshot-2.15.s2").read_bytes())

    answer = restore(driver, client, data)

    assert answer["error"]["err_code"] == 10062
    assert answer["error"]["description"].startswith(f"restore failed: {text}")
    driver.advance(1)
    assert client.api("STREAM.NAMES")["streams"] is None
    assert disk.files == {}


def test_a_crash_in_the_middle_of_an_upload_leaves_nothing(
    disk: MemoryDisk, driver: BrokerDriver, client: FakeConnection
) -> None:
    fill(client, 300)
    data, _ = take_snapshot(driver, client)
    client.api("STREAM.DELETE.S")
    subject = client.api("STREAM.RESTORE.S", {"config": CONFIG, "state": {}})["deliver_subject"]
    client.request(subject, data[:-10])
    driver.advance(1)
    assert f"{STREAM_FOLDER}/restore.inf" in disk.files

    driver.crash()

    assert driver.connect().api("STREAM.NAMES")["streams"] is None
    assert disk.files == {}
    assert driver.broker.notices == []


def test_silence_ends_an_upload(disk: MemoryDisk, driver: BrokerDriver, client: FakeConnection) -> None:
    subject = client.api("STREAM.RESTORE.S", {"config": CONFIG, "state": {}})["deliver_subject"]

    driver.advance(6)

    answer = client.request(subject, b"late")
    assert answer is not None
    assert answer.status == "503"
    assert disk.files == {}


def test_a_chunk_without_a_reply_ends_an_upload(driver: BrokerDriver, client: FakeConnection) -> None:
    subject = client.api("STREAM.RESTORE.S", {"config": CONFIG, "state": {}})["deliver_subject"]

    client.publish(subject, b"chunk")

    answer = client.request(subject, b"more")
    assert answer is not None
    assert answer.status == "503"


def test_a_restore_does_not_replace_a_stream(client: FakeConnection) -> None:
    fill(client)

    answer = client.api("STREAM.RESTORE.S", {"config": CONFIG, "state": {}})

    assert answer["error"]["err_code"] == 10130
    assert answer["deliver_subject"] == ""


def test_subjects_taken_meanwhile_make_a_restore_fail(driver: BrokerDriver, client: FakeConnection) -> None:
    subject = client.api("STREAM.RESTORE.S", {"config": CONFIG, "state": {}})["deliver_subject"]
    client.api("STREAM.CREATE.T", {"name": "T", "subjects": ["s.1"]})
    client.request(subject, (DATA / "snapshot-2.15.s2").read_bytes())

    inbox = client.start_request(subject)
    driver.advance(1)

    assert client.replies(inbox)[0].json()["error"]["err_code"] == 10062
    assert client.api("STREAM.NAMES")["streams"] == ["T"]


def test_a_sealed_stream_comes_back_sealed(driver: BrokerDriver, client: FakeConnection) -> None:
    fill(client)
    client.api("STREAM.UPDATE.S", {**CONFIG, "sealed": True})
    data, _ = take_snapshot(driver, client)
    config = client.api("STREAM.INFO.S")["config"]
    client.api("STREAM.DELETE.S")

    restore(driver, client, data, **config)

    assert client.api("STREAM.INFO.S")["config"]["sealed"] is True
    assert client.publish_acked("s.1", b"x")["error"]["err_code"] == 10109


def test_transfers_are_announced(driver: BrokerDriver, client: FakeConnection) -> None:
    fill(client)
    sid = client.subscribe("$JS.EVENT.ADVISORY.STREAM.>")
    data, _ = take_snapshot(driver, client)
    client.api("STREAM.DELETE.S")
    restore(driver, client, data)

    kinds = [message.subject.split(".")[4] for message in client.take_messages(sid)]

    assert kinds == [
        "SNAPSHOT_CREATE",
        "SNAPSHOT_COMPLETE",
        "DELETED",
        "RESTORE_CREATE",
        "CREATED",
        "RESTORE_COMPLETE",
    ]


def test_a_disk_that_fails_during_an_upload_fails_the_restore(driver: BrokerDriver, client: FakeConnection) -> None:
    data = (DATA / "snapshot-2.15.s2").read_bytes()
    subject = client.api("STREAM.RESTORE.S", {"config": CONFIG, "state": {}})["deliver_subject"]
    driver.holds_commits = True
    client.request(subject, data)
    driver.finish_commit("No space left on device")
    driver.holds_commits = False

    inbox = client.start_request(subject)
    driver.advance(1)

    answer = client.replies(inbox)[0].json()
    assert answer["error"]["description"] == "restore failed: storage failure during restore"
    assert json.dumps(client.api("STREAM.NAMES")["streams"]) == "null"


@pytest.mark.parametrize("refused", [RESTORE_MARK, "meta.inf"])
def test_a_restore_whose_notes_the_disk_refuses_leaves_nothing(refused: str) -> None:
    disk = SimDisk()
    driver = BrokerDriver(disk)
    client = driver.connect()

    def refuse(op: DiskOp) -> int:
        return errno.ENOSPC if op.kind == WRITE_FILE and op.path.endswith(refused) else 0

    disk.fail_when = refuse
    subject = client.api("STREAM.RESTORE.S", {"config": CONFIG, "state": {}})["deliver_subject"]
    client.request(subject, (DATA / "snapshot-2.15.s2").read_bytes())
    inbox = client.start_request(subject)
    driver.advance(1)

    assert "error" in client.replies(inbox)[0].json()
    assert client.api("STREAM.NAMES")["streams"] is None
    disk.fail_when = None
    driver.advance(1)
    assert list(disk.files) == []
