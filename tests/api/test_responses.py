"""Answers as documents; their full shapes are compared with nats-server's elsewhere."""

import json

import pytest

from jetspark.api import responses
from jetspark.api.error_codes import ErrorCode, make


@pytest.mark.parametrize(
    ("total", "offset", "limit", "expected"),
    [(0, 0, 10, (0, 0)), (5, 0, 10, (0, 5)), (25, 20, 10, (20, 25)), (25, 30, 10, (25, 25)), (25, -1, 10, (0, 10))],
)
def test_a_page_never_leaves_the_list(total: int, offset: int, limit: int, expected: tuple[int, int]) -> None:
    assert responses.page(total, offset, limit) == expected


def test_names_come_1024_at_a_time() -> None:
    names = [f"s{number:05d}" for number in range(1500)]

    first = responses.stream_names(names, 0)
    second = responses.consumer_names(names, 1024)

    assert (first["total"], first["limit"], len(first["streams"])) == (1500, 1024, 1024)
    assert (second["offset"], second["consumers"]) == (1024, names[1024:])


def test_no_stream_names_are_null_and_no_consumer_names_an_empty_list() -> None:
    assert responses.stream_names([], 0)["streams"] is None
    assert responses.consumer_names([], 0)["consumers"] == []


def test_an_error_carries_the_fields_its_answer_always_has() -> None:
    error = make(ErrorCode.STREAM_NOT_FOUND)

    assert responses.error(responses.CONSUMER_RESET, error)["reset_seq"] == 0
    assert list(responses.error(responses.STREAM_DELETE, error)) == ["type", "error"]


def test_a_source_shows_what_it_has() -> None:
    assert list(responses.source_info("O", lag=0, active_ns=-1)) == ["name", "lag", "active"]
    full = responses.source_info(
        "O",
        lag=1,
        active_ns=2,
        seq=3,
        external={"api": "a", "deliver": "d"},
        error=make(ErrorCode.STREAM_NOT_FOUND),
        filter_subject="f",
        subject_transforms=[{"src": "a", "dest": "b"}],
    )
    assert list(full) == [
        *("name", "external", "lag", "seq", "active", "error", "filter_subject", "subject_transforms")
    ]


def test_a_paused_consumer_says_for_how_long() -> None:
    fields = responses.consumer_info_fields(
        stream="S",
        name="c",
        created_ns=0,
        config={},
        delivered=responses.sequence_info(0, 0),
        ack_floor=responses.sequence_info(0, 0),
        num_ack_pending=0,
        num_redelivered=0,
        num_waiting=0,
        num_pending=0,
        now_ns=0,
        push_bound=True,
        pause_remaining_ns=5,
    )

    assert list(fields)[-4:] == ["push_bound", "paused", "pause_remaining", "ts"]


def test_documents_are_written_compactly() -> None:
    document = responses.stream_restore("$JS.SNAPSHOT.RESTORE.S.x")

    text = responses.encode_json(document)

    assert json.loads(text) == document
    assert b" " not in text


def test_a_refused_publish_names_its_stream() -> None:
    error = make(ErrorCode.STREAM_WRONG_LAST_SEQUENCE, seq=3)

    assert responses.encode_json(responses.pub_ack_error(error, "S")) == (
        b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"S","seq":0}'
    )
