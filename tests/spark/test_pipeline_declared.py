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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable
from pyarrow import parquet

from jetspark.client.sync import JetStream, connect
from jetspark.spark.pipelines.project import create_project, find_project, template_names
from jetspark.spark.pipelines.run_records import last_runs, only_run
from tests.spark.conftest import EACH_WITH_ITS_SPARK, OURS, running, url_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(800)]
RUN_TIMEOUT_S = 600
RUNNER = "jetspark.spark.pipelines.runner"
JVM = "org.apache.spark.deploy.SparkSubmit"
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
        country = "new york" if number == 20 else "de" if number % 2 else "fr"
        body = {"id": number, "country": country, "amount": 100.0 * number}
        jetstream.publish_async("ORDERS.new", json.dumps(body).encode())
    jetstream.flush(30)


LEAVES_OUT = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from jetspark.spark.pipelines import aggregate, json_fields, read_messages


@dp.table
def counted():
    events = json_fields(read_messages(spark, "EVENTS"), "at TIMESTAMP")
    return aggregate(events, {"events": F.count("*")}, late="1 minute", by=[], time="at")
"""


@dataclass
class TwoRuns:
    """A project after its second run: what each of them said, and what `status` says."""

    project: Path
    said: list[str]
    alerts: list[int]
    status_text: str
    status: dict[str, Any]


@pytest.fixture(scope="module")
def two_runs(url: str, tmp_path_factory: pytest.TempPathFactory) -> TwoRuns:
    """Two runs with new messages before each. Tests share them, because starting Spark is what takes time."""
    folder = tmp_path_factory.mktemp("two-runs")
    create_project("shop", "orders", folder)
    shop = folder / "shop"
    (shop / "transformations" / "per_minute.py").write_text(LEAVES_OUT, "utf-8")
    with connect(url) as client:
        jetstream = client.jetstream()
        for name in ("ORDERS", "ALERTS", "EVENTS"):
            jetstream.create_stream(name, subjects=[f"{name}.>"])
        alerts = jetstream.stream("ALERTS")

        def run(first: int, last: int, *times: str) -> tuple[str, int]:
            order(jetstream, first, last)
            for at in times:
                jetstream.publish("EVENTS.new", json.dumps({"at": at}).encode())
            done = pipeline("run", str(shop), "--server", url, *MASTER)
            assert done.returncode == 0, done.stderr
            return done.stderr, alerts.info().state.last_seq

        runs = [
            run(1, 20, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
            run(21, 25, "2026-01-01T00:00:30Z", "2026-01-01T01:01:00Z", "2099-01-01T00:00:00Z"),
        ]
    text, document = (pipeline("status", str(shop), "--server", url, *form).stdout for form in ((), ("--json",)))
    return TwoRuns(shop, [said for said, _ in runs], [count for _, count in runs], text, json.loads(document))


def test_a_second_run_takes_up_only_what_is_new(two_runs: TwoRuns, jetstream: JetStream) -> None:
    shop = two_runs.project
    assert two_runs.alerts == [10, 15]
    # Five orders and three events.
    assert "8 messages," in two_runs.said[1]
    orders = parquet.read_table(shop / "state" / "warehouse" / "orders")
    assert sorted(orders.column("id").to_pylist()) == list(range(1, 26))
    # The view is what Spark made of it last.
    countries = parquet.read_table(shop / "state" / "warehouse" / "by_country").to_pylist()
    assert {row["country"]: row["orders"] for row in countries} == {"de": 13, "fr": 11, "new york": 1}
    alerts = jetstream.stream("ALERTS")
    sent = [alerts.get_msg(sequence) for sequence in range(1, alerts.info().state.last_seq + 1)]
    assert sorted(json.loads(message.data)["id"] for message in sent) == list(range(11, 26))
    assert {message.subject for message in sent} == {"ALERTS.de", "ALERTS.fr", "ALERTS.new_york"}
    assert two_runs.status["last_run"]["result"] == "completed"
    (read,) = next(flow for flow in two_runs.status["flows"] if flow["flow"] == "orders")["streams"]
    assert (read["done"], read["last"], read["behind"]) == (25, 25, 0)
    # Nothing is left in the project but its files and its state.
    assert sorted(os.listdir(shop)) == [".gitignore", "README.md", "spark-pipeline.yml", "state", "transformations"]


def test_a_run_tells_what_it_leaves_out_and_status_too(two_runs: TwoRuns) -> None:
    first, second = two_runs.said
    left_out = (
        "flow counted left out at least 1 row later than the watermark allows (`late` or `within`), "
        "1 row with a time too far ahead of the server's (`ahead`)"
    )
    assert "left out" not in first
    assert "Warning: flow counted leaves out rows for their time: " in second
    assert f"Warning: {left_out}." in second
    assert left_out.removeprefix("flow ") in two_runs.status_text
    assert two_runs.status["last_run"]["left_out"] == {"counted": {"late": 1, "ahead": 1}}


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
    assert not processes_of(shop)


HELD = """
import signal

from pyspark import pipelines as dp
from pyspark.sql import functions as F
from pyspark.sql.types import LongType


def held(number):
    while True:
        signal.pause()


@dp.materialized_view
def held_rows():
    return spark.range(1).select(F.udf(held, LongType())("id").alias("id"))
"""


@contextlib.contextmanager
def held_run(parent: Path) -> Iterator[subprocess.Popen[str]]:
    """A run of the project `shop` in the middle of a flow that does not end."""
    create_project("shop", "orders", parent)
    for path in (parent / "shop" / "transformations").iterdir():
        path.unlink()
    (parent / "shop" / "transformations" / "held.py").write_text(HELD, encoding="utf-8")
    command = [sys.executable, "-m", "jetspark.cli.main", "pipeline", "run", str(parent / "shop"), *MASTER]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        said = []
        for line in run.stderr:
            said.append(line)
            if "held_rows is RUNNING" in line:
                break
        family = psutil.Process(run.pid).children(recursive=True)
        assert family, said
        try:
            yield run
        finally:
            everyone: list[subprocess.Popen[str] | psutil.Process] = [run, *family]
            for one in everyone:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()


@pytest.mark.parametrize(("name", "word"), [("JVM", JVM), ("driver", RUNNER)])
def test_a_run_fails_at_once_when_its_spark_is_killed(tmp_path: Path, name: str, word: str) -> None:
    with held_run(tmp_path) as run:
        family = psutil.Process(run.pid).children(recursive=True)
        (victim,) = [one for one in family if word in words_of(one)]

        victim.kill()
        _, said = run.communicate(timeout=60)

        assert run.returncode == 1, said
        assert f"run failed: the {name} ended (killed by signal 9): somebody ended it" in said
        assert "goes on after the last batch" in said
        assert not psutil.wait_procs(family, timeout=60)[1]
    (last,) = last_runs(find_project(tmp_path / "shop"))
    assert (last["result"], f"the {name} ended" in last["error"]) == ("failed", True)


def test_a_run_whose_command_is_killed_ends_and_is_under_way_until_then(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    with held_run(tmp_path) as run:
        family = psutil.Process(run.pid).children(recursive=True)
        (driver,) = [one for one in family if RUNNER in words_of(one)]
        (jvm,) = [one for one in family if JVM in words_of(one)]

        # As one that takes its time to end.
        jvm.suspend()
        run.kill()
        run.wait()
        assert not psutil.wait_procs([driver], timeout=30)[1]
        second = pipeline("run", str(shop), *MASTER)
        jvm.resume()

        assert not psutil.wait_procs(family, timeout=60)[1]
    assert (second.returncode, "another run of shop is under way since" in second.stderr) == (1, True), second.stderr
    with only_run(find_project(shop)):
        pass
    assert last_runs(find_project(shop))[0]["result"] == "killed"


def processes_of(project: Path) -> list[int]:
    return [one.pid for one in psutil.process_iter() if any(str(project) in word for word in words_of(one))]


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


@pytest.mark.parametrize("kind", EACH_WITH_ITS_SPARK)
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
    create_project("broken", "lakehouse", tmp_path)
    definitions = tmp_path / "broken" / "transformations"
    (definitions / "wrong.sql").write_text("CREATE MATERIALIZED VIEW wrong AS SELECT * FROM no_such_table", "utf-8")
    wrong = pipeline("dry-run", str(tmp_path / "broken"), "--server", url, *MASTER)
    assert wrong.returncode == 1
    assert "no_such_table" in wrong.stderr

    done = pipeline("dry-run", str(project_of_all_templates(tmp_path)), "--server", url, *MASTER)

    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "all" / "state" / "_checkpoints").exists()
