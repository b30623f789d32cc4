"""The source's readers as Spark uses them, without Spark: offsets, partitions and rows of one query."""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from jetspark.spark.batch_reader import batch_reader
from jetspark.spark.columns import full_schema, source_schema
from jetspark.spark.reading import RangePartition
from jetspark.spark.source_options import source_options
from jetspark.spark.stream_reader import JetStreamStreamReader

Rows = list[dict[str, Any]]


def schema_of(columns: str) -> StructType:
    """Some of the source's columns, by name."""
    return StructType([full_schema()[name] for name in columns.split()])


def read_batch(url: str, stream: str, columns: str = "", **given: str) -> Rows:
    """The rows of a batch read."""
    options = source_options({"servers": url, "stream": stream, **given})
    reader = batch_reader(options, schema_of(columns) if columns else source_schema(options))
    return rows_of(reader, reader.partitions())


def rows_of(reader: Any, partitions: Any) -> Rows:
    """What executors would read: from a reader and partitions that were pickled, as Spark does."""
    reader = pickle.loads(pickle.dumps(reader))
    found: Rows = []
    for partition in pickle.loads(pickle.dumps(list(partitions))):
        for batch in reader.read(partition):
            found += batch.to_pylist()
    return found


class Query:
    """A streaming query's driver side, with the offsets Spark would keep."""

    def __init__(self, url: str, stream: str, columns: str = "sequence data", **given: str) -> None:
        self.options = source_options({"servers": url, "stream": stream, **given})
        self.reader = JetStreamStreamReader(self.options, schema_of(columns))
        self.start: dict[str, Any] | None = None

    def plan(self, limit: ReadLimit | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """(start, end) of the next batch, through JSON as in a checkpoint."""
        if self.start is None:
            self.start = through_json(self.reader.initialOffset())
        if limit is None:
            limit = self.reader.getDefaultReadLimit()
        return self.start, through_json(self.reader.latestOffset(self.start, limit))

    @property
    def position(self) -> dict[str, Any]:
        """Where it is, once it has begun."""
        assert self.start is not None
        return self.start

    def parts(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        """The partitions of a batch."""
        found = self.reader.partitions(start, end)
        parts = [part for part in found if isinstance(part, RangePartition)]
        assert len(parts) == len(found)
        return parts

    def report(self) -> dict[str, Any]:
        """How far the streams are."""
        found = self.reader.reportLatestOffset()
        assert found is not None
        return found

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> Rows:
        """The rows of a batch."""
        return rows_of(self.reader, self.reader.partitions(start, end))

    def batch(self, limit: ReadLimit | None = None) -> Rows:
        """The rows of the next batch, which is then done."""
        start, end = self.plan(limit)
        # Spark runs a batch only when the offset is another one.
        rows = self.read(start, end) if end != start else []
        self.start = end
        return rows

    def everything(self) -> Rows:
        """One batch of all there is."""
        return self.batch(ReadAllAvailable())


def through_json(document: dict[str, Any]) -> dict[str, Any]:
    """As Spark stores it and gives it back."""
    found: dict[str, Any] = json.loads(json.dumps(document))
    return found


def sequences(rows: Rows) -> list[int]:
    """The rows' sequences, in order."""
    return [row["sequence"] for row in rows]


def wait_until(is_so: Callable[[], Any], timeout_s: float = 30.0) -> None:
    """Until a condition holds that nobody announces."""
    deadline_s = time.monotonic() + timeout_s
    pause = threading.Event()
    while not is_so():
        assert time.monotonic() < deadline_s, "it did not come about in time"
        pause.wait(0.02)
