"""The server inside another program: in a thread of its own, or in the caller's event loop.

Decided here: what a program that just wants a server gets (loopback, a free port, JetStream on, a store that goes
away with it). Not known here: anything about serving itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypedDict

from jetspark.clock import SystemClock
from jetspark.server.log import Logger, LoggingSink, logger_from
from jetspark.server.loops import loop_factory
from jetspark.server.options import Options
from jetspark.server.options_reader import read_config_file
from jetspark.server.server import Server


def embedded_options(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    store_dir: str | Path | None = None,
    jetstream: bool = True,
    http_port: int | None = None,
    config_file: str | Path | None = None,
) -> Options:
    """Options for an embedded server; a port of 0 is any free one. What a file says stands over the defaults."""
    options = Options(host=host, port=port or -1)
    options.jetstream.enabled = jetstream
    if http_port is not None:
        options.http_port = http_port or -1
    if config_file is not None:
        options, _ = read_config_file(str(config_file), options)
    if store_dir is not None:
        options.jetstream.store_dir = str(store_dir)
    return options


def _logger(options: Options) -> Logger:
    """The host program's logging, unless the options name a log file."""
    if options.log_file or options.syslog or options.remote_syslog:
        return logger_from(options, SystemClock())
    python_logger = logging.getLogger("jetspark.server")
    return Logger(LoggingSink(python_logger), debug=options.debug, trace=options.trace)


@contextlib.asynccontextmanager
async def serve_async(
    options: Options | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    store_dir: str | Path | None = None,
    jetstream: bool = True,
    http_port: int | None = None,
    config_file: str | Path | None = None,
) -> AsyncIterator[Server]:
    """Run a server in your event loop, until the end of the block.

        async with jetspark.serve_async(store_dir="./store") as server:
            connection = await jetspark.connect(server.url)

    - `host`, `port`: where clients connect. Port 0 is any free one.
    - `store_dir`: the folder for streams. Without it they are in a temporary folder, which is removed at the end.
    - `http_port`: the monitoring port, with dashboard and metrics. 0 is any free one.
    - `config_file`: a file as for `jetspark server -c`, for users, TLS, limits and everything else.
    - `options`: replaces all other arguments.

    Raises OSError if the port is taken, and OptionsError if another server uses the store or the file has an error.
    """
    if options is None:
        options = embedded_options(
            host=host,
            port=port,
            store_dir=store_dir,
            jetstream=jetstream,
            http_port=http_port,
            config_file=config_file,
        )
    with contextlib.ExitStack() as stack:
        if options.jetstream.enabled and not options.jetstream.store_dir:
            directory = tempfile.TemporaryDirectory(prefix="jetspark-", ignore_cleanup_errors=True)
            options.jetstream.store_dir = stack.enter_context(directory)
        async with Server(options, logger=_logger(options)) as server:
            yield server


class RunningServer:
    """A server that runs in a thread of this process: `url`, `host` and `port` say where. `jetspark.connect(server=…)`
    takes it too.
    """

    def __init__(self, server: Server) -> None:
        self.host = server.host
        """The address it listens on."""
        self.port = server.port
        """The port it listens on, also when any free one was asked for."""
        self.http_port = server.http_port
        """The port of monitoring, dashboard and metrics; 0 without them."""
        self.url = server.client_url
        """What a client connects to: `nats://host:port`."""
        self.server = server
        """The server itself, in its own thread: look, do not call."""


class _Arguments(TypedDict):
    host: str
    port: int
    store_dir: str | Path | None
    jetstream: bool
    http_port: int | None
    config_file: str | Path | None


class _ServerThread:
    """A loop in a thread, and a server in the loop."""

    def __init__(self, options: Options | None, arguments: _Arguments) -> None:
        self._options = options
        self._arguments = arguments
        self._running: RunningServer | None = None
        self._failure: BaseException | None = None
        self._is_settled = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="jetspark-server", daemon=True)

    def begin(self) -> RunningServer:
        """Start and wait until clients can connect; a failure to start is raised here."""
        self._thread.start()
        self._is_settled.wait()
        if self._running is None:
            self._thread.join()
            assert self._failure is not None
            failure, self._failure = self._failure, None
            raise failure
        return self._running

    def end(self) -> None:
        """Stop and wait until everything is on the disk and the thread is gone."""
        if self._loop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._leave.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._live())
        except BaseException as error:  # noqa: BLE001 (carried to the caller's thread)
            self._failure = error
        finally:
            self._is_settled.set()

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with serve_async(self._options, **self._arguments) as server:
            self._running = RunningServer(server)
            self._is_settled.set()
            await self._leave.wait()


@contextlib.contextmanager
def serve(
    options: Options | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    store_dir: str | Path | None = None,
    jetstream: bool = True,
    http_port: int | None = None,
    config_file: str | Path | None = None,
) -> Iterator[RunningServer]:
    """Run a server in a background thread, until the end of the block.

        with jetspark.serve() as server:
            print(server.url)

    Takes the same arguments as `serve_async`, and raises the same errors.
    """
    arguments: _Arguments = {
        "host": host,
        "port": port,
        "store_dir": store_dir,
        "jetstream": jetstream,
        "http_port": http_port,
        "config_file": config_file,
    }
    thread = _ServerThread(options, arguments)
    try:
        yield thread.begin()
    finally:
        thread.end()
