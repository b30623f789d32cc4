"""Histories of attempts at one batch, made up by Hypothesis: every row of a committed batch is stored exactly once.

Attempts are started, cut short, killed, disturbed between any two questions, and run beside each other, also by several
runs of the batch; a run may have put the rows into other partitions, or have other rows. What must hold is checked at
each commit, at each refusal, and at the end, where a last run has to get through if all runs had the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyspark.sql import types as t

from jetspark.spark.sink_compare import check_commit, check_partitions
from jetspark.spark.sink_connection import SinkError, Target
from jetspark.spark.sink_ids import DIGEST_MASK, Place, Run
from jetspark.spark.sink_ledger import Committed
from jetspark.spark.sink_limits import Limits
from jetspark.spark.sink_options import sink_options
from jetspark.spark.sink_rows import plan_rows
from jetspark.spark.sink_task import SinkTask, Step
from tests.spark.sink_world import STREAM, Killed, Line, World

WRITE, BATCH = "query", 0
BATCH_ROWS = 3
LIVE_MAX = 3
RUNS_MAX = 3
# So many steps are more than any attempt needs that nobody disturbs.
STEPS_MAX = 200
TARGETS = (Target(STREAM, "out.unused"),)
LIMITS = Limits(("out.>",), 1 << 20, 1 << 20)
Parts = list[list[str]]

# A disturbance: before which question from now on, and what.
SCRIPTS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["lose", "kill", "others", "receive"])), max_size=3)


class Attempt:
    """One attempt at one task, and what became of it."""

    def __init__(self, machine: SinkMachine, run: DriverRun, partition: int, order: int, cut_after: int) -> None:
        mode = machine.mode
        self.world = machine.world
        self.run = run
        self.partition = partition
        self.lines: list[Line] = []
        self.is_busy = self.is_over = False
        rows = list(run.parts[partition])
        if mode == "content":
            Random(order).shuffle(rows)
        starts = range(0, len(rows), BATCH_ROWS)
        # Spark ends the rows as if there were no more when something before the sink fails.
        self.is_cut = cut_after < len(starts)
        columns = {"data": t.StringType()} | ({"msg_id": t.StringType()} if mode == "column" else {})
        options = sink_options({
            "servers": "nats://nowhere", "stream": STREAM, "subject": "out.rows", "msgId": mode, "maxInFlight": "4",
            "numRetries": "1000",
        })  # fmt: skip
        plan = plan_rows(t.StructType([t.StructField(*one) for one in columns.items()]), "out.rows", mode)
        self.task = machine.task_type(
            self, options, Place(WRITE, BATCH, partition), run.name, plan, LIMITS, TARGETS,
            self._batches([rows[start : start + BATCH_ROWS] for start in starts][:cut_after], mode),
        )  # fmt: skip

    def _batches(self, groups: list[list[str]], mode: str) -> Iterator[pa.RecordBatch]:
        for rows in groups:
            columns = {"data": rows} | ({"msg_id": [f"id-{row}" for row in rows]} if mode == "column" else {})
            yield pa.RecordBatch.from_pydict(columns)

    # The edge of the task.

    def connect(self) -> Line:
        self.lines.append(Line(self.world, self))
        return self.lines[-1]

    def now_s(self) -> float:
        return 0.0

    def sleep(self, wait_s: float) -> None:
        """Time passes when the history says so."""

    # What the machine does with it.

    def advance(self) -> None:
        self.is_busy = True
        try:
            self.task.advance()
            if self.task.step is Step.END:
                self.end()
                if not self.is_cut:
                    self.run.done[self.partition] = self.task.summary()
        except Killed:
            self.end()
        except SinkError as error:
            assert self.lines[-1].sent_count == 0, "refused after rows were sent"
            # One that is cut short itself may be refused; Spark tries the task again anyway.
            if not self.is_cut:
                self.run.refusal = str(error)
            self.end()
        finally:
            self.is_busy = False

    def end(self) -> None:
        self.is_over = True
        if self.lines:
            self.lines[-1].lose()


class DriverRun:
    """One execution of the batch by one driver."""

    def __init__(self, number: int, parts: Parts, *, keeps_partitions: bool) -> None:
        self.name = Run(f"run-{number}", is_query=True, keeps_partitions=keeps_partitions)
        self.parts = parts
        self.done: dict[int, dict[str, Any]] = {}
        self.refusal = ""


def cut(rows: list[str], count: int) -> Parts:
    return [rows[number::count] for number in range(count)]


class SinkMachine(RuleBasedStateMachine):
    """One batch. What kind of ids its rows have, and which rows later runs may have, say the classes below."""

    task_type = SinkTask
    mode = "content"
    keeps_partitions = True
    gets_through = True
    kinds: tuple[str, ...] = ("same",)

    def __init__(self) -> None:
        super().__init__()
        self.world = World(disturb=self._disturb)
        self.runs: list[DriverRun] = []
        self.attempts: list[Attempt] = []
        self.script: dict[int, str] = {}
        self.questions = 0
        self.committed: Counter[str] | None = None

    @initialize(
        count=st.integers(0, 14), equal=st.integers(1, 4), parts=st.integers(1, 3), other=st.lists(st.integers(0, 99))
    )
    def begin(self, count: int, equal: int, parts: int, other: list[int]) -> None:
        # Others have written to the stream before.
        self.world.stream += [(b"theirs-%d" % number, b"") for number in other]
        # Every so many rows are equal, which rows with ids of their own must not be.
        self.rows = [str(n if n % equal or self.mode == "column" else 0) for n in range(count)]
        self.parts = cut(self.rows, parts)
        self._new_run(self.parts)

    def _new_run(self, parts: Parts) -> None:
        self.runs.append(DriverRun(len(self.runs), parts, keeps_partitions=self.keeps_partitions))

    # What disturbs.

    def _disturb(self, line: Line) -> None:
        action = self.script.pop(self.questions, "")
        self.questions += 1
        if action in ("lose", "kill"):
            line.lose()
        if action == "kill":
            raise Killed
        if action == "receive":
            for one in self.world.lines:
                self.world.receive(one, min(1, len(one.on_the_way)))
        if action == "others":
            for attempt in self.attempts:
                if not attempt.is_busy and not attempt.is_over:
                    for _ in range(10):
                        if not attempt.is_over:
                            attempt.advance()

    def _live(self) -> list[Attempt]:
        self.attempts = [one for one in self.attempts if not one.is_over]
        return self.attempts

    # What happens.

    @precondition(lambda self: len(self.runs) < RUNS_MAX)
    @rule(data=st.data())
    def start_run(self, data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(self.kinds))
        if kind == "moved":
            order = data.draw(st.permutations(self.rows))
            self._new_run(cut(list(order), data.draw(st.integers(1, 3))))
        elif kind == "other":
            self._new_run([[f"{row}!" if n % 2 else row for n, row in enumerate(part)] for part in self.parts])
        else:
            self._new_run(self.parts)

    @rule(data=st.data(), order=st.integers(0, 99), cut_after=st.sampled_from([0, 1, 2, 9, 9, 9]))
    def start(self, data: st.DataObject, order: int, cut_after: int) -> None:
        if len(self._live()) < LIVE_MAX:
            run = data.draw(st.sampled_from(self.runs))
            partition = data.draw(st.integers(0, len(run.parts) - 1))
            self.attempts.append(Attempt(self, run, partition, order, cut_after))

    @precondition(lambda self: self._live())
    @rule(data=st.data(), steps=st.sampled_from([1, 3, 10, 50]), script=SCRIPTS, kept=st.integers(0, 4))
    def go_on(self, data: st.DataObject, steps: int, script: list[tuple[int, str]], kept: int) -> None:
        attempt = data.draw(st.sampled_from(self.attempts))
        self.script, self.questions = dict(script), 0
        self.world.sent_before_loss = lambda count: min(count, kept)
        self._advance(attempt, steps)
        self.script = {}

    def _advance(self, attempt: Attempt, steps: int) -> None:
        for _ in range(steps):
            if attempt.is_over:
                break
            attempt.advance()

    @precondition(lambda self: self._live())
    @rule(data=st.data(), kept=st.integers(0, 4))
    def kill(self, data: st.DataObject, kept: int) -> None:
        self.world.sent_before_loss = lambda count: min(count, kept)
        data.draw(st.sampled_from(self.attempts)).end()

    @rule(data=st.data(), count=st.integers(1, 3))
    def receive(self, data: st.DataObject, count: int) -> None:
        if self.world.lines:
            line = data.draw(st.sampled_from(self.world.lines))
            self.world.receive(line, min(count, len(line.on_the_way)))

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        ready = [run for run in self.runs if len(run.done) == len(run.parts)]
        if ready:
            self._commit(data.draw(st.sampled_from(ready)))

    def _commit(self, run: DriverRun) -> None:
        rows = sum(done["rows"] for done in run.done.values())
        digest = sum(done["digest"] for done in run.done.values()) & DIGEST_MASK
        try:
            begun = self.world.begun.get((WRITE, BATCH))
            if begun is not None and begun.is_again and self.mode != "column":
                stored = {one for one, _ in self.world.stream[begun.bases[STREAM].sequence :]}
                check_partitions(Place(WRITE, BATCH, 0), len(run.parts), stored)
            found = self.world.commit(WRITE, BATCH, rows, digest)
            check_commit(WRITE, STREAM, found, Committed(BATCH, rows, digest, 0))
        except SinkError:
            return
        expected = Counter(row for part in run.parts for row in part)
        assert self._stored() == expected, "committed"
        self.committed = expected

    # What must hold.

    def _messages(self) -> list[tuple[bytes, bytes]]:
        return [message for message in self.world.stream if not message[0].startswith(b"theirs-")]

    def _stored(self) -> Counter[str]:
        return Counter(data.decode() for _, data in self._messages())

    @invariant()
    def no_id_is_stored_twice(self) -> None:
        ids = [msg_id for msg_id, _ in self._messages()]
        assert len(ids) == len(set(ids))

    @invariant()
    def what_was_committed_stays_as_it_is(self) -> None:
        assert self.committed in (None, self._stored())

    def teardown(self) -> None:
        """A last driver, undisturbed: it gets through when all had the same rows. Then the late ones go on."""
        if not self.runs:
            return
        for attempt in self._live():
            if attempt.run is not self.runs[-1]:
                attempt.end()
        for line in self.world.lines:
            self.world.receive(line)
        last = self.runs[-1]
        for partition in range(len(last.parts)):
            for attempt in self._live():
                self._advance(attempt, STEPS_MAX)
            if partition not in last.done and not last.refusal:
                attempt = Attempt(self, last, partition, 7, 9)
                self._advance(attempt, STEPS_MAX)
                assert attempt.is_over, attempt.task.step
        if len(last.done) == len(last.parts):
            self._commit(last)
        elif self.gets_through and all(run.parts == last.parts for run in self.runs):
            raise AssertionError(f"the same rows were refused: {last.refusal}")
        self.no_id_is_stored_twice()
        self.what_was_committed_stays_as_it_is()


class OneCluster(SinkMachine):
    """Rows by content; each run has the same ones in the same partitions."""


class ChangedTransformation(SinkMachine):
    """Rows by content; later runs may have other ones in the same partitions."""

    kinds = ("same", "other")


class OtherPartitions(SinkMachine):
    """Rows by content, which Spark may put into other partitions each time. Equal ones may look as if moved."""

    keeps_partitions = gets_through = False
    kinds = ("same", "moved", "moved", "other")


class ByPosition(SinkMachine):
    """Rows by their place: the same, others, or in other places."""

    mode = "position"
    keeps_partitions = False
    kinds = ("same", "moved", "other")


class ByColumn(SinkMachine):
    """Rows with ids of their own, in whatever partition they come."""

    mode = "column"
    keeps_partitions = False
    kinds = ("same", "moved")


class BelievingTask(SinkTask):
    """What version 0.1.0 did: an attempt that came to the end of its rows is believed to have had all of them."""

    def _is_noted(self) -> bool:
        super()._is_noted()
        note = None if self._claim is None else self._claim.note
        self._summary = None if note is None else note.summary
        return note is not None


class SendingTask(SinkTask):
    """One that sends all its rows, whatever is stored."""

    def _compare(self, line: Any) -> Step:
        self._sender.resume(line.publish, set())
        return Step.SEND


@pytest.mark.parametrize("broken", [BelievingTask, SendingTask])
def test_a_task_that_breaks_the_rule_is_found(broken: type[SinkTask]) -> None:
    class Broken(OneCluster):
        task_type = broken

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Broken, settings=settings(max_examples=1000, phases=[Phase.generate]))


@pytest.mark.long
@pytest.mark.parametrize("machine", [OneCluster, ChangedTransformation, OtherPartitions, ByPosition, ByColumn])
def test_every_row_of_a_committed_batch_is_stored_exactly_once(machine: type[SinkMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=30))
