"""One server, killed at the worst moment and started again on its store: what was acked is there, and reading goes on.

The promise of the cluster tests for those who have one server, on both servers and both faces.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from jetspark.client import sync
from jetspark.client.aio import connect
from jetspark.client.errors import PublishError
from jetspark.client.infos import PubAck
from jetspark.errors import JetsparkError
from tests.client.conftest import NatsServer

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"reconnect_wait": 0.02, "reconnect_wait_max": 0.2, "request_timeout": 3}
COUNT = 1200


def revive(server: NatsServer) -> None:
    server.kill()
    server.start()


async def read_all(url: str, stream: str) -> dict[int, bytes]:
    async with await connect(url) as connection:
        handle = await connection.jetstream().stream(stream)
        last = handle.cached_info.state.last_seq
        consumer = await handle.ordered_consumer()
        found: dict[int, bytes] = {}
        while len(found) < last:
            batch = await consumer.fetch(min(500, last - len(found)))
            assert batch, f"{len(found)} of {last}"
            found.update({message.metadata.stream_sequence: message.data for message in batch})
    return found


def check_outcomes(outcomes: list[object], found: dict[int, bytes]) -> None:
    acked = {one.seq: b"%d" % i for i, one in enumerate(outcomes) if isinstance(one, PubAck)}
    assert len(acked) >= COUNT // 4
    assert [one for one in outcomes if not isinstance(one, PubAck | PublishError)] == []
    assert {seq: found.get(seq) for seq in acked} == acked


async def test_nothing_acked_is_lost_when_the_server_dies_during_publish(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()
    async with await connect(server.url, **OPTIONS) as connection, asyncio.timeout(50):
        jetstream = connection.jetstream(publish_window=100)
        await jetstream.create_stream(name, subjects=[name])
        futures = []
        killing: asyncio.Task[None] | None = None
        for i in range(COUNT):
            futures.append(await jetstream.publish_async(name, b"%d" % i, timeout=8))
            if i == COUNT // 2:
                killing = asyncio.create_task(asyncio.to_thread(revive, server))
        outcomes: list[object] = []
        for future in futures:
            try:
                outcomes.append(await future.wait(30))
            except JetsparkError as error:
                outcomes.append(error)
        assert killing is not None
        await killing
    check_outcomes(outcomes, await read_all(server.url, name))


async def test_nothing_acked_to_a_thread_is_lost_when_the_server_dies(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()

    def publish() -> list[object]:
        with sync.connect(server.url, **OPTIONS) as connection:
            jetstream = connection.jetstream(publish_window=100)
            jetstream.create_stream(name, subjects=[name])
            futures = []
            for i in range(COUNT):
                futures.append(jetstream.publish_async(name, b"%d" % i, timeout=8))
                if i == COUNT // 2:
                    revive(server)
            outcomes: list[object] = []
            for future in futures:
                try:
                    outcomes.append(future.wait(30))
                except JetsparkError as error:
                    outcomes.append(error)
            return outcomes

    outcomes = await asyncio.to_thread(publish)
    check_outcomes(outcomes, await read_all(server.url, name))


def consume_through(server: NatsServer, name: str, ordered: bool) -> list[int]:
    """Every sequence in the order it came, with the server killed half way."""
    seen: list[int] = []
    with sync.connect(server.url, **OPTIONS) as connection:
        stream = connection.jetstream().create_stream(name, subjects=[name])
        jetstream = connection.jetstream()
        for i in range(COUNT):
            jetstream.publish_async(name, b"%d" % i)
        jetstream.flush(20)
        options: dict[str, Any] = {"max_messages": 100, "expires": 2, "idle_heartbeat": 0.5}
        if ordered:
            messages = stream.ordered_consumer().consume(**options)
        else:
            messages = stream.create_consumer("worker", ack_wait=2).consume(on_heartbeat_miss="repull", **options)
        with messages:
            killed = False
            while len(set(seen)) < COUNT and (message := messages.next(20)) is not None:
                seen.append(message.metadata.stream_sequence)
                # An ack of the moment of the kill may be lost with its connection: then the message comes again.
                with contextlib.suppress(JetsparkError):
                    message.ack()
                if len(seen) == COUNT // 2 and not killed:
                    killed = True
                    revive(server)
    return seen


@pytest.mark.parametrize("ordered", [False, True], ids=["worker", "ordered"])
async def test_a_consume_of_a_thread_goes_on_when_the_server_dies(make_server: Any, name: str, ordered: bool) -> None:
    seen = await asyncio.to_thread(consume_through, make_server(), name, ordered)
    assert set(seen) == set(range(1, COUNT + 1))
    if ordered:
        assert seen == list(range(1, COUNT + 1))


async def test_a_consume_goes_on_when_the_server_dies(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()
    seen: set[int] = set()
    async with await connect(server.url, **OPTIONS) as connection, asyncio.timeout(50):
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream(name, subjects=[name])
        for i in range(COUNT):
            await jetstream.publish_async(name, b"%d" % i)
        await jetstream.flush(20)
        consumer = await stream.create_consumer("worker", ack_wait=2)
        options: dict[str, Any] = {"max_messages": 100, "expires": 2, "idle_heartbeat": 0.5}
        killed = False
        async with consumer.consume(on_heartbeat_miss="repull", **options) as messages:
            async for message in messages:
                seen.add(message.metadata.stream_sequence)
                await message.ack()
                if len(seen) == COUNT // 2 and not killed:
                    killed = True
                    await asyncio.to_thread(revive, server)
                if len(seen) == COUNT:
                    break
    assert seen == set(range(1, COUNT + 1))
