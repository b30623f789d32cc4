"""What `jetspark sub` does beyond showing messages: replies beside requests, gets, counts and rates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Jetspark
from tests.cli.terminal import Background, at_terminal

from jetspark.cli import sub_sources
from jetspark.cli.context import Settings
from jetspark.cli.sub_sources import Arrival, Matcher
from jetspark.cli.sub_views import Tally, show_tally
from jetspark.client.core.routes import Inbox
from jetspark.sync import Connection, Msg, connect


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def said(subject: str) -> Msg:
    """A message that came on a subject."""
    return Msg(Inbox(b"1", b"", b"", Msg, None), subject.encode(), b"", b"", b"")


def work_queue(jetspark: Jetspark, name: str) -> None:
    """Three messages that are to be read once, on two subjects."""
    jetspark(
        "stream", "add", name, "--subjects", f"{name}.*", "--storage", "memory", "--retention", "work", "--defaults"
    )
    for number, subject in enumerate(("a", "b", "a"), 1):
        jetspark("pub", "-J", f"{name}.{subject}", f"m{number}", "--quiet")


def answer(connection: Connection, subject: str) -> None:
    connection.subscribe(subject, callback=lambda message: message.respond(b"to " + message.data))
    connection.flush()


@pytest.mark.long
def test_requests_are_shown_with_their_replies(jetspark: Jetspark, name: str) -> None:
    with (
        Background(jetspark, "sub", f"{name}.*", "--match-replies", "--count", "2", ready="Matching replies") as shown,
        connect(jetspark.url) as connection,
    ):
        answer(connection, f"{name}.asked")
        connection.flush()
        assert shown.process.stderr is not None
        assert "Subscribing on" in shown.process.stderr.readline()
        connection.request(f"{name}.asked", b"ping")
        connection.publish(f"{name}.told", b"plain")
        connection.flush()
        output = shown.output()

    assert f'Received on "{name}.asked" with reply "_INBOX.' in output
    assert "ping\n" in output
    assert 'Matched reply on "_INBOX.' in output
    assert "to ping\n" in output
    assert "plain\n" in output


def test_replies_and_requests_find_each_other_whichever_comes_first() -> None:
    matcher = Matcher()
    early, late = Arrival(said("q1"), "q.*"), Arrival(said("q2"), "q.*")
    first, second = said("_INBOX.1"), said("_INBOX.2")

    assert matcher.request(early, "_INBOX.1") is None
    assert matcher.reply(second) is None
    found = [matcher.reply(first), matcher.request(late, "_INBOX.2")]

    assert found == [Arrival(early.message, "q.*", first), Arrival(late.message, "q.*", second)]
    assert matcher.reply(first) is None


def test_what_is_never_matched_is_given_up_for_what_is_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sub_sources, "UNMATCHED_MAX", 2)
    matcher = Matcher()
    requests = [Arrival(said(f"q{number}"), "q.*") for number in range(3)]

    for number, request in enumerate(requests):
        matcher.request(request, f"_INBOX.{number}")

    assert matcher.reply(said("_INBOX.0")) is None
    assert matcher.reply(said("_INBOX.2")) is not None


@pytest.mark.long
def test_a_matched_reply_is_a_part_of_the_document_and_a_file_of_its_own(
    ours: Jetspark, name: str, tmp_path: Path
) -> None:
    arguments = ("sub", name, "--match-replies", "--count", "1")
    folder = tmp_path / "dump"
    with (
        Background(ours, *arguments, "--dump", str(folder), ready="Matching") as dumped,
        connect(ours.url) as connection,
    ):
        assert dumped.process.stderr is not None
        assert "Subscribing on" in dumped.process.stderr.readline()
        answer(connection, name)
        connection.request(name, b"ping")
        dumped.output()

    assert json.loads((folder / "1.json").read_text())["data"] == "ping"
    assert json.loads((folder / "1_reply.json").read_text())["data"] == "to ping"
    assert ours.run(*arguments, "--stream", name).exit_code == 2


@pytest.mark.long
def test_a_work_queue_is_shown_and_nothing_is_taken_from_it(jetspark: Jetspark, name: str) -> None:
    work_queue(jetspark, name)

    shown = jetspark("sub", "--stream", name, "--all", "-T")
    filtered = documents(jetspark("sub", f"{name}.a", "--all", "-T", "--json"))

    assert f"[#1] Received JetStream message (direct): stream: {name} seq: 1 / subject: {name}.a" in shown
    assert [line for line in shown.splitlines() if line.startswith("m")] == ["m1", "m2", "m3"]
    assert [(one["stream_seq"], one["data"]) for one in filtered] == [(1, "m1"), (3, "m3")]
    assert jetspark.json("stream", "state", name)["state"]["messages"] == 3
    assert jetspark("consumer", "ls", name, "--names") == ""


@pytest.mark.long
@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        ([], ["m1", "m2", "m3"]),
        (["--last"], ["m3"]),
        (["--start-sequence", "2"], ["m2", "m3"]),
        (["--since", "1h"], ["m1", "m2", "m3"]),
        (["--last-per-subject"], ["m2", "m3"]),
        (["--new"], []),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_gets_begin_where_they_are_told_to(jetspark: Jetspark, name: str, start: list[str], wanted: list[str]) -> None:
    work_queue(jetspark, name)

    shown = documents(jetspark("sub", "--stream", name, "--direct", "-T", "--json", *start))

    assert [one["data"] for one in shown] == wanted


@pytest.mark.long
def test_gets_go_on_with_what_comes_later(jetspark: Jetspark, name: str) -> None:
    work_queue(jetspark, name)
    arguments = ("sub", "--stream", name, "--direct", "--new", "--count", "1")
    with Background(jetspark, *arguments, ready="by direct gets") as shown:
        # Until the process has asked where the stream ends, a message may be one of before.
        jetspark("pub", "-J", f"{name}.a", "later", "--quiet")
        jetspark("pub", "-J", f"{name}.a", "later", "--quiet")
        output = shown.output()

    assert "later\n" in output
    assert jetspark.run("sub", "--stream", name, "--direct", "--durable", "D").exit_code == 2


@pytest.mark.long
def test_files_of_a_stream_s_messages_have_their_sequences(ours: Jetspark, name: str, tmp_path: Path) -> None:
    work_queue(ours, name)

    ours("sub", "--stream", name, "--start-sequence", "2", "-T", "--dump", str(tmp_path / "dump"))

    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == ["2.json", "3.json"]


@pytest.mark.long
def test_messages_are_counted_by_subscription_with_their_bytes(ours: Jetspark, name: str) -> None:
    arguments = ("sub", f"{name}.r.*", f"{name}.q.>", "--report-subscriptions", "--count", "3")
    with Background(ours, *arguments, ready="Subscribing on") as shown:
        for subject, body in (("r.1", "x"), ("r.2", "xyz"), ("q.1.2", "x")):
            ours("pub", f"{name}.{subject}", body, "--quiet")
        output = shown.output()

    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if "│" in line]
    assert rows[1:] == [[f"{name}.r.*", "2", "4 B"], [f"{name}.q.>", "1", "1 B"], ["Totals", "3", "5 B"]]


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_shows_what_was_counted(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> Iterator[Arrival]:
        yield Arrival(said("a.1"), "a.*")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        show_tally(Settings(json=as_json), Tally(by_subscription=False, top=10), interrupted())

    out = capsys.readouterr().out
    assert json.loads(out) == {"a.1": 1} if as_json else "a.1" in out


@pytest.mark.long
def test_rates_are_drawn_a_look_a_second_and_the_last_when_it_ends(ours: Jetspark, name: str) -> None:
    arguments = ("sub", f"{name}.a", f"{name}.b", "--graph", "--count", "3")
    with Background(ours, *arguments, ready="Subscribing on") as shown:
        for subject in ("a", "a", "b"):
            ours("pub", f"{name}.{subject}", "x", "--quiet")
        lines = shown.output().splitlines()

    assert lines
    assert all(f"{name}.a: " in line and f"{name}.b: " in line for line in lines)
    assert any(f"{name}.a: 0.0/s" not in line for line in lines)
    assert ours.run("sub", "a", "b", "c", "d", "e", "--graph").exit_code == 2


@pytest.mark.long
def test_at_a_terminal_the_rates_are_plots(ours: Jetspark, name: str) -> None:
    work_queue(ours, name)

    session = at_terminal(ours, "sub", "--stream", name, "--graph", "--count", "3")

    assert session.exit_code == 0, session.screen
    assert f"{name} / second" in session.screen
    assert "Message Rates" in session.screen


@pytest.mark.long
def test_silence_ends_a_count_as_it_ends_a_subscription(ours: Jetspark, name: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "jetspark.cli.main", "sub", name, "--report-subjects", "--wait", "300ms"],
        env={**os.environ, **ours.environment},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )

    assert result.stdout == "No messages came\n"
