"""A command starts quickly: it loads what it needs and nothing else.

Modules of this package are counted, not time: a time says more about the machine. When a count here is too small, see
what came in (`python -X importtime -m jetspark …`) before raising it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.cli.conftest import Jetspark

# Prints what was loaded when the command has ended.
PROGRAM = """
import json, sys
from jetspark.cli.main import cli
try:
    cli.main(sys.argv[1:], prog_name="jetspark")
except SystemExit as end:
    print(json.dumps({"exit": end.code, "modules": sorted(sys.modules)}), file=sys.stderr)
"""
# Heavy, and never needed to start: rich draws, asyncio and the server serve, Arrow and Spark are for pipelines.
HEAVY = ("asyncio", "rich", "pyarrow", "pyspark", "numpy", "uvloop", "aiohttp", "jetspark.server", "jetspark.broker")


def modules_of(jetspark: Jetspark, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, **jetspark.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stderr.splitlines()[-1])
    assert told["exit"] == 0, done.stderr
    found: list[str] = told["modules"]
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "own_max"),
    [
        (["--help"], 15),
        (["errors", "lookup", "10059"], 25),
        (["pub", "START.x", "hello"], 110),
        (["stream", "info", "START", "--json"], 130),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_command_loads_only_what_it_uses(ours: Jetspark, line: list[str], own_max: int) -> None:
    ours("stream", "add", "START", "--subjects", "START.*", "--storage", "memory", "--defaults")

    modules = modules_of(ours, *line)

    assert [name for name in modules if name.startswith(HEAVY)] == []
    own = [name for name in modules if name.startswith("jetspark")]
    assert len(own) <= own_max, own


def test_help_knows_no_client(ours: Jetspark) -> None:
    modules = modules_of(ours, "--help")

    assert [name for name in modules if name.startswith(("jetspark.client", "jetspark.api", "ssl", "msgspec"))] == []
