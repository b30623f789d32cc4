"""A stream, or anything computed from streams, as a Delta table: each row once, without a jar.

The files of a micro-batch are added to the table in one commit of the Delta log (through `deltalake`), together with
the number of the batch under the query's own name. A batch that runs again after a crash finds its number there and
adds nothing. Who writes the files, and when, is decided in `delta_sink`. Files of an attempt that was never committed
are not part of the table; `DeltaTable.vacuum` removes them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jetspark.clock import Clock, SystemClock
from jetspark.spark.pipelines.archive_files import local_folder
from jetspark.spark.pipelines.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import AddAction, RemoveAction
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

FORMAT = "jetspark_delta"
WRITER = "jetspark"


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of the table, by its path from there."""

    path: str
    rows: int
    size: int


def lakehouse(
    rows: DataFrame, table: str | Path, *, checkpoint: str | Path, every: str | None = None, name: str = ""
) -> StreamingQuery:
    """Start writing a streaming DataFrame into a Delta table, which is created if it does not exist.

    `name` is shown in the log of the table, with the id of the checkpoint. A new checkpoint is a new writer: it adds
    what it reads, even if another one has added it before.
    """
    from jetspark.spark.streaming import start

    check_deltalake()
    options = {"path": str(local_folder(table, "a Delta table")), "name": name or WRITER}
    return start(rows.writeStream.format(FORMAT).options(**options), f"lakehouse {Path(table).name}", checkpoint, every)


def check_deltalake() -> None:
    """Refuse to start without the package that writes the table's log."""
    try:
        import deltalake  # noqa: F401 - it is enough that it is there
    except ModuleNotFoundError as error:
        raise PipelineError("Delta tables need their extra package: pip install 'jetspark[delta]'") from error


def check_table(table: str, schema: pyarrow.Schema) -> None:
    """Refuse columns that a Delta table cannot hold, or that are not those of the table that is there."""
    from deltalake import DeltaTable

    if DeltaTable.is_deltatable(table):
        _check_schema(DeltaTable(table), schema, table)
    else:
        _columns(schema)


def add_batch(
    table: str,
    schema: pyarrow.Schema,
    writer: str,
    batch_id: int,
    files: Sequence[DataFile],
    clock: Clock | None = None,
) -> bool:
    """Add the files of a batch in one commit, unless the table has the batch already; whether they were added."""
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake.transaction import AddAction

    found = DeltaTable(table) if DeltaTable.is_deltatable(table) else None
    if found is not None:
        done = found.transaction_version(writer)
        if done is not None and done >= batch_id:
            return False
    elif batch_id > 0:
        raise PipelineError(
            f"the table {table} is gone, and this query has written batches 0 to {batch_id - 1} into it. "
            "Going on would make a table without them. Put the table back, or start with a new checkpoint "
            "(jetspark pipeline run --full-refresh), which reads everything again"
        )
    else:
        found = create_table(table, schema)
    _check_schema(found, schema, table)
    now_ms = (clock or SystemClock()).now_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        AddAction(
            path=file.path,
            size=file.size,
            partition_values={},
            modification_time=now_ms,
            data_change=True,
            stats=json.dumps({"numRecords": file.rows}),
        )
        for file in files
    ]
    if actions:
        properties = CommitProperties(app_transactions=[Transaction(writer, batch_id)])
        found.create_write_transaction(actions, "append", schema, commit_properties=properties)
    return True


def create_table(table: str, schema: pyarrow.Schema) -> DeltaTable:
    """An empty table, or the one that is there."""
    from deltalake import DeltaTable

    return DeltaTable.create(table, schema=schema, mode="ignore")


def _columns(schema: pyarrow.Schema) -> dict[str, str]:
    """The columns as Delta names their types."""
    from deltalake import Schema

    try:
        return _kinds(Schema.from_arrow(schema))
    except Exception as error:
        kinds = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise PipelineError(f"a Delta table cannot hold one of the columns {kinds}: {error}") from error


def _kinds(schema: Schema) -> dict[str, str]:
    """Each column's type in Delta's own word, or as its document when it has parts."""
    return {field.name: field.type.to_json().strip('"') for field in schema.fields}


def _check_schema(table: DeltaTable, schema: pyarrow.Schema, where: str) -> None:
    """A table cannot hold other columns than it was made with; say which differ before the log is touched."""
    partitions = table.metadata().partition_columns
    if partitions:
        raise PipelineError(
            f"the table {where} is partitioned by {', '.join(partitions)}: only whole tables are written"
        )
    known = _kinds(table.schema())
    ours = _columns(schema)
    strange = sorted(name for name in ours if known.get(name) != ours[name])
    if strange:
        raise PipelineError(
            f"the table {where} has not these columns: {', '.join(f'{name} {ours[name]}' for name in strange)};"
            f" it has {', '.join(f'{name} {kind}' for name, kind in known.items())}"
        )
