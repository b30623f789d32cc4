"""The format is found by itself, in classic sessions and over Spark Connect; each in a Python of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jetspark.client.sync import connect
from jetspark.testing.processes import ServerProcess
from tests.spark.conftest import fill, url_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(480)]

_HEAD = """
import os, sys
from jetspark.spark.java import ensure_java
ensure_java()
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
builder = SparkSession.builder.config("spark.ui.enabled", "false")
"""
_READ = """
options = dict(servers=sys.argv[1], stream="FOUND", startingOffsets="earliest")
count = spark.read.format("jetstream").options(**options).load().count()
query = (
    spark.readStream.format("jetstream").options(**options).load()
    .writeStream.format("memory").queryName("found").trigger(availableNow=True).start()
)
query.awaitTermination(100)
print("read", count, spark.table("found").count())
spark.stop()
"""


@pytest.fixture
def url(our_server: ServerProcess) -> str:
    with connect(url_of(our_server)) as client:
        js = client.jetstream()
        if not js.stream_exists("FOUND"):
            fill(js.create_stream("FOUND", subjects=["FOUND.>"]), 25)
    return url_of(our_server)


def run(script: str, url: str, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", _HEAD + script + _READ, url],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_classic_session_finds_the_format_without_registration(url: str, tmp_path: Path) -> None:
    said = run('spark = builder.master("local[2]").getOrCreate()\n', url, tmp_path)

    assert "read 25 25" in said


@pytest.mark.usefixtures("connect_port")
def test_spark_connect_finds_and_reads_it(url: str, tmp_path: Path) -> None:
    said = run('spark = builder.remote("local[2]").getOrCreate()\n', url, tmp_path)

    assert "read 25 25" in said


def test_the_modules_spark_looks_for_are_light() -> None:
    """They are imported by every Spark on the machine, also by those that never read a stream."""
    heavy = "('jetspark.client', 'pyarrow', 'deltalake')"
    found = f"print(sorted(name for name in sys.modules if name.startswith({heavy})))"
    code = f"import sys, pyspark_jetspark, pyspark_jetspark_delta; {found}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert said.stdout.strip() == "[]"
