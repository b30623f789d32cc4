"""Pipelines that keep state by time: windows, duplicates over days, two streams joined.

Each is a function from DataFrame to DataFrame, so it runs in a declared pipeline, in a streaming query and on a batch
alike. Time is the message's own (`timestamp`, when the server stored it) unless another column is named. A watermark
says how late a message may be: what comes later than that is left out, and state older than that is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jetspark.spark.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Keeps what a query remembers on disk instead of the JVM's heap: days of keys do not fit there.
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}


def aggregate(
    rows: DataFrame,
    values: Mapping[str, Column],
    *,
    window: str = "1 minute",
    slide: str | None = None,
    late: str = "10 minutes",
    by: Sequence[str] = ("subject",),
    time: str = "timestamp",
) -> DataFrame:
    """Values over windows of time, with the columns `window_start`, `window_end`, those in `by`, and one for each
    value.

    In append mode a streaming query emits each window once, when it ended longer than `late` ago.
    """
    from pyspark.sql import functions as f

    if not values:
        raise PipelineError('aggregate needs values, such as {"orders": f.count("*")}')
    spans = f.window(f.col(time), window, slide) if slide else f.window(f.col(time), window)
    grouped = rows.withWatermark(time, late).groupBy(spans, *by)
    found = grouped.agg(*(value.alias(name) for name, value in values.items()))
    bounds = [f.col("window.start").alias("window_start"), f.col("window.end").alias("window_end")]
    return found.select(*bounds, *by, *values)


def dedupe(rows: DataFrame, keys: Sequence[str], *, within: str = "7 days", time: str = "timestamp") -> DataFrame:
    """Only the first of the rows with equal keys that are at most `within` apart.

    Keys may come from the content: an order number, or a hash of the payload. The state has one entry for each key for
    the time of `within`; use the RocksDB store (`ROCKSDB`) if these are many.
    """
    if not keys:
        raise PipelineError("dedupe needs the columns that make two rows the same")
    return rows.withWatermark(time, within).dropDuplicatesWithinWatermark(list(keys))


def join_streams(
    left: DataFrame,
    right: DataFrame,
    *,
    on: Sequence[str],
    within: str = "10 minutes",
    late: str = "10 minutes",
    how: str = "inner",
    time: str = "timestamp",
) -> DataFrame:
    """Pairs of rows of two streams with equal keys, the right one at most `within` after the left one.

    The columns are those of the left row, and `right`, a struct with all columns of the right one. With `how="left"`,
    left rows without a partner are included, with null.
    """
    from pyspark.sql import functions as f

    if how not in ("inner", "left"):
        raise PipelineError(f"join_streams joins inner or left, not {how!r}")
    if not on:
        raise PipelineError("join_streams needs the columns whose values must be equal")
    first = left.withWatermark(time, late)
    # The right's own time and keys stay columns of their own: state is dropped by the one and found by the others. Only
    # that time is marked as such: Spark refuses a second one, which the time within the struct would be.
    keys = [f.col(name).alias(f"_right_{name}") for name in (time, *on)]
    second = right.select(*keys, f.struct("*").alias("right")).withWatermark(f"_right_{time}", late)
    there = f.col(f"_right_{time}")
    condition = (there >= f.col(time)) & (there <= f.col(time) + f.expr(f"INTERVAL {within}"))
    for name in on:
        condition = condition & (f.col(name) == f.col(f"_right_{name}"))
    joined = first.join(second, condition, "leftOuter" if how == "left" else "inner")
    return joined.drop(*(f"_right_{name}" for name in (time, *on)))
