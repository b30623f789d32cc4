"""Batches that are stored as they come. Every answer was asked of nats-server 2.15.1."""

from __future__ import annotations

from typing import Any

import pytest

from jetspark.testing.broker_driver import BrokerDriver, FakeConnection

START, APPEND, COMMIT, END, PING = range(5)
K = {"Nats-Msg-Id": "k"}
WRONG = {"Nats-Expected-Last-Sequence": "999"}


def stream(client: FakeConnection, name: str = "S", **config: Any) -> None:
    config = {"name": name, "subjects": [f"{name}.>"], "allow_batched": True, **config}
    reply = client.api(f"STREAM.CREATE.{name}", config)
    assert "error" not in reply, reply


class Batch:
    """A client's end of one batch."""

    def __init__(
        self, client: FakeConnection, identity: str, gap: str = "ok", flow: int | str = 2, subject: str = "S.a"
    ) -> None:
        self.client = client
        self.identity = identity
        self.gap = gap
        self.flow = flow
        self.subject = subject
        self.sid = client.subscribe(f"in.{identity}.>")

    def __call__(self, sequence: int | str, operation: int, headers: dict[str, str] | None = None) -> list[Any]:
        """Send a part; the answers to it, in short."""
        reply = f"in.{self.identity}.{self.flow}.{self.gap}.{sequence}.{operation}.$FI"
        self.client.publish(self.subject, b"x", reply=reply, headers=headers)
        return [short(message.json()) for message in self.client.take_messages(self.sid)]


def short(document: Any) -> Any:
    match document:
        case {"type": "ack", "seq": seq, "msgs": messages}:
            return ("ack", seq, messages)
        case {"type": "gap", "last_seq": last, "seq": seq}:
            return ("gap", last, seq)
        case {"type": "err", "seq": seq, "error": error}:
            return ("err", seq, error["err_code"])
        case {"error": error}:
            return error["err_code"]
        case {"duplicate": True, "seq": seq, "batch": _, "count": count}:
            return ("duplicate", seq, count)
        case {"seq": seq, "batch": _, "count": count}:
            return ("done", seq, count)
    return document


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_batch_is_acknowledged_now_and_then_and_at_its_end(storage: str) -> None:
    client = BrokerDriver().connect()
    stream(client, storage=storage)
    batch = Batch(client, "b")

    assert batch(1, START) == [("ack", 0, 2)]
    assert batch(2, APPEND) == [("ack", 2, 2)]
    assert batch(3, APPEND) == []
    assert batch(4, APPEND) == [("ack", 4, 2)]
    assert batch(5, COMMIT) == [("done", 5, 5)]
    assert client.api("STREAM.INFO.S")["state"]["messages"] == 5
    assert batch(6, APPEND) == [10208]


def test_the_whole_answers() -> None:
    client = BrokerDriver().connect()
    stream(client)
    sid = client.subscribe("in.>")
    for sequence, operation in ((1, START), (3, APPEND), (4, COMMIT)):
        client.publish("S.a", b"", reply=f"in.b.2.ok.{sequence}.{operation}.$FI")

    assert [message.data for message in client.take_messages(sid)] == [
        b'{"type":"ack","seq":0,"msgs":2}',
        b'{"type":"gap","last_seq":2,"seq":3}',
        b'{"type":"ack","seq":2,"msgs":2}',
        b'{"stream":"S","seq":3,"batch":"b","count":4}',
    ]


def test_a_batch_may_end_without_a_message_or_with_its_first() -> None:
    client = BrokerDriver().connect()
    stream(client)
    batch = Batch(client, "b")
    batch(1, START)

    assert batch(2, END) == [("done", 1, 1)]
    assert batch(1, COMMIT) == [("done", 2, 1)]
    assert batch(1, END) == [10206]


@pytest.mark.parametrize(
    "rest",
    ["b.2.ok.0.0", "b.2.ok.2.0", "b.2.ok.1.1", "b.2.ok.1.5", "b.2.ok.x.0", "b.2.zz.1.0", "b.2.ok.1.x", "2.ok.1.0", "x"],
)
def test_replies_that_make_no_sense(rest: str) -> None:
    client = BrokerDriver().connect()
    stream(client)
    sid = client.subscribe("in.>")

    client.publish("S.a", b"", reply=f"in.{rest}.$FI")

    assert [short(message.json()) for message in client.take_messages(sid)] == [10206]


@pytest.mark.parametrize(("flow", "granted"), [(70000, 500), (0, 10), ("q", 10), (600, 500), (7, 7)])
def test_how_often_a_lone_batch_is_acknowledged(flow: int | str, granted: int) -> None:
    client = BrokerDriver().connect()
    stream(client)

    assert Batch(client, "b", flow=flow)(1, START) == [("ack", 0, granted)]


def test_an_identity_is_at_most_so_long() -> None:
    client = BrokerDriver().connect()
    stream(client)

    assert Batch(client, "i" * 65)(1, START) == [10207]
    assert Batch(client, "i" * 64)(1, COMMIT) == [("done", 1, 1)]


def test_a_gap_that_is_fine_is_reported_and_one_backwards_ends_the_batch() -> None:
    client = BrokerDriver().connect()
    stream(client)
    batch = Batch(client, "b")
    batch(1, START)

    assert batch(4, APPEND) == [("gap", 2, 4), ("ack", 4, 2)]
    assert batch(5, APPEND) == []
    assert batch(3, APPEND) == [("gap", 6, 3), ("done", 3, 5)]
    assert batch(6, COMMIT) == [10208]


def test_a_gap_that_is_not_fine_ends_the_batch_with_what_it_has() -> None:
    client = BrokerDriver().connect()
    stream(client)
    batch = Batch(client, "b", "fail")
    batch(1, START)

    assert batch(3, APPEND) == [("gap", 2, 3), ("done", 1, 1)]
    assert batch(4, APPEND) == [10208]


def test_pings() -> None:
    client = BrokerDriver().connect()
    stream(client)
    fine, strict = Batch(client, "p1"), Batch(client, "p2", "fail")
    fine(1, START)

    assert fine(1, PING) == [("ack", 0, 2)]
    assert fine(5, PING) == [("gap", 2, 6), ("ack", 4, 2)]
    assert fine(6, APPEND) == [("ack", 6, 2)]
    assert fine(7, COMMIT) == [("done", 3, 7)]
    strict(1, START)
    assert strict(5, PING) == [("gap", 2, 6), ("done", 4, 1)]
    assert Batch(client, "p3")(3, PING) == [10208]
    assert Batch(client, "p4")(1, PING) == [10208]


def test_errors_are_told_and_passed_over_where_gaps_are_fine() -> None:
    client = BrokerDriver().connect()
    stream(client)
    batch = Batch(client, "b")

    assert batch(1, START, WRONG) == [("ack", 0, 2), ("err", 1, 10071)]
    assert batch(2, APPEND, WRONG) == [("err", 2, 10071)]
    assert batch(3, COMMIT) == [("done", 1, 3)]
    batch(1, START)
    assert batch(2, COMMIT, WRONG) == [("err", 2, 10071), ("done", 2, 1)]


def test_an_error_ends_a_strict_batch() -> None:
    client = BrokerDriver().connect()
    stream(client)
    batch = Batch(client, "b", "fail")

    assert batch(1, START, WRONG) == [("ack", 0, 2), 10071]
    assert batch(2, APPEND) == [10208]
    batch(1, START)
    assert batch(2, APPEND, WRONG) == [("err", 2, 10071), ("done", 1, 1)]
    assert batch(1, COMMIT, WRONG) == [10071]


def test_duplicates_are_passed_over() -> None:
    client = BrokerDriver().connect()
    stream(client)
    client.publish_acked("S.a", b"", K)
    fine, strict = Batch(client, "f"), Batch(client, "s", "fail")

    assert fine(1, START, K) == [("ack", 0, 2)]
    assert fine(2, APPEND, K) == [("ack", 2, 2)]
    assert fine(3, APPEND) == []
    assert fine(4, COMMIT, K) == [("ack", 4, 2), ("done", 2, 4)]
    assert fine(1, COMMIT, K) == [("done", 0, 1)]
    assert strict(1, COMMIT, K) == [("duplicate", 1, 1)]
    assert strict(1, START, K) == [("ack", 0, 2)]
    assert strict(2, APPEND) == [("ack", 2, 2)]
    assert strict(3, COMMIT) == [("done", 4, 3)]


def test_batches_side_by_side_work_their_way_up() -> None:
    client = BrokerDriver().connect()
    stream(client)
    first, second = Batch(client, "x1", flow=10), Batch(client, "x2", flow=10)
    first(1, START)

    assert second(1, START) == [("ack", 0, 1), ("ack", 1, 2)]
    answers = [answer for sequence in range(2, 30) for answer in second(sequence, APPEND)]
    assert answers == [("ack", 3, 4), ("ack", 7, 8), ("ack", 15, 10), ("ack", 25, 10)]
    answers = [answer for sequence in range(2, 30) for answer in first(sequence, APPEND)]
    assert answers == [("ack", 10, 10), ("ack", 20, 10)]
    assert first(30, END)[0][0] == "done"


def test_a_stream_without_fast_batches_says_so() -> None:
    client = BrokerDriver().connect()
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})

    assert Batch(client, "b")(1, START) == [10205]
    assert Batch(client, "b")(0, START) == [10205]
    assert client.api("STREAM.INFO.S")["state"]["messages"] == 0


def test_counters_headers_and_streams_without_interest() -> None:
    client = BrokerDriver().connect()
    stream(client, "C", allow_msg_counter=True)
    sid = client.subscribe("in.>")
    client.publish("C.a", b"", reply="in.c.2.ok.1.0.$FI", headers={"Nats-Incr": "2"})
    client.publish("C.a", b"", reply="in.c.2.ok.2.2.$FI", headers={"Nats-Incr": "2", "A": "b"})
    assert [short(message.json()) for message in client.take_messages(sid)] == [("ack", 0, 2), ("done", 2, 2)]
    assert client.api("STREAM.MSG.GET.C", {"seq": 2})["message"]["data"] == "eyJ2YWwiOiI0In0="

    stream(client, "I", retention="interest")
    batch = Batch(client, "i", subject="I.a")
    batch(1, START)
    assert batch(2, COMMIT) == [("done", 2, 2)]


def test_without_acknowledgements_only_the_flow_is_told() -> None:
    client = BrokerDriver().connect()
    stream(client, no_ack=True)
    batch = Batch(client, "b")

    assert batch(1, START) == []
    assert batch(2, APPEND) == [("ack", 2, 2)]
    assert batch(3, APPEND) == []
    assert batch(4, COMMIT) == [("done", 4, 4)]
    assert Batch(client, "c")(5, APPEND) == []


def test_open_batches_are_limited() -> None:
    driver = BrokerDriver(configure=lambda options: setattr(options, "fast_batch_max_inflight_per_stream", 2))
    client = driver.connect()
    stream(client)

    assert [Batch(client, name)(1, START)[0] for name in "abc"] == [("ack", 0, 2), ("ack", 0, 1), 10211]


def test_an_idle_batch_is_forgotten() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    batch = Batch(client, "b")
    batch(1, START)
    driver.advance(9)
    batch(1, PING)
    driver.advance(9)
    assert batch(2, APPEND) == [("ack", 2, 2)]

    driver.advance(11)

    assert batch(3, APPEND) == [10208]


# -- the disk --------------------------------------------------------------------------------------------------------


def test_acknowledgements_wait_for_the_disk() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    batch = Batch(client, "b")
    batch(1, START)
    driver.holds_commits = True

    assert batch(2, APPEND) == []
    driver.finish_commit()
    driver.settle()

    assert [short(message.json()) for message in client.take_messages(batch.sid)] == [("ack", 2, 2)]


def test_a_failing_disk_ends_the_batch() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    batch = Batch(client, "b")
    batch(1, START)
    driver.holds_commits = True
    batch(2, APPEND)
    driver.finish_commit("disk full")
    driver.holds_commits = False
    driver.advance(1)

    (refusal,) = client.take_messages(batch.sid)
    assert short(refusal.json()) == ("err", 2, 10077)
    assert batch(3, APPEND) == [10208]
    assert client.api("STREAM.INFO.S")["state"]["messages"] == 1


def test_a_part_that_looks_like_one_of_an_atomic_batch_survives_a_restart() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, allow_atomic=True)
    Batch(client, "b")(1, COMMIT, {"Nats-Batch-Id": "z", "Nats-Batch-Sequence": "1"})

    driver.crash()

    assert driver.connect().api("STREAM.INFO.S")["state"]["messages"] == 1
