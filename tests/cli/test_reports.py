"""`stream report` and `consumer report`: what copies what, who leads, and what a server has to know."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Jetspark
from tests.cli.terminal import at_terminal

from jetspark.cli.clusters import leaders, members, placed, show_leaders
from jetspark.sync import connect


def cluster(name: str, leader: str, *followers: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "leader": leader, "replicas": list(followers)}


def rows_of(shown: str, first: str) -> list[list[str]]:
    """The cells of the rows that begin so."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    return [row for row in rows if row and row[0] == first]


def test_the_leader_and_those_behind_are_marked() -> None:
    current, late, away = (
        {"name": "c", "current": True},
        {"name": "b", "current": False},
        {"name": "d", "current": True, "offline": True},
    )

    assert members(cluster("C1", "a", current, late, away)) == "a*, b!, c, d!"
    assert members({"name": "C1", "replicas": [current]}) == "c"


@pytest.mark.parametrize("found", [None, {}, {"leader": "NABC"}], ids=["nothing", "empty", "a server alone"])
def test_without_a_cluster_there_is_nothing_to_tell(
    found: dict[str, Any] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    show_leaders([found], "Streams")

    assert members(found) == ""
    assert capsys.readouterr().out == ""


def test_leaders_are_counted_by_server_within_their_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    found = [cluster("C1", "a"), cluster("C1", "b"), cluster("C1", "b"), cluster("C1", "b"), cluster("C2", "z"), None]

    show_leaders(found, "Streams")

    assert leaders(found) == [("a", "C1", 1, 0.25), ("b", "C1", 3, 0.75), ("z", "C2", 1, 1.0)]
    assert rows_of(capsys.readouterr().out, "b") == [["b", "C1", "3", "********"]]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, True),
        ({"server_name": re.compile("^b")}, True),
        ({"server_name": re.compile("^x")}, False),
        ({"cluster": re.compile("1$")}, True),
        ({"cluster": re.compile("2$")}, False),
        ({"leader": "a"}, True),
        ({"leader": "b"}, False),
        ({"leader": "a", "cluster": re.compile("2$")}, False),
    ],
    ids=str,
)
def test_things_are_found_by_where_a_cluster_has_them(wanted: dict[str, Any], found: bool) -> None:
    assert placed(cluster("C1", "a", {"name": "b1", "current": True}), wanted) == found


def test_streams_and_consumers_are_found_by_what_they_need(jetspark: Jetspark, name: str) -> None:
    with connect(jetspark.url) as connection:
        js = connection.jetstream()
        js.create_stream(f"{name}N", subjects=[f"{name}.n"], storage="memory", allow_batched=True)
        plain = js.create_stream(f"{name}P", subjects=[f"{name}.p"], storage="memory")
        plain.create_consumer("plain")
        plain.create_consumer("groups", priority_groups=["g"], priority_policy="overflow")

    found = jetspark("stream", "find", "--subject", f"{name}.*", "--api-level", "4", "--names").split()
    consumers = jetspark("consumer", "find", f"{name}P", "--api-level", "1", "--names").split()

    assert found == [f"{name}N"]
    assert consumers == ["groups"]
    assert jetspark("consumer", "find", f"{name}P", "--replicas", "1", "--names").split() == ["groups", "plain"]
    assert jetspark("consumer", "find", f"{name}P", "--replicas", "0", "--names") == ""
    assert jetspark("stream", "find", "--cluster", ".", "--names") == ""
    assert jetspark.run("stream", "find", "--server-name", "(").exit_code == 2


def test_the_report_says_what_is_copied_and_how(jetspark: Jetspark, name: str) -> None:
    with connect(jetspark.url) as connection:
        js = connection.jetstream()
        js.create_stream(f"{name}A", subjects=[f"{name}.a"], storage="memory", allow_batched=True)
        sources = [{"name": f"{name}A", "filter_subject": f"{name}.a"}]
        js.create_stream(f"{name}B", sources=sources, storage="memory")
        js.create_stream(f"{name}C", mirror={"name": f"{name}A"}, storage="memory")

    wide = {"COLUMNS": "400"}
    jetspark.environment.update(wide)
    shown = jetspark("stream", "report", "--leaders")

    level = rows_of(shown, f"{name}A")[0][8]
    assert level == "4"
    source, mirror = rows_of(shown, f"{name}B")[1], rows_of(shown, f"{name}C")[1]
    assert source[:5] == [f"{name}B", "Source", "", f"{name}A", f"{name}.a"]
    assert mirror[:5] == [f"{name}C", "Mirror", "", f"{name}A", ""]
    assert (source[6], source[7], mirror[6], mirror[7]) == ("0", "", "0", "")
    assert "RAFT Leader Report" not in shown


def test_what_copies_what_is_drawn_for_graphviz(ours: Jetspark, name: str, tmp_path: Path) -> None:
    with connect(ours.url) as connection:
        js = connection.jetstream()
        js.create_stream(f"{name}A", subjects=[f"{name}.a"], storage="memory")
        js.create_stream(f"{name}B", sources=[{"name": f"{name}A", "filter_subject": f"{name}.a"}], storage="memory")
        js.create_stream(f"{name}C", mirror={"name": f"{name}A"}, storage="memory")
    path = tmp_path / "copies.dot"

    ours("stream", "report", "--dot", str(path))

    written = path.read_text()
    assert f'"{name}A" -> "{name}B" [color=green, label="{name}.a"];' in written
    assert f'"{name}A" -> "{name}C" [color=blue, label="Mirror"];' in written
    assert written.startswith("digraph {")
    assert written.endswith("}\n")


def test_a_report_of_a_cluster_leaves_out_what_is_elsewhere(jetspark: Jetspark, name: str) -> None:
    jetspark("stream", "add", name, "--subjects", name, "--storage", "memory", "--defaults")

    # Neither server here is part of a cluster.
    assert jetspark.json("stream", "report", "--cluster", "C1") == []
    assert name in [one["config"]["name"] for one in jetspark.json("stream", "report", "--cluster", "")]


def test_a_consumer_report_has_levels_and_no_leaders_on_one_server(jetspark: Jetspark, name: str) -> None:
    jetspark.environment["COLUMNS"] = "400"
    jetspark("stream", "add", name, "--subjects", name, "--storage", "memory", "--defaults")
    jetspark("consumer", "add", name, "C", "--pull", "--defaults")

    shown = jetspark("consumer", "report", name, "--leaders")

    assert rows_of(shown, "C")[0][-2:] == ["0", ""]
    assert "RAFT Leader Report" not in shown


@pytest.mark.long
@pytest.mark.parametrize("every", [True, False])
def test_streams_of_buckets_are_offered_only_when_all_are_asked_for(ours: Jetspark, name: str, every: bool) -> None:
    ours("stream", "add", name, "--subjects", name, "--storage", "memory", "--defaults")
    ours("kv", "add", name, "--storage", "memory")

    session = at_terminal(ours, "stream", "subjects", *(["-a"] if every else []), typed=f"{name}\n")

    assert session.exit_code == 0, session.screen
    assert (f"KV_{name}" in session.screen) == every
