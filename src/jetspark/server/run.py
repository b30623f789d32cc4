"""The `jetspark server` process: command line, signals, files that tell others about it, exit code.

Decided here: which signal does what, exit codes, and what is written where outside the log. Everything else is
`Server`'s, which runs the same inside another program.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jetspark import __version__, _build
from jetspark.broker.options import VERSION
from jetspark.server.flags import CommandLine, UsageError, options_from, parse_command_line
from jetspark.server.listener import join_host_port
from jetspark.server.loops import loop_factory
from jetspark.server.memory import keep_free_memory
from jetspark.server.options import Options, OptionsError
from jetspark.server.signals import send_signal
from jetspark.server.usage import TLS_HELP, USAGE

if TYPE_CHECKING:
    from jetspark.server.server import Server

_NAME: Final = "jetspark server"
# Collections of the youngest objects cost the loop a pause each; messages leave no cycles behind, so they are rare.
GC_THRESHOLDS: Final = (50_000, 20, 50)


def main(arguments: Sequence[str]) -> int:
    """Run the command line; the exit code."""
    try:
        line = parse_command_line(arguments)
    except UsageError as error:
        # nats-server prints its usage and ends without an error code here; launchers know it that way.
        sys.stderr.write(f"{error}\n")
        sys.stdout.write(f"{USAGE}\n")
        return 0
    except OptionsError as error:
        return _fail(error)
    if line.shows_version:
        sys.stdout.write(f"nats-server: v{VERSION}\njetspark: v{__version__} ({_build.DESCRIPTION})\n")
        return 0
    if line.shows_help or line.shows_tls_help:
        sys.stdout.write(f"{USAGE if line.shows_help else TLS_HELP}\n")
        return 0
    return _act(line)


def _act(line: CommandLine) -> int:
    try:
        if line.signal:
            send_signal(line.signal)
            return 0
        options, warnings = options_from(line)
    except OptionsError as error:
        return _fail(error)
    if line.is_config_test:
        sys.stderr.write(f"{_NAME}: configuration file {options.config_file} is valid ({options.config_digest})\n")
        return 0
    sys.stderr.writelines(f"{warning}\n" for warning in warnings)
    keep_free_memory()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(line, options))


def _fail(error: Exception) -> int:
    sys.stderr.write(f"{_NAME}: {error}\n")
    return 1


async def _serve(line: CommandLine, options: Options) -> int:
    # Imported when needed: asking for the version or checking a file is answered at once.
    from jetspark.server.server import Server

    try:
        server = Server(options)
    except (OptionsError, OSError) as error:
        return _fail(error)
    server.logger.debug(f"Loop: {type(asyncio.get_running_loop()).__module__}")
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: _log_surprise(server, context))
    _handle_signals(server, line)
    files: list[Path] = []
    try:
        await server.start(before_ready=lambda: files.extend(_write_files(server)))
    except OptionsError as error:
        server.logger.fatal(str(error))
        return 1
    except OSError as error:
        server.logger.fatal(f'Error listening on port: {join_host_port(options.host, options.port)}, "{error}"')
        return 1
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    await server.wait_stopped()
    for file in files:
        file.unlink(missing_ok=True)
    return 0


def _log_surprise(server: Server, context: dict[str, object]) -> None:
    error = context.get("exception")
    detail = f": {type(error).__name__}: {error}" if isinstance(error, BaseException) else ""
    server.logger.error(f"{context.get('message', 'Unhandled error')}{detail}")


def _handle_signals(server: Server, line: CommandLine) -> None:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    def stop(name: str) -> None:
        server.logger.info(f'Trapped "{name}" signal')
        if not server.is_ready:
            # Still opening the store, which may be ended at any moment like everything the store does.
            server.logger.info("Server Exiting..")
            os._exit(0)
        task = loop.create_task(server.stop())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def lame_duck() -> None:
        server.logger.info('Trapped "user defined signal 2" signal')
        if server.is_ready:
            server.enter_lame_duck()

    def reload() -> None:
        if server.is_ready:
            _reload(server, line)

    def reopen() -> None:
        server.logger.reopen()
        server.logger.info("File log re-opened")

    loop.add_signal_handler(signal.SIGINT, stop, "interrupt")
    loop.add_signal_handler(signal.SIGTERM, stop, "terminated")
    loop.add_signal_handler(signal.SIGUSR1, reopen)
    loop.add_signal_handler(signal.SIGUSR2, lame_duck)
    loop.add_signal_handler(signal.SIGHUP, reload)


def _reload(server: Server, line: CommandLine) -> None:
    if not line.config_file:
        server.logger.error("Failed to reload server configuration: can only reload config when a file is provided")
        return
    try:
        options, warnings = options_from(line)
        for warning in warnings:
            server.logger.warning(warning)
        server.reload(options)
    except (OptionsError, OSError) as error:
        server.logger.error(f"Failed to reload server configuration: {error}")


def _write_files(server: Server) -> list[Path]:
    """The pid and ports files an operator asked for; they go when the server does."""
    written: list[Path] = []
    options = server.options
    contents: dict[Path, str] = {}
    if options.pid_file:
        contents[Path(options.pid_file)] = str(os.getpid())
    if options.ports_file_dir:
        ports: dict[str, list[str]] = {"nats": [server.client_url]}
        if server.http_port:
            ports["monitoring"] = [server.monitor_url]
        contents[Path(options.ports_file_dir) / f"jetspark_{os.getpid()}.ports"] = json.dumps(ports)
    for path, text in contents.items():
        try:
            path.write_text(text, encoding="utf-8")
            written.append(path)
        except OSError as error:
            if str(path) == options.pid_file:
                reason = str(error.strerror).lower()
                raise OptionsError(f"Could not write pidfile: open {path}: {reason}") from None
            server.logger.error(f"Could not write {path}: {error}")
    return written
