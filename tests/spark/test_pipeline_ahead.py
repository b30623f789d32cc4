"""Times in the future: a row with one is left out, and does not make the rows that come in time late."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

from jetspark.client.sync import Stream
from jetspark.spark import pipelines
from jetspark.spark.left_out import LeftOut, from_line, line_of
from jetspark.spark.streaming import follow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
SCHEMA = "at timestamp, timestamp timestamp, id int"


def publish(stream: Stream, *events: tuple[datetime, int]) -> None:
    for at, number in events:
        stream.jetstream.publish(f"{stream.name}.new", json.dumps({"at": at.isoformat(), "id": number}).encode())


def stream_of(spark: SparkSession, url: str, stream: Stream) -> DataFrame:
    messages = pipelines.read_messages(spark, stream.name, servers=url)
    return pipelines.json_fields(messages, "at TIMESTAMP, id LONG", keep=["timestamp"])


def run(rows: DataFrame, folder: Path, say: Callable[[str], None] = lambda text: None) -> list[tuple[Any, ...]]:
    """What there is now, through a query into a table; the whole table."""
    writer = rows.writeStream.format("parquet").option("path", str(folder / "table"))
    writer = writer.option("checkpointLocation", str(folder / "state"))
    follow(writer.trigger(availableNow=True).start(), say=say)
    return sorted(tuple(row) for row in rows.sparkSession.read.parquet(str(folder / "table")).collect())


def some_minutes() -> Callable[[float], datetime]:
    """Minutes that are over, from one an hour ago."""
    begin = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=1)
    return lambda minute: begin + timedelta(minutes=minute)


TEN_YEARS = timedelta(days=3650)


def test_one_time_in_the_far_future_does_not_end_the_windows_of_all_others(
    spark: SparkSession, url: str, stream: Stream, tmp_path: Path
) -> None:
    at = some_minutes()
    windows = pipelines.aggregate(
        stream_of(spark, url, stream), {"orders": f.count("*")}, late="2 minutes", by=[], time="at"
    ).select("orders")

    publish(stream, (at(0), 1), (at(0.5), 2), (at(0) + TEN_YEARS, 3))
    assert run(windows, tmp_path) == []
    publish(stream, (at(0.7), 4), (at(1), 5), (at(30), 6))

    assert run(windows, tmp_path) == [(1,), (3,)]


def test_one_time_in_the_far_future_does_not_keep_later_rows_from_being_passed_on(
    spark: SparkSession, url: str, stream: Stream, tmp_path: Path
) -> None:
    at = some_minutes()
    first = pipelines.dedupe(stream_of(spark, url, stream), ["id"], within="1 day", time="at").select("id")

    publish(stream, (at(0), 1), (at(0) + TEN_YEARS, 9))
    assert run(first, tmp_path) == [(1,)]
    publish(stream, (at(1), 1), (at(1), 2))

    assert run(first, tmp_path) == [(1,), (2,)]


def test_one_time_in_the_far_future_on_each_side_does_not_keep_later_rows_from_being_joined(
    spark: SparkSession, url: str, stream: Stream, tmp_path: Path
) -> None:
    at = some_minutes()
    both = stream_of(spark, url, stream)
    odd, even = both.where("id % 2 = 1"), both.where("id % 2 = 0").withColumn("id", f.expr("id - 1"))
    pairs = pipelines.join_streams(odd, even, on=["id"], time="at").select("id")

    publish(stream, (at(0), 1), (at(1), 2), (at(0) + TEN_YEARS, 3), (at(0) + TEN_YEARS, 4))
    assert run(pairs, tmp_path) == [(1,)]
    publish(stream, (at(2), 5), (at(3), 6))

    assert run(pairs, tmp_path) == [(1,), (5,)]


def test_who_follows_a_query_is_told_what_it_leaves_out(
    spark: SparkSession, url: str, stream: Stream, tmp_path: Path
) -> None:
    at = some_minutes()
    counts = {"orders": f.count("*")}
    windows = pipelines.aggregate(stream_of(spark, url, stream), counts, late="1 minute", by=["id"], time="at")
    said: list[str] = []

    publish(stream, (at(0), 1), (at(30), 1))
    run(windows, tmp_path, said.append)
    assert not any("left out" in line or "Warning" in line for line in said)
    publish(stream, (at(0), 1), (at(0), 2), (at(0), 2), (at(0) + TEN_YEARS, 3), (at(31), 1))
    run(windows, tmp_path, said.append)

    words = (
        "at least 2 rows later than the watermark allows (`late` or `within`), "
        "1 row with a time too far ahead of the server's (`ahead`)"
    )
    assert [line for line in said if line.startswith("Warning")] == [
        f"Warning: rows are left out for their time: {words}."
    ]
    assert said[-1].endswith(f". Left out: {words}.")


def test_limits_at_several_places_of_one_query_are_counted_together(
    spark: SparkSession, url: str, stream: Stream, tmp_path: Path
) -> None:
    at = some_minutes()
    both = stream_of(spark, url, stream)
    first = pipelines.dedupe(both.where("id < 10"), ["id"], time="at")
    rest = pipelines.dedupe(both.where("id >= 10"), ["id"], time="at")
    said: list[str] = []

    publish(stream, (at(0), 1), (at(0) + TEN_YEARS, 2), (at(0), 10), (at(0) + TEN_YEARS, 11), (at(0) + TEN_YEARS, 12))
    found = run(first.union(rest).select("id"), tmp_path, said.append)

    assert found == [(1,), (10,)]
    assert said[-1].endswith("Left out: 3 rows with a time too far ahead of the server's (`ahead`).")


def test_a_line_of_output_that_only_looks_like_a_count_is_none() -> None:
    left_out = LeftOut(late=2, ahead=1)

    assert from_line(line_of("orders", left_out)) == ("orders", left_out)
    assert [from_line(line) for line in ("", "jetspark-left-out ", "jetspark-left-out {}", "jetspark-left-out 5")] == [
        None
    ] * 4


def rows_ahead(spark: SparkSession, *seconds: float) -> DataFrame:
    times: list[tuple[Any, ...]] = [(NOON + timedelta(seconds=one), NOON, number) for number, one in enumerate(seconds)]
    return spark.createDataFrame(times, SCHEMA)


def counted(windows: DataFrame) -> int:
    return sum(row.orders for row in windows.collect())


def test_a_batch_leaves_out_what_a_stream_does(spark: SparkSession) -> None:
    rows = rows_ahead(spark, -86_400, 0, 300, 300.001, 1e9)
    values = {"orders": f.count("*")}

    assert counted(pipelines.aggregate(rows, values, by=[], time="at")) == 3
    assert counted(pipelines.aggregate(rows, values, by=[], time="at", ahead="0 seconds")) == 2
    assert counted(pipelines.aggregate(rows, values, by=[], time="at", ahead=None)) == 5
    assert pipelines.join_streams(rows, rows, on=["id"], time="at", how="left").count() == 3


def test_rows_without_a_time_are_not_ahead(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(None, NOON, 1), (NOON, None, 2)], SCHEMA)

    assert pipelines.join_streams(rows, rows, on=["id"], time="at", how="left").count() == 2


def test_the_time_of_the_server_has_no_limit_and_needs_no_other_column(spark: SparkSession) -> None:
    rows = rows_ahead(spark, 0, 1e9).select(f.col("at").alias("timestamp"))

    assert counted(pipelines.aggregate(rows, {"orders": f.count("*")}, by=[])) == 2


def test_rows_without_the_time_of_the_server_are_refused_with_what_to_do(spark: SparkSession) -> None:
    rows = rows_ahead(spark, 0).drop("timestamp")
    said = r"'timestamp', which these rows do not have: keep it .* or give ahead=None"

    with pytest.raises(pipelines.PipelineError, match=said):
        pipelines.aggregate(rows, {"orders": f.count("*")}, by=[], time="at")
    with pytest.raises(pipelines.PipelineError, match=said):
        pipelines.dedupe(rows, ["id"], time="at")
    with pytest.raises(pipelines.PipelineError, match=said):
        pipelines.join_streams(rows_ahead(spark, 0), rows, on=["id"], time="at")
    assert counted(pipelines.aggregate(rows, {"orders": f.count("*")}, by=[], time="at", ahead=None)) == 1
