"""A server for other vendors' clients: ours, or nats-server itself when JETSPARK_TEST_SERVER says so."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from jetspark.testing.processes import ServerProcess, server_command, server_process


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    name = os.environ.get("JETSPARK_TEST_SERVER", "jetspark")
    command = server_command(name)
    if command is None:
        pytest.skip(f"{name} is not installed")
    with server_process(command) as running:
        yield running


@pytest.fixture(scope="module")
def server_url(server: ServerProcess) -> str:
    return f"nats://{server.host}:{server.port}"
