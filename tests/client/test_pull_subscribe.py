"""The pull subscription of the first specification (seed 1)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from jetspark.client import errors
from jetspark.client.aio import Connection, JetStream, PullSubscription, Stream, connect
from jetspark.client.api_errors import ConsumerNotFoundError
from tests.client.peer import ScriptedPeer
from tests.client.test_fetch import fill
from tests.client.waiting import until

NO_MESSAGES = b"NATS/1.0 404 No Messages\r\n\r\n"


async def bind(connection: Connection) -> PullSubscription:
    consumer = connection.jetstream().stream_handle("S").consumer_handle("C")
    return PullSubscription(consumer, False)


def pull_body(line: bytes) -> dict[str, Any]:
    return dict(json.loads(line.split(b"\r\n")[1]))


def sid_of(peer: ScriptedPeer, start: bytes = b"SUB ") -> bytes:
    return next(line for line in reversed(peer.lines) if line.startswith(start)).split()[-1]


async def test_row_1_2_3_and_4_a_try_without_waiting_then_the_lingering_pull(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        fetching = asyncio.create_task((await bind(connection)).fetch(5, timeout=5))
        first = await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
        assert pull_body(first) == {"batch": 5, "no_wait": True}
        inbox, sid = first.split()[2], sid_of(peer)
        peer.message(inbox.decode(), sid, header=NO_MESSAGES)
        assert await peer.expect(b"UNSUB") == b"UNSUB %b 6\r\n" % sid
        second = await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
        body = pull_body(second)
        assert (second.split()[2], body["batch"]) == (inbox, 5)
        assert 4.5e9 < body["expires"] <= 4.9e9
        peer.message("orders", sid, b"1", reply="$JS.ACK.S.C.1.1.1.1.0")
        assert await peer.expect(b"UNSUB") == b"UNSUB %b\r\n" % sid
        assert [message.data for message in await asyncio.wait_for(fetching, 5)] == [b"1"]


@pytest.mark.long
async def test_row_3_a_short_timeout_keeps_a_margin_of_a_tenth(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        fetching = asyncio.create_task((await bind(connection)).fetch(2, timeout=0.4))
        first = await peer.expect(b"PUB $JS.API")
        peer.message(first.split()[2].decode(), sid_of(peer), header=NO_MESSAGES)
        assert pull_body(await peer.expect(b"PUB $JS.API"))["expires"] <= 0.36e9
        with pytest.raises(errors.PullTimeoutError):
            await fetching


async def test_row_9_fetching_one_uses_a_wildcard_inbox_then_one_of_its_own(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        subscription = await bind(connection)
        fetching = asyncio.create_task(subscription.fetch(1, timeout=5))
        first = await peer.expect(b"PUB $JS.API")
        wildcard = next(line for line in peer.lines if line.startswith(b"SUB ")).split()[1]
        assert wildcard.endswith(b".*")
        assert first.split()[2].startswith(wildcard[:-1])
        assert pull_body(first) == {"batch": 1, "no_wait": True}
        peer.message(first.split()[2].decode(), sid_of(peer), header=NO_MESSAGES)
        second = await peer.expect(b"PUB $JS.API")
        assert not second.split()[2].startswith(wildcard[:-1])
        peer.message("orders", sid_of(peer), b"1", reply="$JS.ACK.S.C.1.1.1.1.0")
        assert [message.data for message in await asyncio.wait_for(fetching, 5)] == [b"1"]
        again = asyncio.create_task(subscription.fetch(1, timeout=5))
        third = await peer.expect(b"PUB $JS.API")
        assert third.split()[2].startswith(wildcard[:-1])
        peer.message("orders", sid_of(peer, b"SUB " + wildcard), b"2", reply="$JS.ACK.S.C.1.2.2.1.0")
        assert [message.data for message in await asyncio.wait_for(again, 5)] == [b"2"]


async def test_row_10_answers_never_pass_through_the_shared_request_inbox(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        fetching = asyncio.create_task((await bind(connection)).fetch(3, timeout=0.2))
        line = await peer.expect(b"PUB $JS.API")
        assert not line.split()[2].startswith(connection._core.requests.subject[:-1])
        with pytest.raises(TimeoutError):
            await fetching


async def test_row_6_and_7_what_is_there_comes_at_once_and_statuses_never_do(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 3)
    subscription = await jetstream.pull_subscribe(f"{name}.a", "worker")
    got = await subscription.fetch(10, timeout=30)
    assert [message.data for message in got] == [b"1", b"2", b"3"]
    with pytest.raises(errors.PullTimeoutError) as caught:
        await subscription.fetch(10, timeout=0.2)
    assert isinstance(caught.value, TimeoutError)


async def test_row_6_the_lingering_pull_returns_with_the_first_messages(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    subscription = await jetstream.pull_subscribe(f"{name}.a", "worker")
    fetching = asyncio.create_task(subscription.fetch(10, timeout=30))
    await until(lambda: _waiting(subscription, 1))
    await jetstream.publish(f"{name}.a", b"1")
    assert [message.data for message in await asyncio.wait_for(fetching, 5)] == [b"1"]
    await until(lambda: _waiting(subscription, 0))


async def _waiting(subscription: PullSubscription, count: int) -> bool:
    return (await subscription.consumer_info()).num_waiting == count


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (b"503", errors.PullUnavailableError),
        (b"400 Bad Request", errors.BadPullError),
        (b"409 Consumer Deleted", errors.ConsumerDeletedError),
        (b"499 Other", errors.PullError),
    ],
)
@pytest.mark.parametrize("batch", [1, 5])
async def test_row_8_errors_are_told_apart(
    peer: ScriptedPeer, batch: int, status: bytes, error: type[Exception]
) -> None:
    await fetch_and_fail(peer, batch, status, error)


async def test_row_8_a_batch_that_finds_the_consumer_crowded_fails(peer: ScriptedPeer) -> None:
    # A single message lingers instead.
    await fetch_and_fail(peer, 5, b"409 Exceeded MaxWaiting", errors.PullLimitError)


async def fetch_and_fail(peer: ScriptedPeer, batch: int, status: bytes, error: type[Exception]) -> None:
    """A fetch whose pull is answered with this status."""
    async with await connect(peer.url) as connection:
        fetching = asyncio.create_task((await bind(connection)).fetch(batch, timeout=5))
        line = await peer.expect(b"PUB $JS.API")
        peer.message(line.split()[2].decode(), sid_of(peer), header=b"NATS/1.0 %b\r\n\r\n" % status)
        with pytest.raises(error):
            await asyncio.wait_for(fetching, 5)


async def test_row_11_timed_out_fetches_leave_nothing_on_the_server(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    subscription = await jetstream.pull_subscribe(f"{name}.a", "worker", max_waiting=3)
    for batch in [1, 2] * 20:
        with pytest.raises(errors.PullTimeoutError):
            await subscription.fetch(batch, timeout=0.005)
    await until(lambda: _waiting(subscription, 0))
    assert len(jetstream.connection._core.routes) <= 2


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_row_11_ten_thousand_timed_out_fetches_leave_no_orphan(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    subscription = await jetstream.pull_subscribe(f"{name}.a", "worker")

    async def time_out(count: int) -> None:
        for _ in range(count):
            with pytest.raises(errors.PullTimeoutError):
                await subscription.fetch(2, timeout=0.01)

    await asyncio.gather(*[time_out(200) for _ in range(50)])
    await until(lambda: _waiting(subscription, 0))


async def test_row_26_pull_with_other_acks_than_explicit_is_refused(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    for policy in ("none", "all"):
        with pytest.raises(errors.PullAckPolicyError):
            await jetstream.pull_subscribe(f"{name}.a", ack_policy=policy)


async def test_row_28_and_42_binding_and_deleting(jetstream: JetStream, stream: Stream, name: str) -> None:
    await stream.create_consumer("worker")
    async with await jetstream.pull_subscribe(stream=name, consumer="worker") as bound:
        await jetstream.publish(f"{name}.a", b"1")
        assert len(await bound.fetch(1)) == 1
    assert await stream.consumer_names() == ["worker"]
    unknown = await jetstream.pull_subscribe(stream=name, consumer="later")
    with pytest.raises(errors.PullUnavailableError):
        await unknown.fetch(2, timeout=1)
    async with await jetstream.pull_subscribe(f"{name}.a") as made:
        ephemeral = made.consumer.name
    with pytest.raises(ConsumerNotFoundError):
        await stream.consumer(ephemeral)


async def test_row_35_pull_on_a_push_consumer_is_refused(jetstream: JetStream, stream: Stream, name: str) -> None:
    await stream.create_consumer("pushed", deliver_subject="somewhere." + name)
    with pytest.raises(errors.PullOnPushError):
        await jetstream.pull_subscribe(stream=name, consumer="pushed")
