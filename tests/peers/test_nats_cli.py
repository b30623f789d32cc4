"""The `nats` command does the examples of the specification against our server.

Taken from the PATH, or built once with Go into the build folder. The build goes through a module of its own
rather than `go install`, which also asks for a list of versions that not every module proxy has.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.peers, pytest.mark.timeout(230)]
SOURCE = Path(__file__).parent / "nats_cli" / "go.mod"
WORK = Path(__file__).parents[2] / "build" / "peers-nats-cli"
BUILD_TIMEOUT_S = 200


@pytest.fixture(scope="session")
def nats_command() -> str:
    """The command's path; skips, saying why, where it can neither be found nor built."""
    found = shutil.which("nats")
    if found:
        return found
    binary = WORK / "nats"
    if binary.exists():
        return str(binary)
    go = shutil.which("go")
    if go is None:
        pytest.skip("neither the nats command nor go is installed")
    WORK.mkdir(parents=True, exist_ok=True)
    shutil.copy(SOURCE, WORK)
    command = [go, "build", "-mod=mod", "-o", str(binary), "github.com/nats-io/natscli/nats"]
    try:
        result = subprocess.run(command, cwd=WORK, capture_output=True, text=True, check=False, timeout=BUILD_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"go did not build the nats command in {BUILD_TIMEOUT_S} s; its cache makes the next try shorter")
    if result.returncode != 0:
        pytest.skip(f"go could not build the nats command: {result.stderr.strip()[-300:]}")
    return str(binary)


class NatsCommand:
    """Runs `nats` against one server, away from the user's own contexts."""

    def __init__(self, path: str, url: str, home: Path) -> None:
        self._path = path
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
        self._environment = inherited | {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "NATS_URL": url}

    def __call__(self, *arguments: str) -> str:
        result = subprocess.run(
            [self._path, *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert result.returncode == 0, f"nats {' '.join(arguments)}\n{result.stdout}{result.stderr}"
        return result.stdout + result.stderr

    def document(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


@pytest.fixture
def cli(nats_command: str, server_url: str, tmp_path: Path) -> NatsCommand:
    run = NatsCommand(nats_command, server_url, tmp_path)
    for name in run("stream", "ls", "--names", "--all").split():
        run("stream", "rm", name, "-f")
    return run


@pytest.fixture
def orders(cli: NatsCommand) -> NatsCommand:
    cli("stream", "add", "ORDERS", "--subjects", "ORDERS.*", "--defaults")
    pull = ("--pull", "--filter", "ORDERS.processed", "--ack", "explicit", "--deliver", "all", "--replay", "instant")
    cli("consumer", "add", "ORDERS", "DISPATCH", *pull, "--wait", "1s", "--defaults")
    return cli


def consumer_numbers(cli: NatsCommand) -> tuple[int, ...]:
    info = cli.document("consumer", "info", "ORDERS", "DISPATCH")
    delivered, floor = info["delivered"], info["ack_floor"]
    sequences = (delivered["consumer_seq"], delivered["stream_seq"], floor["consumer_seq"], floor["stream_seq"])
    return (*sequences, info["num_ack_pending"], info["num_redelivered"])


def test_deduplication(orders: NatsCommand) -> None:
    first = orders("req", "-H", "Nats-Msg-Id:1", "ORDERS.new", "hello1")
    second = orders("req", "-H", "Nats-Msg-Id:1", "ORDERS.new", "hello2")

    assert '{"stream":"ORDERS","seq":1}' in first
    assert '"duplicate": true' in second
    state = orders.document("stream", "info", "ORDERS")["state"]
    assert (state["messages"], state["bytes"]) == (1, 78)


def test_walk_through(orders: NatsCommand) -> None:
    assert consumer_numbers(orders) == (0, 0, 0, 0, 0, 0)
    orders("pub", "ORDERS.processed", "order 4")
    assert orders.document("stream", "info", "ORDERS")["state"]["bytes"] == 53
    assert "Acknowledged message" in orders("consumer", "next", "ORDERS", "DISPATCH")
    assert consumer_numbers(orders) == (1, 1, 1, 1, 0, 0)
    orders("pub", "ORDERS.processed", "order 5")
    assert "order 5" in orders("consumer", "next", "ORDERS", "DISPATCH", "--no-ack")
    assert consumer_numbers(orders) == (2, 2, 1, 1, 1, 0)
    assert "order 5" in orders("consumer", "next", "ORDERS", "DISPATCH", "--no-ack")
    assert consumer_numbers(orders) == (3, 2, 1, 1, 1, 1)
    assert "order 5" in orders("consumer", "next", "ORDERS", "DISPATCH")
    assert consumer_numbers(orders) == (4, 2, 4, 2, 0, 0)


@pytest.mark.parametrize(("start", "expected"), [("all", "order 1"), ("last", "order 100"), ("10", "order 10")])
def test_starting_positions(orders: NatsCommand, start: str, expected: str) -> None:
    orders("pub", "ORDERS.processed", "order {{Count}}", "--count", "100")
    pull = ("--pull", "--filter", "ORDERS.processed", "--ack", "none", "--replay", "instant")
    orders("consumer", "add", "ORDERS", "START", *pull, "--deliver", start, "--defaults")

    assert expected in orders("consumer", "next", "ORDERS", "START").splitlines()


def test_listing_and_reports(orders: NatsCommand) -> None:
    orders("pub", "ORDERS.new", "hello")

    assert orders("stream", "ls", "--names").split() == ["ORDERS"]
    assert orders("consumer", "ls", "ORDERS", "--names").split() == ["DISPATCH"]
    assert "ORDERS" in orders("stream", "report")
    assert "DISPATCH" in orders("consumer", "report", "ORDERS")
    assert "hello" in orders("stream", "get", "ORDERS", "1")
    assert "ORDERS.new" in orders("stream", "subjects", "ORDERS")
    assert "JetStream Account Information" in orders("account", "info")
    assert "nats://" in orders("rtt", "1")


def test_editing_purging_and_pausing(orders: NatsCommand) -> None:
    orders("pub", "ORDERS.new", "hello", "--count", "3")
    orders("stream", "edit", "ORDERS", "--max-msgs", "2", "-f")
    assert orders.document("stream", "info", "ORDERS")["state"]["messages"] == 2
    orders("stream", "rmm", "ORDERS", "2", "-f")
    orders("stream", "purge", "ORDERS", "-f")
    assert orders.document("stream", "info", "ORDERS")["state"]["messages"] == 0
    assert "Paused" in orders("consumer", "pause", "ORDERS", "DISPATCH", "1h", "-f")
    assert "resumed" in orders("consumer", "resume", "ORDERS", "DISPATCH", "-f")
    orders("consumer", "rm", "ORDERS", "DISPATCH", "-f")
    orders("stream", "rm", "ORDERS", "-f")
    assert orders("stream", "ls", "--names").split() == []


def test_key_value_bucket(cli: NatsCommand) -> None:
    cli("kv", "add", "CONFIG", "--history", "5")
    cli("kv", "put", "CONFIG", "color", "red")
    cli("kv", "put", "CONFIG", "color", "blue")

    assert cli("kv", "get", "CONFIG", "color", "--raw").strip() == "blue"
    assert cli("kv", "ls", "CONFIG").split() == ["color"]
    assert "red" in cli("kv", "history", "CONFIG", "color")
    cli("kv", "del", "CONFIG", "color", "-f")
    assert "DELETE" in cli("kv", "history", "CONFIG", "color")


def test_object_store(cli: NatsCommand, tmp_path: Path) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(bytes(range(256)) * 1000)
    cli("object", "add", "FILES")

    cli("object", "put", "FILES", str(source), "--name", "numbers", "-f", "--no-progress")
    cli("object", "get", "FILES", "numbers", "-O", str(copy), "-f", "--no-progress")

    assert copy.read_bytes() == source.read_bytes()
    assert "numbers" in cli("object", "ls", "FILES")


def test_backup_and_restore(orders: NatsCommand, tmp_path: Path) -> None:
    orders("pub", "ORDERS.processed", "order {{Count}}", "--count", "20")
    orders("consumer", "next", "ORDERS", "DISPATCH")
    before = orders.document("stream", "info", "ORDERS")["state"]

    orders("stream", "backup", "ORDERS", str(tmp_path / "backup"), "--no-progress")
    orders("stream", "rm", "ORDERS", "-f")
    orders("stream", "restore", str(tmp_path / "backup"), "--no-progress")

    after = orders.document("stream", "info", "ORDERS")["state"]
    assert {key: after[key] for key in ("messages", "bytes", "first_seq", "last_seq")} == {
        key: before[key] for key in ("messages", "bytes", "first_seq", "last_seq")
    }
    assert consumer_numbers(orders)[:2] == (1, 1)


def test_its_own_benchmark_runs(cli: NatsCommand) -> None:
    size = ("--size", "128", "--no-progress")
    cli("bench", "js", "pub", "sync", "bench.a", "--create", "--stream", "BENCH", "--msgs", "200", *size)
    cli("bench", "js", "pub", "async", "bench.a", "--stream", "BENCH", "--msgs", "5000", *size)

    assert cli.document("stream", "info", "BENCH")["state"]["messages"] == 5200
    cli("bench", "js", "fetch", "--stream", "BENCH", "--msgs", "2000", "--no-progress")
    cli("bench", "js", "ordered", "--stream", "BENCH", "--msgs", "2000", "--no-progress")
