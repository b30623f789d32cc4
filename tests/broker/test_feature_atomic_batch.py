"""Batches that are stored whole or not at all."""

from __future__ import annotations

import base64
from random import Random
from typing import Any

import pytest

from jetspark.testing.broker_driver import BrokerDriver, FakeConnection, frame
from jetspark.testing.sim_disk import SimDisk

STORAGES = pytest.mark.parametrize("storage", ["file", "memory"])
EMPTY = b""


def stream(client: FakeConnection, name: str = "S", **config: Any) -> None:
    config = {"name": name, "subjects": [f"{name}.>"], "allow_atomic": True, **config}
    reply = client.api(f"STREAM.CREATE.{name}", config)
    assert "error" not in reply, reply


def part(
    client: FakeConnection,
    identity: str,
    sequence: int | str | None,
    headers: dict[str, str] | None = None,
    *,
    commit: str | None = None,
    subject: str = "S.a",
    data: bytes = b"x",
) -> Any:
    """Send one part of a batch: b"" when it is taken in silence, the document of the answer otherwise."""
    lines = {"Nats-Batch-Id": identity}
    if sequence is not None:
        lines["Nats-Batch-Sequence"] = str(sequence)
    lines |= headers or {}
    if commit is not None:
        lines["Nats-Batch-Commit"] = commit
    reply = client.request(subject, data, lines)
    assert reply is not None
    return reply.json() if reply.data else reply.data


def code(answer: Any) -> int:
    return 0 if answer == EMPTY else int(answer.get("error", {}).get("err_code", 0))


def words(answer: Any) -> str:
    return str(answer["error"]["description"])


def state(client: FakeConnection, name: str = "S") -> Any:
    return client.api(f"STREAM.INFO.{name}", {"subjects_filter": ">"})["state"]


def header_of(client: FakeConnection, seq: int) -> bytes:
    return base64.b64decode(client.api("STREAM.MSG.GET.S", {"seq": seq})["message"].get("hdrs", ""))


@STORAGES
def test_nothing_is_stored_before_the_commit_and_everything_at_it(storage: str) -> None:
    client = BrokerDriver().connect()
    stream(client, storage=storage)

    assert part(client, "u1", 1) == EMPTY
    assert part(client, "u1", 2, subject="S.b") == EMPTY
    assert state(client)["messages"] == 0
    assert part(client, "u1", 3, commit="1") == {"stream": "S", "seq": 3, "batch": "u1", "count": 3}

    assert state(client)["subjects"] == {"S.a": 2, "S.b": 1}
    assert header_of(client, 3) == (
        b"NATS/1.0\r\nNats-Batch-Id: u1\r\nNats-Batch-Sequence: 3\r\nNats-Batch-Commit: 1\r\n\r\n"
    )


def test_a_commit_may_come_without_a_message() -> None:
    client = BrokerDriver().connect()
    stream(client)

    part(client, "u", 1)

    assert part(client, "u", 2, commit="eob") == {"stream": "S", "seq": 1, "batch": "u", "count": 1}
    assert header_of(client, 1).endswith(b"Nats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\n\r\n")


def test_batches_interleave_with_each_other_and_with_plain_messages() -> None:
    client = BrokerDriver().connect()
    stream(client)

    part(client, "a", 1)
    part(client, "b", 1)
    assert client.publish_acked("S.x") == {"stream": "S", "seq": 1}

    assert part(client, "b", 2, commit="1")["seq"] == 3
    assert part(client, "a", 2, commit="1")["seq"] == 5
    assert part(client, "a", 1, commit="1")["seq"] == 6, "an id may be used again once its batch has ended"


# Asked of nats-server 2.15.1, as everything below.
@pytest.mark.parametrize(
    ("identity", "sequence", "commit", "expected"),
    [
        ("i" * 65, 1, None, 10179),
        ("i" * 64, 1, None, 0),
        ("x", None, None, 10175),
        ("x", "abc", None, 10175),
        ("x", "-1", None, 10175),
        ("x", "", None, 10175),
        ("x", 0, None, 10176),
        ("x", 2, None, 10176),
        ("x", 1, "eob", 10176),
        ("x", 1, "yes", 10200),
        ("x", 1, "", 10200),
        ("x", 1001, None, 10199),
        ("x", 1001, "eob", 10176),
        ("x", 1002, "eob", 10199),
        ("x", 18446744073709551615, None, 10199),
    ],
)
def test_how_a_batch_may_begin(identity: str, sequence: int | str | None, commit: str | None, expected: int) -> None:
    client = BrokerDriver().connect()
    stream(client)

    assert code(part(client, identity, sequence, commit=commit)) == expected


def test_a_stream_without_batches_says_so() -> None:
    client = BrokerDriver().connect()
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})

    assert code(part(client, "x", 1)) == 10174


@pytest.mark.parametrize("sequence", [1, 3])
def test_a_gap_or_a_repetition_ends_the_batch(sequence: int) -> None:
    client = BrokerDriver().connect()
    stream(client)
    listener = client.subscribe("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S")
    part(client, "u", 1)

    assert code(part(client, "u", sequence)) == 10176

    (advisory,) = client.take_messages(listener)
    document = advisory.json()
    assert document["type"] == "io.nats.jetstream.advisory.v1.stream_batch_abandoned"
    assert (document["stream"], document["batch"], document["reason"]) == ("S", "u", "incomplete")
    assert code(part(client, "u", 2)) == 10176


def test_an_idle_batch_is_abandoned() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    listener = client.subscribe("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S")
    part(client, "u", 1)
    driver.advance(9)
    part(client, "u", 2)
    part(client, "v", 1)
    driver.advance(9)
    assert client.take_messages(listener) == []

    driver.advance(2)

    reasons = [message.json()["reason"] for message in client.take_messages(listener)]
    assert reasons == ["timeout", "timeout"]
    assert code(part(client, "u", 3)) == 10176


def test_open_batches_are_limited_per_stream_and_in_all() -> None:
    driver = BrokerDriver(configure=lambda options: setattr(options, "batch_max_inflight_total", 60))
    client = driver.connect()
    stream(client, "S")
    stream(client, "T")

    assert [code(part(client, f"{n}", 1)) for n in range(50)] == [0] * 50
    assert code(part(client, "more", 1)) == 10210
    assert [code(part(client, f"{n}", 1, subject="T.a")) for n in range(10)] == [0] * 10
    assert code(part(client, "more", 1, subject="T.a")) == 10210
    part(client, "0", 2, commit="1")
    assert code(part(client, "more", 1, subject="T.a")) == 0


def test_a_batch_may_be_so_large_and_no_larger() -> None:
    driver = BrokerDriver(configure=lambda options: setattr(options, "batch_max_messages", 3))
    client = driver.connect()
    stream(client)
    for sequence in (1, 2, 3):
        part(client, "u", sequence)
    assert part(client, "u", 4, commit="eob")["count"] == 3

    for sequence in (1, 2, 3):
        part(client, "u", sequence)
    assert code(part(client, "u", 4, commit="1")) == 10199


def test_a_part_that_is_too_large_is_refused_without_ending_the_batch() -> None:
    client = BrokerDriver().connect()
    stream(client, max_msg_size=100)
    part(client, "u", 1)

    assert code(part(client, "u", 2, data=b"x" * 100)) == 10054
    assert part(client, "u", 2, commit="1")["count"] == 2


def test_a_required_level_too_high_ends_the_batch_and_a_low_one_is_not_stored() -> None:
    client = BrokerDriver().connect()
    stream(client)

    assert code(part(client, "u", 1, {"Nats-Required-Api-Level": "99"})) == 10185
    part(client, "u", 1, {"Nats-Required-Api-Level": "1"}, commit="1")

    assert b"Api-Level" not in header_of(client, 1)


# -- what is checked at the commit ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (
            {"Nats-Expected-Last-Msg-Id": "x"},
            (10177, "atomic publish unsupported header used: Nats-Expected-Last-Msg-Id"),
        ),
        ({"Nats-Expected-Last-Sequence": "9"}, (10071, "wrong last sequence: 1")),
        ({"Nats-Expected-Last-Sequence": "x"}, (10071, "wrong last sequence: 1")),
        ({"Nats-Expected-Last-Subject-Sequence": "9"}, (10071, "wrong last sequence: 1")),
        (
            {"Nats-Expected-Last-Subject-Sequence-Subject": "S.q"},
            (10193, "missing sequence for expected last sequence per subject"),
        ),
        ({"Nats-Expected-Stream": "X"}, (10060, "expected stream does not match")),
        ({"Nats-Rollup": "bad"}, (10111, 'rollup value invalid: "bad"')),
        ({"Nats-TTL": "x"}, (10166, "per-message TTL is disabled")),
        ({"Nats-Schedule": "@every 1s"}, (10188, "message schedules is disabled")),
        ({"Nats-Incr": "1"}, (10168, "message counters is disabled")),
        ({"Nats-Stream-Source": "1"}, (10227, "message stream source header is not allowed")),
        ({"Nats-Msg-Id": "known"}, (10201, "atomic publish batch contains duplicate message id")),
    ],
)
def test_one_message_that_fails_fails_all(headers: dict[str, str], expected: tuple[int, str]) -> None:
    client = BrokerDriver().connect()
    stream(client, allow_rollup_hdrs=True)
    client.publish_acked("S.a", b"", {"Nats-Msg-Id": "known"})

    assert part(client, "u", 1, headers) == EMPTY
    answer = part(client, "u", 2, subject="S.b", commit="1")

    assert (code(answer), words(answer)) == expected
    assert state(client)["last_seq"] == 1
    assert code(part(client, "u", 1)) == 0, "the batch is gone"


def test_expectations_of_later_messages_count_the_earlier_ones() -> None:
    client = BrokerDriver().connect()
    stream(client)
    client.publish_acked("S.a")

    part(client, "u", 1, {"Nats-Expected-Last-Sequence": "1"})
    assert words(part(client, "u", 2, {"Nats-Expected-Last-Sequence": "2"}, commit="1")) == "wrong last sequence"
    part(client, "u", 1)
    answer = part(client, "u", 2, {"Nats-Expected-Last-Sequence": "1"}, commit="1")
    assert words(answer) == "wrong last sequence: 2"
    part(client, "u", 1, {"Nats-Expected-Last-Subject-Sequence": "0"}, subject="S.n")
    answer = part(client, "u", 2, {"Nats-Expected-Last-Subject-Sequence": "0"}, subject="S.n", commit="1")
    assert (code(answer), words(answer)) == (10164, "wrong last sequence")


def test_an_expectation_about_another_subject_may_be_repeated_and_must_not_change() -> None:
    client = BrokerDriver().connect()
    stream(client)
    about = "Nats-Expected-Last-Subject-Sequence-Subject"
    seq = "Nats-Expected-Last-Subject-Sequence"

    part(client, "u", 1, {seq: "0", about: "S.q"}, subject="S.w1")
    answer = part(client, "u", 2, {seq: "7", about: "S.q"}, subject="S.w2", commit="1")
    assert words(answer) == "wrong last sequence: 0"
    part(client, "u", 1, {seq: "0", about: "S.q"}, subject="S.w1")
    assert part(client, "u", 2, {seq: "0", about: "S.q"}, subject="S.w2", commit="1")["count"] == 2


def test_message_ids_inside_a_batch() -> None:
    client = BrokerDriver().connect()
    stream(client)

    part(client, "u", 1, {"Nats-Msg-Id": "a"})
    assert code(part(client, "u", 2, {"Nats-Msg-Id": "a"}, commit="1")) == 10201
    assert part(client, "u", 1, {"Nats-Msg-Id": "a"}, commit="1")["seq"] == 1, "a refused batch leaves no ids behind"
    assert client.publish_acked("S.a", b"", {"Nats-Msg-Id": "a"}) == {"stream": "S", "seq": 1, "duplicate": True}


@STORAGES
def test_rollups_come_first_and_spare_what_the_batch_adds_later(storage: str) -> None:
    client = BrokerDriver().connect()
    stream(client, storage=storage, allow_rollup_hdrs=True)
    client.publish_acked("S.a")
    client.publish_acked("S.b")

    part(client, "u", 1, {"Nats-Rollup": "sub"})
    assert words(part(client, "u", 2, {"Nats-Rollup": "sub"}, commit="1")) == "batch rollup sub invalid"
    part(client, "u", 1)
    assert words(part(client, "u", 2, {"Nats-Rollup": "all"}, commit="1")) == "batch rollup all invalid"
    part(client, "u", 1, {"Nats-Rollup": "sub"})
    part(client, "u", 2, commit="1")
    assert state(client)["subjects"] == {"S.a": 2, "S.b": 1}
    part(client, "u", 1, {"Nats-Rollup": "all"}, subject="S.q")
    part(client, "u", 2, commit="1")
    assert state(client)["subjects"] == {"S.a": 1, "S.q": 1}


@STORAGES
def test_a_stream_that_discards_new_needs_room_for_all(storage: str) -> None:
    client = BrokerDriver().connect()
    config: dict[str, Any] = {"max_msgs": 2, "max_msgs_per_subject": 1, "discard_new_per_subject": True}
    stream(client, storage=storage, allow_rollup_hdrs=True, discard="new", **config)

    part(client, "u", 1, subject="S.a")
    part(client, "u", 2, subject="S.b")
    assert words(part(client, "u", 3, subject="S.c", commit="1")) == "maximum messages exceeded"
    part(client, "u", 1, subject="S.a")
    assert words(part(client, "u", 2, subject="S.a", commit="1")) == "maximum messages per subject exceeded"
    part(client, "u", 1, subject="S.a")
    assert part(client, "u", 2, {"Nats-Rollup": "sub"}, subject="S.b", commit="1")["count"] == 2
    assert state(client)["messages"] == 2


def test_a_stream_that_discards_old_forgets_after_the_batch() -> None:
    client = BrokerDriver().connect()
    stream(client, max_msgs=2)

    for sequence in (1, 2):
        part(client, "u", sequence)
    part(client, "u", 3, commit="1")

    assert (state(client)["first_seq"], state(client)["last_seq"]) == (2, 3)


def test_counters_add_up_inside_a_batch() -> None:
    client = BrokerDriver().connect()
    stream(client, allow_msg_counter=True)

    part(client, "u", 1, {"Nats-Incr": "1"}, data=b"")
    part(client, "u", 2, {"Nats-Incr": "2"}, data=b"")
    assert part(client, "u", 3, {"Nats-Incr": "5"}, subject="S.b", data=b"", commit="1") == {
        "stream": "S",
        "seq": 3,
        "batch": "u",
        "count": 3,
    }

    assert (
        client.api("STREAM.MSG.GET.S", {"last_by_subj": "S.a"})["message"]["data"]
        == base64.b64encode(b'{"val":"3"}').decode()
    )


def test_a_message_nobody_wants_uses_up_its_sequence() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, retention="interest")
    consumer = {"durable_name": "c", "ack_policy": "explicit", "filter_subject": "S.a"}
    client.api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": consumer})

    part(client, "u", 1, subject="S.a")
    assert part(client, "u", 2, subject="S.b", commit="1")["seq"] == 2
    assert (state(client)["messages"], state(client)["last_seq"]) == (1, 2)
    driver.crash()

    assert state(driver.connect())["messages"] == 1, "a batch whose last message was not wanted is whole all the same"


def test_without_acknowledgements_batches_work_in_silence() -> None:
    client = BrokerDriver().connect()
    stream(client, no_ack=True)

    lines = {"Nats-Batch-Id": "u", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}
    assert client.request("S.a", b"x", lines) is None
    assert state(client)["messages"] == 1


# -- the disk --------------------------------------------------------------------------------------------------------


def test_the_commit_is_acknowledged_when_all_of_it_is_durable() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    part(client, "u", 1)
    driver.holds_commits = True

    inbox = client.start_request(
        "S.a", b"x", {"Nats-Batch-Id": "u", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}
    )
    assert client.replies(inbox) == []
    driver.finish_commit()
    driver.settle()

    assert client.replies(inbox)[0].json()["count"] == 2


@pytest.mark.parametrize("seed", range(80))
def test_a_torn_commit_leaves_all_of_a_batch_or_nothing(seed: int) -> None:
    rng = Random(seed)
    disk = SimDisk(rng)
    driver = BrokerDriver(disk, seed=seed)
    client = driver.connect()
    # Small blocks, so that some batches lie across two or three of them, and a rollup that must not happen by halves.
    stream(client, allow_rollup_hdrs=True, max_bytes=100_000)
    for _ in range(rng.randrange(40)):
        client.publish_acked("S.a", rng.randbytes(rng.randrange(2000)))
    before = state(client).get("subjects", {}).get("S.a", 0)
    size = rng.randrange(2, 40)
    driver.holds_commits = True
    data = b""
    for sequence in range(1, size + 1):
        lines = {"Nats-Batch-Id": "u", "Nats-Batch-Sequence": str(sequence)}
        if sequence == 1 and seed % 2:
            lines["Nats-Rollup"] = "all"
        if sequence == size:
            lines["Nats-Batch-Commit"] = "1"
        data += frame("S.b", rng.randbytes(rng.randrange(3000)), "", lines)
    client.send(data)
    commit = driver.broker._in_flight
    assert commit is not None
    for op in commit.ops[: rng.randrange(len(commit.ops) + 1)]:
        disk.perform(op)
    disk.crash()
    driver.crash()

    after = state(driver.connect()).get("subjects", {})
    assert after.get("S.b", 0) in (0, size)
    if after.get("S.b", 0) == 0:
        assert after.get("S.a", 0) == before, "and nothing was removed for it"
    elif seed % 2:
        assert "S.a" not in after
