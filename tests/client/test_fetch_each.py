"""A fetch whose messages are given as they come, and acks of an empty body."""

from __future__ import annotations

import asyncio

import pytest

from jetspark.client import errors
from jetspark.client.aio import Connection, JetStream, Stream, connect
from jetspark.client.sync import connect as connect_sync
from tests.client.peer import ScriptedPeer
from tests.client.waiting import until


async def fill(jetstream: JetStream, subject: str, first: int, last: int) -> None:
    for i in range(first, last + 1):
        await jetstream.publish(subject, b"%d" % i)


async def test_row_18_an_empty_ack_is_an_ack(
    connection: Connection, jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 1, 1)
    consumer = await stream.create_consumer("worker")
    message = await consumer.next()
    assert message is not None
    await connection.publish(message.reply)

    async def is_acked() -> bool:
        return (await consumer.info()).ack_floor.stream_seq == 1

    await until(is_acked)
    assert (await consumer.info()).num_ack_pending == 0


async def test_each_message_is_given_before_the_next_one_is_there(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    consumer = await stream.create_consumer("worker")
    await fill(jetstream, f"{name}.a", 1, 1)
    seen: list[bytes] = []
    async with asyncio.timeout(10):
        async for message in consumer.fetch_each(5, expires=8):
            seen.append(message.data)
            await message.ack()
            if len(seen) < 5:
                # Only what was given makes the next one come: a list would never fill.
                await jetstream.publish(f"{name}.a", b"%d" % (len(seen) + 1))
    assert seen == [b"1", b"2", b"3", b"4", b"5"]
    assert (await consumer.info()).num_waiting == 0


async def test_it_ends_with_the_time_or_with_what_is_there(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 1, 3)
    consumer = await stream.create_consumer("worker")
    assert [message.data async for message in consumer.fetch_each(2)] == [b"1", b"2"]
    assert [message.data async for message in consumer.fetch_each(9, no_wait=True)] == [b"3"]
    assert [message.data async for message in consumer.fetch_each(9, expires=0.1)] == []
    with pytest.raises(errors.BadOptionError, match="max_messages"):
        consumer.fetch_each()


async def test_what_was_not_taken_comes_with_the_next_fetch(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 1, 6)
    consumer = await stream.create_consumer("worker", ack_wait=60)
    async for message in consumer.fetch_each(6):
        assert message.data == b"1"
        break

    async def has_rest() -> bool:
        return (await consumer.info()).num_pending == 0

    await until(has_rest)
    rest = await consumer.fetch(5, expires=2)
    assert [message.data for message in rest] == [b"2", b"3", b"4", b"5", b"6"]


async def test_a_loop_left_early_has_left_before_the_next_fetch_begins(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 1, 15)
    consumer = await stream.create_consumer("worker", ack_wait=60)
    seen: list[bytes] = []
    async for message in consumer.fetch_each(10):
        seen.append(message.data)
        if len(seen) == 3:
            break

    # Not one turn of the loop in between.
    seen += [message.data for message in await consumer.fetch(5)]

    assert seen == [b"%d" % i for i in range(1, 9)]


async def test_an_error_comes_after_the_messages_before_it(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        consumer = connection.jetstream().stream_handle("S").consumer_handle("C")
        seen: list[bytes] = []

        async def take() -> None:
            async for message in consumer.fetch_each(5):
                seen.append(message.data)  # noqa: PERF401 - looked at while it grows

        taking = asyncio.create_task(take())
        sid = (await peer.expect(b"SUB _INBOX.")).split()[2]
        await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
        peer.message("a", sid, b"1", reply="$JS.ACK.S.C.1.1.1.1.0")
        await until(lambda: seen == [b"1"])
        peer.message("x", sid, header=b"NATS/1.0 409 Consumer Deleted\r\n\r\n")
        with pytest.raises(errors.ConsumerDeletedError):
            await taking


async def test_an_ordered_consumer_gives_each_in_order_even_when_its_consumer_is_deleted(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 1, 10)
    consumer = await stream.ordered_consumer()
    seen = [message.data async for message in consumer.fetch_each(4)]
    await stream.delete_consumer(consumer.name)
    seen += [message.data async for message in consumer.fetch_each(6, expires=5)]
    assert seen == [b"%d" % i for i in range(1, 11)]
    assert [message async for message in consumer.fetch_each(1, expires=0.1)] == []


def test_the_blocking_face_gives_each_too(url: str, name: str) -> None:
    with connect_sync(url) as connection:
        jetstream = connection.jetstream()
        stream = jetstream.create_stream(name, subjects=[f"{name}.>"], storage="memory")
        consumer = stream.create_consumer("worker")
        jetstream.publish(f"{name}.a", b"1")
        seen: list[bytes] = []
        for message in consumer.fetch_each(3, expires=8):
            seen.append(message.data)
            if len(seen) < 3:
                jetstream.publish(f"{name}.a", b"%d" % (len(seen) + 1))
        assert seen == [b"1", b"2", b"3"]
        stream.delete()
