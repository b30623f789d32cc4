"""Draining a connection: what runs on it is finished, what is queued arrives, and then it is closed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from jetspark.client import errors, sync
from jetspark.client.aio import JetStream, Msg, Stream, connect
from tests.client.peer import ScriptedPeer
from tests.client.proxy import ChaosProxy
from tests.client.waiting import until

COUNT = 50


async def fill(jetstream: JetStream, subject: str) -> None:
    for i in range(COUNT):
        await jetstream.publish_async(subject, b"%d" % i)
    await jetstream.flush(10)


async def test_drain_finishes_consumes_subscriptions_and_publishes(
    jetstream: JetStream, stream: Stream, name: str, url: str
) -> None:
    await fill(jetstream, f"{name}.a")
    gate = asyncio.Event()
    consumed: list[bytes] = []
    pushed: list[bytes] = []

    async def on_consumed(message: Msg) -> None:
        await gate.wait()
        consumed.append(message.data)
        await message.ack()

    async def on_pushed(message: Msg) -> None:
        await gate.wait()
        pushed.append(message.data)
        await message.ack()

    connection = await connect(url)
    mine = connection.jetstream()
    consumer = await mine.create_consumer(name, "worker", filter_subject=f"{name}.a")
    consuming = consumer.consume(on_consumed)
    subscription = await mine.subscribe(f"{name}.a", callback=on_pushed)
    await until(lambda: consuming.pending_count + subscription.pending_count == 2 * COUNT - 2)
    futures = [await mine.publish_async(f"{name}.b", b"") for _ in range(100)]
    draining = asyncio.create_task(connection.drain())
    gate.set()
    await draining
    assert connection.is_closed
    assert (len(consumed), len(pushed)) == (COUNT, COUNT)
    assert [future.exception() for future in futures] == [None] * 100
    assert (await stream.consumer("worker")).cached_info.num_ack_pending == 0
    assert await stream.consumer_names() == ["worker"]


async def test_a_blocking_drain_finishes_consumes_subscriptions_and_publishes(
    jetstream: JetStream, stream: Stream, name: str, url: str
) -> None:
    await fill(jetstream, f"{name}.a")
    gate = threading.Event()
    handled: list[bytes] = []

    def on_message(message: sync.Msg) -> None:
        gate.wait(30)
        handled.append(message.data)
        message.ack()

    def use() -> list[BaseException | None]:
        connection = sync.connect(url)
        mine = connection.jetstream()
        consuming = mine.create_consumer(name, "worker", filter_subject=f"{name}.a").consume(on_message)
        subscription = mine.subscribe(f"{name}.a", callback=on_message)
        while consuming.pending_count + subscription.pending_count < 2 * COUNT - 2:
            connection.flush()
        futures = [mine.publish_async(f"{name}.b", b"") for _ in range(100)]
        opening = threading.Timer(0.0, gate.set)
        opening.start()
        connection.drain()
        opening.join()
        return [future.exception() for future in futures]

    assert await asyncio.to_thread(use) == [None] * 100
    assert len(handled) == 2 * COUNT
    assert (await stream.consumer("worker")).cached_info.num_ack_pending == 0
    assert await stream.consumer_names() == ["worker"]


async def test_drain_removes_the_consumer_of_an_iterator_without_waiting_for_it(
    jetstream: JetStream, stream: Stream, name: str, url: str
) -> None:
    await fill(jetstream, f"{name}.a")
    connection = await connect(url)
    subscription = await connection.jetstream().subscribe(f"{name}.a")
    await until(lambda: subscription.pending_count == COUNT)
    await connection.drain()
    assert await stream.consumer_names() == []
    assert len([message async for message in subscription]) == COUNT


async def test_drain_waits_for_a_lost_connection_and_sends_what_was_queued(
    jetstream: JetStream, stream: Stream, name: str, proxy: ChaosProxy
) -> None:
    await fill(jetstream, f"{name}.a")
    connection = await connect(proxy.url, reconnect_wait_max=0.2)
    consumer = await connection.jetstream().create_consumer(name, "worker")
    message = await consumer.next()
    assert message is not None
    proxy.shut()
    await until(lambda: not connection.is_connected)
    await message.ack()
    draining = asyncio.create_task(connection.drain())
    await until(lambda: connection.is_draining)
    proxy.reopen()
    await draining
    assert (await stream.consumer("worker")).cached_info.ack_floor.stream_seq == 1


@pytest.mark.long
async def test_drain_without_a_connection_fails_when_its_time_is_over(proxy: ChaosProxy) -> None:
    connection = await connect(proxy.url, reconnect_wait_max=0.2)
    blocking = await asyncio.to_thread(sync.connect, proxy.url, reconnect_wait_max=0.2)
    proxy.shut()
    await until(lambda: not connection.is_connected and not blocking.is_connected)
    await connection.publish("a", b"")
    with pytest.raises(errors.DrainTimeoutError, match="not connected, with 11 bytes still to be sent"):
        await connection.drain(0.1)
    assert connection.is_closed
    with pytest.raises(errors.DrainTimeoutError):
        await asyncio.to_thread(blocking.drain, 0.1)
    assert blocking.is_closed


@pytest.mark.parametrize("kind", ["core", "push", "consume"])
async def test_a_callback_that_does_not_end_in_time_is_told(
    jetstream: JetStream, stream: Stream, name: str, url: str, kind: str
) -> None:
    connection = await connect(url)
    mine = connection.jetstream()
    started = asyncio.Event()

    async def hang(message: Msg) -> None:
        started.set()
        await asyncio.Event().wait()

    if kind == "core":
        await connection.subscribe(f"{name}.a", callback=hang)
        await connection.flush()
    elif kind == "push":
        await mine.subscribe(f"{name}.a", callback=hang)
    else:
        (await mine.create_consumer(name, "worker")).consume(hang)
    await jetstream.publish(f"{name}.a", b"")
    await started.wait()
    with pytest.raises(errors.DrainTimeoutError):
        await connection.drain(0.1)
    assert connection.is_closed


async def test_drain_may_be_called_by_a_callback(jetstream: JetStream, stream: Stream, name: str, url: str) -> None:
    connection = await connect(url)

    async def drain(message: Msg) -> None:
        await message.ack()
        await connection.drain(10)

    consumer = await connection.jetstream().create_consumer(name, "worker")
    consumer.consume(drain)
    await jetstream.publish(f"{name}.a", b"")
    await until(lambda: connection.is_closed)
    assert (await stream.consumer("worker")).cached_info.num_ack_pending == 0


async def test_drain_tells_of_publishes_that_were_not_acknowledged(peer: ScriptedPeer) -> None:
    connection = await connect(peer.url)
    future = await connection.jetstream().publish_async("a", b"")
    with pytest.raises(errors.DrainTimeoutError, match="1 publishes were not acknowledged in time"):
        await connection.drain(0.1)
    assert isinstance(future.exception(), errors.PublishUnknownError)
