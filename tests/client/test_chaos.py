"""A connection that is cut, stalled and garbled at random: nothing hangs, and every outcome has a name."""

from __future__ import annotations

import asyncio
import contextlib
import os

import pytest

from jetspark.client.aio import JetStream, PublishFuture, Stream, connect
from jetspark.errors import JetsparkError
from tests.client.conftest import NatsServer
from tests.client.proxy import ChaosProxy

SEEDS = int(os.environ.get("JETSPARK_CHAOS_SEEDS", "4"))


async def publish_through(jetstream: JetStream, subject: str, count: int) -> list[PublishFuture]:
    futures = []
    for i in range(count):
        with contextlib.suppress(JetsparkError):
            futures.append(await jetstream.publish_async(subject, b"%d" % i, timeout=3))
        if i % 20 == 0:
            await asyncio.sleep(0)  # noqa: TID251 - gives way, does not wait
    return futures


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_every_publish_future_resolves_and_what_was_acked_is_there(
    shared_server: NatsServer, jetstream: JetStream, name: str, seed: int
) -> None:
    stream = await jetstream.create_stream(name, subjects=[name], storage="memory")
    async with ChaosProxy(shared_server.port, seed) as proxy:
        connection = await connect(proxy.url, reconnect_wait=0.01, reconnect_wait_max=0.05, ping_interval=0.5)
        async with connection:
            proxy.calm = False
            futures = await publish_through(connection.jetstream(publish_window=50), name, 400)
            proxy.calm = True
            done = [asyncio.create_task(future.wait()) for future in futures]
            async with asyncio.timeout(20):
                outcomes = await asyncio.gather(*done, return_exceptions=True)
    assert [one for one in outcomes if isinstance(one, BaseException) and not isinstance(one, JetsparkError)] == []
    acked = [one.seq for one in outcomes if not isinstance(one, BaseException)]
    assert len(acked) == len(set(acked))
    assert acked == [] or max(acked) <= (await stream.info()).state.last_seq


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_consume_goes_on_or_ends_with_a_named_error(
    shared_server: NatsServer, jetstream: JetStream, name: str, seed: int
) -> None:
    stream = await jetstream.create_stream(name, subjects=[name], storage="memory")
    await stream.create_consumer("worker", ack_wait=1)
    for i in range(300):
        await jetstream.publish_async(name, b"%d" % i)
    await jetstream.flush(10)
    count = 0
    async with ChaosProxy(shared_server.port, seed) as proxy:
        connection = await connect(proxy.url, reconnect_wait=0.01, reconnect_wait_max=0.05, ping_interval=0.5)
        async with connection, asyncio.timeout(30):
            proxy.calm = False
            while not await _all_settled(stream):
                # A garbled pull may end the consume with a named error; then a new one goes on where it ended.
                with contextlib.suppress(JetsparkError):
                    consumer = connection.jetstream(timeout=0.3).stream_handle(name).consumer_handle("worker")
                    async with consumer.consume(max_messages=30, expires=1, idle_heartbeat=0.2) as messages:
                        while (message := await messages.next(0.5)) is not None:
                            await message.ack()
                            count += 1
                            if count > 150:
                                proxy.calm = True
    assert count > 150


async def _all_settled(stream: Stream) -> bool:
    info = await (await stream.consumer("worker")).info()
    return info.num_pending == 0 and info.num_ack_pending == 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_an_ordered_consumer_sees_everything_in_order(
    shared_server: NatsServer, jetstream: JetStream, name: str, seed: int
) -> None:
    await jetstream.create_stream(name, subjects=[name], storage="memory")
    for i in range(1, 601):
        await jetstream.publish_async(name, b"%d" % i)
    await jetstream.flush(10)
    seen: list[int] = []
    async with ChaosProxy(shared_server.port, seed, ("cut", "cut inside", "stall")) as proxy:
        connection = await connect(proxy.url, reconnect_wait=0.01, reconnect_wait_max=0.05, ping_interval=0.5)
        async with connection, asyncio.timeout(40):
            consumer = await connection.jetstream(timeout=0.5).stream_handle(name).ordered_consumer()
            proxy.calm = False
            while len(seen) < 600:
                with contextlib.suppress(JetsparkError):
                    async with consumer.consume(max_messages=50, expires=1, idle_heartbeat=0.2) as messages:
                        async for message in messages:
                            seen.append(message.metadata.stream_sequence)
                            if len(seen) > 300:
                                proxy.calm = True
                            if len(seen) >= 600:
                                break
    assert seen == sorted(seen)
    assert seen == list(range(1, 601))
