"""The shell completes commands, options and the names of what is on the server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Jetspark
from tests.cli.shells import STARTED, Shell

from jetspark.cli.main import COMMANDS

TRIES = 10
# What bash does on a tab, for one line after another; the last word is the unfinished one.
ASK = """
eval "$(jetspark completion bash)"
ask() {
    COMP_LINE="jetspark $*"; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(jetspark "$@"); COMP_CWORD=$#
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


@pytest.mark.long
def test_nouns_verbs_and_options_are_offered(bash: Bash) -> None:
    nouns, verbs, options, kinds = bash.offers('""', "kv re", "kv get B K --r", "bench js pub a")

    assert nouns == sorted(COMMANDS)
    assert verbs == ["revert"]
    assert options == ["--revision", "--raw"]
    assert kinds == ["async", "atomic"]


@pytest.mark.long
def test_names_on_the_server_are_offered(bash: Bash, ours: Jetspark) -> None:
    ours("kv", "add", "COMPLETED")
    ours("kv", "put", "COMPLETED", "user.a", "1")
    ours("kv", "put", "COMPLETED", "user.b", "1")
    ours("object", "add", "COMPLETEDTOO")
    ours("object", "put", "COMPLETEDTOO", "--name", "picture.png", stdin=b"x")
    ours("stream", "add", "TALLIED", "--subjects", "tallied.*", "--allow-counter", "--storage", "memory", "--defaults")
    ours("counter", "increment", "tallied.hits")

    lines = ["kv get COMP", "kv get COMPLETED user", "object info COMP", "obj get COMPLETEDTOO p", "str info KV_COMP"]
    wanted = [["COMPLETED"], ["user.a", "user.b"], ["COMPLETEDTOO"], ["picture.png"], ["KV_COMPLETED"]]
    lines += ["counter get tallied", "stream cluster step-down TALL", "errors lookup 1005", "consumer cluster b"]
    codes = [str(code) for code in range(10050, 10060)]
    wanted += [["tallied.hits"], ["TALLIED"], codes, ["balance"]]

    # A busy machine may be slower than a shell is patient; asked again it has had time.
    for _ in range(TRIES):
        offered = bash.offers(*lines)
        if offered == wanted:
            break
    assert offered == wanted


@pytest.mark.long
def test_nothing_is_offered_and_nothing_is_said_when_no_server_answers(bash: Bash) -> None:
    assert bash.offers('kv get --server nats://127.0.0.1:1 ""', "kv add COMP") == [[], []]


@pytest.mark.parametrize(
    ("shell", "sign"),
    [
        ("bash", "complete -o nosort -F _jetspark_completion jetspark"),
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


@pytest.fixture(params=list(STARTED))
def shell(request: pytest.FixtureRequest, ours: Jetspark, tmp_path: Path) -> Iterator[Shell]:
    started = Shell(request.param, ours, tmp_path)
    yield started
    started.close()


def settles(shell: Shell, line: str, wanted: str) -> str:
    """What a tab makes of the line, asked again while the server is slower than a shell is patient."""
    for _ in range(TRIES):
        if (made := shell.completes(line)) == wanted:
            break
    return made


@pytest.mark.slow
def test_a_tab_completes_in_the_shell_itself(shell: Shell, ours: Jetspark) -> None:
    ours("stream", "add", "TABBED_STREAM", "--subjects", "tabbed", "--defaults")
    ours("object", "add", "TABBED")
    ours("object", "put", "TABBED", "--name", "my $(cat) picture.png", stdin=b"x")
    ours("object", "put", "TABBED", "--name", "scheme:path", stdin=b"x")

    assert shell.completes("compl") == "completion"
    assert shell.completes("str in") == "str|info"
    assert shell.completes("bench js consume --ack") == "bench|js|consume|--acks"
    assert settles(shell, "stream info TABB", "stream|info|TABBED_STREAM") == "stream|info|TABBED_STREAM"

    # Addresses have colons, at which bash splits words.
    for server in (f"-s {ours.url}", f"--server={ours.url}"):
        wanted = f"{server} stream info TABBED_STREAM".replace(" ", "|")
        assert settles(shell, f"{server} stream info TABB", wanted) == wanted

    assert shell.completes("bench js consume --acks ex") == "bench|js|consume|--acks|explicit"
    assert shell.completes("bench js consume --acks=ex") == "bench|js|consume|--acks=explicit"

    wanted = "object|get|TABBED|my $(cat) picture.png"
    assert settles(shell, "object get TABBED my", wanted) == wanted
    wanted = "object|get|TABBED|scheme:path"
    assert settles(shell, "object get TABBED scheme:", wanted) == wanted


@pytest.mark.slow
def test_a_tab_completes_files(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "settings.json").touch()

    for joint in " ", "=":
        wanted = f"stream add X --config{joint}{tmp_path}/settings.json".replace(" ", "|")
        assert shell.completes(f"stream add X --config{joint}{tmp_path}/sett") == wanted
