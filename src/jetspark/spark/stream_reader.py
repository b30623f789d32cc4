"""A streaming read: where it begins, how far each batch goes, and which task reads what.

Spark keeps one of these per query on the driver's side and calls it for offsets; others, unpickled on executors, only
read. Every offset given out is a function of the offset before it and of the streams' state, and `partitions` is one of
offsets alone, apart from what has been deleted meanwhile. An idle query is polled by Spark dozens of times a second;
the server is asked a few times.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from jetspark.api.stream_config import Retention
from jetspark.client.errors import BadOptionError
from jetspark.spark import data_loss, planner, planning
from jetspark.spark.admission import Admission, default_limit
from jetspark.spark.columns import check_schema
from jetspark.spark.durable import DurableMirror
from jetspark.spark.facts import Facts, facts_of
from jetspark.spark.lag_report import lag_report
from jetspark.spark.offsets import Offset, Position
from jetspark.spark.reading import read_range
from jetspark.spark.source_options import DIRECT, EARLIEST, LATEST, check_streaming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

    from jetspark.spark.options import Options

log = logging.getLogger("jetspark.spark")

# With several streams a look costs several questions: together at most eight a second.
STREAM_POLL_S = 0.125


class JetStreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads streams as they grow."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check_schema(schema)
        check_streaming(options)
        if options["workQueue"]:
            # Looking without taking; what is taken is acked through the durable, after the commit.
            options = options.with_values(readMode=DIRECT)
        self._begin(options, schema)

    def _begin(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._admission = Admission(options, time.monotonic)
        self._mirror = DurableMirror(options) if options["durable"] else None
        self._initial: Offset | None = None
        self._facts: dict[str, Facts] = {}
        self._asked_s = 0.0
        # The streams as they were when an AvailableNow run began; nothing later belongs to it.
        self._frozen: dict[str, Facts] | None = None
        self._planned: Offset | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self._options, "schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._begin(state["options"], state["schema"])

    # Offsets.

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins. Asked for more than once, and answered alike each time."""
        if self._initial is None:
            facts = self._look()
            for one in facts.values():
                self._check_start(one)
            positions = {
                name: Position(planning.starting_sequence(self._options, one, LATEST), one.created)
                for name, one in facts.items()
            }
            self._initial = Offset(positions, is_initial=True)
        return self._initial.to_json()

    def _check_start(self, facts: Facts) -> None:
        planning.check_readable(self._options, facts, is_streaming=True)
        begins_early = (self._options["startingOffsets"] or LATEST) == EARLIEST
        if facts.retention == Retention.WORKQUEUE and self._options["workQueue"] and not begins_early:
            raise BadOptionError(
                "option workQueue: a work queue is read from its beginning, because what is left out would never be"
                " acked; set option startingOffsets to earliest"
            )

    def getDefaultReadLimit(self) -> ReadLimit:
        """What limits a batch, in Spark's words."""
        return default_limit(self._options)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what is there now: an AvailableNow run ends with it."""
        self._frozen = self._look()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; `start` itself when there is to be none."""
        begun = Offset.from_json(start)
        facts = self._frozen if self._frozen is not None else self._look()
        begins = {name: self._begin_of(begun, one) for name, one in facts.items()}
        self._check_dropped(begun)
        if self._mirror is not None:
            self._mirror.ensure({name: position.seq for name, position in begins.items()}, facts)
        backlog = {name: max(0, facts[name].last - begins[name].seq) for name in facts}
        taken = self._admission.admitted(backlog, facts, limit, may_wait=self._frozen is None and not begun.is_initial)
        is_moved = any(taken.values()) or begun.is_initial or any(one.start is not None for one in begins.values())
        if not is_moved:
            self._planned = begun
            return start
        self._planned = Offset({name: self._end_of(begins[name], taken[name], facts[name]) for name in facts})
        return self._planned.to_json()

    def _begin_of(self, begun: Offset, facts: Facts) -> Position:
        """Where the next batch of a stream begins; with `start` when the offset before it does not say so."""
        position = begun.positions.get(facts.name)
        if position is None:
            # A stream added to a running query is read from its beginning, as Kafka does with new partitions.
            return Position(facts.first - 1, facts.created, start=facts.first - 1)
        if position.created != facts.created or position.seq > facts.last:
            data_loss.recreated(self._options, facts.name, position.created, facts.created)
            return Position(facts.first - 1, facts.created, start=facts.first - 1)
        return Position(position.seq, facts.created, start=position.seq if begun.is_initial else None)

    def _check_dropped(self, begun: Offset) -> None:
        dropped = sorted(set(begun.positions) - set(self._options["stream"]))
        if dropped:
            data_loss.report_loss(
                self._options,
                f"the checkpoint has positions of {', '.join(dropped)}, which option stream does not name",
            )

    def _end_of(self, begin: Position, taken: int, facts: Facts) -> Position:
        parts = planner.part_count(
            taken, facts.messages, planning.parts_least(self._options), self._options["maxRecordsPerPartition"]
        )
        return Position(begin.seq + taken, facts.created, begin.start, parts if parts > 1 else None)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """How far the streams are, and how far behind the query is: for progress reports, not for planning."""
        return lag_report(self._options, self._planned, self._facts)

    def _look(self) -> dict[str, Facts]:
        """The streams' state, not more often than the server should be asked."""
        interval_s = max(float(self._options["pollIntervalMs"]), STREAM_POLL_S * len(self._options["stream"]))
        rest_s = self._asked_s + interval_s - time.monotonic()
        if self._facts and rest_s > 0:
            time.sleep(rest_s)
        self._facts = planning.all_facts(self._options)
        self._asked_s = time.monotonic()
        return self._facts

    # Batches.

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut a batch into ranges."""
        begun, ended = Offset.from_json(start), Offset.from_json(end)
        found: list[InputPartition] = []
        for name in sorted(ended.positions):
            position = ended.positions[name]
            if begun.positions.get(name) == position and not begun.is_initial:
                continue
            begin = position.start
            if begin is None:
                begin = begun.positions[name].seq
            if position.seq > begin:
                found += self._partitions_of(name, begin + 1, position)
        return found

    def _partitions_of(self, name: str, first: int, position: Position) -> Sequence[InputPartition]:
        facts = self._facts_for_planning(name, position)
        if facts.created != position.created:
            data_loss.recreated(self._options, name, position.created, facts.created)
            return []
        planning.check_head(self._options, facts, first, position.seq)
        return planning.partitions_of(facts, planner.cut(first, position.seq, position.parts or 1))

    def _facts_for_planning(self, name: str, position: Position) -> Facts:
        """What is known already, unless messages were deleted: then which ones."""
        known = self._facts.get(name)
        if known is not None and known.last >= position.seq and known.deleted == ():
            return known
        facts = facts_of(self._options, name, with_deleted=True)
        planning.check_readable(self._options, facts, is_streaming=True)
        return facts

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a range, as record batches."""
        return read_range(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has committed everything up to here."""
        if self._mirror is not None:
            self._mirror.move(Offset.from_json(end))

    def stop(self) -> None:
        """Nothing to end: Spark ends the process, and the server forgets consumers by itself."""
