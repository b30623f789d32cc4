"""Subjects made of values: whatever a row holds, its message has a subject that a server takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from jetspark.client.sync import Stream
from jetspark.protocol.subjects import is_literal, matches
from jetspark.spark import pipelines
from jetspark.spark.pipelines import Rule, as_messages, fan_out
from jetspark.spark.pipelines.graph import JETSTREAM, read_graph
from jetspark.spark.pipelines.project import create_project, find_project
from jetspark.spark.sink_limits import SUBJECT_BYTES_MAX

COUNTRIES: dict[str | None, str] = {
    "de": "de",
    "new york": "new_york",
    "a.b >": "a_b_",
    "*": "_",
    "": "_",
    None: "_",
    "\t\r\n": "_",
    "a\x00b": "a_b",
    "{country}": "{country}",
    "日本": "日本",
}


def test_a_value_of_any_kind_makes_a_subject_that_is_stored(spark: SparkSession, url: str, target: Stream) -> None:
    rows = spark.createDataFrame([(number, one) for number, one in enumerate(COUNTRIES)], "id int, country string")

    messages = as_messages(rows, subject=f"{target.name}.{{country}}", key=["id"])
    messages.write.format("jetstream").option("servers", url).option("stream", target.name).mode("append").save()

    state = target.info().state
    sent = [target.get_msg(sequence).subject for sequence in range(1, state.last_seq + 1)]
    assert sorted(sent) == sorted(f"{target.name}.{one}" for one in COUNTRIES.values())


@pytest.mark.parametrize("text", ["x" * 10_000, "日" * 10_000, " . " * 5_000])
def test_long_values_are_cut_to_what_a_server_takes(spark: SparkSession, text: str) -> None:
    rows = spark.createDataFrame([(text, text)], "a string, b string")

    (row,) = as_messages(rows, subject="s.{a}.{b}", key=["a"]).collect()

    assert is_literal(row.subject.encode())
    assert row.subject != "s.{a}.{b}"
    assert len(row.subject.encode()) <= SUBJECT_BYTES_MAX


def test_bytes_that_are_no_text_make_a_subject_too(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(b"\xff\xfea",)], "data binary").selectExpr("CAST(data AS STRING) AS name")

    # As the sink gets them, which does not mend what it is given.
    made = as_messages(rows, subject="s.{name}", key=["name"], data=f.lit("x")).toArrow()

    assert made.column("subject").to_pylist() == ["s.\ufffd\ufffda"]


def test_rules_and_messages_make_the_same_subject_of_a_value(spark: SparkSession) -> None:
    values = [(number, one) for number, one in enumerate(COUNTRIES)]
    rows = spark.createDataFrame(values, "sequence int, country string")
    rows = rows.withColumns({"stream": f.lit("S"), "data": f.lit("x")})

    routed = fan_out(rows, [Rule("all", "true", "s.{country}")]).select("subject")
    made = as_messages(rows, subject="s.{country}", key=["sequence"]).select("subject")

    assert sorted(row.subject for row in routed.collect()) == sorted(row.subject for row in made.collect())


def test_a_column_as_subject_is_taken_as_it_is(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a.b",)], "place string")

    nested = as_messages(rows, subject=f.concat(f.lit("s."), "place"), key=["place"])
    braces = as_messages(rows, subject=f.lit("s.{place}.{"), key=["place"])

    assert [row.subject for row in nested.union(braces).collect()] == ["s.a.b", "s.{place}.{"]


@pytest.mark.parametrize("subject", ["", "a b", "a.*", "a..b", "a.{", "a.{}", "a.{two words}", "a\x00b"])
def test_a_text_that_is_no_subject_is_refused_before_anything_runs(spark: SparkSession, subject: str) -> None:
    rows = spark.createDataFrame([("a",)], "place string")

    with pytest.raises(pipelines.PipelineError, match="as_messages sends to"):
        as_messages(rows, subject=subject, key=["place"])


@pytest.mark.slow
@pytest.mark.parametrize("template", ["orders", "aggregate", "dedupe", "fan-out"])
def test_a_template_puts_rows_that_are_refused_aside_on_its_own_stream(template: str, tmp_path: Path) -> None:
    create_project("p", template, tmp_path)
    made = dict(re.findall(r"jetspark stream add (\w+) --subjects '([^']+)'", (tmp_path / "p/README.md").read_text()))

    sinks = [one for one in read_graph(find_project(tmp_path / "p")).outputs if one.format == JETSTREAM]

    assert sinks
    for sink in sinks:
        stream, dead = sink.options["stream"], sink.options["deadLetterSubject"]
        assert matches(made[stream].encode(), dead.encode())
        # No subject of these templates begins like that, whatever the values are.
        assert dead == f"{stream}.refused.rows"
