"""One pipeline, unchanged, on two cores of one machine and on a standalone Spark with two workers: the same rows.

It reads from our server, from nats-server, and from a cluster of three that loses its leader half-way (on the workers).
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow import parquet

from jetspark.client.sync import connect
from jetspark.spark.pipelines.launch import PipelineRun
from jetspark.spark.pipelines.project import find_project
from jetspark.spark.pipelines.status import read_checkpoints
from tests.nats_cluster import Cluster
from tests.spark.conftest import OURS, THEIRS, fill, running, url_of
from tests.spark.grown import standalone_spark

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.oracle,
    pytest.mark.timeout(800),
]

ROWS = 3000
PER_BATCH = 375
SPEC = """
name: scale
storage: state
libraries: [{glob: {include: transformations/**}}]
configuration:
  spark.sql.shuffle.partitions: "2"
  # Spark gives a Python process ten seconds to start, which three at once on a busy machine may not make.
  spark.sql.pipelines.execution.maxConcurrentFlows: "1"
  spark.sql.pipelines.maxFlowRetryAttempts: "10"
"""
# Three tables, one from each place; where the places are is a setting of the run.
PIPELINE = """
from pyspark import pipelines as dp
from jetspark.spark.pipelines import json_fields, read_messages

def orders(place):
    @dp.table(name=f"from_{place}")
    def table():
        servers = spark.conf.get(f"spark.jetspark_places.{place}")
        # Small batches where a server is to be killed between two of them.
        limit = spark.conf.get(f"spark.jetspark_limits.{place}", None)
        messages = read_messages(spark, "ORDERS", servers=servers, maxOffsetsPerTrigger=limit, minPartitions=2)
        return messages.selectExpr("subject", "sequence", "CAST(data AS STRING) AS text")

for place in ("ours", "nats", "cluster"):
    orders(place)
"""


@dataclass
class Places:
    """The servers of the test, all with the same messages."""

    urls: dict[str, str]
    cluster: Cluster

    def settings(self) -> dict[str, str]:
        return {f"spark.jetspark_places.{name}": url for name, url in self.urls.items()}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(running(OURS))
        theirs = stack.enter_context(running(THEIRS))
        cluster = stack.enter_context(Cluster(tmp_path_factory.mktemp("cluster")).running())
        urls = {"ours": url_of(ours), "nats": url_of(theirs), "cluster": cluster.urls}
        for name, url in urls.items():
            with connect(url.split(",")) as client:
                jetstream = client.jetstream()
                if name == "cluster":
                    stream = cluster.replicated_stream(jetstream, "ORDERS")
                else:
                    stream = jetstream.create_stream("ORDERS", subjects=["ORDERS.>"])
                fill(stream, ROWS)
        yield Places(urls, cluster)


def rows_of(project: Path) -> dict[str, list[tuple[str, int, str]]]:
    found = {}
    for place in ("ours", "nats", "cluster"):
        table = parquet.read_table(project / "state" / "warehouse" / f"from_{place}")
        columns = [table.column(name).to_pylist() for name in ("subject", "sequence", "text")]
        found[place] = sorted(zip(*columns, strict=True), key=lambda row: row[1])
    return found


def run_project(project: Path, places: Places, master: str, settings: dict[str, str], *, kill_leader: bool) -> str:
    """Run it; with a kill in the middle, the name of the server that was killed."""
    run = PipelineRun(
        find_project(project),
        "run",
        master=master,
        settings={**places.settings(), **settings, "spark.ui.enabled": "false"},
    )
    said: list[str] = []
    killed = ""
    with run.started(said.append):
        while not run.wait(0.2):
            done = read_checkpoints(run.project.checkpoints_uri).get("from_cluster")
            if kill_leader and not killed and done is not None and done.batch >= ROWS // PER_BATCH // 3:
                assert done.batch < ROWS // PER_BATCH - 1, "the run was over before half of it"
                killed = places.cluster.kill_leader("ORDERS")
    assert run.outcome.status == 0, run.outcome.log_path.read_text(encoding="utf-8")[-8000:]
    return killed


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scale") / "project"
    (folder / "transformations").mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text(SPEC, encoding="utf-8")
    (folder / "transformations" / "orders.py").write_text(PIPELINE, encoding="utf-8")
    return folder


EXPECTED = [("ORDERS.a", number, f"message {number}") for number in range(1, ROWS + 1)]


def test_one_machine_and_a_cluster_give_the_same_rows(project: Path, places: Places, tmp_path: Path) -> None:
    local = tmp_path / "local"
    shutil.copytree(project, local)
    run_project(local, places, "local[2]", {}, kill_leader=False)
    assert rows_of(local) == dict.fromkeys(("ours", "nats", "cluster"), EXPECTED)

    grown = tmp_path / "grown"
    shutil.copytree(project, grown)
    settings = {
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.jetspark_limits.cluster": str(PER_BATCH),
    }
    with standalone_spark(tmp_path) as master:
        killed = run_project(grown, places, master, settings, kill_leader=True)
        executors = [path for number in range(2) for path in (tmp_path / f"worker-{number}").glob("app-*/*/stderr")]
    assert killed
    assert len(executors) == 2, "both workers were to run an executor"
    assert rows_of(grown) == rows_of(local)
