"""`python -m conformance [NAME…]` from the tests directory: print transcripts from nats-server, to read and learn.

With `--server jetspark` the same from our server. Without names, all scenarios.
"""

from __future__ import annotations

import argparse
import json
import sys

from conformance.catalogue import ordered_scenarios
from conformance.scenario import play
from jetspark.testing.processes import server_command, server_process


def main() -> int:
    parser = argparse.ArgumentParser(prog="conformance")
    parser.add_argument("names", nargs="*", help="part of `module-scenario`")
    parser.add_argument("--server", default="nats-server", choices=["nats-server", "jetspark"])
    arguments = parser.parse_args()
    command = server_command(arguments.server)
    if command is None:
        sys.stderr.write(f"{arguments.server} is not installed\n")
        return 1
    for item in ordered_scenarios():
        title = f"{item.module}-{item.name}"
        if arguments.names and not any(name in title for name in arguments.names):
            continue
        sys.stdout.write(f"=== {title}\n")
        needs = item.server
        with server_process(
            command,
            arguments=("-n", "conformance", *needs.arguments),
            config_text=needs.config,
            jetstream=needs.jetstream,
            monitoring=needs.monitoring,
        ) as server:
            for event in play(item, server):
                sys.stdout.write(json.dumps(event) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
