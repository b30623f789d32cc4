"""At a terminal `jetspark kv` asks for what is missing, and is coloured unless NO_COLOR says otherwise."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Jetspark
from tests.cli.terminal import at_terminal


@pytest.mark.long
def test_the_bucket_and_the_key_are_asked_for(ours: Jetspark) -> None:
    ours("kv", "add", "ASKED")
    ours("kv", "put", "ASKED", "colour", "blue")

    session = at_terminal(ours, "kv", "get", typed="ASKED\ncolour\n")

    assert session.exit_code == 0
    assert "Select a bucket" in session.screen
    assert "ASKED > colour revision: 1" in session.screen


@pytest.mark.long
def test_a_delete_that_is_not_confirmed_does_nothing(ours: Jetspark) -> None:
    ours("kv", "add", "KEPT_KEYS")
    ours("kv", "put", "KEPT_KEYS", "k", "v")

    session = at_terminal(ours, "kv", "del", "KEPT_KEYS", "k", typed="n\n")

    assert session.exit_code == 0
    assert "Skipping delete" in session.screen
    assert ours("kv", "get", "KEPT_KEYS", "k", "--raw") == "v"


@pytest.mark.long
@pytest.mark.parametrize(("no_color", "coloured"), [("1", False), ("", True)])
def test_colours_are_for_terminals_without_no_color(ours: Jetspark, no_color: str, coloured: bool) -> None:
    ours("kv", "add", "COLOURS")
    ours("kv", "put", "COLOURS", "k", "v")

    watched = at_terminal(ours, "kv", "watch", "COLOURS", "--count", "1", NO_COLOR=no_color)
    failed = at_terminal(ours, "kv", "get", "NOT_THERE", "k", NO_COLOR=no_color)

    assert failed.exit_code == 4
    assert ("\x1b[32mPUT" in watched.screen) == coloured
    assert ("\x1b[31m" in failed.screen) == coloured
