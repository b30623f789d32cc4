"""The server's log: nats-server's lines, where the operator wants them.

Decided here: the form of a line, when a log file is turned over, and where lines go (standard error, a file, syslog,
or Python's logging for a server inside another program). Not known here: what there is to say.

    [71] 2026/11/15 20:00:00.000000 [INF] Server is ready
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import logging.handlers
import os
import sys
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, TextIO

from jetspark.clock import Clock
from jetspark.server.options import Options

INFO: Final = "INF"
WARNING: Final = "WRN"
ERROR: Final = "ERR"
FATAL: Final = "FTL"
DEBUG: Final = "DBG"
TRACE: Final = "TRC"

_PYTHON_LEVELS: Final = {
    INFO: logging.INFO,
    WARNING: logging.WARNING,
    ERROR: logging.ERROR,
    FATAL: logging.CRITICAL,
    DEBUG: logging.DEBUG,
    TRACE: logging.DEBUG,
}
_COLOURS: Final = {INFO: 32, WARNING: 33, ERROR: 31, FATAL: 31, DEBUG: 36, TRACE: 33}
_SYSLOG_PORT: Final = 514
# Linux, macOS, the BSDs.
_SYSLOG_PATHS: Final = ("/dev/log", "/var/run/syslog", "/var/run/log")


class Sink(Protocol):
    """Where lines go."""

    def write(self, level: str, text: str) -> None: ...

    def reopen(self) -> None:
        """Let go of the old file and take a fresh one, after an operator moved it away."""

    def close(self) -> None: ...


class LineFormat:
    """How a line starts: process, time and level."""

    def __init__(self, clock: Clock, *, logtime: bool, is_utc: bool, is_coloured: bool = False) -> None:
        self._clock = clock
        self._logtime = logtime
        self._zone = datetime.UTC if is_utc else None
        self._is_coloured = is_coloured
        self._pid = os.getpid()

    def line(self, level: str, text: str) -> str:
        label = f"\033[{_COLOURS[level]}m{level}\033[0m" if self._is_coloured else level
        if not self._logtime:
            return f"[{self._pid}] [{label}] {text}\n"
        seconds, rest_ns = divmod(self._clock.now_ns(), 1_000_000_000)
        moment = datetime.datetime.fromtimestamp(seconds, self._zone)
        return f"[{self._pid}] {moment:%Y/%m/%d %H:%M:%S}.{rest_ns // 1000:06d} [{label}] {text}\n"

    def stamp(self) -> str:
        """The time as part of a file name, down to the nanosecond so that two never collide."""
        seconds, rest_ns = divmod(self._clock.now_ns(), 1_000_000_000)
        moment = datetime.datetime.fromtimestamp(seconds, self._zone)
        return f"{moment:%Y.%m.%d.%H.%M.%S}.{rest_ns:09d}"


class StreamSink:
    """Lines to a stream that stays open, such as standard error."""

    def __init__(self, stream: TextIO, line_format: LineFormat) -> None:
        self._stream = stream
        self._format = line_format

    def write(self, level: str, text: str) -> None:
        # Whoever read the lines may be gone (a launcher that died): serving and stopping go on without them.
        with contextlib.suppress(BrokenPipeError):
            self._stream.write(self._format.line(level, text))
            self._stream.flush()

    def reopen(self) -> None:
        """Nothing to reopen."""

    def close(self) -> None:
        """The stream belongs to the process."""


class FileSink:
    """Lines to a file, which is turned over when it grows past a limit (0: never)."""

    def __init__(self, path: str, line_format: LineFormat, *, size_limit_bytes: int = 0, files_max: int = 0) -> None:
        self._path = Path(path)
        self._format = line_format
        self._size_limit_bytes = size_limit_bytes
        self._files_max = files_max
        self._file = self._open()

    def _open(self) -> TextIO:
        return self._path.open("a", encoding="utf-8", errors="replace")

    def write(self, level: str, text: str) -> None:
        self._file.write(self._format.line(level, text))
        self._file.flush()
        if self._size_limit_bytes and self._file.tell() > self._size_limit_bytes:
            self._turn_over()

    def _turn_over(self) -> None:
        self._file.close()
        backup = self._path.with_name(f"{self._path.name}.{self._format.stamp()}")
        self._path.rename(backup)
        self._file = self._open()
        self._file.write(self._format.line(INFO, f'Rotated log, backup saved as "{backup}"'))
        self._file.flush()
        if self._files_max > 0:
            # The current file counts as one; names sort by time.
            backups = sorted(self._path.parent.glob(f"{self._path.name}.*"))
            for old in backups[: max(0, len(backups) - (self._files_max - 1))]:
                old.unlink(missing_ok=True)

    def reopen(self) -> None:
        self._file.close()
        self._file = self._open()

    def close(self) -> None:
        self._file.close()


class LoggingSink:
    """Lines to Python's logging, for a server that lives inside another program."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def write(self, level: str, text: str) -> None:
        self._logger.log(_PYTHON_LEVELS[level], "%s", text)

    def reopen(self) -> None:
        """Whoever configured logging does that."""

    def close(self) -> None:
        """Whoever configured logging does that."""


class SyslogSink(LoggingSink):
    """Lines to the local syslog, or to a server named as udp://host:port, tcp://host:port or unix:///path."""

    def __init__(self, address: str) -> None:
        logger = logging.Logger("jetspark")
        self._handler = logging.handlers.SysLogHandler(_syslog_address(address))
        self._handler.ident = f"jetspark[{os.getpid()}]: "
        logger.addHandler(self._handler)
        super().__init__(logger)

    def close(self) -> None:
        self._handler.close()


def local_syslog(paths: Sequence[str]) -> str:
    """Where this machine's syslog listens: the first of these that is there, else the first, for the error to name."""
    return next((path for path in paths if os.path.exists(path)), paths[0])


def _syslog_address(address: str) -> str | tuple[str, int]:
    if not address:
        return local_syslog(_SYSLOG_PATHS)
    url = urllib.parse.urlsplit(address)
    if url.scheme == "unix":
        return url.path
    if url.scheme == "udp":
        return url.hostname or "localhost", url.port or _SYSLOG_PORT
    raise OSError(f"invalid network type: {url.scheme!r}")


class Logger:
    """What the rest of the server talks to. The two flags are public: ask before building a costly line."""

    def __init__(self, sink: Sink, *, debug: bool = False, trace: bool = False) -> None:
        self._sink = sink
        self.is_debug = debug
        self.is_trace = trace

    def info(self, text: str) -> None:
        self._sink.write(INFO, text)

    def warning(self, text: str) -> None:
        self._sink.write(WARNING, text)

    def error(self, text: str) -> None:
        self._sink.write(ERROR, text)

    def fatal(self, text: str) -> None:
        self._sink.write(FATAL, text)

    def debug(self, text: str) -> None:
        if self.is_debug:
            self._sink.write(DEBUG, text)

    def trace(self, text: str) -> None:
        if self.is_trace:
            self._sink.write(TRACE, text)

    def reopen(self) -> None:
        self._sink.reopen()

    def replace(self, other: Logger) -> None:
        """Take over another logger's settings, after the configuration was read again."""
        old, self._sink = self._sink, other._sink
        self.is_debug, self.is_trace = other.is_debug, other.is_trace
        old.close()

    def close(self) -> None:
        self._sink.close()


def logger_from(options: Options, clock: Clock) -> Logger:
    """The logger the options ask for; raises OSError when its file or socket cannot be opened."""
    line_format = LineFormat(
        clock,
        logtime=options.logtime,
        is_utc=options.logtime_utc,
        is_coloured=not options.log_file and sys.stderr.isatty(),
    )
    sink: Sink
    if options.log_file:
        sink = FileSink(
            options.log_file,
            line_format,
            size_limit_bytes=options.log_size_limit_bytes,
            files_max=options.log_files_max,
        )
    elif options.remote_syslog or options.syslog:
        sink = SyslogSink(options.remote_syslog)
    else:
        sink = StreamSink(sys.stderr, line_format)
    return Logger(sink, debug=options.debug, trace=options.trace)
