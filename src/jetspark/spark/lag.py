"""Lag of streaming queries, told and exported: a listener that reads what the source reports with every batch.

    spark.streams.addListener(jetspark.spark.LagListener(metrics_file="/var/lib/node_exporter/jetspark.prom"))

Messages are sequences after the end of the batch that was just done (of all subjects, also when the query reads only
some); seconds are how long the oldest of them has been waiting. Works in classic sessions and over Spark Connect.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from jetspark.client.errors import BadOptionError
from jetspark.spark.lag_report import MESSAGES, SECONDS


@dataclass(frozen=True)
class StreamLag:
    """The lag of one query in one stream."""

    query: str
    stream: str
    messages: int
    seconds: float
    sequence: int
    """The last sequence the query has read."""


# The name of a gauge, the field it shows, and what it means.
_GAUGES = (
    ("jetspark_spark_lag_messages", "messages", "Messages a query has not read yet."),
    ("jetspark_spark_lag_seconds", "seconds", "How long the oldest message a query has not read has been waiting."),
    ("jetspark_spark_sequence", "sequence", "The last sequence a query has read."),
)


def lags_of(query: str, sources: list[tuple[str, str]]) -> list[StreamLag]:
    """The lags in a progress report, from each source's end offset and reported latest offset, as JSON."""
    found = []
    for end_text, latest_text in sources:
        end, latest = _document(end_text), _document(latest_text)
        for stream, one in (latest.get("streams") or {}).items():
            position = (end.get("streams") or {}).get(stream)
            if MESSAGES in one and position is not None:
                found.append(StreamLag(query, stream, int(one[MESSAGES]), float(one[SECONDS]), int(position["seq"])))
    return found


def _document(text: str | None) -> dict[str, Any]:
    """A source's offset; empty when there is none, or it is not one of ours."""
    try:
        document = json.loads(text or "{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def metrics_text(lags: list[StreamLag]) -> str:
    """The lags in Prometheus' text form."""
    lines = []
    for name, field, what in _GAUGES:
        lines += [f"# HELP {name} {what}", f"# TYPE {name} gauge"]
        for one in lags:
            labels = f'query="{_quoted(one.query)}",stream="{_quoted(one.stream)}"'
            lines.append(f"{name}{{{labels}}} {getattr(one, field)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class LagListener(StreamingQueryListener):
    """A listener that prints and exports the lag of every query after each batch.

    `out` is where it prints: standard error, or None for nowhere. `metrics_file` is written anew after each batch, in
    Prometheus' text format. `on_lag` is called with each `StreamLag`.
    """

    def __init__(
        self,
        out: TextIO | None = sys.stderr,
        metrics_file: str | Path | None = None,
        on_lag: Callable[[StreamLag], Any] | None = None,
    ) -> None:
        self._out = out
        self._metrics_file = None if metrics_file is None else Path(metrics_file).absolute()
        if self._metrics_file is not None and not self._metrics_file.parent.is_dir():
            # Spark only logs what goes wrong in a listener.
            raise BadOptionError(f"metrics_file: there is no folder {self._metrics_file.parent}")
        self._on_lag = on_lag
        self._lock = threading.Lock()
        # By the query's run and the stream.
        self._lags: dict[tuple[str, str], StreamLag] = {}

    @property
    def lags(self) -> list[StreamLag]:
        """The current lag of each query and stream."""
        with self._lock:
            return list(self._lags.values())

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch is done, or the query is idle."""
        progress = event.progress
        run = str(progress.runId)
        sources = [(source.endOffset, source.latestOffset) for source in progress.sources]
        for lag in lags_of(progress.name or run, sources):
            with self._lock:
                self._lags[run, lag.stream] = lag
            self._tell(lag)
        self._export()

    def onQueryIdle(self, event: Any) -> None:
        """Nothing new: what was told last still holds."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """A query that ended is not behind."""
        run = str(event.runId)
        with self._lock:
            self._lags = {key: lag for key, lag in self._lags.items() if key[0] != run}
        self._export()

    def _tell(self, lag: StreamLag) -> None:
        if self._out is not None:
            behind = f"{lag.messages} messages, {lag.seconds:g} s behind" if lag.messages else "up to date"
            self._out.write(f"{lag.query}: {lag.stream} at sequence {lag.sequence}, {behind}\n")
            self._out.flush()
        if self._on_lag is not None:
            self._on_lag(lag)

    def _export(self) -> None:
        if self._metrics_file is None:
            return
        fresh = self._metrics_file.with_name(f"{self._metrics_file.name}.{os.getpid()}")
        fresh.write_text(metrics_text(self.lags), encoding="utf-8")
        # A reader sees the old file or the new one, never half of one.
        fresh.replace(self._metrics_file)
