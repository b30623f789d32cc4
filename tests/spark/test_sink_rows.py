"""What a DataFrame must look like to be written, and which message each row becomes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from jetspark.client.errors import BadOptionError
from jetspark.client.headers import Headers
from jetspark.spark.sink_ids import Place, id_maker
from jetspark.spark.sink_options import COLUMN, CONTENT, NONE, POSITION, sink_options
from jetspark.spark.sink_rows import Row, RowReader, plan_rows

TEXT = t.StringType()


def schema(**columns: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in columns.items()])


def read(spark_schema: t.StructType, template: str, rows: list[dict[str, Any]], msg_id: str = "auto") -> list[Row]:
    found = RowReader(plan_rows(spark_schema, template, msg_id)).read(pa.RecordBatch.from_pylist(rows))
    return [found.row(index) for index in range(len(found))]


@pytest.mark.parametrize(
    ("columns", "template", "said"),
    [
        ({"payload": TEXT}, "a", "data or value; this DataFrame has neither, but payload"),
        ({"data": TEXT, "value": TEXT}, "a", "this DataFrame has both"),
        ({"data": t.LongType()}, "a", "column data must be binary or string, not bigint"),
        ({"data": TEXT}, "", "give option subject, or a column subject"),
        ({"data": TEXT}, "orders.{country}", r"option subject names \{country\}, and the columns are data"),
        ({"data": TEXT}, "orders.*", "no wildcards"),
        ({"data": TEXT}, "orders..new", "takes a subject such as"),
        ({"data": TEXT, "subject": t.IntegerType()}, "", "column subject must be string, not int"),
        ({"data": TEXT, "price": TEXT}, "a", "columns price have no place in a message"),
        ({"data": TEXT, "headers": TEXT}, "a", "column headers must be array<struct"),
        ({"data": TEXT, "ttl": t.DoubleType()}, "a", "column ttl must be"),
    ],
)
def test_a_schema_that_does_not_fit_is_named(columns: dict[str, t.DataType], template: str, said: str) -> None:
    with pytest.raises(BadOptionError, match=said):
        plan_rows(schema(**columns), template, "auto")


def test_what_the_source_reads_can_be_written_as_it_is() -> None:
    plan = plan_rows(
        schema(stream=TEXT, subject=TEXT, sequence=t.LongType(), timestamp=t.TimestampType(), data=t.BinaryType()),
        "",
        "auto",
    )
    assert plan.has_subject
    assert plan.id_mode == CONTENT


@pytest.mark.parametrize(
    ("asked", "has_column", "mode"),
    [("auto", True, COLUMN), ("auto", False, CONTENT), ("column", True, COLUMN), ("content", True, CONTENT),
     ("position", False, POSITION), ("none", True, NONE)],
)  # fmt: skip
def test_ids_come_from_the_column_when_there_is_one(asked: str, has_column: bool, mode: str) -> None:
    columns: dict[str, t.DataType] = {"data": TEXT, **({"msg_id": TEXT} if has_column else {})}
    assert plan_rows(schema(**columns), "a", asked).id_mode == mode


def test_ids_from_a_column_need_the_column() -> None:
    with pytest.raises(BadOptionError, match="there is no column msg_id"):
        plan_rows(schema(data=TEXT), "a", "column")
    with pytest.raises(BadOptionError, match="drop one of them"):
        plan_rows(schema(data=TEXT, msg_id=TEXT), "a", "position")


@pytest.mark.long
def test_a_template_is_filled_from_columns_and_the_subject_column_wins() -> None:
    columns = schema(data=TEXT, subject=TEXT, country=TEXT, shop=t.IntegerType())
    rows = read(
        columns,
        "orders.{country}.{shop}",
        [
            {"data": "1", "subject": None, "country": "fr", "shop": 7},
            {"data": "2", "subject": "other", "country": "fr", "shop": 7},
            {"data": None, "subject": None, "country": None, "shop": 7},
        ],
    )
    assert [row.subject for row in rows] == ["orders.fr.7", "other", ""]
    assert [row.data for row in rows] == [b"1", b"2", b""]
    assert "has no subject" in rows[2].reason
    assert [row.reason for row in rows[:2]] == ["", ""]


def test_headers_of_either_form_keep_every_value_and_drop_what_was_about_another_stream() -> None:
    pair = t.StructType([t.StructField("key", TEXT), t.StructField("value", t.BinaryType())])
    listed = [
        {"key": "a", "value": b"1"},
        {"key": "a", "value": b"2"},
        {"key": "Nats-Msg-Id", "value": b"old"},
        {"key": "Nats-Expected-Last-Sequence", "value": b"9"},
        {"key": "Nats-Stream-Source", "value": b"OTHER 7"},
        {"key": "Nats-Scheduler", "value": b"orders.plan"},
        {"key": "Nats-Schedule-Next", "value": b"purge"},
        None,
    ]
    row = read(schema(data=TEXT, headers=t.ArrayType(pair)), "s", [{"data": "x", "headers": listed}])[0]
    assert Headers.from_block(row.block).all_items() == [("a", "1"), ("a", "2")]
    mapped = pa.RecordBatch.from_arrays(
        [pa.array(["x", "y"]), pa.array([[("k", "v")], None], pa.map_(pa.string(), pa.string()))],
        names=["data", "headers"],
    )
    plan = plan_rows(schema(data=TEXT, headers=t.MapType(TEXT, TEXT)), "s", "auto")
    first, second = RowReader(plan).read(mapped).blocks
    assert Headers.from_block(first).all_items() == [("k", "v")]
    assert second == b""


def test_a_header_that_cannot_be_sent_is_a_reason_not_an_exception() -> None:
    row = read(schema(data=TEXT, headers=t.ArrayType(
        t.StructType([t.StructField("key", TEXT), t.StructField("value", TEXT)])
    )), "s", [{"data": "x", "headers": [{"key": "a", "value": "two\nlines"}]}])[0]  # fmt: skip
    assert "would break the line" in row.reason


def test_a_header_without_a_name_or_a_time_below_zero_is_a_reason_not_an_exception() -> None:
    pair = t.StructType([t.StructField("key", TEXT), t.StructField("value", TEXT)])
    columns = schema(data=TEXT, headers=t.ArrayType(pair), ttl=t.IntegerType())
    rows = read(columns, "s", [
        {"data": "x", "headers": [{"key": None, "value": "1"}], "ttl": None},
        {"data": "x", "headers": [{"key": "a", "value": "1"}], "ttl": -5},
        {"data": "x", "headers": [{"key": "a", "value": None}], "ttl": 5},
    ])  # fmt: skip
    assert "its key is null" in rows[0].reason
    assert "cannot be negative: -5" in rows[1].reason
    assert rows[2].reason == ""


def test_a_column_that_is_there_twice_is_named() -> None:
    twice = t.StructType([t.StructField(name, TEXT) for name in ("data", "data", "subject")])
    with pytest.raises(BadOptionError, match="columns data are there twice"):
        plan_rows(twice, "", "auto")


@pytest.mark.parametrize(("value", "text"), [("1h", "1h"), (30, "30"), (timedelta(seconds=90), "90")])
def test_a_ttl_is_a_duration_seconds_or_an_interval(value: Any, text: str) -> None:
    kind = {str: TEXT, int: t.IntegerType(), timedelta: t.DayTimeIntervalType()}[type(value)]
    row = read(schema(data=TEXT, ttl=kind), "s", [{"data": "x", "ttl": value}])[0]
    assert Headers.from_block(row.block).all_items() == [("Nats-TTL", text)]


def test_an_empty_ttl_is_none() -> None:
    row = read(schema(data=TEXT, ttl=TEXT), "s", [{"data": "x", "ttl": ""}])[0]

    assert b"Nats-TTL" not in row.block


def test_a_row_without_its_message_id_is_refused() -> None:
    rows = read(schema(data=TEXT, msg_id=TEXT), "s", [{"data": "x", "msg_id": None}, {"data": "x", "msg_id": "7"}])
    assert "no message id" in rows[0].reason
    assert rows[1].msg_id == b"7"


PLACE = Place("query", 3, 1)


def made(mode: str, rows: list[bytes], place: Place = PLACE) -> list[bytes]:
    return id_maker(mode, place)([b"s"] * len(rows), [b""] * len(rows), rows)


def test_content_ids_are_the_same_in_any_order_and_different_for_equal_rows() -> None:
    rows = [b"a", b"b", b"a", b"c", b"a"]
    forwards, backwards = made(CONTENT, rows), made(CONTENT, rows[::-1])
    assert sorted(forwards) == sorted(backwards)
    assert len(set(forwards)) == len(rows)


def test_content_ids_tell_subject_headers_and_data_apart() -> None:
    ids = id_maker(CONTENT, PLACE)([b"a", b"ab", b"", b""], [b"", b"", b"a", b""], [b"b", b"", b"b", b"ab"])
    assert [one.count(b":") for one in ids] == [3, 3, 3, 3], "none is counted as a repetition of another"
    assert len(set(ids)) == 4


def test_position_ids_show_that_the_order_changed() -> None:
    assert made(POSITION, [b"a", b"b"]) != made(POSITION, [b"b", b"a"])
    assert len(set(made(POSITION, [b"a", b"a"]))) == 2


@pytest.mark.parametrize("mode", [CONTENT, POSITION])
def test_ids_of_another_batch_partition_or_query_are_others(mode: str) -> None:
    places = [PLACE, Place("query", 4, 1), Place("query", 3, 2), Place("other", 3, 1)]
    assert len({made(mode, [b"a"], place)[0] for place in places}) == 4


def test_options_of_the_sink_are_checked_on_the_driver() -> None:
    with pytest.raises(BadOptionError, match=r"unknown option deadLeterSubject: did you mean deadLetterSubject"):
        sink_options({"servers": "nats://h", "deadLeterSubject": "x"})
    with pytest.raises(BadOptionError, match=r"option writeVersion needs option writeId"):
        sink_options({"servers": "nats://h", "writeVersion": "3"})
    with pytest.raises(BadOptionError, match=r"deadLetterSubject takes one subject without wildcards"):
        sink_options({"servers": "nats://h", "deadLetterSubject": "dead.>"})
    with pytest.raises(BadOptionError, match="msgId takes one of auto, column, content, position, none"):
        sink_options({"servers": "nats://h", "msgId": "yes"})
    with pytest.raises(BadOptionError, match="ackTimeoutMs takes more than 0"):
        sink_options({"servers": "nats://h", "ackTimeoutMs": "0"})
    with pytest.raises(BadOptionError, match="writeId needs message ids"):
        sink_options({"servers": "nats://h", "msgId": "none", "writeId": "x"})
