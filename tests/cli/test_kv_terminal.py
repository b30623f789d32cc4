"""At a terminal `jetspark kv` asks for what is missing, and is coloured unless NO_COLOR says otherwise."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from tests.cli.conftest import Jetspark


def at_terminal(jetspark: Jetspark, *arguments: str, typed: str = "", **environment: str) -> tuple[str, int]:
    """What a person sees, and the exit code."""
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    process = subprocess.Popen(
        [sys.executable, "-m", "jetspark.cli.main", *arguments],
        env={**os.environ, **jetspark.environment, "TERM": "xterm", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 65536):
            seen += part
    except OSError:
        # How a terminal says that nobody has it open any more.
        pass
    finally:
        os.close(ours)
    return seen.decode(), process.wait(20)


def test_the_bucket_and_the_key_are_asked_for(ours: Jetspark) -> None:
    ours("kv", "add", "ASKED")
    ours("kv", "put", "ASKED", "colour", "blue")

    seen, code = at_terminal(ours, "kv", "get", typed="ASKED\ncolour\n")

    assert code == 0
    assert "Select a bucket" in seen
    assert "ASKED > colour revision: 1" in seen


def test_a_delete_that_is_not_confirmed_does_nothing(ours: Jetspark) -> None:
    ours("kv", "add", "KEPT_KEYS")
    ours("kv", "put", "KEPT_KEYS", "k", "v")

    seen, code = at_terminal(ours, "kv", "del", "KEPT_KEYS", "k", typed="n\n")

    assert code == 0
    assert "Skipping delete" in seen
    assert ours("kv", "get", "KEPT_KEYS", "k", "--raw") == "v"


@pytest.mark.parametrize(("no_color", "coloured"), [("1", False), ("", True)])
def test_colours_are_for_terminals_without_no_color(ours: Jetspark, no_color: str, coloured: bool) -> None:
    ours("kv", "add", "COLOURS")
    ours("kv", "put", "COLOURS", "k", "v")

    watched, _ = at_terminal(ours, "kv", "watch", "COLOURS", "--count", "1", NO_COLOR=no_color)
    failed, code = at_terminal(ours, "kv", "get", "NOT_THERE", "k", NO_COLOR=no_color)

    assert code == 4
    assert ("\x1b[32mPUT" in watched) == coloured
    assert ("\x1b[31m" in failed) == coloured
