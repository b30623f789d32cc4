"""Watching a declared pipeline run: rows, rate, lag and time left, and its end after the batch on Ctrl-C.

Spark tells nothing of a flow's progress to the one who started the run, but its checkpoints do: what is committed, and
what was begun. The server says what is left. So a run is watched from outside, as `status` looks at one that is over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetspark.clock import Clock, SystemClock
from jetspark.errors import JetsparkError
from jetspark.spark.pipelines.run_reports import RunReports
from jetspark.spark.pipelines.status import Checkpoint, Status, read_checkpoints, read_status
from jetspark.spark.streaming import Interrupts, duration_words

if TYPE_CHECKING:
    from jetspark.spark.pipelines.graph import Graph
    from jetspark.spark.pipelines.launch import PipelineRun

LOOK_EVERY_S = 2.0
STILL_EVERY_S = 0.3


@dataclass
class Meter:
    """Turns what is done at some moments into a rate."""

    started_s: float
    first: int | None = None
    seen: tuple[int, int] | None = None

    def line(self, status: Status, now_s: float) -> str | None:
        """One line, or None when nothing is new."""
        streams = [stream for flow in status.flows for stream in flow.streams]
        done = sum(stream.done for stream in streams)
        if not streams:
            return None
        if self.first is None:
            # Where this run began; what earlier runs did is not this one's speed.
            self.first = done
        behind = sum(stream.behind or 0 for stream in streams)
        rows = done - self.first
        if not rows:
            # Spark takes its time to start, which is not the speed of the run.
            self.started_s = now_s
        rate = rows / max(now_s - self.started_s, 0.001)
        line = f"{rows:,} messages, {rate:,.0f} messages/s, lag {behind:,}"
        if behind:
            line += f", {duration_words(behind / rate if rows else None)} left"
        is_news = (rows, behind) != self.seen
        self.seen = (rows, behind)
        return line if is_news else None


def batches_running(checkpoints: dict[str, Checkpoint]) -> dict[str, int]:
    """The batches that were begun and are not done, by flow."""
    return {flow: one.planned for flow, one in checkpoints.items() if one.is_running}


def all_done(waited: dict[str, int], checkpoints: dict[str, Checkpoint]) -> bool:
    """Whether the batches that were waited for are committed."""
    return all(flow in checkpoints and checkpoints[flow].batch >= batch for flow, batch in waited.items())


def watch(
    run: PipelineRun,
    graph: Graph | None,
    say: Callable[[str], None],
    interrupts: Interrupts,
    clock: Clock | None = None,
) -> bool:
    """Watch a run to its end, saying how it goes; whether it was interrupted."""
    clock = clock or SystemClock()
    meter, reports = Meter(clock.monotonic_ns() / 1e9), RunReports(graph)
    while not run.wait(LOOK_EVERY_S if not interrupts.count else STILL_EVERY_S):
        if interrupts.count:
            _end(run, interrupts, say)
            reports.end("stopped")
            return True
        _say_progress(run, graph, meter, reports, say, clock)
    # A short run may be over before anybody looked.
    _say_progress(run, graph, meter, reports, say, clock)
    reports.end("finished" if run.outcome.status == 0 else "failed", run.outcome.error)
    return False


def _say_progress(
    run: PipelineRun,
    graph: Graph | None,
    meter: Meter,
    reports: RunReports,
    say: Callable[[str], None],
    clock: Clock,
) -> None:
    if graph is None:
        return
    try:
        status = read_status(run.project, graph)
    except (JetsparkError, OSError):
        # A checkpoint may be half written at any moment, and a picture of progress is not worth a run.
        return
    now_s = clock.monotonic_ns() / 1e9
    reports.take(status, now_s)
    line = meter.line(status, now_s)
    if line is not None:
        say(line)


def _end(run: PipelineRun, interrupts: Interrupts, say: Callable[[str], None]) -> None:
    """End a run when the batches that are running are done, or at once when asked a second time."""
    waited = batches_running(_checkpoints(run) or {})
    if waited:
        say(f"Ending after the batch of {', '.join(sorted(waited))}. Press Ctrl-C again to end now.")
    while waited and interrupts.count < 2 and not run.wait(STILL_EVERY_S):
        now = _checkpoints(run)
        if now is not None and all_done(waited, now):
            break
    run.stop()


def _checkpoints(run: PipelineRun) -> dict[str, Checkpoint] | None:
    """The checkpoints, or None when they cannot be read at this moment."""
    try:
        return read_checkpoints(run.project.checkpoints_uri)
    except (JetsparkError, OSError):
        return None
