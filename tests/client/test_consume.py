"""Consuming without end: the buffer, heartbeats, reconnects, terminal errors, stop and drain."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from jetspark.client import errors
from jetspark.client.aio import Consumer, JetStream, Msg, Stream, connect
from jetspark.client.aio.consumer import consume_buffer
from tests.client.conftest import NatsServer
from tests.client.peer import ScriptedPeer
from tests.client.test_fetch import fill
from tests.client.waiting import until


async def test_row_68_the_iterator_goes_on_beyond_its_buffer(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 500)
    consumer = await stream.create_consumer("worker")
    seen: list[bytes] = []
    async with consumer.consume(max_messages=20) as messages:
        async for message in messages:
            await message.ack()
            seen.append(message.data)
            if len(seen) == 500:
                break
    assert seen == [b"%d" % i for i in range(1, 501)]


async def test_row_68_a_callback_gets_every_message(jetstream: JetStream, stream: Stream, name: str) -> None:
    consumer = await stream.create_consumer("worker")
    seen: list[bytes] = []

    async def handle(message: Msg) -> None:
        seen.append(message.data)
        await message.ack()

    async with consumer.consume(handle):
        await fill(jetstream, f"{name}.a", 50)
        await until(lambda: len(seen) == 50)


async def test_a_failing_callback_is_told_and_does_not_end_the_consume(
    jetstream: JetStream, stream: Stream, name: str, url: str
) -> None:
    told: list[BaseException] = []
    seen: list[bytes] = []

    def handle(message: Msg) -> None:
        seen.append(message.data)
        if message.data == b"1":
            raise ZeroDivisionError

    await stream.create_consumer("worker", ack_policy="none")
    async with await connect(url, on_error=told.append) as other:
        consumer = await other.jetstream().consumer(name, "worker")
        async with consumer.consume(handle):
            await fill(jetstream, f"{name}.a", 2)
            await until(lambda: len(seen) == 2 and told)
    assert isinstance(told[0], ZeroDivisionError)


async def test_next_of_a_running_consume_gives_none_in_time(jetstream: JetStream, stream: Stream, name: str) -> None:
    consumer = await stream.create_consumer("worker")
    async with consumer.consume() as messages:
        assert await messages.next(0.05) is None
        await fill(jetstream, f"{name}.a", 1)
        message = await messages.next(5)
        assert message is not None
        assert message.data == b"1"


class Pulls:
    """The requests a consume sends to a scripted peer."""

    def __init__(self, peer: ScriptedPeer) -> None:
        self.peer = peer
        self.inbox = ""
        self.sid = b""
        self.sequence = 0

    async def next(self) -> dict[str, Any]:
        line = await self.peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
        head, body = line.split(b"\r\n")[:2]
        if self.inbox:
            assert head.split()[2].decode() == self.inbox, "every pull uses the one subscription"
        self.inbox = head.split()[2].decode()
        self.sid = next(
            line for line in reversed(self.peer.lines) if line.startswith(b"SUB " + self.inbox.encode())
        ).split()[-1]
        return dict(json.loads(body))

    def deliver(self, count: int, data: bytes = b"x") -> None:
        for _ in range(count):
            self.sequence += 1
            self.peer.message("orders", self.sid, data, reply=f"$JS.ACK.S.C.1.{self.sequence}.{self.sequence}.1.0")

    def status(self, text: str, *headers: str) -> None:
        block = "".join([f"NATS/1.0 {text}\r\n", *[f"{header}\r\n" for header in headers], "\r\n"])
        self.peer.message(self.inbox, self.sid, header=block.encode())


@pytest.fixture
async def scripted(peer: ScriptedPeer) -> Any:
    async with await connect(peer.url, reconnect_wait=0.01) as connection:
        yield connection.jetstream().stream_handle("S").consumer_handle("C"), Pulls(peer)


Scripted = tuple[Consumer, Pulls]


async def test_row_69_71_and_78_defaults_and_one_subscription(scripted: Scripted) -> None:
    consumer, pulls = scripted
    async with consumer.consume():
        assert await pulls.next() == {"batch": 1000, "expires": 60 * 10**9, "idle_heartbeat": 30 * 10**9}


async def test_row_72_73_and_74_a_quarter_used_is_asked_for_again(scripted: Scripted) -> None:
    consumer, pulls = scripted
    async with consumer.consume(max_messages=10) as messages:
        assert (await pulls.next())["batch"] == 10
        pulls.deliver(7)
        for _ in range(3):  # ceil(25 %) of 10
            await messages.next(5)
        assert (await pulls.next())["batch"] == 3
        for _ in range(3):
            await messages.next(5)
        assert (await pulls.next())["batch"] == 3


async def test_row_72_a_buffer_of_one_still_refills(scripted: Scripted) -> None:
    consumer, pulls = scripted
    async with consumer.consume(max_messages=1) as messages:
        for _ in range(3):
            assert (await pulls.next())["batch"] == 1
            pulls.deliver(1)
            assert await messages.next(5) is not None


async def test_row_75_a_request_that_ends_is_subtracted_by_its_headers(scripted: Scripted) -> None:
    consumer, pulls = scripted
    async with consumer.consume(max_messages=100, threshold_messages=50) as messages:
        assert (await pulls.next())["batch"] == 100
        pulls.deliver(10)
        for _ in range(10):
            await messages.next(5)
        pulls.status("408 Request Timeout", "Nats-Pending-Messages: 90", "Nats-Pending-Bytes: 0")
        assert await messages.next(0.05) is None
        assert (await pulls.next())["batch"] == 100


async def test_row_70_and_76_bytes_are_counted_as_the_server_does(scripted: Scripted) -> None:
    consumer, pulls = scripted
    async with consumer.consume(max_bytes=1000) as messages:
        first = await pulls.next()
        assert (first["batch"], first["max_bytes"]) == (1_000_000, 1000)
        pulls.deliver(1, b"x" * 300)
        message = await messages.next(5)
        assert message is not None
        size = len("orders") + len("$JS.ACK.S.C.1.1.1.1.0") + 300
        assert message.size_bytes == size
        assert (await pulls.next())["max_bytes"] == size


@pytest.mark.parametrize(
    "options",
    [
        {"max_messages": 1, "max_bytes": 1},
        {"max_messages": 10, "threshold_messages": 11},
        {"threshold_bytes": 5},
        {"max_messages": -1},
    ],
)
def test_row_70_limits_that_contradict_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(errors.BadOptionError):
        consume_buffer(
            options.get("max_messages", 0), options.get("max_bytes", 0),
            options.get("threshold_messages", 0), options.get("threshold_bytes", 0),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("409 Consumer Deleted", errors.ConsumerDeletedError),
        ("409 Consumer is push based", errors.ConsumerIsPushError),
        ("409 Exceeded MaxRequestBatch of 2", errors.PullLimitError),
        ("400 Bad Request - heartbeat value too large", errors.BadPullError),
        ("412 Required Api Level", errors.BadPullError),
        ("503", errors.PullUnavailableError),
        ("418 I'm a teapot", errors.PullError),
    ],
)
async def test_row_77_an_error_without_pending_headers_ends_the_consume(
    scripted: Scripted, status: str, error: type[BaseException]
) -> None:
    consumer, pulls = scripted
    messages = consumer.consume()
    await pulls.next()
    pulls.deliver(1)
    pulls.status(status)
    assert await messages.next(5) is not None
    with pytest.raises(error):
        await asyncio.wait_for(anext(messages), 5)
    assert messages.is_closed
    with pytest.raises(StopAsyncIteration):
        await anext(messages)
    await pulls.peer.expect(b"UNSUB " + pulls.sid)


@pytest.mark.parametrize("status", ["409 Leadership Change", "423 Nats-Pin-Id mismatch"])
async def test_statuses_that_only_mean_ask_again_do(scripted: Scripted, status: str) -> None:
    consumer, pulls = scripted
    async with consumer.consume(max_messages=5) as messages:
        await pulls.next()
        pulls.status(status)
        assert await messages.next(0.05) is None
        assert (await pulls.next())["batch"] == 5


async def test_row_79_two_heartbeats_missed_end_the_consume(scripted: Scripted) -> None:
    consumer, pulls = scripted
    messages = consumer.consume(expires=1, idle_heartbeat=0.05)
    await pulls.next()
    with pytest.raises(errors.HeartbeatMissedError):
        await asyncio.wait_for(anext(messages), 5)


async def test_row_79_or_asks_again_when_told_to(scripted: Scripted) -> None:
    consumer, pulls = scripted
    messages = consumer.consume(expires=1, idle_heartbeat=0.05, on_heartbeat_miss="repull", max_messages=7)
    taking = asyncio.create_task(anext(messages))
    assert (await pulls.next())["batch"] == 7
    assert (await pulls.next())["batch"] == 7
    pulls.deliver(1)
    assert (await asyncio.wait_for(taking, 5)).data == b"x"
    await messages.stop()


@pytest.mark.long
async def test_row_79_also_when_it_is_polled(scripted: Scripted) -> None:
    consumer, pulls = scripted

    async def poll() -> Any:
        while (message := await messages.next(timeout=0.03)) is None:
            pass
        return message

    messages = consumer.consume(expires=1, idle_heartbeat=0.05, on_heartbeat_miss="repull", max_messages=7)
    taking = asyncio.create_task(poll())
    for _ in range(3):
        assert (await pulls.next())["batch"] == 7
    pulls.deliver(1)
    assert (await asyncio.wait_for(taking, 5)).data == b"x"
    await messages.stop()


@pytest.mark.long
async def test_row_80_anything_heard_resets_the_heartbeat(scripted: Scripted) -> None:
    consumer, pulls = scripted
    messages = consumer.consume(expires=1, idle_heartbeat=0.1)
    await pulls.next()
    taking = asyncio.create_task(anext(messages))
    loop = asyncio.get_running_loop()
    for step in range(1, 6):
        loop.call_later(step * 0.08, pulls.status, "100 Idle Heartbeat", "Nats-Last-Consumer: 0")
    loop.call_later(0.45, pulls.deliver, 1)
    assert (await asyncio.wait_for(taking, 5)).data == b"x"
    await messages.stop()


@pytest.mark.long
async def test_row_80_and_82_the_heartbeat_rests_while_disconnected_and_then_it_pulls_again(
    make_server: Any, name: str
) -> None:
    server: NatsServer = make_server()
    async with await connect(server.url) as connection:
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream(name, subjects=[name])
        consumer = await stream.create_consumer("worker")
        messages = consumer.consume(expires=1, idle_heartbeat=0.1)
        taking = asyncio.create_task(anext(messages))
        await until(lambda: _waiting(consumer))
        server.stop()
        await until(lambda: not connection.is_connected)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(taking), 0.5)
        server.start()
        await until(lambda: connection.is_connected)
        await jetstream.publish(name, b"after")
        assert (await asyncio.wait_for(taking, 10)).data == b"after"
        await messages.stop()


async def _waiting(consumer: Consumer) -> bool:
    return (await consumer.info()).num_waiting > 0


@pytest.mark.long
async def test_row_81_a_consumer_gone_after_the_reconnect_ends_the_consume(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()
    async with await connect(server.url) as connection:
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream(name, subjects=[name])
        consumer = await stream.create_consumer("worker", mem_storage=True, inactive_threshold=0.1)
        taking = asyncio.create_task(anext(consumer.consume()))
        await until(lambda: _waiting(consumer))
        server.stop()
        (server.folder / "store").rename(server.folder / "store-gone")
        server.start()
        with pytest.raises(errors.ConsumerDeletedError):
            await asyncio.wait_for(taking, 15)


async def test_row_83_drain_delivers_the_buffer_and_pulls_no_more(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 30)
    consumer = await stream.create_consumer("worker")
    messages = consumer.consume(max_messages=10)
    await until(lambda: messages.pending_count == 10)
    await messages.drain()
    assert len([message async for message in messages]) == 10
    assert (await consumer.info()).num_waiting == 0
    assert (await consumer.info()).num_pending == 20


async def test_row_83_drain_waits_for_the_callback(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 30)
    consumer = await stream.create_consumer("worker")
    seen: list[Msg] = []

    async def handle(message: Msg) -> None:
        seen.append(message)
        await message.ack(wait=True)

    messages = consumer.consume(handle, max_messages=10)
    await until(lambda: len(seen) >= 3)
    await messages.drain()
    assert messages.is_closed
    assert (await consumer.info()).ack_floor.stream_seq == len(seen)


async def test_stop_ends_the_iterator_at_once(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 30)
    consumer = await stream.create_consumer("worker")
    messages = consumer.consume()
    assert (await anext(messages)).data == b"1"
    await messages.stop()
    assert [message async for message in messages] == []


async def test_a_closed_connection_ends_the_consume_with_an_error(stream: Stream, name: str, url: str) -> None:
    await stream.create_consumer("worker")
    connection = await connect(url)
    messages = (await connection.jetstream().consumer(name, "worker")).consume()
    taking = asyncio.create_task(anext(messages))
    await connection.flush()
    await connection.close()
    with pytest.raises(errors.ConnectionClosedError):
        await asyncio.wait_for(taking, 5)


async def test_a_terminal_error_of_a_callback_consume_reaches_the_hook(stream: Stream, name: str, url: str) -> None:
    told: asyncio.Queue[BaseException] = asyncio.Queue()
    async with await connect(url, on_error=told.put_nowait) as connection:
        await stream.create_consumer("worker")
        consumer = await connection.jetstream().consumer(name, "worker")
        messages = consumer.consume(lambda message: None)
        await until(lambda: _waiting(consumer))
        await consumer.delete()
        assert isinstance(await asyncio.wait_for(told.get(), 5), errors.ConsumerDeletedError)
        with pytest.raises(errors.ConsumerDeletedError):
            await messages.wait_closed(5)
