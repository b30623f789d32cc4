"""Every row exactly once under `kill -9`. The long runs, and what they are about, are in docs/exactly-once.md."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(800)]
SERVERS = [pytest.param("jetspark"), pytest.param("nats-server", marks=pytest.mark.oracle)]


def report(module: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize("server", SERVERS)
def test_attempts_killed_and_run_beside_each_other_store_every_row_once(server: str) -> None:
    told = report("tests.spark.attempts", "--server", server, "--kills", "10", "--seed", "5")
    assert told["kills"] == 10
    assert told["failed_attempts"] == 0
    assert told["wrong"] == {}


def test_a_query_whose_driver_and_workers_are_killed_stores_every_row_once() -> None:
    told = report("tests.spark.exactly_once", "--kills", "4", "--seed", "3")
    assert (told["driver_kills"], told["worker_kills"]) == (1, 3)
    assert told["wrong"] == {}
