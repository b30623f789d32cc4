"""The sink inside Spark: batch writes and streaming queries, what is checked before the first row, how they fail."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import udf

from jetspark.client.sync import JetStream, Stream, connect
from jetspark.spark import register
from jetspark.spark.sink_compare import ADAPTIVE_STATELESS
from tests.spark.readers import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def write(frame: DataFrame, url: str, stream: Stream, mode: str = "append", **options: Any) -> None:
    frame.write.format("jetstream").options(servers=url, stream=stream.name, **options).mode(mode).save()


def rows(stream: Stream, column: str = "data") -> list[Any]:
    found = stream.scan(columns=[column]).read_all().column(column).to_pylist()
    return [value.decode() if isinstance(value, bytes) else value for value in found]


def test_a_dataframe_becomes_messages_with_subject_headers_id_and_ttl(
    spark: SparkSession, url: str, js: JetStream, stream: Stream
) -> None:
    stream.update(allow_msg_ttl=True)
    frame = spark.range(1, 4).selectExpr(
        f"concat('{stream.name}.', id) as subject",
        "concat('row ', id) as value",
        "array(struct('k' as key, cast(concat('v', id) as binary) as value)) as headers",
        "concat('id-', id) as msg_id",
        "interval '90' second as ttl",
    )
    write(frame, url, stream)
    found = stream.get_last_msg(f"{stream.name}.2")
    assert found.data == b"row 2"
    assert found.headers.all_items() == [("k", "v2"), ("Nats-TTL", "90"), ("Nats-Msg-Id", "id-2")]
    assert stream.info().state.messages == 3


def test_a_template_and_several_tasks_store_every_row_once(spark: SparkSession, url: str, stream: Stream) -> None:
    frame = spark.range(0, 3000, 1, 4).selectExpr("cast(id as string) as data", "id % 3 as shop")
    write(frame, url, stream, subject=f"{stream.name}.{{shop}}")
    assert Counter(rows(stream)) == Counter(str(number) for number in range(3000))
    assert Counter(rows(stream, "subject")) == Counter({f"{stream.name}.{shop}": 1000 for shop in range(3)})


def test_a_thread_of_the_program_writes_after_it_registered_the_format(
    spark: SparkSession, url: str, stream: Stream
) -> None:
    frame = spark.range(3).selectExpr("cast(id as string) as data")

    def in_thread() -> None:
        register(spark)
        write(frame, url, stream, subject=f"{stream.name}.a")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(in_thread).result()

    assert sorted(rows(stream)) == ["0", "1", "2"]


def test_the_same_write_again_under_its_name_stores_nothing(spark: SparkSession, url: str, stream: Stream) -> None:
    frame = spark.range(50).selectExpr("cast(id as string) as data")
    for _ in range(2):
        write(frame, url, stream, subject=f"{stream.name}.a", writeId="nightly 2026-11-16")
    assert len(rows(stream)) == 50
    write(frame, url, stream, subject=f"{stream.name}.a")
    assert len(rows(stream)) == 100


def test_what_does_not_fit_is_told_before_the_first_row(spark: SparkSession, url: str, stream: Stream) -> None:
    frame = spark.range(5).selectExpr("cast(id as string) as data")
    subject = f"{stream.name}.a"
    with pytest.raises(PySparkException, match=r"use mode\('append'\)"):
        write(frame, url, stream, mode="overwrite", subject=subject)
    with pytest.raises(PySparkException, match=f"stream {stream.name} does not take subject other"):
        write(frame, url, stream, subject="other")
    with pytest.raises(PySparkException, match="columns id have no place in a message"):
        write(spark.range(5).selectExpr("id", "cast(id as string) as data"), url, stream, subject=subject)
    with pytest.raises(PySparkException, match="did you mean maxInFlight"):
        write(frame, url, stream, subject=subject, maxInflightt=3)
    assert stream.info().state.last_seq == 0


def test_a_bad_row_fails_the_job_by_name(spark: SparkSession, url: str, stream: Stream) -> None:
    frame = spark.range(0, 5, 1, 1).selectExpr(
        "cast(id as string) as data", f"if(id = 3, 'bad subject', '{stream.name}.a') as subject"
    )
    with pytest.raises(PySparkException, match=r"row 3 of batch 0, partition 0 cannot be stored .* 'bad subject'"):
        write(frame, url, stream)


def test_a_stream_flows_into_another_through_a_shuffle_over_restarts(
    spark: SparkSession, url: str, js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    source = js.create_stream(f"{stream.name}-in", subjects=[f"{stream.name}-in.>"])
    for start in (0, 300):
        futures = [js.publish_async(f"{source.name}.a", b"%d" % number) for number in range(start, start + 300)]
        for future in futures:
            future.wait()
        read = spark.readStream.format("jetstream").options(servers=url, stream=source.name, startingOffsets="earliest")
        frame = read.option("maxOffsetsPerTrigger", 100).load().select("data").repartition(2, "data")
        query = (
            frame.writeStream.format("jetstream")
            .options(servers=url, subject=f"{stream.name}.out", checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None
        # The last batch once more, as after a driver that ended before Spark's own log had it.
        newest = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        newest.unlink()
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    assert Counter(rows(stream)) == Counter(str(number) for number in range(600))
    js.delete_stream(source.name)


def test_updates_of_an_aggregate_are_written_by_foreach_batch_and_complete_mode_is_refused(
    spark: SparkSession, url: str, js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = numbers.groupBy((numbers["value"] % 2).alias("k")).count().selectExpr("to_json(struct(*)) as data")

    def twice(frame: DataFrame, batch: int) -> None:
        for _ in range(2):
            write(frame, url, stream, subject=f"{stream.name}.out", writeId="counts", writeVersion=batch)

    updates = counts.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "update"))
    for _ in range(2):
        updates.foreachBatch(twice).trigger(once=True).start().awaitTermination(120)
    assert sorted(json.loads(row)["count"] for row in rows(stream)) == [5, 5, 10, 10]
    # However many batches there are, one record says which was the last.
    ledger = js.stream("KV_jetspark_sink").info(subjects_filter=f"$KV.jetspark_sink.{stream.name}.>")
    assert list(ledger.state.subjects or {}) == [f"$KV.jetspark_sink.{stream.name}.counts.committed"]
    with pytest.raises(PySparkException, match=r"writeVersion 0 .* after version 1 .* another writeId"):
        twice(spark.sql("SELECT 'late' AS data"), 0)
    named = updates.foreachBatch(
        lambda frame, batch: write(frame, url, stream, subject=f"{stream.name}.out", writeId="nameless")
    )
    with pytest.raises(PySparkException, match=r"writeId in foreachBatch needs option writeVersion"):
        named.trigger(once=True).start().awaitTermination(120)
    whole = counts.writeStream.format("jetstream").outputMode("complete").trigger(once=True)
    options = {"servers": url, "subject": f"{stream.name}.out", "checkpointLocation": str(tmp_path / "complete")}
    with pytest.raises(PySparkException, match="foreachBatch with a batch write"):
        whole.options(**options).start().awaitTermination(120)


def breaks_when_stored(url: str, stream: str, count: int, doomed: set[str]) -> Callable[[str], str]:
    """For a worker: the task with the doomed rows fails before the first of them, once the others are stored."""

    def check(data: str) -> str:
        if data in doomed:
            with connect(url) as client:
                wait_until(lambda: client.jetstream().stream(stream).info().state.messages == count)
            raise ValueError("broken off")
        return data

    return check


def test_a_batch_that_spark_has_cut_anew_is_refused_and_completed_when_it_is_cut_as_before(
    spark: SparkSession, url: str, js: JetStream, stream: Stream, tmp_path: Path
) -> None:
    # Adaptive execution merges small partitions of a query without state, if it is let: a restart may change them.
    merging, arrow_rows = (
        "spark.sql.adaptive.coalescePartitions.enabled",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
    )
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 200).load()
    options = {"servers": url, "subject": f"{stream.name}.out", "checkpointLocation": str(tmp_path / "checkpoint")}
    # With a number nothing is merged; the rows are cut as by the session's two shuffle partitions.
    cut = spark.range(200).selectExpr("cast(id as string) as data").repartition(2, "data")
    doomed, others = ({row.data for row in rows} for rows in cut.rdd.glom().collect())
    break_off = udf(breaks_when_stored(url, stream.name, len(others), doomed), "string", useArrow=False)

    def run(*, merged: bool, breaks: bool) -> None:
        spark.conf.set(merging, str(merged).lower())
        frame = numbers.selectExpr("cast(value as string) as data").repartition("data")
        frame = frame.select(break_off("data").alias("data")) if breaks else frame
        query = frame.writeStream.format("jetstream").options(**options).trigger(once=True).start()
        query.awaitTermination(120)

    spark.conf.set(arrow_rows, "10")
    spark.conf.set(ADAPTIVE_STATELESS, "true")
    try:
        with pytest.raises(PySparkException, match="broken off"):
            run(merged=False, breaks=True)
        assert set(rows(stream)) == others
        with pytest.raises(PySparkException, match="rows are stored as rows of other partitions"):
            run(merged=True, breaks=False)
        assert set(rows(stream)) == others
        run(merged=False, breaks=False)
        assert Counter(rows(stream)) == Counter(str(number) for number in range(200))
    finally:
        spark.conf.set(ADAPTIVE_STATELESS, "false")
        spark.conf.unset(merging)
        spark.conf.unset(arrow_rows)


def test_a_query_of_our_sessions_keeps_its_partitions_when_a_batch_runs_again(spark: SparkSession) -> None:
    assert spark.conf.get(ADAPTIVE_STATELESS) == "false"
