"""Fast batches: stored as they come, acknowledged every so often, ended by what goes wrong unless gaps are fine."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import sync
from jetspark.api.error_codes import ApiError
from jetspark.client import errors
from jetspark.client.aio import Connection, JetStream, Stream, connect
from jetspark.client.api_errors import WrongLastSequenceError
from tests.client.peer import ScriptedPeer


@pytest.fixture
async def fast_stream(jetstream: JetStream, name: str) -> Stream:
    """An empty stream that takes fast batches."""
    return await jetstream.create_stream(name, subjects=[f"{name}.>"], allow_batched=True, storage="memory")


async def test_a_batch_is_stored_in_order_and_acknowledged_as_one(
    jetstream: JetStream, fast_stream: Stream, name: str
) -> None:
    batch = jetstream.fast_batch(flow=10)
    numbers = [await batch.add(f"{name}.{i}", b"%d" % i) for i in range(99)]
    ack = await batch.commit(f"{name}.99", "99")

    assert numbers == list(range(1, 100))
    assert (ack.stream, ack.seq, ack.batch, ack.count) == (name, 100, batch.id, 100)
    assert batch.ack == ack
    assert (len(batch), batch.acked_count, batch.lost_count, batch.refused_count) == (100, 100, 0, 0)
    assert [(await fast_stream.get_msg(seq)).data for seq in (1, 50, 100)] == [b"0", b"49", b"99"]
    with pytest.raises(errors.BadOptionError, match="over"):
        await batch.add(f"{name}.a")


async def test_acknowledgements_come_while_the_batch_goes_on_and_no_more_than_agreed_are_owed(
    jetstream: JetStream, fast_stream: Stream, name: str
) -> None:
    owed: set[int] = set()
    async with jetstream.fast_batch(flow=5, outstanding_acks=2) as batch:
        for _ in range(100):
            number = await batch.add(f"{name}.a", b"x")
            owed.add(number - batch.acked_count)

    assert max(owed) <= 10
    assert batch.ack is not None
    assert batch.ack.count == 100


async def test_leaving_the_block_ends_the_batch_without_another_message(
    jetstream: JetStream, fast_stream: Stream, name: str
) -> None:
    async with jetstream.fast_batch() as batch:
        await batch.add(f"{name}.a", b"1", headers={"X": "y"}, msg_id="one")
        await batch.add(f"{name}.a", b"2")
    async with jetstream.fast_batch() as empty:
        pass

    assert batch.ack is not None
    assert (batch.ack.count, batch.ack.seq) == (2, 2)
    assert (await fast_stream.get_msg(1)).headers["X"] == "y"
    assert (empty.ack, len(empty)) == (None, 0)
    assert (await fast_stream.info()).state.messages == 2


async def test_a_block_that_fails_leaves_what_was_stored_and_an_ended_batch(
    connection: Connection, jetstream: JetStream, fast_stream: Stream, name: str
) -> None:
    batch = jetstream.fast_batch()

    async def fail() -> None:
        async with batch:
            await batch.add(f"{name}.a", b"1")
            raise OSError("elsewhere")

    async with await connection.subscribe(f"_INBOX.{batch.id}.>") as answers:
        with pytest.raises(OSError, match="elsewhere"):
            await fail()
        begun, ended = await answers.next(5), await answers.next(5)

    assert begun is not None
    assert ended is not None
    assert b'"count":1' in ended.data
    assert (await fast_stream.info()).state.messages == 1
    with pytest.raises(errors.BadOptionError):
        await batch.end()


async def test_one_message_is_a_batch_too(jetstream: JetStream, fast_stream: Stream, name: str) -> None:
    ack = await jetstream.fast_batch().commit(f"{name}.a", b"1")
    assert (ack.seq, ack.count) == (1, 1)


async def test_a_refused_message_ends_the_batch_and_the_error_says_what_is_stored(
    jetstream: JetStream, fast_stream: Stream, name: str
) -> None:
    batch = jetstream.fast_batch(flow=1, outstanding_acks=1)
    await batch.add(f"{name}.a", b"1")
    await batch.add(f"{name}.a", b"2", expect_last_seq=99)

    with pytest.raises(errors.FastBatchEndedError, match="after 1 of") as told:
        await batch.commit(f"{name}.a", b"3")

    assert isinstance(told.value.__cause__, WrongLastSequenceError)
    assert (told.value.ack.count, told.value.ack.seq) == (1, 1)
    assert (await fast_stream.info()).state.messages == 1


async def test_a_refused_last_message_is_told_by_the_commit(
    jetstream: JetStream, fast_stream: Stream, name: str
) -> None:
    batch = jetstream.fast_batch(gaps_are_fine=True)
    await batch.add(f"{name}.a", b"1")
    with pytest.raises(errors.FastBatchEndedError, match="after 1 of 2") as told:
        await batch.commit(f"{name}.a", b"2", expect_last_subject_seq=7)
    assert isinstance(told.value.__cause__, WrongLastSequenceError)


async def test_where_gaps_are_fine_refused_messages_are_counted_and_the_rest_is_stored(
    jetstream: JetStream, fast_stream: Stream, name: str
) -> None:
    async with jetstream.fast_batch(gaps_are_fine=True) as batch:
        await batch.add(f"{name}.a", b"1")
        await batch.add(f"{name}.a", b"2", expect_last_seq=99)
        await batch.add(f"{name}.a", b"3")

    assert batch.refused_count == 1
    assert isinstance(batch.last_refusal, WrongLastSequenceError)
    assert (await fast_stream.get_msg(2)).data == b"3"


# A message to a subject of no stream is one that the batch's stream never sees.


async def test_a_lost_message_ends_the_batch(jetstream: JetStream, fast_stream: Stream, name: str) -> None:
    batch = jetstream.fast_batch()
    await batch.add(f"{name}.a", b"1")
    await batch.add(f"nobody.{name}", b"2")

    with pytest.raises(errors.FastBatchEndedError) as told:
        await batch.commit(f"{name}.a", b"3")

    assert (told.value.ack.count, told.value.sent_count, told.value.__cause__) == (1, 3, None)
    assert batch.lost_count == 1
    assert (await fast_stream.info()).state.messages == 1


async def test_where_gaps_are_fine_lost_messages_are_counted(
    jetstream: JetStream, fast_stream: Stream, name: str
) -> None:
    async with jetstream.fast_batch(gaps_are_fine=True) as batch:
        await batch.add(f"{name}.a", b"1")
        for _ in range(2):
            await batch.add(f"nobody.{name}", b"")
        await batch.add(f"{name}.a", b"4")
        await batch.add(f"nobody.{name}", b"")

    assert (batch.lost_count, batch.refused_count) == (3, 0)
    assert (await fast_stream.info()).state.messages == 2


async def test_a_last_message_nobody_heard_is_told_at_once(
    jetstream: JetStream, fast_stream: Stream, name: str
) -> None:
    batch = jetstream.fast_batch(timeout=60)
    await batch.add(f"{name}.a", b"1")
    with pytest.raises(errors.NoStreamError, match="nobody"):
        await batch.commit(f"nobody.{name}", b"2")


async def test_a_stream_that_is_gone_is_found_out(jetstream: JetStream, fast_stream: Stream, name: str) -> None:
    batch = jetstream.fast_batch(flow=2, outstanding_acks=1, timeout=0.6)
    await batch.add(f"{name}.a", b"1")
    await fast_stream.delete()

    async def go_on() -> None:
        while True:
            await batch.add(f"{name}.a", b"2")

    with pytest.raises(errors.NoStreamError):
        await go_on()


async def test_a_stream_that_takes_no_fast_batches_says_so_with_the_first_message(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    with pytest.raises(ApiError, match="batch publish is disabled"):
        await jetstream.fast_batch().add(f"{name}.a", b"1")
    with pytest.raises(errors.NoStreamError):
        await jetstream.fast_batch().add(f"nobody.{name}", b"1")
    assert (await stream.info()).state.messages == 0


@pytest.mark.parametrize("options", [{"flow": 0}, {"flow": 65_536}, {"outstanding_acks": 0}])
async def test_a_flow_that_cannot_be_is_refused(jetstream: JetStream, options: dict[str, int]) -> None:
    with pytest.raises(errors.BadOptionError):
        jetstream.fast_batch(**options)  # type: ignore[arg-type]  # the numbers have no type of their own


# What only a scripted peer does: it forgets to answer, or is too old.


async def answer(peer: ScriptedPeer, start: bytes, document: bytes) -> bytes:
    """Answer the next line that starts so; its reply subject."""
    line = await peer.expect(start)
    sid = next(line for line in peer.lines if line.startswith(b"SUB")).split()[-1]
    reply = line.split()[2]
    peer.message(reply.decode(), sid, document)
    return reply


async def test_a_server_that_is_not_heard_is_asked_how_far_it_is(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        batch = connection.jetstream().fast_batch(flow=1, outstanding_acks=1, timeout=0.6)
        first = asyncio.create_task(batch.add("s.a", b"1"))
        await answer(peer, b"PUB s.a ", b'{"type":"ack","seq":0,"msgs":1}')
        await first

        # The acknowledgement of the first got lost: nothing is sent after it until the question is answered.
        second = asyncio.create_task(batch.add("s.a", b"2"))
        question = await answer(peer, b"PUB s.a ", b'{"type":"ack","seq":1,"msgs":1}')

        assert question.endswith(b".1.4.$FI")
        assert await second == 2
        assert (await peer.expect(b"PUB s.a ")).split()[2].endswith(b".2.1.$FI")


@pytest.mark.long
async def test_a_server_that_stays_silent_is_given_up(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        batch = connection.jetstream().fast_batch(timeout=0.3)
        with pytest.raises(errors.PublishTimeoutError, match="0 of 1 messages") as told:
            await batch.add("s.a", b"1")
        assert told.value.may_be_stored
        with pytest.raises(errors.BadOptionError):
            await batch.end()


async def test_a_server_without_fast_batches_is_found_out_with_one_message(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        adding = asyncio.create_task(connection.jetstream().fast_batch().add("s.a", b"1"))
        await answer(peer, b"PUB s.a ", b'{"stream":"S","seq":1}')
        with pytest.raises(errors.JetStreamError, match="too old"):
            await adding


async def test_an_answer_that_is_no_word_about_a_batch_ends_it(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        adding = asyncio.create_task(connection.jetstream().fast_batch().add("s.a", b"1"))
        await answer(peer, b"PUB s.a ", b'{"type":"ack"}')
        with pytest.raises(errors.JetStreamError, match="not a word"):
            await adding


def test_the_blocking_face_has_fast_batches_too(url: str, name: str) -> None:
    with sync.connect(url) as connection:
        jetstream = connection.jetstream()
        jetstream.create_stream(name, subjects=[f"{name}.>"], allow_batched=True, storage="memory")
        with jetstream.fast_batch(flow=10) as batch:
            for _ in range(1000):
                batch.add(f"{name}.a", b"x")
        jetstream.delete_stream(name)

    assert batch.ack is not None
    assert batch.ack.count == 1000
