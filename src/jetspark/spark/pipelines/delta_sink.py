"""The format `jetspark_delta`: the sink of a streaming query, or of a declared pipeline, that is a Delta table.

Each task writes one Parquet file with a name nobody used, and tells the driver of it; when all are done the driver adds
them to the table. So a task that is retried or run twice leaves a file that is never part of the table, and a batch
that runs again is known by its number (`delta_table`). Which query it is, is read from Spark: its checkpoint's id.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from jetspark.spark.pipelines.delta_table import (
    FORMAT,
    WRITER,
    DataFile,
    add_batch,
    check_deltalake,
    check_table,
    create_table,
)
from jetspark.spark.pipelines.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow

QUERY_ID = "sql.streaming.queryId"


class DeltaDataSource(DataSource):
    """Streaming DataFrames into Delta tables."""

    @classmethod
    def name(cls) -> str:
        """What the user writes in `format(...)`."""
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A streaming write, once the table has been looked at."""
        from jetspark.spark.pipelines.archive_files import local_folder

        if overwrite:
            raise PipelineError("a Delta table is appended to here: use outputMode('append')")
        path = self.options.get("path")
        if not path:
            raise PipelineError(f"format {FORMAT} needs option path: the folder of the table")
        check_deltalake()
        table, columns = str(local_folder(path, "a Delta table")), table_schema(schema)
        check_table(table, columns)
        return DeltaWriter(table, columns, self.options.get("name") or WRITER)


def table_schema(schema: StructType) -> pyarrow.Schema:
    """A DataFrame's columns as the table's files hold them: times in UTC, anything may be null."""
    import pyarrow as arrow
    from pyspark.sql.pandas.types import to_arrow_schema

    kinds = to_arrow_schema(schema, timezone="UTC")
    return arrow.schema([arrow.field(field.name, field.type) for field in kinds])


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote; no file when it had no rows."""

    query: str
    file: DataFile | None


class DeltaWriter(DataSourceStreamArrowWriter):
    """The writer of one table."""

    def __init__(self, table: str, schema: pyarrow.Schema, name: str) -> None:
        self._table = table
        self._schema = schema
        self._name = name

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task into a file, on an executor."""
        context = TaskContext.get()
        assert context is not None, "rows are written inside a Spark task"
        query = context.getLocalProperty(QUERY_ID)
        if query is None:
            raise PipelineError("this Spark does not tell tasks their query, so a batch could not be known again")
        return Written(query, write_file(Path(self._table), self._schema, context.partitionId(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All tasks of a batch are done: their files become part of the table, together."""
        written = [one for one in messages if isinstance(one, Written)]
        if not written:
            if batchId == 0:
                # So that a table that is missing later is known to be gone.
                create_table(self._table, self._schema)
            return
        files = [one.file for one in written if one.file is not None]
        if not add_batch(self._table, self._schema, f"{self._name}:{written[0].query}", batchId, files):
            self._remove(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """The batch failed; when it is run again it has other files."""
        self._remove(messages)

    def _remove(self, messages: list[WriterCommitMessage | None]) -> None:
        for one in messages:
            if isinstance(one, Written) and one.file is not None:
                (Path(self._table) / one.file.path).unlink(missing_ok=True)


def write_file(
    table: Path, schema: pyarrow.Schema, partition: int, batches: Iterator[pyarrow.RecordBatch]
) -> DataFile | None:
    """Some rows as a file of the table that nobody knows of yet; None when there are none."""
    import pyarrow as arrow
    from pyarrow import parquet

    path = table / f"part-{partition:05d}-{uuid.uuid4().hex}.parquet"
    rows, writer = 0, None
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if writer is None:
                table.mkdir(parents=True, exist_ok=True)
                writer = parquet.ParquetWriter(path, schema)
            # Spark gives times the session's zone, which is another name for the same moments.
            writer.write_table(arrow.Table.from_batches([batch]).cast(schema))
            rows += batch.num_rows
        if writer is not None:
            writer.close()
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise
    return None if writer is None else DataFile(path.name, rows, path.stat().st_size)
