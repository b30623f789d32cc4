"""`jetspark stream cluster` and `consumer cluster`: leaders move in a real cluster, and not where there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Jetspark
from tests.cli.terminal import at_terminal
from tests.nats_cluster import NAMES, Cluster

from jetspark.cli.leaders import Move, even_moves
from jetspark.sync import connect
from jetspark.testing.processes import nats_server_command

# An election on a busy machine; nothing waits so long when it is done earlier.
PATIENCE = ("--timeout", "30s")
# Servers that get no processor for seconds elect whom they like: then it is tried again.
TRIES = 3
STREAMS = ("ONE", "TWO", "THREE")


def led_by(leader: str, followers: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": "trio", "leader": leader, "replicas": followers}


def follower(name: str, *, current: bool = True, offline: bool = False) -> dict[str, Any]:
    return {"name": name, "current": current, "offline": offline}


placements = st.lists(
    st.permutations(NAMES).flatmap(lambda names: st.integers(1, 3).map(lambda count: names[:count])), max_size=12
)


@given(placements)
def test_leaders_are_spread_and_only_to_servers_that_follow(placed: list[list[str]]) -> None:
    clusters = {
        str(index): led_by(names[0], [follower(one) for one in names[1:]]) for index, names in enumerate(placed)
    }

    moves = even_moves(clusters.items())

    leader = {name: one["leader"] for name, one in clusters.items()}
    for move in moves:
        assert leader[move.name] == move.from_server
        assert move.to_server in {one["name"] for one in clusters[move.name]["replicas"]}
        leader[move.name] = move.to_server
    assert len({move.name for move in moves}) == len(moves)
    counts = Counter(leader.values())
    everywhere = [name for name, one in clusters.items() if len(one["replicas"]) == 2]
    # What all three have could always move once more: so no server leads two more of it than another leads of all.
    stayed = [name for name in everywhere if name not in {move.name for move in moves}]
    assert all(counts[leader[name]] - counts[other] < 2 for name in stayed for other in NAMES)


def test_a_server_that_is_behind_or_away_is_given_nothing() -> None:
    late, away = follower("b", current=False), follower("c", offline=True)

    assert even_moves([(name, led_by("a", [late, away])) for name in "123"]) == []
    assert even_moves([(name, led_by("a", [late, follower("c")])) for name in "12"]) == [Move("2", "a", "c")]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["stream", "cluster", "step-down", "{}"], "stream {} is not clustered"),
        (["stream", "cluster", "peer-remove", "{}", "n1"], "stream {} is not clustered"),
        (["stream", "cluster", "balance"], "these streams are not clustered"),
        (["consumer", "cluster", "step-down", "{}", "C"], "consumer {} > C is not clustered"),
        (["consumer", "cluster", "balance", "{}"], "these consumers are not clustered"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_single_server_has_no_leaders_to_move(jetspark: Jetspark, line: list[str], told: str) -> None:
    jetspark("stream", "add", "ALONE", "--subjects", "ALONE", "--storage", "memory", "--defaults")
    jetspark("consumer", "add", "ALONE", "C", "--pull", "--defaults")

    result = jetspark.run(*(word.format("ALONE") for word in line))

    assert result.exit_code == 1
    assert told.format("ALONE") + ": the server here is on its own" in result.stderr
    assert result.stdout == ""


class Trio:
    """`jetspark` against a cluster of three."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster = cluster
        self.run = Jetspark(cluster.urls, home)

    def leaders(self, *names: str) -> list[str]:
        found = {one["config"]["name"]: one["cluster"]["leader"] for one in self.run.json("stream", "report")}
        return [found[name] for name in names]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if nats_server_command() is None:
        pytest.skip("no nats-server binary: install the dev dependencies")
    with (
        Cluster(tmp_path_factory.mktemp("trio")).running() as cluster,
        connect(cluster.urls.split(","), request_timeout=10) as connection,
    ):
        for name in STREAMS:
            cluster.replicated_stream(connection.jetstream(), name)
        yield cluster


@pytest.fixture
def trio(running: Cluster, tmp_path: Path) -> Trio:
    return Trio(running, tmp_path)


on_a_cluster = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.timeout(180)]


@pytest.mark.usefixtures("running")
class TestOnACluster:
    """What a cluster does when it is asked."""

    pytestmark = on_a_cluster

    def test_a_stream_gets_the_leader_that_is_preferred(self, trio: Trio) -> None:
        for _ in range(TRIES):
            before = trio.run.json("stream", "info", "ONE")["cluster"]
            wanted = before["replicas"][0]["name"]

            result = trio.run.run("stream", "cluster", "step-down", "ONE", "--preferred", wanted, *PATIENCE)

            if f'New leader elected "{wanted}"' in result.stderr:
                break

        assert result.exit_code == 0, result.output
        assert f'Requesting leader step down of "{before["leader"]}" for stream ONE in a 3 peer' in result.stderr
        assert f'New leader elected "{wanted}"' in result.stderr
        assert f"Leader: {wanted} (" in result.stdout
        assert "Cluster Group: S-R3F-" in result.stdout
        again = trio.run.run("stream", "cluster", "elect", "ONE", "--preferred", wanted)
        assert (again.exit_code, f"{wanted} leads already; followers here: " in again.stderr) == (2, True)

    def test_a_bucket_tells_who_leads_it(self, trio: Trio) -> None:
        trio.run("kv", "add", "SPREAD", "--replicas", "3", "--storage", "memory")

        shown = trio.run("kv", "info", "SPREAD")

        leader = trio.run.json("kv", "info", "SPREAD")["cluster"]["leader"]
        trio.run("kv", "rm", "SPREAD", "--force")
        assert leader in NAMES
        assert "Cluster Group: S-R3M-" in shown
        assert shown.count("Replica: n") == 2

    def test_a_consumer_gets_another_leader(self, trio: Trio) -> None:
        trio.run("consumer", "add", "ONE", "MOVED", "--pull", "--defaults")
        before = trio.run.json("consumer", "info", "ONE", "MOVED")["cluster"]["leader"]

        after = trio.run.json("consumer", "cluster", "step-down", "ONE", "MOVED", *PATIENCE)

        assert after["name"] == "MOVED"
        assert after["cluster"]["leader"] != before

    def test_leaders_that_one_server_has_are_spread_over_all(self, trio: Trio) -> None:
        for _ in range(TRIES):
            for name in STREAMS:
                if trio.leaders(name) != ["n0"]:
                    trio.run.run("stream", "cluster", "step-down", name, "--preferred", "n0", *PATIENCE)

            shown = trio.run("stream", "cluster", "balance", *PATIENCE)

            if "Balanced 2 streams" in shown and sorted(trio.leaders(*STREAMS)) == ["n0", "n1", "n2"]:
                break
        else:
            pytest.fail(f"{trio.leaders(*STREAMS)} lead after: {shown}")
        assert "RAFT Leader Report" in shown

    def test_a_peer_is_asked_for_and_goes_only_where_another_can_take_its_place(self, trio: Trio) -> None:
        asked = at_terminal(trio.run, "stream", "cluster", "peer-remove", "TWO", typed="1\n")
        stranger = trio.run.run("stream", "cluster", "pr", "TWO", "n9")

        assert "Which server?" in asked.screen
        assert "peer remap failed (10075)" in asked.screen
        assert "jetspark stream edit TWO --replicas" in asked.screen
        assert asked.exit_code == 1
        assert (stranger.exit_code, "it is on: n0, n1, n2" in stranger.stderr) == (2, True)

    def test_the_servers_of_a_stream_are_offered_to_a_shell(self, trio: Trio) -> None:
        trio.run.environment.update(
            _JETSPARK_COMPLETE="bash_complete", COMP_WORDS="jetspark stream cluster peer-remove TWO n", COMP_CWORD="5"
        )

        for _ in range(TRIES):
            offered = trio.run.run().output
            if offered:
                break

        assert [line.split(",")[-1] for line in offered.split()] == ["n0", "n1", "n2"]

    def test_what_is_on_one_server_stays_there_unless_it_is_meant(self, trio: Trio) -> None:
        trio.run("stream", "add", "LONELY", "--subjects", "LONELY", "--replicas", "1", "--defaults")

        down = trio.run.run("stream", "cluster", "step-down", "LONELY")
        removed = trio.run.run("stream", "cluster", "peer-remove", "LONELY", "n0")

        assert (down.exit_code, "jetspark stream edit LONELY --replicas 3" in down.stderr) == (1, True)
        assert (removed.exit_code, "its messages would be lost" in removed.stderr) == (2, True)
        [home] = trio.leaders("LONELY")
        taken = trio.run.json("stream", "cluster", "peer-remove", "LONELY", home, "--force")
        assert taken == {"stream": "LONELY", "removed": home}
        trio.run.run("stream", "rm", "LONELY", "--force")
