"""`jetspark bench` measures like `nats bench`, one server or two."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Jetspark, url_of
from tests.cli.terminal import Background, at_terminal

from jetspark.client.errors import NoRespondersError
from jetspark.sync import connect
from jetspark.testing.processes import ServerProcess

SMALL = ("--msgs", "300", "--batch", "50", "--create", "--storage", "memory", "--cleanup")

KINDS = {
    "pub": ["bench", "pub", "b.pub", "--msgs", "300"],
    "js pub sync": ["bench", "js", "pub", "sync", "b.sync", "--stream", "B1", *SMALL[:2], *SMALL[4:]],
    "js pub async": ["bench", "js", "pub", "async", "b.async", "--stream", "B2", *SMALL],
    "js pub atomic": ["bench", "js", "pub", "batch", "b.atomic", "--stream", "B3", *SMALL],
    "js pub fast": ["bench", "js", "pub", "fast", "b.fast", "--stream", "B10", "--max-outstanding-acks", "2", *SMALL],
    "js consume": ["bench", "js", "consume", "--stream", "B4", *SMALL],
    "js fetch": ["bench", "js", "fetch", "--stream", "B5", "--acks", "all", *SMALL],
    "js ordered": ["bench", "js", "ordered", "--stream", "B6", *SMALL],
    "js get sync": ["bench", "js", "get", "sync", "--stream", "B7", *SMALL[:2], *SMALL[4:]],
    "js get batch": ["bench", "js", "get", "batch", "--stream", "B9", *SMALL],
    "kv put": ["bench", "kv", "put", "--bucket", "B8", "--msgs", "300", "--storage", "memory", "--cleanup"],
}


def latency_keys(document: dict[str, Any]) -> list[str]:
    return [name for name in document["latency"] if name.endswith("_us")]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_counts_every_message_and_has_percentiles(jetspark: Jetspark, kind: str) -> None:
    with connect(jetspark.url) as connection:
        before = connection.jetstream().stream_names()

    document = jetspark.json(*KINDS[kind])

    assert (document["kind"], document["count"]) == (kind, 300)
    assert document["msgs_per_sec"] > 0
    assert latency_keys(document) == ["min_us", "avg_us", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"]
    with connect(jetspark.url) as connection:
        assert connection.jetstream().stream_names() == before


@pytest.mark.long
def test_sub_counts_what_is_published_meanwhile(ours: Jetspark) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "jetspark.cli.main", "bench", "sub", "b.sub", "--msgs", "200", "--size", "5", "--json"],
        env={**os.environ, **ours.environment},
        stdout=subprocess.PIPE,
    )
    with process, connect(ours.url) as connection:
        while process.poll() is None:
            connection.publish("b.sub", b"12345")
            connection.flush()
        assert process.stdout is not None
        document = json.loads(process.stdout.read())

    assert (document["count"], document["kind"]) == (200, "sub")
    assert document["bytes_per_sec"] == pytest.approx(5 * document["msgs_per_sec"])


def served(jetspark: Jetspark, subject: str) -> None:
    """Wait until requests on a subject are answered; one request is used up."""
    with connect(jetspark.url) as connection:
        while True:
            try:
                assert len(connection.request(subject, b"are you there?").data) == 128
            except NoRespondersError:
                continue
            return


@pytest.mark.long
def test_service_requests_are_timed_and_served(jetspark: Jetspark) -> None:
    with Background(jetspark, "bench", "service", "serve", "b.svc", "--msgs", "201", ready="201 messages") as serving:
        served(jetspark, "b.svc")
        document = jetspark.json("bench", "service", "request", "b.svc", "--msgs", "200", "--size", "10")
        output = serving.output()

    assert (document["kind"], document["count"], document["size"]) == ("service request", 200, 10)
    assert document["latency"]["count"] == 200
    assert document["latency_of"] == "each request until its reply"
    assert "NATS service serve stats: " in output
    assert "201 messages in " in output


@pytest.mark.long
@pytest.mark.parametrize("clients", ["1", "2"])
def test_ctrl_c_ends_serving_with_what_was_served(ours: Jetspark, clients: str) -> None:
    arguments = ("bench", "service", "serve", "b.end", "--clients", clients)
    with Background(ours, *arguments, ready="messages until Ctrl-C, 128 B each") as serving:
        served(ours, "b.end")
        ours("bench", "service", "request", "b.end", "--msgs", "50")
        serving.process.send_signal(signal.SIGINT)
        output = serving.output()

    assert "51 messages in " in output


@pytest.mark.long
@pytest.mark.parametrize("clients", ["1", "2"])
def test_requests_that_nobody_serves_say_how_to_serve_them(ours: Jetspark, clients: str) -> None:
    result = ours.run("bench", "service", "request", "b.nobody", "--msgs", "5", "--clients", clients)

    assert result.exit_code == 4
    assert "nobody serves b.nobody" in result.stderr
    assert "jetspark bench service serve b.nobody" in result.stderr


DURATION_KINDS = {
    "pub": ["bench", "pub", "b.time"],
    "js pub sync": ["bench", "js", "pub", "sync", "b.time1", "--stream", "T1", "--create", "--dedup", *SMALL[4:]],
    "js pub async": ["bench", "js", "pub", "async", "b.time2", "--stream", "T2", "--create", *SMALL[4:]],
    "js pub atomic": ["bench", "js", "pub", "atomic", "b.time3", "--stream", "T3", "--create", *SMALL[4:]],
    "js pub fast": ["bench", "js", "pub", "fast", "b.time5", "--stream", "T5", "--create", "--dedup", *SMALL[4:]],
    "kv put": ["bench", "kv", "put", "--bucket", "T4", *SMALL[5:]],
}


@pytest.mark.long
@pytest.mark.parametrize("kind", DURATION_KINDS)
def test_a_duration_ends_the_run_instead_of_a_number(ours: Jetspark, kind: str) -> None:
    # Slowed down so much that only the clock can have ended it.
    document = ours.json(*DURATION_KINDS[kind], "--duration", "300ms", "--throughput", "2000", "--msgs", "1000000")

    assert document["kind"] == kind
    assert document["duration_s"] == 0.3
    assert 0 < document["count"] < 100_000
    assert document["elapsed_s"] >= 0.3


@pytest.mark.long
@pytest.mark.parametrize("kind", ["js consume", "js fetch", "js ordered", "js get sync", "js get batch"])
def test_a_reader_may_take_its_time(ours: Jetspark, kind: str) -> None:
    arguments = [*KINDS[kind], "--msgs", "20", "--sleep", "10ms"]

    document = ours.json(*arguments)

    assert document["count"] == 20
    # The last sleep may be after the last message was counted.
    assert document["elapsed_s"] >= 0.01 * 19


def test_atomic_batches_have_message_ids_when_asked(jetspark: Jetspark, name: str) -> None:
    jetspark(
        "bench", "js", "pub", "batch", name, "--stream", name, "--create", "--dedup", "--msgs", "20", "--batch", "7"
    )

    with connect(jetspark.url) as connection:
        stream = connection.jetstream().stream(name)
        ids = {stream.get_msg(seq).headers["Nats-Msg-Id"] for seq in range(1, 21)}
        stream.delete()
    assert len(ids) == 20


@pytest.mark.long
def test_at_a_terminal_a_duration_has_a_bar_with_rate_and_time_left(ours: Jetspark) -> None:
    session = at_terminal(ours, "bench", "pub", "b.bar", "--duration", "3s")

    assert session.exit_code == 0, session.screen
    assert "messages for 3.00s" in session.screen
    assert re.search(r"[\d,]+ of [\d,]+ +[\d,]+ messages/s +left +0:00:0", session.screen)


@pytest.mark.long
def test_several_clients_run_for_a_duration_and_never_use_the_same_key(ours: Jetspark) -> None:
    arguments = ("bench", "kv", "put", "--bucket", "TIMED", "--clients", "2", "--duration", "300ms", "--history", "2")
    document = ours.json(*arguments)

    with connect(ours.url) as connection:
        keys = connection.jetstream().key_value("TIMED").keys()
        connection.jetstream().delete_key_value("TIMED")
    assert len(document["clients_msgs_per_sec"]) == 2
    assert len(keys) == document["count"]


@pytest.mark.long
def test_ctrl_c_ends_a_benchmark_with_several_clients(ours: Jetspark) -> None:
    arguments = ("bench", "pub", "b.stopped", "--clients", "2", "--duration", "5m", "--throughput", "100")
    with (
        connect(ours.url) as connection,
        connection.subscribe("b.stopped") as subscription,
        Background(ours, *arguments, ready="messages for 5m0s") as running,
    ):
        assert subscription.next(20) is not None
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(20) == 130


@pytest.mark.long
def test_batched_gets_pick_the_messages_of_a_subject(ours: Jetspark) -> None:
    publish = ("bench", "js", "pub", "async", "b.pick", "--stream", "PICK", "--create", "--msgs", "40")
    ours(*publish, "--multisubject", "--multisubjectmax", "4")
    get = ("bench", "js", "get", "batch", "--stream", "PICK", "--filter", "b.pick.1", "--batch", "3", "--idle", "1s")

    document = ours.json(*get, "--msgs", "10", "--clients", "2")
    refused = ours.run(*get, "--msgs", "11", "--cleanup")

    assert document["count"] == 20
    assert (refused.exit_code, "after 10 of 11 messages" in refused.stderr) == (1, True)


def test_batched_gets_from_a_stream_without_direct_gets_say_what_to_do(ours: Jetspark) -> None:
    ours("stream", "add", "INDIRECT", "--subjects", "b.indirect", "--no-allow-direct", "--defaults")
    ours("pub", "b.indirect", "one")

    result = ours.run("bench", "js", "get", "batch", "--stream", "INDIRECT", "--msgs", "1")

    ours("stream", "rm", "INDIRECT", "-f")
    assert result.exit_code == 1
    assert "jetspark stream edit INDIRECT --allow-direct" in result.stderr


def test_the_result_for_people_has_rates_percentiles_and_charts(ours: Jetspark) -> None:
    result = ours.run("bench", "js", "pub", "sync", "b.x", "--stream", "P1", "--create", "--cleanup", "--msgs", "50")

    assert result.exit_code == 0, result.output
    assert "NATS js pub sync stats: " in result.stdout
    assert "Latency of each publish until its acknowledgement (50 measured):" in result.stdout
    assert " | P99.9 " in result.stdout
    assert "█" in result.stdout
    assert "Rate over " in result.stdout
    assert "Starting js pub sync on b.x: 50 messages, 128 B each, 1 client" in result.stderr


@pytest.mark.long
def test_several_clients_share_the_work_in_processes_of_their_own(ours: Jetspark) -> None:
    published = ours.json(
        "bench", "js", "pub", "async", "b.many", "--stream", "MANY", "--create", "--msgs", "1001", "--clients", "2"
    )
    consumed = ours.json("bench", "js", "consume", "--stream", "MANY", "--msgs", "1001", "--clients", "2", "--cleanup")

    assert published["count"] == consumed["count"] == 1001
    assert len(published["clients_msgs_per_sec"]) == len(consumed["clients_msgs_per_sec"]) == 2


@pytest.mark.long
def test_a_client_process_that_fails_ends_the_benchmark_with_its_reason(ours: Jetspark) -> None:
    ours("bench", "kv", "put", "--bucket", "FEW", "--msgs", "10")

    result = ours.run("bench", "kv", "get", "--bucket", "FEW", "--msgs", "20", "--clients", "2", "--cleanup")

    assert result.exit_code == 4
    assert "no key 10" in result.stderr or "no key 1" in result.stderr


@pytest.mark.oracle
def test_two_servers_run_in_turn_and_are_compared(ours: Jetspark, nats_server: ServerProcess, tmp_path: Path) -> None:
    table = tmp_path / "rounds.csv"
    arguments = ["bench", *KINDS["js pub async"][1:], "--against", url_of(nats_server), "--rounds", "2"]

    document = ours.json(*arguments, "--csv", str(table))
    shown = ours(*arguments)

    assert [one["server"] for one in document["servers"]] == ["jetspark 2.15.1", "nats-server 2.15.1"]
    assert [len(one["rounds_msgs_per_sec"]) for one in document["servers"]] == [2, 2]
    assert document["ratio"] > 0
    assert "ratio of rates: " in shown
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["Server"], row["Round"], row["MsgCount"]) for row in rows] == [
        (ours.url, "1", "300"), (ours.url, "2", "300"),
        (url_of(nats_server), "1", "300"), (url_of(nats_server), "2", "300"),
    ]  # fmt: skip


def test_the_second_server_may_be_a_context(ours: Jetspark, tmp_path: Path) -> None:
    folder = tmp_path / "nats" / "context"
    folder.mkdir(parents=True)
    (folder / "other.json").write_text(f'{{"url": "{ours.url}"}}')

    document = ours.json("bench", "pub", "b.ctx", "--msgs", "100", "--against", "other", "--rounds", "1")

    assert [one["url"] for one in document["servers"]] == [ours.url, ours.url]


def test_the_older_spelling_without_a_kind_still_works(ours: Jetspark) -> None:
    common = ("--stream", "OLD", "--create", "--msgs", "20", "--cleanup")

    assert ours.json("bench", "js", "pub", "b.old", "--batch", "10", *common)["kind"] == "js pub async"
    assert ours.json("bench", "js", "pub", "b.old", "--batch=1", *common)["kind"] == "js pub sync"


def test_multisubject_headers_ids_and_payload_reach_the_stream(ours: Jetspark, tmp_path: Path) -> None:
    payload = tmp_path / "payload"
    payload.write_bytes(b"exactly this")

    ours(
        "bench", "js", "pub", "async", "b.multi", "--stream", "MULTI", "--create", "--msgs", "20", "--multisubject",
        "--multisubjectmax", "5", "-H", "Kind:bench", "--dedup", "--payload", str(payload),
    )  # fmt: skip

    with connect(ours.url) as connection:
        stream = connection.jetstream().stream("MULTI")
        info = stream.info(subjects_filter=">")
        message = stream.get_msg(20)
        stream.delete()
    assert info.raw["state"]["subjects"] == {f"b.multi.{number}": 4 for number in range(5)}
    assert (message.data, message.headers["Kind"]) == (b"exactly this", "bench")
    assert message.headers["Nats-Msg-Id"].endswith("-19")


def test_throughput_holds_the_rate_down(ours: Jetspark) -> None:
    document = ours.json("bench", "pub", "b.slow", "--msgs", "300", "--throughput", "2000")

    assert document["msgs_per_sec"] < 3000


def test_a_missing_stream_is_exit_code_4_and_says_to_create_it(ours: Jetspark) -> None:
    result = ours.run("bench", "js", "consume", "--stream", "NOWHERE")

    assert result.exit_code == 4
    assert "--create" in result.stderr


@pytest.mark.long
def test_too_few_messages_end_with_what_came(ours: Jetspark) -> None:
    ours("bench", "js", "pub", "sync", "b.few", "--stream", "TOOFEW", "--create", "--msgs", "10")

    result = ours.run("bench", "js", "consume", "--stream", "TOOFEW", "--msgs", "20", "--idle", "200ms", "--cleanup")

    assert result.exit_code == 1
    assert "after 10 of 20 messages" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "pub", "s", "--msgs", "0"],
        ["bench", "pub", "s", "--msgs", "2", "--clients", "3"],
        ["bench", "js", "pub", "atomic", "s", "--batch", "1001"],
        ["bench", "js", "pub", "fast", "s", "--batch", "65536"],
        ["bench", "js", "pub", "fast", "s", "--max-outstanding-acks", "0"],
        ["bench", "pub", "s", "--size", "huge"],
        ["bench", "pub", "s", "--duration", "-1s"],
        ["bench", "pub", "s", "--duration", "1s", "--multisubject", "--multisubjectmax", "0"],
        ["bench", "pub", "s", "-H", "nocolon"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_measured_is_wrong_usage(ours: Jetspark, arguments: list[str]) -> None:
    assert ours.run(*arguments).exit_code == 2
