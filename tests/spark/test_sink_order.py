"""Rows of a task are stored in their order, whenever its connection is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from jetspark.spark.sink_connection import Target
from jetspark.spark.sink_ids import Place, Run
from jetspark.spark.sink_limits import Limits
from jetspark.spark.sink_options import sink_options
from jetspark.spark.sink_rows import plan_rows
from jetspark.spark.sink_task import SinkTask, Step
from tests.spark.sink_world import STREAM, Line, World

ROWS = [f"{number:02d}" for number in range(30)]
BATCH_ROWS = 10
# More than a task asks whose connection is never lost.
QUESTIONS_MAX = 60
STEPS_MAX = 400


class Edge:
    """Connections of one task after the other; the given questions are each the last of their connection."""

    def __init__(self, lost_at: set[int]) -> None:
        self.world = World(disturb=self._count, sent_before_loss=lambda count: count // 2)
        self.question_count = 0
        self.lost_at = lost_at

    def connect(self) -> Line:
        return Line(self.world, self)

    def now_s(self) -> float:
        return 0.0

    def sleep(self, wait_s: float) -> None:
        """What was on its way arrives."""
        for line in self.world.lines:
            self.world.receive(line)

    def _count(self, line: Line) -> None:
        self.question_count += 1
        if self.question_count in self.lost_at:
            line.lose()


def batches() -> Iterator[pa.RecordBatch]:
    for start in range(0, len(ROWS), BATCH_ROWS):
        yield pa.RecordBatch.from_pydict({"data": ROWS[start : start + BATCH_ROWS]})


@pytest.mark.parametrize("distance", [0, 1, 2, 5])
def test_rows_keep_their_order_when_the_connection_is_lost(distance: int) -> None:
    options = sink_options({
        "servers": "nats://nowhere", "stream": STREAM, "subject": "out.rows", "maxInFlight": "4", "numRetries": "1000"
    })  # fmt: skip
    plan = plan_rows(t.StructType([t.StructField("data", t.StringType())]), "out.rows", "content")
    limits = Limits(("out.>",), 1 << 20, 1 << 20)
    for first in range(1, QUESTIONS_MAX):
        edge = Edge({first, first + distance})
        run = Run("run", is_query=True, keeps_partitions=True)
        place = Place("query", 0, 0)
        task = SinkTask(edge, options, place, run, plan, limits, (Target(STREAM, "out.unused"),), batches())

        for _ in range(STEPS_MAX):
            if task.step is Step.END:
                break
            task.advance()

        assert task.step is Step.END
        assert [payload.decode() for _, payload in edge.world.stream] == ROWS, edge.lost_at
