"""Rows that cannot be stored for what is in them: what becomes of them, and that each is put aside once."""

from __future__ import annotations

import uuid
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from jetspark.client.sync import JetStream, Msg, Stream, connect
from jetspark.spark.sink_connection import SinkError
from jetspark.spark.sink_ids import Place
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

# A row is for a subject, or for none that could be.
COLUMNS: dict[str, t.DataType] = {"data": TEXT, "subject": TEXT}
NAMED: dict[str, t.DataType] = {"data": TEXT, "msg_id": TEXT}


@pytest.mark.long
def test_dead_letters_carry_the_row_and_the_reason_and_are_stored_once(url: str, js: JetStream, target: Stream) -> None:
    small = f"M{uuid.uuid4().hex[:12]}"
    main = js.create_stream(small, subjects=[f"{small}.>"], duplicate_window=WINDOW_S, max_msg_size=400)
    rows = [
        {"data": "good", "subject": f"{small}.a"},
        {"data": "lost", "subject": "not a subject"},
        {"data": "x" * 500, "subject": f"{small}.b"},
        {"data": "null", "subject": None},
    ]
    sink = make_sink(url, small, COLUMNS, subject="{subject}", deadLetterSubject=f"{target.name}.dead")
    done = sink.write(PLACE, batches(rows, 2))
    assert (done.stored, done.dead) == (1, 3)
    letters = [target.get_msg(seq) for seq in (1, 2, 3)]
    assert [letter.headers["Jetspark-Row"] for letter in letters] == ["5:0:1", "5:0:2", "5:0:3"]
    assert "not a subject to publish to" in letters[0].headers["Jetspark-Reason"]
    assert "the stream takes 400" in letters[1].headers["Jetspark-Reason"]
    assert "has no subject" in letters[2].headers["Jetspark-Reason"]
    assert letters[0].data == b"lost"
    assert letters[1].headers["Jetspark-Subject"] == f"{small}.b"
    outlive_window(js, target)
    other = Place("query", 6, 0)
    with pytest.raises(Stopped):
        sink.write(other, batches(rows, 2, stop_after=2))
    outlive_window(js, target)
    sink.write(other, batches(rows, 2))
    assert stored(main) == Counter({"good": 2})
    assert target.info(subjects_filter=f"{target.name}.dead").state.subjects == {f"{target.name}.dead": 6}
    js.delete_stream(small)


def test_a_refusal_of_the_server_about_the_row_is_a_dead_letter_too(url: str, js: JetStream, target: Stream) -> None:
    columns: dict[str, t.DataType] = {"data": TEXT, "ttl": TEXT}
    sink = make_sink(url, target.name, columns, deadLetterSubject=f"{target.name}.dead")
    done = sink.write(PLACE, batches([{"data": "a", "ttl": "soon"}, {"data": "b", "ttl": "1h"}]))
    assert (done.stored, done.dead) == (1, 1)
    assert "TTL" in target.get_last_msg(f"{target.name}.dead").headers["Jetspark-Reason"]
    assert target.get_last_msg(f"{target.name}.rows").headers["Nats-TTL"] == "1h"


def test_a_dead_letter_is_cut_to_what_its_own_stream_takes(url: str, js: JetStream, target: Stream) -> None:
    narrow = js.create_stream(f"{target.name}n", subjects=[f"{target.name}n.>"], max_msg_size=200)
    wide, row = target, "x" * 1000
    letters = f"{wide.name}.dead"
    make_sink(url, narrow.name, subject=f"{narrow.name}.a", deadLetterSubject=letters).write(PLACE, batches([row]))
    assert wide.get_last_msg(letters).data == row.encode()
    js.delete_stream(narrow.name)
    narrow = js.create_stream(f"{target.name}n", subjects=[f"{target.name}n.>"], max_msg_size=400)
    sink = make_sink(url, wide.name, COLUMNS, deadLetterSubject=f"{narrow.name}.dead")
    assert sink.write(PLACE, batches([{"data": row, "subject": "no subject"}])).dead == 1
    letter = narrow.get_last_msg(f"{narrow.name}.dead")
    assert letter.headers["Jetspark-Size"] == "1000"
    assert 0 < len(letter.data) < 400
    js.delete_stream(narrow.name)


def test_a_dead_letter_that_cannot_be_stored_fails_the_task_by_its_row(url: str, js: JetStream, target: Stream) -> None:
    full = js.create_stream(f"{target.name}f", subjects=[f"{target.name}f.>"], max_msgs=1, discard="new")
    js.publish(f"{full.name}.a", b"")
    rows = [{"data": str(number), "subject": f"{target.name}.a"} for number in range(8)]
    rows[6]["subject"] = "no subject"
    sink = make_sink(url, target.name, COLUMNS, deadLetterSubject=f"{full.name}.dead", numRetries=1)
    with pytest.raises(SinkError, match=r"row 6 of batch 5, partition 0 .*maximum messages exceeded.*1 retries"):
        sink.write(PLACE, batches(rows))
    js.delete_stream(full.name)


def test_headers_that_the_stream_does_not_take_are_the_fault_of_the_row(url: str, target: Stream) -> None:
    columns: dict[str, t.DataType] = {"data": TEXT, "headers": t.MapType(TEXT, TEXT)}
    kinds = pa.schema([("data", pa.string()), ("headers", pa.map_(pa.string(), pa.string()))])
    asked = [[("Nats-Rollup", "all")], [("Nats-Incr", "1")], [("Nats-Schedule", "@every 5s")], [("a", "b")]]
    rows = [{"data": str(number), "headers": pairs} for number, pairs in enumerate(asked)]
    sink = make_sink(url, target.name, columns, deadLetterSubject=f"{target.name}.other", numRetries=0)
    done = sink.write(PLACE, iter([pa.RecordBatch.from_pylist(rows, schema=kinds)]))
    assert (done.stored, done.dead) == (1, 3)
    assert stored(target) == Counter(["3"])


def test_headers_or_an_id_too_large_to_send_are_left_out_of_the_dead_letter(url: str, target: Stream) -> None:
    columns: dict[str, t.DataType] = {"data": TEXT, "headers": t.MapType(TEXT, TEXT), "msg_id": TEXT}
    pairs = pa.map_(pa.string(), pa.string())
    kinds = pa.schema([("data", pa.string()), ("headers", pairs), ("msg_id", pa.string())])
    rows = [
        {"data": "wide", "headers": [("Wide", "x" * 65_000), ("Nats-Rollup", "all")], "msg_id": "a"},
        {"data": "wider", "headers": [("Wide", "x" * 70_000)], "msg_id": "b"},
        {"data": "named", "headers": [("Kept", "yes"), ("Jetspark-Reason", "old")], "msg_id": "c" * 70_000},
    ]
    sink = make_sink(url, target.name, columns, deadLetterSubject=f"{target.name}.dead", numRetries=0)
    done = sink.write(PLACE, iter([pa.RecordBatch.from_pylist(rows, schema=kinds)]))
    assert (done.stored, done.dead) == (0, 3)
    letters = [target.get_msg(sequence) for sequence in (1, 2, 3)]
    assert [letter.data for letter in letters] == [b"wide", b"wider", b"named"]
    assert [letter.headers.get("Kept") for letter in letters] == [None, None, "yes"]
    (reason,) = letters[2].headers.get_all("Jetspark-Reason")
    assert "header size exceeds maximum" in reason


def test_a_subject_too_long_for_the_wire_costs_its_row_and_not_the_connection(url: str, target: Stream) -> None:
    rows = [{"data": str(size), "subject": f"{target.name}." + "x" * size} for size in (3_000, 5_000)]
    sink = make_sink(url, target.name, COLUMNS, deadLetterSubject=f"{target.name}.dead", numRetries=0)
    done = sink.write(PLACE, batches(rows))
    assert (done.stored, done.dead) == (1, 1)
    letter = target.get_last_msg(f"{target.name}.dead")
    assert (letter.data, letter.headers["Jetspark-Reason"]) == (
        b"5000",
        "its subject has 5014 bytes; a server takes 3840",
    )


def test_dead_letters_are_on_their_way_together_and_each_is_waited_for(url: str, js: JetStream, target: Stream) -> None:
    letters = js.create_stream(f"{target.name}dead", subjects=[f"{target.name}dead.>"])
    subject = f"{letters.name}.a"
    sink = make_sink(url, target.name, COLUMNS, msgId="none", deadLetterSubject=subject, ackTimeoutMs=20_000)
    rows = [{"data": one, "subject": "no subject"} for one in NUMBERS]
    waiting: list[Msg] = []
    js.delete_stream(letters.name)
    with connect(url) as other:

        def answer_when_all_are_here(letter: Msg) -> None:
            waiting.append(letter)
            if len(waiting) == len(rows):
                for number, one in enumerate(waiting, 1):
                    other.publish(one.reply, b'{"stream":"%b","seq":%d}' % (letters.name.encode(), number))

        other.subscribe(subject, callback=answer_when_all_are_here)
        other.flush()
        done = sink.write(PLACE, batches(rows, 100))
    assert (done.stored, done.dead) == (0, 100)
    assert [letter.data.decode() for letter in waiting] == NUMBERS


def test_rows_without_an_id_are_put_aside_once_in_whatever_order_they_come(
    url: str, js: JetStream, target: Stream
) -> None:
    rows = [{"data": one, "msg_id": None} for one in [*NUMBERS, "7"]]
    sink = make_sink(url, target.name, NAMED, deadLetterSubject=f"{target.name}.dead")
    break_off(sink, rows=rows)
    outlive_window(js, target)
    assert sink.write(PLACE, batches(rows[::-1])).dead == 101
    assert stored(target) == Counter([*NUMBERS, "7"])


def test_what_was_stored_or_put_aside_stays_so_when_the_stream_takes_more_or_less_since(
    url: str, js: JetStream, target: Stream
) -> None:
    subject, rows = f"{target.name}.dead", ["x" * 300, *NUMBERS[:10]]
    wide = make_sink(url, target.name, deadLetterSubject=subject)
    target.update(max_msg_size=250)
    narrow = make_sink(url, target.name, deadLetterSubject=subject)
    break_off(narrow, Place("query", 5, 0), after=10, rows=rows)
    target.update(max_msg_size=-1)
    break_off(wide, Place("query", 5, 1), after=10, rows=rows)
    outlive_window(js, target)
    done = [wide.write(Place("query", 5, 0), batches(rows)), narrow.write(Place("query", 5, 1), batches(rows))]
    assert [(one.stored, one.found, one.dead) for one in done] == [(1, 10, 0), (1, 10, 0)]
    counts = target.info(subjects_filter=">").state.subjects or {}
    assert (counts[subject], counts[f"{target.name}.rows"]) == (1, 21)
