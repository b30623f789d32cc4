"""The subscribe workflow of the first specification (seed 3)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from jetspark.api.consumer_config import AckPolicy, ConsumerConfig
from jetspark.client import errors
from jetspark.client.aio import Connection, JetStream, Msg, PushSubscription, Stream, connect
from jetspark.client.aio.subscribing import _create_push, _wanted
from jetspark.client.api_errors import ConsumerExistsError, ConsumerNotFoundError
from tests.client.peer import ScriptedPeer
from tests.client.test_fetch import fill
from tests.client.waiting import until


async def test_row_22_an_ephemeral_is_subscribed_first_and_then_made(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        subscribing = asyncio.create_task(connection.jetstream().subscribe("orders", stream="S"))
        line = await peer.expect(b"PUB $JS.API.CONSUMER.CREATE.S.")
        config = json.loads(line.split(b"\r\n")[1])["config"]
        assert config["filter_subject"] == "orders"
        assert config["ack_policy"] == "explicit"
        assert "durable_name" not in config
        subscribed = [one.split()[1] for one in peer.lines if one.startswith(b"SUB ")]
        assert config["deliver_subject"].encode() in subscribed
        subscribing.cancel()


async def test_a_push_subscription_delivers_and_acks(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 3)
    async with await jetstream.subscribe(f"{name}.a") as subscription:
        for expected in (b"1", b"2", b"3"):
            message = await subscription.next(5)
            assert message is not None
            assert message.data == expected
            assert await message.ack(wait=True)
        assert (await subscription.consumer_info()).ack_floor.stream_seq == 3
        assert await subscription.next(0.05) is None


async def test_row_24_and_38_heartbeats_or_flow_control_with_a_queue_are_refused(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    refused: list[dict[str, Any]] = [{"idle_heartbeat": 5}, {"flow_control": True, "idle_heartbeat": 5}]
    for settings in refused:
        with pytest.raises(errors.QueueOptionError):
            await jetstream.subscribe(f"{name}.a", queue="q", **settings)
    await stream.create_consumer("beating", deliver_subject=f"d.{name}", deliver_group="q", idle_heartbeat=5)
    with pytest.raises(errors.QueueOptionError):
        await jetstream.subscribe(stream=name, consumer="beating", queue="q")


async def test_row_25_neither_subject_nor_stream_is_an_error(jetstream: JetStream) -> None:
    with pytest.raises(errors.SubjectRequiredError):
        await jetstream.subscribe()
    with pytest.raises(errors.SubjectRequiredError):
        await jetstream.pull_subscribe()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"filter_subject": "somewhere.else"}, "filter_subject is somewhere.else"),
        ({"deliver_group": "workers"}, "leave deliver_group out"),
        ({"durable_name": "worker"}, "not durable_name"),
        ({"name": "worker"}, "not name"),
    ],
    ids=str,
)
async def test_settings_that_contradict_the_call_are_refused(
    jetstream: JetStream, stream: Stream, name: str, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(errors.SubscribeError, match=said):
        await jetstream.subscribe(f"{name}.a", **settings)
    with pytest.raises(errors.SubscribeError, match=said):
        await jetstream.pull_subscribe(f"{name}.a", **settings)


async def test_a_pull_subscription_has_no_deliver_subject(jetstream: JetStream, stream: Stream, name: str) -> None:
    with pytest.raises(errors.SubscribeError, match="deliver_subject"):
        await jetstream.pull_subscribe(f"{name}.a", deliver_subject="here")


async def test_a_config_that_says_no_acks_means_it(jetstream: JetStream, stream: Stream, name: str) -> None:
    config = ConsumerConfig(ack_policy=AckPolicy.NONE)
    subscription = await jetstream.subscribe(f"{name}.a", config=config)
    assert (await subscription.consumer_info()).config.ack_policy == AckPolicy.NONE
    with pytest.raises(errors.PullAckPolicyError):
        await jetstream.pull_subscribe(f"{name}.a", config=config)


async def test_row_27_the_stream_is_found_by_the_subject(jetstream: JetStream, stream: Stream, name: str) -> None:
    async with await jetstream.subscribe(f"{name}.a") as subscription:
        assert subscription.stream_name == name
    with pytest.raises(errors.NoMatchingStreamError):
        await jetstream.subscribe(f"nobody.{name}")


async def test_row_28_binding_to_a_consumer_that_is_not_there_is_an_error(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    with pytest.raises(ConsumerNotFoundError):
        await jetstream.subscribe(stream=name, consumer="nobody")


async def test_row_29_a_queue_without_a_name_becomes_the_durable(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    first = await jetstream.subscribe(f"{name}.a", queue="workers")
    second = await jetstream.subscribe(f"{name}.a", queue="workers")
    assert first.consumer_name == second.consumer_name == "workers"
    assert (await first.consumer_info()).config.deliver_group == "workers"
    await fill(jetstream, f"{name}.a", 40)
    await until(lambda: first.pending_count + second.pending_count == 40)
    await first.unsubscribe()
    assert (await second.consumer_info()).name == "workers"  # row 11 of the resolutions: members keep it


async def test_row_30_a_bound_consumer_without_a_group_has_room_for_one(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await jetstream.subscribe(f"{name}.a", durable="only")
    with pytest.raises(errors.DuplicateSubscriptionError):
        await jetstream.subscribe(f"{name}.a", durable="only")


async def test_row_31_32_and_33_queue_and_group_must_agree(jetstream: JetStream, stream: Stream, name: str) -> None:
    await stream.create_consumer("grouped", deliver_subject=f"g.{name}", deliver_group="workers")
    await stream.create_consumer("plain", deliver_subject=f"p.{name}")
    with pytest.raises(errors.QueueRequiredError):
        await jetstream.subscribe(stream=name, consumer="grouped")
    with pytest.raises(errors.QueueMismatchError):
        await jetstream.subscribe(stream=name, consumer="grouped", queue="others")
    with pytest.raises(errors.NotAQueueConsumerError):
        await jetstream.subscribe(stream=name, consumer="plain", queue="workers")


async def test_row_34_the_filter_must_be_the_subject(jetstream: JetStream, stream: Stream, name: str) -> None:
    await stream.create_consumer("filtered", deliver_subject=f"f.{name}", filter_subject=f"{name}.a")
    with pytest.raises(errors.SubjectMismatchError):
        await jetstream.subscribe(f"{name}.b", consumer="filtered")
    await jetstream.subscribe(f"{name}.a", consumer="filtered")


async def test_row_36_push_on_a_pull_consumer_is_refused(jetstream: JetStream, stream: Stream, name: str) -> None:
    await stream.create_consumer("pulled")
    with pytest.raises(errors.PushOnPullError):
        await jetstream.subscribe(stream=name, consumer="pulled")


async def test_row_37_settings_that_differ_are_named(jetstream: JetStream, stream: Stream, name: str) -> None:
    await stream.create_consumer("worker", deliver_subject=f"w.{name}", ack_wait=5, max_deliver=3)
    with pytest.raises(errors.ConfigMismatchError) as caught:
        await jetstream.subscribe(stream=name, consumer="worker", ack_wait=6, max_deliver=4)
    assert caught.value.fields == ["ack_wait", "max_deliver"]
    await jetstream.subscribe(stream=name, consumer="worker", ack_wait=5)


async def test_row_39_and_40_the_subscription_exists_before_the_consumer_and_fills_it(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    subscription = await jetstream.subscribe(f"{name}.a", durable="worker")
    info = await subscription.consumer_info()
    assert info.push_bound
    assert (info.config.filter_subject, info.config.ack_policy) == (f"{name}.a", "explicit")
    assert info.config.deliver_subject.startswith("_INBOX.")


async def test_row_41_a_race_for_a_queue_consumer_moves_the_subscription(
    connection: Connection, jetstream: JetStream, stream: Stream, name: str
) -> None:
    wanted = _wanted(f"{name}.a", name, "", "", "workers", False, None, {})
    inbox = connection._core.add_inbox(connection._core.new_inbox_subject(), b"workers", connection._link)
    await stream.create_consumer(
        "workers", deliver_subject=f"d.{name}", deliver_group="workers", filter_subject=f"{name}.a"
    )
    info, created, moved = await _create_push(jetstream, wanted, inbox)
    assert (created, moved.subject.decode(), info.name) == (False, f"d.{name}", "workers")
    assert inbox.closed


async def test_row_41_a_race_for_a_plain_consumer_is_lost(
    connection: Connection, jetstream: JetStream, stream: Stream, name: str
) -> None:
    wanted = _wanted(f"{name}.a", name, "", "worker", "", False, None, {})
    inbox = connection._core.add_inbox(connection._core.new_inbox_subject(), b"", connection._link)
    await stream.create_consumer("worker", deliver_subject=f"d.{name}", filter_subject=f"{name}.a")
    with pytest.raises(ConsumerExistsError):
        await _create_push(jetstream, wanted, inbox)


async def test_row_42_unsubscribe_removes_what_the_library_made_and_nothing_else(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    made = await jetstream.subscribe(f"{name}.a", durable="made")
    await made.unsubscribe()
    assert await stream.consumer_names() == []
    await stream.create_consumer("found", deliver_subject=f"d.{name}")
    found = await jetstream.subscribe(stream=name, consumer="found")
    await found.unsubscribe()
    assert await stream.consumer_names() == ["found"]
    kept = await jetstream.subscribe(f"{name}.a", durable="kept", delete_on_close=False)
    await kept.unsubscribe()
    assert "kept" in await stream.consumer_names()


async def test_row_43_drain_removes_the_consumer_after_the_last_message(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 20)
    seen: list[Msg] = []

    async def handle(message: Msg) -> None:
        seen.append(message)
        await message.ack(wait=True)

    subscription = await jetstream.subscribe(f"{name}.a", durable="worker", callback=handle)
    await until(lambda: len(seen) > 2)
    await subscription.drain()
    assert len(seen) == 20
    assert await stream.consumer_names() == []


async def test_row_43_a_failed_delete_after_drain_reaches_the_hook(
    jetstream: JetStream, stream: Stream, name: str, url: str
) -> None:
    told: asyncio.Queue[BaseException] = asyncio.Queue()
    async with await connect(url, on_error=told.put_nowait) as connection:
        subscription = await connection.jetstream().subscribe(f"{name}.a", durable="worker")
        await stream.delete_consumer("worker")
        await subscription.drain()
        assert isinstance(await asyncio.wait_for(told.get(), 5), ConsumerNotFoundError)


# Statuses.


class Push:
    """A push subscription on a scripted peer."""

    def __init__(self, peer: ScriptedPeer, subscription: PushSubscription) -> None:
        self.peer = peer
        self.subscription = subscription
        self.sid = subscription._inbox.sid
        self.subject = subscription._inbox.subject.decode()

    def deliver(self, consumer_sequence: int, data: bytes = b"x") -> None:
        reply = f"$JS.ACK.S.C.1.{consumer_sequence + 100}.{consumer_sequence}.1.0"
        self.peer.message("orders", self.sid, data, reply=reply)

    def status(self, text: str, *headers: str, reply: str = "") -> None:
        block = "".join([f"NATS/1.0 {text}\r\n", *[f"{header}\r\n" for header in headers], "\r\n"])
        self.peer.message(self.subject, self.sid, header=block.encode(), reply=reply)

    def answers(self) -> list[bytes]:
        return [line for line in self.peer.lines if line.startswith(b"PUB $JS.FC")]


async def push_on(connection: Connection, peer: ScriptedPeer, **options: Any) -> Push:
    subscribing = asyncio.create_task(connection.jetstream().subscribe("orders", stream="S", **options))
    line = await peer.expect(b"PUB $JS.API.CONSUMER.")
    while b"CONSUMER.INFO" in line:
        answer(peer, line, {"error": {"code": 404, "err_code": 10014, "description": "consumer not found"}})
        line = await peer.expect(b"PUB $JS.API.CONSUMER.")
    answer(peer, line, {"stream_name": "S", "name": "C", "config": json.loads(line.split(b"\r\n")[1])["config"]})
    return Push(peer, await subscribing)


def answer(peer: ScriptedPeer, line: bytes, document: dict[str, Any]) -> None:
    reply = line.split()[2]
    sid = next(one for one in peer.lines if one.startswith(b"SUB " + reply.rsplit(b".", 1)[0])).split()[-1]
    peer.message(reply.decode(), sid, json.dumps(document).encode())


async def test_row_51_silence_of_three_heartbeats_is_told_and_does_not_end_it(peer: ScriptedPeer) -> None:
    told: asyncio.Queue[BaseException] = asyncio.Queue()
    async with await connect(peer.url, on_error=told.put_nowait) as connection:
        push = await push_on(connection, peer, idle_heartbeat=0.05)
        assert push.subscription._silence.limit_s == pytest.approx(0.15)
        taking = asyncio.create_task(push.subscription.next(5))
        assert isinstance(await asyncio.wait_for(told.get(), 5), errors.HeartbeatMissedError)
        push.deliver(1)
        message = await taking
        assert message is not None
        other = await push_on(connection, peer, idle_heartbeat=0.05, heartbeat_alarm=10)
        assert other.subscription._silence.limit_s == pytest.approx(0.5)


async def test_row_52_gaps_in_messages_and_heartbeats_are_told(peer: ScriptedPeer) -> None:
    told: list[BaseException] = []
    async with await connect(peer.url, on_error=told.append) as connection:
        push = await push_on(connection, peer, idle_heartbeat=30)
        for sequence in (1, 2, 5):
            push.deliver(sequence)
            assert await push.subscription.next(5) is not None
        await until(lambda: told)
        gap = told.pop()
        assert isinstance(gap, errors.MessageGapError)
        assert (gap.expected, gap.received) == (3, 5)
        push.status("100 Idle Heartbeat", "Nats-Last-Consumer: 7", "Nats-Last-Stream: 107")
        assert await push.subscription.next(0.1) is None
        await until(lambda: told)
        assert isinstance(told[0], errors.MessageGapError)


async def test_row_53_a_queue_member_does_not_look_for_gaps(peer: ScriptedPeer) -> None:
    told: list[BaseException] = []
    async with await connect(peer.url, on_error=told.append) as connection:
        push = await push_on(connection, peer, queue="workers")
        for sequence in (1, 5, 9):
            push.deliver(sequence)
            assert await push.subscription.next(5) is not None
        await connection.flush()
        assert told == []


async def test_row_55_56_57_and_59_flow_control_is_answered_when_its_turn_comes_and_once(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        push = await push_on(connection, peer, idle_heartbeat=30, flow_control=True)
        push.deliver(1)
        push.status("100 FlowControl Request", reply="$JS.FC.S.C.abcd")
        push.deliver(2)
        push.status("100 Idle Heartbeat", "Nats-Last-Consumer: 2", "Nats-Consumer-Stalled: $JS.FC.S.C.abcd")
        await connection.flush()
        first = await push.subscription.next(5)
        await connection.flush()
        assert push.answers() == []
        second = await push.subscription.next(5)
        assert first is not None
        assert second is not None
        assert await push.subscription.next(0.05) is None
        await connection.flush()
        assert push.answers() == [b"PUB $JS.FC.S.C.abcd 0\r\n\r\n"]


async def test_row_58_a_stalled_consumer_is_answered(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        push = await push_on(connection, peer, idle_heartbeat=30, flow_control=True)
        push.status("100 Idle Heartbeat", "Nats-Consumer-Stalled: $JS.FC.S.C.stalled")
        assert await push.subscription.next(0.05) is None
        await peer.expect(b"PUB $JS.FC.S.C.stalled 0")


async def test_row_55_flow_control_keeps_a_real_push_consumer_going(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    subscription = await jetstream.subscribe(f"{name}.a", ack_policy="none", idle_heartbeat=0.2, flow_control=True)
    for _ in range(80):
        await jetstream.publish_async(f"{name}.a", b"x" * 100_000)
    await jetstream.flush(20)
    for _ in range(80):
        assert await subscription.next(10) is not None


async def test_row_60_61_and_62_statuses_of_a_push_subscription(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        push = await push_on(connection, peer)
        push.status("404 No Messages")
        push.status("408 Request Timeout")
        assert await push.subscription.next(0.05) is None
        for status in ("409 Consumer Deleted", "503", "499 From The Future"):
            push.status(status)
            with pytest.raises(errors.PullError) as caught:
                await push.subscription.next(5)
            assert caught.value.code == int(status[:3])


async def test_row_61_with_a_callback_they_reach_the_hook(peer: ScriptedPeer) -> None:
    told: asyncio.Queue[BaseException] = asyncio.Queue()
    async with await connect(peer.url, on_error=told.put_nowait) as connection:
        push = await push_on(connection, peer, callback=lambda message: None)
        push.status("409 Consumer Deleted")
        assert isinstance(await asyncio.wait_for(told.get(), 5), errors.PullError)


@pytest.mark.long
async def test_row_49_and_50_acks_of_a_push_consumer_without_acks_do_nothing(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 1)
    subscription = await jetstream.subscribe(f"{name}.a", ack_policy="none", idle_heartbeat=0.1)
    message = await subscription.next(5)
    assert message is not None
    assert await message.ack() is False
    assert await subscription.next(0.3) is None  # heartbeats came and were kept from the user
