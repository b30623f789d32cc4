"""The source in real Spark: batches, streaming queries with their triggers, errors, secrets, lag."""

from __future__ import annotations

import functools
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jetspark.client.sync import JetStream, Stream, connect
from jetspark.spark import LagListener
from jetspark.testing.processes import ServerProcess
from tests.spark.conftest import fill, running, url_of
from tests.spark.readers import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def ours(our_server: ServerProcess) -> Stream:
    """A stream of 100 messages on our server, the same for every test that only reads it."""
    with connect(url_of(our_server)) as client:
        js = client.jetstream()
        if not js.stream_exists("ORDERS"):
            fill(js.create_stream("ORDERS", subjects=["ORDERS.>"]), 100)
        return js.stream("ORDERS")


@pytest.fixture
def our_url(our_server: ServerProcess, ours: Stream) -> str:
    return url_of(our_server)


def test_a_batch_is_every_message_with_its_types(spark: SparkSession, url: str, stream: Stream, js: JetStream) -> None:
    js.publish(f"{stream.name}.h", b"body", headers=[("k", "1"), ("k", "2")])
    fill(stream, 999)

    frame = (
        spark.read.format("jetstream")
        .options(servers=url, stream=stream.name, includeHeaders="true", includeTimestampNs="true", minPartitions="3")
        .load()
    )

    assert frame.schema.simpleString() == (
        "struct<stream:string,subject:string,sequence:bigint,timestamp:timestamp,data:binary,"
        "headers:array<struct<key:string,value:binary>>,timestamp_ns:bigint>"
    )
    first = frame.filter("sequence = 1").collect()[0]
    assert [(pair.key, bytes(pair.value)) for pair in first.headers] == [("k", b"1"), ("k", b"2")]
    assert first.timestamp_ns == stream.get_msg(1).timestamp_ns
    sums = frame.selectExpr("count(*) c", "sum(sequence) s", "count(distinct stream) n").collect()[0]
    assert (sums.c, sums.s, sums.n) == (1000, 500500, 1)
    chosen = (
        spark.read.format("jetstream").schema("data binary, sequence long").options(servers=url, stream=stream.name)
    )
    assert chosen.load().filter("sequence = 1000").collect() == [(bytearray(b"message 999"), 1000)]


def test_available_now_reads_in_batches_and_goes_on_where_it_was(
    spark: SparkSession, url: str, stream: Stream, tmp_path: Path
) -> None:
    fill(stream, 10)
    read: list[list[int]] = []

    def run() -> list[dict[str, Any]]:
        query = (
            spark.readStream.format("jetstream")
            .options(servers=url, stream=stream.name, startingOffsets="earliest", maxOffsetsPerTrigger="4")
            .load()
            .writeStream.foreachBatch(lambda frame, _: read.append([row.sequence for row in frame.collect()]))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return [json.loads(progress.json) for progress in query.recentProgress]

    progress = run()
    fill(stream, 3)
    run()

    assert read == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10], [11, 12, 13]]
    reported = progress[0]["sources"][0]["latestOffset"]["streams"][stream.name]
    assert (reported["seq"], reported["behindMessages"]) == (10, 6)
    lines = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()
    assert json.loads(lines[-1])["streams"][stream.name]["from"] == 0


def test_a_query_follows_the_stream_and_tells_its_lag(
    spark: SparkSession, our_url: str, our_server: ServerProcess, tmp_path: Path
) -> None:
    told, metrics = io.StringIO(), tmp_path / "lag.prom"
    listener = LagListener(out=told, metrics_file=metrics)
    spark.streams.addListener(listener)
    with connect(our_url) as client:
        stream = client.jetstream().create_stream("LIVE", subjects=["LIVE.>"])
        fill(stream, 10)
        query = (
            spark.readStream.format("jetstream")
            .options(servers=our_url, stream="LIVE", startingOffsets="earliest", maxOffsetsPerTrigger="6")
            .load()
            .writeStream.format("memory").queryName("live")
            .trigger(processingTime="100 milliseconds")
            .start()
        )  # fmt: skip
        try:
            wait_until(lambda: query.exception() or spark.table("live").count() == 10, 60)
            fill(stream, 3)
            wait_until(lambda: query.exception() or "LIVE at sequence 13, up to date" in told.getvalue(), 60)
            exported = metrics.read_text()
        finally:
            query.stop()
            spark.streams.removeListener(listener)
    assert query.exception() is None
    assert "live: LIVE at sequence 6, 4 messages, " in told.getvalue()
    assert 'jetspark_spark_lag_messages{query="live",stream="LIVE"} 0' in exported
    assert 'jetspark_spark_sequence{query="live",stream="LIVE"} 1' in exported


def test_once_reads_everything_in_one_batch(spark: SparkSession, our_url: str) -> None:
    query = (
        spark.readStream.format("jetstream")
        .options(servers=our_url, stream="ORDERS", startingOffsets="earliest", maxOffsetsPerTrigger="7")
        .load()
        .writeStream.format("memory").queryName("once").trigger(once=True).start()
    )  # fmt: skip

    assert query.awaitTermination(120)
    assert [progress.numInputRows for progress in query.recentProgress] == [100]


def load(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("jetstream").options(servers=url, stream="ORDERS", **options).load()


def test_mistakes_are_told_on_the_driver_before_anything_runs(spark: SparkSession, our_url: str) -> None:
    for options, words in (
        ({"startingOfsets": "earliest"}, ["unknown option startingOfsets", "did you mean startingOffsets"]),
        ({"minPartitions": "none"}, ["option minPartitions takes a whole number, 1 or more, not 'none'"]),
    ):
        with pytest.raises(Exception) as caught:
            load(spark, our_url, **options)
        for word in words:
            assert word.lower() in str(caught.value).lower()
    with pytest.raises(Exception, match="there is no stream ORDER; did you mean ORDERS"):
        spark.read.format("jetstream").options(servers=our_url, stream="ORDER").load().count()
    with pytest.raises(Exception, match="there is no column seq"):
        spark.read.format("jetstream").schema("seq long").options(servers=our_url, stream="ORDERS").load().count()


def test_a_stream_is_loaded_by_its_name(spark: SparkSession, our_url: str) -> None:
    assert spark.read.format("jetstream").option("servers", our_url).load("ORDERS").count() == 100
    assert spark.read.format("jetstream").option("servers", our_url).load(["ORDERS"]).count() == 100
    with pytest.raises(Exception, match="load names ORDERS and option stream OTHER"):
        spark.readStream.format("jetstream").options(servers=our_url, stream="OTHER").load("ORDERS")


def test_a_view_keeps_its_options_and_a_table_says_what_it_misses(spark: SparkSession, our_url: str) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW orders USING jetstream OPTIONS (servers '{our_url}', stream 'ORDERS')")

    assert spark.sql("SELECT count(*) FROM orders").collect()[0][0] == 100
    spark.sql(f"CREATE TABLE forgetful USING jetstream OPTIONS (servers '{our_url}', stream 'ORDERS')")
    with pytest.raises(Exception, match=r"(?s)option servers is missing.*forgets its options"):
        spark.sql("SELECT count(*) FROM forgetful").collect()
    spark.sql("DROP TABLE forgetful")


SECRET = "hunter2-0cc175b9"


def test_secrets_are_in_no_plan_no_event_and_no_error(spark: SparkSession, tmp_path: Path) -> None:
    texts: list[str] = []
    with running("jetspark", config_text=f'authorization {{ user: "spark", password: "{SECRET}" }}') as process:
        url = url_of(process)
        with connect(url, user="spark", password=SECRET) as client:
            fill(client.jetstream().create_stream("S", subjects=["S.>"]), 5)
        options = {"servers": url, "stream": "S", "user": "spark", "password": SECRET}
        frame = spark.read.format("jetstream").options(**options).load()
        texts += [explained(frame, mode) for mode in ("simple", "extended", "formatted", "cost", "codegen")]
        assert frame.count() == 5
        stream = spark.readStream.format("jetstream").options(**options, startingOffsets="earliest").load()
        texts += [explained(stream, "extended"), str(frame), repr(stream)]
        query = stream.writeStream.format("noop").trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        texts += [progress.json for progress in query.recentProgress]
        for wrong in ({"tokn": SECRET}, {"password": SECRET + "x"}, {"numRetries": "x"}):
            with pytest.raises(Exception) as caught:
                spark.read.format("jetstream").options(**{**options, **wrong}).load().count()
            texts.append(str(caught.value))
    texts.append(event_log(spark))

    assert "jetstream" in texts[1]
    assert [text[:200] for text in texts if SECRET in text] == []


def explained(frame: DataFrame, mode: str) -> str:
    jvm = frame._sc._jvm
    assert jvm is not None
    plan = jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), mode)
    return str(plan)


def event_log(spark: SparkSession) -> str:
    """What the history server would show of this run, as far as it is written."""
    place = spark.conf.get("spark.eventLog.dir")
    assert place is not None
    folder = Path(place.removeprefix("file:"))
    text = "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())
    assert "SparkListenerSQLExecutionStart" in text
    return text


def test_sparks_pushdown_bug_is_still_there(spark: SparkSession, our_url: str) -> None:
    """Spark 4.3.0 answers wrongly when one DataFrame is used twice. Should this fail, take the warning off the docs."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushed = load(spark, our_url, filterPushdown="true")
        assert pushed.filter("sequence >= 51").count() == 50
        with_bug = pushed.count()
        fresh = functools.partial(load, spark, our_url, filterPushdown="true")
        subjects = fresh().filter("subject = 'ORDERS.a' AND sequence < 11").count()
        times = fresh().filter("timestamp > timestamp'2001-01-01' AND sequence in (3, 5)").count()
        empty = fresh().filter("subject like 'ORDERS.b.%'").count()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")

    assert (subjects, times, empty) == (10, 2, 0)
    assert with_bug == 50, "Spark has fixed its pushdown: 100 is right, and the option's warning can go"


def test_without_the_option_a_frame_may_be_used_as_often_as_one_likes(spark: SparkSession, our_url: str) -> None:
    frame = load(spark, our_url)

    assert frame.filter("sequence >= 51").count() == 50
    assert frame.count() == 100
    assert frame.filter("sequence < 3").union(frame.filter("sequence > 97")).count() == 5
