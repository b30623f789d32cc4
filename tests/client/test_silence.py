"""A server that falls silent is noticed by whoever reads, also by a reader that polls with short time limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import jetspark.sync
from jetspark.client import errors
from jetspark.client.aio import Consumer, JetStream, connect
from jetspark.client.core.silence import LOOK_S, Silence
from tests.client.conftest import NatsServer

HEARTBEAT_S = 0.2


def test_the_limit_counts_from_the_last_arrival_however_often_it_is_asked() -> None:
    silence = Silence(2.0, 100.0)
    polled = [silence.is_over(100.0 + step / 10, 0) for step in range(25)]
    assert polled.index(True) == 20

    assert not silence.is_over(102.5, 1)
    assert not silence.is_over(104.4, 1)
    assert silence.is_over(104.5, 1)
    silence.restart(104.5, 1)
    assert not silence.is_over(106.4, 1)


def test_a_wait_ends_when_the_limit_does_or_the_callers_own_time() -> None:
    silence = Silence(2.0, 100.0)
    assert silence.wait_s(100.5, 0, None) == 1.5
    assert silence.wait_s(100.5, 0, 0.3) == 0.3
    # Late, but what has arrived may not have been read yet.
    assert silence.wait_s(500.0, 0, None) == LOOK_S
    assert Silence(0.0, 100.0).wait_s(500.0, 0, None) is None
    assert not Silence(0.0, 100.0).is_over(500.0, 0)


async def polled(take: Callable[[float], Awaitable[Any]], timeout_s: float) -> Any:
    """Ask again and again, each time for a moment, until there is a message."""
    async with asyncio.timeout(20):
        while (message := await take(timeout_s)) is None:
            pass
        return message


async def cancelled_each_time(messages: Any, timeout_s: float) -> Any:
    taking = asyncio.ensure_future(anext(messages))
    done, _ = await asyncio.wait({taking}, timeout=timeout_s)
    if done:
        return taking.result()
    taking.cancel()
    await asyncio.wait({taking})
    return None


@pytest.fixture
def server(make_server: Callable[..., NatsServer]) -> NatsServer:
    return make_server()


@pytest.fixture
async def told() -> list[BaseException]:
    return []


@pytest.fixture
async def jetstream(server: NatsServer, told: list[BaseException]) -> AsyncIterator[JetStream]:
    async with await connect(server.url, on_error=told.append) as connection:
        made = connection.jetstream()
        await made.create_stream("S", subjects=["s"], storage="memory")
        yield made
        server.thaw()


@pytest.fixture
async def consumer(jetstream: JetStream) -> Consumer:
    return await (await jetstream.stream("S")).create_consumer("C")


@pytest.mark.long
@pytest.mark.parametrize("timeout_s", [0.0, 0.01, 0.1])
async def test_a_consume_that_is_polled_raises(server: NatsServer, consumer: Consumer, timeout_s: float) -> None:
    messages = consumer.consume(expires=2, idle_heartbeat=HEARTBEAT_S)
    # Heartbeats come: no silence.
    assert await messages.next(timeout=4 * HEARTBEAT_S) is None
    server.freeze()

    with pytest.raises(errors.HeartbeatMissedError):
        await polled(messages.next, timeout_s)


@pytest.mark.long
@pytest.mark.parametrize("way", ["consume", "consume_arrow"])
async def test_a_consume_whose_waits_are_cancelled_raises(server: NatsServer, consumer: Consumer, way: str) -> None:
    messages = getattr(consumer, way)(expires=2, idle_heartbeat=HEARTBEAT_S)
    server.freeze()

    with pytest.raises(errors.HeartbeatMissedError):
        await polled(lambda limit_s: cancelled_each_time(messages, limit_s), 0.1)


@pytest.mark.long
async def test_an_ordered_consume_that_is_polled_starts_over(server: NatsServer, jetstream: JetStream) -> None:
    consumer = await (await jetstream.stream("S")).ordered_consumer()
    messages = consumer.consume(expires=60, idle_heartbeat=HEARTBEAT_S)
    assert await messages.next(timeout=0.1) is None
    first = (await consumer.info()).name
    server.freeze()
    polling = asyncio.create_task(polled(messages.next, 0.1))
    # It wants a new consumer, which a frozen server does not make.
    await asyncio.wait({polling}, timeout=4 * HEARTBEAT_S)
    server.thaw()
    await jetstream.publish("s", b"after")

    assert (await polling).data == b"after"
    assert (await consumer.info()).name != first
    await messages.stop()


@pytest.mark.long
async def test_a_push_subscription_that_is_polled_tells(
    server: NatsServer, jetstream: JetStream, told: list[BaseException]
) -> None:
    subscription = await jetstream.subscribe("s", idle_heartbeat=HEARTBEAT_S)
    server.freeze()
    polling = asyncio.create_task(polled(subscription.next, 0.05))
    async with asyncio.timeout(20):
        while len(told) < 2:
            await asyncio.wait({polling}, timeout=0.05)
    server.thaw()
    await jetstream.publish("s", b"after")

    assert (await polling).data == b"after"
    assert {type(error) for error in told} == {errors.HeartbeatMissedError}


@pytest.mark.long
async def test_an_ordered_push_subscription_that_is_polled_starts_over(
    server: NatsServer, jetstream: JetStream
) -> None:
    subscription = await jetstream.subscribe("s", ordered=True, idle_heartbeat=HEARTBEAT_S)
    first = subscription.consumer_name
    server.freeze()
    polling = asyncio.create_task(polled(subscription.next, 0.05))
    await asyncio.wait({polling}, timeout=6 * HEARTBEAT_S)
    server.thaw()
    await jetstream.publish("s", b"after")

    assert (await polling).data == b"after"
    assert subscription.consumer_name != first


@pytest.mark.long
def test_a_blocking_reader_that_polls_notices_too(server: NatsServer) -> None:
    with jetspark.sync.connect(server.url) as connection:
        stream = connection.jetstream().create_stream("S", subjects=["s"], storage="memory")
        messages = stream.create_consumer("C").consume(expires=2, idle_heartbeat=HEARTBEAT_S)
        server.freeze()

        def poll() -> None:
            while messages.next(timeout=0.05) is None:
                pass

        with pytest.raises(errors.HeartbeatMissedError):
            poll()
        server.thaw()
