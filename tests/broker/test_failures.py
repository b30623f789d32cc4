"""What raises for one stream, consumer, timer or connection takes that one out of service and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.stream import Stream
from jetspark.broker.timers import Timer, TimerOwner
from jetspark.protocol.outbox import COMPILED
from jetspark.store.disk import Commit
from jetspark.testing.broker_driver import BrokerDriver, FakeConnection

API_STREAM_OFFLINE = 10194
API_CONSUMER_OFFLINE = 10195


class Broken(Exception):
    """What the broken parts of these tests raise."""


class BrokenDict(dict[Any, Any]):
    """A dictionary that cannot be used so many times, and works afterwards."""

    def __init__(self, content: dict[Any, Any], times: int) -> None:
        super().__init__(content)
        self._times = times

    def _use(self) -> None:
        if self._times > 0:
            self._times -= 1
            raise Broken("a dictionary")

    def __setitem__(self, key: Any, value: Any) -> None:
        self._use()
        super().__setitem__(key, value)

    def __contains__(self, key: object) -> bool:
        self._use()
        return super().__contains__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._use()
        return super().get(key, default)

    def values(self) -> Any:
        self._use()
        return super().values()

    def items(self) -> Any:
        self._use()
        return super().items()


ALWAYS = 1_000_000


@pytest.fixture
def driver() -> BrokerDriver:
    driver = BrokerDriver()
    driver.expects_failures = True
    return driver


@pytest.fixture
def client(driver: BrokerDriver) -> FakeConnection:
    return driver.connect()


def with_stream(client: FakeConnection, name: str, **config: Any) -> Stream:
    answer = client.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **config})
    assert "error" not in answer, answer
    return client.driver.broker.accounts["$G"].jetstream.streams[name]


def with_consumer(client: FakeConnection, stream: Stream, name: str, **config: Any) -> Consumer:
    body = {"stream_name": stream.name, "config": {"durable_name": name, "ack_policy": "explicit", **config}}
    answer = client.api(f"CONSUMER.CREATE.{stream.name}.{name}", body)
    assert "error" not in answer, answer
    return stream.consumers[name]


def error_code(answer: Any) -> int:
    return int(answer.get("error", {}).get("err_code", 0))


def pull(client: FakeConnection, name: str) -> list[bytes]:
    client.start_request(f"$JS.API.CONSUMER.MSG.NEXT.{name}", b'{"batch":10,"no_wait":true}')
    return [message.data for message in client.take_messages() if message.data]


def break_state(consumer: Consumer) -> None:
    """Nothing it is to remember can be written down."""
    consumer.state.pending = BrokenDict(consumer.state.pending, ALWAYS)


def test_a_consumer_that_cannot_deliver_goes_offline_and_the_others_deliver(
    driver: BrokerDriver, client: FakeConnection
) -> None:
    stream = with_stream(client, "S")
    inboxes = [client.subscribe(f"to.{name}") for name in ("a", "b", "c")]
    consumers = [with_consumer(client, stream, name, deliver_subject=f"to.{name}") for name in ("a", "b", "c")]
    client.publish_acked("S.1", b"before")
    client.take_messages()
    break_state(consumers[1])

    client.publish_acked("S.1", b"after")

    assert [[m.data for m in client.take_messages(sid)] for sid in inboxes] == [[b"after"], [], [b"after"]]
    assert error_code(client.api("CONSUMER.INFO.S.b")) == API_CONSUMER_OFFLINE
    assert error_code(client.api("CONSUMER.CREATE.S.b", {"stream_name": "S", "config": {"durable_name": "b"}})) > 0
    assert error_code(client.api("CONSUMER.INFO.S.a")) == 0
    [failure] = driver.broker.failures
    assert isinstance(failure.error, Broken)
    assert failure.concerned == "Consumer '$G > S > b' is offline"


def test_what_an_offline_consumer_has_not_had_is_there_after_a_restart(
    driver: BrokerDriver, client: FakeConnection
) -> None:
    stream = with_stream(client, "S", retention="interest")
    broken = with_consumer(client, stream, "broken")
    with_consumer(client, stream, "fine")
    break_state(broken)
    client.publish_acked("S.1", b"one")
    assert pull(client, "S.broken") == []

    inbox = client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.fine", b'{"batch":1}')
    [message] = client.take_messages()
    client.publish(message.reply, b"+ACK")
    assert inbox
    driver.expects_failures = False
    driver.broker.failures.clear()
    driver.restart()

    client = driver.connect()
    assert pull(client, "S.fine") == []
    assert pull(client, "S.broken") == [b"one"]


def test_an_offline_consumer_can_be_deleted(driver: BrokerDriver, client: FakeConnection) -> None:
    stream = with_stream(client, "S")
    break_state(with_consumer(client, stream, "C"))
    client.publish_acked("S.1", b"one")
    pull(client, "S.C")

    assert client.api("CONSUMER.DELETE.S.C")["success"]
    with_consumer(client, stream, "C")
    assert pull(client, "S.C") == [b"one"]


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_stream_that_fails_after_a_commit_goes_offline_and_the_others_go_on(
    driver: BrokerDriver, client: FakeConnection, storage: str
) -> None:
    streams = [with_stream(client, name, storage=storage) for name in ("A", "B", "C")]
    for stream in streams:
        with_consumer(client, stream, "D")
    # Of the wrong type on purpose.
    streams[1].unfiltered = [None]  # type: ignore[list-item]
    driver.holds_commits = True
    inboxes = [client.start_request(f"{stream.name}.1", b"x") for stream in streams]
    driver.holds_commits = False
    driver.settle()

    # All of it is stored, also what the stream that failed afterwards was given.
    assert [client.replies(inbox)[0].json()["seq"] for inbox in inboxes] == [1, 1, 1]
    assert pull(client, "A.D") == pull(client, "C.D") == [b"x"]
    assert error_code(client.api("STREAM.INFO.B")) == API_STREAM_OFFLINE
    assert "B" in client.api("STREAM.LIST")["offline"]
    assert [failure.concerned for failure in driver.broker.failures] == ["Stream '$G > B' is offline"]


def test_what_was_acknowledged_before_a_stream_went_offline_is_there_after_a_restart(
    driver: BrokerDriver, client: FakeConnection
) -> None:
    stream = with_stream(client, "S")
    client.publish_acked("S.1", b"one")
    stream.consumers = BrokenDict(stream.consumers, 1)
    driver.holds_commits = True
    durable = client.start_request("S.1", b"two")
    gathered = client.start_request("S.1", b"three")
    driver.holds_commits = False
    driver.settle()

    assert client.replies(durable)[0].json()["seq"] == 2
    assert "error" in client.replies(gathered)[0].json(), "it was gathered for a commit that never was"
    driver.broker.failures.clear()
    driver.restart()
    client = driver.connect()
    assert client.api("STREAM.INFO.S")["state"]["messages"] == 2


@pytest.mark.skipif(COMPILED, reason="a method of a compiled class cannot be replaced")
def test_nothing_is_acknowledged_when_one_stream_cannot_be_written(
    driver: BrokerDriver, client: FakeConnection
) -> None:
    streams = [with_stream(client, name) for name in ("A", "B")]
    driver.holds_commits = True
    client.start_request("A.1", b"on its way")

    def broken(commit: Commit, sync: bool) -> int:
        raise Broken("a store")

    # A store that fails as no real one does.
    streams[1].store.collect = broken  # type: ignore[method-assign]
    inboxes = [client.start_request(f"{name}.1", b"x") for name in ("A", "B")]
    driver.holds_commits = False
    driver.settle()

    for inbox in inboxes:
        assert "is offline" in client.replies(inbox)[0].json()["error"]["description"]
    driver.advance(1)
    assert client.publish_acked("A.1", b"again")["seq"] == 2
    assert error_code(client.api("STREAM.INFO.B")) == API_STREAM_OFFLINE


def test_a_disk_failure_that_one_consumer_cannot_take_back_leaves_the_others_right(
    driver: BrokerDriver, client: FakeConnection
) -> None:
    stream = with_stream(client, "S")
    consumers = [with_consumer(client, stream, name) for name in ("a", "b")]
    client.publish_acked("S.1", b"one")
    for name in ("a", "b"):
        assert pull(client, f"S.{name}") == [b"one"]
    driver.advance(1)
    driver.holds_commits = True
    refused = client.start_request("S.1", b"two")
    consumers[0].mark_dirty()
    consumers[1].mark_dirty()
    break_state(consumers[0])

    driver.finish_commit("no space left")
    driver.holds_commits = False
    driver.advance(1)

    assert client.replies(refused)[0].json()["error"]["description"] == "no space left"
    assert client.publish_acked("S.1", b"three")["seq"] == 2
    assert pull(client, "S.b") == [b"three"]


class Owner(TimerOwner):
    """Is called back, or breaks."""

    def __init__(self, is_broken: bool) -> None:
        self.is_broken = is_broken
        self.calls = 0
        self.errors: list[Exception] = []

    def on_timer(self, kind: int, now_ns: int) -> None:
        self.calls += 1
        if self.is_broken:
            raise Broken("a timer")

    def timer_failed(self, error: Exception) -> None:
        self.errors.append(error)


def test_a_timer_that_raises_keeps_no_other_from_its_turn(driver: BrokerDriver) -> None:
    owners = [Owner(False), Owner(True), Owner(False)]
    for owner in owners:
        driver.broker.timers.arm(Timer(owner, 1), driver.now_ns + 5)

    driver.advance(1)

    assert [owner.calls for owner in owners] == [1, 1, 1]
    assert [len(owner.errors) for owner in owners] == [0, 1, 0]


def test_a_redelivery_that_raises_takes_its_consumer_offline(driver: BrokerDriver, client: FakeConnection) -> None:
    stream = with_stream(client, "S")
    consumers = [with_consumer(client, stream, name, ack_wait=1_000_000_000) for name in ("a", "b")]
    client.publish_acked("S.1", b"one")
    for name in ("a", "b"):
        pull(client, f"S.{name}")
    break_state(consumers[0])

    driver.advance(2)

    assert error_code(client.api("CONSUMER.INFO.S.a")) == API_CONSUMER_OFFLINE
    assert pull(client, "S.b") == [b"one"]


def test_a_copy_that_raises_takes_the_copying_stream_offline_and_not_its_origin(
    driver: BrokerDriver, client: FakeConnection
) -> None:
    origin = with_stream(client, "O")
    broken, fine = [client.api(f"STREAM.CREATE.{name}", {"name": name, "mirror": {"name": "O"}}) for name in ("M", "N")]
    assert "error" not in broken | fine
    driver.advance(1)
    [feed] = [follower for follower in origin.followers if follower.stream.name == "M"]
    feed.stream.store.subjects = BrokenDict(feed.stream.store.subjects, ALWAYS)
    client.publish_acked("O.1", b"x")
    driver.advance(1)

    assert error_code(client.api("STREAM.INFO.M")) == API_STREAM_OFFLINE
    assert client.api("STREAM.INFO.N")["state"]["messages"] == 1
    assert client.api("STREAM.INFO.O")["state"]["messages"] == 1


def test_a_subscriber_that_binds_a_broken_consumer_is_served(driver: BrokerDriver, client: FakeConnection) -> None:
    stream = with_stream(client, "S")
    consumers = [with_consumer(client, stream, name, deliver_subject="to.all") for name in ("a", "b")]
    client.publish_acked("S.1", b"one")
    break_state(consumers[0])
    listener = driver.connect()

    listener.subscribe("to.all")

    assert [message.data for message in listener.take_messages()] == [b"one"]
    assert not listener.is_closed


def test_the_end_of_the_server_answers_every_pull_whatever_one_consumer_does(
    driver: BrokerDriver, client: FakeConnection
) -> None:
    stream = with_stream(client, "S")
    consumers = [with_consumer(client, stream, name) for name in ("a", "b", "c")]
    for name in ("a", "b", "c"):
        client.start_request(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", b'{"batch":1,"expires":60000000000}')
    # Of the wrong type on purpose.
    consumers[1].pulls.waiting = [None]  # type: ignore[list-item]
    client.take_messages()

    driver.broker.shutdown()
    driver.settle()

    assert [message.status for message in client.take_messages()] == ["409 Server Shutdown"] * 2
