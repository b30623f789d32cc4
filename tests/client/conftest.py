"""Real servers for the client's tests: one of each kind for the whole run, or one of a test's own to stop and restart.

A test that asks for a server runs twice, on nats-server and on ours. `JETSPARK_TEST_SERVER=jetspark` (or
`nats-server`) leaves the other out.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jetspark.client.aio import Connection, JetStream, Stream, connect
from jetspark.errors import JetsparkError
from jetspark.testing.processes import server_command
from tests.client.peer import ScriptedPeer
from tests.client.proxy import ChaosProxy

OURS = "jetspark"
THEIRS = "nats-server"
KINDS = [
    # `oracle` keeps the other server out of the quick run; what behaves alike is compared in the full one.
    pytest.param(THEIRS, marks=pytest.mark.oracle),
    pytest.param(OURS),
]
ONLY = os.environ.get("JETSPARK_TEST_SERVER", "")
if ONLY:
    assert ONLY in (OURS, THEIRS), f"JETSPARK_TEST_SERVER is {OURS} or {THEIRS}, not {ONLY!r}"
    KINDS = [pytest.param(ONLY)]


def command_of(kind: str) -> list[str]:
    """How to start a server of this kind."""
    command = server_command(kind)
    if command is None:
        pytest.skip("no nats-server binary: install the dev dependencies")
    return command


class NatsServer:
    """One server process on a free loopback port; its kind is nats-server, or ours."""

    def __init__(
        self, folder: Path, *arguments: str, config: str = "", jetstream: bool = True, kind: str = THEIRS
    ) -> None:
        self.kind = kind
        self.folder = folder
        self.arguments = list(arguments)
        self.config = config
        self.jetstream = jetstream
        self.port = 0
        self.websocket_port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> NatsServer:
        self.folder.mkdir(parents=True, exist_ok=True)
        log_path = self.folder / "server.log"
        log_path.unlink(missing_ok=True)
        command = [*command_of(self.kind), "-a", "127.0.0.1", "-p", str(self.port or -1), "-l", str(log_path)]
        if self.jetstream:
            command += ["-js", "-sd", str(self.folder / "store")]
        if self.config:
            config_path = self.folder / "server.conf"
            config_path.write_text(self.config)
            command += ["-c", str(config_path)]
        self.process = subprocess.Popen(command + self.arguments)
        self._wait_ready(log_path)
        return self

    def _wait_ready(self, log_path: Path) -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            text = log_path.read_text() if log_path.exists() else ""
            if "Server is ready" in text:
                found = re.search(r"Listening for client connections on [^\n]*:(\d+)", text)
                assert found is not None, text
                self.port = int(found.group(1))
                found = re.search(r"Listening for websocket clients on \w+://[^\n]*:(\d+)", text)
                self.websocket_port = int(found.group(1)) if found else 0
                return
            assert self.process is not None
            assert self.process.poll() is None, text
            time.sleep(0.01)  # noqa: TID251 - the condition is waited for, not the time
        raise AssertionError(f"{self.kind} did not start: {log_path.read_text()}")

    def freeze(self) -> None:
        """From here on it answers nothing, and its connections stay. A signal is not there at once: wait for it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            # A frozen one would not hear it.
            self.process.send_signal(signal.SIGCONT)
            self.process.wait(10)
            self.process = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None

    def restart(self) -> None:
        """Stop and start on the same port and the same store."""
        self.stop()
        self.start()


@pytest.fixture(scope="session", params=KINDS)
def server_kind(request: pytest.FixtureRequest) -> str:
    """Which server this run of the test is on."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="session")
def shared_server(server_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("nats"), kind=server_kind).start()
    yield server
    server.stop()


@pytest.fixture
def url(shared_server: NatsServer) -> str:
    """Where the shared server listens."""
    return shared_server.url


@pytest.fixture
def make_server(server_kind: str, tmp_path: Path) -> Iterator[Callable[..., NatsServer]]:
    """Servers of a test's own: `make_server(config=...)`, already started, stopped afterwards."""
    made: list[NatsServer] = []

    def make(*arguments: str, **options: Any) -> NatsServer:
        folder = tmp_path / f"server{len(made)}"
        server = NatsServer(folder, *arguments, kind=server_kind, **options)
        made.append(server)
        return server.start()

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def name() -> str:
    """A stream name no other test uses."""
    return "S" + uuid.uuid4().hex[:12]


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    """A peer that says exactly what the test tells it to."""
    made = ScriptedPeer()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def proxy(shared_server: NatsServer) -> AsyncIterator[ChaosProxy]:
    """A calm proxy before the shared server, to cut connections with."""
    async with ChaosProxy(shared_server.port, seed=1) as made:
        yield made


@pytest.fixture
async def connection(url: str) -> AsyncIterator[Connection]:
    """A connection to the shared server."""
    async with await connect(url) as made:
        yield made


@pytest.fixture
async def jetstream(connection: Connection, name: str) -> AsyncIterator[JetStream]:
    """JetStream on the shared server; the stream called `name` is removed afterwards."""
    made = connection.jetstream()
    yield made
    with contextlib.suppress(JetsparkError):
        await made.delete_stream(name)


@pytest.fixture
async def stream(jetstream: JetStream, name: str) -> Stream:
    """An empty stream on `<name>.>`, in memory."""
    return await jetstream.create_stream(name, subjects=[f"{name}.>"], storage="memory")
