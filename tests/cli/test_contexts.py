"""Contexts are the `nats` command's own files, and say how to connect."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.cli.conftest import Jetspark

from jetspark.cli.connect import connect_options, effective
from jetspark.cli.context import Settings
from jetspark.cli.context_files import ContextFiles
from jetspark.cli.errors import UsageError
from jetspark.testing.processes import server_command, server_process


@pytest.fixture
def here(ours: Jetspark) -> Jetspark:
    """No server is named but by a context."""
    ours.environment["NATS_URL"] = ""
    return ours


def test_a_context_is_written_as_nats_writes_it(here: Jetspark, tmp_path: Path) -> None:
    here(
        "context",
        "add",
        "prod",
        "--server",
        "nats://a:1,nats://b:2",
        "--user",
        "joe",
        "--password",
        "hunter2",
        "--tlsfirst",
    )

    file = tmp_path / "nats" / "context" / "prod.json"
    document = json.loads(file.read_text())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (document["url"], document["user"], document["password"]) == ("nats://a:1,nats://b:2", "joe", "hunter2")
    assert document["tls_first"] is True
    assert document["windows_ca_certs_match"] is None
    assert {"description", "token", "creds", "nkey", "cert", "key", "ca", "nsc", "jetstream_domain"} < set(document)


def test_what_nats_wrote_is_kept_when_something_else_changes(here: Jetspark, tmp_path: Path) -> None:
    file = tmp_path / "nats" / "context" / "old.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"url": "nats://a:1", "creds": "/c", "from_the_future": [1]}))

    here("context", "save", "old", "--description", "words")

    document = json.loads(file.read_text())
    assert (document["creds"], document["from_the_future"], document["description"]) == ("/c", [1], "words")


def test_the_selected_context_is_used_and_an_option_wins(here: Jetspark) -> None:
    here("context", "add", "live", "--server", here.url)
    here("context", "add", "dead", "--server", "nats://127.0.0.1:1")

    here("context", "select", "live")
    assert here.run("stream", "ls").exit_code == 0
    assert here.run("stream", "ls", "--context", "dead").exit_code == 3
    here("context", "select", "dead")
    assert here.run("stream", "ls").exit_code == 3
    assert here.run("stream", "ls", "--server", here.url).exit_code == 0
    here("context", "previous")
    assert here.run("stream", "ls").exit_code == 0
    here.environment["NATS_CONTEXT"] = "dead"
    assert here.run("stream", "ls").exit_code == 3


def test_contexts_are_listed_shown_copied_and_removed(here: Jetspark, tmp_path: Path) -> None:
    here(
        "context", "add", "a", "--server", "nats://a:1", "--password", "secret", "--user", "u", "--description", "first"
    )
    here("ctx", "copy", "a", "b")
    here("context", "select", "a")

    assert here("context", "ls", "--names").split() == ["a", "b"]
    assert "a*" in here("context", "ls")
    shown = here("context", "show")
    assert "Server URLs: nats://a:1" in shown
    assert "secret" not in shown
    assert "secret" not in here("context", "info", "b", "--json")
    assert "First: jetspark context unselect" in here.run("context", "rm", "a", "--force").stderr
    assert "Unselected" in here("context", "unselect")
    assert not (tmp_path / "nats" / "context.txt").exists()
    assert here.json("context", "rm", "a", "--force") == {"name": "a", "deleted": True}
    assert here.json("context", "ls", "--names") == ["b"]
    assert here.run("context", "info", "a").exit_code == 4


def test_a_copy_takes_what_the_line_says_instead(here: Jetspark, tmp_path: Path) -> None:
    here("context", "add", "a", "--server", "nats://a:1", "--creds", "/c", "--colors", "blue", "--description", "first")

    shown = here("context", "copy", "a", "b", "--server", "nats://b:2", "--description", "second", "--select")

    assert "Color Scheme: blue" in shown
    files = ContextFiles(tmp_path / "nats")
    copied = files.load("b")
    assert (copied["url"], copied["creds"], copied["description"]) == ("nats://b:2", "/c", "second")
    assert copied["color_scheme"] == "blue"
    assert files.selected() == "b"
    assert files.load("a")["url"] == "nats://a:1"


def test_a_context_is_shown_with_how_connecting_went(here: Jetspark) -> None:
    here("context", "add", "live", "--server", here.url)
    here("context", "add", "dead", "--server", "nats://127.0.0.1:1")

    assert "Connection: OK" in here("context", "info", "live", "--connect")
    assert here.json("context", "view", "live", "--connect")["connection"] == "OK"
    dead = here("context", "info", "dead", "--connect")
    assert "Connection: " in dead
    assert "OK" not in dead
    assert "Connection" not in here("context", "info", "live")


def test_a_dash_goes_back_to_the_context_before(here: Jetspark, tmp_path: Path) -> None:
    for name in ("a", "b"):
        here("context", "add", name, "--server", "nats://a:1", "--select")

    here("context", "-")

    assert ContextFiles(tmp_path / "nats").selected() == "a"


def test_a_context_that_cannot_be_used_is_named(here: Jetspark, tmp_path: Path) -> None:
    here("context", "add", "good", "--server", here.url)
    here("context", "add", "lost", "--creds", "/nonexistent.creds")
    (tmp_path / "nats" / "context" / "torn.json").write_text("{")

    result = here.run("context", "validate", "--json")

    problems = json.loads(result.stdout)
    assert result.exit_code == 1
    assert problems["good"] == "ok"
    assert "/nonexistent.creds" in problems["lost"]
    assert "cannot be read" in problems["torn"]
    assert here.run("context", "validate", "good", "--connect").exit_code == 0


@pytest.mark.parametrize("name", ["../evil", "a/b", "", "a b"])
def test_a_context_s_name_is_a_file_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is no name for a context"):
        ContextFiles(tmp_path).path(name)


def test_credentials_on_the_line_replace_those_of_the_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    ContextFiles().save("c", {"url": "nats://a:1", "creds": "/c", "jetstream_domain": "hub", "inbox_prefix": "_IN"})

    own = effective(Settings(context="c"))
    mixed = effective(Settings(context="c", user="joe", password="pw"))

    assert (own.server, own.creds, own.js_domain, own.inbox_prefix) == ("nats://a:1", "/c", "hub", "_IN")
    assert (mixed.server, mixed.creds, mixed.user, mixed.js_domain) == ("nats://a:1", "", "joe", "hub")


def test_every_kind_of_credentials_reaches_the_client(tmp_path: Path) -> None:
    seed = tmp_path / "user.nk"
    seed.touch()
    assert connect_options(Settings(user="t"))["token"] == "t"
    assert connect_options(Settings(jwt="j", seed="s"))["nkey_seed"] == "s"
    assert connect_options(Settings(nkey=str(seed)))["nkey_seed_file"] == str(seed)
    assert connect_options(Settings(creds=str(seed)))["credentials_file"] == str(seed)
    assert connect_options(Settings(server="nats://a:1, nats://b:2"))["servers"] == ["nats://a:1", "nats://b:2"]


def test_a_proxy_in_a_context_is_refused_rather_than_passed_by(here: Jetspark, tmp_path: Path) -> None:
    ContextFiles(tmp_path / "nats").save("p", {"url": here.url, "socks_proxy": "socks5://x"})

    result = here.run("stream", "ls", "--context", "p")

    assert result.exit_code == 2
    assert "uses socks_proxy" in result.stderr


@pytest.mark.long
def test_a_password_is_asked_by_the_server_and_given_by_the_line(tmp_path: Path) -> None:
    command = server_command("jetspark")
    assert command is not None
    with server_process(command, arguments=["--user", "joe", "--pass", "pw"]) as server:
        guarded = Jetspark(f"nats://{server.host}:{server.port}", tmp_path)
        refused = guarded.run("stream", "ls")
        wrong = guarded.run("stream", "ls", "--user", "joe", "--password", "no")
        guarded("context", "add", "g", "--user", "joe", "--password", "pw")

        assert (refused.exit_code, wrong.exit_code) == (3, 3)
        assert "Give credentials with --user" in refused.stderr
        assert guarded.run("stream", "ls", "--user", "joe", "--password", "pw").exit_code == 0
        assert guarded.run("stream", "ls", "--context", "g").exit_code == 0
