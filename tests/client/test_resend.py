"""What is sent again after a lost connection, and what is not: nothing is stored twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from jetspark.client import errors, sync
from jetspark.client.aio import Connection, JetStream, Stream, connect
from jetspark.client.core.frames import published_block
from tests.client.proxy import ChaosProxy
from tests.client.waiting import give_way, until

Publish = Callable[[Connection, str], Coroutine[Any, Any, None]]


async def count_of(stream: Stream) -> int:
    return (await stream.info()).state.messages


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, b"plain"),
        ({}, b"NATS/1.0\r\nNats-Msg-Id: 17\r\n\r\nforwarded"),
        ({"Colour": "red"}, b"\r\nNats-Msg-Id: 17\r\n"),
        ({"Nats-Msg-Id": ""}, b"an empty id is none"),
    ],
)
async def test_a_message_without_an_id_is_not_sent_again_whatever_its_body_says(
    proxy: ChaosProxy, stream: Stream, name: str, headers: dict[str, str], body: bytes
) -> None:
    async with await connect(proxy.url, reconnect_wait=0.01) as connection:
        proxy.loses_answers = True
        publish = asyncio.create_task(connection.jetstream().publish(f"{name}.a", body, headers=headers))
        await until(lambda: count_of(stream))
        proxy.shut()
        with pytest.raises(errors.PublishUnknownError):
            await asyncio.wait_for(publish, 5)
        proxy.loses_answers = False
        proxy.reopen()
        await until(lambda: connection.is_connected)
        # Confirms that the server has read everything that was sent before.
        await connection.flush()
        assert await count_of(stream) == 1


@pytest.fixture
async def cut_off(proxy: ChaosProxy) -> AsyncIterator[Connection]:
    """A connection through the proxy, which notices soon that something is late."""
    async with await connect(proxy.url, reconnect_wait=0.01, reconnect_wait_max=0.1, publish_timeout=0.4) as made:
        yield made


async def come_back(proxy: ChaosProxy, connection: Connection) -> None:
    """Connect again, until the server has read everything that waited to be sent."""
    proxy.loses_answers = False
    proxy.reopen()
    await until(lambda: connection.is_connected)
    await connection.flush()


async def by_publish(connection: Connection, subject: str) -> None:
    await connection.jetstream().publish(subject, b"x", msg_id="one")


async def by_publish_async(connection: Connection, subject: str) -> None:
    await (await connection.jetstream().publish_async(subject, b"x", msg_id="one"))


async def by_publish_many(connection: Connection, subject: str) -> None:
    block = await connection.jetstream().publish_many([subject.encode()] * 2, [b""] * 2, [b"x"] * 2, [b"1", b"2"])
    await block.wait(0.4)


async def by_publish_once(connection: Connection, subject: str) -> None:
    await connection.jetstream().publish_once(subject, b"x", timeout=0.9)


@pytest.mark.long
@pytest.mark.parametrize("publish", [by_publish, by_publish_async, by_publish_many, by_publish_once])
async def test_what_timed_out_before_it_was_sent_is_never_sent(
    proxy: ChaosProxy, stream: Stream, name: str, cut_off: Connection, publish: Publish
) -> None:
    proxy.shut()
    await until(lambda: not cut_off.is_connected)
    with pytest.raises(errors.PublishTimeoutError, match="not sent") as caught:
        await asyncio.wait_for(publish(cut_off, f"{name}.a"), 5)
    assert not caught.value.may_be_stored
    assert cut_off.pending_bytes == 0
    await come_back(proxy, cut_off)
    assert await count_of(stream) == 0


@pytest.mark.long
@pytest.mark.parametrize("publish", [by_publish, by_publish_async])
async def test_what_timed_out_after_it_was_sent_is_not_sent_again(
    proxy: ChaosProxy, jetstream: JetStream, stream: Stream, name: str, cut_off: Connection, publish: Publish
) -> None:
    # By the time it is late, the stream has forgotten the id.
    await jetstream.update_stream(name, duplicate_window=0.1)
    proxy.loses_answers = True
    publishing = asyncio.create_task(publish(cut_off, f"{name}.a"))
    await until(lambda: count_of(stream))
    proxy.shut()
    with pytest.raises(errors.PublishTimeoutError) as caught:
        await asyncio.wait_for(publishing, 5)
    assert caught.value.may_be_stored
    assert cut_off.pending_bytes == 0
    await come_back(proxy, cut_off)
    assert await count_of(stream) == 1


async def test_a_publish_that_was_cancelled_before_it_was_sent_is_never_sent(
    proxy: ChaosProxy, stream: Stream, name: str, cut_off: Connection
) -> None:
    proxy.shut()
    await until(lambda: not cut_off.is_connected)
    publishing = asyncio.create_task(by_publish(cut_off, f"{name}.a"))
    await give_way()
    publishing.cancel()
    await asyncio.gather(publishing, return_exceptions=True)
    assert cut_off.pending_bytes == 0
    await come_back(proxy, cut_off)
    assert await count_of(stream) == 0


async def test_a_request_that_timed_out_before_it_was_sent_is_never_sent(
    proxy: ChaosProxy, connection: Connection, name: str, cut_off: Connection
) -> None:
    subscription = await connection.subscribe(name)
    await connection.flush()
    proxy.shut()
    await until(lambda: not cut_off.is_connected)
    with pytest.raises(errors.RequestTimeoutError):
        await cut_off.request(name, b"x", timeout=0.05)
    await come_back(proxy, cut_off)
    await connection.flush()
    assert subscription.pending_count == 0


async def test_a_blocking_publish_that_timed_out_before_it_was_sent_is_never_sent(
    proxy: ChaosProxy, stream: Stream, name: str, cut_off: Connection
) -> None:
    connection = await asyncio.to_thread(sync.connect, proxy.url, reconnect_wait=0.01, reconnect_wait_max=0.1)
    proxy.shut()
    await until(lambda: not connection.is_connected and not cut_off.is_connected)
    with pytest.raises(errors.PublishTimeoutError, match="not sent"):
        await asyncio.to_thread(connection.jetstream().publish, f"{name}.a", b"x", msg_id="one", timeout=0.1)
    assert connection.pending_bytes == 0
    await come_back(proxy, cut_off)
    await until(lambda: connection.is_connected)
    await asyncio.to_thread(connection.flush)
    assert await count_of(stream) == 0
    await asyncio.to_thread(connection.close)


@pytest.mark.parametrize(
    ("frame", "block"),
    [
        (b"PUB a 3\r\nabc\r\n", b""),
        (b"PUB HPUB r 14\r\nHPUB a 5 7\r\nab\r\n", b""),
        (b"HPUB a 5 8\r\n12345abc\r\n", b"12345"),
        (b"HPUB a r 5 5\r\n12345\r\n", b"12345"),
    ],
)
def test_the_header_block_of_a_frame_is_without_its_body(frame: bytes, block: bytes) -> None:
    assert published_block(frame) == block
