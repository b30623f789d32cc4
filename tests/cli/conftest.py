"""Servers for the tests of the command line, ours and nats-server, and a way to run commands against one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jetspark.cli.main import cli
from jetspark.testing.processes import ServerProcess, server_command, server_process


def _server(name: str) -> Iterator[ServerProcess]:
    command = server_command(name)
    if command is None:
        pytest.skip(f"no {name}: install the dev dependencies")
    with server_process(command, monitoring=True) as server:
        yield server


@pytest.fixture(scope="session")
def our_server() -> Iterator[ServerProcess]:
    """This package's server."""
    yield from _server("jetspark")


@pytest.fixture(scope="session")
def nats_server() -> Iterator[ServerProcess]:
    """The server whose behaviour is the specification."""
    yield from _server("nats-server")


@pytest.fixture(params=["jetspark", pytest.param("nats-server", marks=pytest.mark.oracle)])
def either_server(request: pytest.FixtureRequest) -> ServerProcess:
    """Each of the two servers in turn."""
    found = request.getfixturevalue("our_server" if request.param == "jetspark" else "nats_server")
    assert isinstance(found, ServerProcess)
    return found


def url_of(server: ServerProcess) -> str:
    return f"nats://{server.host}:{server.port}"


class Jetspark:
    """`jetspark` against one server, away from the user's own contexts."""

    def __init__(self, url: str, home: Path) -> None:
        self.url = url
        self.environment = {
            "NATS_URL": url,
            "XDG_CONFIG_HOME": str(home),
            "HOME": str(home),
            "NATS_CONTEXT": "",
            "NO_COLOR": "1",
        }

    def run(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        """Run a command, whatever comes of it."""
        return CliRunner(env=self.environment).invoke(cli, list(arguments), input=stdin)

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        """What a command that succeeds prints on stdout."""
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, (arguments, result.exit_code, result.output, result.exception)
        return result.stdout

    def json(self, *arguments: str, stdin: str | bytes | None = None) -> Any:
        """The document a command prints with --json."""
        return json.loads(self(*arguments, "--json", stdin=stdin))


@pytest.fixture
def jetspark(either_server: ServerProcess, tmp_path: Path) -> Jetspark:
    """Runs commands against each of the two servers in turn."""
    return Jetspark(url_of(either_server), tmp_path)


@pytest.fixture
def ours(our_server: ServerProcess, tmp_path: Path) -> Jetspark:
    """Runs commands against this package's server."""
    return Jetspark(url_of(our_server), tmp_path)


@pytest.fixture
def bucket(request: pytest.FixtureRequest) -> str:
    """A name no other test uses."""
    name: str = request.node.name
    return "".join(character if character.isalnum() else "_" for character in name)


@pytest.fixture
def name(bucket: str) -> str:
    """A stream name no other test uses."""
    return bucket
