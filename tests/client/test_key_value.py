"""Key-value buckets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jetspark.client import errors
from jetspark.client.aio import Connection, JetStream
from jetspark.client.aio.key_value import KeyValue
from tests.client.waiting import until


@pytest.fixture
async def bucket(connection: Connection, name: str) -> AsyncIterator[KeyValue]:
    jetstream = connection.jetstream()
    yield await jetstream.create_key_value(name, history=5, storage="memory")
    await jetstream.delete_key_value(name)


async def test_values_are_put_and_got_by_revision(bucket: KeyValue) -> None:
    assert await bucket.put("a", b"1") == 1
    assert await bucket.put("a", "2") == 2
    entry = await bucket.get("a")
    assert (entry.key, entry.value, entry.revision, entry.operation) == ("a", b"2", 2, "PUT")
    assert (await bucket.get("a", revision=1)).value == b"1"
    with pytest.raises(errors.KeyNotFoundError):
        await bucket.get("b")
    with pytest.raises(KeyError):
        await bucket.get("b", revision=1)


async def test_create_and_update_check_the_revision(bucket: KeyValue) -> None:
    first = await bucket.create("a", b"1")
    with pytest.raises(errors.KeyExistsError) as caught:
        await bucket.create("a", b"x")
    assert caught.value.revision == first
    second = await bucket.update("a", b"2", first)
    with pytest.raises(errors.KeyRevisionError):
        await bucket.update("a", b"x", first)
    with pytest.raises(errors.KeyRevisionError):
        await bucket.delete("a", last=first)
    await bucket.delete("a", last=second)
    assert await bucket.create("a", b"again") > second


async def test_delete_keeps_history_and_purge_does_not(bucket: KeyValue) -> None:
    await bucket.put("a", b"1")
    await bucket.delete("a")
    with pytest.raises(errors.KeyDeletedError):
        await bucket.get("a")
    assert [entry.operation for entry in await bucket.history("a")] == ["PUT", "DEL"]
    await bucket.put("a", b"2")
    await bucket.purge("a")
    assert [entry.operation for entry in await bucket.history("a")] == ["PURGE"]
    assert await bucket.purge_deletes(older_than=0) == 1
    with pytest.raises(errors.KeyNotFoundError):
        await bucket.history("a")


async def test_keys_are_those_with_a_value(bucket: KeyValue) -> None:
    assert await bucket.keys() == []
    for key in ("a.x", "a.y", "b"):
        await bucket.put(key, b"1")
    await bucket.delete("b")
    assert await bucket.keys() == ["a.x", "a.y"]
    assert await bucket.keys("a.*") == ["a.x", "a.y"]
    status = await bucket.status()
    assert (status.bucket, status.history, status.value_count) == (bucket.bucket, 5, 4)


async def test_watch_gives_what_is_there_then_a_mark_then_changes(bucket: KeyValue) -> None:
    await bucket.put("a", b"1")
    await bucket.put("a", b"2")
    await bucket.put("b", b"3")
    async with await bucket.watch() as watcher:
        seen = [await anext(watcher) for _ in range(3)]
        assert [(entry.key, entry.value) if entry else None for entry in seen] == [("a", b"2"), ("b", b"3"), None]
        await bucket.delete("a")
        changed = await watcher.next(5)
        assert changed is not None
        assert (changed.key, changed.operation) == ("a", "DEL")
        assert await watcher.next(0.05) is None


async def test_watch_of_an_empty_bucket_marks_at_once_and_goes_on(bucket: KeyValue) -> None:
    async with await bucket.watch("x.>") as watcher:
        assert await asyncio.wait_for(anext(watcher), 5) is None
        await bucket.put("y", b"0")
        await bucket.put("x.1", b"1")
        entry = await asyncio.wait_for(anext(watcher), 5)
        assert entry is not None
        assert entry.key == "x.1"


async def test_watch_options(bucket: KeyValue) -> None:
    for value in (b"1", b"2"):
        await bucket.put("a", value)
    await bucket.delete("b")
    async with await bucket.watch(include_history=True, ignore_deletes=True) as watcher:
        assert [entry.value for entry in await watcher.initial()] == [b"1", b"2"]
    async with await bucket.watch(["a", "c"], meta_only=True) as watcher:
        assert [entry.value for entry in await watcher.initial()] == [b""]
    async with await bucket.watch(updates_only=True) as watcher:
        await bucket.put("z", b"9")
        entry = await watcher.next(5)
        assert entry is not None
        assert entry.key == "z"
    async with await bucket.watch(from_revision=2) as watcher:
        assert [entry.revision for entry in await watcher.initial()] == [2, 3, 4]


@pytest.mark.parametrize("key", ["", ".a", "a.", "a b", "a..b", "a*", "a>", "ü"])
async def test_keys_that_cannot_be_are_refused(bucket: KeyValue, key: str) -> None:
    with pytest.raises(errors.BadOptionError):
        await bucket.put(key, b"")


async def test_buckets_are_found_and_listed(jetstream: JetStream, bucket: KeyValue) -> None:
    assert (await jetstream.key_value(bucket.bucket)).bucket == bucket.bucket
    assert bucket.bucket in await jetstream.key_value_names()
    with pytest.raises(errors.BucketNotFoundError):
        await jetstream.key_value("nobody")


@pytest.mark.long
async def test_a_key_can_have_a_time_to_live(jetstream: JetStream, name: str) -> None:
    bucket = await jetstream.create_key_value(name + "T", limit_marker_ttl=1, storage="memory")
    await bucket.create("a", b"1", ttl=1)
    async with await bucket.watch() as watcher:
        assert len(await watcher.initial()) == 1
        gone = await watcher.next(10)
        assert gone is not None
        assert gone.is_deleted
    await jetstream.delete_key_value(name + "T")


async def test_a_mirror_is_read_under_its_own_name_and_written_at_its_origin(
    connection: Connection, bucket: KeyValue
) -> None:
    jetstream = connection.jetstream()
    await bucket.put("a", b"1")
    origin = {"name": f"KV_{bucket.bucket}"}
    mirror = await jetstream.create_key_value(f"{bucket.bucket}_copy", mirror=origin, history=5)

    await mirror.put("a", b"2")
    seen: list[bytes] = []
    async with await mirror.watch(include_history=True) as watcher:
        # The mirror follows by itself: what it has not yet got is waited for.
        while len(seen) < 2:
            entry = await anext(watcher)
            seen += [entry.value] if entry is not None else []
    opened = await jetstream.key_value(mirror.bucket)

    assert seen == [b"1", b"2"]
    assert (await bucket.get("a")).value == (await opened.get("a")).value == b"2"
    assert await opened.keys() == ["a"]
    assert {bucket.bucket, mirror.bucket} <= set(await jetstream.key_value_names())
    await jetstream.delete_key_value(mirror.bucket)


async def test_a_bucket_that_was_deleted_is_not_taken_for_a_missing_key(jetstream: JetStream, name: str) -> None:
    bucket = await jetstream.create_key_value(name, storage="memory")
    await bucket.put("a", b"1")
    await jetstream.delete_key_value(name)
    for asked in (bucket.get("a"), bucket.get("a", revision=1), bucket.keys(), bucket.history("a"), bucket.status()):
        with pytest.raises(errors.BucketNotFoundError, match=name):
            await asked
    with pytest.raises(errors.BucketNotFoundError, match=name):
        await jetstream.delete_key_value(name)


async def test_a_bucket_without_direct_gets_is_read_through_its_leader(jetstream: JetStream, name: str) -> None:
    bucket = await jetstream.create_key_value(name, storage="memory")
    await bucket.put("a", b"1")
    await jetstream.update_stream(f"KV_{name}", allow_direct=False)
    # The handle still believes what it was told when it was opened.
    assert (await bucket.get("a")).value == b"1"
    with pytest.raises(errors.KeyNotFoundError):
        await bucket.get("b")
    await jetstream.delete_key_value(name)


async def test_reading_leaves_no_consumer_behind(jetstream: JetStream, name: str) -> None:
    bucket = await jetstream.create_key_value(name, storage="memory", max_consumers=1)
    await bucket.put("a", b"1")
    for _ in range(3):
        assert await bucket.keys() == ["a"]
        assert len(await bucket.history("a")) == 1
        assert await bucket.purge_deletes() == 0
        watcher = await bucket.watch()
        await watcher.initial()
        await watcher.stop()
    assert await jetstream.stream_handle(f"KV_{name}").consumer_names() == []
    await jetstream.delete_key_value(name)


async def test_the_marks_that_go_are_those_old_enough_now(bucket: KeyValue) -> None:
    await bucket.put("a", b"1")
    await bucket.delete("a")
    await bucket.put("b", b"2")
    # The value goes and the mark is too young; then there is nothing left to remove.
    assert await bucket.purge_deletes(older_than=60) == 1
    assert [entry.operation for entry in await bucket.history("a")] == ["DEL"]
    assert await bucket.purge_deletes(older_than=60) == 0

    async def old_enough() -> bool:
        return await bucket.purge_deletes(older_than=0.1) == 1

    await until(old_enough)
    with pytest.raises(errors.KeyNotFoundError):
        await bucket.history("a")
    assert await bucket.keys() == ["b"]


async def test_a_lone_mark_grows_old(bucket: KeyValue) -> None:
    await bucket.delete("a")

    async def is_empty() -> bool:
        await bucket.purge_deletes(older_than=0.1)
        return (await bucket.status()).value_count == 0

    await until(is_empty, 5)


async def test_watching_no_key_at_all_is_refused(bucket: KeyValue) -> None:
    with pytest.raises(errors.BadOptionError, match="keys"):
        await bucket.watch([])
