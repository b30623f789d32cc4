"""A batch read: the range is settled once, when Spark plans, and is the same for every run of that DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from jetspark.spark import planner, planning
from jetspark.spark.columns import check_schema
from jetspark.spark.facts import Facts
from jetspark.spark.reading import read_range
from jetspark.spark.source_options import EARLIEST, check_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

    from jetspark.spark.options import Options


class JetStreamReader(DataSourceReader):
    """Reads what is in the streams now."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check_schema(schema)
        check_batch(options)
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Cut what there is into ranges. Spark wants a list."""
        found: list[InputPartition] = []
        streams = planning.all_facts(self._options, with_deleted=True)
        planning.check_subjects(self._options, streams.values())
        for facts in streams.values():
            planning.check_readable(self._options, facts, is_streaming=False)
            first, last = self.bounds(facts)
            planning.check_head(self._options, facts, first, last)
            found += planning.partitions_of(facts, self._cuts(facts, max(first, facts.first), last))
        return found

    def bounds(self, facts: Facts) -> tuple[int, int]:
        """The first and last sequence to read of a stream."""
        first = planning.starting_sequence(self._options, facts, EARLIEST) + 1
        return first, planning.ending_sequence(self._options, facts)

    def _cuts(self, facts: Facts, first: int, last: int) -> list[planner.Run]:
        most = self._options["maxRecordsPerPartition"]
        least = planning.parts_least(self._options)
        deleted = facts.deleted or ()
        live = max(0, last - first + 1 - planner.deleted_within(first, last, deleted))
        parts = planner.part_count(last - first + 1, min(facts.messages, live), least, most)
        return planner.cut_evenly(first, last, parts, deleted)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a range, as record batches."""
        return read_range(self._options, self._schema, partition)


def batch_reader(options: Options, schema: StructType) -> DataSourceReader:
    """The reader that fits the options. Spark refuses one that can push filters down unless it is told to use it."""
    if options["filterPushdown"]:
        from jetspark.spark.pushdown import PushingReader

        return PushingReader(options, schema)
    return JetStreamReader(options, schema)
