"""What runs where: the ways that other systems need are taken here by hand, on the one the tests run on."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import jetspark
from jetspark.client.sync.wire import readable
from jetspark.server.log import local_syslog
from jetspark.server.signals import running_servers
from jetspark.server.varz import peak_memory_bytes
from jetspark.store.disk import choose_sync, full_sync

# What Python has on every Unix and not on Windows, taken away before anything is imported.
WITHOUT_UNIX = """
import os, select, signal, socket, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios", "uvloop"):
    sys.modules[name] = None
for module, names in (
    (os, ("register_at_fork", "fork", "getuid", "pread", "pwrite", "sysconf", "fdatasync")),
    (select, ("poll", "epoll")),
    (signal, ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGKILL")),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""


@pytest.mark.parametrize(
    ("fcntl_names", "os_names", "is_data_only", "chosen"),
    [
        ((), ("fsync", "fdatasync"), True, os.fdatasync),
        ((), ("fsync", "fdatasync"), False, os.fsync),
        (("F_FULLFSYNC",), ("fsync",), True, full_sync),
        (("F_FULLFSYNC",), ("fsync",), False, full_sync),
        ((), ("fsync",), True, os.fsync),
    ],
    ids=["Linux, bytes", "Linux, all", "macOS, bytes", "macOS, all", "neither"],
)
def test_a_system_syncs_with_the_strongest_call_it_has(
    fcntl_names: tuple[str, ...], os_names: tuple[str, ...], is_data_only: bool, chosen: object
) -> None:
    assert choose_sync(fcntl_names, os_names, is_data_only) == chosen


def test_where_a_full_sync_is_unknown_a_sync_is_made_and_other_errors_are_told(tmp_path: Path) -> None:
    # This system does not know the request, like a network file system of macOS.
    with (tmp_path / "file").open("wb") as file:
        file.write(b"bytes")
        full_sync(file.fileno())
        number = file.fileno()

    with pytest.raises(OSError) as caught:
        full_sync(number)
    assert caught.value.errno == errno.EBADF


def test_the_peak_of_memory_is_in_bytes_on_every_system() -> None:
    assert peak_memory_bytes(2048, "linux") == 2048 * 1024
    assert peak_memory_bytes(2048, "darwin") == 2048


def test_the_local_syslog_is_where_the_system_has_it(tmp_path: Path) -> None:
    there = tmp_path / "syslog"
    there.touch()

    assert local_syslog(("/no/such/log", str(there))) == str(there)
    assert local_syslog(("/no/such/log", "/nor/this")) == "/no/such/log"


def test_a_server_is_found_with_and_without_the_kernels_files(tmp_path: Path) -> None:
    # A process that has the words of a server and ends by itself when its input does.
    sleeper = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", "jetspark", "server"]
    with subprocess.Popen(sleeper, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        assert process.pid in running_servers()
        assert process.pid in running_servers(tmp_path)

        process.send_signal(signal.SIGTERM)


def test_waiting_for_bytes_works_without_poll() -> None:
    one, other = socket.socketpair()
    with one, other:
        wait = readable(one, has_poll=False)
        assert wait(0) == []
        other.send(b"x")
        assert wait(None) == [(one.fileno(), 0)]
    assert wait(0) == [(-1, 0)]


@pytest.mark.slow
def test_both_faces_of_the_client_need_nothing_that_only_unix_has() -> None:
    program = f"""{WITHOUT_UNIX}
import asyncio, jetspark, jetspark.sync
from jetspark.cli.main import COMMANDS
address = sys.argv[1]
with jetspark.sync.connect(address) as connection:
    jetstream = connection.jetstream()
    orders = jetstream.create_stream("ORDERS", subjects="orders.>", storage="memory")
    jetstream.publish("orders.new", b"two cups")
    print(orders.create_consumer("worker").next().data.decode())
async def main():
    async with await jetspark.connect(address) as connection:
        print((await connection.jetstream().publish("orders.new", b"tea")).seq)
asyncio.run(main())
"""
    with jetspark.serve() as server:
        done = subprocess.run(
            [sys.executable, "-c", program, server.url], capture_output=True, text=True, check=False, timeout=50
        )

    assert (done.stdout.split("\n"), done.stderr) == (["two cups", "2", ""], "")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import jetspark; jetspark.serve", "jetspark.serve runs on Linux and macOS"),
        (
            "sys.argv[1:] = ['server']; from jetspark.cli.main import main; main()",
            "`jetspark server` runs on Linux and macOS",
        ),
    ],
)
def test_the_server_says_which_systems_it_runs_on(program: str, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{WITHOUT_UNIX}\n{program}"], capture_output=True, text=True, check=False, timeout=50
    )

    assert words in done.stderr
    assert "pip install" not in done.stderr
