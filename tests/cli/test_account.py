"""`jetspark account`: who we are, what we use, and a backup of everything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.conftest import Jetspark

from jetspark.sync import connect
from jetspark.testing.processes import server_command, server_process


def test_info_shows_the_connection_the_usage_and_the_limits(jetspark: Jetspark) -> None:
    shown = jetspark("account", "info")

    for row in ("Account: $G", "Connected URL: " + jetspark.url, "Maximum Payload: 1.0 MiB", "Expires: never"):
        assert row in shown
    assert "System Account: false" in shown
    assert "Account Usage:" in shown
    assert "Account Limits:" in shown
    document = jetspark.json("a", "info")
    assert document["jetstream"]["limits"]["max_storage"] == -1
    assert document["connected_url"] == jetspark.url
    assert document["rtt_ns"] > 0


def test_info_tells_what_streams_have_reserved(jetspark: Jetspark, bucket: str) -> None:
    jetspark("stream", "add", bucket, "--subjects", bucket, "--storage", "memory", "--max-bytes", "3GiB", "--defaults")

    shown = jetspark("account", "info")
    jetspark("stream", "rm", bucket, "--force")

    assert re.search(r"Memory: [^\n]* of Unlimited \([\d.]+ GiB reserved\)", shown), shown


@pytest.mark.long
@pytest.mark.parametrize("kind", ["jetspark", pytest.param("nats-server", marks=pytest.mark.oracle)])
def test_info_says_whether_the_account_is_the_system_s(kind: str, tmp_path: Path) -> None:
    command = server_command(kind)
    if command is None:
        pytest.skip(f"no {kind}: install the dev dependencies")
    config = "accounts { SYS { users: [ {user: sys, password: pw} ] } }\nsystem_account: SYS\n"
    with server_process(command, config_text=config) as server:
        jetspark = Jetspark(f"nats://127.0.0.1:{server.port}", tmp_path)

        assert "System Account: true" in jetspark("account", "info", "--user", "sys", "--password", "pw")


@pytest.mark.long
def test_info_without_jetstream_says_so_and_is_no_failure(tmp_path: Path) -> None:
    command = server_command("jetspark")
    assert command is not None
    with server_process(command, jetstream=False) as server:
        jetspark = Jetspark(f"nats://127.0.0.1:{server.port}", tmp_path)

        assert "JetStream is not enabled" in jetspark("account", "info")
        assert jetspark.json("account", "info")["jetstream"] is None


def test_report_counts_what_consumers_have_left(jetspark: Jetspark, bucket: str) -> None:
    with connect(jetspark.url) as connection:
        js = connection.jetstream()
        stream = js.create_stream(bucket, subjects=[f"{bucket}.>"], storage="memory")
        consumer = stream.create_consumer("worker")
        for number in range(5):
            js.publish(f"{bucket}.{number}", b"x")
        consumer.fetch(2)

        row = next(row for row in jetspark.json("account", "report") if row["stream"] == bucket)

        assert (row["messages"], row["consumers"], row["unprocessed"], row["outstanding"]) == (5, 1, 3, 2)
        assert bucket in jetspark("account", "report")
        js.delete_stream(bucket)


@pytest.mark.long
def test_the_connections_of_an_account_are_shown_with_what_they_did(jetspark: Jetspark, bucket: str) -> None:
    with connect(jetspark.url, name=f"{bucket}-busy") as busy, connect(jetspark.url, name=f"{bucket}-idle") as idle:
        for number in range(3):
            busy.subscribe(f"{bucket}.{number}")
        busy.publish(f"{bucket}.none", b"x" * 100)
        busy.flush()
        idle.flush()
        mine = [f"{bucket}-idle", f"{bucket}-busy"]

        rows = jetspark.json("account", "report", "connections")
        reversed_rows = jetspark.json("account", "report", "conn", "-R", "--sort", "in-bytes")
        shown = jetspark("account", "report", "connections", "--subject", f"{bucket}.1")
        [one] = jetspark.json("account", "report", "connz", "--subject", f"{bucket}.1", "--top", "1")

    names = [row.get("name") for row in rows if row.get("name") in mine]
    assert names == mine
    assert [row.get("name") for row in reversed_rows if row.get("name") in mine] == mine[::-1]
    assert (one["name"], one["subscriptions"], one["in_bytes"]) == (f"{bucket}-busy", 3, 100)
    assert set(one["server"]) == {"name", "cluster", "id"}
    assert f"{bucket}-busy" in shown
    assert f"{bucket}-idle" not in shown
    assert "Top 1 Connections out of 1 by subs" in shown


@pytest.mark.long
def test_the_traffic_of_an_account_is_shown_by_server(jetspark: Jetspark) -> None:
    [row] = jetspark.json("account", "report", "statistics")

    assert (row["acc"], row["conns"] >= 1, row["received"]["msgs"] >= 1) == ("$G", True, True)
    shown = jetspark("account", "report", "stats")
    for column in ("Connections", "Subscriptions", "Sent Bytes", "Received Messages", "Slow Consumers"):
        assert column in shown
    # A server without a name is its id, cut.
    assert f"{row['server']['id'][:12]}.." in shown


@pytest.mark.long
def test_a_backup_of_all_streams_restores_on_a_fresh_server(tmp_path: Path) -> None:
    command = server_command("jetspark")
    assert command is not None
    with server_process(command) as server:
        jetspark = Jetspark(f"nats://127.0.0.1:{server.port}", tmp_path)
        assert jetspark.run("account", "backup", str(tmp_path / "none")).exit_code == 4
        with connect(jetspark.url) as connection:
            js = connection.jetstream()
            for name in ("ORDERS", "EVENTS"):
                stream = js.create_stream(name, subjects=[f"{name}.>"])
                stream.create_consumer("worker")
                for number in range(10):
                    js.publish(f"{name}.{number}", b"x" * 100)
        made = jetspark.json("account", "backup", str(tmp_path / "all"), "--check", "-w")
        assert [(one["stream"], one["messages"]) for one in made["streams"]] == [("EVENTS", 10), ("ORDERS", 10)]

        again = jetspark.run("account", "restore", str(tmp_path / "all"))

        assert again.exit_code == 1
        assert "2 streams were not restored" in again.stderr
    with server_process(command) as fresh:
        jetspark = Jetspark(f"nats://127.0.0.1:{fresh.port}", tmp_path)
        assert "Restored 2 of 2 streams" in jetspark("account", "restore", str(tmp_path / "all"))
        rows = jetspark.json("account", "report")
        assert [(row["stream"], row["messages"], row["consumers"]) for row in rows] == [
            ("EVENTS", 10, 1),
            ("ORDERS", 10, 1),
        ]


def test_what_is_restored_goes_where_it_is_told(jetspark: Jetspark, name: str, tmp_path: Path) -> None:
    jetspark("stream", "add", name, "--subjects", name, "--storage", "memory", "--defaults")
    jetspark("pub", "-J", name, "kept")
    jetspark("stream", "backup", name, str(tmp_path / name), "--check")
    jetspark("stream", "rm", name, "--force")

    jetspark("account", "restore", str(tmp_path), "--tag", "ssd,fast", "--tag", "near")

    made = jetspark.json("stream", "info", name)
    assert made["config"]["placement"]["tags"] == ["ssd", "fast", "near"]
    assert made["state"]["messages"] == 1


def test_a_folder_without_a_backup_is_not_found(ours: Jetspark, tmp_path: Path) -> None:
    result = ours.run("account", "restore", str(tmp_path))

    assert result.exit_code == 4
    assert "holds no account backup" in result.stderr


def test_a_stream_that_cannot_be_restored_does_not_keep_the_others(ours: Jetspark, name: str, tmp_path: Path) -> None:
    ours("stream", "add", name, "--subjects", name, "--storage", "memory", "--defaults")
    ours("stream", "backup", name, str(tmp_path / name))
    ours("stream", "rm", name, "--force")
    broken = tmp_path / "BROKEN"
    broken.mkdir()
    (broken / "backup.json").write_text("{}")

    result = ours.run("account", "restore", str(tmp_path))

    assert result.exit_code == 1
    assert f"Restored 1 of 2 streams from {tmp_path}" in result.stdout
    assert "1 streams were not restored: BROKEN" in result.stderr
    assert name in ours.json("stream", "ls", "--names")
