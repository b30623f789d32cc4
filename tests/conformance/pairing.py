"""Two servers side by side: the reference and the one under test, started on demand and shared.

The server under test is `jetspark` unless JETSPARK_TEST_SERVER says `nats-server`: comparing the reference
with itself shows that the masking hides everything that legitimately varies.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from conformance.compare import transcript_differences
from conformance.scenario import Scenario, Server, play
from jetspark.testing.processes import ServerProcess, nats_server_command, server_command

Result = TypeVar("Result")


def subject_name() -> str:
    """The name of the server under test."""
    return os.environ.get("JETSPARK_TEST_SERVER", "jetspark")


@dataclass
class Pair:
    reference: ServerProcess
    ours: ServerProcess

    def stop(self) -> None:
        for server in (self.reference, self.ours):
            if server.running:
                server.stop()
            server.discard()

    def on_both(self, action: Callable[[ServerProcess], Result]) -> tuple[Result, Result]:
        """Do the same on both at once: scenarios that wait for time then wait together."""
        with ThreadPoolExecutor(2) as pool:
            reference = pool.submit(action, self.reference)
            ours = pool.submit(action, self.ours)
            return reference.result(), ours.result()


class PairPool:
    """Keeps the pair of the current module and needs; starting the next one stops the last."""

    def __init__(self) -> None:
        self._key: tuple[str, Server] | None = None
        self._pair: Pair | None = None

    def pair(self, module: str, needs: Server) -> Pair:
        if self._pair is not None and self._key == (module, needs) and not needs.own:
            if self._pair.reference.running and self._pair.ours.running:
                return self._pair
        self.close()
        self._pair = start_pair(needs)
        self._key = (module, needs)
        return self._pair

    def close(self) -> None:
        if self._pair is not None:
            self._pair.stop()
        self._pair = None


def start_pair(needs: Server) -> Pair:
    reference_command = nats_server_command()
    assert reference_command is not None, "nats-server is not installed"
    our_command = server_command(subject_name())
    assert our_command is not None, f"{subject_name()} is not installed"
    servers = [
        ServerProcess(
            command,
            arguments=("-n", "conformance", *needs.arguments),
            config_text=needs.config,
            jetstream=needs.jetstream,
            monitoring=needs.monitoring,
        )
        for command in (reference_command, our_command)
    ]
    pair = Pair(*servers)
    try:
        pair.on_both(ServerProcess.start)
    except BaseException:
        pair.stop()
        raise
    return pair


def compare_scenario(pool: PairPool, scenario: Scenario) -> list[str]:
    """Play a scenario on both servers; the lines on which they differ."""
    pair = pool.pair(scenario.module, scenario.server)
    expected, actual = pair.on_both(lambda server: play(scenario, server))
    failed = [event for event in expected if event["event"] in ("missing", "broken")]
    assert expected, f"scenario {scenario.name} recorded nothing"
    if failed:
        return [f"the scenario does not work on the reference itself: {event}" for event in failed]
    return transcript_differences(expected, actual)
