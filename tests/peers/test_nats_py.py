"""nats-py, another vendor's client, does the examples of the specification against our server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import nats
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, DiscardPolicy, RetentionPolicy, StreamConfig

pytestmark = [pytest.mark.peers, pytest.mark.timeout(60)]
TIMEOUT_S = 5.0


@pytest.fixture
async def connection(server_url: str) -> AsyncIterator[Client]:
    client = await nats.connect(server_url)
    yield client
    await client.close()


@pytest.fixture
async def jetstream(connection: Client) -> AsyncIterator[JetStreamContext]:
    context = connection.jetstream(timeout=TIMEOUT_S)
    yield context
    for info in await context.streams_info():
        assert info.config.name is not None
        await context.delete_stream(info.config.name)


async def test_request_and_reply(connection: Client) -> None:
    async def answer(message: Msg) -> None:
        await message.respond(b"pong " + message.data)

    await connection.subscribe("service", cb=answer)

    reply = await connection.request("service", b"1", timeout=TIMEOUT_S)

    assert reply.data == b"pong 1"


async def test_request_without_a_responder_fails_at_once(connection: Client) -> None:
    with pytest.raises(nats.errors.NoRespondersError):
        await connection.request("nobody", b"", timeout=TIMEOUT_S)


async def test_queue_group_shares_messages(connection: Client) -> None:
    received: list[str] = []
    done = asyncio.Event()

    def member(name: str) -> Callable[[Msg], Awaitable[None]]:
        async def take(_: Msg) -> None:
            received.append(name)
            if len(received) == 40:
                done.set()

        return take

    await connection.subscribe("work", "group", cb=member("one"))
    await connection.subscribe("work", "group", cb=member("two"))
    for _ in range(40):
        await connection.publish("work", b"x")
    await asyncio.wait_for(done.wait(), TIMEOUT_S)

    assert set(received) == {"one", "two"}


async def test_publish_is_acknowledged_and_duplicates_are_noticed(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(name="ORDERS", subjects=["ORDERS.*"])

    acks = [
        await jetstream.publish("ORDERS.new", b"hello%d" % number, headers={"Nats-Msg-Id": "1"}) for number in range(4)
    ]

    assert [ack.seq for ack in acks] == [1, 1, 1, 1]
    assert [bool(ack.duplicate) for ack in acks] == [False, True, True, True]
    state = (await jetstream.stream_info("ORDERS")).state
    assert (state.messages, state.bytes) == (1, 78)


async def test_expected_sequence_is_checked(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(name="S", subjects=["s"])
    await jetstream.publish("s", b"1", headers={"Nats-Expected-Last-Sequence": "0"})

    with pytest.raises(nats.js.errors.BadRequestError) as refused:
        await jetstream.publish("s", b"2", headers={"Nats-Expected-Last-Sequence": "0"})

    assert refused.value.err_code == 10071


async def test_walk_through_of_the_deep_dive(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(name="ORDERS", subjects=["ORDERS.*"])
    config = ConsumerConfig(ack_wait=0.5, ack_policy=AckPolicy.EXPLICIT)
    consumer = await jetstream.pull_subscribe("ORDERS.processed", "DISPATCH", config=config)

    async def numbers() -> tuple[int, int, int, int, int, int]:
        info = await consumer.consumer_info()
        delivered, floor = info.delivered, info.ack_floor
        assert delivered is not None
        assert floor is not None
        sequences = (delivered.consumer_seq, delivered.stream_seq, floor.consumer_seq, floor.stream_seq)
        return (*sequences, info.num_ack_pending or 0, info.num_redelivered or 0)

    async def following() -> Msg:
        return (await consumer.fetch(1, timeout=TIMEOUT_S))[0]

    assert await numbers() == (0, 0, 0, 0, 0, 0)
    await jetstream.publish("ORDERS.processed", b"order 4")
    assert (await jetstream.stream_info("ORDERS")).state.bytes == 53
    await (await following()).ack_sync()
    assert await numbers() == (1, 1, 1, 1, 0, 0)
    await jetstream.publish("ORDERS.processed", b"order 5")
    assert (await following()).data == b"order 5"
    assert await numbers() == (2, 2, 1, 1, 1, 0)
    assert (await following()).data == b"order 5"
    assert await numbers() == (3, 2, 1, 1, 1, 1)
    await (await following()).ack_sync()
    assert await numbers() == (4, 2, 4, 2, 0, 0)


async def test_every_kind_of_ack(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(name="S", subjects=["s"])
    for number in range(4):
        await jetstream.publish("s", b"%d" % number)
    consumer = await jetstream.pull_subscribe("s", "worker")
    first, second, third, fourth = await consumer.fetch(4, timeout=TIMEOUT_S)

    await first.ack_sync()
    await second.nak()
    await third.in_progress()
    await fourth.term()
    again = (await consumer.fetch(1, timeout=TIMEOUT_S))[0]

    assert again.data == b"1"
    assert again.metadata.num_delivered == 2
    await third.ack_sync()
    await again.ack_sync()
    info = await consumer.consumer_info()
    assert (info.num_ack_pending, info.num_redelivered) == (0, 0)


async def test_nak_with_a_delay_comes_again(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(name="S", subjects=["s"])
    await jetstream.publish("s", b"x")
    consumer = await jetstream.pull_subscribe("s", "worker")
    message = (await consumer.fetch(1, timeout=TIMEOUT_S))[0]

    await message.nak(delay=0.2)

    assert (await consumer.fetch(1, timeout=TIMEOUT_S))[0].metadata.num_delivered == 2


async def test_fetch_of_nothing_times_out(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(name="S", subjects=["s"])
    consumer = await jetstream.pull_subscribe("s", "worker")

    with pytest.raises(asyncio.TimeoutError):
        await consumer.fetch(1, timeout=0.3)


async def test_large_batches_are_fetched_whole(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(name="S", subjects=["s"])
    await asyncio.gather(*(jetstream.publish("s", b"%d" % number) for number in range(500)))
    consumer = await jetstream.pull_subscribe("s", "worker")

    messages = [message for _ in range(5) for message in await consumer.fetch(100, timeout=TIMEOUT_S)]

    assert [message.metadata.sequence.stream for message in messages] == list(range(1, 501))


async def test_push_subscription_delivers_and_acknowledges(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(name="S", subjects=["s.*"])
    subscription = await jetstream.subscribe("s.*", durable="push")
    for number in range(3):
        await jetstream.publish(f"s.{number}", b"x")

    for number in range(3):
        message = await subscription.next_msg(timeout=TIMEOUT_S)
        assert message.subject == f"s.{number}"
        await message.ack_sync()

    info = await jetstream.consumer_info("S", "push")
    assert info.push_bound
    assert info.num_ack_pending == 0


async def test_queue_push_subscription(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(name="S", subjects=["s"])
    one = await jetstream.subscribe("s", queue="workers", durable="workers")
    two = await jetstream.subscribe("s", queue="workers", durable="workers")
    for _ in range(20):
        await jetstream.publish("s", b"x")

    async def drain(subscription: JetStreamContext.PushSubscription, count: int) -> int:
        taken = 0
        while taken < count:
            try:
                await subscription.next_msg(timeout=0.5)
            except nats.errors.TimeoutError:
                break
            taken += 1
        return taken

    assert sum(await asyncio.gather(drain(one, 20), drain(two, 20))) == 20


async def test_ordered_consumer_reads_everything_in_order(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(name="S", subjects=["s"])
    await asyncio.gather(*(jetstream.publish("s", b"x" * 1000) for _ in range(200)))
    subscription = await jetstream.subscribe("s", ordered_consumer=True)

    messages = [await subscription.next_msg(timeout=TIMEOUT_S) for _ in range(200)]

    assert [message.metadata.sequence.stream for message in messages] == list(range(1, 201))


@pytest.mark.parametrize(
    ("policy", "extra", "expected"),
    [
        (DeliverPolicy.ALL, {}, b"order 1"),
        (DeliverPolicy.LAST, {}, b"order 100"),
        (DeliverPolicy.BY_START_SEQUENCE, {"opt_start_seq": 10}, b"order 10"),
    ],
)
async def test_starting_positions(
    jetstream: JetStreamContext, policy: DeliverPolicy, extra: dict[str, Any], expected: bytes
) -> None:
    await jetstream.add_stream(name="ORDERS", subjects=["ORDERS.*"])
    await asyncio.gather(*(jetstream.publish("ORDERS.processed", b"order %d" % n) for n in range(1, 101)))
    config = ConsumerConfig(deliver_policy=policy, ack_policy=AckPolicy.NONE, **extra)
    consumer = await jetstream.pull_subscribe("ORDERS.processed", "start", config=config)

    assert (await consumer.fetch(1, timeout=TIMEOUT_S))[0].data == expected


async def test_limits_and_discard(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(StreamConfig(name="OLD", subjects=["old"], max_msgs=2))
    await jetstream.add_stream(StreamConfig(name="NEW", subjects=["new"], max_msgs=2, discard=DiscardPolicy.NEW))
    for _ in range(3):
        await jetstream.publish("old", b"x")
    for _ in range(2):
        await jetstream.publish("new", b"x")

    with pytest.raises(nats.js.errors.APIError) as refused:
        await jetstream.publish("new", b"x")

    assert refused.value.err_code == 10077
    assert (await jetstream.stream_info("OLD")).state.first_seq == 2


async def test_work_queue_forgets_what_was_acknowledged(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(StreamConfig(name="W", subjects=["w"], retention=RetentionPolicy.WORK_QUEUE))
    await jetstream.publish("w", b"job")
    consumer = await jetstream.pull_subscribe("w", "worker")

    await (await consumer.fetch(1, timeout=TIMEOUT_S))[0].ack_sync()

    assert (await jetstream.stream_info("W")).state.messages == 0


async def test_messages_can_be_read_and_deleted(jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(StreamConfig(name="S", subjects=["s"], allow_direct=True))
    await jetstream.publish("s", b"one", headers={"A": "1"})
    await jetstream.publish("s", b"two")

    assert (await jetstream.get_msg("S", 1)).data == b"one"
    assert (await jetstream.get_msg("S", 1)).headers == {"A": "1"}
    assert (await jetstream.get_last_msg("S", "s")).data == b"two"
    assert await jetstream.delete_msg("S", 1)
    with pytest.raises(nats.js.errors.NotFoundError):
        await jetstream.get_msg("S", 1)
    assert await jetstream.purge_stream("S")
    assert (await jetstream.account_info()).streams == 1


async def test_key_value_bucket(jetstream: JetStreamContext) -> None:
    bucket = await jetstream.create_key_value(bucket="config", history=5)

    assert await bucket.put("color", b"red") == 1
    assert await bucket.update("color", b"blue", last=1) == 2
    with pytest.raises(nats.js.errors.KeyWrongLastSequenceError):
        await bucket.update("color", b"green", last=1)
    assert (await bucket.get("color")).value == b"blue"
    assert await bucket.create("size", b"10") == 3
    assert sorted(await bucket.keys()) == ["color", "size"]
    assert [entry.value for entry in await bucket.history("color")] == [b"red", b"blue"]
    await bucket.delete("color")
    with pytest.raises(nats.js.errors.KeyNotFoundError):
        await bucket.get("color")
    await bucket.purge("size")
    assert (await bucket.status()).values == 4


async def test_key_value_watch(jetstream: JetStreamContext) -> None:
    bucket = await jetstream.create_key_value(bucket="watched")
    await bucket.put("a", b"1")
    # Its methods have no types.
    watcher: Any = await bucket.watchall()

    first = await watcher.updates(timeout=TIMEOUT_S)
    caught_up = await watcher.updates(timeout=TIMEOUT_S)
    await bucket.put("b", b"2")
    second = await watcher.updates(timeout=TIMEOUT_S)
    await watcher.stop()

    assert first is not None
    assert caught_up is None
    assert second is not None
    assert (first.key, second.key, second.value) == ("a", "b", b"2")


async def test_object_store(jetstream: JetStreamContext) -> None:
    store = await jetstream.create_object_store("files")
    data = bytes(range(256)) * 2000

    info = await store.put("numbers", data)
    found = await store.get("numbers")

    assert info.size == len(data)
    assert found.data == data
    assert [entry.name for entry in await store.list()] == ["numbers"]
    await store.delete("numbers")
    with pytest.raises(nats.js.errors.ObjectNotFoundError):
        await store.get("numbers")
