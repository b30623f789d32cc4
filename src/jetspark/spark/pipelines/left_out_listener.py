"""Hears in the process of a run what its queries leave out, and prints a line for each batch that does.

Spark's pipeline command tells nothing of it. Only that process loads this, because it needs Spark; `launch` reads the
lines.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql.session import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from jetspark.spark.left_out import left_out_of, line_of

EVENTS_TIMEOUT_MS = 10_000


class LeftOutListener(StreamingQueryListener):
    """Prints what a batch leaves out."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing was left out yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch is done."""
        # Spark makes it a dictionary, whatever its types say.
        progress: Any = event.progress
        left_out = left_out_of(progress)
        if left_out:
            # In one piece: another thread prints the events of the run.
            sys.stdout.write(line_of(event.progress.name or "", left_out) + "\n")
            sys.stdout.flush()

    def onQueryIdle(self, event: Any) -> None:
        """Nothing new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Its last batch was told before."""


@contextlib.contextmanager
def listening(session: Any) -> Iterator[None]:
    """Hear of every batch of a run; at the end, of those too that Spark has not told yet."""
    listener = LeftOutListener()
    session.streams.addListener(listener)
    try:
        yield
    finally:
        driver: Any = SparkSession._instantiatedSession
        if driver is not None:
            # What cannot be told in time is not worth a run.
            with contextlib.suppress(Py4JError):
                driver._jsc.sc().listenerBus().waitUntilEmpty(EVENTS_TIMEOUT_MS)
        session.streams.removeListener(listener)
