"""`jetspark top` shows a server's connections and streams from its monitoring address."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Jetspark

from jetspark.cli.context import Settings
from jetspark.cli.top import Sample, monitor_url, rates, stream_rates
from jetspark.sync import connect
from jetspark.testing.processes import ServerProcess


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
