"""A thousand short lives of a connection that is cut, stalled and garbled: every outcome comes, and has a name.

The runs of a group share a server and a loop, so that one waits while another works. A run that fails names its seed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from jetspark.client import sync
from jetspark.client.aio import Connection, Consuming, JetStream, PublishFuture, Stream, connect
from jetspark.errors import JetsparkError
from tests.client.conftest import NatsServer
from tests.client.peer import ScriptedPeer
from tests.client.proxy import FAULTS, ChaosProxy
from tests.client.waiting import until

# All of them are a thousand runs, which `make soak` makes; `make test` makes the first groups.
GROUPS = 20
SHORT_GROUPS = 3
GROUP_RUNS = 50
# Runs of a group at the same time.
TOGETHER = 25
MESSAGES = 30
# Each several times: a short life should see more of them than a long one.
OFTEN = FAULTS * 4


async def publish_some(jetstream: JetStream, subject: str) -> list[PublishFuture]:
    futures: list[PublishFuture] = []
    for i in range(MESSAGES):
        with contextlib.suppress(JetsparkError):
            futures.append(await jetstream.publish_async(subject, b"%d" % i, timeout=2))
        if futures and i % 3 == 2:
            # Not too fast: each of these is another chance for the proxy.
            with contextlib.suppress(JetsparkError):
                await futures[-1]
    return futures


async def consume_until(messages: Consuming, last: bytes) -> str:
    """What became of a consume: it went on to the last message, or ended with an error that has a name."""
    try:
        async for message in messages:
            await message.ack()
            if message.data == last:
                return "went on"
    except JetsparkError as error:
        return type(error).__name__
    return "ended without a word"


async def one_run(server: NatsServer, direct: JetStream, stream: Stream, seed: int) -> int:
    """How many faults the run lived through."""
    subject = f"{stream.name}.{seed}"
    made = await stream.create_consumer(filter_subject=subject, inactive_threshold=60, ack_wait=1)
    async with ChaosProxy(server.port, seed, OFTEN) as proxy:
        # Nothing goes wrong before the first connect is done, but a slow machine may take longer for it.
        connection: Connection = await connect(
            proxy.url, connect_timeout=1, retry_first_connect=True,
            reconnect_wait=0.01, reconnect_wait_max=0.05, ping_interval=0.2, request_timeout=1,
        )  # fmt: skip
        async with connection, asyncio.timeout(20):
            jetstream = connection.jetstream(publish_window=10)
            consumer = jetstream.stream_handle(stream.name).consumer_handle(made.name)
            proxy.calm = False
            consuming = consumer.consume(max_messages=10, expires=1, idle_heartbeat=0.25)
            fate = asyncio.create_task(consume_until(consuming, b"last"))
            futures = await publish_some(jetstream, subject)
            outcomes = await asyncio.gather(*[future.wait() for future in futures], return_exceptions=True)
            proxy.calm = True
            await direct.publish(subject, b"last")
            became = await fate
    strangers = [one for one in outcomes if isinstance(one, BaseException) and not isinstance(one, JetsparkError)]
    assert not strangers, f"seed {seed}: {strangers}"
    assert all(future.done for future in futures), f"seed {seed}: a publish is still open"
    assert became != "ended without a word", f"seed {seed}"
    return len(proxy.faults)


async def run_group(server: NatsServer, stream: Stream, seeds: range) -> list[str]:
    places = asyncio.Semaphore(TOGETHER)
    failures: list[str] = []
    fault_count = 0

    async def run(seed: int) -> None:
        nonlocal fault_count
        async with places:
            try:
                faults = await one_run(server, stream.jetstream, stream, seed)
                fault_count += faults
            except (AssertionError, TimeoutError) as error:
                failures.append(f"seed {seed}: {error!r}")

    await asyncio.gather(*[run(seed) for seed in seeds])
    assert failures or fault_count > len(seeds), "the proxy behaved too well for this to mean anything"
    return failures


@pytest.mark.slow
# The proxy's own sockets, cut while they are being made, may be met by the garbage collector after their loop is gone.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "group",
    [*range(SHORT_GROUPS), *(pytest.param(group, marks=pytest.mark.soak) for group in range(SHORT_GROUPS, GROUPS))],
)
async def test_nothing_hangs_in_many_runs(
    shared_server: NatsServer, jetstream: JetStream, name: str, group: int
) -> None:
    stream = await jetstream.create_stream(name, subjects=[f"{name}.*"], storage="memory")
    assert await run_group(shared_server, stream, range(group * GROUP_RUNS, (group + 1) * GROUP_RUNS)) == []


@pytest.mark.long
async def test_nothing_hangs_in_a_few_runs(shared_server: NatsServer, jetstream: JetStream, name: str) -> None:
    stream = await jetstream.create_stream(name, subjects=[f"{name}.*"], storage="memory")
    assert await run_group(shared_server, stream, range(1000, 1010)) == []


@pytest.mark.parametrize(
    "words", [b"-ERR 'Unknown Protocol Operation'\r\n", b"INFO \xff\r\n", b'INFO {"max_payload":"\r\n']
)
async def test_a_handshake_that_goes_wrong_on_the_way_back_is_tried_again(peer: ScriptedPeer, words: bytes) -> None:
    async with await connect(peer.url, reconnect_wait=0.01, reconnect_wait_max=0.02) as connection:
        peer.answers_pings = False
        peer.cut()
        await until(lambda: peer.connection_count == 2)
        peer.send(words)
        await until(lambda: peer.connection_count == 3)
        peer.answers_pings = True
        peer.cut()
        await until(lambda: connection.is_connected)


async def live_through_a_farewell(peer: ScriptedPeer, until_connected: Callable[[], Awaitable[None]]) -> None:
    """The server takes the client back and in the same breath tells it to go."""
    peer.next_pong = b"PONG\r\n-ERR 'Stale Connection'\r\n"
    peer.cut()
    await until(lambda: peer.connection_count >= 3)
    await until_connected()


async def test_a_connection_lost_the_moment_it_is_back_comes_back_again(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, reconnect_wait=0.01, reconnect_wait_max=0.02) as connection:
        await live_through_a_farewell(peer, lambda: until(lambda: connection.is_connected))


async def test_a_connection_of_threads_lost_the_moment_it_is_back_comes_back_again(peer: ScriptedPeer) -> None:
    connection = await asyncio.to_thread(sync.connect, peer.url, reconnect_wait=0.01, reconnect_wait_max=0.02)
    await live_through_a_farewell(peer, lambda: until(lambda: connection.is_connected))
    await asyncio.to_thread(connection.close)
