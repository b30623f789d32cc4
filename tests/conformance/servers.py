"""The servers of the conformance suite, started on demand and shared by scenarios with equal needs.

The server under test is `jetspark` unless JETSPARK_TEST_SERVER says `nats-server`: comparing the reference
with itself shows that the masking hides everything that legitimately varies.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from jetspark.testing.processes import ServerProcess, server_command
from tests.conformance.scenario import Server

REFERENCE = "nats-server"
Result = TypeVar("Result")


def subject_name() -> str:
    """The name of the server under test."""
    return os.environ.get("JETSPARK_TEST_SERVER", "jetspark")


class ServerPool:
    """Keeps the server of the current module and needs; starting the next one stops the last."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._key: tuple[str, Server] | None = None
        self._server: ServerProcess | None = None

    def server(self, module: str, needs: Server) -> ServerProcess:
        if self._server is not None and self._key == (module, needs) and not needs.own and self._server.running:
            return self._server
        self.close()
        self._server = start_server(self._name, needs)
        self._key = (module, needs)
        return self._server

    def close(self) -> None:
        if self._server is not None:
            if self._server.running:
                self._server.stop()
            self._server.discard()
        self._server = None


def start_server(name: str, needs: Server) -> ServerProcess:
    command = server_command(name)
    assert command is not None, f"{name} is not installed"
    server = ServerProcess(
        command,
        arguments=("-n", "conformance", *needs.arguments),
        config_text=needs.config,
        jetstream=needs.jetstream,
        monitoring=needs.monitoring,
    )
    try:
        return server.start()
    except BaseException:
        server.discard()
        raise


@dataclass
class Pair:
    """Both servers side by side."""

    reference: ServerProcess
    ours: ServerProcess

    def on_both(self, action: Callable[[ServerProcess], Result]) -> tuple[Result, Result]:
        """Do the same on both at once."""
        with ThreadPoolExecutor(2) as pool:
            reference = pool.submit(action, self.reference)
            ours = pool.submit(action, self.ours)
            return reference.result(), ours.result()


class PairPool:
    """Keeps both servers as long as both run."""

    def __init__(self) -> None:
        self._pools = (ServerPool(REFERENCE), ServerPool(subject_name()))

    def pair(self) -> Pair:
        reference, ours = (pool.server("", Server()) for pool in self._pools)
        return Pair(reference, ours)

    def close(self) -> None:
        for pool in self._pools:
            pool.close()
