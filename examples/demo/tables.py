"""The Spark side: an archive table, live totals and an alerts stream, all from ORDERS.

Three streaming queries of a few lines each. They can be stopped and started again: their checkpoints know where they
were.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import jetspark.spark
from jetspark.spark import pipelines, streaming

from .story import ALERT_AMOUNT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ORDER = "id string, country string, amount long"
STARTS = 5
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A Python worker on a busy machine may take a while to start.
    "spark.python.authenticate.socketTimeout": "90s",
}


class Tables:
    """The queries, and the session they run in."""

    def __init__(self, url: str, folder: Path) -> None:
        self._state = folder / "checkpoints"
        self.archive_path = folder / "archive"
        self.queries: list[StreamingQuery] = []
        # Four tries a task: the server will be away for a moment.
        conf = {**SETTINGS, "spark.jetspark.servers": url}
        self.spark: SparkSession = jetspark.spark.session("demo", master="local[2,4]", **conf)
        self.spark.sparkContext.setLogLevel("ERROR")
        # So that the dashboard shows how far each query is.
        self._reporter = jetspark.spark.ProgressReporter(url)
        self.spark.streams.addListener(self._reporter)

    def start(self, every: str) -> None:
        """Start the queries: from the first order, or from where their checkpoints are."""
        self.queries = []
        for begin in (self._archive, self._totals, self._alerts):
            # One after the other: Spark gives the Python process of a source ten seconds to come up, no more. On a busy
            # machine that may fail, and a query that failed before its first batch can simply be started again.
            for _ in range(STARTS):
                query = begin(every)
                while query.isActive and query.status["message"].startswith("Initializing"):
                    threading.Event().wait(0.1)
                if query.exception() is None:
                    break
            self.queries.append(query)

    def finish(self) -> None:
        """Wait until everything that is stored now has been through every query, then stop them."""
        from pyspark.errors import StreamingQueryException

        for query in self.queries:
            with contextlib.suppress(StreamingQueryException):  # `failures` has it.
                query.processAllAvailable()
        for query in self.queries:
            query.stop()

    def close(self) -> None:
        for query in self.queries:
            query.stop()
        self._reporter.close()
        self.spark.stop()

    def failures(self) -> list[str]:
        ended = [(query.name, query.exception()) for query in self.queries]
        return [f"{name}: {str(error).splitlines()[0]}" for name, error in ended if error is not None]

    def archived(self) -> list[int]:
        """The sequences in the archive."""
        rows = pipelines.read_archive(self.spark, self.archive_path).select("sequence").collect()
        return [row["sequence"] for row in rows]

    def _processed(self) -> DataFrame:
        messages = pipelines.read_messages(self.spark, "ORDERS", subjects="ORDERS.processed")
        return pipelines.json_fields(messages, ORDER, keep=("stream", "sequence", "timestamp", "data"))

    def _archive(self, every: str) -> StreamingQuery:
        """Every message, in Parquet by day and subject."""
        state = self._state / "archive"
        return pipelines.archive(self.spark, "ORDERS", self.archive_path, checkpoint=state, every=every)

    def _totals(self, every: str) -> StreamingQuery:
        """Orders and amounts of every ten seconds, as they grow: the newest total is its subject's only message."""
        from pyspark.sql import functions as f

        sums = {"orders": f.count("*"), "amount": f.sum("amount")}
        totals = pipelines.aggregate(self._processed(), sums, window="10 seconds", late="1 minute", by=["country"])

        def publish(changed: DataFrame, batch_id: int) -> None:
            subject = f.concat(f.lit("TOTALS."), f.col("country"), f.lit("."), f.unix_timestamp("window_start"))
            # A total only grows, so its size names it, whatever batch it comes from.
            key = ["country", "window_start", "orders"]
            messages = pipelines.as_messages(changed, subject=subject, key=key)
            options = pipelines.sink_options(self.spark, "TOTALS")
            messages.write.format("jetstream").options(**options).mode("append").save()

        writer = totals.writeStream.outputMode("update").foreachBatch(publish)
        return streaming.start(writer, "totals", self._state / "totals", every)

    def _alerts(self, every: str) -> StreamingQuery:
        """Large orders, each once, into a stream of their own."""
        rules = [pipelines.Rule("large", f"amount > {ALERT_AMOUNT}", "ALERTS.{country}")]
        alerts = pipelines.fan_out(self._processed(), rules)
        writer = alerts.writeStream.format("jetstream").options(**pipelines.sink_options(self.spark, "ALERTS"))
        return streaming.start(writer, "alerts", self._state / "alerts", every)
