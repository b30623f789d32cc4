"""Fetches that are cancelled: what the server gave them comes with the next one, in order and once."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from jetspark.client.aio import Connection, Consumer, Consuming, JetStream, OrderedConsumer, Stream, connect
from tests.client.peer import ScriptedPeer
from tests.client.waiting import give_way, until_turn

pytest.importorskip("pyarrow", reason="no pyarrow: pip install 'jetspark[arrow]'")

Take = Callable[[Consumer, int], Coroutine[Any, Any, list[bytes]]]


async def by_fetch(consumer: Consumer, count: int) -> list[bytes]:
    return [message.data for message in await consumer.fetch(count, expires=2)]


async def by_next(consumer: Consumer, count: int) -> list[bytes]:
    message = await consumer.next(expires=2)
    return [message.data] if message is not None else []


async def by_each(consumer: Consumer, count: int) -> list[bytes]:
    return [message.data async for message in consumer.fetch_each(count, expires=2)]


async def by_arrow(consumer: Consumer, count: int) -> list[bytes]:
    rows = await consumer.fetch_arrow(count, expires=2, columns=["data"])
    data: list[bytes] = rows.column("data").to_pylist()
    return data


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


async def fill(jetstream: JetStream, subject: str, count: int) -> None:
    for number in numbers(1, count):
        await jetstream.publish_async(subject, number, headers={"Colour": "red"})
    await jetstream.flush(10)


async def cancel(task: asyncio.Task[list[bytes]]) -> list[bytes]:
    """What the task gave after all; nothing when it was cancelled in time."""
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(outcome, asyncio.CancelledError):
        return []
    assert isinstance(outcome, list), outcome
    return outcome


async def take_rest(consumer: Consumer, seen: list[bytes], count: int, take: Take) -> None:
    async with asyncio.timeout(15):
        while len(seen) < count:
            seen += await take(consumer, count - len(seen))


def arrived(connection: Connection) -> int:
    """Messages that have come and that nobody has looked at."""
    core = connection._link.core
    queued = sum(len(getattr(route, "queue", ())) for route in core.routes.values())
    return queued + sum(getattr(sink, "rows", 0) for sink in core.parser.sinks)


@pytest.mark.parametrize("policy", ["none", "explicit"])
@pytest.mark.parametrize("then", [by_fetch, by_arrow])
@pytest.mark.parametrize("first", [by_fetch, by_next, by_each, by_arrow])
async def test_what_has_arrived_is_kept_for_the_next(
    connection: Connection, jetstream: JetStream, stream: Stream, name: str, first: Take, then: Take, policy: str
) -> None:
    await fill(jetstream, f"{name}.a", 20)
    consumer = await stream.create_consumer("worker", ack_policy=policy)
    taking = asyncio.create_task(first(consumer, 10))
    await until_turn(lambda: arrived(connection))
    seen = await cancel(taking)
    await take_rest(consumer, seen, 20, then)
    assert seen == numbers(1, 20)


@pytest.mark.parametrize("policy", ["none", "explicit"])
@pytest.mark.parametrize("take", [by_fetch, by_next, by_each, by_arrow])
async def test_nothing_is_lost_whenever_it_is_cancelled(
    jetstream: JetStream, stream: Stream, name: str, take: Take, policy: str
) -> None:
    count = 300
    await fill(jetstream, f"{name}.a", count)
    consumer = await stream.create_consumer("worker", ack_policy=policy, ack_wait=60)
    dice = random.Random(1)
    seen: list[bytes] = []
    for _ in range(60):
        taking = asyncio.create_task(take(consumer, 5))
        for _ in range(dice.randrange(12)):
            await give_way()
        seen += await cancel(taking)
    await take_rest(consumer, seen, count, by_fetch)
    assert seen == numbers(1, count)


@pytest.mark.long
async def test_headers_and_numbers_outlive_a_cancelled_fetch(
    connection: Connection, jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 3)
    consumer = await stream.create_consumer("worker", ack_policy="explicit", ack_wait=60)
    taking = asyncio.create_task(by_arrow(consumer, 5))
    await until_turn(lambda: arrived(connection) == 3)
    await cancel(taking)
    message = await consumer.next(expires=2)
    assert message is not None
    assert (message.subject, message.headers["Colour"], message.metadata.stream_sequence) == (f"{name}.a", "red", 1)
    await message.ack_sync()
    rows = (await consumer.fetch_arrow(2, expires=2)).to_pylist()
    assert [(row["subject"], row["sequence"], row["consumer_sequence"]) for row in rows] == [
        (f"{name}.a", 2, 2),
        (f"{name}.a", 3, 3),
    ]
    assert [dict(row["headers"][0]) for row in rows] == [{"key": "Colour", "value": "red"}] * 2


@pytest.mark.parametrize("batch", [1, 10])
async def test_a_cancelled_fetch_of_a_pull_subscription_loses_nothing(
    jetstream: JetStream, stream: Stream, name: str, batch: int
) -> None:
    count = 100
    await fill(jetstream, f"{name}.a", count)
    subscription = await jetstream.pull_subscribe(f"{name}.a", durable="worker", ack_wait=60)

    async def take(size: int) -> list[bytes]:
        return [message.data for message in await subscription.fetch(size, timeout=5)]

    dice = random.Random(2)
    seen: list[bytes] = []
    for _ in range(30):
        taking = asyncio.create_task(take(batch))
        for _ in range(dice.randrange(12)):
            await give_way()
        seen += await cancel(taking)
    async with asyncio.timeout(15):
        while len(seen) < count:
            seen += await take(10)
    # One at a time shares an inbox, so an answer to a cancelled call may be given after a later one.
    assert (sorted(seen) if batch == 1 else seen) == (sorted(numbers(1, count)) if batch == 1 else numbers(1, count))


async def test_what_is_on_its_way_is_waited_for_before_anything_else_is_asked_for(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        consumer = connection.jetstream().stream_handle("S").consumer_handle("C")
        taking = asyncio.create_task(by_fetch(consumer, 2))
        await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
        peer.answers_pings = False
        await cancel(taking)
        again = asyncio.create_task(by_fetch(consumer, 2))
        assert await peer.expect(b"UNSUB ") == b"UNSUB 1\r\n"
        await peer.expect(b"PING")
        peer.message("orders", b"1", b"x", reply="$JS.ACK.S.C.1.1.1.1.0")
        peer.message("orders", b"1", b"y", reply="$JS.ACK.S.C.1.2.2.1.0")
        assert await asyncio.wait_for(again, 5) == [b"x", b"y"]
        third = asyncio.create_task(by_fetch(consumer, 1))
        await give_way()
        peer.answers_pings = True
        peer.send(b"PONG\r\n")
        await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
        assert list(connection._link.core.routes) == [b"2"]
        await cancel(third)
        assert sum(b"MSG.NEXT" in line for line in peer.lines) == 2


async def test_a_lost_connection_ends_the_wait_for_what_was_on_its_way(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, reconnect_wait=0.01) as connection:
        consumer = connection.jetstream().stream_handle("S").consumer_handle("C")
        taking = asyncio.create_task(by_fetch(consumer, 1))
        await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
        peer.answers_pings = False
        await cancel(taking)
        again = asyncio.create_task(by_fetch(consumer, 1))
        await peer.expect(b"PING")
        peer.answers_pings = True
        peer.cut()
        await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
        assert list(connection._link.core.routes) == [b"2"]
        peer.message("orders", b"2", b"x", reply="$JS.ACK.S.C.1.1.1.1.0")
        assert await asyncio.wait_for(again, 5) == [b"x"]


async def test_a_consume_that_is_cancelled_while_it_comes_back_still_asks_for_messages(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, reconnect_wait=0.01) as connection:
        consumer = connection.jetstream().stream_handle("S").consumer_handle("C")
        async with consumer.consume() as consuming:
            await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
            taking = asyncio.create_task(by_consuming(consuming))
            await give_way()
            peer.cut()
            await peer.expect(b"PUB $JS.API.CONSUMER.INFO.S.C ")
            assert await cancel(taking) == []
            taking = asyncio.create_task(by_consuming(consuming))
            question = await peer.expect(b"PUB $JS.API.CONSUMER.INFO.S.C ")
            sid = next(line for line in peer.lines if line.startswith(b"SUB") and b"*" in line).split()[-1]
            peer.message(question.split()[2].decode(), sid, b'{"stream_name":"S","name":"C"}')
            await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
            peer.message("orders", b"1", b"x", reply="$JS.ACK.S.C.1.1.1.1.0")
            assert await asyncio.wait_for(taking, 5) == [b"x"]


@pytest.mark.long
async def test_a_scan_that_is_cancelled_anywhere_leaves_nothing_behind(
    connection: Connection, jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 50)
    await stream.scan().read_all()
    routes = set(connection._link.core.routes)
    cancelled = 0
    for step in range(1, 60):
        reading = asyncio.create_task(stream.scan().read_all())
        for _ in range(step):
            await asyncio.sleep(0)  # noqa: TID251 - gives way, does not wait
        reading.cancel()
        await asyncio.wait([reading])
        cancelled += reading.cancelled()
        assert set(connection._link.core.routes) == routes, step
    assert cancelled > 10


async def by_consuming(consuming: Consuming) -> list[bytes]:
    message = await consuming.next(10)
    return [message.data] if message is not None else []


async def test_an_ordered_consume_that_is_cancelled_while_it_starts_over_starts_over(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        ordered = OrderedConsumer(connection.jetstream().stream_handle("S"))
        consuming = ordered.consume()
        taking = asyncio.create_task(by_consuming(consuming))
        sid = await answer_creation(peer, "one")
        await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.")
        # The first delivery was lost.
        peer.message("orders", sid, b"2", reply="$JS.ACK.S.one.1.2.2.1.0")
        await peer.expect(b"PUB $JS.API.CONSUMER.CREATE.S")
        assert await cancel(taking) == []
        taking = asyncio.create_task(by_consuming(consuming))
        sid = await answer_creation(peer, "two")
        await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.")
        peer.message("orders", sid, b"1", reply="$JS.ACK.S.two.1.1.1.1.0")
        assert await asyncio.wait_for(taking, 5) == [b"1"]


async def answer_creation(peer: ScriptedPeer, name: str) -> bytes:
    """Make the consumer it asks for; the sid of the inbox that waits for its messages."""
    question = await peer.expect(b"PUB $JS.API.CONSUMER.CREATE.S")
    subscriptions = [line for line in peer.lines if line.startswith(b"SUB")]
    answers = next(line for line in subscriptions if b"*" in line).split()[-1]
    config = json.loads(question.split(b"\r\n")[1])["config"]
    told = {"stream_name": "S", "name": name, "config": config}
    peer.message(question.split()[2].decode(), answers, json.dumps(told).encode())
    return [line for line in subscriptions if b"*" not in line][-1].split()[-1]
