"""Every program in examples/ runs to its end and says what it should."""

from __future__ import annotations

import os
import re
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
    "dead_letters": "sent 2 and put aside nobody",
    "replay_in_order": "balance 55",
    "exactly_once": "left to do: 0",
    "key_value": "the watch begins with theme = dark",
    "object_store": "the same again: True",
    "arrow_table": "10000 rows, ['subject', 'sequence', 'timestamp']",
}


SPARK_SAYS = {"spark_totals": "sold for 500500"}
# Programs with tests of their own.
ELSEWHERE = {"demo_server", "test_with_a_server"}


def run(arguments: list[str], environment: dict[str, str], timeout_s: float = 50) -> str:
    result = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
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


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SPARK_SAYS)
def test_an_example_with_spark_says_what_it_should(name: str) -> None:
    with server_process(jetspark_server_command()) as server:
        url = f"nats://{server.host}:{server.port}"
        said = run([str(EXAMPLES / f"{name}.py")], {"NATS_URL": url}, timeout_s=280)
    assert SPARK_SAYS[name] in said.splitlines()


def test_no_example_is_left_out() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py")}
    assert programs == {*SAYS, *SPARK_SAYS, *ELSEWHERE}


def test_the_index_of_the_examples_leads_to_each_of_them() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    programs = {str(path.relative_to(EXAMPLES)) for path in [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("pipelines/*.py")]}
    assert {target for target in re.findall(r"\]\(([^)]+)\)", index) if target != "demo/__main__.py"} == programs
