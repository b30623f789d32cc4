"""Every row exactly once under `kill -9`. The long runs, and what they are about, are in docs/exactly-once.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.spark.conftest import EACH_WITH_ITS_SPARK

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(800)]

KINDS = (
    "driver killed",
    "function raised",
    "query stopped",
    "server killed",
    "sink cut off",
    "sink worker killed",
    "source gave up",
    "source worker killed",
)


def report(module: str, *arguments: str, **variables: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    told["status"] = done.returncode
    return told


@pytest.mark.parametrize("server", EACH_WITH_ITS_SPARK)
def test_attempts_killed_and_run_beside_each_other_store_every_row_once(server: str) -> None:
    told = report("tests.spark.attempts", "--server", server, "--kills", "10", "--seed", "5")
    assert told["kills"] == 10
    assert told["failed_attempts"] == 0
    assert told["wrong"] == {}


@pytest.mark.parametrize("server", EACH_WITH_ITS_SPARK)
def test_a_query_that_is_disturbed_in_every_way_stores_every_row_once(server: str) -> None:
    told = report(
        *("tests.spark.exactly_once", "--server", server, "--kinds", ",".join(KINDS), "--kills", str(len(KINDS))),
        *("--sizes", "500,50000", "--seed", "3", "--seconds", "300"),
    )
    assert (told["stuck"], told["left"]) == ("", 0)
    assert told["done"] == dict.fromkeys(KINDS, 1)
    assert told["batches"]["50000"]
    assert (told["lost"], told["doubled"], told["status"]) == (0, 0, 0)


def test_the_harness_sees_rows_that_are_lost_when_a_noted_task_is_taken_for_done() -> None:
    told = report(
        *("tests.spark.exactly_once", "--kinds", "function raised", "--kills", "1", "--sizes", "5000", "--seed", "1"),
        JETSPARK_HARNESS_BREAKS="note",
    )
    assert told["done"] == {"function raised": 1}
    assert (told["lost"] > 0, told["doubled"], told["status"]) == (True, 0, 1)
