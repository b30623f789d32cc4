"""A batch that is run again: by a driver that was started anew, on another cluster, or beside one that still runs.

What differs from a retry is that Spark may have cut the batch into other partitions, and that the ledger may not be
the one the batch was begun with.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from jetspark.client.errors import BadOptionError
from jetspark.client.sync import JetStream, Stream
from jetspark.spark.sink_connection import SinkError
from jetspark.spark.sink_ids import Place, Run
from jetspark.spark.sink_ledger import Ledger
from tests.spark.sinking import NUMBERS, TEXT, Stopped, batches, break_off, make_sink, outlive_window, stored

OLD = Run("old", keeps_partitions=False)
NEW = Run("new", keeps_partitions=False)
NAMED: dict[str, t.DataType] = {"data": TEXT, "msg_id": TEXT}


def part(number: int) -> Place:
    return Place("query", 0, number)


def named(rows: list[str]) -> list[dict[str, str]]:
    return [{"data": row, "msg_id": f"id-{row}"} for row in rows]


def test_rows_that_moved_to_another_partition_are_refused_before_anything_is_sent(
    url: str, js: JetStream, target: Stream
) -> None:
    sink = make_sink(url, target.name)
    break_off(sink, part(0), 20, NUMBERS[:50], OLD)
    break_off(sink, part(1), 20, NUMBERS[50:], OLD)
    outlive_window(js, target)
    # Now there is one partition less: what is left of the first is among its rows, and so is all of the second.
    with pytest.raises(SinkError, match="20 rows are stored as rows of other partitions"):
        sink.write(part(0), batches(NUMBERS), NEW)
    # And one more, which nobody had claimed before.
    with pytest.raises(SinkError, match="10 rows are stored as rows of other partitions"):
        sink.write(part(2), batches(NUMBERS[60:90]), NEW)
    assert stored(target) == Counter([*NUMBERS[:20], *NUMBERS[50:70]])


@pytest.mark.long
def test_rows_with_ids_of_their_own_are_stored_once_in_whatever_partition_they_come(
    url: str, js: JetStream, target: Stream
) -> None:
    sink = make_sink(url, target.name, NAMED)
    sink.write(part(0), batches(named(NUMBERS[:30])), OLD)
    break_off(sink, part(1), 20, named(NUMBERS[30:]), OLD)
    outlive_window(js, target)
    # The first came to its end in the old run, with other rows: this one fails half-way, too.
    with pytest.raises(SinkError, match=r"row 30 .* no message id"):
        sink.write(part(0), batches([*named(NUMBERS[10:40]), {"data": "bad", "msg_id": ""}]), NEW)
    outlive_window(js, target)
    for number, rows in enumerate([NUMBERS[10:40], NUMBERS[40:], NUMBERS[:10]]):
        sink.write(part(number), batches(named(rows)), Run("third"))
    assert stored(target) == Counter(NUMBERS)


@pytest.mark.parametrize("columns", [{"data": TEXT}, NAMED])
def test_what_another_run_has_finished_is_not_sent_again_even_when_it_is_gone(
    columns: dict[str, t.DataType], url: str, js: JetStream, target: Stream
) -> None:
    sink = make_sink(url, target.name, columns)
    rows: list[Any] = named(NUMBERS) if "msg_id" in columns else list(NUMBERS)
    first = sink.write(part(0), batches(rows), OLD)
    outlive_window(js, target)
    target.purge(subject=f"{target.name}.rows")
    assert sink.write(part(0), batches(rows[::-1]), NEW) == first
    assert stored(target) == Counter()


@pytest.mark.long
@pytest.mark.parametrize("later", [OLD, NEW])
@pytest.mark.parametrize("columns", [{"data": TEXT}, NAMED])
def test_rows_that_ended_early_are_no_end_of_the_task(
    columns: dict[str, t.DataType], later: Run, url: str, js: JetStream, target: Stream
) -> None:
    sink = make_sink(url, target.name, columns)
    rows: list[Any] = named(NUMBERS) if "msg_id" in columns else list(NUMBERS)
    # What comes before the sink failed, or the query was stopped: Spark ends the rows here as if there were no more.
    sink.write(part(0), batches(rows[:30]), OLD)
    outlive_window(js, target)
    sink.write(part(0), batches(rows[:70]), later)
    outlive_window(js, target)
    done = sink.write(part(0), batches(rows), later)
    assert (done.rows, done.found, done.stored) == (100, 70, 30)
    sink.commit([done], 0, is_for_good=True)
    assert stored(target) == Counter(NUMBERS)


def test_a_task_with_fewer_rows_than_are_stored_is_refused(url: str, target: Stream) -> None:
    sink = make_sink(url, target.name)
    sink.write(part(0), batches(NUMBERS[:50]), OLD)
    with pytest.raises(SinkError, match=r"10 rows stored by an earlier attempt are not among the 40 rows.*msg_id"):
        sink.write(part(0), batches(NUMBERS[:40]), NEW)
    assert stored(target) == Counter(NUMBERS[:50])


@pytest.mark.parametrize("keeps_partitions", [False, True])
def test_partitions_that_swapped_their_rows_are_refused_before_anything_is_sent(
    keeps_partitions: bool, url: str, js: JetStream, target: Stream
) -> None:
    old, new = (Run(name, keeps_partitions=keeps_partitions) for name in ("old", "new"))
    even, odd = NUMBERS[::2], NUMBERS[1::2]
    sink = make_sink(url, target.name)
    sink.write(part(0), batches(even), old)
    outlive_window(js, target)
    with pytest.raises(SinkError, match="50 rows stored by an earlier attempt are not among the 50 rows"):
        sink.write(part(0), batches(odd), new)
    with pytest.raises(SinkError, match="50 rows are stored as rows of other partitions"):
        sink.write(part(1), batches(even), new)
    assert stored(target) == Counter(even)


def test_a_transformation_that_was_changed_after_an_interruption_is_refused(
    url: str, js: JetStream, target: Stream
) -> None:
    sink = make_sink(url, target.name)
    sink.write(part(0), batches(NUMBERS), OLD)
    outlive_window(js, target)
    with pytest.raises(SinkError, match="100 rows stored by an earlier attempt are not among the 100 rows"):
        sink.write(part(0), batches([f"corrected {one}" for one in NUMBERS]), NEW)
    assert stored(target) == Counter(NUMBERS)


def test_equal_rows_of_several_partitions_are_told_apart(url: str, js: JetStream, target: Stream) -> None:
    sink = make_sink(url, target.name)
    same = ["tick"] * 40
    break_off(sink, part(0), 20, same, Run("old"))
    break_off(sink, part(1), 10, same, Run("old"))
    outlive_window(js, target)
    for number in (0, 1):
        sink.write(part(number), batches(same), NEW)
    assert stored(target) == Counter({"tick": 80})


def test_equal_rows_of_a_partition_that_is_no_more_keep_the_batch_from_being_committed(
    url: str, js: JetStream, target: Stream
) -> None:
    sink = make_sink(url, target.name)
    for number in (0, 1, 2):
        break_off(sink, part(number), 20, ["tick"] * 40, OLD)
    outlive_window(js, target)
    # Each of the two has at least as many as were stored for it; what was stored for the third is too much.
    done = [sink.write(part(number), batches(["tick"] * 60), NEW) for number in (0, 1)]
    with pytest.raises(SinkError, match=r"has 2 partitions, and 20 rows were stored by an earlier run"):
        sink.commit(done, 0, is_for_good=True)
    with pytest.raises(SinkError, match="20 rows were stored by an earlier run"):
        sink.commit(done, 0, is_for_good=True)
    assert Ledger(js, "jetspark_sink", target.name).committed("query") is None


@pytest.mark.long
def test_a_task_of_another_run_that_still_sends_is_waited_for_whatever_its_partition(
    url: str, js: JetStream, target: Stream
) -> None:
    sink = make_sink(url, target.name, NAMED, maxInFlight=4)
    started, release = threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        for batch in batches(named(NUMBERS[50:])):
            yield batch
            started.set()
            release.wait(20)
            outlive_window(js, target)

    old = threading.Thread(target=lambda: sink.write(part(1), slow(), OLD))
    old.start()
    started.wait(20)
    threading.Timer(0.5, release.set).start()
    sink.write(part(0), batches(named(NUMBERS)), NEW)
    old.join(30)
    assert stored(target) == Counter(NUMBERS)


def test_a_query_whose_ledger_was_lost_is_refused_unless_told_otherwise(
    url: str, js: JetStream, target: Stream
) -> None:
    run = Run("run", is_query=True)
    bucket = f"ledger{target.name}"
    sink = make_sink(url, target.name, ledger=bucket)
    sink.commit([sink.write(part(0), batches(NUMBERS[:10]), run)], 0, is_for_good=True)
    js.delete_key_value(bucket)
    sink = make_sink(url, target.name, ledger=bucket)
    second = Place("query", 1, 0)
    with pytest.raises(SinkError, match=rf"bucket {bucket} \(option ledger\) does not know of batch 0 before it"):
        sink.write(second, batches(NUMBERS[10:20]), run)
    make_sink(url, target.name, ledger=bucket, failOnDataLoss="false").write(second, batches(NUMBERS[10:20]), run)
    assert stored(target) == Counter(NUMBERS[:20])
    js.delete_key_value(bucket)


def test_a_query_may_go_on_in_another_stream(url: str, js: JetStream, target: Stream) -> None:
    run = Run("run", is_query=True)
    sink = make_sink(url, target.name)
    sink.commit([sink.write(part(0), batches(NUMBERS[:10]), run)], 0, is_for_good=True)
    other = js.create_stream(f"{target.name}other", subjects=[f"{target.name}other.>"])
    make_sink(url, other.name).write(Place("query", 1, 0), batches(NUMBERS[10:20]), run)
    assert stored(other) == Counter(NUMBERS[10:20])
    js.delete_stream(other.name)


def test_a_late_commit_of_another_driver_is_refused_and_takes_nothing_back(
    url: str, js: JetStream, target: Stream
) -> None:
    sink = make_sink(url, target.name)
    fifth, sixth = (sink.write(Place("query", batch, 0), batches(NUMBERS)) for batch in (5, 6))
    sink.commit([fifth], 5, is_for_good=True)
    sink.commit([sixth], 6, is_for_good=True)
    with pytest.raises(SinkError, match=r"batch 6 of this query is already committed .* another driver"):
        sink.commit([fifth], 5, is_for_good=True)
    committed = Ledger(js, "jetspark_sink", target.name).committed("query")
    assert committed is not None
    assert committed.batch == 6


def test_a_write_name_that_was_used_for_other_rows_is_an_error_and_not_a_silence(url: str, target: Stream) -> None:
    sink = make_sink(url, target.name, writeId="daily")
    place = Place("daily", 0, 0)
    sink.commit([sink.write(place, batches(NUMBERS[:10]), OLD)], 0, is_for_good=True)
    sink.commit([sink.write(place, batches(NUMBERS[:10]), NEW)], 0, is_for_good=True)
    again = sink.write(place, batches(NUMBERS[:30]), Run("third"))
    with pytest.raises(SinkError, match=r"daily .* already committed .* with 10 rows, and this time it has 30"):
        sink.commit([again], 0, is_for_good=True)
    # The same number of other rows is no less an error.
    again = sink.write(place, batches(NUMBERS[10:20]), Run("fourth"))
    with pytest.raises(SinkError, match=r"with 10 rows, and this time it has the same number of other rows"):
        sink.commit([again], 0, is_for_good=True)
    # In whatever partitions they come: the same rows are the same rows.
    parts = [sink.write(Place("daily", 0, n), batches(NUMBERS[n:10:2]), Run("fifth")) for n in (0, 1)]
    sink.commit(parts, 0, is_for_good=True)
    assert stored(target) == Counter(NUMBERS[:10])


def test_a_ledger_that_forgets_is_refused_and_one_whose_records_were_deleted_still_works(
    url: str, js: JetStream, target: Stream
) -> None:
    bucket = f"short{target.name}"
    js.create_key_value(bucket, ttl=60)
    with pytest.raises(BadOptionError, match=f"option ledger: bucket {bucket} forgets after a while"):
        make_sink(url, target.name, ledger=bucket)
    js.delete_key_value(bucket)
    sink = make_sink(url, target.name, ledger=bucket)
    with pytest.raises(Stopped):
        sink.write(part(0), batches(NUMBERS, stop_after=0))
    records = js.key_value(bucket)
    known = records.keys()
    for key in list(known):
        records.delete(key)
    sink.write(part(0), batches(NUMBERS))
    assert stored(target) == Counter(NUMBERS)
    js.delete_key_value(bucket)
