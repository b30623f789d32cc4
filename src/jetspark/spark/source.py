"""The format `jetstream` as Spark meets it: which reader or writer, with which options and columns.

Everything that can be wrong with options and schema is found here, on the driver, before a query starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from jetspark.spark.options import Options


class JetStreamDataSource(DataSource):
    """The data source `jetstream`: streams as DataFrames, and DataFrames into streams."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "jetstream"

    def schema(self) -> StructType:
        """The columns, if the user gave no schema."""
        from jetspark.spark.columns import source_schema

        return source_schema(self._read_options())

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        from jetspark.spark.batch_reader import batch_reader

        return batch_reader(self._read_options(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A streaming read."""
        from jetspark.spark.stream_reader import JetStreamStreamReader

        return JetStreamStreamReader(self._read_options(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write."""
        from jetspark.spark.sink import batch_writer

        return batch_writer(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A streaming write."""
        from jetspark.spark.sink import stream_writer

        return stream_writer(dict(self.options), schema, overwrite)

    def _read_options(self) -> Options:
        from jetspark.spark.source_options import source_options
        from jetspark.spark.worker_process import begin_task

        begin_task()
        return source_options(self.options)

    def __repr__(self) -> str:
        # The options hold secrets.
        return "JetStreamDataSource()"

    def __getstate__(self) -> dict[str, Any]:
        return {"options": dict(self.options)}
