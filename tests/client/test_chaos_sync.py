"""The blocking face behind a connection that is cut, stalled and garbled: nothing hangs, every outcome has a name.

The proxy runs in the test's loop and the client in threads of its own. `JETSPARK_CHAOS_SEEDS` asks for more seeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from typing import Any

import pytest

from jetspark.client import sync
from jetspark.client.aio import JetStream
from jetspark.client.infos import PubAck
from jetspark.errors import JetsparkError
from tests.client.conftest import NatsServer
from tests.client.proxy import FAULTS, ChaosProxy

SEEDS = int(os.environ.get("JETSPARK_CHAOS_SEEDS", "2"))
OPTIONS: dict[str, Any] = {
    "reconnect_wait": 0.01,
    "reconnect_wait_max": 0.05,
    "ping_interval": 0.3,
    "connect_timeout": 1,
    # Nothing goes wrong before the first connect is done, but a slow machine may take longer for it.
    "retry_first_connect": True,
}
# Each several times: a short life should see more of them than a long one.
OFTEN = FAULTS * 4


def publish_all(proxy: ChaosProxy, subject: str, count: int) -> list[PubAck | JetsparkError]:
    """What became of every publish: its acknowledgement, or its error."""
    with sync.connect(proxy.url, **OPTIONS) as connection:
        jetstream = connection.jetstream(publish_window=50)
        proxy.calm = False
        futures: list[sync.PublishFuture] = []
        for i in range(count):
            with contextlib.suppress(JetsparkError):
                futures.append(jetstream.publish_async(subject, b"%d" % i, timeout=3))
            if i % 20 == 0 and futures:
                # Not too fast: each of these is another chance for the proxy.
                with contextlib.suppress(JetsparkError):
                    futures[-1].wait()
        proxy.calm = True
        outcomes: list[PubAck | JetsparkError] = []
        for future in futures:
            try:
                outcomes.append(future.wait(20))
            except JetsparkError as error:
                outcomes.append(error)
        return outcomes


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_every_publish_of_a_thread_resolves_and_what_was_acked_is_there(
    shared_server: NatsServer, jetstream: JetStream, name: str, seed: int
) -> None:
    stream = await jetstream.create_stream(name, subjects=[name], storage="memory")
    async with ChaosProxy(shared_server.port, seed, OFTEN) as proxy:
        async with asyncio.timeout(40):
            outcomes = await asyncio.to_thread(publish_all, proxy, name, 400)
    acked = [one.seq for one in outcomes if not isinstance(one, JetsparkError)]
    assert len(acked) == len(set(acked))
    assert acked == [] or max(acked) <= (await stream.info()).state.last_seq
    assert proxy.faults


def read_in_order(proxy: ChaosProxy, stream: str, count: int) -> list[int]:
    seen: list[int] = []
    deadline_s = time.monotonic() + 40
    with sync.connect(proxy.url, **OPTIONS) as connection:
        consumer = connection.jetstream(timeout=0.5).stream_handle(stream).ordered_consumer()
        proxy.calm = False
        while len(seen) < count and time.monotonic() < deadline_s:
            with (
                contextlib.suppress(JetsparkError),
                consumer.consume(max_messages=50, expires=1, idle_heartbeat=0.2) as messages,
            ):
                while len(seen) < count and (message := messages.next(5)) is not None:
                    seen.append(message.metadata.stream_sequence)
                    if len(seen) > count // 2:
                        proxy.calm = True
    return seen


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_an_ordered_consumer_of_a_thread_sees_everything_in_order(
    shared_server: NatsServer, jetstream: JetStream, name: str, seed: int
) -> None:
    await jetstream.create_stream(name, subjects=[name], storage="memory")
    for i in range(600):
        await jetstream.publish_async(name, b"%d" % i)
    await jetstream.flush(10)
    async with ChaosProxy(shared_server.port, seed, ("cut", "cut inside", "stall")) as proxy:
        seen = await asyncio.to_thread(read_in_order, proxy, name, 600)
    assert seen == list(range(1, 601))


def live_once(proxy: ChaosProxy, stream: str, subject: str, consumer: str, direct: sync.JetStream) -> str:
    """Publish and consume through the proxy at once; how the consume ended."""
    became: list[str] = []

    def consume(connection: sync.Connection) -> None:
        handle = connection.jetstream(timeout=0.5).stream_handle(stream).consumer_handle(consumer)
        try:
            with handle.consume(max_messages=10, expires=1, idle_heartbeat=0.25) as messages:
                for message in messages:
                    message.ack()
                    if message.data == b"last":
                        became.append("went on")
                        return
            became.append("ended without a word")
        except JetsparkError as error:
            became.append(type(error).__name__)

    with sync.connect(proxy.url, **OPTIONS) as connection:
        jetstream = connection.jetstream(publish_window=10)
        thread = threading.Thread(target=consume, args=(connection,))
        proxy.calm = False
        thread.start()
        for i in range(30):
            with contextlib.suppress(JetsparkError):
                jetstream.publish(subject, b"%d" % i, timeout=2)
        proxy.calm = True
        direct.publish(subject, b"last")
        thread.join(20)
        return became[0] if became else "still running"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS * 2))
async def test_a_consume_beside_a_publisher_goes_on_or_ends_with_a_named_error(
    shared_server: NatsServer, jetstream: JetStream, name: str, seed: int
) -> None:
    stream = await jetstream.create_stream(name, subjects=[name], storage="memory")
    await stream.create_consumer("worker", ack_wait=1)

    def run(proxy: ChaosProxy) -> str:
        with sync.connect(shared_server.url) as direct:
            return live_once(proxy, name, name, "worker", direct.jetstream())

    async with ChaosProxy(shared_server.port, seed, OFTEN) as proxy:
        fate = await asyncio.to_thread(run, proxy)
    assert fate not in ("still running", "ended without a word")
