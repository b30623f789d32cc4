"""Transcripts of scenarios, to read or to record.

    python -m tests.conformance [NAME…]                       what nats-server says
    python -m tests.conformance --server jetspark [NAME…]     what our server says
    python -m tests.conformance --record                      record what nats-server says (`make record`)

A name is part of `module-scenario`; without names, all scenarios. A scenario is recorded when it says the same twice.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import groupby

from jetspark.testing.processes import server_command
from tests.conformance.catalogue import ordered_scenarios
from tests.conformance.compare import transcript_differences
from tests.conformance.recordings import Transcript, as_recorded, remove_others, title, write
from tests.conformance.scenario import Scenario, play
from tests.conformance.servers import REFERENCE, ServerPool

RECORD_ATTEMPTS = 5


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="conformance", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="part of `module-scenario`")
    parser.add_argument("--server", default=REFERENCE, choices=[REFERENCE, "jetspark"])
    parser.add_argument("--record", action="store_true", help="write the recordings of all scenarios again")
    arguments = parser.parse_args()
    if arguments.record and (arguments.names or arguments.server != REFERENCE):
        parser.error(f"--record records all scenarios, with {REFERENCE}")
    if server_command(arguments.server) is None:
        sys.stderr.write(f"{arguments.server} is not installed\n")
        return 1
    return record() if arguments.record else show(arguments.server, arguments.names)


def show(server: str, names: list[str]) -> int:
    pool = ServerPool(server)
    try:
        for scenario in ordered_scenarios():
            if names and not any(name in title(scenario) for name in names):
                continue
            sys.stdout.write(f"=== {title(scenario)}\n")
            for event in play(scenario, pool.server(scenario.module, scenario.server)):
                sys.stdout.write(json.dumps(event) + "\n")
    finally:
        pool.close()
    return 0


def record() -> int:
    pool = ServerPool(REFERENCE)
    unstable = []
    modules = []
    try:
        for module, scenarios in groupby(ordered_scenarios(), key=lambda item: item.module):
            transcripts = {}
            for scenario in scenarios:
                transcript, lines = stable_transcript(pool, scenario)
                transcripts[scenario.name] = transcript
                if lines:
                    unstable.append("\n  ".join([f"{title(scenario)} differs from itself:", *lines[:10]]))
            write(module, transcripts)
            modules.append(module)
            sys.stdout.write(f"{module}: {len(transcripts)} scenarios\n")
    finally:
        pool.close()
    remove_others(modules)
    for text in unstable:
        sys.stderr.write(f"{text}\n")
    return 1 if unstable else 0


def stable_transcript(pool: ServerPool, scenario: Scenario) -> tuple[Transcript, list[str]]:
    """What nats-server says twice in a row, or its last words and how they differ from those before."""
    lines: list[str] = []
    last: Transcript | None = None
    for _ in range(RECORD_ATTEMPTS):
        transcript = as_recorded(play(scenario, pool.server(scenario.module, scenario.server)))
        if bad := [event for event in transcript if event["event"] in ("missing", "broken")]:
            lines = [f"does not work: {event}" for event in bad]
            last = None
            pool.close()
            continue
        lines = transcript_differences(last, transcript) if last is not None else ["said only once"]
        if not lines and transcript:
            return transcript, []
        last = transcript
    return last or [], lines or ["says nothing"]


if __name__ == "__main__":
    raise SystemExit(main())
