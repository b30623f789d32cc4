"""A durable consumer mirrors what Spark has committed: for monitoring, for interest streams, and for work queues."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from jetspark.client.errors import BadOptionError
from jetspark.client.sync import JetStream, Stream
from jetspark.errors import JetsparkError
from tests.spark.conftest import fill
from tests.spark.readers import Query, read_batch, sequences

DURABLE = "spark-progress"


@pytest.fixture(params=["limits", "interest", "workqueue"])
def kept(request: pytest.FixtureRequest, js: JetStream, stream: Stream) -> Iterator[Stream]:
    """A stream of each retention; an interest stream has another consumer, who wants everything."""
    name = f"{stream.name}k"
    made = js.create_stream(name, subjects=[f"{name}.>"], retention=request.param, allow_direct=True)
    if request.param == "interest":
        made.create_consumer("another")
    fill(made, 100)
    yield made
    js.delete_stream(name)


def query_of(url: str, stream: Stream, **given: str) -> Query:
    if stream.info().config.retention == "workqueue":
        given = {"workQueue": "true", **given}
    return Query(url, stream.name, startingOffsets="earliest", durable=DURABLE, **given)


def up_to(end: dict[str, Any], stream: Stream, sequence: int) -> dict[str, Any]:
    changed = copy.deepcopy(end)
    changed["streams"][stream.name]["seq"] = sequence
    return changed


@pytest.mark.long
def test_the_durable_stands_where_spark_has_committed_and_never_ahead(url: str, kept: Stream) -> None:
    query = query_of(url, kept)
    start, end = query.plan()
    assert sequences(query.read(start, end)) == list(range(1, 101))
    assert kept.consumer(DURABLE).info().num_pending == 100

    query.reader.commit(up_to(end, kept, 40))
    halfway = kept.consumer(DURABLE).info()
    query.reader.commit(end)
    done = kept.consumer(DURABLE).info()

    assert (halfway.ack_floor.stream_seq, halfway.num_pending, halfway.num_ack_pending) == (40, 60, 0)
    assert (done.ack_floor.stream_seq, done.num_pending) == (100, 0)


@pytest.mark.long
def test_a_batch_can_be_repeated_until_it_is_committed(url: str, kept: Stream) -> None:
    query = query_of(url, kept, maxOffsetsPerTrigger="60")
    start, end = query.plan()
    query.read(start, end)

    after_crash = query_of(url, kept)

    assert sequences(after_crash.read(start, end)) == list(range(1, 61))
    after_crash.reader.commit(end)
    after_crash.start = end
    assert sequences(after_crash.everything()) == list(range(61, 101))


@pytest.mark.long
def test_a_commit_that_was_missed_is_made_good_by_the_next(url: str, kept: Stream) -> None:
    query = query_of(url, kept)
    query.batch()
    fill(kept, 10)
    query.batch()

    query.reader.commit(query.position)

    assert kept.consumer(DURABLE).info().ack_floor.stream_seq == 110


@pytest.mark.long
def test_a_work_queue_forgets_what_was_committed_and_nothing_else(url: str, js: JetStream, stream: Stream) -> None:
    name = f"{stream.name}w"
    queue = js.create_stream(name, subjects=[f"{name}.>"], retention="workqueue", allow_direct=True)
    fill(queue, 20)
    queue.delete_msg(5)
    query = query_of(url, queue)
    _, end = query.plan()

    query.reader.commit(up_to(end, queue, 10))

    state = queue.info().state
    assert (state.first_seq, state.messages) == (11, 10)
    assert sequences(query_of(url, queue).everything()) == list(range(11, 21))
    js.delete_stream(name)


def test_what_cannot_be_promised_of_a_work_queue_is_refused(url: str, js: JetStream, stream: Stream) -> None:
    name = f"{stream.name}w"
    queue = js.create_stream(name, subjects=[f"{name}.>"], retention="workqueue", allow_direct=True)
    fill(queue, 3)

    with pytest.raises(BadOptionError, match=r"is a work queue, .* set options workQueue and durable .* readMode"):
        Query(url, name, startingOffsets="earliest").plan()
    with pytest.raises(BadOptionError, match=r"a batch cannot ack what it read"):
        read_batch(url, name)
    with pytest.raises(BadOptionError, match=r"from its beginning.*startingOffsets to earliest"):
        Query(url, name, durable=DURABLE, workQueue="true").plan()
    with pytest.raises(BadOptionError, match=r"is no work queue"):
        Query(url, stream.name, startingOffsets="earliest", durable=DURABLE, workQueue="true").plan()

    with pytest.raises(BadOptionError, match=r"option durable: .* forgets what a durable acks; set option workQueue"):
        Query(url, name, startingOffsets="earliest", durable=DURABLE, readMode="direct").plan()
    assert queue.consumer_names() == []

    assert sequences(read_batch(url, name, readMode="direct")) == [1, 2, 3]
    assert queue.info().state.messages == 3
    js.update_stream(name, allow_direct=False)
    with pytest.raises(BadOptionError, match=r"does not allow direct gets"):
        read_batch(url, name, readMode="direct")
    js.delete_stream(name)


@pytest.mark.long
def test_a_work_queue_that_somebody_else_consumes_is_refused_by_the_server(
    url: str, js: JetStream, stream: Stream
) -> None:
    name = f"{stream.name}w"
    js.create_stream(name, subjects=[f"{name}.>"], retention="workqueue", allow_direct=True).create_consumer("taken")

    with pytest.raises(JetsparkError, match=r"work ?queue"):
        query_of(url, js.stream(name)).plan()
    js.delete_stream(name)


def test_a_consumer_of_that_name_with_other_ways_is_refused(url: str, stream: Stream) -> None:
    stream.create_consumer(DURABLE, ack_policy="none")

    with pytest.raises(BadOptionError, match=r"option durable: .* choose another name"):
        query_of(url, stream).plan()


@pytest.mark.long
def test_a_durable_for_other_subjects_is_refused_because_it_would_not_ack_what_is_read(url: str, kept: Stream) -> None:
    query_of(url, kept, subjects=f"{kept.name}.a,{kept.name}.b").plan()
    query_of(url, kept, subjects=f"{kept.name}.b,{kept.name}.a").plan()

    with pytest.raises(BadOptionError, match=r"option durable: .* for other subjects \(.*\.a, .*\.b\) than option"):
        query_of(url, kept).plan()


@pytest.mark.long
def test_the_beginning_of_a_work_queue_may_be_said_in_json(url: str, js: JetStream, stream: Stream) -> None:
    name = f"{stream.name}w"
    fill(js.create_stream(name, subjects=[f"{name}.>"], retention="workqueue", allow_direct=True), 3)

    query = Query(url, name, startingOffsets=f'{{"{name}": "earliest"}}', durable=DURABLE, workQueue="true")

    assert sequences(query.batch()) == [1, 2, 3]
    js.delete_stream(name)


@pytest.mark.long
def test_the_durable_of_a_filtered_query_counts_what_the_query_reads(url: str, stream: Stream) -> None:
    for subject in ("a", "b") * 10:
        fill(stream, 1, subject=subject)
    query = query_of(url, stream, subjects=f"{stream.name}.b")
    _, end = query.plan()
    assert stream.consumer(DURABLE).info().num_pending == 10

    query.reader.commit(up_to(end, stream, 10))

    assert stream.consumer(DURABLE).info().num_pending == 5


@pytest.mark.long
def test_a_durable_that_cannot_be_moved_does_not_stop_the_query(url: str, stream: Stream) -> None:
    fill(stream, 5)
    query = query_of(url, stream)
    query.batch()
    stream.delete_consumer(DURABLE)

    query.reader.commit(query.position)
    fill(stream, 5)

    assert len(query.batch()) == 5
    assert stream.consumer(DURABLE).info().num_pending == 5
