"""Pull request bodies: the short way and the exact way agree."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.api.pull_request import PullRequest, parse_nak_delay, parse_pull_request


def parsed(body: bytes) -> PullRequest:
    request = parse_pull_request(body)
    assert isinstance(request, PullRequest)
    return request


@pytest.mark.parametrize(
    ("body", "batch"),
    [
        (b"", 1),
        (b"  \r\n", 1),
        (b"10", 10),
        (b" 7 ", 7),
        (b"+3", 3),
        (b"-3", -3),
        (b"x", 1),
        (b"1.5", 1),
        (b"99999999999999999999", 1),
        (b"[]", 1),
    ],
)
def test_without_json_only_the_batch_is_given(body: bytes, batch: int) -> None:
    request = parsed(body)

    assert (request.batch, request.has_json) == (batch, False)


def test_json_gives_every_field() -> None:
    request = parsed(
        b'{"batch":5,"max_bytes":6,"no_wait":true,"expires":70,"idle_heartbeat":8,"group":"A","min_pending":9,'
        b'"min_ack_pending":10,"id":"Pin1e5","priority":3}'
    )

    assert {name: getattr(request, name) for name in PullRequest.__slots__} == {
        "batch": 5,
        "max_bytes": 6,
        "no_wait": True,
        "expires_ns": 70,
        "idle_heartbeat_ns": 8,
        "group": "A",
        "min_pending": 9,
        "min_ack_pending": 10,
        "pin_id": "Pin1e5",
        "priority": 3,
        "has_json": True,
    }


def test_what_the_short_way_can_not_read_is_read_exactly() -> None:
    assert parsed(b'{"batch":null,"expires":5}').batch == 0
    assert parsed(b'{"Batch":4,"unknown":{"a":1.5}}').batch == 4


def test_requests_with_the_same_body_are_separate_objects() -> None:
    first, second = parsed(b'{"batch":5}'), parsed(b'{"batch":5}')
    first.batch -= 1

    assert second.batch == 5


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "batch": st.integers(-10, 10**6),
            "expires": st.integers(0, 10**12),
            "no_wait": st.booleans(),
            "group": st.text(max_size=5),
            "id": st.text(max_size=5),
            "other": st.floats(allow_nan=False, allow_infinity=False),
        },
    )
)
def test_any_object_of_known_kinds_is_read(document: dict[str, object]) -> None:
    request = parsed(json.dumps(document).encode())

    assert request.batch == document.get("batch", 0)
    assert request.expires_ns == document.get("expires", 0)
    assert request.no_wait == document.get("no_wait", False)
    assert (request.group, request.pin_id) == (document.get("group", ""), document.get("id", ""))


@given(st.binary(max_size=50) | st.text(alphabet='{}":,batchexpires10.eE-[] ', max_size=40).map(str.encode))
def test_any_body_is_read_or_refused_with_words(body: bytes) -> None:
    assert parse_pull_request(body)


@pytest.mark.parametrize(
    ("body", "delay_ns"),
    [
        (b"-NAK", None),
        (b"-NAK ", None),
        (b'-NAK {"delay":5}', 5),
        (b'-NAK {"delay":0}', 0),
        (b"-NAK {}", 0),
        (b"-NAK 300ms", 300_000_000),
        (b"-NAK 1x", None),
        (b'-NAK {"delay":"5"}', None),
        (b"-NAK\xff", None),
    ],
)
def test_a_nak_may_carry_a_delay(body: bytes, delay_ns: int | None) -> None:
    assert parse_nak_delay(body) == delay_ns


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"' + b"A" * 1_000_000 + b'"}',
        b'{"' + b"A" * 1_000_000 + b'":1}',
        b'{"id":"' + b'A" ' * 300_000 + b'"}',
        b'{"id"' + b" " * 1_000_000 + b'"}',
        b"{" + b'"A":"' * 200_000 + b"}",
        b'{"batch":' + b"1" * 1_000_000 + b"}",
        b'{"batch":' + b"1e" * 500_000 + b"}",
        b'{"batch":1' + b"0" * 1_000_000 + b".5}",
        b'{"x":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
        b'{"X":' + b'{"a":' * 150_000 + b"1" + b"}" * 150_000 + b"}",
        b"1" * 1_000_000,
        b"-" + b"0" * 1_000_000,
    ],
    ids=lambda body: body[:12].decode(),
)
def test_a_body_of_a_megabyte_is_read_or_refused_in_linear_time(body: bytes) -> None:
    # Quadratic time would be an hour, and the test's time limit ends it.
    assert parse_pull_request(body)


@pytest.mark.long
@pytest.mark.parametrize("text", [b"0s" * 400_000, b"1" * 1_000_000 + b"s", b"0." + b"1" * 1_000_000 + b"s"])
def test_a_nak_delay_of_a_megabyte_is_read_in_linear_time(text: bytes) -> None:
    assert parse_nak_delay(b"-NAK " + text) in (None, 0, 111_111_111)
