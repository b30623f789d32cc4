"""The `jetspark` command finds the subcommand and hands over."""

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from jetspark.cli.main import cli


def test_help_names_the_server() -> None:
    result = CliRunner().invoke(cli, ["--help"])

    assert result.exit_code == 0
    assert "server" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["-js", "-sd=X", "-DV"],
        ["-p", "-1", "-sd", "X"],
        ["--help"],
        ["--", "-c"],
        ["--signal", "ldm=12", "-h"],
        [],
    ],
    ids=" ".join,
)
def test_the_server_gets_its_arguments_as_typed(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    received: list[list[str]] = []

    def serve(argv: list[str]) -> int:
        received.append(argv)
        return 7

    edge: Any = ModuleType("jetspark.server.run")
    edge.main = serve
    monkeypatch.setitem(sys.modules, "jetspark.server.run", edge)

    result = CliRunner().invoke(cli, ["server", *arguments])

    assert received == [arguments]
    assert result.exit_code == 7


def test_the_command_is_there_as_a_module_too() -> None:
    done = subprocess.run([sys.executable, "-m", "jetspark", "--version"], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("jetspark ")
