"""Projects run by `jetspark pipeline` on real Spark: a run, a second run that takes up only what is new, a dry run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable
from pyarrow import parquet
from tests.spark.conftest import KINDS, OURS, running, url_of

from jetspark.client.sync import JetStream, connect
from jetspark.spark.pipelines.project import create_project, find_project, template_names
from jetspark.spark.pipelines.run_records import last_runs

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(800)]
RUN_TIMEOUT_S = 600
MASTER = ("--master", "local[2]", "--conf", "spark.ui.enabled=false")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(OURS) as server:
        yield url_of(server)


@pytest.fixture
def jetstream(url: str) -> Iterator[JetStream]:
    with connect(url) as client:
        yield client.jetstream()


def pipeline(*arguments: str) -> subprocess.CompletedProcess[str]:
    # A process of its own, as a person starts it: an interrupted run must not take this one with it.
    command = [sys.executable, "-m", "jetspark.cli.main", "pipeline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)


def order(jetstream: JetStream, first: int, last: int) -> None:
    for number in range(first, last + 1):
        body = {"id": number, "country": "de" if number % 2 else "fr", "amount": 100.0 * number}
        jetstream.publish_async("ORDERS.new", json.dumps(body).encode())
    jetstream.flush(30)


def test_a_second_run_takes_up_only_what_is_new(jetstream: JetStream, url: str, tmp_path: Path) -> None:
    jetstream.create_stream("ORDERS", subjects=["ORDERS.>"])
    alerts = jetstream.create_stream("ALERTS", subjects=["ALERTS.>"])
    create_project("shop", "orders", tmp_path)
    shop = tmp_path / "shop"
    order(jetstream, 1, 20)
    first = pipeline("run", str(shop), "--server", url, *MASTER)
    assert first.returncode == 0, first.stderr
    assert alerts.info().state.last_seq == 10
    order(jetstream, 21, 25)
    second = pipeline("run", str(shop), "--server", url, *MASTER)
    assert second.returncode == 0, second.stderr
    assert "5 messages," in second.stderr
    orders = parquet.read_table(shop / "state" / "warehouse" / "orders")
    assert sorted(orders.column("id").to_pylist()) == list(range(1, 26))
    # The view is what Spark made of it last.
    countries = parquet.read_table(shop / "state" / "warehouse" / "by_country").to_pylist()
    assert {row["country"]: row["orders"] for row in countries} == {"de": 13, "fr": 12}
    sent = [alerts.get_msg(sequence) for sequence in range(1, alerts.info().state.last_seq + 1)]
    assert sorted(json.loads(message.data)["id"] for message in sent) == list(range(11, 26))
    status = json.loads(pipeline("status", str(shop), "--server", url, "--json").stdout)
    assert status["last_run"]["result"] == "completed"
    (read,) = next(flow for flow in status["flows"] if flow["flow"] == "orders")["streams"]
    assert (read["done"], read["last"], read["behind"]) == (25, 25, 0)
    # Nothing is left in the project but its files and its state.
    assert sorted(os.listdir(shop)) == [".gitignore", "README.md", "spark-pipeline.yml", "state", "transformations"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_no_spark_behind(tmp_path: Path, number: int, status: int) -> None:
    create_project("shop", "orders", tmp_path)
    shop = tmp_path / "shop"
    command = [sys.executable, "-m", "jetspark.cli.main", "pipeline", "run", str(shop), *MASTER]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        assert "run of shop on local[2]" in run.stderr.readline()
        run.send_signal(number)
        said = run.stderr.read()
    assert run.returncode == status, said
    assert "goes on after the last batch that was committed" in said
    (last,) = last_runs(find_project(shop))
    assert (last["result"], last["error"]) == ("stopped", "")
    assert not [one.pid for one in psutil.process_iter() if any(str(shop) in word for word in words_of(one))]


def words_of(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def project_of_all_templates(parent: Path) -> Path:
    """Every template's definitions in one project, because starting Spark is what takes time."""
    create_project("all", "orders", parent)
    for name in template_names():
        create_project(f"p-{name}", name, parent)
        for path in (parent / f"p-{name}" / "transformations").glob("*"):
            shutil.copy(path, parent / "all" / "transformations" / path.name)
    return parent / "all"


@pytest.mark.parametrize("kind", KINDS)
def test_every_template_runs(kind: str, tmp_path: Path) -> None:
    project = project_of_all_templates(tmp_path)
    with running(kind) as server, connect(url_of(server)) as client:
        jetstream = client.jetstream()
        for name in ("ORDERS", "ALERTS", "SHIPMENTS", "STATISTICS", "CLEAN", "ROUTED"):
            jetstream.create_stream(name, subjects=[f"{name}.>"])
        metrics = jetstream.create_stream("METRICS", subjects=["$JS.EVENT.METRIC.CONSUMER.ACK.>"])
        order(jetstream, 1, 12)
        order(jetstream, 12, 12)
        jetstream.publish("ORDERS.new", b"no document")
        jetstream.publish("ORDERS.new", b"nor is this")
        jetstream.publish("SHIPMENTS.new", b'{"id": 3, "carrier": "ship"}')
        for message in jetstream.stream("ORDERS").create_consumer("sampled", sample_freq="100").fetch(3, expires=10):
            message.ack_sync()
        assert len(list(metrics.ordered_consumer().fetch(3, expires=20))) == 3
        done = pipeline("run", str(project), "--server", url_of(server), *MASTER)
        assert done.returncode == 0, done.stderr
        counts = {name: jetstream.stream(name).info().state.messages for name in ("ALERTS", "CLEAN", "ROUTED")}
        status = json.loads(pipeline("status", str(project), "--server", url_of(server), "--json").stdout)
    # Orders 11, 12 and 12 again are big, six are from home, and seven are neither, with the two that are no documents.
    assert counts == {"ALERTS": 3, "CLEAN": 14, "ROUTED": 16}
    tables = project / "state" / "warehouse"
    assert parquet.read_table(tables / "archive").num_rows == 15
    lake = DeltaTable(project / "lake" / "orders").to_pyarrow_table()
    assert sorted(lake.column("sequence").to_pylist()) == list(range(1, 16))
    assert parquet.read_table(tables / "shipped").to_pylist()[0]["carrier"] == "ship"
    assert {flow["flow"] for flow in status["flows"] if flow["streams"] and flow["streams"][0]["behind"] == 0} == {
        "orders",
        "archive",
        "per_minute",
        "first_of_each",
        "shipped",
        "routes",
        "ack_times",
        "lake_orders",
    }


def test_a_dry_run_checks_every_template_and_names_what_is_wrong(url: str, tmp_path: Path) -> None:
    definitions = project_of_all_templates(tmp_path) / "transformations"
    done = pipeline("dry-run", str(tmp_path / "all"), "--server", url, *MASTER)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "all" / "state" / "_checkpoints").exists()
    (definitions / "wrong.sql").write_text("CREATE MATERIALIZED VIEW wrong AS SELECT * FROM no_such_table", "utf-8")
    wrong = pipeline("dry-run", str(tmp_path / "all"), "--server", url, *MASTER)
    assert wrong.returncode == 1
    assert "no_such_table" in wrong.stderr
