"""Object stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC
from pathlib import Path

import pytest

from jetspark.api.error_codes import ApiError
from jetspark.client import errors
from jetspark.client.aio import Connection, ObjectStore
from jetspark.client.api_errors import WrongLastSequenceError
from tests.client.waiting import until

LARGE = bytes(range(256)) * 2000


@pytest.fixture
async def store(connection: Connection, name: str) -> AsyncIterator[ObjectStore]:
    jetstream = connection.jetstream()
    yield await jetstream.create_object_store(name, storage="memory")
    await jetstream.delete_object_store(name)


async def test_an_object_is_put_and_got_with_its_digest(store: ObjectStore) -> None:
    info = await store.put("a/b c", LARGE, description="large", metadata={"k": "v"}, chunk_bytes=100_000)
    assert (info.size, info.chunks, info.description, info.metadata) == (len(LARGE), 6, "large", {"k": "v"})
    assert info.digest.startswith("SHA-256=")
    result = await store.get("a/b c")
    assert result.data == LARGE
    assert result.info.nuid == info.nuid
    assert (await store.put("empty", b"")).chunks == 0
    assert (await store.get("empty")).data == b""
    with pytest.raises(errors.ObjectNotFoundError):
        await store.get("nobody")


async def test_files_go_in_and_out(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(LARGE)
    await store.put("file", tmp_path / "in")
    await store.get("file", write_to=tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == LARGE


async def test_putting_again_replaces_and_frees(store: ObjectStore) -> None:
    await store.put("a", LARGE)
    before = await store.byte_count()
    await store.put("a", "small")
    assert (await store.get("a")).data == b"small"
    assert await store.byte_count() < before / 2


async def test_deleted_objects_are_gone_but_marked(store: ObjectStore) -> None:
    await store.put("a", b"1")
    await store.put("b", b"2")
    await store.delete("a")
    with pytest.raises(errors.ObjectNotFoundError):
        await store.info("a")
    assert (await store.info("a", show_deleted=True)).deleted
    assert [info.name for info in await store.list()] == ["b"]
    assert len(await store.list(show_deleted=True)) == 2


async def test_meta_is_updated_and_objects_renamed(store: ObjectStore) -> None:
    await store.put("a", b"1")
    await store.put("taken", b"2")
    changed = await store.update_meta("a", rename="b", description="new")
    assert (changed.name, changed.description) == ("b", "new")
    assert (await store.get("b")).data == b"1"
    with pytest.raises(errors.ObjectNotFoundError):
        await store.info("a")
    with pytest.raises(errors.BadOptionError):
        await store.update_meta("b", rename="taken")


async def test_links_are_followed(store: ObjectStore) -> None:
    info = await store.put("a", b"1")
    link = await store.add_link("link", info)
    assert link.is_link
    assert (await store.get("link")).data == b"1"
    with pytest.raises(errors.ObjectLinkError):
        await store.add_link("second", link)
    await store.add_bucket_link("whole", store.bucket)
    with pytest.raises(errors.ObjectLinkError):
        await store.get("whole")


async def test_watch_gives_what_is_there_then_changes(store: ObjectStore) -> None:
    await store.put("a", b"1")
    async with await store.watch() as watcher:
        first = await asyncio.wait_for(anext(watcher), 5)
        assert first is not None
        assert first.name == "a"
        assert await asyncio.wait_for(anext(watcher), 5) is None
        await store.put("b", b"2")
        second = await asyncio.wait_for(anext(watcher), 5)
        assert second is not None
        assert second.name == "b"


@pytest.mark.long
async def test_damage_is_noticed(store: ObjectStore, connection: Connection) -> None:
    info = await store.put("a", LARGE)
    await store._stream.purge(subject=f"$O.{store.bucket}.C.{info.nuid}", keep=1)
    store._jetstream._request_timeout_s = 0.2
    with pytest.raises(errors.ObjectDamagedError):
        await store.get("a")


async def test_a_store_that_is_not_there(connection: Connection) -> None:
    with pytest.raises(errors.BucketNotFoundError):
        await connection.jetstream().object_store("nobody")


async def test_a_store_that_was_deleted_is_not_taken_for_a_missing_object(connection: Connection, name: str) -> None:
    jetstream = connection.jetstream()
    store = await jetstream.create_object_store(name, storage="memory")
    await store.put("a", b"1")
    await jetstream.delete_object_store(name)
    for asked in (store.get("a"), store.info("a"), store.put("b", b"2"), store.list()):
        with pytest.raises(errors.BucketNotFoundError, match=name):
            await asked
    with pytest.raises(errors.BucketNotFoundError, match=name):
        await jetstream.delete_object_store(name)


async def test_reading_leaves_no_consumer_behind(connection: Connection, name: str) -> None:
    jetstream = connection.jetstream()
    store = await jetstream.create_object_store(name, storage="memory", max_consumers=1)
    await store.put("a", LARGE)
    for _ in range(3):
        assert [info.name for info in await store.list()] == ["a"]
        assert (await store.get("a")).data == LARGE
        async with await store.watch() as watcher:
            await watcher.initial()
    assert await jetstream.stream_handle(f"OBJ_{name}").consumer_names() == []
    await jetstream.delete_object_store(name)


async def test_putting_leaves_the_failures_of_other_publishes_to_their_flush(
    store: ObjectStore, connection: Connection, name: str
) -> None:
    jetstream = connection.jetstream()
    stream = await jetstream.create_stream(f"{name}-other", subjects=[f"{name}.>"], storage="memory")
    future = await jetstream.publish_async(f"{name}.a", expect_last_seq=99)
    await until(lambda: future.done)
    beside = await jetstream.object_store(store.bucket)
    assert (await beside.put("a", LARGE, chunk_bytes=10_000)).size == len(LARGE)
    with pytest.raises(WrongLastSequenceError):
        await jetstream.flush()
    await stream.delete()


async def test_a_put_that_fails_tells_so_itself_and_leaves_nothing(connection: Connection, name: str) -> None:
    jetstream = connection.jetstream()
    store = await jetstream.create_object_store(name, storage="memory", max_bytes=200_000)
    with pytest.raises(ApiError):
        await store.put("a", LARGE, chunk_bytes=10_000)
    await jetstream.flush()
    assert await store.byte_count() == 0
    await jetstream.delete_object_store(name)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_anything_like_bytes_can_be_put(store: ObjectStore, kind: Callable[[bytes], bytes]) -> None:
    await store.put("a", kind(LARGE))
    assert (await store.get("a")).data == LARGE


async def test_the_time_of_an_object_is_when_the_store_got_it(store: ObjectStore) -> None:
    info = await store.put("a", b"1")
    assert info.mtime is not None
    assert info.mtime.tzinfo is UTC
    again = await store.put("a", b"2")
    assert again.mtime is not None
    assert info.mtime < again.mtime
    assert [found.timestamp_ns for found in await store.list()] == [again.timestamp_ns]
