"""Every program in examples/ runs to its end and says what it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jetspark.testing.processes import jetspark_server_command, server_process

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "hello": "got b'two cups' on orders.new",
    "server_inside": "the stream holds 3 messages",
    "publish_fast": "stored 20000",
    "worker": "done 3",
    "pinned_worker": "each of 10 messages was done once: True",
    "replay_in_order": "balance 55",
    "exactly_once": "left to do: 0",
    "key_value": "the watch begins with theme = dark",
    "object_store": "the same again: True",
    "arrow_table": "10000 rows, ['subject', 'sequence', 'timestamp']",
}


def run(arguments: list[str], environment: dict[str, str]) -> str:
    result = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_says_what_it_should(name: str) -> None:
    with server_process(jetspark_server_command()) as server:
        said = run([str(EXAMPLES / f"{name}.py")], {"NATS_URL": f"nats://{server.host}:{server.port}"})
    assert SAYS[name] in said.splitlines()


@pytest.mark.slow
def test_the_example_of_a_test_passes_with_the_fixture() -> None:
    example = str(EXAMPLES / "test_with_a_server.py")
    assert "1 passed" in run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, example], {})


def test_no_example_is_left_out() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py")}
    elsewhere = {"demo", "demo_server", "test_with_a_server"}
    spark = {name for name in programs if name.startswith("spark_")}
    assert programs - elsewhere - spark == set(SAYS)
