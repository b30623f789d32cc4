"""Projects run by `jetspark pipeline` on real Spark: a run, a second run that takes up only what is new, a dry run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import parquet
from tests.spark.conftest import OURS, running, url_of

from jetspark.client.sync import JetStream, connect
from jetspark.spark.pipelines.project import create_project, template_names

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(800)]
RUN_TIMEOUT_S = 180
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


def test_a_dry_run_checks_every_template_and_names_what_is_wrong(url: str, tmp_path: Path) -> None:
    create_project("all", "orders", tmp_path)
    definitions = tmp_path / "all" / "transformations"
    for name in template_names():
        create_project(f"p-{name}", name, tmp_path)
        for path in (tmp_path / f"p-{name}" / "transformations").iterdir():
            shutil.copy(path, definitions / path.name)
    done = pipeline("dry-run", str(tmp_path / "all"), "--server", url, *MASTER)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "all" / "state" / "_checkpoints").exists()
    (definitions / "wrong.sql").write_text("CREATE MATERIALIZED VIEW wrong AS SELECT * FROM no_such_table", "utf-8")
    wrong = pipeline("dry-run", str(tmp_path / "all"), "--server", url, *MASTER)
    assert wrong.returncode == 1
    assert "no_such_table" in wrong.stderr
