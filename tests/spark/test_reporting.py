"""Progress of queries, reported into a bucket that the dashboard reads."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jetspark.client.sync import Connection, connect
from jetspark.errors import JetsparkError
from jetspark.server.dashboard.pipelines import BUCKET as SHOWN_BUCKET
from jetspark.server.embedded import serve
from jetspark.spark import report_writer
from jetspark.spark.pipelines.graph import JETSTREAM, Flow, Graph, Input
from jetspark.spark.pipelines.run_reports import RunReports
from jetspark.spark.pipelines.status import FlowStatus, Status, StreamStatus
from jetspark.spark.report_writer import BUCKET, Reports, key_of
from jetspark.spark.reporting import ProgressReporter, sink_name, sources_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stored(url: str) -> dict[str, dict[str, Any]]:
    """Every report in the bucket, by key."""
    with connect(url) as client:
        bucket = client.jetstream().key_value(BUCKET)
        return {key: json.loads(bucket.get(key).value) for key in bucket.keys()}  # noqa: SIM118 (a bucket is no dict)


def test_reports_go_where_the_dashboard_looks() -> None:
    assert BUCKET == SHOWN_BUCKET


@pytest.mark.parametrize(
    ("name", "key"),
    [("orders", "orders"), ("Orders → archive", "Orders_archive"), ("a.b/c", "a.b/c"), ("é", "_"), ("", "_")],
)
def test_a_name_becomes_a_key(name: str, key: str) -> None:
    assert key_of(name) == key


def test_sources_are_read_from_end_offsets_and_others_are_passed_over() -> None:
    ours = json.dumps({"v": 1, "streams": {"ORDERS": {"seq": 12}, "PAYMENTS": {"seq": 3}}})

    assert sources_of([ours, None, "17", "not json", '{"streams": 3}']) == [
        {"stream": "ORDERS", "end_seq": 12},
        {"stream": "PAYMENTS", "end_seq": 3},
    ]


def test_a_sink_is_named_in_a_word() -> None:
    assert sink_name("org.apache.spark.sql.execution.streaming.ConsoleTable$@4f2") == "ConsoleTable$"
    assert sink_name("FileSink[file:/data/archive]") == "FileSink"
    assert sink_name("") == ""


def test_the_newest_report_of_each_name_is_in_the_bucket_after_closing() -> None:
    with serve() as server:
        reports = Reports(lambda: connect(server.url))
        for batch in range(50):
            reports.put("archive", {"batch": batch})
        reports.put("alerts", {"batch": 1})
        reports.close()
        reports.put("too late", {})

        assert stored(server.url) == {
            "archive": {"name": "archive", "batch": 49},
            "alerts": {"name": "alerts", "batch": 1},
        }


def test_a_report_that_could_not_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_writer, "RETRY_S", 0.01)
    with serve() as server:
        tries = []

        def connect_at_last() -> Connection:
            tries.append(1)
            if len(tries) < 3:
                raise JetsparkError("nobody there")
            return connect(server.url)

        reports = Reports(connect_at_last)
        reports.put("archive", {"batch": 1})
        with connect(server.url) as client:
            found = until_found(client)
        reports.close()

    assert found == {"name": "archive", "batch": 1}
    assert len(tries) == 3


def until_found(client: Connection) -> dict[str, Any]:
    """The first report that comes into a bucket made here, which the reports will find."""
    bucket = client.jetstream().create_key_value(BUCKET)
    with bucket.watch("archive") as watcher:
        while True:
            entry = watcher.next(timeout=10)
            if entry is not None:
                document: dict[str, Any] = json.loads(entry.value)
                return document


def test_a_server_that_stays_away_is_mentioned_once_and_does_no_harm(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_writer, "RETRY_S", 0.001)
    enough = threading.Event()
    tries = []

    def refused() -> Connection:
        tries.append(1)
        if len(tries) > 3 * report_writer.FAILURES_TO_TELL:
            enough.set()
        raise JetsparkError("nobody there")

    caplog.set_level(logging.WARNING, "jetspark.spark")
    reports = Reports(refused)
    reports.put("one", {})
    assert enough.wait(10)
    reports.close()

    assert len([record for record in caplog.records if "cannot report the progress" in record.message]) == 1


def test_a_declared_pipeline_reports_each_flow_that_reads_a_stream() -> None:
    with serve() as server:
        read = Input("ORDERS", JETSTREAM, {"servers": server.url, "stream": "ORDERS"}, True)
        flows = (Flow("db.archive", "archive", (read,), ""), Flow("db.totals", "totals", (), ""))
        reports = RunReports(Graph("shop", (), flows))
        status = Status("shop", None, [FlowStatus("db.archive", "archive", 3, "", [StreamStatus("ORDERS", 100)])])
        reports.take(status, 10.0)
        status.flows[0].streams[0].done = 300
        reports.take(status, 12.0)
        reports.end("failed", "no such column")

        found = stored(server.url)

    assert found == {
        "shop.archive": {
            "name": "shop.archive",
            "state": "failed",
            "batch": 3,
            "processed_rows_per_second": 0,
            "sources": [{"stream": "ORDERS", "end_seq": 300}],
            "sink": "archive",
            "error": "no such column",
        }
    }


def test_a_pipeline_without_streams_reports_to_nobody() -> None:
    reports = RunReports(None)

    reports.take(Status("shop", None, [FlowStatus("f", "t", 1, "", [StreamStatus("ORDERS", 1)])]), 1.0)

    reports.end("finished")

    assert "jetspark-reports" not in [thread.name for thread in threading.enumerate()]


def test_a_query_is_reported_while_it_runs_and_when_it_ended(spark: SparkSession, tmp_path: Path) -> None:
    with serve() as server:
        with connect(server.url) as client:
            streams = client.jetstream()
            streams.create_stream("ORDERS", subjects=["orders.*"])
            for number in range(20):
                streams.publish("orders.new", b"%d" % number)
        ended = threading.Event()

        class Told(ProgressReporter):
            """Spark tells its listeners a moment after the query has ended."""

            def onQueryTerminated(self, event: Any) -> None:
                super().onQueryTerminated(event)
                ended.set()

        reporter = Told(server.url)
        spark.streams.addListener(reporter)
        try:
            rows = spark.readStream.format("jetstream").option("servers", server.url).option("stream", "ORDERS").load()
            query = (
                rows.writeStream.queryName("archive")
                .option("checkpointLocation", str(tmp_path / "state"))
                .format("parquet")
                .option("path", str(tmp_path / "table"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            assert ended.wait(20)
        finally:
            spark.streams.removeListener(reporter)
            reporter.close()

        report = stored(server.url)["archive"]

    assert report["state"] == "stopped"
    assert report["sources"] == [{"stream": "ORDERS", "end_seq": 20}]
    # An empty look at the stream may have followed the batch.
    assert report["input_rows"] in (0, 20)
    assert report["batch_duration_ms"] >= 0
    assert report["sink"] == "FileSink"
