"""Spark's own speculation, on a standalone cluster: two attempts write the same rows at once, each is stored once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jetspark.client.sync import connect
from tests.spark.conftest import OURS, THEIRS, running, url_of
from tests.spark.grown import standalone_spark
from tests.spark.speculation_driver import PARTITIONS, ROWS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.oracle,
    pytest.mark.timeout(600),
]


def payloads(url: str) -> list[int]:
    with connect(url) as client:
        stream = client.jetstream().stream("OUT")
        with stream.ordered_consumer().consume() as messages:
            return sorted(int(next(messages).data) for _ in range(stream.info().state.messages))


def test_rows_written_by_two_attempts_at_once_are_stored_once(tmp_path: Path) -> None:
    with running(OURS) as ours, running(THEIRS) as theirs, standalone_spark(tmp_path) as master:
        urls = [url_of(ours), url_of(theirs)]
        for url in urls:
            with connect(url) as client:
                # So short that it protects nobody.
                client.jetstream().create_stream("OUT", subjects=["out.>"], duplicate_window=0.1)
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.speculation_driver", master, str(tmp_path), *urls],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )

        assert done.returncode == 0, done.stderr[-6000:]
        assert done.stdout.count("written to") == 2
        assert [payloads(url) for url in urls] == [list(range(ROWS * PARTITIONS))] * 2
