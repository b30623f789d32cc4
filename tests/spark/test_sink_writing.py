"""What the sink stores, refuses and finds again: the code of a task without Spark around it, on real servers."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from jetspark.client.errors import BadOptionError
from jetspark.client.sync import JetStream, Stream, connect
from jetspark.spark.connections import drop_all
from jetspark.spark.sink import Sink, TaskDone
from jetspark.spark.sink_checks import check_target
from jetspark.spark.sink_connection import SinkError
from jetspark.spark.sink_ids import Place, Run
from jetspark.spark.sink_ledger import Ledger
from jetspark.spark.sink_options import sink_options
from jetspark.spark.sink_rows import plan_rows
from jetspark.testing.processes import ServerProcess, free_ports, server_process
from tests.spark.cutting import CuttingProxy
from tests.spark.sinking import (
    NUMBERS,
    PLACE,
    TEXT,
    WINDOW_S,
    Stopped,
    batches,
    break_off,
    make_sink,
    outlive_window,
    stored,
)


def test_every_row_is_stored_once_and_counted(url: str, target: Stream) -> None:
    done = make_sink(url, target.name).write(PLACE, batches([*NUMBERS, "7", "7"]))
    assert stored(target) == Counter([*NUMBERS, "7", "7"])
    assert (done.rows, done.stored, done.found, done.dead, done.last_sequence) == (102, 102, 0, 0, 102)


def test_a_replay_after_the_duplicate_window_stores_only_the_rest_in_whatever_order(
    url: str, js: JetStream, target: Stream
) -> None:
    sink = make_sink(url, target.name)
    break_off(sink)
    outlive_window(js, target)
    done = sink.write(PLACE, batches(NUMBERS[::-1]))
    assert stored(target) == Counter(NUMBERS)
    assert done.found == 40
    assert done.stored == 60


@pytest.mark.parametrize("mode", ["position", "column"])
def test_a_replay_with_other_kinds_of_ids_stores_only_the_rest(
    mode: str, url: str, js: JetStream, target: Stream
) -> None:
    columns: dict[str, t.DataType] = {"data": TEXT}
    if mode == "column":
        columns["msg_id"] = TEXT
    rows = [{"data": one, "msg_id": f"id-{one}"} if mode == "column" else {"data": one} for one in NUMBERS]
    sink = make_sink(url, target.name, columns, msgId=mode)
    with pytest.raises(Stopped):
        sink.write(PLACE, batches(rows, stop_after=50))
    outlive_window(js, target)
    sink.write(PLACE, batches(rows))
    assert stored(target) == Counter(NUMBERS)


def test_a_replay_with_other_rows_is_refused_before_anything_is_written(
    url: str, js: JetStream, target: Stream
) -> None:
    sink = make_sink(url, target.name)
    break_off(sink)
    outlive_window(js, target)
    with pytest.raises(SinkError, match=r"40 rows stored by an earlier attempt are not among the 100 rows.*msg_id"):
        sink.write(PLACE, batches([f"changed {one}" for one in NUMBERS]))
    assert stored(target) == Counter(NUMBERS[:40])


def test_ids_by_position_refuse_rows_in_another_order(url: str, js: JetStream, target: Stream) -> None:
    sink = make_sink(url, target.name, msgId="position")
    break_off(sink)
    outlive_window(js, target)
    with pytest.raises(SinkError, match="in another order"):
        sink.write(PLACE, batches(NUMBERS[::-1]))
    assert stored(target) == Counter(NUMBERS[:40])


@pytest.mark.long
def test_other_queries_batches_partitions_and_writers_do_not_disturb(url: str, js: JetStream, target: Stream) -> None:
    sink = make_sink(url, target.name)
    places = [PLACE, Place("query", 5, 1), Place("query", 6, 0), Place("other", 5, 0)]
    for place in places:
        break_off(sink, place)
        outlive_window(js, target)
    for place in places:
        sink.write(place, batches(NUMBERS))
    assert stored(target) == Counter(dict.fromkeys(NUMBERS, 4))


def test_rows_that_another_attempt_has_finished_are_not_sent_again(url: str, js: JetStream, target: Stream) -> None:
    sink = make_sink(url, target.name)
    first = sink.write(PLACE, batches(NUMBERS))
    outlive_window(js, target)
    # Even when the messages are gone: the ledger knows.
    target.purge(subject=f"{target.name}.rows")
    assert sink.write(PLACE, batches(NUMBERS)) == first
    assert stored(target) == Counter()


def test_a_committed_batch_is_skipped_and_an_older_one_refused(url: str, js: JetStream, target: Stream) -> None:
    sink = make_sink(url, target.name)
    done = sink.write(PLACE, batches(NUMBERS))
    sink.commit([done], 5, is_for_good=True)
    assert Ledger(js, "jetspark_sink", target.name).claim(PLACE) is None
    outlive_window(js, target)
    sink.write(PLACE, batches(NUMBERS))
    assert stored(target) == Counter(NUMBERS)
    with pytest.raises(SinkError, match=r"batch 5 of this query is already committed.*checkpoint is older"):
        sink.write(Place("query", 4, 0), batches(NUMBERS), Run(is_query=True))
    assert stored(target) == Counter(NUMBERS)


@pytest.mark.long
def test_two_attempts_at_once_store_each_row_once(url: str, js: JetStream, target: Stream) -> None:
    sink = make_sink(url, target.name, maxInFlight=4)
    started = threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        for batch in batches(NUMBERS):
            started.set()
            yield batch
            outlive_window(js, target)

    results: list[TaskDone] = []
    first = threading.Thread(target=lambda: results.append(sink.write(PLACE, slow())))
    first.start()
    started.wait(20)
    second = sink.write(PLACE, batches(NUMBERS))
    first.join(30)
    assert stored(target) == Counter(NUMBERS)
    assert results == [second]


@pytest.mark.long
def test_an_attempt_that_stays_connected_is_waited_for_and_named(url: str, js: JetStream, target: Stream) -> None:
    sink = make_sink(url, target.name, takeoverTimeoutMs=300)
    release, started = threading.Event(), threading.Event()

    def stuck() -> Iterator[pa.RecordBatch]:
        started.set()
        release.wait(30)
        yield from batches(NUMBERS)

    first = threading.Thread(target=lambda: sink.write(PLACE, stuck()))
    first.start()
    started.wait(20)
    try:
        with pytest.raises(SinkError, match=r"still connected after 0.3 s \(option takeoverTimeoutMs\)"):
            sink.write(PLACE, batches(NUMBERS))
        assert stored(target) == Counter()
    finally:
        release.set()
        first.join(30)
    assert stored(target) == Counter(NUMBERS)


def test_a_replay_that_cannot_know_what_was_stored_fails_or_says_so(url: str, js: JetStream, target: Stream) -> None:
    sink = make_sink(url, target.name)
    break_off(sink)
    outlive_window(js, target)
    target.delete_msg(3)
    with pytest.raises(SinkError, match=r"1 of the messages 1 to \d+ .* are gone .*failOnDataLoss=false"):
        sink.write(PLACE, batches(NUMBERS))
    make_sink(url, target.name, failOnDataLoss="false").write(PLACE, batches(NUMBERS))
    assert stored(target) == Counter(NUMBERS)


def test_a_stream_made_again_under_the_same_name_gets_every_row(url: str, js: JetStream, target: Stream) -> None:
    sink = make_sink(url, target.name)
    break_off(sink)
    js.delete_stream(target.name)
    js.create_stream(target.name, subjects=[f"{target.name}.>"], duplicate_window=WINDOW_S)
    sink.write(PLACE, batches(NUMBERS))
    assert stored(target) == Counter(NUMBERS)


def test_a_work_queue_is_read_without_a_consumer(url: str, js: JetStream) -> None:
    name = f"W{uuid.uuid4().hex[:12]}"
    queue = js.create_stream(name, subjects=[f"{name}.>"], duplicate_window=WINDOW_S, retention="workqueue")
    sink = make_sink(url, name)
    break_off(sink)
    outlive_window(js, queue)
    assert sink.write(PLACE, batches(NUMBERS)).found == 40
    assert queue.info(subjects_filter=f"{name}.rows").state.subjects == {f"{name}.rows": 100}
    assert queue.consumer_names() == []
    js.delete_stream(name)


def test_without_ids_nothing_is_claimed_and_a_replay_stores_again(url: str, js: JetStream, target: Stream) -> None:
    sink = make_sink(url, target.name, msgId="none")
    break_off(sink)
    sink.write(PLACE, batches(NUMBERS))
    assert stored(target) == Counter([*NUMBERS, *NUMBERS[:40]])


# Rows refused for their data.


def test_a_bad_row_fails_the_task_by_name_before_its_batch_is_sent(url: str, target: Stream) -> None:
    columns: dict[str, t.DataType] = {"data": TEXT, "subject": TEXT}
    rows = [{"data": str(number), "subject": f"{target.name}.a"} for number in range(15)]
    rows[12]["subject"] = "elsewhere.b"
    with pytest.raises(SinkError, match=r"row 12 of batch 5, partition 0 .* does not take subject elsewhere.b"):
        make_sink(url, target.name, columns).write(PLACE, batches(rows))
    assert stored(target) == Counter(str(number) for number in range(10))


def test_one_row_in_flight_keeps_the_order(url: str, target: Stream) -> None:
    make_sink(url, target.name, maxInFlight=1).write(PLACE, batches(NUMBERS[:20]))
    assert [target.get_msg(seq).data.decode() for seq in range(1, 21)] == NUMBERS[:20]


# Before the first row.


def test_a_target_that_cannot_take_the_rows_is_found_out_on_the_driver(url: str, js: JetStream, target: Stream) -> None:
    name = target.name
    with pytest.raises(BadOptionError, match="there is no stream NOPE: create it first"):
        make_sink(url, "NOPE")
    with pytest.raises(BadOptionError, match=f"stream {name} does not take subject elsewhere"):
        make_sink(url, name, subject="elsewhere")
    with pytest.raises(BadOptionError, match="no stream takes option deadLetterSubject"):
        make_sink(url, name, deadLetterSubject="nobody.listens")
    tiny = js.create_stream(f"{name}tiny", subjects=[f"{name}tiny"], max_msg_size=50)
    with pytest.raises(SinkError, match="takes 50 bytes a message, less than a message id needs"):
        make_sink(url, tiny.name, subject=tiny.name)
    with pytest.raises(SinkError, match="has no allow_msg_ttl"):
        make_sink(url, tiny.name, {"data": TEXT, "ttl": TEXT}, subject=tiny.name)
    tiny.update(sealed=True)
    with pytest.raises(SinkError, match=f"stream {tiny.name} is sealed"):
        make_sink(url, tiny.name, subject=tiny.name)
    with pytest.raises(SinkError, match=f"stream {tiny.name} is sealed"):
        make_sink(url, name, deadLetterSubject=tiny.name)
    mirror = js.create_stream(f"{name}mirror", mirror={"name": name})
    with pytest.raises(SinkError, match="takes no messages of its own"):
        make_sink(url, mirror.name)
    js.delete_stream(tiny.name)
    js.delete_stream(mirror.name)


# Transport.


@pytest.mark.long
def test_a_server_that_comes_back_gets_the_rest_and_one_that_does_not_fails_the_row_by_name(
    server: ServerProcess, url: str
) -> None:
    (port,) = free_ports(1)
    fixed = ServerProcess(server._command, arguments=["-p", str(port)]).start()
    address = f"nats://127.0.0.1:{port}"
    try:
        with connect(address) as client:
            client.jetstream().create_stream("BACK", subjects=["BACK.>"], duplicate_window=WINDOW_S)
        sink = make_sink(address, "BACK", numRetries=2)

        def rows(*, comes_back: bool) -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(batches(NUMBERS)):
                if number == 4:
                    fixed.kill()
                    if comes_back:
                        fixed.start()
                yield batch

        done = sink.write(PLACE, rows(comes_back=True))
        with connect(address) as client:
            assert stored(client.jetstream().stream("BACK")) == Counter(NUMBERS)
        assert done.rows == 100
        with pytest.raises(SinkError, match=r"row \d+ of batch 6, partition 0.*could not be stored.*2 retries"):
            sink.write(Place("query", 6, 0), rows(comes_back=False))
    finally:
        if fixed.running:
            fixed.stop()
        fixed.discard()


@pytest.mark.long
def test_a_task_whose_rows_are_stored_does_not_fail_because_that_cannot_be_noted(server: ServerProcess) -> None:
    own = ServerProcess(server._command).start()
    try:
        address = f"nats://127.0.0.1:{own.port}"
        with connect(address) as client:
            client.jetstream().create_stream("AWAY", subjects=["AWAY.>"])
        sink = make_sink(address, "AWAY")

        def nothing_left_to_send() -> Iterator[pa.RecordBatch]:
            own.kill()
            yield from ()

        assert sink.write(PLACE, nothing_left_to_send()).rows == 0
    finally:
        own.discard()


def test_a_batch_is_committed_although_the_server_goes_away_before_it_says_so(url: str, target: Stream) -> None:
    with CuttingProxy(url, b'{"batch":') as proxy:
        sink = make_sink(proxy.url, target.name)
        done = sink.write(PLACE, batches(NUMBERS))

        sink.commit([done], PLACE.batch, is_for_good=True)

    assert proxy.was_cut
    drop_all()
    with connect(url) as client:
        ledger = Ledger(client.jetstream(), sink.options["ledger"], target.name)
        committed = ledger.committed(PLACE.write)
        assert committed is not None
        assert (committed.batch, committed.rows) == (PLACE.batch, 100)


@pytest.mark.long
def test_a_domain_has_the_rows_and_the_ledger(server: ServerProcess) -> None:
    with server_process(server._command, config_text="jetstream { domain: hub }") as own:
        address = f"nats://127.0.0.1:{own.port}"
        with connect(address) as client:
            js = client.jetstream(domain="hub")
            stream = js.create_stream("FAR", subjects=["FAR.>"])
            given = sink_options({"servers": address, "subject": "FAR.rows", "domain": "hub", "numRetries": "0"})
            plan = plan_rows(t.StructType([t.StructField("data", TEXT)]), given["subject"], given["msgId"])
            sink = Sink(given, plan, check_target(js, given, plan))
            done = sink.write(PLACE, batches(NUMBERS))
            sink.commit([done], PLACE.batch, is_for_good=True)
            assert stored(stream) == Counter(NUMBERS)
        drop_all()


@pytest.mark.long
def test_a_user_who_cannot_be_asked_whether_he_is_there_is_told_what_is_missing(server: ServerProcess) -> None:
    users = (
        'accounts { A { jetstream: enabled, users: [{ user: a, password: p, permissions: { publish: { deny: "_INBOX.>" '
        "} } }] } }"
    )
    with server_process(server._command, config_text=users) as own:
        address = f"nats://127.0.0.1:{own.port}"
        with connect(address, user="a", password="p") as client:
            js = client.jetstream()
            js.create_stream("T", subjects=["T.>"])
            raw = {"servers": address, "subject": "T.rows", "user": "a", "password": "p"}
            given = sink_options({**raw, "numRetries": "0", "requestTimeoutMs": "500"})
            plan = plan_rows(t.StructType([t.StructField("data", TEXT)]), given["subject"], given["msgId"])
            sink = Sink(given, plan, check_target(js, given, plan))
            with pytest.raises(SinkError, match=r"allowed to publish and subscribe to _INBOX\.>"):
                sink.write(PLACE, batches(NUMBERS))
