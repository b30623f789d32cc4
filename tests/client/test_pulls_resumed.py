"""Pulls and lost connections: however a pull is made, what is delivered to it is what was asked for, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from jetspark.client import sync
from jetspark.client.aio import Connection, Consumer, JetStream, Stream, connect
from jetspark.client.core.connection import ConnectionCore
from jetspark.client.errors import ConnectionClosedError
from jetspark.protocol.nuid import Nuid
from tests.client.peer import INFO, ScriptedPeer
from tests.client.proxy import ChaosProxy
from tests.client.waiting import give_way, until

pytest.importorskip("pyarrow", reason="no pyarrow: pip install 'jetspark[arrow]'")

Take = Callable[[Consumer], Coroutine[Any, Any, int]]


async def by_fetch(consumer: Consumer) -> int:
    return len(await consumer.fetch(10, expires=10))


async def by_next(consumer: Consumer) -> int:
    return len([await consumer.next(expires=10)])


async def by_each(consumer: Consumer) -> int:
    return len([message async for message in consumer.fetch_each(10, expires=10)])


async def by_arrow(consumer: Consumer) -> int:
    count: int = (await consumer.fetch_arrow(10, expires=10)).num_rows
    return count


async def by_no_wait(consumer: Consumer) -> int:
    return len(await consumer.fetch(10, expires=1, no_wait=True))


@pytest.fixture
async def cut_off(proxy: ChaosProxy) -> AsyncIterator[Connection]:
    """A connection through the proxy."""
    async with await connect(proxy.url, reconnect_wait=0.01, reconnect_wait_max=0.1) as made:
        yield made


async def publish(jetstream: JetStream, subject: str, count: int) -> None:
    for number in range(count):
        await jetstream.publish_async(subject, b"%d" % number)
    await jetstream.flush(10)


async def delivered(stream: Stream, connection: Connection) -> int:
    """How many messages the consumer has given away, once the server has read everything."""
    await connection.flush()
    return (await (await stream.consumer("c")).info()).delivered.consumer_seq


@pytest.mark.parametrize(
    ("take", "count"), [(by_fetch, 10), (by_next, 1), (by_each, 10), (by_arrow, 10), (by_no_wait, 10)]
)
async def test_a_pull_begun_without_a_connection_is_made_once(
    jetstream: JetStream, stream: Stream, name: str, proxy: ChaosProxy, cut_off: Connection, take: Take, count: int
) -> None:
    await publish(jetstream, f"{name}.a", 50)
    await stream.create_consumer("c", ack_policy="none")
    consumer = await cut_off.jetstream().consumer(name, "c")
    proxy.shut()
    await until(lambda: not cut_off.is_connected)
    taking = asyncio.create_task(take(consumer))
    await give_way()
    proxy.reopen()
    assert await asyncio.wait_for(taking, 15) == count
    assert await delivered(stream, cut_off) == count


@pytest.mark.parametrize(("take", "count"), [(by_fetch, 10), (by_next, 1), (by_each, 10), (by_arrow, 10)])
async def test_a_pull_the_server_remembers_is_not_answered_beside_the_new_one(
    jetstream: JetStream, stream: Stream, name: str, proxy: ChaosProxy, cut_off: Connection, take: Take, count: int
) -> None:
    """The connection comes back before the server has noticed that nobody listens to the first pull any more."""
    await stream.create_consumer("c", ack_policy="none")
    consumer = await cut_off.jetstream().consumer(name, "c")
    taking = asyncio.create_task(take(consumer))
    await until(lambda: _is_waited_for(stream))
    proxy.shut()
    await until(lambda: not cut_off.is_connected)
    proxy.reopen()
    await until(lambda: cut_off.is_connected)
    await cut_off.flush()
    await publish(jetstream, f"{name}.a", 50)
    assert await asyncio.wait_for(taking, 15) == count
    assert await delivered(stream, cut_off) == count


async def _is_waited_for(stream: Stream) -> bool:
    return (await (await stream.consumer("c")).info()).num_waiting > 0


@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_pull_subscription_asks_once_on_each_connection(
    jetstream: JetStream, stream: Stream, name: str, proxy: ChaosProxy, cut_off: Connection, batch: int, is_begun: bool
) -> None:
    subscription = await cut_off.jetstream().pull_subscribe(f"{name}.a", durable="c")
    taking = asyncio.create_task(subscription.fetch(batch, timeout=10)) if is_begun else None
    if is_begun:
        await until(lambda: _is_waited_for(stream))
    proxy.shut()
    await until(lambda: not cut_off.is_connected)
    if taking is None:
        await publish(jetstream, f"{name}.a", 50)
        taking = asyncio.create_task(subscription.fetch(batch, timeout=10))
        await give_way()
    proxy.reopen()
    await until(lambda: cut_off.is_connected)
    await cut_off.flush()
    if is_begun:
        await publish(jetstream, f"{name}.a", 50)
    got = len(await asyncio.wait_for(taking, 15))
    # The lingering pull ends with the first messages; what else was on its way is kept for the next fetch.
    kept = len(subscription._leftovers)
    assert got + kept == await delivered(stream, cut_off)
    assert 1 <= got <= batch


async def test_a_consume_that_comes_back_gets_no_more_than_its_buffer_holds(
    jetstream: JetStream, stream: Stream, name: str, proxy: ChaosProxy, cut_off: Connection
) -> None:
    await stream.create_consumer("c", ack_policy="none")
    consumer = await cut_off.jetstream().consumer(name, "c")
    async with consumer.consume(max_messages=10) as consuming:
        taking = asyncio.create_task(consuming.next(10))
        await until(lambda: _is_waited_for(stream))
        proxy.shut()
        await until(lambda: not cut_off.is_connected)
        proxy.reopen()
        await until(lambda: cut_off.is_connected)
        await cut_off.flush()
        await publish(jetstream, f"{name}.a", 50)
        assert await asyncio.wait_for(taking, 15) is not None
        assert await delivered(stream, cut_off) == 10


async def test_a_blocking_pull_begun_without_a_connection_is_made_once(
    jetstream: JetStream, stream: Stream, name: str, proxy: ChaosProxy, cut_off: Connection
) -> None:
    await publish(jetstream, f"{name}.a", 50)
    await stream.create_consumer("c", ack_policy="none")

    def connect_blocking() -> tuple[sync.Connection, sync.Consumer]:
        connection = sync.connect(proxy.url, reconnect_wait=0.01, reconnect_wait_max=0.1)
        return connection, connection.jetstream().consumer(name, "c")

    connection, consumer = await asyncio.to_thread(connect_blocking)
    proxy.shut()
    await until(lambda: not connection.is_connected and not cut_off.is_connected)
    taking = asyncio.create_task(asyncio.to_thread(consumer.fetch, 10, expires=10))
    # The request mux, and the fetch.
    await until(lambda: len(connection._link.core.routes) == 2)
    proxy.reopen()
    got = await asyncio.wait_for(taking, 15)
    await until(lambda: cut_off.is_connected)
    await asyncio.to_thread(connection.flush)
    assert len(got) == await delivered(stream, cut_off) == 10
    await asyncio.to_thread(connection.close)


async def test_a_pull_is_asked_again_on_another_subject(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, reconnect_wait=0.01) as connection:
        consumer = connection.jetstream().stream_handle("S").consumer_handle("C")
        fetching = asyncio.create_task(consumer.fetch(2, expires=10))
        first = await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
        peer.message("orders", b"1", b"x", reply="$JS.ACK.S.C.1.1.1.1.0")
        peer.cut()
        subscription = await peer.expect(b"SUB ")
        second = await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
        assert subscription == b"SUB " + second.split()[2] + b" 1\r\n"
        assert second.split()[2] != first.split()[2]
        peer.message("orders", b"1", b"y", reply="$JS.ACK.S.C.1.2.2.1.0")
        assert [message.data for message in await asyncio.wait_for(fetching, 5)] == [b"x", b"y"]
        await connection.flush()
        assert sum(b"MSG.NEXT" in line for line in peer.lines) == 2


def come_up(core: ConnectionCore) -> bytes:
    """Connect; what is written then."""
    core.attach()
    core.feed(INFO)
    core.connect({})
    core.take_output()
    core.feed(b"PONG\r\n")
    return core.take_output()


def test_a_pull_belongs_to_one_connection() -> None:
    core = ConnectionCore(Nuid(bytes), "_INBOX", 1 << 20, lambda *parts: parts, None)  # type: ignore[arg-type] # no message is made
    inbox = core.add_pull_inbox(None)
    assert core.pull("next", inbox, b"1") == 0
    assert come_up(core) == b"SUB %b 1\r\n" % inbox.subject
    first = inbox.subject

    assert core.pull("next", inbox, b"2") == core.epoch
    core.publish("other", b"", b"", b"kept")
    core.detach(ConnectionResetError())

    assert core.out_bytes == len(b"PUB other 4\r\nkept\r\n")
    assert come_up(core) == b"SUB %b 1\r\nPUB other 4\r\nkept\r\n" % inbox.subject
    assert inbox.subject != first
    core.pull("next", inbox, b"3")
    assert core.take_output() == b"PUB next %b 1\r\n3\r\n" % inbox.subject
    core.close(None)
    with pytest.raises(ConnectionClosedError):
        core.pull("next", inbox, b"4")
