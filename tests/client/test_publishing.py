"""Publishing to streams: acknowledgements, checks, and what becomes of messages in flight."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jetspark.client import errors, sync
from jetspark.client.aio import Connection, JetStream, Stream, connect
from jetspark.client.api_errors import WrongLastMsgIdError, WrongLastSequenceError, WrongStreamError
from tests.client.conftest import NatsServer
from tests.client.peer import ScriptedPeer
from tests.client.test_duplicate_window import answer, answer_window
from tests.client.waiting import until


async def test_row_12_publish_gives_stream_and_sequence_and_plain_publish_gives_nothing(
    jetstream: JetStream, connection: Connection, stream: Stream, name: str
) -> None:
    ack = await jetstream.publish(f"{name}.a", b"1")
    assert (ack.stream, ack.seq, ack.duplicate) == (name, 1, False)
    await connection.publish(f"{name}.a", b"2")
    await connection.flush()
    assert (await stream.info()).state.messages == 2


async def test_row_13_the_same_message_id_is_stored_once(jetstream: JetStream, stream: Stream, name: str) -> None:
    first = await jetstream.publish(f"{name}.a", b"1", msg_id="one")
    second = await jetstream.publish(f"{name}.a", b"2", msg_id="one")
    assert (first.seq, first.duplicate) == (1, False)
    assert (second.seq, second.duplicate) == (1, True)
    assert (await stream.info()).state.messages == 1


async def test_expectations_are_checked_by_the_stream(jetstream: JetStream, stream: Stream, name: str) -> None:
    subject = f"{name}.a"
    await jetstream.publish(subject, b"1", msg_id="one", expect_last_seq=0, expect_stream=name)
    await jetstream.publish(subject, b"2", msg_id="two", expect_last_msg_id="one", expect_last_subject_seq=1)
    await jetstream.publish(f"{name}.b", b"3", expect_last_subject_seq=2, expect_last_subject=f"{name}.*")
    with pytest.raises(WrongLastSequenceError) as caught:
        await jetstream.publish(subject, b"x", expect_last_seq=9)
    assert (caught.value.code, caught.value.err_code) == (400, 10071)
    with pytest.raises(WrongLastSequenceError):
        await jetstream.publish(subject, b"x", expect_last_subject_seq=9)
    with pytest.raises(WrongLastMsgIdError):
        await jetstream.publish(subject, b"x", expect_last_msg_id="nobody")
    with pytest.raises(WrongStreamError):
        await jetstream.publish(subject, b"x", expect_stream="OTHER")


async def test_a_message_can_have_a_time_to_live(jetstream: JetStream, name: str) -> None:
    made = await jetstream.create_stream(name, subjects=[f"{name}.>"], allow_msg_ttl=True, storage="memory")
    await jetstream.publish(f"{name}.a", b"1", ttl=1)
    await jetstream.publish(f"{name}.b", b"2", ttl="never")
    assert (await made.get_msg(1)).headers["Nats-TTL"] == "1"
    assert (await made.get_msg(2)).headers["Nats-TTL"] == "never"


async def test_publishing_where_no_stream_listens_says_so(jetstream: JetStream, name: str) -> None:
    with pytest.raises(errors.NoStreamError) as caught:
        await jetstream.publish(f"{name}.nobody", b"", retries=1, retry_wait=0.01)
    assert str(caught.value) == f"no stream takes messages on {name}.nobody"
    assert not caught.value.may_be_stored
    assert isinstance(caught.value, errors.NoRespondersError)


async def test_an_answer_of_somebody_else_is_no_acknowledgement(
    connection: Connection, jetstream: JetStream, name: str
) -> None:
    await connection.subscribe(name, callback=lambda message: message.respond(b"hello"))
    with pytest.raises(errors.JetStreamError, match="not an acknowledgement"):
        await jetstream.publish(name, b"")


async def test_async_publishes_all_resolve_in_order(jetstream: JetStream, stream: Stream, name: str) -> None:
    futures = [await jetstream.publish_async(f"{name}.a", b"%d" % i) for i in range(1000)]
    await jetstream.flush(10)
    assert [future.result().seq for future in futures] == list(range(1, 1001))
    assert jetstream.publish_pending == 0


@pytest.mark.long
async def test_async_publish_errors_reach_their_future(jetstream: JetStream, stream: Stream, name: str) -> None:
    future = await jetstream.publish_async(f"{name}.a", b"", expect_last_seq=99)
    with pytest.raises(WrongLastSequenceError):
        await future
    assert isinstance(future.exception(), WrongLastSequenceError)
    missing = await jetstream.publish_async(f"nobody.{name}", b"")
    with pytest.raises(errors.NoStreamError):
        await missing


@pytest.mark.long
async def test_an_async_publish_nobody_heard_is_sent_again(jetstream: JetStream, name: str) -> None:
    futures = [await jetstream.publish_async(f"{name}.a", b"%d" % i) for i in range(20)]
    once = await jetstream.publish_async(f"{name}.a", b"", retries=0)
    with pytest.raises(errors.NoStreamError):
        await once
    # Only now is there somebody to hear it.
    await jetstream.create_stream(name, subjects=[f"{name}.>"], storage="memory")
    acks = [await future for future in futures]
    assert sorted(ack.seq for ack in acks) == list(range(1, 21))
    assert jetstream.publish_pending == 0


@pytest.mark.long
async def test_a_publish_nobody_heard_survives_a_lost_connection_and_is_not_called_unknown(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, reconnect_wait=0.01) as connection:
        jetstream = connection.jetstream()
        future = await jetstream.publish_async("a", b"1")
        line = await peer.expect(b"PUB a ")
        sid = next(line for line in peer.lines if line.startswith(b"SUB")).split()[-1]
        peer.message(line.split()[2].decode(), sid, header=b"NATS/1.0 503\r\n\r\n")
        await connection.flush()
        assert not future.done
        peer.cut()
        await until(lambda: peer.connection_count == 2)
        assert await peer.expect(b"PUB a ") == line
        peer.message(line.split()[2].decode(), sid, b'{"stream":"S","seq":1}')
        assert (await future).seq == 1


async def test_flush_raises_a_failure_nobody_looked_at(jetstream: JetStream, stream: Stream, name: str) -> None:
    await jetstream.publish_async(f"{name}.a", b"", expect_last_seq=99)
    with pytest.raises(WrongLastSequenceError):
        await jetstream.flush(10)
    await jetstream.flush(10)


async def test_stored_messages_of_a_stream_named_error_do_not_hide_a_failure(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        jetstream = connection.jetstream()
        count = 1001
        futures = [await jetstream.publish_async("a", b"") for _ in range(count)]
        lines = [await peer.expect(b"PUB a ") for _ in range(count)]
        sid = next(line for line in peer.lines if line.startswith(b"SUB")).split()[-1]
        for line in lines[:-1]:
            peer.message(line.split()[2].decode(), sid, b'{"stream":"error", "seq":1}')
        peer.message(lines[-1].split()[2].decode(), sid, b'{"error":{"code":400,"err_code":10071}}')
        with pytest.raises(WrongLastSequenceError):
            await jetstream.flush(10)
        assert futures[0].result().stream == "error"


async def test_the_window_bounds_what_is_in_flight(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        jetstream = connection.jetstream(publish_window=3)
        futures = [await jetstream.publish_async("a", b"") for _ in range(3)]
        fourth = asyncio.create_task(jetstream.publish_async("a", b""))
        line = await peer.expect(b"PUB a ")
        assert jetstream.publish_pending == 3
        assert not fourth.done()
        sid = next(line for line in peer.lines if line.startswith(b"SUB")).split()[-1]
        peer.message(line.split()[2].decode(), sid, b'{"stream":"S","seq":1}')
        await asyncio.wait_for(fourth, 5)
        assert futures[0].result().seq == 1


@pytest.mark.long
async def test_a_publish_without_an_answer_fails_as_perhaps_stored(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, publish_timeout=0.2) as connection:
        jetstream = connection.jetstream()
        with pytest.raises(errors.PublishTimeoutError) as caught:
            await jetstream.publish("a", b"")
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.may_be_stored
        future = await jetstream.publish_async("a", b"")
        with pytest.raises(errors.PublishTimeoutError):
            await asyncio.wait_for(future.wait(), 5)
        assert jetstream.publish_pending == 0


async def test_a_lost_connection_leaves_no_publish_without_an_outcome(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        jetstream = connection.jetstream()
        unknown = await jetstream.publish_async("a", b"no id")
        again = await jetstream.publish_async("b", b"with id", msg_id="one")
        await peer.expect(b"HPUB b ")
        peer.cut()
        with pytest.raises(errors.PublishUnknownError) as caught:
            await asyncio.wait_for(unknown.wait(), 5)
        assert caught.value.may_be_stored
        await answer_window(peer, 120)
        answer(peer, await peer.expect(b"HPUB b "), b'{"stream":"S","seq":7,"duplicate": true}')
        assert (await asyncio.wait_for(again.wait(), 5)).duplicate


@pytest.mark.long
async def test_publishes_made_while_disconnected_are_acknowledged_after_the_reconnect(
    make_server: Any, name: str
) -> None:
    server: NatsServer = make_server()
    async with await connect(server.url) as connection:
        jetstream = connection.jetstream()
        await jetstream.create_stream(name, subjects=[name])
        server.stop()
        await until(lambda: not connection.is_connected)
        future = await jetstream.publish_async(name, b"x", timeout=20)
        server.start()
        assert (await asyncio.wait_for(future.wait(), 10)).seq == 1


@pytest.mark.long
async def test_publish_once_survives_a_restart_in_the_middle(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()
    async with await connect(server.url) as connection:
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream(name, subjects=[name])

        async def publish_all() -> None:
            for i in range(200):
                await jetstream.publish_once(name, b"%d" % i)

        publishing = asyncio.create_task(publish_all())
        await until(lambda: _has_messages(stream, 20))
        server.restart()
        await asyncio.wait_for(publishing, 30)
        assert (await stream.info()).state.messages == 200


async def _has_messages(stream: Stream, count: int) -> bool:
    return (await stream.info()).state.messages >= count


async def test_closing_tells_a_publish_that_was_sent_that_it_may_be_stored(peer: ScriptedPeer) -> None:
    connection = await connect(peer.url)
    jetstream = connection.jetstream()
    future = await jetstream.publish_async("a", b"")
    awaited = asyncio.create_task(jetstream.publish("b", b"", msg_id="one"))
    await peer.expect(b"HPUB b")
    await connection.close()
    for outcome in (future.wait(), awaited):
        with pytest.raises(errors.PublishUnknownError, match=r"closed before . was acknowledged") as caught:
            await outcome
        assert caught.value.may_be_stored


async def test_closing_tells_a_publish_that_was_never_sent_that_it_is_not_stored(peer: ScriptedPeer) -> None:
    connection = await connect(peer.url, reconnect_wait=60, reconnect_wait_max=60)
    jetstream = connection.jetstream()
    sent = asyncio.create_task(jetstream.publish("sent", b"", msg_id="one"))
    await peer.expect(b"HPUB sent")
    await peer.stop()
    await until(lambda: not connection.is_connected)
    unsent = await jetstream.publish_async("unsent", b"")
    await connection.close()
    with pytest.raises(errors.PublishNotSentError, match="unsent was not sent and is not stored") as caught:
        await unsent
    assert not caught.value.may_be_stored
    with pytest.raises(errors.PublishUnknownError):
        # It waited to be sent again, because its id makes that safe; the first copy may have arrived.
        await sent
    with pytest.raises(errors.PublishNotSentError):
        await jetstream.publish("late", b"")


async def test_closing_during_publish_once_tells_of_the_copy_that_may_be_stored(peer: ScriptedPeer) -> None:
    connection = await connect(peer.url)
    storing = asyncio.create_task(connection.jetstream().publish_once("a", b""))
    await peer.expect(b"HPUB a")
    await connection.close()
    with pytest.raises(errors.PublishUnknownError):
        await storing


@pytest.mark.long
async def test_giving_up_the_reconnect_leaves_no_publish_without_an_honest_outcome(make_server: Any) -> None:
    server: NatsServer = make_server()
    connection = await connect(server.url, reconnect_attempts_max=1, reconnect_wait=0.01)
    jetstream = connection.jetstream()
    server.kill()
    await until(lambda: not connection.is_connected)
    with pytest.raises(errors.PublishNotSentError):
        await jetstream.publish("a", b"", msg_id="one")
    assert connection.is_closed


async def test_closing_a_blocking_connection_tells_which_publishes_may_be_stored(peer: ScriptedPeer) -> None:
    connection = await asyncio.to_thread(sync.connect, peer.url, reconnect_wait=60, reconnect_wait_max=60)
    jetstream = connection.jetstream()
    sent = jetstream.publish_async("sent", b"", msg_id="one")
    await peer.expect(b"HPUB sent")
    await peer.stop()
    await until(lambda: not connection.is_connected)
    unsent = jetstream.publish_async("unsent", b"")
    await asyncio.to_thread(connection.close)
    assert isinstance(sent.exception(), errors.PublishUnknownError)
    assert isinstance(unsent.exception(), errors.PublishNotSentError)


async def test_a_subject_to_expect_needs_the_sequence_to_expect_on_it(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    for publish in (jetstream.publish, jetstream.publish_async):
        with pytest.raises(errors.BadOptionError, match="expect_last_subject_seq"):
            await publish(f"{name}.a", expect_last_subject=f"{name}.b")
    assert (await stream.info()).state.messages == 0
