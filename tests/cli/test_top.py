"""`jetspark top` shows a server's connections and streams from its monitoring address."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from tests.cli.conftest import Jetspark
from tests.cli.terminal import at_terminal

from jetspark.cli.context import Settings
from jetspark.cli.monitoring import monitor_url, names_a_server
from jetspark.cli.top import Sample, Wanted, connection_rows, rates, stream_rates
from jetspark.sync import connect
from jetspark.testing.processes import ServerProcess, server_command, server_process

WITH_A_SYSTEM_ACCOUNT = """
server_name: here
accounts {
  SYS { users: [ {user: sys, password: pw} ] }
  APP { jetstream: enabled, users: [ {user: app, password: pw} ] }
}
system_account: SYS
no_auth_user: app
"""


def sample(second: int, in_msgs: int, last_seq: int) -> Sample:
    server = {"now": f"2026-01-01T00:00:{second:02d}Z", "in_msgs": in_msgs}
    return Sample(server, [], [{"name": "S", "state": {"last_seq": last_seq}}])


def test_one_sample_shows_connections_and_streams(
    jetspark: Jetspark, either_server: ServerProcess, bucket: str
) -> None:
    target = str(either_server.monitor_port)
    with connect(jetspark.url, name="the-worker") as connection:
        js = connection.jetstream()
        js.create_stream(bucket, subjects=[bucket], storage="memory").create_consumer("C")
        for _ in range(3):
            js.publish(bucket, b"x")

        shown = jetspark("top", target, "--once", "--interval", "50ms")
        document = jetspark.json("top", f"127.0.0.1:{target}", "-d", "50ms", "--sort", "subs")

        js.delete_stream(bucket)
    assert "NATS server version 2.15.1" in shown
    row = next(line for line in shown.splitlines() if bucket[:40] in line)
    assert row.split()[1:3] == ["1", "3"]
    assert "the-worker" in shown
    assert "the-worker" in [one["name"] for one in document["connections"]]
    assert next(one for one in document["streams"] if one["name"] == bucket)["state"]["last_seq"] == 3
    assert set(document["rates"]) == {"in_msgs", "out_msgs", "in_bytes", "out_bytes"}


def test_a_sample_can_be_saved(ours: Jetspark, our_server: ServerProcess, tmp_path: Path) -> None:
    path = tmp_path / "top.txt"

    ours("top", str(our_server.monitor_port), "--output", str(path), "-d", "10ms")

    assert "NATS server version" in path.read_text()


def test_what_each_connection_subscribes_to_is_shown_when_asked(
    jetspark: Jetspark, either_server: ServerProcess, bucket: str
) -> None:
    target = str(either_server.monitor_port)
    with connect(jetspark.url) as connection:
        connection.subscribe(f"{bucket}.x")
        connection.flush()

        document = jetspark.json("top", target, "--subs", "-d", "10ms")
        plain = jetspark.json("top", target, "-d", "10ms")
        lines = jetspark("top", target, "--subs", "--delimiter", ";", "-d", "10ms").splitlines()

    assert any(f"{bucket}.x" in one.get("subscriptions_list", []) for one in document["connections"])
    assert not any("subscriptions_list" in one for one in plain["connections"])
    assert lines[0].split(";")[:2] == ["Host", "CID"]
    assert lines[0].endswith(";Idle;Subscriptions")
    assert any(line.endswith(f"{bucket}.x") for line in lines[1:])


def test_a_sample_is_saved_with_a_delimiter_for_a_spreadsheet(
    ours: Jetspark, our_server: ServerProcess, tmp_path: Path
) -> None:
    path = tmp_path / "top.csv"

    ours("top", str(our_server.monitor_port), "-o", str(path), "--delimiter", ",", "-d", "10ms")

    assert path.read_text().startswith("Host,CID,Name,Subs,")
    assert ours.run("top", str(our_server.monitor_port), "--delimiter", "::", "--once").exit_code == 2


def test_addresses_are_looked_up_when_asked() -> None:
    seen = Sample({}, [{"ip": "127.0.0.1", "port": 9}], [])

    def hosts(*, lookup: bool) -> list[str]:
        wanted = Wanted(sort="cid", limit=1, streams=False, subs=False, lookup=lookup, raw=False, delimiter="")
        return [row[0] for row in connection_rows(seen, wanted)]

    assert hosts(lookup=False) == ["127.0.0.1:9"]
    # Whatever this machine calls itself.
    assert hosts(lookup=True)[0].rpartition(":")[0] == socket.gethostbyaddr("127.0.0.1")[0]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["jetspark", pytest.param("nats-server", marks=pytest.mark.oracle)])
def test_a_server_is_asked_by_its_name_through_the_system_account(kind: str, tmp_path: Path) -> None:
    command = server_command(kind)
    if command is None:
        pytest.skip(f"no {kind}: install the dev dependencies")
    with server_process(command, config_text=WITH_A_SYSTEM_ACCOUNT) as server:
        cli = Jetspark(f"nats://{server.host}:{server.port}", tmp_path)
        with connect(cli.url, name="the-worker") as connection:
            connection.jetstream().create_stream("S", subjects=["s"], storage="memory")
            system = ("--user", "sys", "--password", "pw")

            document = cli.json("top", "here", "-d", "10ms", *system)
            elsewhere = cli.run("top", "elsewhere", "-d", "10ms", "--timeout", "300ms", *system)
            refused = cli.run("top", "here", "-d", "10ms", "--timeout", "300ms")

    assert document["server_name"] == "here"
    assert "the-worker" in [one.get("name") for one in document["connections"]]
    assert [one["name"] for one in document["streams"]] == ["S"]
    assert (elsewhere.exit_code, "no server elsewhere" in elsewhere.stderr) == (4, True)
    assert "system account" in refused.stderr


@pytest.mark.parametrize(
    ("target", "is_name"), [("east-1", True), ("9000", False), ("host:9000", False), ("http://h", False), (None, False)]
)
def test_a_word_alone_is_a_server_s_name(target: str | None, is_name: bool) -> None:
    assert names_a_server(target) == is_name


def test_several_samples_end_by_themselves(ours: Jetspark, our_server: ServerProcess) -> None:
    shown = ours("top", str(our_server.monitor_port), "--max-refresh", "3", "-d", "10ms", "--json")

    assert len(shown.splitlines()) == 3


def test_no_monitoring_is_exit_code_3_and_says_how_to_start_it(ours: Jetspark) -> None:
    result = ours.run("top", "1")

    assert result.exit_code == 3
    assert "-m 8222" in result.stderr


def test_rates_are_differences_by_the_servers_clock() -> None:
    before, after = sample(10, 100, 5), sample(12, 300, 25)

    assert rates(before, after)["in_msgs"] == 100.0
    assert stream_rates(before, after) == {"S": 10.0}


def test_a_server_that_started_anew_shows_no_negative_rate() -> None:
    assert rates(sample(10, 100, 5), sample(12, 0, 0))["in_msgs"] == 0.0
    assert stream_rates(sample(10, 100, 5), sample(12, 0, 0)) == {"S": 0.0}


@pytest.mark.parametrize(
    ("target", "server", "wanted"),
    [
        (None, "nats://10.0.0.5:4222", "http://10.0.0.5:8222"),
        (None, "", "http://127.0.0.1:8222"),
        ("9000", "", "http://127.0.0.1:9000"),
        ("host:9000", "", "http://host:9000"),
        ("https://host:9000/", "", "https://host:9000"),
    ],
)
def test_where_the_monitoring_is(target: str | None, server: str, wanted: str) -> None:
    assert monitor_url(target, Settings(server=server)) == wanted


def test_files_are_no_monitoring_address(ours: Jetspark) -> None:
    assert ours.run("top", "file:///etc/hosts").exit_code == 2


@pytest.mark.long
def test_headings_and_numbers_are_whole_in_a_usual_terminal(our_server: ServerProcess, ours: Jetspark) -> None:
    with connect(ours.url, name="a name that is longer than its column has room for"):
        screen = at_terminal(ours, "top", str(our_server.monitor_port), "--once", COLUMNS="100").screen

    for heading in ("Host", "CID", "Name", "Subs", "Pending", "Lang", "Version", "Uptime", "Idle"):
        assert re.search(rf"(?:\b|\dm){heading}\b", screen), screen
    assert re.search(r"a name[^\r\n]{0,10}…", screen), screen
