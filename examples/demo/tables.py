"""The Spark side: an archive table, live totals and an alerts stream, all from ORDERS."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jetspark.spark

from .story import ALERT_AMOUNT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

ORDER = "id string, country string, amount long"


class Tables:
    """Three streaming queries. They can be stopped and started again: their checkpoints know where they were."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self.archive_path = folder / "archive"
        self.queries: list[StreamingQuery] = []
        self.spark: SparkSession = jetspark.spark.session(
            "demo", master="local[2]", **{"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
        )
        self.spark.sparkContext.setLogLevel("ERROR")

    def start(self, *, until_now: bool = False) -> None:
        """Run on and on, or only up to what is there now."""
        trigger: dict[str, Any] = {"availableNow": True} if until_now else {"processingTime": "1 second"}
        self.queries = [
            self._archive().trigger(**trigger).start(),
            self._totals().trigger(**trigger).start(),
            self._alerts().trigger(**trigger).start(),
        ]

    def stop(self) -> None:
        for query in self.queries:
            query.stop()

    def finish(self) -> None:
        """Stop, then read what is left from the same checkpoints."""
        self.stop()
        self.start(until_now=True)
        for query in self.queries:
            query.awaitTermination(120)

    def failures(self) -> list[str]:
        return [f"{query.name}: {query.exception()}" for query in self.queries if query.exception() is not None]

    def _orders(self) -> DataFrame:
        reader = self.spark.readStream.format("jetstream")
        options = {"servers": self._url, "stream": "ORDERS", "startingOffsets": "earliest"}
        return reader.options(**options).load()

    def _processed(self) -> DataFrame:
        from pyspark.sql import functions as f

        done = self._orders().where("subject = 'ORDERS.processed'")
        parsed = done.select("timestamp", "data", f.from_json(f.col("data").cast("string"), ORDER).alias("order"))
        return parsed.select("timestamp", "data", "order.*")

    def _archive(self) -> Any:
        rows = self._orders().selectExpr("*", "to_date(timestamp) AS day")
        writer = rows.writeStream.queryName("archive").format("parquet").partitionBy("day", "subject")
        return writer.option("path", str(self.archive_path)).option("checkpointLocation", self._checkpoint("archive"))

    def _totals(self) -> Any:
        """Every ten seconds of every country: the newest total is the stream's only message of its subject."""
        from pyspark.sql import functions as f

        windows = (
            self._processed()
            .withWatermark("timestamp", "1 minute")
            .groupBy(f.window("timestamp", "10 seconds"), "country")
        )
        totals = windows.agg(f.count("*").alias("orders"), f.sum("amount").alias("amount")).selectExpr(
            "concat('TOTALS.', country, '.', unix_timestamp(window.start)) AS subject",
            "to_json(struct(country, window.start AS since, orders, amount)) AS data",
            # A total only grows, so its size names the row, whatever partition it comes from.
            "concat(country, '-', unix_timestamp(window.start), '-', orders) AS msg_id",
        )
        return self._into("TOTALS", totals, "totals").outputMode("update")

    def _alerts(self) -> Any:
        large = self._processed().where(f"amount > {ALERT_AMOUNT}")
        rows = large.selectExpr("concat('ALERTS.', country) AS subject", "data", "concat('alert-', id) AS msg_id")
        return self._into("ALERTS", rows, "alerts")

    def _into(self, stream: str, rows: DataFrame, name: str) -> Any:
        writer = rows.writeStream.queryName(name).format("jetstream")
        options = {"servers": self._url, "stream": stream, "checkpointLocation": self._checkpoint(name)}
        return writer.options(**options)

    def _checkpoint(self, name: str) -> str:
        return str(self._folder / "checkpoints" / name)
