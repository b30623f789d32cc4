"""The thin client of Spark Connect, `pyspark-client`: it has neither Java nor this package, the server has both."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetspark.client.sync import connect
from jetspark.testing.processes import ServerProcess
from tests.spark.conftest import fill, url_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(800)]

CLIENT = "pyspark-client==4.2.0"

_SERVER = """
import sys
from jetspark.spark import session
spark = session(master="local[2]", **{
    "spark.ui.enabled": False,
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.port": sys.argv[1],
    "spark.python.authenticate.socketTimeout": "90s",
})
print("ready", flush=True)
sys.stdin.read()
spark.stop()
"""
_CLIENT = """
import sys
import pyspark
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
options = dict(servers=sys.argv[2], stream="THIN", startingOffsets="earliest")
count = spark.read.format("jetstream").options(**options).load().count()
query = (
    spark.readStream.format("jetstream").options(**options).load()
    .writeStream.format("memory").queryName("thin").trigger(availableNow=True).start()
)
query.awaitTermination(200)
print("client", pyspark.__version__, count, spark.table("thin").count())
"""


@pytest.fixture
def thin_client(tmp_path: Path) -> str:
    """A folder that holds the client and nothing else."""
    folder = str(tmp_path / "client")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--target", folder, CLIENT], capture_output=True, text=True, check=False, timeout=200
    )
    if done.returncode:
        pytest.skip(f"{CLIENT} cannot be installed here: {done.stderr.strip()[-200:]}")
    return folder


@pytest.fixture
def connect_server() -> Iterator[str]:
    """A Spark Connect server in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=environment([path for path in sys.path if path]),
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield f"sc://127.0.0.1:{port}"
        process.communicate()


def environment(paths: list[str]) -> dict[str, str]:
    """What a fresh shell would have: a session in this process leaves variables of its own behind."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK", "PYSPARK", "PYTHON"))}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


def test_the_thin_client_reads_batches_and_streams(
    our_server: ServerProcess, connect_server: str, thin_client: str, tmp_path: Path
) -> None:
    with connect(url_of(our_server)) as client:
        fill(client.jetstream().create_stream("THIN", subjects=["THIN.>"]), 12)

    # A file, because with `-c` this client looks for a whole Spark.
    script = tmp_path / "read.py"
    script.write_text(_CLIENT)
    done = subprocess.run(
        [sys.executable, str(script), connect_server, url_of(our_server)],
        cwd=tmp_path, env=environment([thin_client]), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "client 4.2.0 12 12"
