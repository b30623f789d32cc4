"""What is measured: each job, on a fresh server with a fresh store, gives numbers for one server."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.load import (
    Connection,
    publish_and_subscribe,
    publish_one_by_one,
    publish_windowed,
    pull_batches,
    push_with_flow_control,
)
from jetspark.testing.processes import ServerProcess, server_process

MESSAGE_SIZE = 128
IN_FLIGHT = 8_000
BATCH = 1_000
SYNC_ALWAYS = "jetstream { sync_interval: always }\n"
SYNC_LATER = 'jetstream { sync_interval: "2m" }\n'
MANY = 5_000_000


@dataclass(frozen=True)
class Measure:
    """One number: its unit, whether more is better, and the ratio (ours to theirs, better side up) asked for."""

    name: str
    unit: str
    more_is_better: bool
    at_least: float | None = None


@dataclass(frozen=True)
class Job:
    """`run` measures one server; `count` is the number of messages, smaller when quick."""

    name: str
    measures: tuple[Measure, ...]
    run: Callable[[list[str], str | None, int], tuple[float, ...]]
    count: int
    quick_count: int
    our_config: str | None = None
    reference_config: str | None = None
    reference_count: int | None = None  # Where the other side is so slow that its own count must be smaller.
    rounds: int | None = None
    against_itself: bool = False  # The other column is this server too, with `reference_count` messages.


def create_stream(connection: Connection, storage: str = "file") -> None:
    config = {"name": "BENCH", "subjects": ["bench.>"], "storage": storage}
    connection.request("$JS.API.STREAM.CREATE.BENCH", config)


def publishing(storage: str = "file", size: int = MESSAGE_SIZE, clients: int = 1) -> Callable[..., tuple[float, ...]]:
    window = IN_FLIGHT if size <= 1024 else 512

    def run(command: list[str], config: str | None, count: int) -> tuple[float, ...]:
        with server_process(command, config_text=config) as server:
            connections = [Connection(server.host, server.port) for _ in range(clients)]
            create_stream(connections[0], storage)
            warm_up = min(count // 10, 20_000) // clients * clients
            publish_windowed(connections, "bench.warm", size, warm_up, window)
            close_all(connections)
            connections = [Connection(server.host, server.port) for _ in range(clients)]
            published = count // clients * clients
            seconds = publish_windowed(connections, "bench.a", size, published, window)
            close_all(connections)
            check_stored(server, warm_up + published)
            return (published / seconds,)

    return run


def plain(run: Callable[..., tuple[float, ...]]) -> Callable[..., tuple[float, ...]]:
    """The same with our server as a machine without a C compiler has it; the other does not know the variable."""

    def run_plain(command: list[str], config: str | None, count: int) -> tuple[float, ...]:
        return run(["env", "JETSPARK_PURE=1", *command], config, count)

    return run_plain


def close_all(connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()


def check_stored(server: ServerProcess, count: int) -> None:
    """An error also looks like an acknowledgement to a client that only counts: ask what was stored."""
    connection = Connection(server.host, server.port)
    state = connection.request("$JS.API.STREAM.INFO.BENCH")["state"]
    connection.close()
    assert state["messages"] == count, f"{count} messages were published, but the stream says {state}"


def filled(server: ServerProcess, count: int) -> Connection:
    """A connection to a server whose stream holds `count` messages."""
    loader = Connection(server.host, server.port)
    create_stream(loader)
    publish_windowed([loader], "bench.a", MESSAGE_SIZE, count, IN_FLIGHT)
    loader.close()
    return Connection(server.host, server.port)


def pulling(*, ack: bool) -> Callable[..., tuple[float, ...]]:
    def run(command: list[str], config: str | None, count: int) -> tuple[float, ...]:
        with server_process(command, config_text=config) as server:
            connection = filled(server, count)
            consumer: dict[str, object] = {"durable_name": "pull", "ack_policy": "explicit" if ack else "none"}
            if ack:
                consumer["max_ack_pending"] = 20_000
            connection.request("$JS.API.CONSUMER.CREATE.BENCH.pull", {"stream_name": "BENCH", "config": consumer})
            seconds = pull_batches(connection, "BENCH", "pull", count, BATCH, ack=ack)
            connection.close()
            return (count / seconds,)

    return run


def pushing(command: list[str], config: str | None, count: int) -> tuple[float, ...]:
    with server_process(command, config_text=config) as server:
        connection = filled(server, count)
        seconds = push_with_flow_control(connection, "BENCH", count)
        connection.close()
        return (count / seconds,)


def restarting(command: list[str], config: str | None, count: int) -> tuple[float, ...]:
    """Seconds from starting the process to the stream's answer, and memory held after publishing."""
    with server_process(command, config_text=config) as server:
        connection = filled(server, count)
        time.sleep(2.0)  # Both servers may have work left over from publishing; measure what they hold after it.
        held_mib = resident_bytes(server.pid) / (1 << 20)
        connection.close()
        server.stop()
        started_s = time.perf_counter()
        server.start()
        connection = Connection(server.host, server.port)
        state = connection.request("$JS.API.STREAM.INFO.BENCH")["state"]
        seconds = time.perf_counter() - started_s
        assert state["messages"] == count, state
        connection.close()
        return seconds, held_mib


def with_stored(command: list[str], config: str | None, count: int) -> tuple[float, ...]:
    """Rates of publishing to, and of reading from the start of, a stream that holds `count` messages already."""
    some = 400_000
    with server_process(command, config_text=config) as server:
        connection = filled(server, count)
        published_s = publish_windowed([connection], "bench.more", MESSAGE_SIZE, some, IN_FLIGHT)
        connection.close()
        connection = Connection(server.host, server.port)
        consumer = {"durable_name": "pull", "ack_policy": "none"}
        connection.request("$JS.API.CONSUMER.CREATE.BENCH.pull", {"stream_name": "BENCH", "config": consumer})
        pulled_s = pull_batches(connection, "BENCH", "pull", some, BATCH, ack=False)
        connection.close()
        return some / published_s, some / pulled_s


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no VmRSS for process {pid}")


def latency(command: list[str], config: str | None, count: int) -> tuple[float, ...]:
    with server_process(command, config_text=config) as server:
        connection = Connection(server.host, server.port)
        create_stream(connection)
        latencies = publish_one_by_one(connection, "bench.a", MESSAGE_SIZE, count)
        connection.close()
        ordered = sorted(latencies)
        return statistics.median(ordered) * 1e6, ordered[int(len(ordered) * 0.99)] * 1e6


def core(command: list[str], config: str | None, count: int) -> tuple[float, ...]:
    with server_process(command, config_text=config, jetstream=False) as server:
        publisher, subscriber = Connection(server.host, server.port), Connection(server.host, server.port)
        seconds = publish_and_subscribe(publisher, subscriber, MESSAGE_SIZE, count)
        publisher.close()
        subscriber.close()
        return (count / seconds,)


def rate(name: str, at_least: float | None = None) -> tuple[Measure, ...]:
    return (Measure(name, "msg/s", True, at_least),)


LATENCIES = (Measure("median", "µs", False), Measure("99 %", "µs", False))

JOBS = [
    Job("publish-file", rate("publish, file, ours synced, theirs default", 2.0), publishing(), 600_000, 100_000),
    Job(
        "publish-file-always",
        rate("publish, file, both synced before the ack", 100.0),
        publishing(),
        600_000,
        100_000,
        reference_config=SYNC_ALWAYS,
        reference_count=10_000,
    ),
    Job("publish-memory", rate("publish, memory", 2.0), publishing("memory"), 600_000, 100_000),
    Job("publish-plain", rate("publish, file, ours not compiled", 0.5), plain(publishing()), 300_000, 100_000),
    Job("pull-none", rate("pull, ack none, batches of 1,000", 2.0), pulling(ack=False), 600_000, 100_000),
    Job("pull-explicit", rate("pull, explicit acks, batches of 1,000", 1.5), pulling(ack=True), 400_000, 60_000),
    Job("push-flow", rate("push, flow control, ack none", 1.5), pushing, 600_000, 100_000),
    Job(
        "restart",
        (
            Measure("restart with the messages", "s", False, 1.0),
            Measure("memory held after publishing", "MiB", False, 1 / 1.5),
        ),
        restarting,
        MANY,
        300_000,
        rounds=1,
    ),
    Job(
        "flat",
        (
            Measure("publish with 10 million stored, against 100 thousand", "msg/s", True, 0.8),
            Measure("pull with 10 million stored, against 100 thousand", "msg/s", True, 0.8),
        ),
        with_stored,
        10_000_000,
        1_000_000,
        reference_count=100_000,
        rounds=1,
        against_itself=True,
    ),
    Job("latency", tuple(m for m in LATENCIES), latency, 3_000, 500),
    Job(
        "latency-relaxed",
        tuple(m for m in LATENCIES),
        latency,
        3_000,
        500,
        our_config=SYNC_LATER,
    ),
    Job("latency-always", tuple(m for m in LATENCIES), latency, 2_000, 300, reference_config=SYNC_ALWAYS),
    Job("core", rate("core publish and subscribe"), core, 2_000_000, 300_000),
    Job("publish-100", rate("publish, file, 100 connections"), publishing(clients=100), 400_000, 100_000),
    Job("publish-1k", rate("publish, file, 1 KiB messages"), publishing(size=1024), 300_000, 50_000),
    Job("publish-64k", rate("publish, file, 64 KiB messages"), publishing(size=65536), 10_000, 2_000),
]
