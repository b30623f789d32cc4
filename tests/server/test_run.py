"""`jetspark server` as a process: words, exit codes, signals and files."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetspark.testing.processes import ServerProcess, jetspark_server_command, nats_server_command, server_process

COMMAND = jetspark_server_command()

# Each starts a process or two.
pytestmark = pytest.mark.slow


def run(*arguments: str, command: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*(command or COMMAND), *arguments], capture_output=True, text=True, check=False, timeout=20)


@contextlib.contextmanager
def raw_client(port: int) -> Iterator[tuple[socket.socket, Callable[[], bytes]]]:
    """A socket that has read INFO, and a way to read a line."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, connection.makefile("rb") as lines:
        assert lines.readline().startswith(b"INFO ")
        yield connection, lines.readline


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Other processes tell us nothing when they are done; look often until they are."""
    deadline = time.monotonic() + 10
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, what
        pause.wait(0.005)


def wait_for_line(server: ServerProcess, part: str) -> str:
    wait_until(lambda: any(part in line for line in list(server.log)), f"{part!r} not in {list(server.log)}")
    return next(line for line in list(server.log) if part in line)


def wait_for_text(path: Path, part: str) -> None:
    wait_until(lambda: path.exists() and part in path.read_text(), f"{part!r} never came to {path}")


def test_the_version_is_that_of_the_wire() -> None:
    result = run("--version")

    assert result.returncode == 0
    assert result.stdout.splitlines()[0] == "nats-server: v2.15.1"
    assert result.stdout.splitlines()[1].startswith("jetspark: v")


def test_help_names_every_flag() -> None:
    result = run("-h")

    assert result.returncode == 0
    for flag in ("-js", "-sd", "--store_dir", "-p", "--signal", "--tlscert", "--log_size_limit", "-DVV"):
        assert flag in result.stdout


@pytest.mark.oracle
@pytest.mark.parametrize(
    "arguments",
    [
        ["--bogus"],
        ["-p"],
        ["-p", "abc"],
        ["-js=maybe"],
        ["extra"],
        ["-t"],
        ["-c", "/nonexistent/file.conf"],
        ["--signal", "stop=999999999"],
        ["--version"],
        ["help"],
    ],
    ids=" ".join,
)
def test_exit_codes_and_complaints_are_those_of_nats_server(arguments: list[str]) -> None:
    reference = nats_server_command()
    if reference is None:
        pytest.skip("nats-server is not installed")

    ours, theirs = run(*arguments), run(*arguments, command=reference)

    assert ours.returncode == theirs.returncode
    assert words(ours.stderr) == words(theirs.stderr)


def words(text: str) -> list[str]:
    """What is said, without the program's name."""
    return text.replace("jetspark server:", "").replace("nats-server:", "").split()


def test_a_valid_file_is_called_valid_with_its_digest(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("port: 4333\n")

    result = run("-t", "-c", str(file))

    assert result.returncode == 0
    assert f"configuration file {file} is valid (sha256:" in result.stderr


def test_a_file_with_mistakes_ends_with_one_and_names_them(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("port: 4333\n  bogus: 1\n")

    result = run("-c", str(file))

    assert result.returncode == 1
    assert f'{file}:2:3: unknown field "bogus"' in result.stderr


def test_a_port_in_use_is_fatal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        result = run("-a", "127.0.0.1", "-p", str(port))

    assert result.returncode == 1
    assert f"[FTL] Error listening on port: 127.0.0.1:{port}" in result.stderr


@pytest.mark.oracle
@pytest.mark.parametrize(
    "settings",
    [
        "port: 99999",
        "port: -7",
        'listen: "127.0.0.1:65536"',
        "port: -1\nhttp_port: 99999",
        "port: -1\nhttp_port: -5",
        "port: -1\nwebsocket {port: 99999, no_tls: true}",
        'port: -1\njetstream {domain: "a.b"}',
        'port: -1\njetstream {domain: "a b"}',
        'port: -1\npid_file: "/nonexistent/x.pid"',
        'port: -1\nclient_advertise: "bad:port:x"',
        'port: -1\nclient_advertise: "bad:x"',
        'port: -1\nclient_advertise: "[::1:5"',
        'port: -1\ntls {cert_file: "x"}',
        'port: -1\ntls {key_file: "x"}',
    ],
    ids=lambda settings: settings.replace("\n", ", "),
)
def test_a_setting_that_cannot_be_is_fatal_in_the_words_of_nats_server(settings: str, tmp_path: Path) -> None:
    reference = nats_server_command()
    if reference is None:
        pytest.skip("nats-server is not installed")
    file = tmp_path / "a.conf"
    file.write_text(settings)

    ours, theirs = run("-c", str(file)), run("-c", str(file), command=reference)

    assert ours.returncode == theirs.returncode == 1
    assert last_words(ours) == last_words(theirs)


def last_words(result: subprocess.CompletedProcess[str]) -> list[str]:
    """Why a server ended, without the time and the names of process and program."""
    last_line = result.stderr.strip().splitlines()[-1]
    return words(last_line.rpartition("[FTL] ")[2])


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupt")], ids=["TERM", "INT"]
)
def test_a_stop_signal_ends_it_cleanly(number: signal.Signals, name: str) -> None:
    with server_process(COMMAND) as server:
        server.send_signal(number)

        assert server.wait() == 0
        log = "\n".join(server.log)

    assert f'Trapped "{name}" signal' in log
    assert "Initiating JetStream Shutdown..." in log
    assert log.endswith("Server Exiting..")


def test_a_server_whose_log_nobody_reads_any_more_still_stops() -> None:
    process = subprocess.Popen([*COMMAND, "-a", "127.0.0.1", "-p", "-1"], stderr=subprocess.PIPE)
    assert process.stderr is not None
    while b"Server is ready" not in process.stderr.readline():
        pass
    process.stderr.close()

    process.send_signal(signal.SIGTERM)

    assert process.wait(20) == 0


def test_pid_and_ports_files_are_written_and_go_with_the_server(tmp_path: Path) -> None:
    pid_file = tmp_path / "server.pid"
    with server_process(
        COMMAND, arguments=["-P", str(pid_file), "--ports_file_dir", str(tmp_path)], monitoring=True
    ) as server:
        ports_file = tmp_path / f"jetspark_{server.pid}.ports"
        assert pid_file.read_text() == str(server.pid)
        assert json.loads(ports_file.read_text()) == {
            "nats": [f"nats://127.0.0.1:{server.port}"],
            "monitoring": [f"http://127.0.0.1:{server.monitor_port}"],
        }

    assert not pid_file.exists()
    assert not ports_file.exists()


def test_a_signal_may_be_sent_by_pid_file(tmp_path: Path) -> None:
    pid_file = tmp_path / "server.pid"
    with server_process(COMMAND, arguments=["-P", str(pid_file)], jetstream=False) as server:
        result = run("--signal", f"quit={pid_file}")

        assert result.returncode == 0
        assert server.wait() == 0


def test_usr1_opens_the_log_file_afresh(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    process = subprocess.Popen([*COMMAND, "-a", "127.0.0.1", "-p", "-1", "-l", str(log)])
    try:
        wait_for_text(log, "Server is ready")
        log.rename(tmp_path / "old.log")

        process.send_signal(signal.SIGUSR1)

        wait_for_text(log, "File log re-opened")
    finally:
        process.terminate()
        process.wait(10)


def test_hup_reads_the_configuration_again(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("authorization { users: [{user: a, password: x}] }\n")
    with server_process(COMMAND, arguments=["-c", str(file)], jetstream=False) as server:
        file.write_text("authorization { users: [{user: a, password: x}, {user: b, password: x}] }\n")
        server.send_signal(signal.SIGHUP)
        wait_for_line(server, "Reloaded server configuration")

        with raw_client(server.port) as (connection, read_line):
            connection.sendall(b'CONNECT {"user":"b","pass":"x","verbose":false}\r\nPING\r\n')
            assert read_line() == b"PONG\r\n"

        file.write_text("bogus: 1\n")
        server.send_signal(signal.SIGHUP)
        assert "unknown field" in wait_for_line(server, "Failed to reload server configuration")


def test_usr2_makes_it_a_lame_duck(tmp_path: Path) -> None:
    config = 'lame_duck_duration: "30s"\nlame_duck_grace_period: "1ms"\n'
    with server_process(COMMAND, config_text=config) as server:
        with raw_client(server.port) as (connection, read_line):
            connection.sendall(b'CONNECT {"protocol":1,"verbose":false}\r\nPING\r\n')
            assert read_line() == b"PONG\r\n"
            assert b'"connect_info":true' in read_line()

            server.send_signal(signal.SIGUSR2)

            assert b'"ldm":true' in read_line()
            assert read_line() == b""
        assert server.wait() == 0
        assert any("Entering lame duck mode" in line for line in server.log)


def test_waiting_pulls_are_told_when_it_stops() -> None:
    with server_process(COMMAND) as server, raw_client(server.port) as (connection, read_line):
        connection.sendall(
            b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB _INBOX.* 1\r\n'
            + request(b"$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')
            + request(
                b"$JS.API.CONSUMER.DURABLE.CREATE.S.C",
                b'{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}',
            )
        )
        for _ in range(2):
            assert read_line().startswith(b"MSG ")
            assert b'"error"' not in read_line()
        connection.sendall(
            request(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":1,"expires":30000000000}') + b"PING\r\n"
        )
        assert read_line() == b"PONG\r\n"

        server.send_signal(signal.SIGTERM)

        assert read_line().startswith(b"HMSG _INBOX.1 1 ")
        assert read_line() == b"NATS/1.0 409 Server Shutdown\r\n"


def request(subject: bytes, body: bytes) -> bytes:
    return b"PUB %s _INBOX.1 %d\r\n%s\r\n" % (subject, len(body), body)


def test_streams_are_there_again_after_a_stop_and_a_kill(tmp_path: Path) -> None:
    with server_process(COMMAND, store_dir=tmp_path) as server:
        for kill in (False, True):
            with raw_client(server.port) as (connection, read_line):
                connection.sendall(
                    b'CONNECT {"verbose":false}\r\nSUB _INBOX.* 1\r\n'
                    + request(b"$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')
                    + request(b"s", b"hello")
                )
                acks = [read_line() for _ in range(4)]
            expected = 2 if kill else 1
            assert b'"seq":%d' % expected in acks[3].replace(b" ", b""), acks

            server.restart(kill=kill)
