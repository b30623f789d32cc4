"""What waited for a commit that the disk refused."""

import errno

import pytest

from jetspark.store import disk
from jetspark.store.disk import APPEND, DiskOp
from jetspark.testing.broker_driver import SECOND_NS, BrokerDriver
from jetspark.testing.sim_disk import SimDisk


@pytest.mark.parametrize("payload", [b"404", b"[]", b"null", b"text", b'{"type": "mine"}', b""])
def test_a_direct_read_of_what_the_disk_refused_is_not_answered(payload: bytes) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], "allow_direct": True})
    driver.holds_commits = True
    publish = client.start_request("S.a", payload)
    read = client.start_request("$JS.API.DIRECT.GET.S", b'{"seq": 1}')

    driver.finish_commit("no space left")
    driver.holds_commits = False
    driver.settle()

    assert client.replies(publish)[0].json()["error"]["description"] == "no space left"
    assert client.replies(read) == []


def test_a_request_that_changes_a_stream_is_told_what_the_disk_said() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})
    client.publish_acked("S.a", b"x")
    driver.holds_commits = True
    purge = client.start_request("$JS.API.STREAM.PURGE.S")

    driver.finish_commit("no space left")
    driver.holds_commits = False
    driver.settle()

    answer = client.replies(purge)[0].json()
    assert (answer["type"], answer["error"]["err_code"]) == ("io.nats.jetstream.api.v1.stream_purge_response", 10077)


def test_a_consumer_made_during_a_commit_that_fails_delivers() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})
    client.publish_acked("S.a", b"kept")
    driver.holds_commits = True
    client.publish("S.a", b"refused")
    config = {"name": "C", "ack_policy": "explicit", "mem_storage": True}
    client.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})

    driver.finish_commit("no space left")
    driver.holds_commits = False
    driver.settle()

    client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": 5, "no_wait": true}')
    assert [message.data for message in client.take_messages() if message.data] == [b"kept"]


# -- what was answered with an error is not in force -----------------------------------------------------------------


class FullDisk:
    """A broker on a disk that can be filled to the last byte and emptied again."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.driver = BrokerDriver(self.disk)
        self.client = self.driver.connect()
        for name in ("A", "B"):
            self.client.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"]})
            self.client.publish_acked(f"{name.lower()}.1", b"x" * 1000)

    def fill(self) -> None:
        """Take all room."""
        self.disk.capacity_bytes = self.disk.used_bytes()

    def make_room(self) -> None:
        """Give room, and let the broker come to try again."""
        self.disk.capacity_bytes = 0
        self.driver.advance(1)

    def crash(self) -> None:
        """Start again with what is durable; the client is a new one."""
        self.disk.crash()
        self.driver.crash()
        self.client = self.driver.connect()

    def stream_names(self) -> list[str]:
        names = self.client.api("STREAM.NAMES")["streams"]
        assert isinstance(names, list)
        return names

    def consumer_names(self, stream: str) -> list[str]:
        names = self.client.api(f"CONSUMER.NAMES.{stream}")["consumers"]
        assert isinstance(names, list)
        return names

    def is_stored(self, subject: str) -> bool:
        """Does a stream take a message there? Nobody listening is no."""
        answer = self.client.request(subject, b"x")
        return answer is not None and bool(answer.data) and "error" not in answer.json()


def test_a_stream_the_disk_refused_is_not_there_and_stays_away() -> None:
    full = FullDisk()
    full.fill()

    answer = full.client.api("STREAM.CREATE.Q", {"name": "Q", "subjects": ["q"]})

    assert answer["error"]["err_code"] == 10077
    assert full.stream_names() == ["A", "B"]
    assert full.client.api("STREAM.INFO.Q")["error"]["err_code"] == 10059
    full.make_room()
    assert full.stream_names() == ["A", "B"]
    assert not full.is_stored("q")
    full.crash()
    assert full.stream_names() == ["A", "B"]
    assert full.driver.broker.notices == []


def test_a_stream_the_disk_refused_can_be_made_when_there_is_room() -> None:
    full = FullDisk()
    full.fill()
    full.client.api("STREAM.CREATE.Q", {"name": "Q", "subjects": ["q"]})
    full.make_room()

    assert "error" not in full.client.api("STREAM.CREATE.Q", {"name": "Q", "subjects": ["q"]})

    full.driver.advance(1)
    assert full.is_stored("q")
    full.crash()
    assert full.client.api("STREAM.INFO.Q")["state"]["messages"] == 1


def test_a_consumer_the_disk_refused_is_not_there_and_stays_away() -> None:
    full = FullDisk()
    full.fill()

    answer = full.client.api("CONSUMER.CREATE.A.d", {"stream_name": "A", "config": {"durable_name": "d"}})

    assert answer["error"]["err_code"] == 10077
    assert full.consumer_names("A") == []
    full.make_room()
    assert full.consumer_names("A") == []
    full.crash()
    assert full.consumer_names("A") == []
    assert full.driver.broker.notices == []


def test_an_update_of_a_stream_the_disk_refused_is_taken_back() -> None:
    full = FullDisk()
    full.client.publish_acked("a.2", b"second")
    full.fill()

    answer = full.client.api("STREAM.UPDATE.A", {"name": "A", "subjects": ["a.1", "aa"], "max_msgs": 1})

    assert answer["error"]["err_code"] == 10077
    found = full.client.api("STREAM.INFO.A")
    assert (found["config"]["subjects"], found["config"]["max_msgs"]) == (["a.>"], -1)
    assert found["state"]["messages"] == 2
    full.make_room()
    assert not full.is_stored("aa")
    assert full.is_stored("a.3")
    full.crash()
    found = full.client.api("STREAM.INFO.A")
    assert (found["config"]["subjects"], found["state"]["messages"]) == (["a.>"], 3)


def test_limits_that_reached_the_disk_in_a_failed_commit_cost_nothing_that_is_stored_next() -> None:
    disk = SimDisk()
    driver = BrokerDriver(disk)
    client = driver.connect()
    client.api("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"]})
    driver.holds_commits = True
    client.publish("a.1", b"before")
    update = client.start_request("$JS.API.STREAM.UPDATE.A", b'{"name": "A", "subjects": ["a.>"], "max_msgs": 1}')
    client.publish("a.2", b"refused")
    driver.finish_commit()
    driver.settle()
    # The description is written before the messages.
    disk.fail_next(APPEND, errno.EIO)
    driver.finish_commit()
    driver.settle()
    assert "error" in client.replies(update)[0].json()
    # The stream takes nothing for a moment; then the server is killed right after the first acknowledgement.
    driver.now_ns += SECOND_NS
    driver.broker.now_ns = driver.now_ns
    driver.broker.wake()
    sequence = None
    while sequence is None:
        publish = client.start_request("a.3", b"acked")
        while not (answers := client.replies(publish)):
            driver.finish_commit()
            driver.settle()
        sequence = answers[0].json().get("seq") or None
        if sequence is None and driver.is_committing:
            driver.finish_commit()
            driver.settle()

    driver.crash()

    found = driver.connect().api("STREAM.INFO.A")
    assert (found["config"]["max_msgs"], found["state"]["messages"]) == (-1, 2)


def test_a_change_of_a_consumer_the_disk_refused_is_taken_back() -> None:
    full = FullDisk()
    config = {"durable_name": "d", "ack_policy": "explicit", "filter_subject": "a.1"}
    full.client.api("CONSUMER.CREATE.A.d", {"stream_name": "A", "config": config})
    full.fill()

    changed = {**config, "filter_subject": "a.2", "max_ack_pending": 7}
    answer = full.client.api("CONSUMER.CREATE.A.d", {"stream_name": "A", "config": changed})
    paused = full.client.api("CONSUMER.PAUSE.A.d", {"pause_until": "2099-01-01T00:00:00Z"})

    assert (answer["error"]["err_code"], paused["error"]["err_code"]) == (10077, 10077)
    full.make_room()
    for _ in range(2):
        found = full.client.api("CONSUMER.INFO.A.d")
        assert found["config"]["filter_subject"] == "a.1"
        assert found["config"]["max_ack_pending"] == 1000
        assert found["num_pending"] == 1
        assert not found.get("paused", False)
        full.crash()


@pytest.mark.parametrize(
    ("verb", "document"),
    [
        ("STREAM.CREATE.Q", {"name": "Q", "subjects": ["q"]}),
        ("CONSUMER.CREATE.A.d", {"stream_name": "A", "config": {"durable_name": "d"}}),
        ("STREAM.UPDATE.A", {"name": "A", "subjects": ["a.>", "aa"]}),
        ("STREAM.PURGE.B", None),
    ],
)
def test_a_deletion_makes_room_after_something_else_failed(verb: str, document: dict[str, object] | None) -> None:
    full = FullDisk()
    full.fill()
    assert "error" in full.client.api(verb, document)
    before = full.disk.used_bytes()

    answer = full.client.api("STREAM.DELETE.B")

    assert answer["success"] is True
    assert full.stream_names() == ["A"]
    assert full.disk.used_bytes() < before - 900
    full.driver.advance(1)
    assert full.is_stored("a.1")
    full.crash()
    assert full.stream_names() == ["A"]


def test_a_deletion_asked_for_while_a_commit_fails_is_carried_out() -> None:
    full = FullDisk()
    full.driver.holds_commits = True
    publish = full.client.start_request("a.1", b"refused")
    delete = full.client.start_request("$JS.API.STREAM.DELETE.B")

    full.driver.finish_commit("no space left")
    full.driver.holds_commits = False
    full.driver.settle()

    assert "error" in full.client.replies(publish)[0].json()
    assert full.client.replies(delete)[0].json()["success"] is True
    full.crash()
    assert full.stream_names() == ["A"]


def test_a_deletion_holds_when_something_else_in_its_commit_is_refused() -> None:
    full = FullDisk()
    full.driver.holds_commits = True
    full.client.publish("a.1", b"first")
    delete = full.client.start_request("$JS.API.STREAM.DELETE.B")
    create = full.client.start_request("$JS.API.STREAM.CREATE.B", b'{"name": "B", "subjects": ["b.>"]}')
    full.driver.finish_commit()
    full.driver.settle()
    full.disk.fail_next(disk.WRITE_FILE, errno.ENOSPC)

    full.driver.holds_commits = False
    full.driver.settle()

    assert full.client.replies(delete)[0].json()["success"] is True
    assert full.client.replies(create)[0].json()["error"]["err_code"] == 10077
    assert full.stream_names() == ["A"]
    full.crash()
    assert full.stream_names() == ["A"]


def test_an_object_the_disk_will_not_write_keeps_nobody_else_from_writing() -> None:
    full = FullDisk()
    path = full.driver.broker.accounts["$G"].jetstream.stream_path("B")

    def refuse(op: DiskOp) -> int:
        return errno.EIO if op.path.startswith(path) else 0

    full.disk.fail_when = refuse
    assert "error" in full.client.api("STREAM.UPDATE.B", {"name": "B", "subjects": ["b.>", "bb"]})
    assert "error" in full.client.api("STREAM.DELETE.B")
    full.driver.advance(1)

    assert full.is_stored("a.1")
    full.driver.advance(10)
    assert full.is_stored("a.1")
    # It was tried again all the while, and goes as soon as it can.
    full.disk.fail_when = None
    full.driver.advance(1)
    full.crash()
    assert full.stream_names() == ["A"]


def test_a_description_that_reached_the_disk_in_a_failed_commit_is_put_right() -> None:
    full = FullDisk()
    full.driver.holds_commits = True
    full.client.start_request("b.1", b"keeps the disk busy")
    full.client.start_request("$JS.API.STREAM.UPDATE.A", b'{"name": "A", "subjects": ["a.>", "aa"]}')
    publish = full.client.start_request("a.1", b"refused")
    full.driver.finish_commit()
    full.driver.settle()
    full.disk.fail_next(disk.APPEND, errno.ENOSPC)
    full.driver.holds_commits = False
    full.driver.settle()
    assert "error" in full.client.replies(publish)[0].json()

    full.driver.advance(1)
    full.crash()

    assert full.client.api("STREAM.INFO.A")["config"]["subjects"] == ["a.>"]
