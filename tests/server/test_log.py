"""The server's log lines and where they go."""

from __future__ import annotations

import io
import logging
import os
import re
import socket
from pathlib import Path

import pytest

from jetspark.server.log import FileSink, LineFormat, Logger, LoggingSink, StreamSink, SyslogSink, logger_from
from jetspark.server.options import Options

NOON_NS = 1_763_208_000_000_000_000  # 2025-11-15 12:00:00 UTC


class FixedClock:
    def __init__(self, now_ns: int = NOON_NS + 123_456_789) -> None:
        self._now_ns = now_ns

    def now_ns(self) -> int:
        self._now_ns += 1
        return self._now_ns

    def monotonic_ns(self) -> int:
        return self._now_ns


def line_format(**changes: bool) -> LineFormat:
    return LineFormat(FixedClock(), **{"logtime": True, "is_utc": True, **changes})


def test_a_line_has_process_time_level_and_text() -> None:
    stream = io.StringIO()

    Logger(StreamSink(stream, line_format())).info("Server is ready")

    assert stream.getvalue() == f"[{os.getpid()}] 2025/11/15 12:00:00.123456 [INF] Server is ready\n"


def test_the_time_may_be_left_out() -> None:
    stream = io.StringIO()

    Logger(StreamSink(stream, line_format(logtime=False))).error("no")

    assert stream.getvalue() == f"[{os.getpid()}] [ERR] no\n"


def test_debug_and_trace_lines_need_to_be_asked_for() -> None:
    stream = io.StringIO()
    quiet = Logger(StreamSink(stream, line_format()))
    loud = Logger(StreamSink(stream, line_format()), debug=True, trace=True)

    for logger in (quiet, loud):
        logger.debug("d")
        logger.trace("t")

    assert re.findall(r"\[(DBG|TRC)\]", stream.getvalue()) == ["DBG", "TRC"]


def test_a_moved_log_file_is_opened_afresh_on_request(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    logger = logger_from(Options(log_file=str(path)), FixedClock())
    logger.info("one")
    path.rename(tmp_path / "moved.log")

    logger.reopen()
    logger.info("two")
    logger.close()

    assert "one" in (tmp_path / "moved.log").read_text()
    assert path.read_text().endswith("[INF] two\n")
    assert "one" not in path.read_text()


def test_a_log_file_is_turned_over_at_its_limit_and_old_ones_go(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    logger = Logger(FileSink(str(path), line_format(), size_limit_bytes=300, files_max=3))

    for number in range(40):
        logger.info(f"line {number}")
    logger.close()

    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size < 600 for file in files)
    assert path.read_text().splitlines()[0].endswith('"')
    assert "Rotated log, backup saved as" in path.read_text()
    assert "line 39" in path.read_text() + files[-1].read_text()


def test_lines_can_go_to_pythons_logging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="jetspark.server"):
        Logger(LoggingSink(logging.getLogger("jetspark.server"))).warning("100% sure")

    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.WARNING, "100% sure")]


def test_lines_can_go_to_a_syslog_server() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(5)
        logger = Logger(SyslogSink(f"udp://127.0.0.1:{server.getsockname()[1]}"))

        logger.error("disk full")
        logger.close()

        assert re.fullmatch(rb"<11>jetspark\[\d+\]: disk full\x00?", server.recv(1000))


def test_reading_the_configuration_again_may_move_the_log(tmp_path: Path) -> None:
    stream = io.StringIO()
    logger = Logger(StreamSink(stream, line_format()))

    logger.replace(logger_from(Options(log_file=str(tmp_path / "new.log"), debug=True), FixedClock()))
    logger.debug("moved")
    logger.close()

    assert stream.getvalue() == ""
    assert "[DBG] moved" in (tmp_path / "new.log").read_text()
