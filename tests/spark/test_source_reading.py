"""Reading a range: every column as stored, only what was asked for, through reconnects, leaving nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Iterator
from pathlib import Path

import msgspec
import pytest

from jetspark.client.api_errors import JetStreamDisabledError, api_error
from jetspark.client.errors import AuthorizationError, SecureConnectionError
from jetspark.client.sync import JetStream, Stream, connect
from jetspark.errors import JetsparkError
from jetspark.spark.columns import check_schema, full_schema
from jetspark.spark.connections import connection, drop_all, retrying
from jetspark.spark.data_loss import DataLossError
from jetspark.spark.source_options import source_options
from jetspark.testing.processes import ServerProcess
from tests.server.certificates import Authority
from tests.spark.conftest import fill, running, url_of
from tests.spark.readers import Query, read_batch, sequences, wait_until

EVERYTHING = " ".join(full_schema().names)


@pytest.fixture(autouse=True)
def _no_connection_stays() -> Iterator[None]:
    yield
    drop_all()


@pytest.mark.parametrize("mode", ["consumer", "direct"])
def test_every_column_is_what_the_stream_holds(url: str, stream: Stream, js: JetStream, mode: str) -> None:
    js.publish(f"{stream.name}.a", b"\x00\xff", headers=[("k", "1"), ("K", "2"), ("k", ""), ("odd", b"\xff\xfe")])
    js.publish(f"{stream.name}.b.c", b"")

    first, second = read_batch(url, stream.name, EVERYTHING, readMode=mode)

    stored = stream.get_msg(1)
    assert (first["stream"], first["subject"], first["sequence"]) == (stream.name, f"{stream.name}.a", 1)
    assert first["data"] == b"\x00\xff"
    assert first["timestamp_ns"] == stored.timestamp_ns
    assert int(first["timestamp"].timestamp()) == stored.timestamp_ns // 1_000_000_000
    assert first["timestamp"].microsecond == stored.timestamp_ns // 1000 % 1_000_000
    assert first["headers"] == [
        {"key": "k", "value": b"1"},
        {"key": "K", "value": b"2"},
        {"key": "k", "value": b""},
        {"key": "odd", "value": b"\xff\xfe"},
    ]
    assert (second["subject"], second["data"], second["headers"]) == (f"{stream.name}.b.c", b"", [])


def test_both_ways_of_reading_give_the_same_rows_also_of_messages_that_look_like_answers(
    url: str, stream: Stream, js: JetStream
) -> None:
    js.publish(f"{stream.name}.a", b"1", headers={"Nats-Subject": "elsewhere", "Nats-Sequence": "99", "x": "y"})
    fill(stream, 2000, subject="b")
    for number in (3, 4, 900):
        stream.delete_msg(number)

    by_consumer = read_batch(url, stream.name, EVERYTHING, readMode="consumer")
    by_direct = read_batch(url, stream.name, EVERYTHING, readMode="direct")

    assert len(by_consumer) == 1998
    assert by_direct == by_consumer
    assert {"key": "Nats-Sequence", "value": b"99"} in by_direct[0]["headers"]


@pytest.mark.parametrize("mode", ["auto", "consumer", "direct"])
def test_subjects_filter_on_the_server(url: str, stream: Stream, mode: str) -> None:
    for subject in ("a", "b", "c.d", "c.e") * 5:
        fill(stream, 1, subject=subject)
    name = stream.name

    one = read_batch(url, name, subjects=f"{name}.c.*", readMode=mode)
    two = read_batch(url, name, subjects=f"{name}.a,{name}.c.e", readMode=mode)

    assert sequences(one) == [number for number in range(1, 21) if number % 4 in (3, 0)]
    assert sequences(two) == [number for number in range(1, 21) if number % 4 in (1, 0)]


@pytest.mark.parametrize("mode", ["auto", "consumer", "direct"])
def test_subjects_may_overlap(url: str, stream: Stream, mode: str) -> None:
    for subject in ("a.x", "b.x", "a.y", "c") * 100:
        fill(stream, 1, subject=subject)
    name = stream.name

    covered = read_batch(url, name, subjects=f"{name}.a.x,{name}.a.*", readMode=mode)
    crossing = read_batch(url, name, subjects=f"{name}.a.*,{name}.*.x", readMode=mode)

    assert sequences(covered) == [number for number in range(1, 401) if number % 4 in (1, 3)]
    assert sequences(crossing) == [number for number in range(1, 401) if number % 4 in (1, 2, 3)]


@pytest.mark.long
def test_a_subject_that_no_stream_takes_is_told(url: str, stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    fill(stream, 1)
    name = stream.name

    assert read_batch(url, name, subjects=f"{name}.a,{name}a.b") == read_batch(url, name)
    Query(url, name, subjects=f"{name}a.b").plan()

    told = f"option subjects: {name} takes nothing of {name}a.b"
    assert [record.message for record in caplog.records] == [told, told]


def sent_bytes(server: ServerProcess) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.monitor_port}/varz") as answer:
        return int(msgspec.json.decode(answer.read())["out_bytes"])


def test_a_schema_is_a_choice_of_columns_and_payloads_nobody_wants_are_not_sent(
    server: ServerProcess, url: str, stream: Stream
) -> None:
    fill(stream, 40, text="x" * 100_000 + "{}")
    before = sent_bytes(server)

    rows = read_batch(url, stream.name, "sequence subject", readMode="consumer")

    assert rows[:2] == [{"sequence": n, "subject": f"{stream.name}.a"} for n in (1, 2)]
    assert len(rows) == 40
    assert sent_bytes(server) - before < 100_000


def test_a_schema_the_source_cannot_give_is_refused() -> None:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    with pytest.raises(JetsparkError, match=r"no column seq: choose some of stream, subject, sequence"):
        check_schema(StructType([StructField("seq", LongType())]))
    with pytest.raises(JetsparkError, match=r"column data is binary, not string: .* cast"):
        check_schema(StructType([StructField("data", StringType())]))


@pytest.mark.long
def test_no_consumer_is_left_behind(url: str, stream: Stream) -> None:
    fill(stream, 3000)

    assert len(read_batch(url, stream.name, readMode="consumer", minPartitions="3")) == 3000
    query = Query(url, stream.name, startingOffsets="earliest", readMode="consumer", batchSize="100")
    start, end = query.plan()
    rows = query.reader.read(query.reader.partitions(start, end)[0])
    assert isinstance(rows, Generator)
    next(rows)
    rows.close()

    wait_until(lambda: stream.consumer_names() == [])


_READ_FOR_EVER = """
import sys
from jetspark.client.sync import scanning
from tests.spark.readers import Query

scanning.INACTIVE_THRESHOLD_S = 1.0
scanning.IN_FLIGHT_ROWS = 500
query = Query(sys.argv[1], sys.argv[2], startingOffsets="earliest", readMode="consumer", batchSize="100")
start, end = query.plan()
rows = query.reader.read(query.reader.partitions(start, end)[0])
next(rows)
print("reading", flush=True)
sys.stdin.read()
"""


@pytest.mark.long
def test_a_worker_that_is_killed_leaves_a_consumer_that_goes_by_itself(url: str, stream: Stream) -> None:
    fill(stream, 3000)
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    worker = subprocess.Popen(
        [sys.executable, "-c", _READ_FOR_EVER, url, stream.name],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    with worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "reading\n"
        assert len(stream.consumer_names()) == 1
        worker.send_signal(signal.SIGKILL)

    wait_until(lambda: stream.consumer_names() == [])


@pytest.fixture(params=["jetspark", pytest.param("nats-server", marks=pytest.mark.oracle)])
def own_server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    with running(request.param) as process:
        # A restart is to come back where clients look for it.
        process._arguments += ["-p", str(process.port)]
        yield process


@pytest.mark.long
@pytest.mark.parametrize("mode", ["consumer", "direct"])
def test_a_read_goes_on_in_mid_range_after_the_server_was_killed(
    own_server: ServerProcess, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jetspark.client.sync.scanning.IN_FLIGHT_ROWS", 400)
    monkeypatch.setattr("jetspark.client.sync.scanning.DIRECT_PART_ROWS", 200)
    url = url_of(own_server)
    with connect(url) as client:
        stream = client.jetstream().create_stream("S", subjects=["S.>"], allow_direct=True)
        fill(stream, 3000)
    query = Query(url, "S", startingOffsets="earliest", readMode=mode, batchSize="200")
    start, end = query.plan()
    rows = query.reader.read(query.reader.partitions(start, end)[0])
    read = next(rows).to_pylist()

    own_server.restart(kill=True)
    for batch in rows:
        read += batch.to_pylist()

    assert sequences(read) == list(range(1, 3001))


@pytest.mark.long
@pytest.mark.parametrize("mode", ["consumer", "direct"])
def test_a_stream_that_is_made_again_in_mid_range_is_not_taken_for_the_old_one(
    url: str, js: JetStream, stream: Stream, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jetspark.client.sync.scanning.IN_FLIGHT_ROWS", 400)
    monkeypatch.setattr("jetspark.client.sync.scanning.DIRECT_PART_ROWS", 200)
    fill(stream, 3000)
    query = Query(url, stream.name, startingOffsets="earliest", readMode=mode, batchSize="200")
    start, end = query.plan()
    rows = query.reader.read(query.reader.partitions(start, end)[0])
    assert isinstance(rows, Generator)
    next(rows)

    js.delete_stream(stream.name)
    fill(js.create_stream(stream.name, subjects=[f"{stream.name}.>"], allow_direct=True), 3000, text="another {}")

    with pytest.raises(DataLossError, match=r"was created .* and is now one created"):
        list(rows)


@pytest.mark.long
def test_a_task_that_takes_its_time_is_not_taken_for_a_silent_server(
    url: str, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jetspark.client.sync.scanning.IN_FLIGHT_ROWS", 200)
    fill(stream, 1000)
    query = Query(url, stream.name, startingOffsets="earliest", readMode="consumer", batchSize="100",
                  pollTimeoutMs="2000", numRetries="0")  # fmt: skip
    start, end = query.plan()
    rows = query.reader.read(query.reader.partitions(start, end)[0])
    read = next(rows).to_pylist()
    busy_until_s = time.monotonic() + 2.5
    wait_until(lambda: time.monotonic() > busy_until_s)

    for batch in rows:
        read += batch.to_pylist()

    assert sequences(read) == list(range(1, 1001))


@pytest.mark.long
def test_a_server_that_does_not_come_back_fails_the_read_in_the_end() -> None:
    with running("jetspark") as process:
        url = url_of(process)
        with connect(url) as client:
            fill(client.jetstream().create_stream("S", subjects=["S.>"]), 10)
        query = Query(url, "S", startingOffsets="earliest", numRetries="1", retryIntervalMs="1",
                      reconnectTimeoutMs="0")  # fmt: skip
        start, end = query.plan()
        partitions = query.reader.partitions(start, end)
        process.kill()

        with pytest.raises(JetsparkError):
            list(query.reader.read(partitions[0]))


def test_a_cluster_without_a_leader_is_asked_again_and_one_without_jetstream_is_not() -> None:
    options = source_options({"servers": "nats://127.0.0.1:1", "stream": "S", "retryIntervalMs": "0"})
    asked: list[int] = []

    def ask(err_code: int) -> str:
        asked.append(err_code)
        if len(asked) == 3:
            return "a leader"
        raise api_error({"code": 503, "err_code": err_code, "description": "not now"})

    assert retrying(options, lambda: ask(10008)) == "a leader"
    asked.clear()
    with pytest.raises(JetStreamDisabledError):
        retrying(options, lambda: ask(10039))
    assert asked == [10039]


def test_a_connection_is_kept_between_tasks_and_replaced_when_it_is_dead(url: str) -> None:
    options = source_options({"servers": url, "stream": "S"})
    first = connection(options)

    assert connection(options) is first
    first.close()
    assert connection(options) is not first
    assert connection(options).is_connected


def test_a_connection_nobody_asked_for_in_a_while_is_closed(url: str) -> None:
    idle = connection(source_options({"servers": url, "stream": "S", "idleConnectionMs": "0"}))

    kept = connection(source_options({"servers": url, "stream": "S"}))

    assert idle.is_closed
    assert not kept.is_closed


def test_a_forked_process_makes_its_own_connection(url: str) -> None:
    options = source_options({"servers": url, "stream": "S"})
    parents = connection(options)
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            own = connection(options)
            status = 0 if own is not parents and own.rtt() > 0 else 2
        os._exit(status)

    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert parents.rtt() > 0


@pytest.mark.long
def test_users_and_tls_with_a_clients_certificate_are_options(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), tmp_path / "other"
    other.mkdir()
    server_files, client_files = authority.issue("localhost"), authority.issue("spark")
    config = f"""
        authorization {{ user: "spark", password: "hunter2" }}
        tls {{ cert_file: "{server_files.cert_file}", key_file: "{server_files.key_file}",
               ca_file: "{authority.file}", verify: true }}
    """
    tls = {
        "tls.caFile": str(authority.file),
        "tls.certFile": str(client_files.cert_file),
        "tls.keyFile": str(client_files.key_file),
        "tls.hostname": "127.0.0.1",
    }
    with running("jetspark", config_text=config) as process:
        url = url_of(process)
        options = source_options({"servers": url, "stream": "S", "user": "spark", "password": "hunter2", **tls})
        fill(connection(options).jetstream().create_stream("S", subjects=["S.>"]), 3)

        assert len(read_batch(url, "S", user="spark", password="hunter2", **tls)) == 3
        # An hour between two tries: it is not tried twice.
        patient = {"retryIntervalMs": "1h", **tls}
        with pytest.raises(AuthorizationError, match=f"{url} with option user: Authorization Violation") as caught:
            read_batch(url, "S", user="spark", password="wrong-secret", **patient)
        with pytest.raises(AuthorizationError, match=r"with option credentialsFile: cannot read /no/where"):
            read_batch(url, "S", credentialsFile="/no/where", **patient)
        with pytest.raises(SecureConnectionError, match="certificate"):
            read_batch(url, "S", **{**patient, "tls.caFile": str(Authority(other).file)})

    assert "wrong-secret" not in str(caught.value)
