"""Long-running streams: starting a query, watching it, and ending it without cutting a batch in two.

    query = pipelines.archive(spark, "ORDERS", "archive", checkpoint="state", every="10 seconds")
    follow(query)

A thin layer over Spark's structured streaming: the query, its checkpoint and its trigger are Spark's. Decided here:
what a person watching is told (rows, rate, lag, time left), and that Ctrl-C waits for the batch that is running, while
a second Ctrl-C does not.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jetspark.spark.lag_report import MESSAGES, SECONDS
from jetspark.spark.left_out import LeftOut, left_out_of

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

POLL_S = 0.2
# A rate of one batch says little; this much of the old rate is kept with each.
RATE_MEMORY = 0.7

log = logging.getLogger("jetspark.spark")


def start(writer: DataStreamWriter, name: str, checkpoint: str | Path, every: str | None = None) -> StreamingQuery:
    """Start a query that processes what is there now and ends; or, with `every` (such as "10 seconds"), one that runs
    until it is stopped.
    """
    chosen = writer.queryName(name).option("checkpointLocation", str(checkpoint))
    chosen = chosen.trigger(availableNow=True) if every is None else chosen.trigger(processingTime=every)
    return chosen.start()


def query_id(spark: SparkSession, checkpoint: str | Path) -> str:
    """The id of the query a checkpoint belongs to: the same after every restart, another one for a new checkpoint."""
    try:
        text = (Path(checkpoint) / "metadata").read_text(encoding="utf-8")
    except OSError:
        # On another file system, which Spark knows.
        text = spark.read.text(f"{checkpoint}/metadata").collect()[0][0]
    return str(json.loads(text)["id"])


@dataclass
class Watched:
    """What is known about a query from the progress Spark reports."""

    rows: int = 0
    batches: int = 0
    rate: float = 0.0
    """Rows a second, smoothed."""
    behind: int = 0
    behind_s: float = 0.0
    positions: dict[str, int] = field(default_factory=dict)
    last_batch: int = -1
    left_out: LeftOut = LeftOut()

    def take(self, progress: Mapping[str, Any]) -> bool:
        """Take in one report; whether it was news. The same report may be given again and again, as Spark does."""
        batch = int(progress["batchId"])
        # While it is idle Spark reports the batch that will come next, which nothing was done for yet.
        if batch <= self.last_batch or "addBatch" not in progress["durationMs"]:
            return False
        self.last_batch = batch
        count = int(progress.get("numInputRows") or 0)
        self.rows += count
        self.batches += 1
        self.left_out += left_out_of(progress)
        rate = float(progress.get("processedRowsPerSecond") or 0.0)
        if count:
            self.rate = rate if not self.rate else RATE_MEMORY * self.rate + (1 - RATE_MEMORY) * rate
        self.behind, self.behind_s = 0, 0.0
        for source in progress.get("sources", []):
            self._take_source(source)
        return True

    def _take_source(self, source: Mapping[str, Any]) -> None:
        for one in _streams(source.get("latestOffset")).values():
            self.behind += int(one.get(MESSAGES, 0))
            self.behind_s = max(self.behind_s, float(one.get(SECONDS, 0.0)))
        for name, one in _streams(source.get("endOffset")).items():
            self.positions[name] = int(one["seq"])

    @property
    def left_s(self) -> float | None:
        """How long the messages that wait will take at this rate; None when nobody can say."""
        if not self.behind:
            return 0.0
        return self.behind / self.rate if self.rate else None

    def line(self) -> str:
        """One line for a person."""
        text = f"batch {self.last_batch}: {self.rows:,} rows, {self.rate:,.0f} rows/s, lag {self.behind:,} messages"
        if self.behind and self.behind_s:
            text += f" ({self.behind_s:,.0f} s)"
        if self.behind:
            text += f", {duration_words(self.left_s)} left"
        if self.left_out:
            text += f", at least {self.left_out.late + self.left_out.ahead:,} rows left out"
        return text

    def where(self) -> str:
        """Up to which sequence of each stream everything is done."""
        return ", ".join(f"{name} up to sequence {sequence:,}" for name, sequence in sorted(self.positions.items()))


def _streams(offset: Any) -> dict[str, Any]:
    """The streams in an offset as Spark reports it: a document, its text, or something of another source."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    found = offset.get("streams") if isinstance(offset, dict) else None
    return found if isinstance(found, dict) else {}


def duration_words(duration_s: float | None) -> str:
    """`45 s`, `12 min`, `3 h 20 min`; unknown times are unknown."""
    if duration_s is None:
        return "unknown time"
    if duration_s < 90:
        return f"{duration_s:.0f} s"
    minutes = round(duration_s / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


class Interrupts:
    """Ctrl-C and SIGTERM as something to look at: the first asks for an end after the batch, the second for one now."""

    def __init__(self) -> None:
        self.count = 0
        self.signal_number = 0
        """The first that came."""

    def _noticed(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.signal_number = self.signal_number or number

    @contextmanager
    def watching(self) -> Iterator[Interrupts]:
        """Take the signals over for a while. Only the main thread may; elsewhere nothing is taken over."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        # pyspark's own handler cancels every job at once, and SIGTERM would leave a run behind without its watcher.
        before = {number: signal.signal(number, self._noticed) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@dataclass(frozen=True)
class Ended:
    """How a followed query ended."""

    watched: Watched
    interrupted: bool


def follow(query: StreamingQuery, say: Callable[[str], None] | None = None) -> Ended:
    """Show the progress of a query until it ends. Ctrl-C or SIGTERM stops it after the current batch, and tells you how
    to resume.

    `say` gets the lines; by default they go to standard error. If the query fails, its error is raised here.
    """
    tell = say or (lambda text: print(text, file=sys.stderr, flush=True))  # noqa: T201 - for a person who watches
    watched = Watched()
    told = 0
    with Interrupts().watching() as interrupts:
        # Spark takes fractions of a second, whatever its types say.
        wait: Any = query.awaitTermination
        while not wait(POLL_S):
            _take_all(query, watched, tell)
            if interrupts.count and not told:
                told = 1
                asked_batch = watched.last_batch
                tell("Ending after the batch that is running. Press Ctrl-C again to end now.")
            if told and (interrupts.count > 1 or _between_batches(query, watched, asked_batch)):
                query.stop()
                break
    _take_all(query, watched, tell)
    tell(_last_words(query, watched, interrupts.count > 0))
    return Ended(watched, interrupts.count > 0)


def _take_all(query: StreamingQuery, watched: Watched, tell: Callable[[str], None]) -> None:
    for progress in query.recentProgress:
        had_left_out = bool(watched.left_out)
        if watched.take(progress):
            tell(watched.line())
            if watched.left_out and not had_left_out:
                tell(f"Warning: rows are left out for their time: {watched.left_out.words()}.")


def _between_batches(query: StreamingQuery, watched: Watched, asked_batch: int) -> bool:
    """Nothing is running, or what was running when the end was asked for is done."""
    return watched.last_batch > asked_batch or not query.status["isTriggerActive"]


def _last_words(query: StreamingQuery, watched: Watched, interrupted: bool) -> str:
    done = watched.where() or "nothing yet"
    if watched.left_out:
        done += f". Left out: {watched.left_out.words()}"
    if not interrupted:
        batches = "1 batch" if watched.batches == 1 else f"{watched.batches:,} batches"
        return f"Done: {watched.rows:,} rows in {batches}; {done}."
    return (
        f"Stopped after batch {watched.last_batch}: {watched.rows:,} rows; {done}. "
        "To resume, start it again with the same checkpoint: it goes on from there, without loss or repetition."
    )
