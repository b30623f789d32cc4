"""Rows that end early because something before the sink failed, in tasks of several Arrow batches: none is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from jetspark.client.sync import JetStream, connect
from tests.spark.conftest import EACH_WITH_ITS_SPARK, running, url_of
from tests.spark.early_end_driver import ROWS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def payloads(jetstream: JetStream, stream: str) -> Counter[int]:
    table = jetstream.stream(stream).scan(columns=["data"]).read_all()
    return Counter(int(data) for data in table.column("data").to_pylist())


@pytest.mark.parametrize("kind", EACH_WITH_ITS_SPARK)
def test_every_row_is_stored_once_although_tasks_failed_or_were_stopped_half_way(kind: str, tmp_path: Path) -> None:
    with running(kind) as server, connect(url_of(server)) as client:
        jetstream = client.jetstream()
        for name in ("BATCH", "STREAM", "DEAD", "STOPPED"):
            # So short that it protects nobody.
            jetstream.create_stream(name, subjects=[f"{name.lower()}.>"], duplicate_window=0.1)
        jetstream.create_stream("IN", subjects=["in"])
        numbers = [b"%d" % number for number in range(ROWS)]
        jetstream.publish_many([b"in"] * ROWS, [b""] * ROWS, numbers).wait(60)
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.early_end_driver", str(tmp_path), url_of(server)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )

        assert done.returncode == 0, done.stderr[-6000:]
        rows = range(ROWS)
        assert payloads(jetstream, "BATCH") == Counter(rows)
        assert payloads(jetstream, "STREAM") == Counter(row for row in rows if row % 10)
        assert payloads(jetstream, "DEAD") == Counter(range(0, ROWS, 10))
        assert payloads(jetstream, "STOPPED") == Counter(rows)
        table = DeltaTable(str(tmp_path / "table")).to_pyarrow_table(columns=["data"])
        assert Counter(map(int, table.column("data").to_pylist())) == Counter(rows)
