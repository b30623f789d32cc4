"""Commands in processes of their own: at a terminal, as a person sees them, or beside a test."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from dataclasses import dataclass

from tests.cli.conftest import Jetspark

PRESSED_AGAIN_S = 3.0


@dataclass
class Session:
    """How a command at a terminal ended."""

    exit_code: int
    screen: str


def at_terminal(
    jetspark: Jetspark, *arguments: str, typed: str = "", interrupted_at: str = "", **environment: str
) -> Session:
    """Run a command in a process of its own with a terminal on all three streams, and type ahead.

    `interrupted_at` is what it shows when Ctrl-C is pressed.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "jetspark.cli.main", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **jetspark.environment, "COLUMNS": "120", "TERM": "xterm", **environment},
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    seen = b""
    pressed = False
    try:
        while True:
            patience_s = PRESSED_AGAIN_S if pressed else None
            if not select.select([ours], [], [], patience_s)[0]:
                # A key pressed while the question is just being asked may be lost.
                process.send_signal(signal.SIGINT)
                continue
            if not (chunk := os.read(ours, 65536)):
                break
            seen += chunk
            if interrupted_at and not pressed and interrupted_at.encode() in seen:
                process.send_signal(signal.SIGINT)
                pressed = True
    except OSError:
        # Linux reports the end of a terminal whose process is gone as an I/O error.
        pass
    finally:
        os.close(ours)
    return Session(process.wait(30), seen.decode("utf-8", "replace"))


class Background:
    """A command that goes on beside the test; it is running once it has said `ready` on stderr."""

    def __init__(self, jetspark: Jetspark, *arguments: str, ready: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jetspark.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **jetspark.environment},
            text=True,
        )
        assert self.process.stderr is not None
        said = self.process.stderr.readline()
        assert ready in said, said + self.process.stderr.read()

    def output(self, timeout_s: float = 20.0) -> str:
        """What it printed, once it has ended well."""
        out, err = self.process.communicate(timeout=timeout_s)
        assert self.process.returncode == 0, (self.process.returncode, out, err)
        return out

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
