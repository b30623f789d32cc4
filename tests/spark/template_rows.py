"""Rows as a trial of a template compares them: what streams and tables hold, read without Spark.

Times are whole microseconds since 1970. A table that Spark writes as a stream consists of the files in its own list;
what an attempt that was killed has left beside them is not part of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import parquet

from jetspark.client.sync import JetStream

EXAMPLES = 5
Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Message:
    """What is published."""

    stream: str
    subject: str
    data: bytes
    headers: Headers = ()


@dataclass(frozen=True)
class Stored:
    """A message of a stream."""

    subject: str
    data: bytes
    headers: Headers
    sequence: int
    time_ns: int

    @property
    def time_us(self) -> int:
        """When it was stored, as Spark has it."""
        return self.time_ns // 1000


def read_stream(jetstream: JetStream, stream: str) -> list[Stored]:
    """The messages of a stream, in order."""
    found = []
    for batch in jetstream.stream(stream).scan():
        columns = {name: batch.column(name).to_pylist() for name in ("subject", "data", "sequence")}
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        blocks = batch.column("headers").to_pylist()
        for number, time_ns in enumerate(times):
            headers = tuple((one["key"], _bytes(one["value"])) for one in blocks[number] or ())
            subject, data, sequence = (columns[name][number] for name in columns)
            found.append(Stored(subject, data, headers, sequence, time_ns))
    return found


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def without_id(headers: Headers) -> Headers:
    """The headers that are not the sink's own."""
    return tuple(pair for pair in headers if pair[0] != "Nats-Msg-Id")


def listed_files(table: Path) -> list[Path]:
    """The files of a table in Spark's own list."""
    lists = table / "_spark_metadata"
    whole = sorted(int(path.name.split(".")[0]) for path in lists.glob("*.compact") if path.name[0].isdigit())
    later = sorted(int(path.name) for path in lists.iterdir() if path.name.isdigit())
    names = [f"{whole[-1]}.compact"] if whole else []
    names += [str(number) for number in later if not whole or number > whole[-1]]
    lines = [line for name in names for line in (lists / name).read_text("utf-8").splitlines()[1:]]
    return [Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines]


def read_table(table: Path) -> list[dict[str, Any]]:
    """The rows of a table that Spark writes as a stream, with the columns it is partitioned by."""
    rows = []
    for path in listed_files(table):
        folders = [part.split("=", 1) for part in path.relative_to(table).parts[:-1]]
        partition = {name: unquote(value) for name, value in folders}
        rows += [{**row, **partition} for row in table_rows(parquet.ParquetFile(path).read())]
    return rows


def left_over(table: Path) -> int:
    """How many files lie in the folder that are not part of the table."""
    return len({path.resolve() for path in table.rglob("*.parquet")} - {path.resolve() for path in listed_files(table)})


def table_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with times as numbers."""
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            times = table.column(number).cast(pa.timestamp("us"), safe=False).cast(pa.int64())
            table = table.set_column(number, field.name, times)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def micros(text: str) -> int:
    """A moment in a JSON document."""
    moment = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return (moment.days * 86_400 + moment.seconds) * 1_000_000 + moment.microseconds


def picked(rows: Iterable[dict[str, Any]], *names: str, first: str = "") -> Counter[Any]:
    """Some columns of each row."""
    kind = (first,) if first else ()
    return Counter((*kind, *(row.get(name) for name in names)) for row in rows)


def compare(expected: Counter[Any], found: Counter[Any]) -> dict[str, Any]:
    """Row by row: what is lost, there too often, and there though nobody expects it."""
    lost, extra = expected - found, found - expected
    doubled = Counter({row: count for row, count in extra.items() if row in expected})
    wrong = extra - doubled
    told: dict[str, Any] = {"rows": expected.total()}
    for name, rows in (("lost", lost), ("doubled", doubled), ("wrong", wrong)):
        told[name] = rows.total()
        if rows:
            told[f"{name}_examples"] = [repr(row)[:300] for row in list(rows)[:EXAMPLES]]
    return told
