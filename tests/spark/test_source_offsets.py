"""Offsets of a streaming read: they replay, they notice what happened to the stream, and they respect limits.

The reader is driven as Spark drives it, without Spark; both servers.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable

import msgspec
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from jetspark.client.errors import BadOptionError
from jetspark.client.sync import JetStream, Stream
from jetspark.spark.data_loss import DataLossError
from jetspark.testing.processes import ServerProcess
from tests.spark.conftest import fill
from tests.spark.readers import Query, read_batch, sequences, wait_until

pytestmark = pytest.mark.long


def test_a_query_reads_what_is_there_and_then_what_comes(url: str, stream: Stream) -> None:
    fill(stream, 10)
    query = Query(url, stream.name, startingOffsets="earliest")

    assert sequences(query.batch()) == list(range(1, 11))
    fill(stream, 5)
    assert sequences(query.batch()) == list(range(11, 16))


def test_an_idle_query_gives_its_start_back_and_asks_the_server_rarely(url: str, stream: Stream, js: JetStream) -> None:
    fill(stream, 3)
    query = Query(url, stream.name, startingOffsets="earliest")
    query.batch()
    before, began_s = js.account_info().api["total"], time.monotonic()

    for _ in range(8):
        start, end = query.plan()
        query.reader.reportLatestOffset()
        assert end == start

    calls = js.account_info().api["total"] - before
    assert calls / (time.monotonic() - began_s) <= 10


def test_an_idle_query_of_many_streams_asks_no_more_often(url: str, js: JetStream, stream: Stream) -> None:
    names = [f"{stream.name}x{number}" for number in range(4)]
    for name in names:
        js.create_stream(name, subjects=[f"{name}.>"])
    query = Query(url, ",".join(names), startingOffsets="earliest")
    query.batch()
    before, began_s = js.account_info().api["total"], time.monotonic()

    for _ in range(4):
        query.plan()

    calls = js.account_info().api["total"] - before
    assert calls / (time.monotonic() - began_s) <= 10
    for name in names:
        js.delete_stream(name)


def received_count(server: ServerProcess) -> int:
    """Requests of every kind: looking at one message is none of those the server counts as API calls."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.monitor_port}/varz") as answer:
        return int(msgspec.json.decode(answer.read())["in_msgs"])


def test_a_query_that_waits_for_more_messages_asks_no_more_often(
    server: ServerProcess, url: str, js: JetStream, stream: Stream
) -> None:
    names = [f"{stream.name}x{number}" for number in range(2)]
    made = [js.create_stream(name, subjects=[f"{name}.>"]) for name in names]
    query = Query(url, ",".join(names), startingOffsets="earliest", minOffsetsPerTrigger="100", pollIntervalMs="0")
    for _ in range(2):
        # The first batch waits for nobody.
        for one in made:
            fill(one, 3)
        query.batch()
    before, began_s = received_count(server), time.monotonic()

    for _ in range(8):
        start, end = query.plan()
        assert end == start
        report = query.report()
        assert [report["streams"][name]["behindMessages"] for name in names] == [3, 3]
        assert report["streams"][names[0]]["behindSeconds"] > 0

    calls = received_count(server) - before
    assert calls / (time.monotonic() - began_s) <= 10
    for name in names:
        js.delete_stream(name)


@pytest.mark.parametrize("start", ["latest", "timestamp"])
def test_the_first_batch_is_the_same_when_it_is_repeated_by_a_new_process(url: str, stream: Stream, start: str) -> None:
    fill(stream, 5)
    given = {"startingOffsets": "latest"}
    if start == "timestamp":
        given = {"startingTimestamp": str(stream.get_msg(3).timestamp_ns // 1_000_000 + 3_600_000)}
        given["startingOffsetsByTimestampStrategy"] = "latest"
    query = Query(url, stream.name, **given)
    query.reader.initialOffset()
    fill(stream, 4)
    _, end = query.plan()
    assert sequences(query.read(query.position, end)) == [6, 7, 8, 9]

    fill(stream, 7)
    again = Query(url, stream.name, **given)
    recomputed = again.reader.initialOffset()

    assert recomputed["streams"][stream.name]["seq"] == 16
    assert sequences(again.read(recomputed, end)) == [6, 7, 8, 9]
    again.start = end
    assert sequences(again.batch()) == list(range(10, 17))


def test_the_start_is_settled_by_the_first_batch_even_when_nothing_is_there(url: str, stream: Stream) -> None:
    fill(stream, 5)
    query = Query(url, stream.name)
    start, end = query.plan()
    assert query.read(start, end) == []
    assert end["streams"][stream.name]["from"] == 5
    fill(stream, 2)

    after_restart = Query(url, stream.name)
    after_restart.start = end

    assert sequences(after_restart.batch()) == [6, 7]


def clock_is_past(time_ms: int) -> Callable[[], bool]:
    return lambda: time.time_ns() // 1_000_000 > time_ms


def test_a_query_starts_and_ends_at_times(url: str, stream: Stream) -> None:
    for _ in range(6):
        fill(stream, 1)
        stored_ms = stream.info().state.last_ts.unix_ns // 1_000_000
        wait_until(clock_is_past(stored_ms + 1))
    times_ms = [stream.get_msg(number).timestamp_ns / 1e6 for number in range(1, 7)]
    third = -(-stream.get_msg(3).timestamp_ns // 1_000_000)
    expected = [number for number in range(1, 7) if times_ms[number - 1] >= third]

    assert sequences(Query(url, stream.name, startingTimestamp=str(third)).batch()) == expected
    assert sequences(read_batch(url, stream.name, startingTimestamp=str(third))) == expected
    before = sequences(read_batch(url, stream.name, endingTimestamp=str(third)))
    assert before == [number for number in range(1, 7) if number not in expected]


def test_a_time_younger_than_every_message_is_an_error_that_says_what_to_do(url: str, stream: Stream) -> None:
    fill(stream, 2)

    with pytest.raises(BadOptionError, match="startingOffsetsByTimestampStrategy to latest"):
        Query(url, stream.name, startingTimestamp="2100-01-01T00:00:00Z").plan()


def test_a_query_starts_at_a_sequence_and_a_batch_ends_at_one(url: str, stream: Stream) -> None:
    fill(stream, 10)
    name = stream.name

    assert sequences(Query(url, name, startingOffsets=f'{{"{name}": 8}}').batch()) == [8, 9, 10]
    rows = read_batch(url, name, startingOffsets=f'{{"{name}": 3}}', endingOffsets=f'{{"{name}": 5}}')
    assert sequences(rows) == [3, 4, 5]
    with pytest.raises(BadOptionError, match="ends at sequence 10, before 99"):
        Query(url, name, startingOffsets=f'{{"{name}": 99}}').plan()


def test_a_stream_that_is_not_there_is_named_with_the_nearest_that_is(url: str, stream: Stream) -> None:
    with pytest.raises(BadOptionError, match=f"no stream {stream.name}x; did you mean {stream.name}"):
        Query(url, stream.name + "x").plan()


# What happened to the stream.


def test_a_stream_deleted_and_made_again_is_noticed(url: str, stream: Stream, js: JetStream) -> None:
    fill(stream, 10)
    query = Query(url, stream.name, startingOffsets="earliest")
    query.batch()
    js.delete_stream(stream.name)
    js.create_stream(stream.name, subjects=[f"{stream.name}.>"])
    fill(stream, 20)

    with pytest.raises(DataLossError, match=f"stream {stream.name} was created .* and is now one created"):
        query.batch()

    lenient = Query(url, stream.name, failOnDataLoss="false")
    lenient.start = query.start
    assert sequences(lenient.batch()) == list(range(1, 21))
    fill(stream, 1)
    assert sequences(lenient.batch()) == [21]


def test_a_stream_that_is_gone_ends_the_query_or_is_left_out(
    url: str, stream: Stream, js: JetStream, caplog: pytest.LogCaptureFixture
) -> None:
    gone = js.create_stream(f"{stream.name}gone", subjects=[f"{stream.name}gone.>"])
    fill(gone, 4)
    fill(stream, 2)
    query = Query(url, f"{stream.name},{gone.name}", "stream sequence", startingOffsets="earliest")
    begun, planned = query.plan()
    query.batch()
    js.delete_stream(gone.name)
    fill(stream, 1)

    with pytest.raises(DataLossError, match=f"stream {gone.name} is gone"):
        query.batch()
    with pytest.raises(DataLossError, match=f"stream {gone.name} is gone"):
        query.read(begun, planned)

    lenient = Query(url, f"{stream.name},{gone.name}", "stream sequence", failOnDataLoss="false")
    lenient.start = query.start
    assert [(row["stream"], row["sequence"]) for row in lenient.batch()] == [(stream.name, 3)]
    assert lenient.batch() == lenient.batch() == []
    assert [record.message for record in caplog.records if "is gone" in record.message] == [
        f"stream {gone.name} is gone; going on without them (failOnDataLoss is false)"
    ]
    fill(js.create_stream(gone.name, subjects=[f"{gone.name}.>"]), 2)
    assert [(row["stream"], row["sequence"]) for row in lenient.batch()] == [(gone.name, 1), (gone.name, 2)]
    js.delete_stream(gone.name)


def test_a_stream_that_ends_before_what_was_read_says_so(url: str, stream: Stream) -> None:
    fill(stream, 3)
    query = Query(url, stream.name, startingOffsets="earliest")
    query.batch()
    query.position["streams"][stream.name]["seq"] = 10

    with pytest.raises(
        DataLossError, match=f"stream {stream.name} ends at sequence 3, but the query has read up to 10"
    ):
        query.batch()


def test_messages_gone_before_a_batch_are_counted_and_fail_it_or_not(url: str, stream: Stream) -> None:
    fill(stream, 10)
    query = Query(url, stream.name, startingOffsets="earliest")
    query.batch()
    fill(stream, 10)
    stream.purge(seq=16)

    with pytest.raises(DataLossError, match=f"5 messages of stream {stream.name} are gone .* sequences 11 to 15"):
        query.batch()

    lenient = Query(url, stream.name, failOnDataLoss="false")
    lenient.start = query.start
    assert sequences(lenient.batch()) == [16, 17, 18, 19, 20]


@pytest.mark.parametrize("mode", ["consumer", "direct"])
def test_messages_gone_between_planning_and_reading_are_counted(url: str, stream: Stream, mode: str) -> None:
    fill(stream, 10)
    query = Query(url, stream.name, startingOffsets="earliest", readMode=mode)
    start, end = query.plan()
    partitions = query.reader.partitions(start, end)
    stream.purge(seq=4)

    with pytest.raises(DataLossError, match=r"3 messages .* are gone since the batch was planned"):
        [list(query.reader.read(partition)) for partition in partitions]


def test_everything_purged_between_planning_and_reading_is_noticed(url: str, stream: Stream) -> None:
    fill(stream, 10)
    query = Query(url, stream.name, startingOffsets="earliest", subjects=f"{stream.name}.a")
    start, end = query.plan()
    partitions = query.reader.partitions(start, end)
    stream.purge()

    with pytest.raises(DataLossError, match="10 messages"):
        [list(query.reader.read(partition)) for partition in partitions]


def test_a_range_with_deleted_messages_reads_the_same_every_time(url: str, stream: Stream) -> None:
    fill(stream, 30)
    for number in (1, 2, 3, 10, 11, 20, 29, 30):
        stream.delete_msg(number)
    fill(stream, 1)
    expected = [number for number in range(4, 32) if number not in (10, 11, 20, 29, 30)]
    query = Query(url, stream.name, startingOffsets="earliest", minPartitions="4")
    start, end = query.plan()

    assert sequences(query.read(start, end)) == expected
    assert sequences(query.read(start, end)) == expected
    assert sequences(read_batch(url, stream.name, minPartitions="3")) == expected


def test_parts_that_are_known_to_be_deleted_are_not_asked_for_and_keep_their_number(url: str, stream: Stream) -> None:
    fill(stream, 40)
    for number in range(11, 21):
        stream.delete_msg(number)
    query = Query(url, stream.name, startingOffsets="earliest", minPartitions="4")
    start, end = query.plan()

    parts = query.parts(start, end)

    assert [(part.first, part.last) for part in parts] == [(1, 10), (21, 20), (21, 30), (31, 40)]
    assert [part.count for part in parts] == [10, 0, 10, 10]


def test_newer_messages_replacing_older_ones_are_no_loss(url: str, js: JetStream, stream: Stream) -> None:
    js.update_stream(stream.name, max_msgs_per_subject=1)
    fill(stream, 5, subject="other")
    js.publish(f"{stream.name}.a", b"one")
    query = Query(url, stream.name, startingOffsets="earliest")
    start, end = query.plan()
    partitions = query.reader.partitions(start, end)
    js.publish(f"{stream.name}.a", b"two")

    assert sequences(
        [row for part in partitions for batch in query.reader.read(part) for row in batch.to_pylist()]
    ) == [5]


@pytest.mark.parametrize("subjects", ["", "a"])
def test_a_stream_whose_every_message_was_replaced_lost_nothing(
    url: str, js: JetStream, stream: Stream, subjects: str
) -> None:
    js.update_stream(stream.name, max_msgs_per_subject=1)
    given = {"subjects": f"{stream.name}.{subjects}"} if subjects else {}

    def put() -> None:
        for subject in "ab":
            fill(stream, 1, subject=subject)

    put()
    query = Query(url, stream.name, startingOffsets="earliest", **given)
    query.batch()
    put()
    put()
    assert sequences(query.batch()) == ([5] if subjects else [5, 6])
    put()
    start, end = query.plan()
    partitions = query.reader.partitions(start, end)
    put()
    assert [batch for part in partitions for batch in query.reader.read(part)] == []
    query.start = end
    assert sequences(query.batch()) == ([9] if subjects else [9, 10])
    put()
    stream.purge()
    with pytest.raises(DataLossError, match=r"2 messages .* are gone"):
        query.batch()


def test_a_stream_that_also_removes_by_age_or_number_may_lose_messages(url: str, js: JetStream, stream: Stream) -> None:
    js.update_stream(stream.name, max_msgs_per_subject=2, max_msgs=3)
    query = Query(url, stream.name, startingOffsets="earliest")
    query.batch()
    for subject in "abcdef":
        fill(stream, 1, subject=subject)

    with pytest.raises(DataLossError, match=r"3 messages .* sequences 1 to 3"):
        query.batch()


def test_a_batch_is_cut_as_it_was_before_although_options_changed(url: str, stream: Stream) -> None:
    fill(stream, 40)
    query = Query(url, stream.name, startingOffsets="earliest", minPartitions="4")
    start, end = query.plan()
    cuts = [(part.first, part.last) for part in query.parts(start, end)]

    changed = Query(url, stream.name, startingOffsets="earliest", minPartitions="7")

    assert len(cuts) == 4
    assert [(part.first, part.last) for part in changed.parts(start, end)] == cuts


# Several streams.


def test_several_streams_are_one_query_and_one_may_join_later(
    url: str, stream: Stream, js: JetStream, caplog: pytest.LogCaptureFixture
) -> None:
    other = js.create_stream(f"{stream.name}b", subjects=[f"{stream.name}b.>"])
    fill(stream, 3)
    fill(other, 2)
    alone = Query(url, stream.name, startingOffsets="earliest")
    alone.batch()

    both = Query(url, f"{stream.name},{other.name}", "stream sequence")
    both.start = alone.start

    assert [(row["stream"], row["sequence"]) for row in both.batch()] == [(other.name, 1), (other.name, 2)]
    fill(stream, 1)
    fill(other, 1)
    assert [(row["stream"], row["sequence"]) for row in both.batch()] == [(stream.name, 4), (other.name, 3)]
    alone.start = both.start
    with pytest.raises(DataLossError, match=f"{other.name}, which option stream does not name"):
        alone.plan()
    lenient = Query(url, stream.name, failOnDataLoss="false")
    lenient.start = both.start
    assert lenient.batch() == lenient.batch() == []
    assert len([one for one in caplog.records if "does not name" in one.message]) == 1
    js.delete_stream(other.name)


# Limits.


def test_a_batch_takes_no_more_than_its_limit_and_streams_share_it(url: str, stream: Stream, js: JetStream) -> None:
    other = js.create_stream(f"{stream.name}b", subjects=[f"{stream.name}b.>"])
    fill(stream, 30)
    fill(other, 10)
    query = Query(url, f"{stream.name},{other.name}", "stream sequence", startingOffsets="earliest",
                  maxOffsetsPerTrigger="20")  # fmt: skip

    sizes = [len(query.batch()) for _ in range(3)]

    assert sizes == [20, 20, 0]
    js.delete_stream(other.name)


def test_bytes_limit_a_batch_about(url: str, stream: Stream) -> None:
    fill(stream, 100, text="x" * 1000 + "{}")
    query = Query(url, stream.name, startingOffsets="earliest", maxBytesPerTrigger="10k")

    assert 5 <= len(query.batch()) <= 12


def test_a_batch_waits_for_enough_but_not_for_ever(url: str, stream: Stream) -> None:
    fill(stream, 1)
    query = Query(url, stream.name, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    hasty = Query(url, stream.name, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="0s")
    assert sequences(query.batch()) == sequences(hasty.batch()) == [1]

    fill(stream, 4)
    assert query.batch() == []
    assert sequences(hasty.batch()) == [2, 3, 4, 5]
    fill(stream, 1)
    assert sequences(query.batch()) == [2, 3, 4, 5, 6]


def test_once_takes_everything_whatever_the_limits(url: str, stream: Stream) -> None:
    fill(stream, 20)
    query = Query(url, stream.name, startingOffsets="earliest", maxOffsetsPerTrigger="3")

    assert len(query.batch(ReadAllAvailable())) == 20


def test_available_now_ends_with_what_was_there(url: str, stream: Stream) -> None:
    fill(stream, 10)
    query = Query(url, stream.name, startingOffsets="earliest", maxOffsetsPerTrigger="4", minOffsetsPerTrigger="3")
    query.reader.prepareForTriggerAvailableNow()
    fill(stream, 10)

    assert [len(query.batch()) for _ in range(4)] == [4, 4, 2, 0]


@pytest.mark.parametrize("start", ["latest", "earliest"])
def test_available_now_begins_within_what_was_there(url: str, stream: Stream, start: str) -> None:
    fill(stream, 10)
    query = Query(url, stream.name, startingOffsets=start)
    query.reader.prepareForTriggerAvailableNow()
    fill(stream, 3)

    assert sequences(query.batch()) == ([] if start == "latest" else list(range(1, 11)))
    assert query.batch() == []
    next_run = Query(url, stream.name, startingOffsets=start)
    next_run.start = query.start
    next_run.reader.prepareForTriggerAvailableNow()
    assert sequences(next_run.batch()) == [11, 12, 13]


def test_lag_is_reported_in_messages_and_seconds(url: str, stream: Stream) -> None:
    fill(stream, 10)
    query = Query(url, stream.name, startingOffsets="earliest", maxOffsetsPerTrigger="4")

    query.plan()
    behind = query.report()["streams"][stream.name]
    query.everything()
    caught_up = query.report()["streams"][stream.name]

    assert (behind["seq"], behind["behindMessages"]) == (10, 6)
    assert behind["behindSeconds"] > 0
    assert (caught_up["behindMessages"], caught_up["behindSeconds"]) == (0, 0.0)
