"""What a person watching a long run is told, and how Ctrl-C ends it: after the batch, with the way to go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jetspark.client.sync import connect
from jetspark.spark.streaming import Watched, duration_words
from tests.spark.conftest import OURS, fill, running, url_of

DRIVER = Path(__file__).parents[2] / "examples" / "pipelines" / "archive_forever.py"


def progress(batch: int, rows: int, rate: float, *, behind: int = 0, sequence: int = 0) -> dict[str, Any]:
    end = {"v": 1, "streams": {"ORDERS": {"seq": sequence, "created": "x"}}}
    latest = {"v": 1, "streams": {"ORDERS": {"seq": 9, "created": "x", "behindMessages": behind, "behindSeconds": 3.0}}}
    sources = [{"endOffset": end, "latestOffset": latest}, {"endOffset": "12", "latestOffset": None}]
    return {
        "batchId": batch,
        "numInputRows": rows,
        "processedRowsPerSecond": rate,
        "durationMs": {"latestOffset": 5, "addBatch": 20},
        "sources": sources,
    }


def test_progress_is_told_in_rows_rate_lag_and_time_left() -> None:
    watched = Watched()
    assert watched.take(progress(0, 1000, 500.0, behind=5000, sequence=1000))
    assert watched.line() == "batch 0: 1,000 rows, 500 rows/s, lag 5,000 messages (3 s), 10 s left"
    # While nothing happens Spark reports the next batch, without having done anything for it.
    assert not watched.take({**progress(1, 0, 0.0), "durationMs": {"latestOffset": 5}})
    assert watched.take(progress(1, 5000, 500.0, sequence=6000))
    # Each look sees the reports of many batches again.
    assert not watched.take(progress(0, 1000, 500.0, behind=5000, sequence=1000))
    assert not watched.take(progress(1, 5000, 500.0, sequence=6000))
    assert watched.line() == "batch 1: 6,000 rows, 500 rows/s, lag 0 messages"
    assert watched.where() == "ORDERS up to sequence 6,000"


def test_time_left_is_unknown_before_there_is_a_rate() -> None:
    watched = Watched()
    watched.take(progress(0, 0, 0.0, behind=10))
    assert watched.line().endswith("unknown time left")
    assert [duration_words(seconds) for seconds in (4.4, 600.0, 12_000.0)] == ["4 s", "10 min", "3 h 20 min"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(480)
def test_ctrl_c_ends_after_the_batch_and_the_next_start_goes_on(tmp_path: Path) -> None:
    def driver(url: str) -> subprocess.Popen[str]:
        folders = ["--archive", str(tmp_path / "archive"), "--state", str(tmp_path / "state")]
        command = [sys.executable, str(DRIVER), "--servers", url, *folders, "--every", "0 seconds", "--batch", "20"]
        # A group of its own, so that the signal reaches the whole family as from a terminal, and no one else.
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def interrupt_after(process: subprocess.Popen[str], word: str) -> list[str]:
        said = []
        assert process.stdout is not None
        with process:
            for line in process.stdout:
                said.append(line.rstrip("\n"))
                if line.startswith(word) and not any("Ending" in one for one in said):
                    # The group's id is the leader's, and its members are all of this test.
                    subprocess.run(["kill", "-INT", "--", f"-{process.pid}"], check=True)
                    word = "never again"
        return said

    with running(OURS) as server, connect(url_of(server)) as client:
        stream = client.jetstream().create_stream("ORDERS", subjects=["ORDERS.>"])
        fill(stream, 4000)
        first = driver(url_of(server))
        said = interrupt_after(first, "batch 2")
        assert first.returncode == 0, said
        assert "Ending after the batch that is running. Press Ctrl-C again to end now." in said
        last = next(line for line in said if line.startswith("Stopped after batch"))
        assert "start it again with the same checkpoint" in last
        done = int(last.partition("up to sequence ")[2].partition(".")[0].replace(",", ""))
        assert 60 <= done < 4000
        assert f": {done:,} rows;" in last
        commits = {int(path.name) for path in (tmp_path / "state" / "commits").glob("[0-9]*")}
        assert f"Stopped after batch {max(commits)}:" in last
        second = driver(url_of(server))
        said = interrupt_after(second, f"batch {max(commits) + 3}")
        assert second.returncode == 0, said
    sequences = sequences_of(tmp_path / "archive")
    assert sequences == list(range(1, len(sequences) + 1))
    assert len(sequences) > done


def sequences_of(archive: Path) -> list[int]:
    from pyarrow import parquet

    from jetspark.spark.pipelines.archive_files import archive_files

    found = [row for name in archive_files(archive) for row in parquet.read_table(name)["sequence"].to_pylist()]
    return sorted(found)
