"""Ordered push subscriptions: `subscribe(ordered=True)` on both faces."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jetspark.client import errors
from jetspark.client.aio import JetStream, Msg, OrderedSubscription, PushSubscription, Stream, connect
from jetspark.client.sync import connect as connect_sync
from tests.client.conftest import NatsServer
from tests.client.peer import ScriptedPeer
from tests.client.waiting import until


async def fill(jetstream: JetStream, subject: str, first: int, last: int) -> None:
    for i in range(first, last + 1):
        await jetstream.publish_async(subject, b"%d" % i)
    await jetstream.flush(10)


async def take(subscription: PushSubscription, count: int) -> list[bytes]:
    got: list[bytes] = []
    async with asyncio.timeout(20):
        async for message in subscription:
            got.append(message.data)
            if len(got) == count:
                break
    return got


async def test_row_54_messages_are_pushed_in_order_and_nothing_is_left_behind(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 1, 3000)
    async with await jetstream.subscribe(f"{name}.a", ordered=True) as subscription:
        assert await take(subscription, 3000) == [b"%d" % i for i in range(1, 3001)]
        assert isinstance(subscription, OrderedSubscription)
        assert subscription.last_sequence == 3000
        info = await subscription.consumer_info()
        assert (info.config.ack_policy, info.config.flow_control, info.config.mem_storage) == ("none", True, True)
    assert await stream.consumer_names() == []


async def test_row_54_a_callback_gets_them_in_order(jetstream: JetStream, stream: Stream, name: str) -> None:
    seen: list[Msg] = []
    async with await jetstream.subscribe(f"{name}.a", callback=seen.append, ordered=True):
        await fill(jetstream, f"{name}.a", 1, 100)
        await until(lambda: len(seen) == 100)
        assert [message.data for message in seen] == [b"%d" % i for i in range(1, 101)]
        assert await seen[0].ack() is False


@pytest.mark.long
async def test_row_54_a_pushed_consumer_that_is_deleted_is_made_again(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 1, 10)
    async with await jetstream.subscribe(
        f"{name}.a", ordered=True, idle_heartbeat=0.1, heartbeat_alarm=2
    ) as subscription:
        assert len(await take(subscription, 10)) == 10
        await stream.delete_consumer(subscription.consumer_name)
        await fill(jetstream, f"{name}.a", 11, 20)
        assert await take(subscription, 10) == [b"%d" % i for i in range(11, 21)]


@pytest.mark.long
async def test_row_54_an_ordered_subscription_goes_on_after_a_restart(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()
    async with await connect(server.url, reconnect_wait=0.05) as connection:
        jetstream = connection.jetstream()
        await jetstream.create_stream(name, subjects=[name])
        await fill(jetstream, name, 1, 5)
        subscription = await jetstream.subscribe(name, ordered=True)
        assert await take(subscription, 5) == [b"%d" % i for i in range(1, 6)]
        await asyncio.to_thread(server.restart)
        await until(lambda: connection.reconnect_count == 1)
        await jetstream.publish_once(name, b"6")
        assert await take(subscription, 1) == [b"6"]
        await subscription.unsubscribe()


@pytest.mark.long
async def test_what_is_new_is_not_missed_while_the_consumer_is_made_again(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 1, 3)
    consumer = await stream.ordered_consumer(deliver_policy="new")
    await consumer.make()
    async with await jetstream.subscribe(
        f"{name}.a", ordered=True, deliver_policy="new", idle_heartbeat=0.1, heartbeat_alarm=2
    ) as subscription:
        for one in await stream.consumer_names():
            await stream.delete_consumer(one)
        await fill(jetstream, f"{name}.a", 4, 4)
        assert await take(subscription, 1) == [b"4"]
        message = await consumer.next()
        assert message is not None
        assert message.data == b"4"


async def test_row_52_and_54_a_gap_starts_it_over_from_the_last_message(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        jetstream = connection.jetstream()
        making = asyncio.create_task(jetstream.subscribe("s.a", stream="S", ordered=True))
        first = await answer_create(peer)
        subscription = await making
        deliver(peer, first, 7, 1)
        deliver(peer, first, 9, 3)
        got = asyncio.create_task(take(subscription, 2))
        second = await answer_create(peer, b'"opt_start_seq":8')
        assert second != first
        deliver(peer, second, 8, 1)
        assert await got == [b"7", b"8"]


async def answer_create(peer: ScriptedPeer, wanted: bytes = b"") -> bytes:
    """Make the consumer that is asked for; the sid of the inbox it delivers to."""
    sid = (await peer.expect(b"SUB _INBOX.")).split()[2]
    line = await peer.expect(b"PUB $JS.API.CONSUMER.CREATE.S.")
    assert wanted in line, line
    head = line.split()
    consumer = head[1].split(b".")[5].decode()
    config = '{"deliver_subject":"x","ack_policy":"none","idle_heartbeat":5000000000}'
    answer = f'{{"stream_name":"S","name":"{consumer}","config":{config},"delivered":{{}},"ack_floor":{{}}}}'
    requests = [one.split()[2] for one in peer.lines if one.startswith(b"SUB ") and one.split()[1].endswith(b".*")]
    peer.message(head[2].decode(), requests[0], answer.encode())
    return sid


def deliver(peer: ScriptedPeer, sid: bytes, stream_sequence: int, consumer_sequence: int) -> None:
    reply = f"$JS.ACK.S.C.1.{stream_sequence}.{consumer_sequence}.1700000000000000000.0"
    peer.message("s.a", sid, b"%d" % stream_sequence, reply=reply)


@pytest.mark.parametrize(
    "options",
    [
        {"queue": "q"},
        {"durable": "d"},
        {"consumer": "c"},
        {"ack_policy": "explicit"},
        {"deliver_subject": "x"},
        {"max_deliver": 3},
    ],
)
async def test_what_cannot_be_ordered_is_refused(
    jetstream: JetStream, stream: Stream, name: str, options: dict[str, Any]
) -> None:
    with pytest.raises(errors.OrderedOptionError):
        await jetstream.subscribe(f"{name}.a", ordered=True, **options)
    assert await stream.consumer_names() == []


async def test_a_stream_that_goes_away_ends_it_with_its_error(jetstream: JetStream, stream: Stream, name: str) -> None:
    subscription = await jetstream.subscribe(f"{name}.a", ordered=True, idle_heartbeat=0.1, heartbeat_alarm=2)
    await stream.delete()
    with pytest.raises(errors.ConsumerDeletedError):
        await subscription.next(10)
    with pytest.raises(errors.SubscriptionClosedError):
        await subscription.next(1)


def test_the_blocking_face_has_it_too(url: str, name: str) -> None:
    with connect_sync(url) as connection:
        jetstream = connection.jetstream()
        stream = jetstream.create_stream(name, subjects=[f"{name}.>"], storage="memory")
        for i in range(1, 501):
            jetstream.publish_async(f"{name}.a", b"%d" % i)
        jetstream.flush(10)
        seen: list[bytes] = []
        with jetstream.subscribe(f"{name}.a", ordered=True) as subscription:
            while len(seen) < 500:
                message = subscription.next(5)
                assert message is not None
                seen.append(message.data)
        assert seen == [b"%d" % i for i in range(1, 501)]
        stream.delete()
