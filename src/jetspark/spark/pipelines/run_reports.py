"""The progress of a declared pipeline's run, told to the server its streams are on, so that the dashboard shows it.

Decided here: one report for each flow that reads a stream, under the pipeline's and the flow's name. A run whose server
cannot be told runs all the same. How far the flows are is read by `status`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetspark.spark.pipelines.graph import JETSTREAM, Graph, Input
from jetspark.spark.report_writer import Reports

if TYPE_CHECKING:
    from jetspark.client.sync import Connection
    from jetspark.spark.pipelines.status import FlowStatus, Status


class RunReports:
    """The reports of one run."""

    def __init__(self, graph: Graph | None) -> None:
        inputs = [read for flow in graph.flows for read in flow.inputs] if graph is not None else []
        streams = [read for read in inputs if read.format == JETSTREAM and read.streaming]
        self._reports = Reports(lambda: _connect(streams[0])) if streams else None
        self._latest: dict[str, dict[str, Any]] = {}
        # By flow: when it was looked at, and what was done then.
        self._before: dict[str, tuple[float, int]] = {}

    def take(self, status: Status, now_s: float) -> None:
        """Report what is known now."""
        if self._reports is None:
            return
        for flow in status.flows:
            if flow.streams:
                name = f"{status.pipeline}.{flow.flow.rpartition('.')[2]}"
                self._latest[name] = self._report(name, flow, now_s)
                self._reports.put(name, self._latest[name])

    def _report(self, name: str, flow: FlowStatus, now_s: float) -> dict[str, Any]:
        done = sum(stream.done for stream in flow.streams)
        before_s, before = self._before.get(name, (now_s, done))
        self._before[name] = (now_s, done)
        rate = max(0, done - before) / (now_s - before_s) if now_s > before_s else None
        return {
            "state": "running",
            "batch": flow.batch,
            "processed_rows_per_second": rate,
            "sources": [{"stream": stream.stream, "end_seq": stream.done} for stream in flow.streams],
            "sink": flow.target,
        }

    def end(self, state: str, error: str = "") -> None:
        """The run is over: finished, stopped or failed."""
        if self._reports is None:
            return
        for name, report in self._latest.items():
            self._reports.put(name, {**report, "state": state, "error": error, "processed_rows_per_second": 0})
        self._reports.close()


def _connect(read: Input) -> Connection:
    """To the server of a stream that is read, as the source itself would."""
    from jetspark.spark.connections import new_connection
    from jetspark.spark.source_options import source_options

    return new_connection(source_options({**read.options, "numRetries": "0"}))
