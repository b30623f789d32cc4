"""Messages as Arrow record batches: fetched, consumed without end, and scanned by range."""

from __future__ import annotations

import asyncio
import builtins
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jetspark.sync
from jetspark.client import errors
from jetspark.client.aio import Connection, JetStream, Stream, connect
from jetspark.client.arrow_batches import BatchBuilder
from jetspark.client.core import arrow_decode
from jetspark.client.core.connection import ConnectionCore
from jetspark.client.core.message import MessageCore
from jetspark.protocol import client_parser
from jetspark.protocol.nuid import Nuid
from tests.client.conftest import NatsServer
from tests.client.peer import ScriptedPeer
from tests.client.test_fetch import fill
from tests.client.waiting import until

arrow = pytest.importorskip("pyarrow", reason="no pyarrow: pip install 'jetspark[arrow]'")


async def rows_of(scan: Any) -> list[dict[str, Any]]:
    table = await scan.read_all()
    table.validate(full=True)
    rows: list[dict[str, Any]] = table.set_column(
        table.schema.get_field_index("timestamp"), "timestamp", table["timestamp"].cast(arrow.int64())
    ).to_pylist()
    return rows


async def sequences_of(scan: Any) -> list[int]:
    batches = [batch async for batch in scan]
    return [sequence for batch in batches for sequence in batch.column("sequence").to_pylist()]


async def test_a_fetch_gives_one_batch_with_every_column(jetstream: JetStream, stream: Stream, name: str) -> None:
    await jetstream.publish(f"{name}.a", b"1", headers=[("K", "v"), ("K", "w"), ("Empty", ""), ("Spaced", "a b")])
    await jetstream.publish(f"{name}.b", b"\xff\x00")
    await jetstream.publish(f"{name}.ü", b"")
    consumer = await stream.create_consumer("worker")
    batch = await consumer.fetch_arrow(10, no_wait=True)
    batch.validate(full=True)
    rows = batch.drop_columns(["timestamp"]).to_pylist()
    assert [row["subject"] for row in rows] == [f"{name}.a", f"{name}.b", f"{name}.ü"]
    assert [row["sequence"] for row in rows] == [1, 2, 3]
    assert [row["data"] for row in rows] == [b"1", b"\xff\x00", b""]
    assert [(pair["key"], pair["value"]) for pair in rows[0]["headers"]] == [
        ("K", "v"), ("K", "w"), ("Empty", ""), ("Spaced", "a b"),
    ]  # fmt: skip
    assert rows[1]["headers"] == []
    assert [row["delivery_count"] for row in rows] == [1, 1, 1]
    assert [row["consumer_sequence"] for row in rows] == [1, 2, 3]
    assert [row["pending_count"] for row in rows] == [2, 1, 0]
    assert re.fullmatch(rf"\$JS\.ACK\.{name}\.worker\.1\.1\.1\.\d+\.2", rows[0]["reply"])
    stored = await stream.get_msg(1)
    assert batch.column("timestamp").cast(arrow.int64())[0].as_py() == stored.timestamp_ns


async def test_pandas_takes_a_batch_as_it_is(jetstream: JetStream, stream: Stream, name: str) -> None:
    pytest.importorskip("pandas", reason="no pandas: pip install 'jetspark[spark]'")
    await jetstream.publish(f"{name}.a", b"1", headers={"K": "v"})
    batch = await (await stream.create_consumer("worker")).fetch_arrow(1)
    frame = batch.to_pandas()
    assert (frame["subject"][0], frame["data"][0], frame["sequence"][0]) == (f"{name}.a", b"1", 1)


async def test_the_rows_of_a_batch_are_acknowledged_together(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 50)
    consumer = await stream.create_consumer("worker")
    batch = await consumer.fetch_arrow(40)
    assert await consumer.ack_arrow(batch.slice(0, 30)) == 30

    async def floor() -> bool:
        info = await consumer.info()
        return (info.ack_floor.stream_seq, info.num_ack_pending) == (30, 10)

    await until(floor)
    last_only = await stream.create_consumer("all", ack_policy="all")
    assert await last_only.ack_arrow(await last_only.fetch_arrow(50)) == 1
    silent = await stream.create_consumer("none", ack_policy="none")
    assert await silent.ack_arrow(await silent.fetch_arrow(50)) == 0


@pytest.mark.long
async def test_a_fetch_waits_for_what_is_missing_and_an_empty_one_is_no_error(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    consumer = await stream.create_consumer("worker")
    empty = await consumer.fetch_arrow(5, expires=0.05)
    assert (empty.num_rows, empty.schema.names[0]) == (0, "subject")
    fetching = asyncio.create_task(consumer.fetch_arrow(3, expires=10))
    await fill(jetstream, f"{name}.a", 3)
    assert (await fetching).column("data").to_pylist() == [b"1", b"2", b"3"]
    few = await consumer.fetch_arrow(0, max_bytes=1, expires=0.2)
    assert few.num_rows == 0


async def test_only_chosen_columns_are_made(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 2)
    consumer = await stream.create_consumer("worker")
    batch = await consumer.fetch_arrow(2, columns=["data", "sequence"])
    assert batch.to_pylist() == [{"data": b"1", "sequence": 1}, {"data": b"2", "sequence": 2}]
    with pytest.raises(errors.BadOptionError, match="nothing"):
        await consumer.fetch_arrow(1, columns=["nothing"])
    with pytest.raises(errors.BadOptionError, match="reply"):
        await consumer.ack_arrow(batch)


async def test_errors_of_a_fetch_are_raised(stream: Stream) -> None:
    with pytest.raises(errors.PullUnavailableError):
        await stream.consumer_handle("nobody").fetch_arrow(1)
    with pytest.raises(errors.BadOptionError):
        await stream.consumer_handle("nobody").fetch_arrow()


async def test_without_pyarrow_the_error_names_the_extra(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(errors.MissingExtraError, match=r"jetspark\[arrow\]"):
        stream.scan()
    with pytest.raises(ImportError, match=r"jetspark\[arrow\]"):
        await stream.consumer_handle("worker").fetch_arrow(1)


async def test_both_forms_of_the_ack_subject_are_read_and_strangers_are_passed_over(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        fetching = asyncio.create_task(_handle(connection).fetch_arrow(2, expires=5))
        sid = (await peer.expect(b"SUB _INBOX")).split()[2]
        await peer.expect(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C")
        peer.message("a", sid, b"0", reply="somewhere.else")
        peer.message("a", sid, b"1", reply="$JS.ACK.S.C.3.7.8.1700000000123456789.9")
        peer.message("b", sid, b"2", reply="$JS.ACK.hub.ACC.S.C.4.8.9.1700000000123456790.8.x.y")
        batch = await fetching
    numbers = batch.select(["data", "sequence", "consumer_sequence", "delivery_count", "pending_count"])
    assert [tuple(row.values()) for row in numbers.to_pylist()] == [(b"1", 7, 8, 3, 9), (b"2", 8, 9, 4, 8)]
    assert batch.column("timestamp").cast(arrow.int64()).to_pylist() == [1700000000123456789, 1700000000123456790]


def _handle(connection: Connection) -> Any:
    from jetspark.client.infos import StreamInfo

    jetstream = connection.jetstream()
    info = StreamInfo.read({"config": {"name": "S"}, "created": "2026-01-01T00:00:00Z", "state": {}})
    return Stream(jetstream, info).consumer_handle("C")


async def test_text_that_is_not_utf8_is_shown_and_hides_nothing(peer: ScriptedPeer) -> None:
    async with await connect(peer.url) as connection:
        fetching = asyncio.create_task(_handle(connection).fetch_arrow(1, expires=5))
        sid = (await peer.expect(b"SUB _INBOX")).split()[2]
        await peer.expect(b"PUB $JS")
        block = b"NATS/1.0\r\nA: \xff\r\nNoColon\r\nB:x \r\n\r\n"
        head = b"HMSG a\xfe %b $JS.ACK.S.C.1.1.1.1.0 %d %d\r\n" % (sid, len(block), len(block) + 1)
        peer.send(head + block + b"d\r\n")
        rows = (await fetching).drop_columns(["timestamp"]).to_pylist()
    assert rows[0]["subject"] == "a\ufffd"
    assert [tuple(pair.values()) for pair in rows[0]["headers"]] == [("A", "\ufffd"), ("B", "x")]


NAMES = st.text("abcXYZ09-ü", min_size=1, max_size=6)
MESSAGES = st.lists(
    st.tuples(
        NAMES,
        st.lists(st.tuples(NAMES, st.text("ab :ü", max_size=6)), max_size=3),
        st.binary(max_size=40),
        st.integers(0, 2**62),
        st.booleans(),
    ),
    max_size=8,
)


@pytest.mark.long
@given(MESSAGES, st.integers(1, 400))
def test_both_bodies_of_the_decoder_give_the_same_columns(messages: list[Any], piece: int) -> None:
    frames = []
    for number, (subject, headers, data, timestamp_ns, is_v2) in enumerate(messages, 1):
        reply = f"$JS.ACK.{'hub.acc.' if is_v2 else ''}S.C.1.{number * 3}.{number}.{timestamp_ns}.5".encode()
        block = b"".join(f"{name}:{value}\r\n".encode() for name, value in headers)
        if headers:
            block = b"NATS/1.0\r\n" + block + b"\r\n"
            head = b"HMSG %b 1 %b %d %d" % (subject.encode(), reply, len(block), len(block) + len(data))
        else:
            head = b"MSG %b 1 %b %d" % (subject.encode(), reply, len(data))
        frames.append(head + b"\r\n" + block + data + b"\r\n")
    wire = b"".join(frames)
    batches = [decoded(wire, piece, is_native) for is_native in (False, True)]
    assert batches[0] == batches[1]
    assert [row["data"] for row in batches[0]] == [one[2] for one in messages]
    pairs = [[(pair["key"], pair["value"]) for pair in row["headers"]] for row in batches[0]]
    assert pairs == [[(name, value.strip(" ")) for name, value in one[1]] for one in messages]
    assert [row["timestamp"] for row in batches[0]] == [one[3] for one in messages]


def decoded(wire: bytes, piece: int, is_native: bool) -> list[dict[str, Any]]:
    """The rows of the wire's bytes, read in pieces by one of the two bodies."""
    with pytest.MonkeyPatch.context() as patch:
        if not client_parser.IS_NATIVE:
            patch.setattr(client_parser, "IS_NATIVE", is_native)
            patch.setattr(arrow_decode, "IS_NATIVE", is_native)
        core = ConnectionCore(Nuid(lambda size: bytes(size)), "_INBOX", 1000, MessageCore, None)
        sink = arrow_decode.open_sink(core, None)
        assert sink.sid == b"1"
        for start in range(0, len(wire), piece):
            core.feed(wire[start : start + piece])
        batch = BatchBuilder().build(sink.take_columns())
    place = batch.schema.get_field_index("timestamp")
    rows: list[dict[str, Any]] = batch.set_column(
        place, "timestamp", batch["timestamp"].cast(arrow.int64())
    ).to_pylist()
    return rows


# Consuming.


async def test_consume_gives_full_batches_and_what_lingers(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 25)
    consumer = await stream.create_consumer("worker")
    sizes: list[int] = []
    rows: list[bytes] = []
    async with asyncio.timeout(10), consumer.consume_arrow(batch_rows=10, linger=0.05) as batches:
        async for batch in batches:
            sizes.append(batch.num_rows)
            rows.extend(batch.column("data").to_pylist())
            await consumer.ack_arrow(batch)
            if len(rows) == 25:
                break
    assert rows == [b"%d" % i for i in range(1, 26)]
    assert max(sizes) == 10


@pytest.mark.long
async def test_consume_goes_on_after_a_restart(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()
    async with await connect(server.url, reconnect_wait=0.05) as connection:
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream(name, subjects=[name])
        await fill(jetstream, name, 20)
        consumer = await stream.create_consumer("worker", ack_wait=60)
        seen: list[int] = []
        async with asyncio.timeout(20), consumer.consume_arrow(batch_rows=10, linger=0.01) as batches:
            async for batch in batches:
                seen.extend(batch.column("sequence").to_pylist())
                await consumer.ack_arrow(batch)
                if len(seen) == 20:
                    await connection.flush()
                    server.restart()
                    await until(lambda: connection.reconnect_count == 1)
                    await fill(jetstream, name, 20)
                if len(seen) == 40:
                    break
        assert seen == list(range(1, 41))


async def test_a_deleted_consumer_ends_consume_with_its_error_after_the_rows(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 5)
    consumer = await stream.create_consumer("worker")
    batches = consumer.consume_arrow(linger=30)
    taking = asyncio.create_task(anext(batches))
    await until(lambda: batches._sink.rows == 5)
    await consumer.delete()
    assert (await taking).num_rows == 5
    with pytest.raises(errors.ConsumerDeletedError):
        await anext(batches)
    with pytest.raises(StopAsyncIteration):
        await anext(batches)


async def test_an_ordered_consumer_gives_batches_in_order(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 300)
    consumer = await stream.ordered_consumer()
    seen = (await consumer.fetch_arrow(50)).column("sequence").to_pylist()
    await consumer.stream.delete_consumer(consumer.name)
    seen += (await consumer.fetch_arrow(50)).column("sequence").to_pylist()
    async with asyncio.timeout(20), consumer.consume_arrow(batch_rows=50, linger=0.01) as batches:
        async for batch in batches:
            seen += batch.column("sequence").to_pylist()
            if len(seen) >= 300:
                break
    assert seen == list(range(1, 301))


# Scanning.


async def test_a_scan_gives_exactly_the_range(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 3000)
    batches = [batch async for batch in stream.scan(batch_rows=1000)]
    assert max(batch.num_rows for batch in batches) <= 1000
    table = arrow.Table.from_batches(batches)
    assert table.column("sequence").to_pylist() == list(range(1, 3001))
    assert table.column("data").to_pylist() == [b"%d" % i for i in range(1, 3001)]
    assert await sequences_of(stream.scan(10, 20)) == list(range(10, 21))
    assert await sequences_of(stream.scan(2990, 5000)) == list(range(2990, 3001))
    assert await sequences_of(stream.scan(4000)) == []
    assert await sequences_of(stream.scan(7, 6)) == []
    with pytest.raises(errors.BadOptionError):
        stream.scan(0)


async def test_a_scan_of_an_empty_stream_is_empty(stream: Stream) -> None:
    table = await stream.scan().read_all()
    assert (table.num_rows, table.schema.names) == (0, stream.scan().schema.names)


@pytest.mark.parametrize("direct", [False, True])
async def test_a_scan_passes_over_deleted_messages(jetstream: JetStream, name: str, direct: bool) -> None:
    stream = await jetstream.create_stream(name, subjects=[f"{name}.>"], storage="memory", allow_direct=direct)
    await fill(jetstream, f"{name}.a", 60)
    for sequence in (1, 2, 30, 31, 59, 60):
        await stream.delete_msg(sequence)
    left = [sequence for sequence in range(3, 59) if sequence not in (30, 31)]
    assert await sequences_of(stream.scan()) == left
    assert await sequences_of(stream.scan(29, 32)) == [29, 32]
    assert await sequences_of(stream.scan(30, 31)) == []
    await stream.purge()
    assert await sequences_of(stream.scan()) == []


@pytest.mark.parametrize("direct", [False, True])
async def test_a_scan_picks_subjects(jetstream: JetStream, name: str, direct: bool) -> None:
    stream = await jetstream.create_stream(name, subjects=[f"{name}.>"], storage="memory", allow_direct=direct)
    for i in range(30):
        await jetstream.publish(f"{name}.{i % 3}", b"%d" % i)
    rows = await rows_of(stream.scan(subjects=f"{name}.1"))
    assert [int(row["data"]) for row in rows] == list(range(1, 30, 3))
    two = await rows_of(stream.scan(4, 9, subjects=[f"{name}.0", f"{name}.2"]))
    assert [row["sequence"] for row in two] == [4, 6, 7, 9]
    assert await rows_of(stream.scan(subjects=f"{name}.nobody")) == []


async def test_a_small_range_is_read_without_a_consumer(jetstream: JetStream, name: str) -> None:
    stream = await jetstream.create_stream(name, subjects=[f"{name}.>"], storage="memory", allow_direct=True)
    await jetstream.publish(f"{name}.a", b"1", headers=[("K", "v"), ("K", "w")])
    await fill(jetstream, f"{name}.a", 9)
    advisories = await jetstream.connection.subscribe(f"$JS.EVENT.ADVISORY.CONSUMER.CREATED.{name}.>")
    rows = await rows_of(stream.scan())
    assert [row["sequence"] for row in rows] == list(range(1, 11))
    assert [tuple(pair.values()) for pair in rows[0]["headers"]] == [("K", "v"), ("K", "w")]
    assert rows[0]["timestamp"] == (await stream.get_msg(1)).timestamp_ns
    assert (rows[0]["reply"], rows[0]["consumer_sequence"]) == (None, None)
    await jetstream.connection.flush()
    assert advisories.pending_count == 0


async def test_a_scan_by_time(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 10)
    await until(lambda: _has_moved_on(jetstream, stream, f"{name}.b"))
    middle = (await stream.get_msg(10)).timestamp_ns // 1000 + 1
    moment = datetime.fromtimestamp(middle / 1e6, UTC)
    last = (await stream.info()).state.last_seq
    assert await sequences_of(stream.scan(end=moment)) == list(range(1, 11))
    assert await sequences_of(stream.scan(moment)) == list(range(11, last + 1))


async def _has_moved_on(jetstream: JetStream, stream: Stream, subject: str) -> bool:
    """A message later than the tenth by more than a microsecond, the grain of Python's times."""
    ack = await jetstream.publish(subject)
    return (await stream.get_msg(ack.seq)).timestamp_ns > (await stream.get_msg(10)).timestamp_ns + 10_000


async def test_a_scan_leaves_no_consumer_behind(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 1000)
    assert len(await sequences_of(stream.scan())) == 1000
    assert await stream.consumer_names() == []
    async with stream.scan(batch_rows=10) as batches:
        async for _ in batches:
            assert len(await stream.consumer_names()) == 1
            break
    assert await stream.consumer_names() == []
    assert batches._ordered._config.inactive_threshold <= 30 * 10**9


@pytest.mark.long
async def test_a_scan_ends_when_the_rest_of_its_range_is_deleted_meanwhile(
    jetstream: JetStream, stream: Stream, name: str
) -> None:
    await fill(jetstream, f"{name}.a", 300)
    scan = stream.scan(batch_rows=100)
    scan._buffer.rows_max = 100
    async with asyncio.timeout(20):
        seen = (await anext(scan)).column("sequence").to_pylist()
        await stream.purge()
        seen += await sequences_of(scan)
    assert 100 <= len(seen) < 300
    assert seen == list(range(1, len(seen) + 1))


@pytest.mark.long
async def test_large_messages_come_in_smaller_batches(jetstream: JetStream, stream: Stream, name: str) -> None:
    for _ in range(70):
        await jetstream.publish_async(f"{name}.a", bytes(1_000_000))
    await jetstream.flush(30)
    batches = [batch async for batch in stream.scan()]
    assert sum(batch.num_rows for batch in batches) == 70
    assert max(batch.nbytes for batch in batches) < 40_000_000


@pytest.mark.slow
async def test_a_scan_makes_its_consumer_again_when_it_is_gone(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 500)
    scan = stream.scan(batch_rows=100)
    scan._buffer.rows_max = 100
    seen: list[int] = []
    async with asyncio.timeout(20):
        async for batch in scan:
            seen += batch.column("sequence").to_pylist()
            if len(seen) == 200:
                await stream.delete_consumer(scan._ordered.name)
    assert seen == list(range(1, 501))


@pytest.mark.long
async def test_a_scan_goes_on_after_a_restart(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()
    async with await connect(server.url, reconnect_wait=0.05) as connection:
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream(name, subjects=[name])
        await fill(jetstream, name, 5000)
        scan = stream.scan(batch_rows=500)
        scan._buffer.rows_max = 500
        seen: list[int] = []
        async with asyncio.timeout(30):
            async for batch in scan:
                seen += batch.column("sequence").to_pylist()
                if len(seen) == 1500:
                    await asyncio.to_thread(server.restart)
        assert seen == list(range(1, 5001))
        assert await stream.consumer_names() == []


@pytest.mark.slow
async def test_a_scan_of_a_stream_that_goes_away_says_so(jetstream: JetStream, stream: Stream, name: str) -> None:
    await fill(jetstream, f"{name}.a", 500)
    scan = stream.scan(batch_rows=100)
    scan._buffer.rows_max = 100
    async with asyncio.timeout(20):
        await anext(scan)
        await stream.delete()
        with pytest.raises(errors.ConsumerDeletedError):
            await sequences_of(scan)


def test_the_blocking_face_reads_the_same(url: str, name: str) -> None:
    with jetspark.sync.connect(url) as connection:
        jetstream = connection.jetstream()
        stream = jetstream.create_stream(name, subjects=[f"{name}.>"], storage="memory")
        try:
            for i in range(2000):
                jetstream.publish_async(f"{name}.a", b"%d" % i, headers={"N": str(i)})
            jetstream.flush(10)
            table = stream.scan(11, subjects=f"{name}.a").read_all()
            assert table.column("sequence").to_pylist() == list(range(11, 2001))
            assert table.column("headers").to_pylist()[-1] == [{"key": "N", "value": "1999"}]
            consumer = stream.create_consumer("worker")
            seen = 0
            with consumer.consume_arrow(batch_rows=500) as batches:
                for batch in batches:
                    seen += consumer.ack_arrow(batch)
                    if seen == 2000:
                        break
            assert consumer.fetch_arrow(10, expires=0.05).num_rows == 0
            assert stream.consumer_names() == ["worker"]
        finally:
            stream.delete()
