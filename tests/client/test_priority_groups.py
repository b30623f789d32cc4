"""Priority groups: overflow, pinned clients, prioritized."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from jetspark.client import errors
from jetspark.client.aio import Consumer, JetStream, Msg, Stream, connect
from tests.client.test_consume import Pulls, Scripted, scripted  # noqa: F401 - a fixture
from tests.client.test_fetch import fill
from tests.client.waiting import until


async def test_row_84_groups_policy_and_timeout_are_settings(stream: Stream) -> None:
    consumer = await stream.create_consumer(
        "worker", priority_groups=["jobs"], priority_policy="pinned_client", priority_timeout=5
    )
    config = consumer.cached_info.config
    assert (config.priority_groups, config.priority_policy, config.priority_timeout) == (
        ("jobs",),
        "pinned_client",
        5 * 10**9,
    )


async def test_row_85_the_group_is_required_and_checked(stream: Stream) -> None:
    consumer = await stream.create_consumer("worker", priority_groups=["jobs"], priority_policy="overflow")
    with pytest.raises(errors.BadOptionError, match="priority groups"):
        await consumer.fetch(1)
    with pytest.raises(errors.BadOptionError, match="no priority group"):
        await consumer.fetch(1, group="other")
    with pytest.raises(errors.BadOptionError, match="group name"):
        await consumer.fetch(1, group="a b")
    assert await consumer.fetch(1, group="jobs", expires=0.1) == []


@pytest.mark.long
async def test_row_86_overflow_serves_only_above_its_thresholds(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    consumer = await stream.create_consumer("worker", priority_groups=["jobs"], priority_policy="overflow")
    await fill(jetstream, f"{name}.a", 5)
    assert await consumer.fetch(1, group="jobs", min_pending=10, expires=0.2) == []
    assert len(await consumer.fetch(1, group="jobs", min_pending=5, expires=2)) == 1
    assert await consumer.fetch(1, group="jobs", min_ack_pending=5, expires=0.2) == []
    assert len(await consumer.fetch(1, group="jobs", min_ack_pending=1, expires=2)) == 1


@pytest.mark.long
async def test_the_prioritized_policy_takes_a_priority(jetstream: JetStream, stream: Stream, name: str) -> None:
    consumer = await stream.create_consumer("worker", priority_groups=["jobs"], priority_policy="prioritized")
    low = asyncio.create_task(consumer.fetch(1, group="jobs", priority=5, expires=1))
    high = asyncio.create_task(consumer.fetch(1, group="jobs", priority=1, expires=1))
    await until(lambda: _waiting(consumer, 2))
    await fill(jetstream, f"{name}.a", 1)
    assert (len(await high), len(await low)) == (1, 0)


async def _waiting(consumer: Consumer, count: int) -> bool:
    return (await consumer.info()).num_waiting == count


async def test_row_87_and_88_the_pin_is_kept_sent_and_forgotten(scripted: Scripted) -> None:  # noqa: F811 - the fixture
    consumer, pulls = scripted
    events: list[str] = []
    messages = consumer.consume(
        max_messages=4, group="jobs", on_pinned=events.append, on_unpinned=lambda: events.append("lost")
    )
    assert "id" not in await pulls.next()
    pulls.peer.message(
        "orders", pulls.sid, b"1", reply="$JS.ACK.S.C.1.1.1.1.0", header=b"NATS/1.0\r\nNats-Pin-Id: xyz\r\n\r\n"
    )
    assert await messages.next(5) is not None
    second = await pulls.next()
    assert (second["id"], second["group"], second["batch"]) == ("xyz", "jobs", 1)
    pulls.status("423 Nats-Wrong-Pin-Id", "Nats-Pending-Messages: 4", "Nats-Pending-Bytes: 0")
    assert await messages.next(0.05) is None
    third = await pulls.next()
    assert (third["batch"], "id" in third) == (4, False)
    await until(lambda: events == ["xyz", "lost"])
    await messages.stop()


async def test_row_89_fetch_in_pinned_mode_keeps_the_pin(jetstream: JetStream, stream: Stream, name: str) -> None:
    consumer = await stream.create_consumer("worker", priority_groups=["jobs"], priority_policy="pinned_client")
    await fill(jetstream, f"{name}.a", 3)
    assert len(await consumer.fetch(1, group="jobs")) == 1
    assert consumer.pin_id("jobs")
    assert len(await consumer.fetch(1, group="jobs")) == 1
    standby = await stream.consumer("worker")
    assert await standby.fetch(1, group="jobs", expires=0.2) == []


async def test_row_91_and_92_unpin_lets_the_other_client_take_over(
    jetstream: JetStream, stream: Stream, name: str, url: str
) -> None:
    consumer = await stream.create_consumer(
        "worker", priority_groups=["jobs"], priority_policy="pinned_client", priority_timeout=60
    )
    assert (await consumer.info()).priority_groups[0].pinned_client_id == ""
    first: list[bytes] = []
    second: list[bytes] = []
    events: list[str] = []

    def take_first(message: Msg) -> Awaitable[bool]:
        first.append(message.data)
        return message.ack()

    def take_second(message: Msg) -> Awaitable[bool]:
        second.append(message.data)
        return message.ack()

    async with await connect(url) as other:
        standby = await other.jetstream().consumer(name, "worker")
        pinned = consumer.consume(
            take_first,
            max_messages=2, expires=2, group="jobs",
            on_pinned=lambda pin: events.append("pinned"), on_unpinned=lambda: events.append("unpinned"),
        )  # fmt: skip
        await fill(jetstream, f"{name}.a", 3)
        await until(lambda: len(first) == 3)
        waiting = standby.consume(
            take_second,
            max_messages=2, expires=2, group="jobs",
        )  # fmt: skip
        info = await consumer.info()
        assert info.priority_groups[0].group == "jobs"
        assert info.priority_groups[0].pinned_client_id == consumer.pin_id("jobs")
        assert "pinned" in events
        await until(lambda: _waiting_at_least(consumer, 2))
        await consumer.unpin("jobs")
        for _ in range(50):
            await jetstream.publish(f"{name}.a", b"x")
            if second:
                break
        await until(lambda: len(second) + len(first) >= 4)
        await pinned.stop()
        await waiting.stop()


async def _waiting_at_least(consumer: Consumer, count: int) -> bool:
    return (await consumer.info()).num_waiting >= count


@pytest.mark.long
async def test_row_90_the_standby_takes_over_when_the_pinned_client_dies(
    jetstream: JetStream, stream: Stream, name: str, url: str
) -> None:
    await stream.create_consumer(
        "worker", priority_groups=["jobs"], priority_policy="pinned_client", priority_timeout=1, ack_wait=1
    )
    done: list[bytes] = []

    async def work(message: Any) -> None:
        if await message.ack(wait=True):
            done.append(message.data)

    first = await connect(url)
    second = await connect(url)
    async with second:
        pinned = (await first.jetstream().consumer(name, "worker")).consume(
            work, max_messages=5, expires=1, group="jobs"
        )
        await fill(jetstream, f"{name}.a", 20)
        await until(lambda: len(done) == 20)
        standby = (await second.jetstream().consumer(name, "worker")).consume(
            work, max_messages=5, expires=1, group="jobs"
        )
        first._link._drop_wire(None)
        first._link.options.allow_reconnect = False
        await fill(jetstream, f"{name}.b", 20)
        await until(lambda: len(done) == 40, 20)
        assert sorted(done) == sorted([b"%d" % i for i in range(1, 21)] * 2)
        await standby.stop()
        assert pinned is not None
    await first.close()


async def test_each_group_of_a_handle_has_its_own_callbacks(jetstream: JetStream, stream: Stream, name: str) -> None:
    consumer = await stream.create_consumer(
        "worker", priority_groups=["red", "blue"], priority_policy="pinned_client", priority_timeout=60
    )
    events: list[tuple[str, str]] = []
    red = consumer.consume(
        lambda message: None, group="red", expires=2, on_pinned=lambda pin_id: events.append(("red", pin_id))
    )
    blue = consumer.consume(
        lambda message: None, group="blue", expires=2, on_pinned=lambda pin_id: events.append(("blue", pin_id))
    )
    async with red, blue:
        await fill(jetstream, f"{name}.a", 1)
        await until(lambda: bool(events))
        pinned = [group for group in ("red", "blue") if consumer.pin_id(group)]

    assert events == [(group, consumer.pin_id(group)) for group in pinned]
