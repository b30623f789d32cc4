"""Each whole pipeline, run on real streams: what went in comes out, once, in order, also when it runs again."""

from __future__ import annotations

import json
import runpy
import shutil
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pytest
from pyspark.sql import functions as f
from pyspark.sql import types

from jetspark.client.headers import Headers
from jetspark.client.sync import JetStream, Stream, connect
from jetspark.spark import pipelines
from jetspark.spark.pipelines import Rule
from jetspark.spark.pipelines.archive_files import archive_files
from jetspark.spark.pipelines.archiving import SEQUENCE_HEADER, STREAM_HEADER, TIME_HEADER
from jetspark.spark.pipelines.delta_sink import DeltaDataSource, table_schema, write_file
from jetspark.spark.pipelines.delta_table import add_batch
from jetspark.spark.pipelines.errors import PipelineError
from jetspark.spark.pipelines.project import create_project
from jetspark.spark.pipelines.routing import check_rules, check_subject
from jetspark.spark.streaming import follow
from tests.spark.conftest import OURS, running, url_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.fixture
def target(js: JetStream) -> Iterator[Stream]:
    """Another stream, which takes `OUT.<its name>.>`."""
    name = f"T{uuid.uuid4().hex[:12]}"
    made = js.create_stream(name, subjects=[f"{name}.>"])
    yield made
    js.delete_stream(name)


def publish(stream: Stream, documents: list[dict[str, Any]], subject: str = "new") -> None:
    js = stream.jetstream
    for document in documents:
        js.publish_async(f"{stream.name}.{subject}", json.dumps(document).encode())
    js.flush(30)


def stored(stream: Stream) -> list[Any]:
    last = stream.info().state.last_seq
    return [stream.get_msg(sequence) for sequence in range(1, last + 1)]


def documents_in(stream: Stream) -> list[dict[str, Any]]:
    return [json.loads(message.data) for message in stored(stream)]


def moment(time_ns: int) -> str:
    whole = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{time_ns % 1_000_000_000:09d}Z"


def finish(query: StreamingQuery) -> None:
    follow(query, say=lambda text: None)


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def write_to(rows: DataFrame, stream: Stream, url: str, checkpoint: Path) -> None:
    writer = rows.writeStream.format("jetstream").option("servers", url).option("stream", stream.name)
    finish(writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start())


def test_an_archive_keeps_everything_and_a_replay_gives_it_back_in_order(
    spark: SparkSession, url: str, js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    place: dict[str, Any] = {"servers": url, "maxOffsetsPerTrigger": 7}
    for number in range(1, 21):
        headers = Headers([("Color", "red"), ("Color", "blue"), ("Nats-Rollup-Like", "x")])
        js.publish(f"{stream.name}.s{number % 3}", b"%d" % number, headers=headers, msg_id=f"id-{number}")
    archive, state = tmp_path / "archive", tmp_path / "state"
    finish(pipelines.archive(spark, stream.name, archive, checkpoint=state, **place))
    js.publish(f"{stream.name}.s0", b"21")
    finish(pipelines.archive(spark, stream.name, archive, checkpoint=state, **place))
    originals = stored(stream)
    archived = sorted(pipelines.read_archive(spark, archive).collect(), key=lambda row: row.sequence)
    assert [row.sequence for row in archived] == list(range(1, 22))
    assert [bytes(row.data) for row in archived] == [message.data for message in originals]
    day = moment(originals[0].timestamp_ns)[:10]
    assert (archive / f"day={day}" / f"subject_key={stream.name}.s1").is_dir()

    files_before = len(archive_files(archive))
    done = pipelines.compact(archive, checkpoint=state)
    assert done.files_before == files_before
    assert done.files_after == len(archive_files(archive)) < files_before
    again = sorted(pipelines.read_archive(spark, archive).collect(), key=lambda row: row.sequence)
    assert again == archived

    info = stream.info()
    js.delete_stream(stream.name)
    fresh = js.create_stream(stream.name, subjects=info.config.subjects)
    pipelines.replay(spark, archive, stream.name, servers=url)
    pipelines.replay(spark, archive, stream.name, servers=url)
    replayed = stored(fresh)
    assert [message.subject for message in replayed] == [message.subject for message in originals]
    assert [message.data for message in replayed] == [message.data for message in originals]
    first = replayed[0].headers
    assert first.get_all("Color") == ["red", "blue"]
    assert first["Jetspark-Archived-Nats-Msg-Id"] == "id-1"
    assert first[STREAM_HEADER] == stream.name
    assert [message.headers[SEQUENCE_HEADER] for message in replayed] == [str(one.seq) for one in originals]
    assert [one.headers[TIME_HEADER] for one in replayed] == [moment(one.timestamp_ns) for one in originals]


def test_the_programs_of_the_template_replay_bring_a_lost_stream_back(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_project("back", "replay", tmp_path)
    archive, replay = (runpy.run_path(str(tmp_path / "back" / f"{name}.py"))["main"] for name in ("archive", "replay"))
    with running(OURS) as server, connect(url_of(server)) as client:
        orders = client.jetstream().create_stream("ORDERS", subjects=["ORDERS.>"])
        for number in range(20):
            client.jetstream().publish(f"ORDERS.{number % 3}", b"%d" % number)
        before = [(one.subject, one.data, moment(one.timestamp_ns)) for one in stored(orders)]
        archive(["--servers", url_of(server)])
        assert "Done: 20 rows in 1 batch; ORDERS up to sequence 20." in capsys.readouterr().err
        orders.purge()
        for _ in range(2):
            replay(["ORDERS", "--servers", url_of(server)])
        after = orders.scan(columns=["sequence"]).read_all().column("sequence").to_pylist()
        back = [orders.get_msg(sequence) for sequence in after]
    assert [(one.subject, one.data, one.headers[TIME_HEADER]) for one in back] == before


def test_subjects_that_are_odd_names_of_folders_are_archived_and_replayed(
    spark: SparkSession, url: str, js: JetStream, stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a=b", "a/b", "ünï", "ÜNÏ", "%2F", "{x}[y]", "日本", "__HIVE_DEFAULT_PARTITION__", "A", "a", "'\"\\:?#~"]
    # A folder's name has 255 bytes at most; Spark writes a slash as three of them.
    names += ["x" * 400, "x" * 401, "y" * 200, "ü" * 150, "/" * 100]
    subjects = [f"{stream.name}.{name}" for name in names]
    for subject in subjects:
        js.publish(subject, b"x", headers=Headers([("Empty", ""), ("Twice", "1"), ("twice", "2")]))
    archive, state = tmp_path / "my archive", tmp_path / "state"
    finish(pipelines.archive(spark, stream.name, archive, checkpoint=state, servers=url, maxOffsetsPerTrigger=6))
    with pytest.raises(pipelines.PipelineError, match="belongs to a query with another checkpoint"):
        pipelines.archive(spark, stream.name, archive, checkpoint=tmp_path / "other", servers=url)
    with pytest.raises(pipelines.PipelineError, match="was begun with subject_tokens=None"):
        pipelines.archive(spark, stream.name, archive, checkpoint=state, servers=url, subject_tokens=1)
    stream.purge()
    pipelines.replay(spark, archive, stream.name, servers=url)
    # The same archive by another name: everything is there already.
    monkeypatch.chdir(tmp_path)
    pipelines.replay(spark, "my archive", stream.name, servers=url)
    state_now = stream.info().state
    replayed = [stream.get_msg(seq) for seq in range(state_now.first_seq, state_now.last_seq + 1)]
    assert [message.subject for message in replayed] == subjects
    own = [pair for pair in replayed[0].headers.all_items() if pair[0].lower() in ("empty", "twice")]
    assert own == [("Empty", ""), ("Twice", "1"), ("twice", "2")]


def test_a_replay_may_choose_its_messages(
    spark: SparkSession, url: str, js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    for number in range(6):
        js.publish(f"{stream.name}.{'even' if number % 2 == 0 else 'odd'}", b"%d" % number)
    finish(pipelines.archive(spark, stream.name, tmp_path / "a", checkpoint=tmp_path / "s", servers=url))
    stream.purge()
    pipelines.replay(spark, tmp_path / "a", stream.name, where="subject LIKE '%.odd'", servers=url)
    last = stream.info().state
    assert [stream.get_msg(seq).data for seq in range(last.first_seq, last.last_seq + 1)] == [b"1", b"3", b"5"]


def test_windows_close_when_they_are_late_enough_and_leave_out_what_comes_after(
    spark: SparkSession, url: str, stream: Stream, target: Stream, tmp_path: Path
) -> None:
    def at(minute: float, amount: int) -> dict[str, Any]:
        return {"at": (NOON + timedelta(minutes=minute)).isoformat(), "country": "de", "amount": amount}

    def run() -> DataFrame:
        messages = pipelines.read_messages(spark, stream.name, servers=url)
        orders = pipelines.json_fields(messages, "at TIMESTAMP, country STRING, amount INT", keep=["subject"])
        values = {"orders": f.count("*"), "amount": f.sum("amount")}
        windows = pipelines.aggregate(orders, values, late="2 minutes", by=["country"], time="at", ahead=None)
        table = windows.writeStream.format("parquet").option("path", str(tmp_path / "table"))
        finish(table.option("checkpointLocation", str(tmp_path / "one")).trigger(availableNow=True).start())
        return spark.readStream.schema(windows.schema).parquet(str(tmp_path / "table"))

    publish(stream, [at(0, 1), at(0.5, 2), at(1, 4), at(5, 8)])
    run()
    found = spark.read.parquet(str(tmp_path / "table")).orderBy("window_start")
    assert [(row.orders, row.amount) for row in found.collect()] == [(2, 3), (1, 4)]
    # The first is older than any window that is open; the second opens one and closes that of minute 5.
    publish(stream, [at(0.9, 100), at(20, 16)])
    rows = pipelines.as_messages(run(), subject=f"{target.name}.minute", key=["window_start", "country"])
    write_to(rows, target, url, tmp_path / "two")
    # A shuffle has no order, so neither has what was published from it.
    closed = sorted(documents_in(target), key=lambda one: str(one["window_start"]))
    assert [(one["orders"], one["amount"]) for one in closed] == [(2, 3), (1, 4), (1, 8)]


def test_the_same_order_sent_again_days_later_is_passed_on_once(
    spark: SparkSession, url: str, stream: Stream, target: Stream, tmp_path: Path
) -> None:
    def at(day: float, number: int) -> dict[str, Any]:
        return {"at": (NOON + timedelta(days=day)).isoformat(), "id": number}

    def run() -> None:
        messages = pipelines.read_messages(spark, stream.name, servers=url)
        orders = pipelines.json_fields(messages, "at TIMESTAMP, id LONG", keep=["subject", "data"])
        first = pipelines.dedupe(orders, ["id"], within="3 days", time="at", ahead=None)
        rows = pipelines.as_messages(first, subject=f"{target.name}.clean", key=["id"], data=f.col("data"))
        write_to(rows, target, url, tmp_path / "state")

    publish(stream, [at(0, 1), at(0.1, 2), at(0.2, 1)])
    run()
    publish(stream, [at(2, 1), at(2.1, 3)])
    run()
    assert sorted(one["id"] for one in documents_in(target)) == [1, 2, 3]


def test_two_streams_are_joined_within_the_time_that_was_given(
    spark: SparkSession, url: str, stream: Stream, target: Stream, tmp_path: Path
) -> None:
    def at(minute: float, number: int, **more: Any) -> dict[str, Any]:
        return {"at": (NOON + timedelta(minutes=minute)).isoformat(), "id": number, **more}

    publish(stream, [at(0, 1, amount=10), at(1, 2, amount=20), at(2, 3, amount=30)])
    publish(target, [at(5, 1, carrier="ship"), at(90, 2, carrier="late"), at(1, 3, carrier="before")])
    orders = pipelines.json_fields(
        pipelines.read_messages(spark, stream.name, servers=url), "at TIMESTAMP, id LONG, amount INT", keep=[]
    )
    shipments = pipelines.json_fields(
        pipelines.read_messages(spark, target.name, servers=url), "at TIMESTAMP, id LONG, carrier STRING", keep=[]
    )

    def run(how: str) -> list[tuple[Any, ...]]:
        found = pipelines.join_streams(orders, shipments, on=["id"], within="1 hour", time="at", ahead=None, how=how)
        # The times of both sides are there to be used.
        chosen = found.selectExpr("id", "amount", "right.carrier", "minute(at)", "minute(right.at)")
        writer = chosen.writeStream.format("parquet").option("path", str(tmp_path / how))
        writer = writer.option("checkpointLocation", str(tmp_path / f"state-{how}"))
        finish(writer.trigger(availableNow=True).start())
        return sorted(rows_of(spark.read.parquet(str(tmp_path / how))))

    assert run("inner") == [(1, 10, "ship", 0, 5)]
    # A left row without a partner is given when none can come any more: the newest of both sides says so.
    publish(stream, [at(300, 4, amount=40)])
    publish(target, [at(300, 5, carrier="other")])
    assert run("left") == [(1, 10, "ship", 0, 5), (2, 20, None, 1, None), (3, 30, None, 2, None)]


def test_messages_go_where_the_rules_say(
    spark: SparkSession, url: str, stream: Stream, target: Stream, tmp_path: Path
) -> None:
    publish(
        stream,
        [
            {"id": 1, "country": "de", "amount": 5000},
            {"id": 2, "country": "fr", "amount": 5},
            {"id": 3, "country": "a.b >", "amount": 5000},
        ],
    )
    messages = pipelines.read_messages(spark, stream.name, servers=url)
    document = f.from_json(f.col("data").cast("string"), "id LONG, country STRING, amount DOUBLE")
    rules = [
        Rule("big", "order.amount > 1000", f"{target.name}.big.{{order.country}}"),
        Rule("home", "order.country = 'de'", f"{target.name}.home"),
    ]
    rows = pipelines.fan_out(messages.withColumn("order", document), rules, otherwise=f"{target.name}.rest")
    write_to(rows, target, url, tmp_path / "state")
    sent = sorted(
        (message.subject.removeprefix(f"{target.name}."), json.loads(message.data)["id"]) for message in stored(target)
    )
    assert sent == [("big.a_b_", 3), ("big.de", 1), ("home", 1), ("rest", 2)]


@pytest.mark.parametrize("subject", ["", "a b", "a.*", "a..b", ".a", "a.{", "a.{}", "a.{b"])
def test_a_rule_that_sends_to_no_subject_is_refused(subject: str) -> None:
    with pytest.raises(pipelines.PipelineError, match="rule 'big' sends to"):
        check_rules([Rule("big", "true", subject)])
    with pytest.raises(pipelines.PipelineError, match="otherwise sends to"):
        check_subject("otherwise", subject)
    check_rules([Rule("big", "true", "a.{b}.{c.d}x")])


def test_ack_times_are_measured_from_the_samples_of_the_server(
    spark: SparkSession, url: str, js: JetStream, stream: Stream
) -> None:
    metrics = js.create_stream(f"M{uuid.uuid4().hex[:12]}", subjects=[f"$JS.EVENT.METRIC.CONSUMER.ACK.{stream.name}.>"])
    publish(stream, [{"id": number} for number in range(10)])
    consumer = stream.create_consumer("sampled", sample_freq="100")
    for message in consumer.fetch(10, expires=10):
        message.ack_sync()
    assert wait_for_messages(metrics, 10)
    samples = pipelines.read_stored(spark, metrics.name, servers=url)
    (row,) = (
        pipelines.ack_latency(samples, window="1 hour")
        .groupBy("stream", "consumer")
        .agg(
            f.sum("samples").alias("samples"), f.max("longest_ms").alias("longest"), f.sum("redelivered").alias("again")
        )
        .collect()
    )
    js.delete_stream(metrics.name)
    assert (row.stream, row.consumer, row.samples, row.again) == (stream.name, "sampled", 10, 0)
    assert 0 < row.longest < 60_000


def wait_for_messages(stream: Stream, count: int) -> bool:
    """Metrics are published without an ack; the last of them is waited for with a consumer."""
    return len(list(stream.ordered_consumer().fetch(count, expires=20))) == count


def test_a_delta_table_has_each_row_once_also_when_a_batch_runs_again(
    spark: SparkSession, url: str, stream: Stream, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    table, state = tmp_path / "table", tmp_path / "state"

    def run() -> None:
        messages = pipelines.read_messages(spark, stream.name, servers=url, maxOffsetsPerTrigger=4)
        orders = pipelines.json_fields(messages, "id LONG", keep=["subject", "sequence", "timestamp"])
        finish(pipelines.lakehouse(orders, table, checkpoint=state))

    publish(stream, [{"id": number} for number in range(10)])
    run()
    # As after a crash between the table's commit and Spark's own: the batch is not known to be done.
    newest = max((state / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    (newest.parent / f".{newest.name}.crc").unlink()
    newest.unlink()
    publish(stream, [{"id": 10}])
    run()
    found = DeltaTable(str(table)).to_pyarrow_table()
    assert sorted(found.column("id").to_pylist()) == list(range(11))
    assert sorted(found.column("sequence").to_pylist()) == list(range(1, 12))
    assert str(found.schema.field("timestamp").type) == "timestamp[us, tz=UTC]"


def test_a_new_checkpoint_is_a_new_writer_of_a_delta_table(
    spark: SparkSession, url: str, stream: Stream, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    def run(checkpoint: Path) -> list[int]:
        messages = pipelines.read_messages(spark, stream.name, servers=url).select("sequence")
        finish(pipelines.lakehouse(messages, tmp_path / "table", checkpoint=checkpoint))
        found: list[int] = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().column("sequence").to_pylist()
        return sorted(found)

    publish(stream, [{"id": 1}])
    assert run(tmp_path / "state") == [1]
    # Moved, it goes on; taken away, its batches have the numbers of those before, and are others.
    (tmp_path / "state").rename(tmp_path / "moved")
    publish(stream, [{"id": 2}])
    assert run(tmp_path / "moved") == [1, 2]
    shutil.rmtree(tmp_path / "moved")
    publish(stream, [{"id": 3}])
    assert run(tmp_path / "moved") == [1, 1, 2, 2, 3]


def test_a_delta_batch_that_is_in_the_table_is_not_added_again(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    table, zone = tmp_path / "t", pyarrow.timestamp("us", "Europe/Zurich")
    columns = table_schema(types.StructType().add("id", types.LongType()).add("at", types.TimestampType()))
    given = pyarrow.RecordBatch.from_arrays([[1, 2, 3], pyarrow.array([NOON] * 3, zone)], names=["id", "at"])

    def add(writer: str, batch_id: int) -> bool:
        files = [write_file(table, columns, part, iter(rows)) for part, rows in enumerate([[given], []])]
        return add_batch(str(table), columns, writer, batch_id, [file for file in files if file is not None])

    assert [add("writer", 0), add("writer", 0), add("another", 0), add("writer", 1)] == [True, False, True, True]
    found = DeltaTable(str(table)).to_pyarrow_table()
    assert (found.num_rows, set(found.column("at").to_pylist())) == (9, {NOON})


def test_a_delta_table_that_is_gone_is_not_made_again_without_its_rows(tmp_path: Path) -> None:
    table = tmp_path / "t"
    columns = table_schema(types.StructType().add("id", types.LongType()))
    given = pyarrow.RecordBatch.from_arrays([[1, 2, 3]], names=["id"])

    def add(batch_id: int) -> bool:
        file = write_file(table, columns, 0, iter([given]))
        assert file is not None
        return add_batch(str(table), columns, "writer", batch_id, [file])

    assert [add(0), add(1)] == [True, True]
    shutil.rmtree(table)
    with pytest.raises(PipelineError, match=r"is gone, and this query has written batches 0 to 1 .*--full-refresh"):
        add(2)
    assert not (table / "_delta_log").exists()


def test_a_delta_table_that_cannot_take_the_rows_is_found_out_before_the_first(tmp_path: Path) -> None:
    from deltalake import DeltaTable, Schema

    rows = types.StructType().add("id", types.LongType()).add("name", types.StringType())
    for folder, partitions in (("t", None), ("parted", ["id"])):
        known = Schema.from_arrow(pyarrow.schema([("id", "int64"), ("x", "int64")]))
        DeltaTable.create(str(tmp_path / folder), schema=known, partition_by=partitions)
    for path, said in (
        (tmp_path / "t", "has not these columns: name string; it has id long, x long$"),
        (tmp_path / "parted", "is partitioned by id"),
        ("s3://bucket/t", "not s3://bucket/t"),
        ("", "needs option path"),
    ):
        with pytest.raises(pipelines.PipelineError, match=said):
            DeltaDataSource({"path": str(path)}).streamWriter(rows, overwrite=False)
    with pytest.raises(pipelines.PipelineError, match="appended to"):
        DeltaDataSource({"path": str(tmp_path / "new")}).streamWriter(rows, overwrite=True)
    interval = types.StructType().add("took", types.DayTimeIntervalType())
    with pytest.raises(pipelines.PipelineError, match="cannot hold one of the columns took"):
        DeltaDataSource({"path": str(tmp_path / "new")}).streamWriter(interval, overwrite=False)
    assert not (tmp_path / "new").exists()
