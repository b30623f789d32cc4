"""A replicated stream on a cluster of three nats-servers, and its leader killed at the worst moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from jetspark.client import sync
from jetspark.client.aio import Connection, Consumer, JetStream, KeyValue, PublishFuture, Stream, connect
from jetspark.client.api_errors import UnavailableError
from jetspark.client.errors import NoRespondersError, PublishError, RequestTimeoutError
from jetspark.client.infos import PubAck
from jetspark.errors import JetsparkError
from jetspark.testing.processes import free_ports
from tests.client.conftest import NatsServer
from tests.client.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.timeout(120)]

NAMES = ("n0", "n1", "n2")
CONFIG = """
server_name: {name}
cluster {{ name: trio, listen: "127.0.0.1:{port}", routes: [{routes}] }}
"""


class Cluster:
    """Three servers that know each other."""

    def __init__(self, folder: Any) -> None:
        ports = free_ports(len(NAMES))
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        self.nodes = {
            name: NatsServer(folder / name, config=CONFIG.format(name=name, port=port, routes=routes))
            for name, port in zip(NAMES, ports, strict=True)
        }

    def start(self) -> Cluster:
        for node in self.nodes.values():
            node.start()
        return self

    def stop(self) -> None:
        for node in self.nodes.values():
            node.kill()

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes.values()]

    def revive(self) -> None:
        """Start again whoever was killed."""
        for node in self.nodes.values():
            if node.process is None:
                node.start()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster")).start()
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    running.revive()
    return running


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    async with await connect(cluster.urls, reconnect_wait=0.1, reconnect_wait_max=0.5, request_timeout=3) as made:
        yield made


@pytest.fixture
async def jetstream(connection: Connection) -> JetStream:
    return connection.jetstream()


@pytest.fixture
async def stream(jetstream: JetStream, name: str) -> Stream:
    """A stream on all three servers, once they have agreed on who leads."""
    made: list[Stream] = []

    async def create() -> bool:
        try:
            made.append(await jetstream.create_stream(name, subjects=[f"{name}.>"], num_replicas=3))
        except JetsparkError:
            return False
        return True

    await until(create, 30)
    await until(lambda: all_current(made[0]), 30)
    return made[0]


async def all_current(stream: Stream) -> bool:
    cluster = (await stream.info()).cluster or {}
    replicas = cluster.get("replicas") or []
    return bool(cluster.get("leader")) and len(replicas) == 2 and all(one.get("current") for one in replicas)


async def leader_of(stream: Stream) -> str:
    leader: str = ((await stream.info()).cluster or {})["leader"]
    return leader


async def home_of(consumer: Consumer) -> str:
    """The server that leads a consumer, or has it alone."""
    leader: str = ((await consumer.info()).cluster or {})["leader"]
    return leader


async def stored(stream: Stream) -> dict[int, bytes]:
    """Every message there is, by sequence, read by a connection's own reader."""
    consumer = await stream.ordered_consumer()
    found: dict[int, bytes] = {}
    last = (await stream.info()).state.last_seq
    if not last:
        return found
    async with asyncio.timeout(30), consumer.consume(expires=2, idle_heartbeat=0.5) as messages:
        async for message in messages:
            found[message.metadata.stream_sequence] = message.data
            if message.metadata.stream_sequence >= last:
                break
    return found


async def outcome(future: PublishFuture) -> PubAck | JetsparkError:
    try:
        return await future.wait(40)
    except JetsparkError as error:
        return error


@pytest.mark.parametrize("with_ids", [False, True], ids=["plain", "with message ids"])
async def test_nothing_acked_is_lost_when_the_leader_dies_during_publish(
    cluster: Cluster, jetstream: JetStream, stream: Stream, name: str, with_ids: bool
) -> None:
    leader = await leader_of(stream)
    publisher = jetstream.connection.jetstream(publish_window=200)
    futures: list[PublishFuture] = []
    for i in range(3000):
        msg_id = f"{name}-{i}" if with_ids else None
        futures.append(await publisher.publish_async(f"{name}.a", b"%d" % i, msg_id=msg_id, timeout=4))
        if i == 1500:
            cluster.nodes[leader].kill()
    async with asyncio.timeout(60):
        outcomes = [await outcome(future) for future in futures]
    acked = {one.seq: b"%d" % i for i, one in enumerate(outcomes) if isinstance(one, PubAck)}
    assert len(acked) >= 1000
    unnamed = [one for one in outcomes if not isinstance(one, PubAck | PublishError)]
    assert unnamed == []
    await until(lambda: has_new_leader(stream, leader), 30)
    found = await stored(stream)
    assert {seq: found.get(seq) for seq in acked} == acked
    if with_ids:
        assert len(set(found.values())) == len(found)


async def has_new_leader(stream: Stream, old: str) -> bool:
    try:
        return await leader_of(stream) not in ("", old)
    except (JetsparkError, KeyError):
        return False


async def fill(jetstream: JetStream, subject: str, count: int) -> None:
    for i in range(count):
        await jetstream.publish_async(subject, b"%d" % i, timeout=20)
    await jetstream.flush(30)


async def test_a_consume_goes_on_when_the_leader_dies(
    cluster: Cluster, jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 2000)
    consumer = await stream.create_consumer("worker", ack_wait=2, num_replicas=3)
    leader = await home_of(consumer)
    seen: set[int] = set()
    async with asyncio.timeout(60):
        async with consumer.consume(
            max_messages=100, expires=2, idle_heartbeat=0.5, on_heartbeat_miss="repull"
        ) as messages:
            async for message in messages:
                seen.add(message.metadata.stream_sequence)
                await message.ack()
                if len(seen) == 500 and cluster.nodes[leader].process is not None:
                    await asyncio.to_thread(cluster.nodes[leader].kill)
                if len(seen) == 2000:
                    break
    assert seen == set(range(1, 2001))


async def test_an_ordered_consumer_keeps_its_order_when_its_server_dies(
    cluster: Cluster, jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 2000)
    consumer = await stream.ordered_consumer()
    seen: list[int] = []
    async with (
        asyncio.timeout(60),
        consumer.consume(max_messages=100, expires=2, idle_heartbeat=0.5) as messages,
    ):
        async for message in messages:
            seen.append(message.metadata.stream_sequence)
            if len(seen) == 500:
                # The consumer lives on one server only: that one has to go.
                await asyncio.to_thread(cluster.nodes[await home_of(consumer)].kill)
            if len(seen) == 2000:
                break
    assert seen == list(range(1, 2001))


def publish_and_kill(cluster: Cluster, leader: str, subject: str) -> list[PubAck | JetsparkError]:
    """What became of every publish of a thread, with the leader killed half way."""
    with sync.connect(cluster.urls, reconnect_wait=0.1, reconnect_wait_max=0.5) as connection:
        publisher = connection.jetstream(publish_window=200)
        futures = []
        for i in range(2000):
            futures.append(publisher.publish_async(subject, b"%d" % i, timeout=4))
            if i == 1000:
                cluster.nodes[leader].kill()
        outcomes: list[PubAck | JetsparkError] = []
        for future in futures:
            try:
                outcomes.append(future.wait(40))
            except JetsparkError as error:
                outcomes.append(error)
        return outcomes


async def test_nothing_acked_to_a_thread_is_lost_when_the_leader_dies(
    cluster: Cluster, stream: Stream, name: str
) -> None:
    leader = await leader_of(stream)
    outcomes = await asyncio.to_thread(publish_and_kill, cluster, leader, f"{name}.a")
    acked = {one.seq: b"%d" % i for i, one in enumerate(outcomes) if isinstance(one, PubAck)}
    assert len(acked) >= 700
    assert [one for one in outcomes if not isinstance(one, PubAck | PublishError)] == []
    await until(lambda: has_new_leader(stream, leader), 30)
    found = await stored(stream)
    assert {seq: found.get(seq) for seq in acked} == acked


def consume_and_kill(cluster: Cluster, stream_name: str, ordered: bool) -> list[int]:
    """Every sequence a thread was given, with the consumer's server killed half way."""
    seen: list[int] = []
    options: dict[str, Any] = {"max_messages": 100, "expires": 2, "idle_heartbeat": 0.5}
    with sync.connect(cluster.urls, reconnect_wait=0.1, reconnect_wait_max=0.5, request_timeout=3) as connection:
        stream = connection.jetstream().stream(stream_name)
        if ordered:
            consumer: sync.Consumer = stream.ordered_consumer()
        else:
            consumer = stream.create_consumer("worker", ack_wait=2, num_replicas=3)
            options["on_heartbeat_miss"] = "repull"
        with consumer.consume(**options) as messages:
            while len(set(seen)) < 2000 and (message := messages.next(40)) is not None:
                seen.append(message.metadata.stream_sequence)
                # An ack of the moment of the kill may be lost with its connection: then the message comes again.
                with contextlib.suppress(JetsparkError):
                    message.ack()
                if len(seen) == 500:
                    cluster.nodes[((consumer.info()).cluster or {})["leader"]].kill()
    return seen


@pytest.mark.parametrize("ordered", [False, True], ids=["worker", "ordered"])
async def test_a_consume_of_a_thread_goes_on_when_its_server_dies(
    cluster: Cluster, jetstream: JetStream, stream: Stream, name: str, ordered: bool
) -> None:
    await fill(jetstream, f"{name}.a", 2000)
    seen = await asyncio.to_thread(consume_and_kill, cluster, name, ordered)
    assert set(seen) == set(range(1, 2001))
    if ordered:
        assert seen == list(range(1, 2001))


async def test_a_scan_gives_every_row_once_when_its_server_dies(
    cluster: Cluster, jetstream: JetStream, stream: Stream, name: str
) -> None:
    pytest.importorskip("pyarrow", reason="no pyarrow: pip install 'jetspark[arrow]'")
    await fill(jetstream, f"{name}.a", 4000)
    scan = stream.scan(batch_rows=250)
    scan._buffer.rows_max = 250
    seen: list[int] = []
    async with asyncio.timeout(60):
        async for batch in scan:
            if len(seen) <= 1000 < len(seen) + batch.num_rows:
                await asyncio.to_thread(cluster.nodes[await home_of(scan._ordered)].kill)
            seen += batch.column("sequence").to_pylist()
    assert seen == list(range(1, 4001))


async def test_a_bucket_whose_server_is_away_is_not_taken_for_an_empty_one(
    cluster: Cluster, jetstream: JetStream, stream: Stream, name: str
) -> None:
    bucket = await jetstream.create_key_value(name)
    await bucket.put("a", b"1")
    home = await leader_of(bucket._stream)
    others = [node.url for node_name, node in cluster.nodes.items() if node_name != home]
    async with await connect(others, ignore_discovered_servers=True, request_timeout=1) as other:
        bucket = await other.jetstream().key_value(name)
        await asyncio.to_thread(cluster.nodes[home].kill)
        for asked in (bucket.get("a"), bucket.get("a", revision=1), bucket.create("a", b"2")):
            with pytest.raises((RequestTimeoutError, NoRespondersError, UnavailableError)):
                await asked
        await asyncio.to_thread(cluster.revive)
        await until(lambda: has_value(bucket, "a"), 30)
        assert (await bucket.get("a")).value == b"1"


async def has_value(bucket: KeyValue, key: str) -> bool:
    try:
        await bucket.get(key)
    except (RequestTimeoutError, NoRespondersError, UnavailableError):
        return False
    return True
