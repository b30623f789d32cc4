"""Attempts at the same rows, killed and run beside each other without end, and a count of what the stream has.

    python -m tests.spark.attempts --server nats-server --kills 300 --seed 1

The protocol of the sink without Spark around it, which makes a kill cheap: each attempt is a process of its own, at
most three work on the same rows at once (as speculative tasks do, or those of two drivers), rows come in another order
each time, and some attempts start after the rows, or the whole batch, are done. The duplicate window is the shortest
there is.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from jetspark.client.sync import JetStream, connect
from jetspark.spark.sink import Sink, TaskDone
from jetspark.spark.sink_checks import check_target
from jetspark.spark.sink_ids import Place, Run
from jetspark.spark.sink_options import sink_options
from jetspark.spark.sink_rows import plan_rows
from jetspark.testing.processes import server_command, server_process

STREAM = "OUT"
WINDOW_S = 0.1
ROWS = 400
BATCH_ROWS = 40
LIVE_MAX = 3
RUNS = 3
# An attempt takes about a second, so that most kills find it in the middle of its rows.
PAUSE_S = 0.15
SCHEMA = StructType([StructField("data", StringType())])


def make_sink(url: str, **options: str) -> Sink:
    """The sink as the driver would make it, once the stream is there."""
    given = sink_options({"servers": url, "stream": STREAM, "subject": "out.rows", "maxInFlight": "8", **options})
    plan = plan_rows(SCHEMA, given["subject"], given["msgId"])
    with connect(url) as client:
        return Sink(given, plan, check_target(client.jetstream(), given, plan))


def rows_of(batch: int) -> list[str]:
    """The rows of a task; some are equal."""
    return [f"{batch}-{number if number % 10 else 0}" for number in range(ROWS)]


def batches(rows: list[str], rng: Random) -> Iterator[pa.RecordBatch]:
    """Rows in some order, in small batches with small pauses."""
    rng.shuffle(rows)
    for start in range(0, len(rows), BATCH_ROWS):
        time.sleep(rng.random() * PAUSE_S)  # noqa: TID251 - a slow producer
        yield pa.record_batch([pa.array(rows[start : start + BATCH_ROWS])], names=["data"])


def start_attempt(sink: Sink, batch: int, seed: int) -> int:
    """Fork an attempt at the rows of a batch; its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        # Some are retries of each other, some belong to drivers that know nothing of each other.
        run = Run(f"run-{seed % RUNS}", is_query=True, keeps_partitions=False)
        sink.write(Place("trial", batch, 0), batches(rows_of(batch), Random(seed)), run)
        status = 0
    except Exception as error:  # noqa: BLE001 - told, and counted by the exit status
        print(f"attempt at batch {batch}: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


class Trial:
    """Batches, one after the other, each attempted until one attempt succeeds."""

    def __init__(self, url: str, rng: Random) -> None:
        self._sink = make_sink(url)
        self._rng = rng
        self.kills = 0
        self.attempts = 0
        self.failures = 0

    def run_batch(self, batch: int, kills_left: int) -> None:
        """Until it is stored; then perhaps an attempt that comes too late, before or after the commit."""
        live: set[int] = set()
        done = False
        kills_left = min(kills_left, self._rng.randrange(1, 12))
        while not done:
            if len(live) < (1 if not kills_left else self._rng.randrange(1, LIVE_MAX + 1)):
                live.add(self._start(batch))
            # The random moment itself; nothing is waited for.
            time.sleep(self._rng.random() * self._rng.choice((0.2, 0.6, 1.2)))  # noqa: TID251 - a moment by chance
            done = self._reap(live)
            if live and kills_left and not done and self._rng.random() < 0.5:
                victim = self._rng.choice(sorted(live))
                os.kill(victim, signal.SIGKILL)
                self.kills, kills_left = self.kills + 1, kills_left - 1
        if self._rng.random() < 0.3:
            live.add(self._start(batch))
        while live:
            self._reap(live, wait=True)
        self._sink.commit([TaskDone("trial", 0, 0, 0, 0, 0)], batch, is_for_good=True)
        if self._rng.random() < 0.3:
            live.add(self._start(batch))
            while live:
                self._reap(live, wait=True)

    def _start(self, batch: int) -> int:
        self.attempts += 1
        return start_attempt(self._sink, batch, self._rng.randrange(1 << 30))

    def _reap(self, live: set[int], *, wait: bool = False) -> bool:
        """Forget attempts that have ended; has one of them succeeded?"""
        succeeded = False
        for pid in list(live):
            ended, status = os.waitpid(pid, 0 if wait else os.WNOHANG)
            if ended:
                live.discard(pid)
                code = os.waitstatus_to_exitcode(status)
                succeeded = succeeded or code == 0
                self.failures += code > 0
        return succeeded


def count_wrong(js: JetStream, batch_count: int) -> dict[str, int]:
    """Rows stored more or less often than they occur."""
    expected: Counter[str] = Counter()
    for batch in range(batch_count):
        expected.update(rows_of(batch))
    table = js.stream(STREAM).scan(columns=["data"]).read_all()
    found = Counter(value.decode() for value in table.column("data").to_pylist())
    return {row: found[row] - expected[row] for row in expected | found if found[row] != expected[row]}


def run(server: str, kills: int, seed: int) -> dict[str, Any]:
    """A whole trial on a server of its own; what happened, with every row that is not there exactly once."""
    command = server_command(server)
    if command is None:
        raise SystemExit("no nats-server binary: install the dev dependencies")
    with server_process(command) as process:
        url = f"nats://{process.host}:{process.port}"
        with connect(url) as client:
            client.jetstream().create_stream(STREAM, subjects=["out.>"], duplicate_window=WINDOW_S)
        trial = Trial(url, Random(seed))
        batch = 0
        while trial.kills < kills:
            trial.run_batch(batch, kills - trial.kills)
            batch += 1
        with connect(url) as client:
            wrong = count_wrong(client.jetstream(), batch)
    return {
        "server": server, "seed": seed, "kills": trial.kills, "attempts": trial.attempts, "batches": batch,
        "rows": batch * ROWS, "failed_attempts": trial.failures, "wrong": wrong,
    }  # fmt: skip


def main() -> None:
    """Run a trial and print its report as JSON; fails when a row is not there exactly once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=["jetspark", "nats-server"], default="jetspark")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    report = run(asked.server, asked.kills, asked.seed)
    print(json.dumps(report))
    sys.exit(1 if report["wrong"] or report["failed_attempts"] else 0)


if __name__ == "__main__":
    main()
