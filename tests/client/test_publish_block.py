"""Many messages in one write: each has its outcome, by its place in the block."""

from __future__ import annotations

from typing import Any

import pytest

from jetspark.client.aio import JetStream, Stream, connect
from jetspark.client.errors import PublishTimeoutError, PublishUnknownError
from tests.client.conftest import NatsServer

WRONG_STREAM = b"NATS/1.0\r\nNats-Expected-Stream: OTHER\r\n\r\n"


def with_id(number: int) -> bytes:
    return b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % number


async def test_a_block_is_stored_in_order_and_counted(jetstream: JetStream, stream: Stream, name: str) -> None:
    count = 500
    sent = await jetstream.publish_many(
        [f"{name}.a".encode()] * count, [with_id(n) for n in range(count)], [b"%d" % n for n in range(count)]
    )
    await sent.wait(10)
    assert len(sent) == count
    assert all(sent.is_stored(n) for n in range(count))
    assert (sent.refusals, sent.duplicate_count) == ([], 0)
    assert (await stream.get_msg(count)).data == b"%d" % (count - 1)
    again = await jetstream.publish_many([f"{name}.a".encode()] * 2, [with_id(3), with_id(count)], [b"x", b"new"])
    await again.wait(10)
    assert again.duplicate_count == 1
    assert (await stream.info()).state.messages == count + 1


@pytest.mark.parametrize("field", ["error", "duplicate", "seq"])
async def test_a_stream_named_like_a_field_of_the_answer_stores_and_drops_as_any_other(
    jetstream: JetStream, field: str
) -> None:
    stream = await jetstream.create_stream(field, subjects=[field], storage="memory")
    try:
        sent = await jetstream.publish_many([field.encode()] * 5, [with_id(n % 4) for n in range(5)], [b""] * 5)
        await sent.wait(10)
        assert (sent.refusals, sent.duplicate_count) == ([], 1)
        assert all(sent.is_stored(n) for n in range(5))
        assert (await stream.info()).state.messages == 4
        refused = await jetstream.publish_many([field.encode()], [WRONG_STREAM], [b""])
        await refused.wait(10)
        assert [place for place, _ in refused.refusals] == [0]
    finally:
        await jetstream.delete_stream(field)


async def test_each_refusal_has_its_place_and_the_others_are_stored(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    subjects = [f"{name}.a".encode(), b"nobody.has.this", f"{name}.b".encode()]
    blocks = [b"", b"", WRONG_STREAM]
    sent = await jetstream.publish_many(subjects, blocks, [b"1", b"2", b"3"])
    await sent.wait(10)
    assert [sent.is_stored(n) for n in range(3)] == [True, False, False]
    answers = dict(sent.refusals)
    assert answers[1] == b""
    assert b"10060" in answers[2]
    assert (await stream.info()).state.messages == 1


@pytest.mark.long
async def test_a_block_whose_connection_ends_says_so_and_is_not_sent_again(make_server: Any) -> None:
    server: NatsServer = make_server()
    connection = await connect(server.url, allow_reconnect=False)
    jetstream = connection.jetstream()
    await jetstream.create_stream("S", subjects=["s.>"])
    server.freeze()
    sent = await jetstream.publish_many([b"s.a"], [b""], [b"1"])
    with pytest.raises(PublishTimeoutError, match="no acknowledgement for 1 messages; they may have been stored"):
        await sent.wait(0.2)
    unanswered = await jetstream.publish_many([b"s.a"], [b""], [b"2"])
    server.kill()
    with pytest.raises(PublishUnknownError, match="1 messages are not acknowledged and may be stored"):
        await unanswered.wait(10)
    assert not unanswered.is_stored(0)
    await connection.close()
