"""`jetspark counter`: numbers in a stream that many add to."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Jetspark
from tests.cli.terminal import at_terminal


@pytest.fixture
def counting(jetspark: Jetspark, name: str) -> Jetspark:
    """An empty stream that counts, named as the test."""
    storage = ("--storage", "memory", "--allow-counter", "--allow-direct", "--defaults")
    jetspark("stream", "add", name, "--subjects", f"{name}.>", *storage)
    return jetspark


def test_what_is_added_is_counted_whatever_its_size_and_sign(counting: Jetspark, name: str) -> None:
    sums = [counting("counter", "increment", f"{name}.hits", *added).strip() for added in (("5",), ("-2",), ())]

    assert sums == ["5", "3", "4"]
    large = counting.json("ctr", "incr", f"{name}.hits", "99999999999999999999")
    assert large == {"subject": f"{name}.hits", "value": "100000000000000000003"}
    assert counting("counter", "get", f"{name}.hits") == "100000000000000000003\n"


def test_counters_are_listed_by_stream_and_by_pattern(counting: Jetspark, name: str) -> None:
    for counted in ("a.x", "a.y", "b.x"):
        counting("counter", "incr", f"{name}.{counted}", "--stream", name)

    assert counting.json("counter", "ls", "--stream", name) == [f"{name}.{one}" for one in ("a.x", "a.y", "b.x")]
    assert counting("counter", "ls", f"{name}.a.*").split() == [f"{name}.a.x", f"{name}.a.y"]


def test_a_view_tells_the_last_increment_and_what_other_streams_had(counting: Jetspark, name: str) -> None:
    counting("counter", "incr", f"{name}.hits", "1000")
    counting("counter", "incr", f"{name}.hits", "234")
    total = f"{name}_TOTAL"
    settings = ("--storage", "memory", "--allow-counter", "--allow-direct", "--defaults")
    counting("stream", "add", total, "--subjects", total, "--source", name, *settings)
    # The copy is there once a reader of it has both.
    counting("consumer", "add", total, "READER", "--pull", "--defaults")
    counting("consumer", "next", total, "READER", "--count", "2", "--wait", "20s")

    shown = counting("counter", "view", f"{name}.hits", "--stream", total)

    assert "Value: 1,234\n" in shown
    assert "Increment: 234\n" in shown
    assert f"{name}: {name}.hits: 1,234\n" in shown
    document = counting.json("counter", "view", f"{name}.hits", "--stream", total)
    assert document["sources"] == {name: {f"{name}.hits": "1234"}}
    assert (document["value"], document["increment"]) == ("1234", "234")


@pytest.mark.parametrize(
    ("line", "exit_code", "told"),
    [
        (["get", "{0}.none"], 4, "nothing was counted on {0}.none in {0} yet"),
        (["get", "nobody.counts"], 4, "no stream listens on nobody.counts; streams here: "),
        (["get", "PLAIN", "--stream", "PLAIN"], 1, "stream PLAIN does not count"),
        (["get", "x", "--stream", "NOWHERE"], 4, "no stream NOWHERE; streams here: "),
        (["increment", "{0}.hits", "1.5"], 2, "'1.5' is no whole number"),
        (["increment", "PLAIN", "--stream", "{0}"], 2, "PLAIN is counted in stream PLAIN, not in {0}"),
        (["list"], 2, "give a subject, or --stream"),
        (["list", "{0}.none.*"], 4, "no counters in {0} match {0}.none.*"),
        (["get"], 2, "missing SUBJECT"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_counted_says_why(ours: Jetspark, line: list[str], exit_code: int, told: str) -> None:
    ours("stream", "add", "COUNTS", "--subjects", "COUNTS.>", "--storage", "memory", "--allow-counter", "--defaults")
    ours("stream", "add", "PLAIN", "--subjects", "PLAIN", "--storage", "memory", "--defaults")

    result = ours.run("counter", *(word.format("COUNTS") for word in line))

    assert (result.exit_code, result.stdout) == (exit_code, ""), result.output
    assert told.format("COUNTS") in result.stderr


@pytest.mark.long
def test_a_counter_that_is_not_named_is_asked_for(ours: Jetspark, name: str) -> None:
    ours("stream", "add", name, "--subjects", f"{name}.>", "--storage", "memory", "--allow-counter", "--defaults")

    session = at_terminal(ours, "counter", "increment", typed=f"{name}.hits\n")

    assert session.exit_code == 0, session.screen
    assert ours("counter", "get", f"{name}.hits") == "1\n"
