"""Sources to hold ours against: one that only hands over rows, one that does nothing, and a plain one on nats-py.

Spark's workers import this module, so it must not start anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from bench.load import payload_of
from jetspark.spark.columns import schema_without_extras

BATCH_ROWS = 16_384
PARTITIONS = 4
SIZE = 128


def arrow_rows(schema: StructType, count: int) -> pa.RecordBatch:
    """So many rows as our source gives them."""
    columns: dict[str, list[Any]] = {
        "stream": ["BENCH"] * count,
        "subject": ["bench.a"] * count,
        "sequence": list(range(count)),
        "timestamp": [1_700_000_000_000_000] * count,
        "data": [payload_of(SIZE)] * count,
    }
    arrow = to_arrow_schema(schema, timezone="UTC")
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in arrow], schema=arrow)


class CeilingReader(DataSourceReader):
    """Hands the same batch over again and again: what Spark itself takes for these rows."""

    def __init__(self, schema: StructType, count: int) -> None:
        self._schema = schema
        self._count = count

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._count // PARTITIONS) for _ in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        left = partition.value
        batch = arrow_rows(self._schema, min(left, BATCH_ROWS))
        while left > 0:
            yield batch.slice(0, min(left, BATCH_ROWS))
            left -= BATCH_ROWS


class CeilingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "bench_ceiling"

    def schema(self) -> StructType:
        return schema_without_extras()

    def reader(self, schema: StructType) -> DataSourceReader:
        return CeilingReader(schema, int(self.options["count"]))


class NothingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """So many batches of a few rows that were there all along."""

    def __init__(self, schema: StructType, batches: int, rows: int) -> None:
        self._schema = schema
        self._batches = batches
        self._rows = rows

    def initialOffset(self) -> dict[str, int]:
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._rows)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"batch": min(self._batches, start["batch"] + 1)}

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(self._rows)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield arrow_rows(self._schema, partition.value)


class NothingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "bench_nothing"

    def schema(self) -> StructType:
        return schema_without_extras()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return NothingReader(schema, int(self.options["batches"]), int(self.options["rows"]))


class NatsPyReader(DataSourceReader):
    """What one writes first: a pull consumer a partition, fetched message by message, rows as tuples."""

    def __init__(self, url: str, count: int) -> None:
        self._url = url
        self._count = count

    def partitions(self) -> list[InputPartition]:
        share = self._count // 2
        return [InputPartition((1, share)), InputPartition((share + 1, self._count))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        first, last = partition.value
        yield from asyncio.run(self._fetch(first, last))

    async def _fetch(self, first: int, last: int) -> list[tuple[Any, ...]]:
        import nats
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        connection = await nats.connect(self._url)
        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE, deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=first
        )
        subscription = await connection.jetstream().pull_subscribe("bench.a", stream="BENCH", config=config)
        rows: list[tuple[Any, ...]] = []
        while len(rows) < last - first + 1:
            for message in await subscription.fetch(1000, timeout=5):
                meta = message.metadata
                if meta.sequence.stream <= last:
                    rows.append(("BENCH", message.subject, meta.sequence.stream, meta.timestamp, message.data))
        await subscription.unsubscribe()
        await connection.close()
        return rows


class NatsPySource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "bench_natspy"

    def schema(self) -> StructType:
        return schema_without_extras()

    def reader(self, schema: StructType) -> DataSourceReader:
        return NatsPyReader(self.options["url"], int(self.options["count"]))
