"""Real shells at a terminal: a line is typed, Tab is pressed, and the line as the shell has it then is read back."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Final

import pytest
from tests.cli.conftest import Jetspark

# How each shell is started without the user's settings, and how it learns to complete.
STARTED: Final = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
# Said by the prompt, and so a sign that the shell listens. What is typed is never what is looked for: the echo of the
# line would be found instead of its effect.
PROMPT: Final = b"LISTENS> "
TAUGHT: Final = {
    "bash": """PS1='LIST''ENS> '; eval "$(jetspark completion bash)"\n""",
    "zsh": """PROMPT='LIST''ENS> '; eval "$(jetspark completion zsh)"\n""",
    "fish": """set -g fish_autosuggestion_enabled 0; jetspark completion fish | source
        function fish_prompt; echo -n LIST''ENS'> '; end\n""",
}
LINE_START: Final = "\x01"
LINE_END: Final = "\x05"
PATIENCE_S: Final = 60.0


class Shell:
    """One of the three at a terminal, which has read our completion script and finds `jetspark` on its path."""

    def __init__(self, name: str, jetspark: Jetspark, folder: Path) -> None:
        if shutil.which(name) is None:
            pytest.skip(f"no {name} on this machine")
        self.name = name
        self._answered = folder / "answered"
        os.mkfifo(self._answered)
        self._answers = os.open(self._answered, os.O_RDWR)
        self._terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 400, 0, 0))
        self._process = subprocess.Popen(
            STARTED[name],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, **jetspark.environment, **self._environment(folder)},
            start_new_session=True,
            # Its own terminal: without one a shell has no job control, and fish does not start.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.screen = b""
        self._type(TAUGHT[name])
        os.read(self._answers, 1)
        self._until(PROMPT)

    def _environment(self, folder: Path) -> dict[str, str]:
        """A `jetspark` on the path, which tells when it has answered: only then may the next key be pressed."""
        command = folder / "bin" / "jetspark"
        command.parent.mkdir()
        asked = f'"{sys.executable}" -m jetspark.cli.main "$@"'
        command.write_text(f'#!/bin/sh\n{asked}\ncode=$?\nprintf . > "{self._answered}"\nexit $code\n')
        command.chmod(0o755)
        path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "ZDOTDIR": str(folder), "TERM": "xterm", "EDITOR": "", "VISUAL": ""}

    def _type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def _until(self, sign: bytes) -> bytes:
        """What came before the sign; both are taken off the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while sign not in self.screen:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {sign!r} in {self.screen!r}"
            self.screen += os.read(self._terminal, 65536)
        seen, _, self.screen = self.screen.partition(sign)
        return seen

    def completes(self, line: str) -> str:
        """The arguments of `jetspark` after a Tab at the end of the line, as the shell splits them: a|b|c."""
        self._type(f"jetspark {line}\t")
        os.read(self._answers, 1)
        # The line becomes the arguments of a printf, between two marks that only its output has.
        self._type(f"{LINE_START}printf '%s|' @B''EGIN {LINE_END} @E''ND | tr '@' '#'\n")
        self._until(b"#BEGIN|jetspark|")
        made = self._until(b"|#END").decode()
        self._until(PROMPT)
        return made

    def close(self) -> None:
        """End it, whatever it is doing."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._terminal)
        os.close(self._answers)
