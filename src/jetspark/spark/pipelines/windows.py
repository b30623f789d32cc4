"""Pipelines that keep state by time: windows, duplicates over days, two streams joined.

Each is a function from DataFrame to DataFrame, so it runs in a declared pipeline, in a streaming query and on a batch
alike (Spark has `dedupe` for streams only). Time is the message's own (`timestamp`, when the server stored it) unless
another column is named. A watermark says how late a message may be: what comes later than that is left out, and state
older than that is dropped.

The newest time moves the watermark, so one time in the far future would make every other row late. Decided here: a time
that is further ahead of the server's than `ahead` is left out, as one that is too late is. Both are counted in the
progress of a query, where `left_out` finds them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jetspark.spark.left_out import AHEAD_METRIC, AHEAD_ROWS
from jetspark.spark.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SERVER_TIME = "timestamp"
# Less than the usual `late`: a row that is just within it makes no row late that comes in time.
AHEAD = "5 minutes"
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
    ahead: str | None = AHEAD,
) -> DataFrame:
    """Values over windows of time, with the columns `window_start`, `window_end`, those in `by`, and one for each
    value.

    In append mode a streaming query emits each window once, when it ended longer than `late` ago. Rows whose `time` is
    more than `ahead` after the server's `timestamp` are left out, in a batch too: one of them would end every window.
    With another `time` the rows must have the column `timestamp`; `ahead=None` leaves nothing out and needs none.
    """
    from pyspark.sql import functions as f

    if not values:
        raise PipelineError('aggregate needs values, such as {"orders": f.count("*")}')
    spans = f.window(f.col(time), window, slide) if slide else f.window(f.col(time), window)
    grouped = _not_ahead(rows, time, ahead).withWatermark(time, late).groupBy(spans, *by)
    found = grouped.agg(*(value.alias(name) for name, value in values.items()))
    bounds = [f.col("window.start").alias("window_start"), f.col("window.end").alias("window_end")]
    return found.select(*bounds, *by, *values)


def dedupe(
    rows: DataFrame,
    keys: Sequence[str],
    *,
    within: str = "7 days",
    time: str = "timestamp",
    ahead: str | None = AHEAD,
) -> DataFrame:
    """Only the first of the rows with equal keys that are at most `within` apart.

    Keys may come from the content: an order number, or a hash of the payload. The state has one entry for each key for
    the time of `within`; use the RocksDB store (`ROCKSDB`) if these are many. Rows whose `time` is more than `ahead`
    after the server's `timestamp` are left out, as in `aggregate`.
    """
    if not keys:
        raise PipelineError("dedupe needs the columns that make two rows the same")
    return _not_ahead(rows, time, ahead).withWatermark(time, within).dropDuplicatesWithinWatermark(list(keys))


def join_streams(
    left: DataFrame,
    right: DataFrame,
    *,
    on: Sequence[str],
    within: str = "10 minutes",
    late: str = "10 minutes",
    how: str = "inner",
    time: str = "timestamp",
    ahead: str | None = AHEAD,
) -> DataFrame:
    """Pairs of rows of two streams with equal keys, the right one at most `within` after the left one.

    The columns are those of the left row, and `right`, a struct with all columns of the right one. With `how="left"`,
    left rows without a partner are included, with null. Rows of either side whose `time` is more than `ahead` after the
    server's `timestamp` are left out, as in `aggregate`.
    """
    from pyspark.sql import functions as f

    if how not in ("inner", "left"):
        raise PipelineError(f"join_streams joins inner or left, not {how!r}")
    if not on:
        raise PipelineError("join_streams needs the columns whose values must be equal")
    first = _not_ahead(left, time, ahead).withWatermark(time, late)
    # The right's own time and keys stay columns of their own: state is dropped by the one and found by the others. Only
    # that time is marked as such: Spark refuses a second one, which the time within the struct would be.
    keys = [f.col(name).alias(f"_right_{name}") for name in (time, *on)]
    second = (
        _not_ahead(right, time, ahead).select(*keys, f.struct("*").alias("right")).withWatermark(f"_right_{time}", late)
    )
    there = f.col(f"_right_{time}")
    condition = (there >= f.col(time)) & (there <= f.col(time) + f.expr(f"INTERVAL {within}"))
    for name in on:
        condition = condition & (f.col(name) == f.col(f"_right_{name}"))
    joined = first.join(second, condition, "leftOuter" if how == "left" else "inner")
    return joined.drop(*(f"_right_{name}" for name in (time, *on)))


def _not_ahead(rows: DataFrame, time: str, ahead: str | None) -> DataFrame:
    """The rows whose time is not further ahead of the server's; those without a time are for Spark to judge."""
    from pyspark.sql import functions as f
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if ahead is None or time == SERVER_TIME:
        return rows
    # Over Spark Connect a schema is a question to the server, which a declared pipeline may not ask: there Spark itself
    # says that the column is missing.
    if isinstance(rows, ClassicDataFrame) and SERVER_TIME not in rows.columns:
        raise PipelineError(
            f"how far {time!r} is ahead is told by the server's column {SERVER_TIME!r}, which these rows do not have:"
            " keep it (json_fields has `keep`), or give ahead=None, and one time in the far future ends every window"
        )
    too_far = f.coalesce(f.col(time) > f.col(SERVER_TIME) + f.expr(f"INTERVAL {ahead}"), f.lit(False))
    # A query may do this more than once, and Spark wants each metric to have a name of its own.
    counted = rows.observe(f"{AHEAD_METRIC}{uuid.uuid4().hex}", f.count_if(too_far).alias(AHEAD_ROWS))
    return counted.where(~too_far)
