"""Signals between processes: what `--signal` sends, and to whom.

Decided here: the commands' names and their signals (nats-server's), and how a process is found.
Not known here: what a server does on a signal; `run` says that.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from jetspark.server.options import OptionsError

# By name: this module is imported on systems that lack some of them too.
COMMANDS: Final = {
    "stop": "SIGKILL",
    "quit": "SIGINT",
    "term": "SIGTERM",
    "reopen": "SIGUSR1",
    "reload": "SIGHUP",
    "ldm": "SIGUSR2",
}


def send_signal(text: str) -> None:
    """Perform `command` or `command=pid`, where the pid may be the path of a pid file."""
    command, equals, target = text.partition("=")
    if equals and Path(target).is_file():
        target = Path(target).read_text(encoding="utf-8").strip()
    pid = _parse_pid(target) if equals else _only_server()
    if command not in COMMANDS:
        raise OptionsError(f'unknown signal "{command}"')
    try:
        os.kill(pid, signal.Signals[COMMANDS[command]])
    except OSError as error:
        raise OptionsError(f'signal "{command}" {pid}: {(error.strerror or str(error)).lower()}') from None


def _parse_pid(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise OptionsError(f"invalid pid: {text}")
    return int(text)


def _only_server() -> int:
    """The one other server of this machine; with none or several the operator must say which."""
    pids = sorted(running_servers())
    if not pids:
        raise OptionsError("no jetspark server processes running")
    if len(pids) > 1:
        raise OptionsError("multiple jetspark server processes running:\n" + "\n".join(str(pid) for pid in pids))
    return pids[0]


def running_servers(processes: Path = Path("/proc")) -> list[int]:
    """Processes whose command line is `jetspark server …`, apart from this one."""
    lines = _command_lines(processes) if (processes / "self").exists() else _listed_command_lines()
    return [pid for pid, words in lines if pid != os.getpid() and _is_server(words)]


def _command_lines(processes: Path) -> Iterator[tuple[int, list[bytes]]]:
    for entry in processes.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield int(entry.name), (entry / "cmdline").read_bytes().split(b"\0")


def _listed_command_lines() -> Iterator[tuple[int, list[bytes]]]:
    """The same from `ps`, which every Unix has, where the kernel shows no files (macOS)."""
    try:
        listed = subprocess.run(["ps", "-Aww", "-o", "pid=,args="], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise OptionsError(f"cannot list processes, name the one you mean (<signal>=<pid>): {error}") from None
    for line in listed.splitlines():
        pid, *words = line.split()
        yield int(pid), words


def _is_server(words: list[bytes]) -> bool:
    for index, word in enumerate(words[:-1]):
        is_command = word.endswith(b"/jetspark") or word in (b"jetspark", b"jetspark.cli.main")
        if is_command and words[index + 1] == b"server":
            return True
    return False
