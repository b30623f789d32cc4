"""Progress of queries and pipelines, written where the dashboard and anybody else can read it.

    spark.streams.addListener(jetspark.spark.ProgressReporter("nats://127.0.0.1:4222"))

Decided here: what of Spark's progress a report says (docs/dashboard.md lists the fields). How it is written is
`report_writer`'s; who reads it is not known.
"""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from jetspark.spark.report_writer import Reports

if TYPE_CHECKING:
    from jetspark.client.sync import Connection

# Spark tells its listeners of a query's end a moment after `stop` has come back.
END_TIMEOUT_S: Final = 3.0


class ProgressReporter(StreamingQueryListener):
    """A listener that reports every streaming query of a session to the server, so that the dashboard shows it.

    Takes the servers and options of `jetspark.sync.connect`. Works in classic sessions and with Spark Connect.
    """

    def __init__(self, servers: str | list[str], **options: Any) -> None:
        def connect() -> Connection:
            from jetspark.client.sync import connect as connected

            return connected(servers, **{"name": "jetspark-spark reports", **options})

        self._reports = Reports(connect)
        self._changed = threading.Condition()
        # The newest report of each run, and the name it goes under.
        self._known: dict[str, tuple[str, dict[str, Any]]] = {}

    def close(self) -> None:
        """Write the last reports and stop. Waits for queries that were just stopped."""
        with self._changed:
            self._changed.wait_for(lambda: not self._known, END_TIMEOUT_S)
        self._reports.close()

    def _put(self, run: str, name: str, report: dict[str, Any]) -> None:
        with self._changed:
            known = self._known.get(run)
            name = known[0] if known is not None else name
            whole = {**(known[1] if known is not None else {}), **report}
            self._known[run] = (name, whole)
        self._reports.put(name, whole)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """A query begins; nothing is known of its batches yet."""
        run = str(event.runId)
        report = {"state": "running", "run_id": run, "started": str(event.timestamp)}
        self._put(run, event.name or str(event.id), report)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch is done."""
        progress = event.progress
        report = {
            "state": "running",
            "batch": progress.batchId,
            "input_rows": progress.numInputRows,
            "input_rows_per_second": _number(progress.inputRowsPerSecond),
            "processed_rows_per_second": _number(progress.processedRowsPerSecond),
            "batch_duration_ms": (progress.durationMs or {}).get("triggerExecution", progress.batchDuration),
            "sources": sources_of([source.endOffset for source in progress.sources]),
            "sink": sink_name(progress.sink.description),
        }
        self._put(str(progress.runId), progress.name or str(progress.id), report)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing new to read: say that it still runs."""
        self._put(str(event.runId), str(event.id), {"state": "waiting"})

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The query ended by itself, was stopped, or failed."""
        run = str(event.runId)
        error = (event.exception or "").strip().splitlines()
        self._put(run, str(event.id), {"state": "failed", "error": error[0]} if error else {"state": "stopped"})
        with self._changed:
            self._known.pop(run, None)
            self._changed.notify_all()


def _number(value: float | None) -> float | None:
    """Spark says NaN or infinity for a rate nobody can know, which JSON cannot hold."""
    return value if value is not None and abs(value) < 1e15 else None


def sources_of(offsets: list[str | None]) -> list[dict[str, Any]]:
    """Which stream was read up to which sequence, from the end offsets of a batch; other sources say nothing here."""
    found: list[dict[str, Any]] = []
    for text in offsets:
        try:
            document = json.loads(text or "{}")
        except ValueError:
            continue
        streams = document.get("streams") if isinstance(document, dict) else None
        for name, position in (streams if isinstance(streams, dict) else {}).items():
            found.append({"stream": name, "end_seq": int(position["seq"])})
    return found


def sink_name(description: str) -> str:
    """A sink in a few words: Spark's description without its class path and settings."""
    return re.split(r"[\[(@{]", description, maxsplit=1)[0].rpartition(".")[2][:60]
