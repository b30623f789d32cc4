"""Processing blocks, atomic batches, backup and restore."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetspark.api.error_codes import ApiError
from jetspark.client import errors
from jetspark.client.aio import Consumer, JetStream, Msg, Stream
from jetspark.client.aio.backup import BackupProgress
from tests.client.test_fetch import fill
from tests.client.waiting import until


async def next_of(consumer: Consumer) -> Msg:
    message = await consumer.next()
    assert message is not None
    return message


async def test_processing_acks_a_block_that_ends_well(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 1)
    consumer = await stream.create_consumer("worker")
    async with (await next_of(consumer)).processing(wait=True) as message:
        assert message.data == b"1"
    assert (await consumer.info()).ack_floor.stream_seq == 1


async def test_processing_naks_or_terms_a_block_that_fails(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 1)
    consumer = await stream.create_consumer("worker")
    with pytest.raises(OSError, match="later"):
        async with (await next_of(consumer)).processing(term_on=ValueError):
            raise OSError("later")
    again = await next_of(consumer)
    assert again.metadata.delivery_count == 2
    with pytest.raises(ValueError, match="never"):
        async with again.processing(term_on=(ValueError, KeyError)):
            raise ValueError("never")
    await until(lambda: _settled(consumer))
    assert await consumer.fetch(1, no_wait=True) == []


async def _settled(consumer: Consumer) -> bool:
    return (await consumer.info()).num_ack_pending == 0


@pytest.mark.long
async def test_processing_tells_the_server_that_work_goes_on(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 1)
    consumer = await stream.create_consumer("worker", ack_wait=0.5)
    async with (await next_of(consumer)).processing(progress_every=0.1):
        assert await consumer.fetch(1, expires=1.5) == []
    assert (await consumer.info()).num_redelivered == 0


@pytest.mark.long
async def test_processing_knows_how_soon_the_consumer_delivers_again(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    consumer = await stream.create_consumer("worker", ack_wait=1.2)
    await jetstream.publish(f"{name}.a", b"")
    async with (await next_of(consumer)).processing():
        assert await consumer.fetch(1, expires=2) == []


async def test_a_batch_is_stored_together_or_not_at_all(jetstream: JetStream, name: str) -> None:
    stream = await jetstream.create_stream(name, subjects=[f"{name}.>"], allow_atomic=True, storage="memory")
    async with jetstream.batch() as batch:
        await batch.add(f"{name}.a", b"1")
        await batch.add(f"{name}.b", b"2")
        assert (await stream.info()).state.messages == 0
        ack = await batch.commit(f"{name}.c", b"3")
    assert (ack.batch, ack.count, ack.seq) == (batch.id, 3, 3)
    bad = jetstream.batch()
    await bad.add(f"{name}.a", b"4", expect_last_seq=99)
    with pytest.raises(ApiError):
        await bad.commit(f"{name}.b", b"5")
    assert (await stream.info()).state.messages == 3
    with pytest.raises(errors.BadOptionError):
        await bad.add(f"{name}.a", b"6")


async def test_a_message_that_a_batch_refuses_is_no_part_of_it(jetstream: JetStream, name: str) -> None:
    await jetstream.create_stream(name, subjects=[f"{name}.>"], allow_atomic=True, storage="memory")
    batch = jetstream.batch()
    await batch.add(f"{name}.a", b"1")
    with pytest.raises(errors.BadSubjectError):
        await batch.add("a b", b"2")
    with pytest.raises(errors.BadHeaderError):
        await batch.add(f"{name}.a", b"2", headers={"A": "b\r\nC: d"})
    assert len(batch) == 1
    await batch.add(f"{name}.b", b"2")
    with pytest.raises(errors.BadSubjectError):
        await batch.commit("a b", b"3")
    ack = await batch.commit(f"{name}.c", b"3")
    assert (ack.count, ack.seq, len(batch)) == (3, 3, 3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting"),
        ("[]", "JSON object"),
        ("\xff", "decode"),
        ("{}", "config"),
        ('{"config": {}}', "name"),
        ('{"config": {"name": "S"}}', "state"),
    ],
)
async def test_a_backup_with_bad_settings_is_refused_by_file(
    jetstream: JetStream, tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "backup.json").write_text(text, "latin-1")
    (tmp_path / "stream.tar.s2").write_bytes(b"")
    with pytest.raises(errors.BadOptionError, match=reason) as caught:
        await jetstream.restore_stream(tmp_path)
    assert str(tmp_path / "backup.json") in str(caught.value)


async def test_row_23_a_stream_is_backed_up_and_restored(jetstream: JetStream, name: str, tmp_path: Path) -> None:
    stream = await jetstream.create_stream(name, subjects=[f"{name}.>"])
    for i in range(40):
        await jetstream.publish_async(f"{name}.{i % 3}", bytes([i]) * 20_000)
    await jetstream.flush(10)
    consumer = await stream.create_consumer("worker")
    for message in await consumer.fetch(10):
        await message.ack(wait=True)
    told: list[BackupProgress] = []
    done = await stream.backup(tmp_path / "backup", progress=told.append)
    assert done.is_done
    assert done.byte_count == (tmp_path / "backup" / "stream.tar.s2").stat().st_size
    assert told[-1] == done
    before = (await stream.info()).state
    await stream.delete()
    restored = await jetstream.restore_stream(tmp_path / "backup")
    after = (await restored.info()).state
    assert (after.messages, after.last_seq) == (before.messages, before.last_seq)
    assert (await restored.get_msg(7)).data == bytes([6]) * 20_000
    assert (await (await restored.consumer("worker")).info()).ack_floor.stream_seq == 10
    with pytest.raises(ApiError):
        await jetstream.restore_stream(tmp_path / "backup")
    with pytest.raises(errors.BadOptionError):
        await jetstream.restore_stream(tmp_path / "nothing")
