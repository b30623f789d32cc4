"""What the copied files of a template under trial are given: batches of a size, and rows that fail when told to.

A copied file imports this and wraps the functions that it uses (`template_cases` says which). A process of Spark finds
its settings in the environment. The environment variable JETSPARK_HARNESS_BREAKS=drop makes a told task leave rows out
where it would fail, to see whether the harness notices.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow

SETTINGS = "JETSPARK_HARNESS_SETTINGS"
BREAKS = "JETSPARK_HARNESS_BREAKS"
SOURCE, SINK = "source", "sink"


def told(order: Path, given: int) -> bool:
    """Whether a task that has given so many rows is to fail. Of several tasks one is told."""
    with contextlib.suppress(FileNotFoundError):
        if given >= int(order.read_text(encoding="utf-8")):
            order.unlink()
            return True
    return False


def kept_rows(rows: Any, place: str) -> Any:
    """The rows as they are, from tasks that fail once when there is an order for this place."""
    from pyspark.sql import functions
    from pyspark.sql.types import BooleanType

    f: Any = functions
    order, breaks = Path(settings()["orders"]) / place, os.environ.get(BREAKS) == "drop"

    def keep(batches: Iterator[pyarrow.Array]) -> Iterator[pyarrow.Array]:
        given = 0
        for batch in batches:
            is_told = told(order, given)
            if is_told and not breaks:
                raise RuntimeError("as told")
            given += len(batch)
            yield pyarrow.array([not is_told] * len(batch), pyarrow.bool_())

    # Spark may move what is deterministic to another place.
    return rows.where(f.arrow_udf(keep, BooleanType()).asNondeterministic()(f.lit(1)))


def limited(read: Callable[..., Any]) -> Callable[..., Any]:
    """`read_messages` with small batches, and rows that fail when told to."""

    @functools.wraps(read)
    def defined(*arguments: Any, **options: Any) -> Any:
        return kept_rows(read(*arguments, **{**options, **settings()["read"]}), SOURCE)

    return defined


def disturbed(make: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose rows go to the sink, which fail when told to."""

    @functools.wraps(make)
    def defined(*arguments: Any, **options: Any) -> Any:
        return kept_rows(make(*arguments, **options), SINK)

    return defined


def settings() -> dict[str, Any]:
    """Where the orders are, and the options of every source."""
    found: dict[str, Any] = json.loads(os.environ[SETTINGS])
    return found
