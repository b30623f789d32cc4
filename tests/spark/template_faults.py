"""Every template of `jetspark pipeline init` under faults, and its results row by row against what was published.

    python -m tests.spark.template_faults --template join --server jetspark --messages 200000 --seed 1

A project is made of the template, messages are published for it, and it is run by `jetspark pipeline run` in
`local[2,4]`, again and again until a run completes with everything. On the way each kind of failure happens once, at a
random moment: a Python worker, the JVM, the driver and the server are killed (`kill -9`; the server is started again on
its files), a function before the sink raises, and the run is stopped with SIGINT or SIGTERM. Batches have 60,000
messages, so a task has several Arrow batches. What is published, and what must come of it, is in `template_cases`.

The report has a line of JSON for each template. The status is 1 when a row is lost, doubled or wrong, when something
was not tried, and when a trial is stuck. The harness itself is tested by breaking the pipeline:
JETSPARK_HARNESS_BREAKS=drop makes a function leave rows out where it would raise.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from jetspark.client.headers import Headers
from jetspark.client.sync import JetStream, connect
from jetspark.spark.pipelines.project import create_project
from jetspark.testing.processes import server_command, server_process
from tests.spark.exactly_once_passage import Passage
from tests.spark.exactly_once_trial import Stuck
from tests.spark.template_cases import CASES, Case, Replay
from tests.spark.template_definitions import BREAKS, SINK, SOURCE
from tests.spark.template_rows import Message, Stored, compare, left_over, read_stream
from tests.spark.template_trial import KINDS, MASTER, SPARK, Trial, World

MESSAGES = 200_000
BATCH_ROWS = 60_000
PUBLISH_TIMEOUT_S = 120.0
PUBLISH_ROWS = 20_000
# Shorter than any trial, so that it protects nobody.
WINDOW_S = 0.1

log = logging.getLogger("template_faults")


def publish(jetstream: JetStream, messages: list[Message]) -> None:
    """Store them in this order."""
    for first in range(0, len(messages), PUBLISH_ROWS):
        some = messages[first : first + PUBLISH_ROWS]
        subjects = [one.subject.encode() for one in some]
        blocks = [Headers(one.headers).to_block() for one in some]
        jetstream.publish_many(subjects, blocks, [one.data for one in some]).wait(PUBLISH_TIMEOUT_S)


def stored_streams(jetstream: JetStream, messages: list[Message]) -> dict[str, list[Stored]]:
    """What is in the streams that were published to: these messages, and nothing else."""
    found = {}
    for name in {one.stream for one in messages}:
        found[name] = read_stream(jetstream, name)
        sent = [(one.subject, one.data, one.headers) for one in messages if one.stream == name]
        assert [(one.subject, one.data, one.headers) for one in found[name]] == sent, f"{name} has other messages"
    return found


def places_of(case: Case) -> tuple[str, ...]:
    """Where a function may raise."""
    return (SOURCE, SINK) if case.sinks else (SOURCE,)


def command_of(case: Case, world: World) -> list[str]:
    """What starts a run."""
    if isinstance(case, Replay):
        return program_of("archive.py", world)
    settings = [word for name, value in SPARK.items() for word in ("--conf", f"{name}={value}")]
    start = [sys.executable, "-m", "jetspark.cli.main", "pipeline", "run", str(world.project)]
    return [*start, "--server", world.passage.url, "--master", MASTER, *settings]


def program_of(name: str, world: World, *arguments: str) -> list[str]:
    """What starts a program of the project."""
    return [sys.executable, str(world.project / name), *arguments, "--servers", world.passage.url]


def process(case: Case, trial: Trial, messages: list[Message], kinds: list[str]) -> Counter[Any]:
    """Publish, and run until everything is done; what must have come of it."""
    feed_and_run(trial, messages)
    with connect(trial.world.url) as client:
        expected = case.expected(stored_streams(client.jetstream(), messages))
    if isinstance(case, Replay):
        with connect(trial.world.url) as client:
            client.jetstream().stream("ORDERS").purge()
        trial.world.places = (SINK,)
        trial.command = program_of("replay.py", trial.world, "ORDERS")
        trial.deck += trial.rng.sample(kinds, len(kinds))
        trial.run_until_complete()
    return expected


def feed_and_run(trial: Trial, messages: list[Message]) -> None:
    """Publish in pieces, so that every disturbance finds something to do; each piece is processed to its end."""
    given = 0

    def feed(end: int) -> None:
        nonlocal given
        if given < end:
            with connect(trial.world.url) as client:
                publish(client.jetstream(), messages[given:end])
            log.info("%d messages are published", end)
            given = end

    trial.before_run = lambda: None if trial.deck else feed(len(messages))
    piece = len(messages) // 2
    while given < len(messages):
        feed(min(len(messages), given + piece))
        trial.run_until_complete()
        piece = max(1, len(messages) // 8)


def try_template(case: Case, asked: argparse.Namespace, kinds: list[str]) -> dict[str, Any]:
    """A whole trial of a template, on a server of its own."""
    started_s, rng = time.monotonic(), Random(f"{case.template} {asked.seed}")
    command = server_command(asked.server)
    if command is None:
        raise SystemExit("no nats-server binary: install the dev dependencies")
    deck = rng.sample(kinds, len(kinds))
    with contextlib.ExitStack() as held:
        made = tempfile.TemporaryDirectory(prefix="jetspark-template-", ignore_cleanup_errors=True)
        folder = Path(asked.folder) / case.template if asked.folder else Path(held.enter_context(made))
        folder.mkdir(parents=True, exist_ok=True)
        server = held.enter_context(server_process(command))
        passage = held.enter_context(Passage((server.host, server.port), b".begun"))
        create_project("tried", case.template, folder)
        (folder / "orders").mkdir()
        world = World(server, passage, folder / "tried", folder, asked.batch, places_of(case))
        case.prepare(world.project)
        with connect(world.url) as client:
            for name, subject in case.streams.items():
                client.jetstream().create_stream(name, subjects=[subject], duplicate_window=WINDOW_S)
        messages = case.messages(rng, asked.messages)
        trial = Trial(world, rng, command_of(case, world), deck)
        stuck, told = "", {}
        try:
            expected = process(case, trial, messages, kinds)
        except Stuck as error:
            stuck = str(error)
        else:
            with connect(world.url) as client:
                told = compare(expected, case.found(world.project, client.jetstream()))
            told["left_over_files"] = sum(left_over(world.project / "state/warehouse" / name) for name in case.tables)
    return {
        "template": case.template, "server": asked.server, "seed": asked.seed, "messages": len(messages),
        "breaks": os.environ.get(BREAKS, ""), "done": trial.done, "left": trial.deck, "runs": trial.runs,
        "endings": dict(trial.endings), "seconds": round(time.monotonic() - started_s), "stuck": stuck, **told,
    }  # fmt: skip


def is_right(report: dict[str, Any]) -> bool:
    """Whether everything was tried, and every row is where it must be."""
    return not (report["stuck"] or report["left"] or report["lost"] or report["doubled"] or report["wrong"])


def main() -> None:
    """Try some templates, and print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--template", default="", help="only these, with commas between them")
    parser.add_argument("--server", choices=["jetspark", "nats-server"], default="jetspark")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--batch", type=int, default=BATCH_ROWS, help="messages of a batch")
    parser.add_argument("--kinds", default=",".join(KINDS), help="only these, with commas between them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", default="", help="leave the projects and the output of their runs here")
    asked = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    log.setLevel(logging.INFO)
    names = asked.template.split(",") if asked.template else sorted(CASES)
    kinds = [kind for kind in asked.kinds.split(",") if kind]
    all_right = True
    for name in names:
        report = try_template(CASES[name](), asked, kinds)
        print(json.dumps(report), flush=True)
        all_right = all_right and is_right(report)
    sys.exit(0 if all_right else 1)


if __name__ == "__main__":
    main()
