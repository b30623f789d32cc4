"""Push subscriptions whose consumer did not outlive the time without a connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from jetspark.client import errors, sync
from jetspark.client.aio import Connection, JetStream, Msg, PushSubscription, Stream, connect
from jetspark.client.api_errors import ConsumerNotFoundError
from tests.client.peer import ScriptedPeer
from tests.client.proxy import ChaosProxy
from tests.client.test_push_subscribe import answer, push_on
from tests.client.waiting import until


@pytest.fixture
async def told() -> list[BaseException]:
    """What the error hook of `cut_off` was told."""
    return []


@pytest.fixture
async def cut_off(proxy: ChaosProxy, told: list[BaseException]) -> AsyncIterator[Connection]:
    """A connection through the proxy."""
    async with await connect(proxy.url, reconnect_wait_max=0.2, on_error=told.append) as made:
        yield made


async def lose_consumer(stream: Stream, proxy: ChaosProxy, consumer: str, meanwhile: Callable[[], Any]) -> None:
    """Cut the connection until the server has forgotten the consumer; then let it come back."""
    proxy.shut()

    async def is_gone() -> bool:
        try:
            await stream.consumer(consumer)
        except ConsumerNotFoundError:
            return True
        return False

    await until(is_gone)
    await meanwhile()
    proxy.reopen()


async def take(subscription: PushSubscription, count: int) -> list[bytes]:
    taken: list[bytes] = []
    while len(taken) < count:
        message = await subscription.next(10)
        assert message is not None, taken
        taken.append(message.data)
        await message.ack()
    return taken


@pytest.mark.parametrize("ack_policy", ["explicit", "all", "none"])
async def test_a_forgotten_consumer_is_made_again_and_nothing_is_lost_or_doubled(
    jetstream: JetStream, stream: Stream, name: str, proxy: ChaosProxy, cut_off: Connection, ack_policy: str
) -> None:
    async def publish(*texts: str) -> None:
        for text in texts:
            await jetstream.publish(f"{name}.a", text)

    await publish("1", "2")
    subscription = await cut_off.jetstream().subscribe(
        f"{name}.a", ack_policy=ack_policy, inactive_threshold=0.1, idle_heartbeat=5
    )
    first = subscription.consumer_name
    taken = await take(subscription, 1)
    await until(lambda: subscription.pending_count == 1)
    await lose_consumer(stream, proxy, first, lambda: publish("3", "4"))
    taken += await take(subscription, 3)
    await publish("5")
    taken += await take(subscription, 1)
    assert taken == [b"1", b"2", b"3", b"4", b"5"]
    assert subscription.consumer_name != first
    assert await stream.consumer_names() == [subscription.consumer_name]
    await subscription.unsubscribe()
    assert await stream.consumer_names() == []


async def test_what_was_new_while_disconnected_is_not_left_out(
    jetstream: JetStream, stream: Stream, name: str, proxy: ChaosProxy, cut_off: Connection
) -> None:
    await jetstream.publish(f"{name}.a", "old")
    got: list[bytes] = []
    subscription = await cut_off.jetstream().subscribe(
        f"{name}.a", callback=lambda message: got.append(message.data), deliver_policy="new", inactive_threshold=0.1
    )
    await lose_consumer(stream, proxy, subscription.consumer_name, lambda: jetstream.publish(f"{name}.a", "new"))
    await until(lambda: got)
    assert got == [b"new"]


async def test_a_consumer_that_is_still_there_goes_on(
    jetstream: JetStream, stream: Stream, name: str, proxy: ChaosProxy, cut_off: Connection
) -> None:
    subscription = await cut_off.jetstream().subscribe(f"{name}.a")
    first = subscription.consumer_name
    proxy.shut()
    await until(lambda: not cut_off.is_connected)
    await jetstream.publish(f"{name}.a", "1")
    proxy.reopen()
    assert await take(subscription, 1) == [b"1"]
    assert await stream.consumer_names() == [first]


@pytest.mark.long
async def test_a_lost_answer_to_flow_control_does_not_stop_it(
    jetstream: JetStream, stream: Stream, name: str, proxy: ChaosProxy, cut_off: Connection
) -> None:
    count = 60
    subscription = await cut_off.jetstream().subscribe(
        f"{name}.a", durable="known", ack_wait=1, idle_heartbeat=0.2, flow_control=True
    )
    proxy.loses_requests = True
    for number in range(count):
        await jetstream.publish_async(f"{name}.a", b"%d;" % number + b"x" * 100_000)
    await jetstream.flush(20)
    seen: set[bytes] = set()
    # Without the answer the server stops before the end.
    while message := await subscription.next(0.5):
        seen.add(message.data.split(b";")[0])
    assert len(seen) < count
    proxy.shut()
    proxy.loses_requests = False
    proxy.reopen()
    while len(seen) < count:
        message = await subscription.next(10)
        assert message is not None, f"{len(seen)} of {count}"
        seen.add(message.data.split(b";")[0])
        await message.ack()


async def test_flow_control_is_answered_again_on_another_connection(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, reconnect_wait=0.01) as connection:
        push = await push_on(connection, peer, idle_heartbeat=30, flow_control=True)
        push.status("100 FlowControl Request", reply="$JS.FC.S.C.abcd")
        assert await push.subscription.next(0.05) is None
        await peer.expect(b"PUB $JS.FC.S.C.abcd 0")
        peer.cut()
        await until(lambda: peer.connection_count == 2 and connection.is_connected)
        for _ in range(2):
            push.status("100 Idle Heartbeat", "Nats-Consumer-Stalled: $JS.FC.S.C.abcd")
        assert await push.subscription.next(0.05) is None
        await peer.expect(b"PUB $JS.FC.S.C.abcd 0")
        await connection.flush()
        assert len(push.answers()) == 2


@pytest.mark.parametrize("options", [{"durable": "known"}, {"queue": "known"}])
async def test_a_consumer_with_a_name_that_was_deleted_ends_the_subscription(
    stream: Stream,
    name: str,
    proxy: ChaosProxy,
    cut_off: Connection,
    told: list[BaseException],
    options: dict[str, Any],
) -> None:
    subscription = await cut_off.jetstream().subscribe(f"{name}.a", **options)
    proxy.shut()
    await until(lambda: not cut_off.is_connected)
    await stream.delete_consumer("known")
    proxy.reopen()
    with pytest.raises(errors.ConsumerDeletedError, match="consumer known is gone"):
        await subscription.next(10)
    assert subscription.is_closed
    with pytest.raises(errors.SubscriptionClosedError):
        await subscription.next(10)
    await until(lambda: told)
    assert isinstance(told[0], errors.ConsumerDeletedError)
    await subscription.unsubscribe()


@pytest.mark.long
async def test_a_stream_that_is_gone_ends_a_callback_and_is_told(
    jetstream: JetStream, stream: Stream, name: str, proxy: ChaosProxy, cut_off: Connection, told: list[BaseException]
) -> None:
    def ignore(message: Msg) -> None:
        return None

    subscription = await cut_off.jetstream().subscribe(f"{name}.a", callback=ignore)
    proxy.shut()
    await until(lambda: not cut_off.is_connected)
    await jetstream.delete_stream(name)
    proxy.reopen()
    await until(lambda: subscription.is_closed and told)
    assert isinstance(told[0], errors.ConsumerDeletedError)


async def test_a_blocking_subscription_goes_on_with_a_new_consumer(
    jetstream: JetStream, stream: Stream, name: str, proxy: ChaosProxy
) -> None:
    connection = await asyncio.to_thread(sync.connect, proxy.url, reconnect_wait_max=0.2)

    def subscribe() -> sync.PushSubscription:
        return connection.jetstream().subscribe(f"{name}.a", inactive_threshold=0.1)

    subscription = await asyncio.to_thread(subscribe)
    await jetstream.publish(f"{name}.a", "1")
    first = await asyncio.to_thread(subscription.next, 10)
    await lose_consumer(stream, proxy, subscription.consumer_name, lambda: jetstream.publish(f"{name}.a", "2"))
    second = await asyncio.to_thread(subscription.next, 10)
    assert first is not None
    assert second is not None
    assert (first.data, second.data) == (b"1", b"2")
    await asyncio.to_thread(connection.close)


@pytest.mark.long
async def test_a_server_that_does_not_answer_is_asked_again_while_messages_go_on(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, request_timeout=0.5) as connection:
        push = await push_on(connection, peer)
        taking = asyncio.create_task(push.subscription.next(30))
        peer.cut()
        await peer.expect(b"PUB $JS.API.CONSUMER.INFO.S.C")
        line = await peer.expect(b"PUB $JS.API.CONSUMER.INFO.S.C")
        push.deliver(1)
        assert await taking is not None
        taking = asyncio.create_task(push.subscription.next(30))
        answer(peer, line, {"error": {"code": 404, "err_code": 10014, "description": "consumer not found"}})
        made = await peer.expect(b"PUB $JS.API.CONSUMER.CREATE.S.")
        assert json.loads(made.split(b"\r\n")[1])["config"]["opt_start_seq"] == 102
        taking.cancel()
