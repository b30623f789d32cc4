"""The shell completes commands, options and the names of what is on the server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Jetspark

from jetspark.cli.main import COMMANDS

TRIES = 5
# What bash does on a tab, for one line after another; the last word is the unfinished one.
ASK = """
eval "$(jetspark completion bash)"
ask() {
    COMP_WORDS=(jetspark "$@"); COMP_CWORD=$#; COMPREPLY=()
    _jetspark_completion jetspark
    echo "${COMPREPLY[*]}"
}
"""


class Bash:
    """A bash that has read the completion script and finds `jetspark` on its path."""

    def __init__(self, jetspark: Jetspark, folder: Path) -> None:
        folder.mkdir()
        command = folder / "jetspark"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jetspark.cli.main "$@"\n')
        command.chmod(0o755)
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, **jetspark.environment, "PATH": path}

    def offers(self, *lines: str) -> list[list[str]]:
        """What is offered at the end of each line."""
        script = ASK + "\n".join(f"ask {line}" for line in lines)
        result = subprocess.run(
            ["bash", "--norc", "-c", script], env=self._environment, capture_output=True, text=True, check=True
        )
        assert result.stderr == ""
        return [line.split() for line in result.stdout.splitlines()]


@pytest.fixture
def bash(ours: Jetspark, tmp_path: Path) -> Bash:
    if shutil.which("bash") is None:
        pytest.skip("no bash on this machine")
    return Bash(ours, tmp_path / "bin")


def test_nouns_verbs_and_options_are_offered(bash: Bash) -> None:
    nouns, verbs, options, kinds = bash.offers('""', "kv re", "kv get B K --r", "bench js pub a")

    assert nouns == sorted(COMMANDS)
    assert verbs == ["revert"]
    assert options == ["--revision", "--raw"]
    assert kinds == ["async", "atomic"]


def test_names_on_the_server_are_offered(bash: Bash, ours: Jetspark) -> None:
    ours("kv", "add", "COMPLETED")
    ours("kv", "put", "COMPLETED", "user.a", "1")
    ours("kv", "put", "COMPLETED", "user.b", "1")
    ours("object", "add", "COMPLETEDTOO")
    ours("object", "put", "COMPLETEDTOO", "--name", "picture.png", stdin=b"x")

    lines = ["kv get COMP", "kv get COMPLETED user", "object info COMP", "obj get COMPLETEDTOO p", "str info KV_COMP"]
    wanted = [["COMPLETED"], ["user.a", "user.b"], ["COMPLETEDTOO"], ["picture.png"], ["KV_COMPLETED"]]

    # A busy machine may be slower than a shell is patient; asked again it has had time.
    for _ in range(TRIES):
        offered = bash.offers(*lines)
        if offered == wanted:
            break
    assert offered == wanted


def test_nothing_is_offered_and_nothing_is_said_when_no_server_answers(bash: Bash) -> None:
    assert bash.offers('kv get --server nats://127.0.0.1:1 ""', "kv add COMP") == [[], []]


@pytest.mark.parametrize(
    ("shell", "sign"),
    [
        ("bash", "complete -o nosort -F"),
        ("zsh", "#compdef jetspark"),
        ("fish", "complete --no-files --command jetspark"),
    ],
)
def test_each_shell_has_its_script(ours: Jetspark, shell: str, sign: str) -> None:
    script = ours("completion", shell)

    assert sign in script
    assert f"_JETSPARK_COMPLETE={shell}_complete" in script


def test_the_shell_in_use_is_the_default_and_an_unknown_one_is_named(
    ours: Jetspark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert "fish_complete" in ours("completion")

    monkeypatch.setenv("SHELL", "/bin/tcsh")
    result = ours.run("completion")
    assert result.exit_code == 2
    assert "bash, zsh, fish" in result.stderr
