"""Answers and events: ours have the keys of nats-server's, in the same order, and survive reading and writing."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.nats_oracle import Oracle

from jetspark.api import advisories, responses
from jetspark.api.ack_token import parse_ack
from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.stream_config import StreamConfig
from jetspark.api.stream_state import StreamState
from jetspark.api.timestamps import ZERO_TIME_NS, parse_time

pytestmark = pytest.mark.oracle

STREAM = {"name": "S", "subjects": ["s.>"], "max_msgs": 100}
CONSUMER = {"durable_name": "c", "ack_policy": "explicit", "sample_freq": "100"}
STATE = StreamState(messages=1)


@pytest.fixture(autouse=True)
def _stream(oracle: Oracle) -> Iterator[None]:
    oracle.api("STREAM.CREATE.S", STREAM)
    oracle.request("s.a", b"hello")
    oracle.api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": CONSUMER})
    yield
    oracle.remove_streams()


def ns(text: str) -> int:
    return parse_time(text).unix_ns


def rebuilt_stream_fields(theirs: dict[str, Any], leader: str = "") -> dict[str, Any]:
    return responses.stream_info_fields(
        config=StreamConfig.decode(theirs["config"]).encode(),
        created_ns=ns(theirs["created"]),
        state=StreamState.decode(theirs["state"]),
        now_ns=ns(theirs["ts"]),
        leader=leader,
    )


def rebuilt_consumer_fields(theirs: dict[str, Any]) -> dict[str, Any]:
    pairs = {
        key: responses.sequence_info(
            theirs[key]["consumer_seq"],
            theirs[key]["stream_seq"],
            ns(theirs[key]["last_active"]) if "last_active" in theirs[key] else 0,
        )
        for key in ("delivered", "ack_floor")
    }
    return responses.consumer_info_fields(
        stream=theirs["stream_name"],
        name=theirs["name"],
        created_ns=ns(theirs["created"]),
        config=ConsumerConfig.decode(theirs["config"]).encode(),
        num_ack_pending=theirs["num_ack_pending"],
        num_redelivered=theirs["num_redelivered"],
        num_waiting=theirs["num_waiting"],
        num_pending=theirs["num_pending"],
        now_ns=ns(theirs["ts"]),
        pause_remaining_ns=theirs.get("pause_remaining", 0),
        priority_groups=[
            responses.priority_group_state(group["group"], group.get("pinned_client_id", ""), ns(group["pinned_ts"]))
            for group in theirs.get("priority_groups", [])
        ],
        delivered=pairs["delivered"],
        ack_floor=pairs["ack_floor"],
    )


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours == theirs
    assert list(ours) == list(theirs)
    assert [list(value) for value in ours.values() if isinstance(value, dict)] == [
        list(value) for value in theirs.values() if isinstance(value, dict)
    ]


def test_stream_answers_have_nats_servers_shape(oracle: Oracle) -> None:
    created = oracle.api("STREAM.CREATE.S", STREAM)
    updated = oracle.api("STREAM.UPDATE.S", STREAM)
    info = oracle.api("STREAM.INFO.S")
    detailed = oracle.api("STREAM.INFO.S", {"subjects_filter": ">", "deleted_details": True})
    listed = oracle.api("STREAM.LIST")

    assert_same(responses.stream_created(rebuilt_stream_fields(created)), created)
    assert_same(responses.stream_updated(rebuilt_stream_fields(updated)), updated)
    assert_same(responses.stream_info(rebuilt_stream_fields(info, "oracle")), info)
    assert_same(
        responses.stream_info(
            rebuilt_stream_fields(detailed, "oracle"), total=1, offset=0, limit=responses.SUBJECTS_PAGE_LIMIT
        ),
        detailed,
    )
    assert_same(responses.stream_list([rebuilt_stream_fields(item) for item in listed["streams"]], 1, 0), listed)


def test_consumer_answers_have_nats_servers_shape(oracle: Oracle) -> None:
    created = oracle.api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": CONSUMER})
    pinned = {"name": "p", "priority_policy": "pinned_client", "priority_groups": ["A"]}
    prioritised = oracle.api("CONSUMER.CREATE.S.p", {"stream_name": "S", "config": pinned})
    oracle.request("$JS.API.CONSUMER.MSG.NEXT.S.c")
    info = oracle.api("CONSUMER.INFO.S.c")
    reset = oracle.api("CONSUMER.RESET.S.c", {"seq": 1})
    listed = oracle.api("CONSUMER.LIST.S")

    assert_same(responses.consumer_created(rebuilt_consumer_fields(created)), created)
    assert_same(responses.consumer_created(rebuilt_consumer_fields(prioritised)), prioritised)
    assert_same(responses.consumer_info(rebuilt_consumer_fields(info)), info)
    assert_same(responses.consumer_reset(rebuilt_consumer_fields(reset), reset["reset_seq"]), reset)
    assert_same(responses.consumer_list([rebuilt_consumer_fields(item) for item in listed["consumers"]], 2, 0), listed)


def test_small_answers_have_nats_servers_shape(oracle: Oracle) -> None:
    message = oracle.api("STREAM.MSG.GET.S", {"seq": 1})
    stored_ns = ns(message["message"]["time"])
    account = oracle.api("INFO")
    pause = oracle.api("CONSUMER.PAUSE.S.c", {"pause_until": "2040-01-01T00:00:00Z"})
    remaining_ns = pause["pause_remaining"]

    assert_same(responses.stream_message("s.a", 1, b"", b"hello", stored_ns), message)
    assert list(
        responses.account_info(
            memory=0, storage=0, reserved_memory=0, reserved_storage=0, streams=1, consumers=1,
            limits=responses.account_limits(), api_total=0, api_errors=0,
        )
    ) == list(account)  # fmt: skip
    assert_same(responses.account_limits(), account["limits"])
    assert_same(responses.consumer_paused(ns("2040-01-01T00:00:00Z"), ns("2040-01-01T00:00:00Z") - remaining_ns), pause)
    assert_same(responses.consumer_paused(ZERO_TIME_NS, 0), oracle.api("CONSUMER.PAUSE.S.c"))
    assert_same(responses.stream_names(["S"], 7), oracle.api("STREAM.NAMES", {"offset": 7}))
    assert_same(responses.stream_names([], 0), oracle.api("STREAM.NAMES", {"subject": "zz"}))
    assert_same(responses.consumer_names(["c"], 0), oracle.api("CONSUMER.NAMES.S"))
    assert_same(responses.stream_purged(1), oracle.api("STREAM.PURGE.S"))
    assert_same(responses.success(responses.CONSUMER_DELETE), oracle.api("CONSUMER.DELETE.S.c"))
    assert_same(responses.success(responses.STREAM_DELETE), oracle.api("STREAM.DELETE.S"))


def expect_event(oracle: Oracle, build: Any, **arguments: Any) -> None:
    """Build the event with placeholders, wait for nats-server's on the same subject, then build it with its stamp."""
    subject, _ = build(advisories.Stamp("", 0), **arguments)
    theirs = oracle.next_event(subject)
    for key in ("server", "client", "subject", "request", "response", "ack_time"):
        name = "ack_time_ns" if key == "ack_time" else key
        if name in arguments:
            arguments[name] = theirs.get(key, arguments[name])
    _, ours = build(advisories.Stamp(theirs["id"], ns(theirs["timestamp"])), **arguments)

    assert ours == theirs
    assert list(ours) == list(theirs)


def test_events_about_streams_and_consumers_have_nats_servers_shape(oracle: Oracle) -> None:
    oracle.listen("$JS.EVENT.>")
    oracle.api("STREAM.CREATE.T", {"name": "T"})
    expect_event(oracle, advisories.stream_action, stream="T", action="create")
    oracle.api("STREAM.UPDATE.T", {"name": "T"})
    expect_event(oracle, advisories.stream_action, stream="T", action="modify")
    oracle.api("CONSUMER.CREATE.T.x", {"stream_name": "T", "config": {"durable_name": "x"}})
    expect_event(oracle, advisories.consumer_action, stream="T", consumer="x", action="create")
    until_ns = ns("2040-01-01T00:00:00Z")
    oracle.api("CONSUMER.PAUSE.T.x", {"pause_until": "2040-01-01T00:00:00Z"})
    expect_event(oracle, advisories.consumer_pause, stream="T", consumer="x", paused=True, pause_until_ns=until_ns)
    oracle.api("CONSUMER.DELETE.T.x")
    expect_event(oracle, advisories.consumer_action, stream="T", consumer="x", action="delete")
    oracle.api("STREAM.INFO.T")
    expect_event(oracle, advisories.api_audit, server="", client={}, subject="", request="", response="")
    oracle.api("STREAM.DELETE.T")
    expect_event(oracle, advisories.stream_action, stream="T", action="delete")
    oracle.stop_listening()


def test_events_about_messages_have_nats_servers_shape(oracle: Oracle) -> None:
    oracle.listen("$JS.EVENT.>")
    consumer = {"stream": "S", "consumer": "c"}

    oracle.request("$JS.API.CONSUMER.MSG.NEXT.S.c")
    reply = oracle.last_line.split()[3]
    token = parse_ack(reply)
    assert token is not None
    assert (token.stream, token.consumer, token.delivered, token.stream_seq, token.pending) == ("S", "c", 1, 1, 0)
    oracle.publish(reply, b"-NAK")
    expect_event(oracle, advisories.nak, **consumer, consumer_seq=1, stream_seq=1, deliveries=1)
    oracle.request("$JS.API.CONSUMER.MSG.NEXT.S.c")
    oracle.publish(oracle.last_line.split()[3], b"+ACK")
    expect_event(oracle, advisories.consumer_ack, **consumer, consumer_seq=2, stream_seq=1, ack_time_ns=0, deliveries=2)
    oracle.publish(reply, b"+TERM no good")
    expect_event(
        oracle, advisories.terminated, **consumer, consumer_seq=1, stream_seq=1, deliveries=1, reason="no good"
    )
    oracle.stop_listening()


def test_the_event_about_a_pinned_client_has_nats_servers_shape(oracle: Oracle) -> None:
    pinned = {"name": "p", "priority_policy": "pinned_client", "priority_groups": ["A"]}
    oracle.api("CONSUMER.CREATE.S.p", {"stream_name": "S", "config": pinned})
    oracle.listen("$JS.EVENT.>")
    names = {"account": "$G", "stream": "S", "consumer": "p", "group": "A"}

    headers, _ = oracle.request("$JS.API.CONSUMER.MSG.NEXT.S.p", {"group": "A"})
    pin_id = headers.split(b"Nats-Pin-Id: ")[1].split(b"\r\n")[0].decode()
    expect_event(oracle, advisories.group_pinned, **names, pinned_id=pin_id)
    oracle.api("CONSUMER.UNPIN.S.p", {"group": "A"})
    expect_event(oracle, advisories.group_unpinned, **names, reason="admin")
    oracle.stop_listening()


def test_a_state_with_every_field_survives_reading_and_writing(oracle: Oracle) -> None:
    for subject in ("s.b", "s.c", "s.d"):
        oracle.request(subject, b"x")
    oracle.api("STREAM.MSG.DELETE.S", {"seq": 2})
    theirs = oracle.api("STREAM.INFO.S", {"subjects_filter": ">", "deleted_details": True})["state"]

    ours = StreamState.decode(theirs).encode()

    assert ours == theirs
    assert list(ours) == list(theirs)
    assert {"num_deleted", "deleted", "subjects", "num_subjects"} <= set(ours)
