"""A real streaming query that is disturbed in every way at random moments, and a count of what the stream has.

    python -m tests.spark.exactly_once --server nats-server --kills 50 --seed 1
    python -m tests.spark.exactly_once --mode cluster --kills 20 --seed 2

The query reads one stream and writes another, whose duplicate window is the shortest there is (100 ms). Its tasks have
500, 5,000 or 50,000 rows of 200 bytes, so each has at least five Arrow batches. It runs in a driver process of its own
(`exactly_once_driver`), in `local[2,4]` (a task is tried four times) or, with `--mode cluster`, on a standalone master
with two workers. What is done to it, and how often, is `DECK` and `CLUSTER_DECK` in `exactly_once_trial`; a kill is
`kill -9`. nats-server runs with `sync_interval: always`, so that what it has acknowledged is on disk.

The report has what was done, how many rows are lost (committed and not stored) and doubled. The harness itself is
tested by breaking the sink's rule: JETSPARK_HARNESS_BREAKS=note brings version 0.1.0's fault back, and rows are lost.
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
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.client.sync import connect
from jetspark.testing.processes import ServerProcess, server_command, server_process
from tests.spark.exactly_once_driver import BREAKS
from tests.spark.exactly_once_passage import Passage
from tests.spark.exactly_once_trial import CLUSTER_DECK, DECK, Stuck, Trial, World, shuffled_deck
from tests.spark.grown import standalone_spark

WINDOW_S = 0.1
SIZES = "500,5000,50000"
EXAMPLES = 20
MEMORY = Path("/dev/shm")
# What a worker sends when it begins a task. Spark's source planner does not; the commit may ask for the same record.
SINK_MARK, SOURCE_MARK = b".begun", b".CONSUMER.CREATE."


def count_wrong(url: str, expected: int) -> dict[str, Any]:
    """How often each row is stored: those that are committed and not there, and those that are there twice."""
    counts = np.zeros(expected, dtype=np.int64)
    with connect(url) as client:
        for batch in client.jetstream().stream("OUT").scan(columns=["data"]):
            if batch.num_rows:
                numbers = pc.binary_slice(batch.column(0), 0, 12).cast(pa.string()).cast(pa.int64()).to_numpy()
                counts += np.bincount(numbers, minlength=expected)[:expected]
    lost, doubled = np.flatnonzero(counts == 0), np.flatnonzero(counts > 1)
    return {
        "rows": expected, "lost": len(lost), "doubled": len(doubled),
        "lost_examples": lost[:EXAMPLES].tolist(), "doubled_examples": doubled[:EXAMPLES].tolist(),
    }  # fmt: skip


@contextlib.contextmanager
def server_of(kind: str, folder: Path) -> Iterator[ServerProcess]:
    """A server that has written to its files what it has acknowledged."""
    command = server_command(kind)
    if command is None:
        raise SystemExit("no nats-server binary: install the dev dependencies")
    with contextlib.ExitStack() as held:
        options: dict[str, Any] = {}
        if kind == "nats-server":
            # In memory, where there is such a folder: syncing each message takes long, and a kill loses no file.
            parent = MEMORY if MEMORY.is_dir() else folder
            store = held.enter_context(tempfile.TemporaryDirectory(dir=parent, prefix="jetspark-once-"))
            options = {
                "config_text": f'jetstream {{ store_dir: "{store}", sync_interval: always }}',
                "jetstream": False,
            }
        process = held.enter_context(server_process(command, **options))
        with connect(f"nats://{process.host}:{process.port}") as client:
            client.jetstream().create_stream("IN", subjects=["in"])
            client.jetstream().create_stream("OUT", subjects=["out.>"], duplicate_window=WINDOW_S)
        yield process


def run(asked: argparse.Namespace) -> dict[str, Any]:
    """A whole trial on a server of its own."""
    started_s = time.monotonic()
    rng = Random(asked.seed)
    deck = DECK if asked.mode == "local" else CLUSTER_DECK
    if asked.kinds:
        deck = {kind: deck[kind] for kind in asked.kinds.split(",")}
    with contextlib.ExitStack() as held:
        folder = Path(
            held.enter_context(tempfile.TemporaryDirectory(prefix="jetspark-once-", ignore_cleanup_errors=True))
        )
        server = held.enter_context(server_of(asked.server, folder))
        address = (server.host, server.port)
        source = held.enter_context(Passage(address, SOURCE_MARK))
        sink = held.enter_context(Passage(address, SINK_MARK))
        master = "local[2,4]" if asked.mode == "local" else held.enter_context(standalone_spark(folder))
        world = World(server, source, sink, folder, master, asked.plan)
        sizes = [int(size) for size in asked.sizes.split(",")]
        trial = Trial(world, rng, sizes, shuffled_deck(deck, asked.kills, rng))
        stuck = ""
        try:
            trial.run(asked.seconds)
        except Stuck as error:
            stuck = str(error)
        # What was fed is committed, unless the trial is stuck.
        wrong = count_wrong(world.url, trial.committed() if stuck else trial.fed)
    return {
        "server": asked.server, "mode": asked.mode, "plan": asked.plan, "seed": asked.seed,
        "breaks": os.environ.get(BREAKS, ""), "disturbances": sum(trial.done.values()), "left": len(trial.deck),
        "done": dict(sorted(trial.done.items())), "batches": {str(size): trial.batches[size] for size in sizes},
        "drivers": trial.drivers, "failed_queries": trial.failed_queries, "last_failure": trial.last_failure[:600],
        "seconds": round(time.monotonic() - started_s), "stuck": stuck, **wrong,
    }  # fmt: skip


def main() -> None:
    """Run a trial and print its report as JSON; fails when a row is lost or doubled, or the trial is stuck."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=["jetspark", "nats-server"], default="jetspark")
    parser.add_argument("--mode", choices=["local", "cluster"], default="local")
    parser.add_argument("--plan", choices=["map", "shuffle"], default="map")
    parser.add_argument("--kills", type=int, default=50, help="how many kills and other disturbances")
    parser.add_argument("--kinds", default="", help="only these, with commas between them")
    parser.add_argument("--sizes", default=SIZES, help="rows of a task, with commas between them")
    parser.add_argument("--seconds", type=float, default=3600.0, help="do nothing more after this time")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("exactly_once").setLevel(logging.INFO)
    report = run(asked)
    print(json.dumps(report))
    sys.exit(1 if report["lost"] or report["doubled"] or report["stuck"] else 0)


if __name__ == "__main__":
    main()
