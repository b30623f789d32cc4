"""The blocking face: the same client without an event loop, from one thread or many."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import jetspark.sync
from jetspark.client import errors
from jetspark.client.api_errors import ConsumerNotFoundError, StreamNotFoundError, WrongLastSequenceError
from jetspark.client.sync import Connection, Consumer, JetStream, Msg, Stream, connect
from tests.client.conftest import NatsServer


def until(condition: Callable[[], Any], timeout_s: float = 10.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "the condition did not come true"
        time.sleep(0.01)  # noqa: TID251 - the condition is waited for, not the time


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with connect(url) as made:
        yield made


@pytest.fixture
def jetstream(connection: Connection, name: str) -> Iterator[JetStream]:
    made = connection.jetstream()
    yield made
    if not connection.is_closed and made.stream_exists(name):
        made.delete_stream(name)


@pytest.fixture
def stream(jetstream: JetStream, name: str) -> Stream:
    return jetstream.create_stream(name, subjects=[f"{name}.>"], storage="memory")


def fill(jetstream: JetStream, subject: str, count: int) -> None:
    for i in range(1, count + 1):
        jetstream.publish_async(subject, b"%d" % i)
    jetstream.flush(10)


@pytest.mark.long
@pytest.mark.parametrize("given", [{"credentials_file": "/no/where"}, {"nkey_seed": "SUABC"}])
def test_credentials_that_cannot_be_used_leave_no_socket_open(given: dict[str, Any]) -> None:
    with pytest.raises((errors.AuthorizationError, errors.BadOptionError)):
        connect("nats://127.0.0.1:1", **given)

    # A socket that nobody closed is a warning now, and warnings are errors.
    gc.collect()


def test_the_package_offers_it_under_a_short_name() -> None:
    assert jetspark.sync.connect is connect


def test_publish_subscribe_and_request(connection: Connection, name: str) -> None:
    with connection.subscribe(name) as subscription:
        connection.publish(name, b"hello", headers={"A": "b"})
        message = subscription.next(5)
        assert message is not None
        assert (message.data, message.headers["a"]) == (b"hello", "b")
        assert subscription.next(0.01) is None
    connection.subscribe(f"{name}.svc", callback=lambda message: message.respond(message.data.upper()))
    assert connection.request(f"{name}.svc", b"abc").data == b"ABC"
    with pytest.raises(errors.NoRespondersError):
        connection.request(f"{name}.nobody")
    connection.subscribe(f"{name}.mute")
    with pytest.raises(TimeoutError):
        connection.request(f"{name}.mute", timeout=0.05)


def test_a_small_publish_leaves_without_any_further_call(connection: Connection, url: str, name: str) -> None:
    with connect(url) as other:
        subscription = other.subscribe(name)
        other.flush()
        connection.publish(name, b"x")
        assert subscription.next(5) is not None
        until(lambda: connection._link._io_leads)
        connection.publish(name, b"y")
        assert subscription.next(5) is not None


def test_publishing_fetching_and_acking(jetstream: JetStream, stream: Stream, name: str) -> None:
    assert jetstream.publish(f"{name}.a", b"0").seq == 1
    fill(jetstream, f"{name}.a", 900)
    with pytest.raises(WrongLastSequenceError):
        jetstream.publish(f"{name}.a", b"", expect_last_seq=1)
    consumer = stream.create_consumer("worker")
    batch = consumer.fetch(901)
    assert len(batch) == 901
    for message in batch:
        assert message.ack()
    assert consumer.fetch(1, expires=0.05) == []
    until(lambda: consumer.info().ack_floor.stream_seq == 901)
    with pytest.raises(ConsumerNotFoundError):
        stream.consumer("nobody")
    with pytest.raises(StreamNotFoundError):
        jetstream.stream("NOBODY")


def test_consume_with_an_iterator_and_with_a_callback(jetstream: JetStream, stream: Stream, name: str) -> None:
    fill(jetstream, f"{name}.a", 100)
    consumer = stream.create_consumer("worker")
    seen: list[bytes] = []
    with consumer.consume(max_messages=10) as messages:
        for message in messages:
            seen.append(message.data)
            message.ack()
            if len(seen) == 50:
                break
    rest: list[bytes] = []

    def handle(message: Msg) -> None:
        rest.append(message.data)
        message.ack(wait=True)

    consumer = stream.create_consumer("second", opt_start_seq=51)
    with consumer.consume(handle):
        until(lambda: len(rest) == 50)
    assert seen + rest == [b"%d" % i for i in range(1, 101)]


def test_an_ordered_consumer_reads_everything_in_order(jetstream: JetStream, stream: Stream, name: str) -> None:
    fill(jetstream, f"{name}.a", 2000)
    consumer = stream.ordered_consumer()
    seen = []
    # The server may drop a pull that meets the delete on its way; then the heartbeat has to tell.
    with consumer.consume(expires=1, idle_heartbeat=0.2) as messages:
        for message in messages:
            seen.append(int(message.data))
            if len(seen) == 1000:
                stream.delete_consumer(consumer.name)
            if len(seen) == 2000:
                break
    assert seen == list(range(1, 2001))


def test_pull_and_push_subscriptions(jetstream: JetStream, stream: Stream, name: str) -> None:
    fill(jetstream, f"{name}.a", 5)
    with jetstream.pull_subscribe(f"{name}.a", "puller") as pulling:
        assert [message.data for message in pulling.fetch(3)] == [b"1", b"2", b"3"]
        assert [message.data for message in pulling.fetch(1)] == [b"4"]
    with jetstream.subscribe(f"{name}.a") as pushed:
        received = [pushed.next(5) for _ in range(5)]
        assert [message.data for message in received if message is not None] == [b"%d" % i for i in range(1, 6)]
    assert stream.consumer_names() == []


def test_many_threads_share_one_connection(jetstream: JetStream, stream: Stream, name: str) -> None:
    def work(worker: int) -> int:
        for i in range(50):
            jetstream.publish(f"{name}.{worker}", b"%d" % i, timeout=30)
        return worker

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(work, range(8))) == list(range(8))
    assert stream.info().state.messages == 400
    consumer = stream.create_consumer("worker")
    seen: list[int] = []

    def take() -> None:
        while batch := consumer.fetch(10, no_wait=True):
            for message in batch:
                message.ack(wait=True, timeout=30)
                seen.append(message.metadata.stream_sequence)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(seen) == list(range(1, 401))


@pytest.mark.long
def test_many_threads_may_take_from_one_subscription(connection: Connection, name: str) -> None:
    subscription = connection.subscribe(name)
    seen: list[bytes] = []

    def take() -> None:
        while (message := subscription.next(1)) is not None:
            seen.append(message.data)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(1000):
        connection.publish(name, b"%d" % i)
    for thread in threads:
        thread.join(20)
    assert sorted(seen, key=int) == [b"%d" % i for i in range(1000)]


@pytest.mark.long
def test_it_comes_back_after_a_restart(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()
    events: list[str] = []
    with connect(
        server.url, on_disconnect=lambda: events.append("down"), on_reconnect=lambda: events.append("up")
    ) as connection:
        jetstream = connection.jetstream()
        stream = jetstream.create_stream(name, subjects=[name])
        consumer = stream.create_consumer("worker")
        got: list[Msg] = []
        thread = threading.Thread(target=lambda: got.extend(consumer.fetch(2, expires=20)))
        thread.start()
        until(lambda: consumer.info().num_waiting == 1)
        server.restart()
        until(lambda: events == ["down", "up"])
        jetstream.publish_once(name, b"1")
        jetstream.publish_once(name, b"2")
        thread.join(15)
        assert [message.data for message in got] == [b"1", b"2"]


@pytest.mark.long
def test_first_connect_fails_fast(make_server: Any) -> None:
    server: NatsServer = make_server("--user", "me", "--pass", "secret")
    with pytest.raises(errors.AuthorizationError):
        connect(server.url, user="me", password="wrong")
    server.stop()
    with pytest.raises(errors.NoServersError):
        connect(server.url)


def test_closing_wakes_a_thread_that_waits(url: str, name: str) -> None:
    connection = connect(url)
    subscription = connection.subscribe(name)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            subscription.next(30)
        except errors.ClientError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    connection.flush()
    connection.close()
    thread.join(5)
    assert isinstance(ended[0], errors.SubscriptionClosedError)


def test_stopping_a_consume_from_another_thread_ends_it_at_once(stream: Stream) -> None:
    consumer = stream.create_consumer("worker")
    for _ in range(20):
        started = time.monotonic()
        messages = consumer.consume(lambda message: None)
        messages.stop()
        assert messages.is_closed
        assert time.monotonic() - started < 5


def test_a_failing_callback_is_told(url: str, name: str) -> None:
    told: list[BaseException] = []

    def fail(message: Msg) -> None:
        raise KeyError("broken")

    with connect(url, on_error=told.append) as connection:
        connection.subscribe(name, callback=fail)
        connection.publish(name, b"")
        until(lambda: told)
        assert isinstance(told[0], KeyError)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_does_not_touch_the_connection_of_its_parent(connection: Connection, name: str) -> None:
    subscription = connection.subscribe(name)
    connection.flush()
    pid = os.fork()
    if pid == 0:
        try:
            connection.publish(name, b"from the child")
        except errors.ConnectionClosedError as error:
            os._exit(7 if "the process was forked" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    connection.publish(name, b"from the parent")
    message = subscription.next(5)
    assert message is not None
    assert message.data == b"from the parent"


def test_ctrl_c_ends_a_wait_and_the_connection_goes_on(url: str) -> None:
    program = textwrap.dedent(
        f"""
        import sys
        from jetspark.client.sync import connect
        connection = connect({url!r})
        subscription = connection.subscribe("nothing")
        connection.flush()
        try:
            print("waiting", flush=True)
            subscription.next(30)
        except KeyboardInterrupt:
            connection.flush()
            connection.close()
            print("interrupted", flush=True)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert process.wait(10) == 0
    process.stdout.close()


def test_the_background_thread_keeps_an_idle_connection_alive(url: str, name: str) -> None:
    with connect(url, ping_interval=0.05) as connection:
        core = connection._core
        seen = {core.epoch}
        until(lambda: core._next_ping_s > 0)
        first = core._next_ping_s
        until(lambda: core._next_ping_s > first + 0.2)
        assert connection.is_connected
        assert seen == {core.epoch}


def test_priority_groups(jetstream: JetStream, stream: Stream, name: str) -> None:
    consumer: Consumer = stream.create_consumer("worker", priority_groups=["jobs"], priority_policy="pinned_client")
    fill(jetstream, f"{name}.a", 3)
    pinned: list[str] = []
    with consumer.consume(group="jobs", on_pinned=pinned.append) as messages:
        assert next(messages).ack()
        until(lambda: pinned)
    consumer.unpin("jobs")


def test_reading_in_order_leaves_no_consumer_behind(jetstream: JetStream, stream: Stream, name: str) -> None:
    fill(jetstream, f"{name}.a", 5)
    consumer = stream.ordered_consumer()
    with consumer.consume() as messages:
        assert next(messages).data == b"1"
    assert stream.consumer_names() == []
    with consumer:
        assert [message.data for message in consumer.fetch(2)] == [b"2", b"3"]
    assert stream.consumer_names() == []
