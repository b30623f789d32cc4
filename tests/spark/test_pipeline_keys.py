"""Ids made of a key: different keys give different ids, and the same key the same one in every session."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jetspark.spark.pipelines import as_messages

SCHEMA = "text string, other string, bytes binary, at timestamp, local timestamp_ntz, number double"
TEXTS: list[str | None] = [None, "", " ", "null", "\x1f", "a\x1f", "\x1fa", "|", '"', "\\", "a|b", "ä", "0", "-0.0"]
# Around the hour that comes twice in Berlin.
CLOCK_CHANGE = datetime(2026, 10, 24, 22, 0, tzinfo=UTC)


def some_keys(seed: int) -> list[tuple[Any, ...]]:
    """Different keys out of values that are easily mistaken for each other."""
    chance = random.Random(seed)
    moments = [None, *[CLOCK_CHANGE + timedelta(minutes=30 * step) for step in range(12)]]
    moments += [CLOCK_CHANGE + timedelta(microseconds=step) for step in range(1, 4)]
    keys: dict[tuple[Any, ...], None] = {}
    for text in TEXTS:
        for other in TEXTS:
            keys[text, other, None, None, None, None] = None
    for moment in moments:
        local = None if moment is None else moment.replace(tzinfo=None)
        keys[None, None, None, moment, None, None] = None
        keys[None, None, None, None, local, None] = None
    for _ in range(500):
        number = chance.choice([None, 0.0, 0.1, 1e300, float(chance.randrange(5))])
        content = chance.choice([None, b"", b"\xff", b"\xfe", b"null", chance.randbytes(2)])
        moment = chance.choice(moments)
        keys[chance.choice(TEXTS), chance.choice(TEXTS), content, moment, None, number] = None
    return list(keys)


def ids(spark: SparkSession, keys: list[tuple[Any, ...]], zone: str) -> list[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    rows = spark.createDataFrame(keys, SCHEMA)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        messages = as_messages(rows, subject="s", key=rows.columns)
        return [row["msg_id"] for row in messages.select("msg_id").collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_different_keys_have_different_ids_in_any_time_zone(spark: SparkSession) -> None:
    keys = some_keys(1)

    made = ids(spark, keys, "Europe/Berlin")

    assert len(set(made)) == len(keys)
    assert ids(spark, keys, "America/New_York") == made


@pytest.mark.parametrize("expression", ["CAST(bytes AS STRING)", "struct(text, other)", "array(text, other)"])
def test_keys_may_be_any_expression(spark: SparkSession, expression: str) -> None:
    rows = spark.createDataFrame(
        [
            (text, other, f"{text}".encode("utf-16-le") + b"\xff" + f"{other}".encode("utf-16-be"), None, None, None)
            for text in TEXTS
            for other in TEXTS
        ],
        SCHEMA,
    )
    messages = as_messages(rows.selectExpr(f"{expression} AS key"), subject="s", key=["key"])

    assert messages.select("msg_id").distinct().count() == rows.selectExpr(f"{expression} AS key").distinct().count()
