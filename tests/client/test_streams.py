"""Managing streams and reading single messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jetspark.api.error_codes import ApiError
from jetspark.api.stream_config import Storage, StreamConfig, StreamSource
from jetspark.client import errors
from jetspark.client.aio import JetStream, Stream, connect
from jetspark.client.api_errors import (
    MessageNotFoundError,
    NoJetStreamError,
    StreamExistsError,
    StreamNotFoundError,
    SubjectOverlapError,
)


async def test_a_stream_is_made_changed_and_removed(jetstream: JetStream, name: str) -> None:
    stream = await jetstream.create_stream(name, subjects=f"{name}.a", max_age=timedelta(hours=1), storage="memory")
    assert stream.cached_info.config.max_age == 3600 * 10**9
    assert stream.cached_info.config.storage is Storage.MEMORY
    info = await stream.update(description="orders", max_msgs=10)
    assert (info.config.description, info.config.max_msgs, info.config.max_age) == ("orders", 10, 3600 * 10**9)
    assert (await jetstream.update_stream(name, max_msgs=20)).cached_info.config.description == "orders"
    await stream.delete()
    with pytest.raises(StreamNotFoundError) as caught:
        await jetstream.stream(name)
    assert (caught.value.code, caught.value.err_code, caught.value.description) == (404, 10059, "stream not found")
    assert not await jetstream.stream_exists(name)


async def test_a_stream_can_be_made_from_the_dataclass(jetstream: JetStream, name: str) -> None:
    config = StreamConfig(name=name, subjects=(f"{name}.x",), storage=Storage.MEMORY)
    assert (await jetstream.create_stream(config, max_msgs=5)).cached_info.config.max_msgs == 5


async def test_sources_are_taken_as_mappings_as_dataclasses_and_mixed(jetstream: JetStream, name: str) -> None:
    for origin in ("A", "B"):
        await jetstream.create_stream(f"{name}{origin}", subjects=[f"{name}{origin}.*"])
    sources = [StreamSource(name=f"{name}A"), {"name": f"{name}B", "opt_start_seq": 7}]

    made = await jetstream.create_stream(name, sources=sources)

    assert [(one.name, one.opt_start_seq) for one in made.cached_info.config.sources or []] == [
        (f"{name}A", 0),
        (f"{name}B", 7),
    ]


async def test_the_same_name_with_other_settings_is_an_error_of_its_own(jetstream: JetStream, name: str) -> None:
    await jetstream.create_stream(name, subjects=[f"{name}.a"], storage="memory")
    await jetstream.create_stream(name, subjects=[f"{name}.a"], storage="memory")
    with pytest.raises(StreamExistsError):
        await jetstream.create_stream(name, subjects=[f"{name}.b"], storage="memory")
    with pytest.raises(SubjectOverlapError):
        await jetstream.create_stream(name + "2", subjects=[f"{name}.a"], storage="memory")
    made = await jetstream.create_or_update_stream(name, subjects=[f"{name}.b"], storage="memory")
    assert made.cached_info.config.subjects == (f"{name}.b",)


async def test_settings_nobody_knows_are_refused_before_asking(jetstream: JetStream, name: str) -> None:
    with pytest.raises(errors.BadOptionError, match="max_mesages"):
        await jetstream.create_stream(name, max_mesages=1)
    with pytest.raises(errors.BadOptionError, match="stream name"):
        await jetstream.stream("a.b")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"retention": "nope"}, "retention cannot be 'nope': it is one of limits, interest, workqueue"),
        ({"max_msgs": "many"}, "max_msgs cannot be 'many'"),
        ({"mirror": {"nam": "other"}}, "mirror cannot be"),
        ({"max_msg": 3}, "no such setting: max_msg; did you mean max_msgs"),
    ],
    ids=str,
)
async def test_a_setting_that_cannot_be_is_named_with_what_it_can_be(
    jetstream: JetStream, name: str, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(errors.BadOptionError, match=said):
        await jetstream.create_stream(name, **settings)


async def test_fields_of_a_newer_server_are_kept(jetstream: JetStream, stream: Stream) -> None:
    info = await stream.info()
    assert info.raw["config"]["name"] == stream.name
    assert StreamConfig.decode({**info.raw["config"], "from_the_future": 7}).extra == {"from_the_future": 7}


async def test_streams_are_listed_by_name_and_by_subject(jetstream: JetStream, stream: Stream, name: str) -> None:
    assert name in await jetstream.stream_names()
    assert await jetstream.stream_names(f"{name}.foo") == [name]
    assert [info.name for info in await jetstream.streams(f"{name}.>")] == [name]
    assert (await jetstream.account_info()).streams >= 1


async def test_row_27_the_stream_of_a_subject_must_be_the_only_one(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    assert await jetstream.stream_name_by_subject(f"{name}.foo") == name
    with pytest.raises(errors.NoMatchingStreamError):
        await jetstream.stream_name_by_subject(f"nobody.{name}")
    other = await jetstream.create_stream(name + "X", subjects=[f"x.{name}"], storage="memory")
    with pytest.raises(errors.NoMatchingStreamError):
        await jetstream.stream_name_by_subject(">")
    await other.delete()


async def test_messages_are_read_deleted_and_purged(jetstream: JetStream, stream: Stream, name: str) -> None:
    for i in range(1, 6):
        await jetstream.publish(f"{name}.{'a' if i % 2 else 'b'}", b"%d" % i, headers={"N": i})
    message = await stream.get_msg(3)
    assert (message.subject, message.seq, message.data, message.headers["N"]) == (f"{name}.a", 3, b"3", "3")
    assert abs(message.timestamp_ns / 1e9 - datetime.now(UTC).timestamp()) < 60
    assert (await stream.get_last_msg(f"{name}.b")).seq == 4
    assert (await stream.get_msg(2, next_by_subject=f"{name}.a")).seq == 3
    await stream.delete_msg(3)
    with pytest.raises(MessageNotFoundError):
        await stream.get_msg(3)
    assert (await stream.info(deleted_details=True)).state.deleted == (3,)
    assert (await stream.info(subjects_filter=">")).state.subjects == {f"{name}.a": 2, f"{name}.b": 2}
    assert await stream.purge(subject=f"{name}.b") == 2
    assert await stream.purge(keep=1) == 1
    assert await stream.purge() == 1


async def test_direct_get_reads_without_the_json_detour(jetstream: JetStream, name: str) -> None:
    stream = await jetstream.create_stream(name, subjects=[f"{name}.>"], allow_direct=True, storage="memory")
    await jetstream.publish(f"{name}.a", b"1", headers={"A": "b"})
    message = await stream.get_msg(1)
    assert (message.subject, message.seq, message.data, dict(message.headers)) == (f"{name}.a", 1, b"1", {"A": "b"})
    with pytest.raises(MessageNotFoundError):
        await stream.get_msg(9)


async def test_api_errors_without_a_class_of_their_own_keep_their_numbers(jetstream: JetStream, name: str) -> None:
    with pytest.raises(ApiError) as caught:
        await jetstream.create_stream(name, subjects=["a..b"], storage="memory")
    assert caught.value.code == 500
    assert caught.value.err_code == 10052
    assert str(caught.value.err_code) in str(caught.value)


@pytest.mark.long
async def test_a_server_without_jetstream_is_told_from_a_timeout(make_server: Any) -> None:
    server = make_server(jetstream=False)
    async with await connect(server.url) as connection:
        with pytest.raises(NoJetStreamError):
            await connection.jetstream().account_info()


@pytest.mark.long
async def test_a_domain_changes_the_api_prefix(make_server: Any, name: str) -> None:
    server = make_server(config="jetstream { domain: hub }")
    async with await connect(server.url) as connection:
        jetstream = connection.jetstream(domain="hub")
        assert jetstream.api_prefix == "$JS.hub.API"
        stream = await jetstream.create_stream(name, subjects=[name])
        assert (await jetstream.publish(name, b"")).domain == "hub"
        assert (await stream.info()).domain == "hub"
        with pytest.raises(NoJetStreamError):
            await connection.jetstream(domain="elsewhere").account_info()
