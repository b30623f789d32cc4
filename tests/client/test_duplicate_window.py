"""A message with an id is sent again after a lost connection only while the stream is sure to know the id."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jetspark.client import errors, sync
from jetspark.client.aio import Connection, JetStream, Stream, connect
from jetspark.client.core.connection import ConnectionCore
from jetspark.client.core.pending import Pending
from jetspark.client.core.resend import is_known_at, release
from jetspark.protocol.nuid import Nuid
from tests.client.conftest import NatsServer
from tests.client.peer import ScriptedPeer
from tests.client.proxy import ChaosProxy
from tests.client.test_pulls_resumed import come_up
from tests.client.waiting import until, until_turn

ACK = b'{"stream":"S","seq":1}'


@pytest.fixture
async def cut_off(proxy: ChaosProxy) -> AsyncIterator[Connection]:
    """A connection through the proxy."""
    async with await connect(proxy.url, reconnect_wait=0.01, reconnect_wait_max=0.1, publish_timeout=20) as made:
        yield made


async def count_of(stream: Stream) -> int:
    return (await stream.info()).state.messages


async def lose_ack(proxy: ChaosProxy, stream: Stream) -> None:
    """Once something is stored, cut the connection that waits for the acknowledgement; then let it come back."""
    await until(lambda: count_of(stream))
    proxy.shut()
    proxy.loses_answers = False
    proxy.reopen()


@pytest.mark.parametrize(
    ("age_s", "window_s", "is_known"),
    [
        (0, 120, True),
        (89, 120, True),
        (91, 120, False),
        (0, 6, True),
        (2, 6, False),
        (0, 5, False),
        (0, 1, False),
        (0, 0, False),
    ],
)
def test_an_id_is_known_for_less_than_the_window(age_s: float, window_s: float, is_known: bool) -> None:
    assert is_known_at(age_s, window_s) is is_known


@pytest.mark.parametrize("window", [120, 1])
@pytest.mark.parametrize("how", ["publish", "publish_async", "publish_once"])
async def test_a_copy_is_sent_only_if_the_stream_will_drop_it(
    proxy: ChaosProxy, jetstream: JetStream, stream: Stream, name: str, cut_off: Connection, how: str, window: float
) -> None:
    await jetstream.update_stream(name, duplicate_window=window)
    other = cut_off.jetstream()

    async def publish() -> Any:
        if how == "publish_async":
            return await (await other.publish_async(f"{name}.a", b"x", msg_id="one"))
        return await getattr(other, how)(f"{name}.a", b"x", msg_id="one")

    proxy.loses_answers = True
    publishing = asyncio.create_task(publish())
    await lose_ack(proxy, stream)
    if window == 120:
        ack = await asyncio.wait_for(publishing, 15)
        assert (ack.seq, ack.duplicate) == (1, True)
    else:
        with pytest.raises(errors.PublishUnknownError, match="duplicate window of its stream is 1 s"):
            await asyncio.wait_for(publishing, 15)
    await cut_off.flush()
    assert await count_of(stream) == 1


async def test_a_blocking_publish_is_sent_again_within_the_window(
    proxy: ChaosProxy, stream: Stream, name: str, cut_off: Connection
) -> None:
    connection = await asyncio.to_thread(sync.connect, proxy.url, reconnect_wait=0.01, reconnect_wait_max=0.1)
    other = connection.jetstream()
    proxy.loses_answers = True
    publishing = asyncio.create_task(asyncio.to_thread(other.publish, f"{name}.a", b"x", msg_id="one", timeout=20))
    await lose_ack(proxy, stream)
    assert (await asyncio.wait_for(publishing, 15)).duplicate
    await asyncio.to_thread(connection.close)
    assert await count_of(stream) == 1


async def test_everything_is_stored_once_and_in_order(
    proxy: ChaosProxy, jetstream: JetStream, stream: Stream, name: str, cut_off: Connection
) -> None:
    other = cut_off.jetstream()
    proxy.loses_answers = True
    futures = [await other.publish_async(f"{name}.{n % 3}", b"%d" % n, msg_id=str(n)) for n in range(50)]
    await until(lambda: count_of(stream))
    proxy.shut()
    proxy.loses_answers = False
    await until(lambda: not cut_off.is_connected)
    futures += [await other.publish_async(f"{name}.{n % 3}", b"%d" % n) for n in range(50, 60)]
    proxy.reopen()
    await until(lambda: cut_off.is_connected)
    futures += [await other.publish_async(f"{name}.{n % 3}", b"%d" % n, msg_id=str(n)) for n in range(60, 70)]
    acks = [await asyncio.wait_for(future.wait(), 15) for future in futures]
    assert [ack.seq for ack in acks] == list(range(1, 71))
    assert [(await stream.get_msg(n)).data for n in (1, 50, 51, 70)] == [b"0", b"49", b"50", b"69"]


@pytest.mark.long
async def test_whoever_may_not_ask_for_the_window_is_told_that_it_may_be_stored(make_server: Any) -> None:
    server: NatsServer = make_server(
        config="""
authorization { users = [
  {user: admin, password: x},
  {user: few, password: x, permissions: {publish: ["ok"], subscribe: "_INBOX.>"}},
] }
"""
    )
    async with (
        await connect(server.url, user="admin", password="x") as admin,
        ChaosProxy(server.port, seed=1) as proxy,
        await connect(proxy.url, user="few", password="x", reconnect_wait=0.01) as few,
    ):
        stream = await admin.jetstream().create_stream("S", subjects=["ok"])
        proxy.loses_answers = True
        publishing = asyncio.create_task(few.jetstream().publish("ok", b"x", msg_id="one", timeout=20))
        await lose_ack(proxy, stream)
        with pytest.raises(errors.PublishUnknownError, match="not known"):
            await asyncio.wait_for(publishing, 15)
        assert await count_of(stream) == 1
        assert (await few.jetstream().publish("ok", b"y")).seq == 2


# On the wire.


def answer(peer: ScriptedPeer, line: bytes, body: bytes, header: bytes = b"") -> None:
    """Answer one message, on the inbox it names."""
    reply = line.split()[2]
    start = b"SUB " + reply.rsplit(b".", 1)[0]
    sid = [one for one in peer.lines if one.startswith(start)][-1].split()[-1]
    peer.message(reply.decode(), sid, body, header=header)


async def answer_window(peer: ScriptedPeer, window_s: float) -> None:
    names = await peer.expect(b"PUB $JS.API.STREAM.NAMES ")
    answer(peer, names, b'{"total":1,"offset":0,"limit":1024,"streams":["S"]}')
    config = {"name": "S", "subjects": ["a.>"], "duplicate_window": int(window_s * 1e9)}
    state = {"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0, "consumer_count": 0}
    told = {"config": config, "state": state, "created": "2024-01-01T00:00:00Z"}
    answer(peer, await peer.expect(b"PUB $JS.API.STREAM.INFO.S "), json.dumps(told).encode())


def published(peer: ScriptedPeer) -> list[bytes]:
    """The bodies of the messages, in the order they came."""
    return [line.split(b"\r\n")[-2] for line in peer.lines if line.split()[0] in (b"PUB", b"HPUB") and b" a." in line]


@pytest.mark.long
async def test_what_comes_later_waits_until_the_window_is_known(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, reconnect_wait=0.01) as connection:
        jetstream = connection.jetstream()
        futures = [await jetstream.publish_async("a.1", b"1", msg_id="1")]
        futures += [await jetstream.publish_async("a.2", b"2", msg_id="2")]
        await peer.expect(b"HPUB a.2")
        peer.cut()
        await until_turn(lambda: not connection.is_connected)
        futures += [await jetstream.publish_async("a.3", b"3")]
        await until(lambda: connection.is_connected)
        futures += [await jetstream.publish_async("a.4", b"4")]
        await connection.publish("core", b"does not wait")
        await peer.expect(b"PUB core")
        assert published(peer) == [b"1", b"2"]
        assert connection.pending_bytes > 0
        await answer_window(peer, 120)
        await peer.expect(b"PUB a.4")
        assert published(peer) == [b"1", b"2", b"1", b"2", b"3", b"4"]
        assert connection.pending_bytes == 0
        futures += [await jetstream.publish_async("a.5", b"5")]
        await peer.expect(b"PUB a.5")
        for line in [line for line in peer.lines if b"PUB a." in line]:
            answer(peer, line, ACK)
        assert [(await asyncio.wait_for(future.wait(), 5)).seq for future in futures] == [1] * 5


async def test_a_connection_lost_while_it_asks_begins_again(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, reconnect_wait=0.01) as connection:
        future = await connection.jetstream().publish_async("a.1", b"1", msg_id="1")
        await peer.expect(b"HPUB a.1")
        peer.cut()
        await peer.expect(b"PUB $JS.API.STREAM.NAMES ")
        peer.cut()
        await answer_window(peer, 120)
        line = await peer.expect(b"HPUB a.1")
        answer(peer, line, ACK)
        assert (await asyncio.wait_for(future.wait(), 5)).seq == 1
        assert published(peer) == [b"1", b"1"]


async def test_an_acknowledgement_that_comes_after_all_is_taken(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, reconnect_wait=0.01) as connection:
        future = await connection.jetstream().publish_async("a.1", b"1", msg_id="1")
        line = await peer.expect(b"HPUB a.1")
        peer.cut()
        await peer.expect(b"SUB ")
        answer(peer, line, ACK)
        assert (await asyncio.wait_for(future.wait(), 5)).seq == 1
        await answer_window(peer, 120)
        later = await connection.jetstream().publish_async("a.2", b"2")
        answer(peer, await peer.expect(b"PUB a.2"), ACK)
        await asyncio.wait_for(later.wait(), 5)
        assert published(peer) == [b"1", b"2"]


async def test_closing_while_it_asks_tells_which_may_be_stored(peer: ScriptedPeer) -> None:
    connection = await connect(peer.url, reconnect_wait=0.01)
    jetstream = connection.jetstream()
    lost = await jetstream.publish_async("a.1", b"1", msg_id="1")
    await peer.expect(b"HPUB a.1")
    peer.cut()
    await peer.expect(b"PUB $JS.API.STREAM.NAMES ")
    later = await jetstream.publish_async("a.2", b"2", msg_id="2")
    await connection.close()
    assert isinstance(lost.exception(), errors.PublishUnknownError)
    assert isinstance(later.exception(), errors.PublishNotSentError)
    with pytest.raises(errors.PublishNotSentError):
        await jetstream.publish_async("a.3", b"3")


async def test_what_waits_for_the_window_is_bounded_and_taken_back_when_late(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, reconnect_wait=0.01, pending_bytes_max=2000) as connection:
        jetstream = connection.jetstream()
        await jetstream.publish_async("a.1", b"1", msg_id="1")
        await peer.expect(b"HPUB a.1")
        peer.cut()
        await peer.expect(b"PUB $JS.API.STREAM.NAMES ")
        before = connection.pending_bytes
        with pytest.raises(errors.PublishTimeoutError, match="not sent"):
            await jetstream.publish("a.2", bytes(1500), timeout=0.05)
        assert connection.pending_bytes == before
        with pytest.raises(errors.OutboundBufferError):
            await jetstream.publish_async("a.3", bytes(2000))


async def test_a_copy_that_nobody_hears_does_not_say_that_the_first_is_not_stored(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, reconnect_wait=0.01) as connection:
        future = await connection.jetstream().publish_async("a.1", b"1", msg_id="1", retries=0)
        await peer.expect(b"HPUB a.1")
        peer.cut()
        await answer_window(peer, 120)
        answer(peer, await peer.expect(b"HPUB a.1"), b"", header=b"NATS/1.0 503\r\n\r\n")
        with pytest.raises(errors.PublishUnknownError, match="no stream"):
            await asyncio.wait_for(future.wait(), 5)


@pytest.mark.long
async def test_publish_once_does_not_publish_again_after_the_window(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, publish_timeout=0.2) as connection:
        publishing = asyncio.create_task(connection.jetstream().publish_once("a.1", b"1", timeout=10))
        await peer.expect(b"HPUB a.1")
        await answer_window(peer, 120)
        await peer.expect(b"HPUB a.1")
        await answer_window(peer, 3)
        with pytest.raises(errors.PublishTimeoutError) as caught:
            await asyncio.wait_for(publishing, 5)
        assert caught.value.may_be_stored
        assert published(peer) == [b"1", b"1"]


@pytest.mark.long
async def test_a_further_copy_of_publish_once_counts_from_the_first(peer: ScriptedPeer) -> None:
    """It was not written when its connection broke, but the copy before it may be stored."""
    async with await connect(peer.url, publish_timeout=0.3, reconnect_wait=0.01) as connection:
        publishing = asyncio.create_task(connection.jetstream().publish_once("a.1", b"1", timeout=10))
        await peer.expect(b"HPUB a.1")
        await answer_window(peer, 120)
        await peer.expect(b"HPUB a.1")
        peer.cut()
        await answer_window(peer, 3)
        await answer_window(peer, 3)
        with pytest.raises(errors.PublishUnknownError, match="is 3 s"):
            await asyncio.wait_for(publishing, 5)
        assert published(peer) == [b"1", b"1"]


def test_an_unwritten_copy_is_held_when_an_earlier_one_may_be_stored() -> None:
    core = ConnectionCore(Nuid(bytes), "_INBOX", 1 << 20, lambda *parts: parts, None)  # type: ignore[arg-type] # no message is made
    asked: list[str] = []
    core.acks.on_lost = lambda: asked.append("window")
    come_up(core)
    copy, plain = Pending("a.1", b"", 0.0), Pending("a.2", b"", 0.0)
    copy.was_sent = True
    core.publish_acked("a.1", b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n", b"1", copy)
    core.publish_acked("a.2", b"", b"2", plain)

    core.detach(ConnectionResetError())
    written = come_up(core)

    assert asked == ["window"]
    assert b"PUB" not in written
    release(core)
    assert core.take_output() == copy.frame + plain.frame
    core.publish_acked("a.3", b"", b"3", Pending("a.3", b"", 0.0))
    assert core.unsent_bytes == core.out_bytes > 0
