"""Ordered consumers: every message once, in order, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jetspark.client import errors
from jetspark.client.aio import JetStream, Stream, connect
from jetspark.client.core.ordered import OrderCheck
from tests.client.conftest import NatsServer
from tests.client.test_fetch import fill
from tests.client.waiting import until


async def test_row_64_an_ordered_consumer_has_the_same_face(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 10)
    consumer = await stream.ordered_consumer()
    assert [message.data for message in await consumer.fetch(3)] == [b"1", b"2", b"3"]
    following = await consumer.next()
    assert following is not None
    assert following.data == b"4"
    assert await following.ack() is False
    async with consumer.consume() as messages:
        assert [(await anext(messages)).data for _ in range(6)] == [b"%d" % i for i in range(5, 11)]
    assert consumer.last_sequence == 10
    assert await consumer.fetch(1, expires=0.1) == []
    assert (await consumer.info()).config.max_deliver == 1
    await consumer.delete()


async def test_row_54_it_goes_on_after_its_consumer_was_deleted(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 100)
    consumer = await stream.ordered_consumer()
    seen: list[bytes] = []
    async with consumer.consume(max_messages=10, expires=1, idle_heartbeat=0.2) as messages:
        async for message in messages:
            seen.append(message.data)
            if len(seen) in (20, 50):
                await stream.delete_consumer(consumer.name)
            if len(seen) == 100:
                break
    assert seen == [b"%d" % i for i in range(1, 101)]


async def test_row_54_fetch_goes_on_after_its_consumer_was_deleted(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 6)
    consumer = await stream.ordered_consumer()
    assert len(await consumer.fetch(3)) == 3
    await stream.delete_consumer(consumer.name)
    assert [message.data for message in await consumer.fetch(3)] == [b"4", b"5", b"6"]


@pytest.mark.long
async def test_row_54_it_goes_on_after_a_restart(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()
    async with await connect(server.url) as connection:
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream(name, subjects=[name])
        await fill(jetstream, name, 50)
        seen: list[bytes] = []
        messages = (await stream.ordered_consumer()).consume(max_messages=10)

        async def read() -> None:
            async for message in messages:
                seen.append(message.data)
                if len(seen) == 100:
                    return

        reading = asyncio.create_task(read())
        await until(lambda: len(seen) == 50)
        server.restart()
        await until(lambda: connection.reconnect_count == 1)
        await fill(jetstream, name, 50)
        await asyncio.wait_for(reading, 15)
        assert seen == [b"%d" % i for i in range(1, 51)] * 2
        await messages.stop()


async def test_it_starts_where_it_is_told_and_filters(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 5)
    await fill(jetstream, f"{name}.b", 5)
    consumer = await stream.ordered_consumer(filter_subjects=[f"{name}.b"], opt_start_seq=8)
    assert [message.metadata.stream_sequence for message in await consumer.fetch(3)] == [8, 9, 10]


async def test_it_ends_when_the_stream_is_gone(jetstream: JetStream, stream: Stream, name: str) -> None:
    messages = (await stream.ordered_consumer()).consume(expires=1, idle_heartbeat=0.2)
    taking = asyncio.create_task(anext(messages))
    await until(lambda: _has_consumer(stream))
    await stream.delete()
    with pytest.raises(errors.ConsumerDeletedError):
        await asyncio.wait_for(taking, 10)


async def _has_consumer(stream: Stream) -> bool:
    return bool(await stream.consumer_names())


@pytest.mark.parametrize(
    "form", ["$JS.ACK.S.C.1.{0}.{1}.1.0", "$JS.ACK.hub.acc.S.C.1.{0}.{1}.1.0", "$JS.ACK._.a.S.C.1.{0}.{1}.1.0.x.y"]
)
def test_row_52_gaps_are_seen_in_every_form_of_ack_subject(form: str) -> None:
    check = OrderCheck()
    assert check.accept(form.format(5, 1).encode())
    assert check.accept(form.format(9, 2).encode())
    assert (check.stream_sequence, check.consumer_sequence) == (9, 2)
    assert not check.accept(form.format(11, 4).encode())
    assert not check.accept(b"nonsense")
    assert check.stream_sequence == 9
    check.restart()
    assert check.accept(form.format(10, 1).encode())


@pytest.mark.long
async def test_acks_of_version_two_are_understood(make_server: Any, name: str) -> None:
    server = make_server(config="feature_flags { js_ack_fc_v2: true }")
    async with await connect(server.url) as connection:
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream(name, subjects=[name])
        await fill(jetstream, name, 20)
        async with (await stream.ordered_consumer()).consume() as messages:
            assert [(await anext(messages)).data for _ in range(20)] == [b"%d" % i for i in range(1, 21)]
        consumer = await stream.create_consumer("worker")
        message = await consumer.next()
        assert message is not None
        assert message.reply.count(".") >= 10
        assert message.metadata.stream == name
        assert await message.ack(wait=True)


async def test_a_consume_that_ended_leaves_no_consumer_and_can_be_followed_by_another(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 9)
    consumer = await stream.ordered_consumer()
    async with consumer.consume() as messages:
        assert [(await anext(messages)).data for _ in range(3)] == [b"1", b"2", b"3"]
        assert len(await stream.consumer_names()) == 1
    assert await stream.consumer_names() == []
    messages = consumer.consume()
    assert (await anext(messages)).data == b"4"
    await until(lambda: messages.pending_count == 5)
    await messages.drain()
    assert await stream.consumer_names() == []
    assert [message.data async for message in messages] == [b"5", b"6", b"7", b"8", b"9"]
    seen: list[bytes] = []
    running = consumer.consume(lambda message: seen.append(message.data))
    await fill(jetstream, f"{name}.a", 2)
    await until(lambda: len(seen) == 2)
    await running.stop()
    assert seen == [b"1", b"2"]
    assert await stream.consumer_names() == []


async def test_a_drained_consume_that_never_began_ends(stream: Stream) -> None:
    messages = (await stream.ordered_consumer()).consume()
    await messages.drain()
    async with asyncio.timeout(5):
        assert [message async for message in messages] == []
    assert await stream.consumer_names() == []


async def test_as_a_context_manager_it_leaves_no_consumer(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 3)
    async with await stream.ordered_consumer() as consumer:
        assert len(await consumer.fetch(2)) == 2
        assert len(await stream.consumer_names()) == 1
    assert await stream.consumer_names() == []
    async with consumer:
        assert [message.data for message in await consumer.fetch(1)] == [b"3"]
        await stream.delete_consumer(consumer.name)
    assert await stream.consumer_names() == []


async def test_rows_consumed_in_order_leave_no_consumer(jetstream: JetStream, stream: Stream, name: str) -> None:
    pytest.importorskip("pyarrow", reason="no pyarrow: pip install 'jetspark[arrow]'")
    await fill(jetstream, f"{name}.a", 3)
    consumer = await stream.ordered_consumer()
    async with consumer.consume_arrow(batch_rows=3) as batches:
        assert (await anext(batches)).num_rows == 3
    assert await stream.consumer_names() == []


@pytest.mark.parametrize(
    "settings", [{"ack_policy": "explicit"}, {"durable_name": "d"}, {"deliver_group": "g"}], ids=str
)
async def test_settings_that_do_not_go_with_order_are_refused(stream: Stream, settings: dict[str, str]) -> None:
    with pytest.raises(errors.OrderedOptionError, match="ordered consumer"):
        await stream.ordered_consumer(**settings)
