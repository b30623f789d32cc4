"""The sink without Spark around it: rows for it, attempts that break off, and what the stream has afterwards."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from jetspark.client.sync import JetStream, Stream, connect
from jetspark.spark.sink import Sink
from jetspark.spark.sink_checks import check_target
from jetspark.spark.sink_ids import ONLY_RUN, Place, Run
from jetspark.spark.sink_options import sink_options
from jetspark.spark.sink_rows import plan_rows

WINDOW_S = 0.1
TEXT = t.StringType()


class Stopped(Exception):
    """The rows end here, as when a task is killed."""


def make_sink(url: str, stream: str, columns: dict[str, t.DataType] | None = None, **options: Any) -> Sink:
    raw = {"servers": url, "stream": stream, "subject": f"{stream}.rows", "retryIntervalMs": "50"}
    given = sink_options({**raw, **{name: str(value) for name, value in options.items()}})
    schema = t.StructType([t.StructField(name, kind) for name, kind in (columns or {"data": TEXT}).items()])
    plan = plan_rows(schema, given["subject"], given["msgId"])
    with connect(url) as client:
        return Sink(given, plan, check_target(client.jetstream(), given, plan))


def batches(rows: list[Any], size: int = 10, stop_after: int | None = None) -> Iterator[pa.RecordBatch]:
    """Rows as Spark would hand them over; a bare text is the column data."""
    full = [row if isinstance(row, dict) else {"data": row} for row in rows]
    for start in range(0, len(full), size):
        if stop_after is not None and start >= stop_after:
            raise Stopped
        yield pa.RecordBatch.from_pylist(full[start : start + size])


def stored(stream: Stream) -> Counter[str]:
    """What the stream has, without what others put there."""
    table = stream.scan(columns=["subject", "data"]).read_all()
    pairs = zip(table.column("subject").to_pylist(), table.column("data").to_pylist(), strict=True)
    return Counter(data.decode() for subject, data in pairs if not subject.endswith(".other"))


def outlive_window(js: JetStream, stream: Stream) -> None:
    """Until the stream has forgotten the ids it has seen so far. Stores messages of another writer meanwhile."""
    mark = uuid.uuid4().hex
    js.publish(f"{stream.name}.other", b"", msg_id=mark)
    while js.publish(f"{stream.name}.other", b"", msg_id=mark).duplicate:
        threading.Event().wait(WINDOW_S / 4)


NUMBERS = [str(number) for number in range(100)]
PLACE = Place("query", 5, 0)


def break_off(
    sink: Sink, place: Place = PLACE, after: int = 40, rows: list[Any] | None = None, run: Run = ONLY_RUN
) -> None:
    """An attempt that stores some of the rows."""
    with pytest.raises(Stopped):
        sink.write(place, batches(NUMBERS if rows is None else rows, stop_after=after), run)
