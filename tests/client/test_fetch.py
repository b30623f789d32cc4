"""Consumers: getting and making them, fetch, next, and acknowledgements."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jetspark.api.consumer_config import AckPolicy, ConsumerConfig, DeliverPolicy
from jetspark.client import errors
from jetspark.client.aio import Connection, Consumer, JetStream, Msg, Stream, connect
from jetspark.client.api_errors import ConsumerExistsError, ConsumerNotFoundError
from jetspark.client.core.metadata import parse_metadata
from tests.client.conftest import NatsServer
from tests.client.peer import ScriptedPeer
from tests.client.waiting import until


async def fill(jetstream: JetStream, subject: str, count: int, size: int = 1) -> None:
    for i in range(1, count + 1):
        await jetstream.publish_async(subject, (b"%d" % i).ljust(size, b" "))
    await jetstream.flush(10)


async def test_row_63_a_consumer_has_fetch_next_consume_info_and_delete(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 3)
    consumer = await stream.create_consumer("worker")
    assert [message.data for message in await consumer.fetch(2)] == [b"1", b"2"]
    message = await consumer.next()
    assert message is not None
    assert message.data == b"3"
    assert (await consumer.info()).num_ack_pending == 3
    await consumer.delete()
    with pytest.raises(ConsumerNotFoundError):
        await consumer.info()


async def test_row_64_a_consumer_comes_from_the_context_or_the_stream(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    made = await jetstream.create_consumer(name, "worker")
    assert (await stream.consumer("worker")).name == made.name == (await jetstream.consumer(name, "worker")).name
    with pytest.raises(ConsumerNotFoundError):
        await stream.consumer("nobody")
    assert await stream.consumer_names() == ["worker"]
    assert [info.name for info in await stream.consumers()] == ["worker"]
    await jetstream.delete_consumer(name, "worker")
    assert await stream.consumer_names() == []


async def test_a_consumer_is_updated_and_kept_apart_from_other_settings(stream: Stream) -> None:
    await stream.create_consumer("worker", ack_wait=5, max_deliver=3)
    await stream.create_consumer("worker", ack_wait=5, max_deliver=3)
    with pytest.raises(ConsumerExistsError) as caught:
        await stream.create_consumer("worker", ack_wait=6)
    assert caught.value.err_code == 10148
    changed = await stream.update_consumer("worker", ack_wait=7)
    assert (changed.cached_info.config.ack_wait, changed.cached_info.config.max_deliver) == (7 * 10**9, 3)
    with pytest.raises(ConsumerNotFoundError):
        await stream.update_consumer(ConsumerConfig(durable_name="nobody"))
    again = await stream.create_or_update_consumer("worker", ack_wait=8)
    assert again.cached_info.config.ack_wait == 8 * 10**9


async def test_row_20_and_21_starting_positions_and_delivery_settings_pass_through(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 5)
    await jetstream.publish(f"{name}.b", b"6", headers={"K": "v"})
    cases: dict[str, tuple[dict[str, Any], bytes]] = {
        "all": ({}, b"1"),
        "last": ({"deliver_policy": "last"}, b"6"),
        "sequence": ({"opt_start_seq": 4}, b"4"),
        "time": ({"opt_start_time": datetime(2020, 1, 1, tzinfo=UTC)}, b"1"),
        "per_subject": ({"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT, "filter_subjects": [f"{name}.>"]}, b"5"),
        "filter": ({"filter_subject": f"{name}.b", "replay_policy": "original", "sample_freq": "100%"}, b"6"),
    }
    for case, (settings, expected) in cases.items():
        message = await (await stream.create_consumer(case, **settings)).next()
        assert message is not None
        assert message.data == expected, case
    headers = await (await stream.create_consumer("h", headers_only=True, filter_subject=f"{name}.b")).next()
    assert headers is not None
    assert (headers.data, headers.headers["Nats-Msg-Size"], headers.headers["K"]) == (b"", "1", "v")
    assert await (await stream.create_consumer("new", deliver_policy="new")).next(expires=0.1) is None


async def test_row_6_and_60_an_empty_fetch_is_an_empty_list_and_no_error(stream: Stream) -> None:
    consumer = await stream.create_consumer("worker")
    assert await consumer.fetch(5, expires=0.1) == []
    assert await consumer.fetch(5, no_wait=True) == []
    assert await consumer.next(expires=0.1) is None


async def test_a_fetch_returns_what_came_when_it_expires(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 3)
    consumer = await stream.create_consumer("worker")
    assert len(await consumer.fetch(10, expires=0.2)) == 3


async def test_no_wait_gives_what_is_there(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 3)
    consumer = await stream.create_consumer("worker")
    assert len(await consumer.fetch(10, no_wait=True)) == 3


async def test_no_wait_ends_even_when_the_server_says_nothing(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 3)
    consumer = await stream.create_consumer("worker", max_ack_pending=1)
    assert len(await consumer.fetch(1)) == 1
    assert await consumer.fetch(1, no_wait=True, expires=0.1) == []


async def test_row_65_and_66_a_fetch_is_bounded_by_bytes(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 10, size=1000)
    consumer = await stream.create_consumer("worker")
    assert len(await consumer.fetch(max_bytes=3500, expires=1)) == 3
    assert len(await consumer.fetch(10, max_bytes=2500, expires=1)) == 2
    assert len(await consumer.fetch(2, max_bytes=100_000, expires=1)) == 2
    with pytest.raises(errors.BadOptionError):
        await consumer.fetch()


async def test_row_67_a_fetch_with_heartbeats_notices_a_silent_server(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        consumer = connection.jetstream().stream_handle("S").consumer_handle("C")
        with pytest.raises(errors.HeartbeatMissedError):
            await consumer.fetch(1, expires=5, idle_heartbeat=0.05)
        line = await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C ")
        body = json.loads(line.split(b"\r\n")[1])
        assert body == {"batch": 1, "expires": 5_000_000_000, "idle_heartbeat": 50_000_000}
        with pytest.raises(errors.BadOptionError):
            await consumer.fetch(1, expires=1, idle_heartbeat=0.6)


async def test_row_5_and_11_a_fetch_leaves_no_request_and_no_subscription_behind(
    connection: Connection, stream: Stream
) -> None:
    consumer = await stream.create_consumer("worker")
    for _ in range(20):
        await consumer.fetch(3, expires=0.005)
    fetching = asyncio.create_task(consumer.fetch(3, expires=30))
    await until(lambda: _waiting(consumer, 1))
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)
    await connection.flush()
    await until(lambda: _waiting(consumer, 0))
    assert len(connection._core.routes) == 1  # only the one for requests


async def _waiting(consumer: Consumer, count: int) -> bool:
    return (await consumer.info()).num_waiting == count


async def test_messages_of_a_cancelled_fetch_come_with_the_next(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    consumer = await stream.create_consumer("worker", ack_policy="none")
    fetching = asyncio.create_task(consumer.fetch(10, expires=30))
    await until(lambda: _waiting(consumer, 1))
    await fill(jetstream, f"{name}.a", 4)
    await until(lambda: _delivered(consumer, 4))
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)
    assert [message.data for message in await consumer.fetch(4, expires=1)] == [b"1", b"2", b"3", b"4"]


async def _delivered(consumer: Consumer, count: int) -> bool:
    return (await consumer.info()).delivered.stream_seq == count


@pytest.mark.long
async def test_a_fetch_goes_on_after_a_reconnect(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()
    async with await connect(server.url) as connection:
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream(name, subjects=[name])
        consumer = await stream.create_consumer("worker")
        fetching = asyncio.create_task(consumer.fetch(2, expires=20))
        await until(lambda: _waiting(consumer, 1))
        server.restart()
        await until(lambda: connection.reconnect_count == 1)
        await jetstream.publish(name, b"1")
        await jetstream.publish(name, b"2")
        assert len(await asyncio.wait_for(fetching, 15)) == 2


async def test_row_8_61_and_62_statuses_that_are_errors_are_raised(
    stream: Stream, connection: Connection, name: str
) -> None:
    limited = await stream.create_consumer("limited", max_batch=2, max_expires=1)
    with pytest.raises(errors.PullLimitError) as caught:
        await limited.fetch(3, expires=1)
    assert (caught.value.code, caught.value.description) == (409, "Exceeded MaxRequestBatch of 2")
    with pytest.raises(errors.PullLimitError):
        await limited.fetch(1, expires=5)
    pushed = await stream.create_consumer("pushed", deliver_subject=connection.new_inbox())
    with pytest.raises(errors.ConsumerIsPushError):
        await pushed.fetch(1)
    with pytest.raises(errors.PullUnavailableError):
        await stream.consumer_handle("nobody").fetch(1)
    deleted = await stream.create_consumer("deleted")
    fetching = asyncio.create_task(deleted.fetch(1, expires=10))
    await until(lambda: _waiting(deleted, 1))
    await deleted.delete()
    with pytest.raises(errors.ConsumerDeletedError):
        await fetching


async def test_row_62_an_unknown_status_is_raised(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        consumer = connection.jetstream().stream_handle("S").consumer_handle("C")
        fetching = asyncio.create_task(consumer.fetch(1))
        line = await peer.expect(b"PUB $JS.API")
        peer.message(line.split()[2].decode(), b"1", header=b"NATS/1.0 499 From The Future\r\n\r\n")
        with pytest.raises(errors.PullError, match="499 From The Future"):
            await asyncio.wait_for(fetching, 5)


async def test_an_error_after_some_messages_comes_with_them(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        consumer = connection.jetstream().stream_handle("S").consumer_handle("C")
        fetching = asyncio.create_task(consumer.fetch(5))
        line = await peer.expect(b"PUB $JS.API")
        peer.message("orders", b"1", b"x", reply="$JS.ACK.S.C.1.1.1.1.0")
        peer.message(line.split()[2].decode(), b"1", header=b"NATS/1.0 409 Consumer Deleted\r\n\r\n")
        batch = await asyncio.wait_for(fetching, 5)
        assert [message.data for message in batch] == [b"x"]
        assert isinstance(batch.error, errors.ConsumerDeletedError)


# Acknowledgements.


async def take(jetstream: JetStream, stream: Stream, **settings: Any) -> tuple[Consumer, Msg]:
    await jetstream.publish(f"{stream.name}.a", b"1")
    consumer = await stream.create_consumer("worker", **settings)
    message = await consumer.next()
    assert message is not None
    return consumer, message


async def test_row_14_the_four_kinds_of_acknowledgement(jetstream: JetStream, stream: Stream) -> None:
    consumer, first = await take(jetstream, stream, ack_wait=30)
    assert await first.nak()
    second = await consumer.next()
    assert second is not None
    assert second.metadata.delivery_count == 2
    assert await second.in_progress()
    assert await second.ack()
    await jetstream.publish(f"{stream.name}.a", b"2")
    third = await consumer.next()
    assert third is not None
    assert await third.term("not today")
    await until(lambda: _acked(consumer, 2))
    assert await consumer.fetch(1, no_wait=True) == []


async def _acked(consumer: Consumer, floor: int) -> bool:
    return (await consumer.info()).ack_floor.stream_seq == floor


@pytest.mark.long
async def test_row_14_a_nak_may_carry_a_delay(jetstream: JetStream, stream: Stream) -> None:
    consumer, first = await take(jetstream, stream)
    await first.nak(delay=0.3)
    assert await consumer.fetch(1, no_wait=True, expires=0.05) == []
    again = await consumer.next(expires=5)
    assert again is not None
    assert again.data == b"1"


async def test_row_15_an_ack_may_ask_for_the_next(connection: Connection, jetstream: JetStream, stream: Stream) -> None:
    _, message = await take(jetstream, stream)
    await fill(jetstream, f"{stream.name}.a", 2)
    inbox = connection.new_inbox()
    subscription = await connection.subscribe(inbox)
    assert await message.ack_next(inbox, b"2")
    received = [await subscription.next(5) for _ in range(2)]
    assert [each.data for each in received if each is not None] == [b"1", b"2"]


async def test_row_16_and_17_every_kind_can_wait_for_its_confirmation(jetstream: JetStream, stream: Stream) -> None:
    consumer, first = await take(jetstream, stream)
    assert await first.in_progress(wait=True)
    assert await first.nak(wait=True)
    second = await consumer.next()
    assert second is not None
    assert await second.ack(wait=True)
    assert (await consumer.info()).ack_floor.stream_seq == 1
    await jetstream.publish(f"{stream.name}.a", b"2")
    third = await consumer.next()
    assert third is not None
    assert await third.term(wait=True)
    assert (await consumer.info()).ack_floor.stream_seq == 2


async def test_row_47_after_a_final_ack_all_others_do_nothing(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        message = await _one_message(connection, peer)
        assert await message.in_progress()
        assert await message.ack()
        assert message.acked
        for kind in (message.ack, message.nak, message.term, message.in_progress, message.ack_sync):
            assert await kind() is False
        await connection.flush()
        sent = [line for line in peer.lines if line.startswith(b"PUB $JS.ACK")]
        assert sent == [
            b"PUB $JS.ACK.S.C.1.1.1.1.0 4\r\n+WPI\r\n",
            b"PUB $JS.ACK.S.C.1.1.1.1.0 4\r\n+ACK\r\n",
        ]


async def _one_message(connection: Connection, peer: ScriptedPeer, reply: str = "$JS.ACK.S.C.1.1.1.1.0") -> Msg:
    consumer = connection.jetstream().stream_handle("S").consumer_handle("C")
    fetching = asyncio.create_task(consumer.fetch(1))
    await peer.expect(b"PUB $JS.API")
    peer.message("orders", next(line for line in peer.lines if line.startswith(b"SUB")).split()[-1], b"x", reply=reply)
    return (await fetching)[0]


async def test_row_48_a_message_counts_as_acked_only_after_the_ack_was_sent(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        message = await _one_message(connection, peer)
        await connection.close()
        with pytest.raises(errors.ConnectionClosedError):
            await message.ack()
        assert not message.acked


async def test_row_16_a_double_ack_without_an_answer_is_a_timeout(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        message = await _one_message(connection, peer)
        with pytest.raises(errors.AckTimeoutError) as caught:
            await message.ack(wait=True, timeout=0.05)
        assert isinstance(caught.value, TimeoutError)
        assert not message.acked


async def test_row_49_a_consumer_without_acks_ignores_them(jetstream: JetStream, stream: Stream) -> None:
    _, message = await take(jetstream, stream, ack_policy=AckPolicy.NONE)
    for kind in (message.ack, message.nak, message.term, message.in_progress):
        assert await kind() is False
        assert await kind(wait=True) is False


async def test_row_19_ack_all_acknowledges_everything_before(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 5)
    consumer = await stream.create_consumer("worker", ack_policy="all")
    batch = await consumer.fetch(5)
    await batch[3].ack(wait=True)
    assert (await consumer.info()).ack_floor.stream_seq == 4


async def test_row_46_the_ack_subject_is_used_unchanged(peer: ScriptedPeer) -> None:
    subject = "$JS.ACK.hub.NUmM6cRx.S.C.1.1.1.1.0.from.the.future"
    async with await connect(peer.url) as connection:
        message = await _one_message(connection, peer, subject)
        await message.ack()
        assert await peer.expect(b"PUB $JS.ACK") == f"PUB {subject} 4\r\n+ACK\r\n".encode()


@pytest.mark.parametrize(
    ("subject", "domain"),
    [
        (b"$JS.ACK.ORDERS.worker.2.10.7.1626845015078897000.3", ""),
        (b"$JS.ACK._.acc.ORDERS.worker.2.10.7.1626845015078897000.3", ""),
        (b"$JS.ACK.hub.acc.ORDERS.worker.2.10.7.1626845015078897000.3", "hub"),
        (b"$JS.ACK.hub.acc.ORDERS.worker.2.10.7.1626845015078897000.3.more", "hub"),
    ],
)
def test_row_44_and_45_ack_subjects_of_every_length(subject: bytes, domain: str) -> None:
    metadata = parse_metadata(subject)
    assert (metadata.stream, metadata.consumer, metadata.domain) == ("ORDERS", "worker", domain)
    assert (metadata.delivery_count, metadata.stream_sequence, metadata.consumer_sequence) == (2, 10, 7)
    assert (metadata.timestamp_ns, metadata.pending_count) == (1626845015078897000, 3)
    assert metadata.timestamp.year == 2021


@pytest.mark.parametrize(
    "subject",
    [
        b"",
        b"foo",
        b"$JS.ACK.a.b.1.2.3.4",
        b"$JS.ACK.a.b.1.2.3.4.5.6",
        b"$JS.ACK.a.b.1.x.3.4.5",
        b"$JS.FC.a.b.1.2.3.4.5",
    ],
)
def test_row_44_other_subjects_are_no_ack_subjects(subject: bytes) -> None:
    with pytest.raises(errors.NotJetStreamMessageError):
        parse_metadata(subject)


async def test_acking_a_message_of_core_nats_is_an_error(connection: Connection, name: str) -> None:
    subscription = await connection.subscribe(name)
    await connection.publish(name, b"")
    message = await subscription.next(5)
    assert message is not None
    with pytest.raises(errors.NotJetStreamMessageError):
        await message.ack()


async def test_a_consumer_is_paused_and_resumed(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 1)
    consumer = await stream.create_consumer("worker")
    assert await consumer.pause(datetime.now(UTC) + timedelta(hours=1))
    assert await consumer.fetch(1, expires=0.1) == []
    assert (await consumer.info()).paused
    assert not await consumer.resume()
    assert len(await consumer.fetch(1)) == 1


async def test_a_consumer_is_reset(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 3)
    consumer = await stream.create_consumer("worker")
    for message in await consumer.fetch(3):
        await message.ack(wait=True)
    await consumer.reset(2)
    assert [message.data for message in await consumer.fetch(5, no_wait=True)] == [b"2", b"3"]
