"""Every scenario gives the transcript on our server that nats-server gave when it was recorded."""

from __future__ import annotations

import re

import pytest

from tests.conformance.catalogue import ordered_scenarios
from tests.conformance.compare import transcript_differences
from tests.conformance.recordings import as_recorded, recorded, recorded_version, reference_version, title
from tests.conformance.scenario import Scenario, play
from tests.conformance.servers import REFERENCE, ServerPool, subject_name

SCENARIOS = ordered_scenarios()


@pytest.mark.oracle
@pytest.mark.timeout(60)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=title)
def test_our_server_says_what_nats_server_said(scenario: Scenario, server_pool: ServerPool) -> None:
    expected = recorded(scenario.module).get(scenario.name)
    assert expected, f"{title(scenario)} was never recorded: make record"

    lines = transcript_differences(
        expected, as_recorded(play(scenario, server_pool.server(scenario.module, scenario.server)))
    )

    if scenario.known_difference and subject_name() != REFERENCE:
        assert lines, f"no longer different: remove the note {scenario.known_difference!r}"
        lines = [line for line in lines if not re.search(scenario.where, line)]
    if lines:
        # The second attempt gets a server that has no past.
        server_pool.close()
    assert not lines, f"{len(lines)} differences:\n" + "\n".join(lines[:60])


@pytest.mark.parametrize("module", sorted({scenario.module for scenario in SCENARIOS}))
def test_the_recordings_are_of_the_version_that_we_compare_with(module: str) -> None:
    assert recorded_version(module) == reference_version(), "another version of nats-server: make record"


def test_the_suite_is_wide_and_names_are_unique() -> None:
    names = [(item.module, item.name) for item in SCENARIOS]

    assert len(names) == len(set(names))
    assert len(names) >= 150
