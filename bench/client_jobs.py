"""Our client and others, the same job on the same nats-server in the same run.

Each client works in a process of its own (`client_worker`, or `client_worker.mjs` for Node), set up before the clock
starts. Rounds alternate between the clients; a ratio is the median of the ratios within a round. The blocking face is
held against our own asyncio face, and `scan` against a socket that only drains the same messages.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.load import MARKER, Connection, payload_of, publish_windowed
from jetspark.testing.processes import ServerProcess, server_process

SIZE = 128
NODE_PACKAGES = Path(__file__).parents[1] / "build" / "peers-node" / "node_modules"


@dataclass(frozen=True)
class ClientJob:
    """A job, how many messages, and the ratios asked for: to nats-py, and of `sync` to `async`."""

    name: str
    title: str
    count: int
    quick_count: int
    at_least: float
    is_filled: bool = False
    is_fed: bool = False
    # None: no client of another vendor does it; the floor is the other side.
    others: tuple[str, ...] = ("nats-py", "nats-py-uvloop", "node")


@dataclass(frozen=True)
class Run:
    """One measurement: messages a second, and the client's own processor time a message in microseconds."""

    rate: float
    cpu_us: float


CLIENT_JOBS = [
    ClientJob("client-publish", "JetStream publish, pipelined", 200_000, 40_000, 3.0),
    ClientJob("client-publish-one", "JetStream publish, one at a time", 6_000, 1_500, 1.0),
    ClientJob("client-fetch", "fetch 500, ack each", 100_000, 20_000, 4.0, is_filled=True),
    ClientJob("client-ordered", "ordered consume", 300_000, 60_000, 3.0, is_filled=True),
    ClientJob("client-core-subscribe", "core subscribe", 400_000, 100_000, 2.5, is_fed=True),
    ClientJob("client-core-publish", "core publish", 600_000, 100_000, 2.5),
    ClientJob("client-scan", "scan into Arrow", 1_000_000, 200_000, 0.7, is_filled=True, others=("floor",)),
]
SYNC_AT_LEAST = 0.8


def measure_client(job: ClientJob, server_command: list[str], count: int, rounds: int) -> list[dict[str, Any]]:
    """Every client in turn, `rounds` times; a row for each comparison."""
    faces = ["async", "sync", *[other for other in job.others if other != "node" or node_command() is not None]]
    if "nats-py-uvloop" in faces:
        faces.insert(1, "async-uvloop")
    runs: dict[str, list[Run]] = {face: [] for face in faces}
    with server_process(server_command) as server:
        prepare(server, job, count)
        for _ in range(rounds):
            for face in faces:
                runs[face].append(run_face(server, job, face, count))
    rows = []
    for other in job.others:
        if other in runs:
            ours = "async-uvloop" if other.endswith("uvloop") else "async"
            bar = job.at_least if other != "node" else None
            rows.append(row(job, count, runs, ours, other, bar))
    rows.append(row(job, count, runs, "sync", "async", SYNC_AT_LEAST))
    return rows


def row(
    job: ClientJob, count: int, runs: dict[str, list[Run]], ours: str, theirs: str, at_least: float | None
) -> dict[str, Any]:
    our_runs, their_runs = runs[ours], runs[theirs]
    ratio = statistics.median([a.rate / b.rate for a, b in zip(our_runs, their_runs, strict=True)])
    return {
        "job": job.name,
        "measure": f"{job.title}: {ours} to {theirs}",
        "unit": "msg/s",
        "messages": count,
        "ours": statistics.median(run.rate for run in our_runs),
        "theirs": statistics.median(run.rate for run in their_runs),
        "ratio": ratio,
        "at_least": at_least,
        "met": None if at_least is None else ratio >= at_least,
        "our_runs": [run.rate for run in our_runs],
        "their_runs": [run.rate for run in their_runs],
        "our_cpu_us": statistics.median(run.cpu_us for run in our_runs),
        "their_cpu_us": statistics.median(run.cpu_us for run in their_runs),
    }


def prepare(server: ServerProcess, job: ClientJob, count: int) -> None:
    """The stream; with `count` messages in it when the job reads them."""
    connection = Connection(server.host, server.port)
    connection.request("$JS.API.STREAM.CREATE.BENCH", {"name": "BENCH", "subjects": ["bench.>"], "storage": "file"})
    if job.is_filled:
        publish_windowed([connection], "bench.a", SIZE, count, 4_000)
    connection.close()


def run_face(server: ServerProcess, job: ClientJob, face: str, count: int) -> Run:
    """What one client did."""
    if face == "floor":
        cpu_s = time.process_time()
        seconds = drain(server, count)
        return Run(count / seconds, (time.process_time() - cpu_s) / count * 1e6)
    url = f"nats://{server.host}:{server.port}"
    name = job.name.removeprefix("client-")
    worker = [sys.executable, "-m", "bench.client_worker", face] if face != "node" else node_command()
    assert worker is not None
    process = subprocess.Popen(
        [*worker, name, url, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        if said.strip() != "ready":
            raise RuntimeError(f"{face} could not start {job.name}: {said!r}")
        process.stdin.write("go\n")
        process.stdin.flush()
        if job.is_fed:
            feed(server, count)
        rate, cpu_us = process.stdout.readline().split()
        return Run(float(rate), float(cpu_us))
    finally:
        process.stdin.close()
        process.stdout.close()
        process.terminate()
        process.wait(20)


def feed(server: ServerProcess, count: int) -> None:
    """Publish to a core subject as fast as the server takes it."""
    connection = Connection(server.host, server.port)
    frame = f"PUB core.bench {SIZE}\r\n".encode() + payload_of(SIZE) + b"\r\n"
    block = memoryview(frame * 1000)
    for _ in range(count // 1000):
        connection.send(block)
    connection.send(bytes(block[: count % 1000 * len(frame)]) + b"PING\r\n")
    connection.read_until(b"PONG\r\n")
    connection.close()


def drain(server: ServerProcess, count: int) -> float:
    """Seconds a bare socket needs for the same messages: it pulls as much, reads, and decodes nothing."""
    connection = Connection(server.host, server.port)
    config = {"ack_policy": "none", "mem_storage": True, "deliver_policy": "all", "inactive_threshold": 60_000_000_000}
    connection.send(b"SUB _IN.drain 9\r\nPING\r\n")
    connection.read_until(b"PONG\r\n")
    started_s = time.perf_counter()
    connection.request("$JS.API.CONSUMER.CREATE.BENCH.drain", {"stream_name": "BENCH", "config": config})
    body = b'{"batch":50000,"expires":30000000000}'
    request = b"PUB $JS.API.CONSUMER.MSG.NEXT.BENCH.drain _IN.drain %d\r\n%s\r\n" % (len(body), body)
    connection.send(request * 2)
    connection.start_counting()
    received = asked = 0
    while received < count:
        received += connection.count(MARKER)
        if received // 50_000 > asked:
            asked += 1
            connection.send(request)
    seconds = time.perf_counter() - started_s
    connection.close()
    cleaner = Connection(server.host, server.port)
    cleaner.request("$JS.API.CONSUMER.DELETE.BENCH.drain")
    cleaner.close()
    return seconds


def node_command() -> list[str] | None:
    """How to run the Node worker; None without Node or its packages (the peers tests install them)."""
    node = shutil.which("node")
    if node is None or not (NODE_PACKAGES / "@nats-io" / "jetstream").exists():
        return None
    script = NODE_PACKAGES.parent / "client_worker.mjs"
    shutil.copy(Path(__file__).with_name("client_worker.mjs"), script)
    return [node, str(script)]
