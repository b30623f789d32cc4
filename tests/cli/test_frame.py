"""What holds for every command: options anywhere, exit codes, errors that help, plain output where no person looks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.cli.conftest import Jetspark
from tests.cli.terminal import Background, at_terminal

from jetspark.cli import errors
from jetspark.cli.main import COMMANDS, cli


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_global_option_stands_anywhere_on_the_line(ours: Jetspark, place: int) -> None:
    words = ["stream", "ls"]
    words[place:place] = ["--server", ours.url, "--json"]
    ours.environment["NATS_URL"] = "nats://127.0.0.1:1"

    assert isinstance(json.loads(ours(*words)), list)


def test_every_noun_loads_under_its_name_and_its_aliases() -> None:
    assert isinstance(cli, click.Group)
    ctx = click.Context(cli)
    for name, entry in COMMANDS.items():
        command = cli.get_command(ctx, name)
        assert command is not None, name
        assert all(cli.get_command(ctx, alias) is command for alias in entry.aliases)


def all_commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The path of every command in the tree."""
    if not isinstance(command, click.Group):
        return [path]
    ctx = click.Context(command)
    found = []
    for name in command.list_commands(ctx):
        child = command.get_command(ctx, name)
        assert child is not None
        found += all_commands(child, (*path, name))
    return found


@pytest.mark.parametrize("path", [path for path in all_commands(cli) if path != ("server",)], ids=" ".join)
def test_every_command_explains_itself_and_takes_json(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, [*path, "--help"])

    assert result.exit_code == 0
    assert "--json" in result.output
    assert "Global options" in result.output
    assert len(result.output.splitlines()) > 5


def test_a_misspelt_command_is_answered_with_the_right_one(ours: Jetspark) -> None:
    result = ours.run("stream", "prune")

    assert result.exit_code == errors.USAGE
    assert "did you mean purge" in result.stderr


@pytest.mark.parametrize("line", [["schema", "ls"], ["server", "check", "connection"]], ids=" ".join)
def test_what_only_nats_does_is_said_to_be_so(ours: Jetspark, line: list[str]) -> None:
    result = ours.run(*line)

    assert (result.exit_code, result.stdout) == (errors.USAGE, "")
    assert f"nats {line[0]}" in result.stderr


EXIT_CODES = [
    (["stream", "info"], errors.USAGE, "missing STREAM; there is:"),
    (["stream", "purge", "EXITS"], errors.USAGE, "Add --force if it is meant."),
    (["stream", "add", "X", "--subjects", "a", "--max-age", "soon"], errors.USAGE, "write one like 10s"),
    (
        ["stream", "ls", "--creds", "/nowhere.creds"],
        errors.USAGE,
        "--creds /nowhere.creds cannot be read: No such file",
    ),
    (["stream", "ls", "--nkey", "/nowhere.nk"], errors.USAGE, "--nkey /nowhere.nk cannot be read: No such file"),
    (["stream", "ls", "-s", "nats://127.0.0.1:1"], errors.NO_CONNECTION, "Start one with `jetspark server -js`"),
    (["stream", "info", "NOPE"], errors.NOT_FOUND, "no stream NOPE; streams here: "),
    (["consumer", "info", "EXITS", "NOPE"], errors.NOT_FOUND, "no consumer NOPE on stream EXITS; consumers here: C."),
    (["stream", "get", "EXITS", "9"], errors.NOT_FOUND, "no message 9 in EXITS, which holds 0 to 0"),
    (["pub", "-J", "nobody.home", "x"], errors.NOT_FOUND, "no stream listens on nobody.home; streams here: "),
    (["req", "nobody.home", "x"], errors.NOT_FOUND, "no stream listens on nobody.home; streams here: "),
    (["consumer", "next", "EXITS", "C", "--wait", "50ms"], errors.TIMED_OUT, "no message received in 50ms"),
    (["stream", "add", "EXITS", "--subjects", "other"], errors.FAILED, "(10058)"),
    (["stream", "ls", "--context", "nope"], errors.NOT_FOUND, "no context 'nope'; contexts here: none"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "exit_code", "told"), EXIT_CODES, ids=lambda value: " ".join(value) if isinstance(value, list) else None
)
def test_a_failure_has_its_exit_code_and_says_what_to_do(
    ours: Jetspark, line: list[str], exit_code: int, told: str
) -> None:
    ours("stream", "add", "EXITS", "--subjects", "EXITS.*", "--storage", "memory")
    ours("consumer", "add", "EXITS", "C", "--pull")

    result = ours.run(*line)

    assert result.exit_code == exit_code, result.output
    assert told in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.output


def test_a_stream_that_is_nearly_named_is_offered(ours: Jetspark) -> None:
    ours("stream", "add", "INVOICES", "--subjects", "INVOICES", "--storage", "memory")

    assert "Did you mean INVOICES?" in ours.run("stream", "info", "INVOICE").stderr


def test_a_noun_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jetspark.server.run", raising=False)

    class Absent:
        """Refuses one package, as if it were not installed."""

        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "jetspark.server.run":
                raise ModuleNotFoundError("No module named 'xxhash'", name="xxhash")

    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])

    result = CliRunner().invoke(cli, ["server", "-js"])

    assert result.exit_code == errors.FAILED
    assert "pip install 'jetspark[server]'" in result.stderr


@pytest.mark.long
def test_a_pipe_gets_no_colours_and_no_folded_lines(ours: Jetspark) -> None:
    ours("stream", "add", "WIDE", "--subjects", "WIDE", "--storage", "memory", "--description", "word " * 60)
    line = [sys.executable, "-m", "jetspark.cli.main", "stream", "ls"]
    environment = {**os.environ, **ours.environment, "NO_COLOR": ""}

    shown = subprocess.run(line, env=environment, capture_output=True, text=True, check=True, timeout=30)

    assert "\x1b" not in shown.stdout
    assert ("word " * 60).strip() in shown.stdout


@pytest.mark.long
def test_a_terminal_gets_colours_unless_told_otherwise(ours: Jetspark) -> None:
    ours("stream", "add", "BOLD", "--subjects", "BOLD", "--storage", "memory")

    plain = at_terminal(ours, "stream", "info", "BOLD")
    styled = at_terminal(ours, "stream", "info", "BOLD", NO_COLOR="")

    assert "\x1b[1m" in styled.screen
    assert "\x1b[1m" not in plain.screen
    assert "Information for Stream BOLD" in plain.screen


@pytest.mark.long
@pytest.mark.parametrize("told", ["option", "environment", "context"])
def test_a_colour_scheme_draws_tables_and_labels(ours: Jetspark, tmp_path: Path, told: str) -> None:
    ours("stream", "add", "PAINTED", "--subjects", "PAINTED", "--storage", "memory")
    folder = tmp_path / "nats" / "context"
    folder.mkdir(parents=True)
    (folder / "painted.json").write_text(f'{{"url": "{ours.url}", "color_scheme": "cyan"}}')
    arguments = {"option": ["--colors", "cyan"], "environment": [], "context": ["--context", "painted"]}[told]
    environment = {"NO_COLOR": "", "NATS_COLOR": "cyan" if told == "environment" else ""}

    sheet = at_terminal(ours, "stream", "info", "PAINTED", *arguments, **environment)
    table = at_terminal(ours, "stream", "ls", *arguments, **environment)
    plain = at_terminal(ours, "stream", "info", "PAINTED", *arguments, NO_COLOR="1")

    assert "Storage\x1b[36m:\x1b[0m Memory" in sheet.screen
    assert "\x1b[36m╭" in table.screen
    assert "\x1b[36m" not in plain.screen


def test_a_scheme_may_be_a_way_to_draw_tables_and_must_be_known(ours: Jetspark) -> None:
    ours("stream", "add", "FRAMED", "--subjects", "FRAMED", "--storage", "memory")

    assert "╔" in ours("stream", "ls", "--colors", "double")
    assert ours.run("stream", "ls", "--colors", "plaid").exit_code == errors.USAGE


@pytest.mark.long
def test_missing_arguments_are_asked_for_at_a_terminal(ours: Jetspark) -> None:
    session = at_terminal(ours, "stream", "add", typed="ASKED\nasked.a,asked.b\nmemory\n3\n")

    config = ours.json("stream", "info", "ASKED")["config"]
    assert session.exit_code == 0, session.screen
    assert "Stream name" in session.screen
    assert (config["subjects"], config["storage"], config["retention"]) == (
        ["asked.a", "asked.b"],
        "memory",
        "workqueue",
    )


@pytest.mark.long
def test_a_stream_is_chosen_from_a_list_by_name_or_number(ours: Jetspark) -> None:
    ours("stream", "add", "CHOSEN", "--subjects", "CHOSEN", "--storage", "memory")

    session = at_terminal(ours, "stream", "info", typed="nonsense\nCHOSEN\n")

    assert session.exit_code == 0
    assert "'nonsense' is none of them" in session.screen
    assert "Information for Stream CHOSEN" in session.screen


@pytest.mark.long
def test_progress_is_shown_at_a_terminal_with_rate_and_time_left(ours: Jetspark, tmp_path: Path) -> None:
    ours("stream", "add", "LONG", "--subjects", "LONG", "--storage", "memory")

    session = at_terminal(ours, "pub", "LONG", "x", "--count", "3000", "--sleep", "100us")
    piped = ours.run("pub", "LONG", "x", "--count", "30")

    assert session.exit_code == 0
    assert "Publishing" in session.screen
    assert "of 3,000 " in session.screen
    assert "messages/s" in session.screen
    assert "left 0:00:0" in session.screen
    assert piped.stderr == 'Published 30 messages (30 B) to "LONG"\n'


def test_what_a_message_holds_cannot_command_the_terminal(ours: Jetspark) -> None:
    ours("stream", "add", "EVIL", "--subjects", "EVIL", "--storage", "memory")
    ours("pub", "EVIL", "\x1b]0;pwned\x07\x1b[2Jhello", "-H", "X:\x1b[31m")

    shown = ours("stream", "get", "EVIL", "1") + ours("sub", "EVIL", "--all", "-T")

    assert "hello" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_tracing_shows_the_questions_and_answers(ours: Jetspark) -> None:
    result = ours.run("stream", "ls", "--trace")

    assert ">>> $JS.API.STREAM.LIST" in result.stderr
    assert "<<< {" in result.stderr
    assert ">>>" not in result.stdout


def test_the_api_prefix_of_the_line_is_used(ours: Jetspark) -> None:
    result = ours.run("stream", "ls", "--js-domain", "elsewhere", "--timeout", "1s")

    assert result.exit_code == errors.FAILED
    assert "check --js-domain" in result.stderr


@pytest.mark.long
def test_an_interrupted_command_ends_with_its_own_exit_code(ours: Jetspark) -> None:
    with Background(ours, "sub", "quiet.place", ready="Subscribing on quiet.place") as running:
        running.process.send_signal(signal.SIGINT)
        _, said = running.process.communicate(timeout=20)
        assert running.process.returncode == errors.INTERRUPTED, said


def test_a_file_that_cannot_be_written_is_named(ours: Jetspark, bucket: str, tmp_path: Path) -> None:
    ours("object", "add", bucket)
    ours("object", "put", bucket, "--name", "x", stdin=b"x")
    ours("stream", "add", bucket, "--subjects", bucket, "--defaults")
    target = tmp_path / "nowhere" / "file"
    bench = ["bench", "js", "pub", "sync", bucket, "--stream", bucket, "--msgs", "3"]

    for arguments in (
        ["object", "get", bucket, "x", "--output", str(target)],
        ["stream", "add", "X", "--subjects", "x", "--defaults", "--output", str(target)],
        ["stream", "report", "--dot", str(target)],
        [*bench, "--csv", str(target)],
    ):
        result = ours.run(*arguments)

        assert isinstance(result.exception, SystemExit), (arguments, result.exception)
        assert result.exit_code == 1
        assert "No such file or directory" in result.stderr
        assert str(target) in result.stderr

    # What was measured is shown all the same.
    assert "msgs/sec" in ours.run(*bench, "--csv", str(target)).stdout


def test_a_server_without_tls_is_no_reason_to_start_another(ours: Jetspark) -> None:
    result = ours.run("stream", "ls", "--server", ours.url.replace("nats://", "tls://"))

    assert result.exit_code == errors.NO_CONNECTION
    assert "does not offer TLS\nCheck the address (tls:// or nats://)" in result.stderr


def test_the_files_of_a_context_may_begin_at_home(ours: Jetspark, tmp_path: Path) -> None:
    ours("context", "add", "home", "--server", ours.url, "--creds", "~/mine.creds")
    ours.environment["NATS_URL"] = ""

    assert f"--creds {tmp_path}/mine.creds cannot be read" in ours.run("--context", "home", "stream", "ls").stderr


@pytest.mark.long
def test_ctrl_c_at_a_question_is_an_interruption_and_nothing_is_done(ours: Jetspark, bucket: str) -> None:
    ours("stream", "add", bucket, "--subjects", bucket, "--defaults")

    chosen = at_terminal(ours, "stream", "info", interrupted_at="Which stream?")
    confirmed = at_terminal(ours, "stream", "rm", bucket, interrupted_at="Really delete")

    assert (chosen.exit_code, confirmed.exit_code) == (errors.INTERRUPTED, errors.INTERRUPTED)
    assert ours.run("stream", "info", bucket).exit_code == 0


@pytest.mark.long
def test_a_table_wider_than_the_terminal_becomes_a_sheet_for_each_row(ours: Jetspark, bucket: str) -> None:
    ours("stream", "add", bucket, "--subjects", bucket, "--defaults")
    ours("consumer", "add", bucket, "DISPATCH", "--pull", "--defaults")

    wide = at_terminal(ours, "consumer", "report", bucket, COLUMNS="200").screen
    narrow = at_terminal(ours, "consumer", "report", bucket, COLUMNS="60").screen

    assert "│ DISPATCH │" in wide
    assert "Consumer: DISPATCH" in narrow
    assert "Ack Policy: Explicit" in narrow
    assert "Ack Pending: 0" in narrow
    assert "│" not in narrow


@pytest.mark.long
def test_a_progress_bar_is_one_line(ours: Jetspark, bucket: str) -> None:
    ours("stream", "add", bucket, "--subjects", bucket, "--defaults")

    shown = at_terminal(
        ours, "pub", "-J", bucket, "x", "--count", "10000000", interrupted_at="messages/s", COLUMNS="80", NO_COLOR=""
    )

    assert shown.exit_code == errors.INTERRUPTED
    # One line is erased before the next picture, not the line above it too.
    assert "of 10,000,000" in shown.screen
    assert "\x1b[1A\x1b[2K\x1b[1A" not in shown.screen
