"""Signals between processes: what `--signal` sends, and to whom.

Decided here: the commands' names and their signals (nats-server's), and how a process is found.
Not known here: what a server does on a signal; `run` says that.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

from jetspark.server.options import OptionsError

COMMANDS: Final = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
    "ldm": signal.SIGUSR2,
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
        os.kill(pid, COMMANDS[command])
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


def running_servers() -> list[int]:
    """Processes whose command line is `jetspark server …`, apart from this one."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(entry.name) != os.getpid() and _is_server(words):
            found.append(int(entry.name))
    return found


def _is_server(words: list[bytes]) -> bool:
    for index, word in enumerate(words[:-1]):
        is_command = word.endswith(b"/jetspark") or word in (b"jetspark", b"jetspark.cli.main")
        if is_command and words[index + 1] == b"server":
            return True
    return False
