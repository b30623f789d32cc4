"""Progress of queries and pipelines, written where the dashboard and anybody else can read it.

    spark.streams.addListener(jetspark.spark.ProgressReporter("nats://127.0.0.1:4222"))

Decided here: which key a report has, what of Spark's progress it says (docs/dashboard.md lists the fields), and that a
report is never worth a query: it is written by a thread of its own, the newest wins, and one that cannot be written is
logged and left. Not known here: who reads it.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from jetspark.client.errors import BucketNotFoundError
from jetspark.errors import JetsparkError

if TYPE_CHECKING:
    from jetspark.client.sync import Connection, KeyValue

BUCKET: Final = "jetspark_pipelines"
# A pipeline that has been over for a day is of no interest any more.
TTL_S: Final = 24 * 3600
CLOSE_TIMEOUT_S: Final = 5.0
_KEY: Final = re.compile(r"[^-/_=.a-zA-Z0-9]+")

log = logging.getLogger("jetspark.spark")


def key_of(name: str) -> str:
    """A key for a name: what a key cannot hold becomes an underscore."""
    return _KEY.sub("_", name).strip(".") or "_"


class Reports:
    """Writes reports to one server, in the background. Call `close` to have the last ones written."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._waiting: dict[str, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._bucket: KeyValue | None = None
        self._has_failed = False

    def put(self, name: str, report: dict[str, Any]) -> None:
        """Write this report soon, in the place of one that still waits."""
        with self._changed:
            if self._is_closing:
                return
            self._waiting[name] = {"name": name, **report}
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jetspark-reports", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, within a few seconds, and let go of the connection."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_closing:
                    self._changed.wait()
                waiting, self._waiting = self._waiting, {}
                is_closing = self._is_closing
            for name, report in waiting.items():
                self._write(name, report)
            if is_closing:
                self._drop()
                return

    def _write(self, name: str, report: dict[str, Any]) -> None:
        try:
            if self._bucket is None:
                self._connection = self._connect()
                self._bucket = _bucket(self._connection)
            self._bucket.put(key_of(name), json.dumps(report))
            self._has_failed = False
        except (JetsparkError, OSError) as error:
            # Once is enough: a server that cannot be told will often not be told.
            level = logging.DEBUG if self._has_failed else logging.WARNING
            log.log(level, "cannot report the progress of %s: %s", name, error)
            self._has_failed = True
            self._drop()

    def _drop(self) -> None:
        connection, self._connection, self._bucket = self._connection, None, None
        if connection is not None:
            try:
                connection.close()
            except (JetsparkError, OSError) as error:
                log.debug("closing the connection of reports: %s", error)


def _bucket(connection: Connection) -> KeyValue:
    streams = connection.jetstream()
    try:
        return streams.key_value(BUCKET)
    except BucketNotFoundError:
        return streams.create_key_value(BUCKET, ttl=TTL_S, storage="memory")


class ProgressReporter(StreamingQueryListener):
    """Reports every streaming query of a session, so that the dashboard shows it.

    Takes the servers and options of `jetspark.sync.connect`. Works in classic sessions and over Spark Connect.
    """

    def __init__(self, servers: str | list[str], **options: Any) -> None:
        def connect() -> Connection:
            from jetspark.client.sync import connect as connected

            return connected(servers, **{"name": "jetspark-spark reports", **options})

        self._reports = Reports(connect)
        self._lock = threading.Lock()
        # The newest report of each run, and the name it goes under.
        self._known: dict[str, tuple[str, dict[str, Any]]] = {}

    def close(self) -> None:
        """Have the last reports written; afterwards nothing is."""
        self._reports.close()

    def _put(self, run: str, name: str, report: dict[str, Any]) -> None:
        with self._lock:
            known = self._known.get(run)
            name = known[0] if known is not None else name
            whole = {**(known[1] if known is not None else {}), **report}
            self._known[run] = (name, whole)
        self._reports.put(name, whole)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """A query begins; nothing is known of its batches yet."""
        run = str(event.runId)
        report = {"state": "running", "run_id": run, "started": str(event.timestamp)}
        self._put(run, event.name or str(event.id), report)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
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

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing new to read: say that it still runs."""
        self._put(str(event.runId), str(event.id), {"state": "waiting"})

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The query ended by itself, was stopped, or failed."""
        run = str(event.runId)
        error = (event.exception or "").strip().splitlines()
        self._put(run, str(event.id), {"state": "failed", "error": error[0]} if error else {"state": "stopped"})
        with self._lock:
            self._known.pop(run, None)


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
