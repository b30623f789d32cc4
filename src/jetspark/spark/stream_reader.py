"""A streaming read: where it begins, how far each batch goes, and which task reads what.

Spark keeps one of these per query on the driver's side and calls it for offsets; others, unpickled on executors, only
read. Every offset given out is a function of the offset before it and of the streams' state, and `partitions` is one of
offsets alone, apart from what has been deleted meanwhile. An idle query is polled by Spark dozens of times a second;
the server is asked a few times.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from jetspark.api.stream_config import Retention
from jetspark.client.errors import BadOptionError
from jetspark.spark import data_loss, planner, planning
from jetspark.spark.admission import Admission, default_limit
from jetspark.spark.columns import check_schema
from jetspark.spark.durable import DurableMirror
from jetspark.spark.facts import Facts, find_facts, no_stream
from jetspark.spark.lag_report import LagReport
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
        self._asked_s: float | None = None
        self._lag = LagReport(options)
        # What was warned of already: the same is true at every look.
        self._told: set[str] = set()
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
            # An AvailableNow run may not begin after its end, however fast the stream grows.
            facts = self._frozen if self._frozen is not None else self._look()
            self._check_missing(facts, Offset())
            planning.check_subjects(self._options, facts.values())
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
        begins_early = planning.starting_position(self._options, facts.name, LATEST) == EARLIEST
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
        self._check_missing(facts, begun)
        self._check_dropped(begun)
        begins = {name: self._begin_of(begun, one) for name, one in facts.items()}
        if self._mirror is not None:
            self._mirror.ensure({name: position.seq for name, position in begins.items()}, facts)
        backlog = {name: max(0, facts[name].last - begins[name].seq) for name in facts}
        taken = self._admission.admitted(backlog, facts, limit, may_wait=self._frozen is None and not begun.is_initial)
        is_moved = any(taken.values()) or begun.is_initial or any(one.start is not None for one in begins.values())
        if not is_moved:
            self._planned = begun
            return start
        # A stream that is gone keeps its position: should one of its name come, it is seen to be another.
        kept = {name: begun.positions[name] for name in self._options["stream"] if name not in facts}
        ends = {name: self._end_of(begins[name], taken[name], facts[name]) for name in facts}
        self._planned = Offset({**kept, **ends})
        return self._planned.to_json()

    def _begin_of(self, begun: Offset, facts: Facts) -> Position:
        """Where the next batch of a stream begins; with `start` when the offset before it does not say so."""
        position = begun.positions.get(facts.name)
        if position is None:
            # A stream added to a running query is read from its beginning, as Kafka does with new partitions.
            return Position(facts.first - 1, facts.created, start=facts.first - 1)
        if position.created != facts.created or position.seq > facts.last:
            if position.created != facts.created:
                data_loss.recreated(self._options, facts.name, position.created, facts.created)
            else:
                data_loss.went_back(self._options, facts.name, position.seq, facts.last)
            return Position(facts.first - 1, facts.created, start=facts.first - 1)
        return Position(position.seq, facts.created, start=position.seq if begun.is_initial else None)

    def _check_dropped(self, begun: Offset) -> None:
        for name in sorted(set(begun.positions) - set(self._options["stream"])):
            what = f"the checkpoint has a position of stream {name}, which option stream does not name"
            if what not in self._told:
                self._told.add(what)
                data_loss.report_loss(self._options, what)

    def _check_missing(self, facts: Mapping[str, Facts], begun: Offset) -> None:
        """A stream that is not there was never there, or is lost."""
        for name in sorted(self._options["stream"]):
            if name in facts:
                self._told.discard(name)
            elif name not in begun.positions:
                raise no_stream(self._options, name)
            elif name not in self._told:
                self._told.add(name)
                data_loss.stream_gone(self._options, name)

    def _end_of(self, begin: Position, taken: int, facts: Facts) -> Position:
        parts = planner.part_count(
            taken, facts.messages, planning.parts_least(self._options), self._options["maxRecordsPerPartition"]
        )
        return Position(begin.seq + taken, facts.created, begin.start, parts if parts > 1 else None)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """How far the streams are, and how far behind the query is: for progress reports, not for planning."""
        return self._lag.document(self._planned, self._facts)

    def _look(self) -> dict[str, Facts]:
        """The state of the streams that are there, not more often than the server should be asked."""
        names = sorted(self._options["stream"])
        interval_s = max(float(self._options["pollIntervalMs"]), STREAM_POLL_S * len(names))
        rest_s = 0.0 if self._asked_s is None else self._asked_s + interval_s - time.monotonic()
        if rest_s > 0:
            time.sleep(rest_s)
        found = {name: find_facts(self._options, name) for name in names}
        self._facts = {name: facts for name, facts in found.items() if facts is not None}
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
        if facts is None:
            data_loss.stream_gone(self._options, name)
            return []
        if facts.created != position.created:
            data_loss.recreated(self._options, name, position.created, facts.created)
            return []
        planning.check_head(self._options, facts, first, position.seq)
        return planning.partitions_of(facts, planner.cut(first, position.seq, position.parts or 1))

    def _facts_for_planning(self, name: str, position: Position) -> Facts | None:
        """What is known already, unless messages were deleted: then which ones. None when the stream is gone."""
        known = self._facts.get(name)
        if known is not None and known.last >= position.seq and known.deleted == ():
            return known
        facts = find_facts(self._options, name, with_deleted=True)
        if facts is not None:
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
