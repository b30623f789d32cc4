"""A stream, or anything computed from streams, as a Delta table: each row once, without a jar.

Spark's executors write the Parquet files of a micro-batch, and the driver adds them to the table in one commit of the
Delta log (through `deltalake`), together with the number of the batch under the query's own name. A batch that runs
again after a crash finds its number there and adds nothing. Files of an attempt that was never committed are not part
of the table; `DeltaTable.vacuum` removes them.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jetspark.clock import Clock, SystemClock
from jetspark.spark.pipelines.archive_files import local_folder
from jetspark.spark.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def lakehouse(
    rows: DataFrame, table: str | Path, *, checkpoint: str | Path, every: str | None = None, name: str = ""
) -> StreamingQuery:
    """Start writing a streaming DataFrame into a Delta table, which is created if it does not exist.

    `name` is shown in the log of the table, with the id of the checkpoint. A new checkpoint is a new writer: it adds
    what it reads, even if another one has added it before.
    """
    from jetspark.spark.streaming import query_id, start

    check_deltalake()
    where = str(local_folder(table, "a Delta table"))
    writer = ""

    def write(batch: DataFrame, batch_id: int) -> None:
        nonlocal writer
        writer = writer or f"{name or 'jetspark'}:{query_id(batch.sparkSession, checkpoint)}"
        append_batch(batch, where, writer, batch_id)

    return start(rows.writeStream.foreachBatch(write), f"lakehouse {Path(table).name}", checkpoint, every)


def check_deltalake() -> None:
    """Refuse to start without the package that writes the table's log."""
    try:
        import deltalake  # noqa: F401 - it is enough that it is there
    except ModuleNotFoundError as error:
        raise PipelineError("Delta tables need their extra package: pip install 'jetspark[delta]'") from error


def append_batch(batch: DataFrame, table: str, writer: str, batch_id: int, clock: Clock | None = None) -> bool:
    """Append one batch, unless the table has it already; whether it was appended."""
    from deltalake import CommitProperties, DeltaTable, Transaction

    found = DeltaTable(table) if DeltaTable.is_deltatable(table) else None
    if found is not None:
        done = found.transaction_version(writer)
        if done is not None and done >= batch_id:
            return False
    # A name nobody used: files of an attempt that died must not be taken for this one's.
    folder = f"jetspark-{batch_id:010d}-{uuid.uuid4().hex}"
    spark = batch.sparkSession
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    batch.write.mode("error").parquet(f"{table}/{folder}")
    actions, schema = added_files(Path(table), folder, clock or SystemClock())
    properties = CommitProperties(app_transactions=[Transaction(writer, batch_id)])
    if found is None:
        found = DeltaTable.create(table, schema=schema, mode="ignore")
    _check_schema(found, schema, table)
    found.create_write_transaction(actions, "append", schema, commit_properties=properties)
    return True


def added_files(table: Path, folder: str, clock: Clock) -> tuple[list[AddAction | RemoveAction], Any]:
    """The files Spark wrote as entries of the Delta log, with their numbers of rows, and their schema."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet
    from deltalake.transaction import AddAction

    actions: list[AddAction | RemoveAction] = []
    schema = None
    for path in sorted((table / folder).glob("*.parquet")):
        metadata = parquet.read_metadata(path)
        schema = parquet.read_schema(path).remove_metadata()
        if metadata.num_rows:
            actions.append(
                AddAction(
                    path=str(path.relative_to(table)),
                    size=path.stat().st_size,
                    partition_values={},
                    modification_time=clock.now_ns() // 1_000_000,
                    data_change=True,
                    stats=json.dumps({"numRecords": metadata.num_rows}),
                )
            )
    if schema is None:
        raise PipelineError(f"Spark wrote no file into {table / folder}")
    fields = [arrow.field(field.name, field.type) for field in schema]
    return actions, arrow.schema(fields)


def _check_schema(table: DeltaTable, schema: Any, where: str) -> None:
    """A table cannot hold other columns than it was made with; say which differ before the log is touched."""
    from deltalake import Schema

    partitions = table.metadata().partition_columns
    if partitions:
        raise PipelineError(
            f"the table {where} is partitioned by {', '.join(partitions)}: only whole tables are written"
        )
    known = {field.name: str(field.type) for field in table.schema().fields}
    ours = {field.name: str(field.type) for field in Schema.from_arrow(schema).fields}
    strange = sorted(name for name in ours if known.get(name) != ours[name])
    if strange:
        raise PipelineError(
            f"the table {where} has not these columns: {', '.join(f'{name} {ours[name]}' for name in strange)};"
            f" it has {', '.join(f'{name} {kind}' for name, kind in known.items())}"
        )
