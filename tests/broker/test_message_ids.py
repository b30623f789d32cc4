"""Messages with an id: the short way through a plain stream decides as the long way does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.broker.dedupe import DedupeWindow
from jetspark.broker.publish import HEADER_SIZE_MAX, message_id_native, message_id_plain, plain_message_id
from jetspark.testing.broker_driver import BrokerDriver, FakeConnection

START = b"NATS/1.0\r\n"


@pytest.mark.parametrize(
    ("header", "message_id"),
    [
        (START + b"\r\n", b""),
        (START + b"Colour: red\r\n\r\n", b""),
        (START + b"Nats-Msg-Id: 1\r\n\r\n", b"1"),
        (START + b"Nats-Msg-Id:1\r\n\r\n", b"1"),
        (START + b"Nats-Msg-Id:   a b \r\n\r\n", b"a b "),
        (START + b"Nats-Msg-Id:\r\n\r\n", b""),
        (START + b"Colour: red\r\nNats-Msg-Id: 1\r\nSize: 2\r\n\r\n", b"1"),
        (START + b"nats-msg-id: 1\r\n\r\n", b""),
        (START + b"X-Nats-Msg-Id: 1\r\n\r\n", b""),
        # Everything else is looked at closely.
        (b"NATS/1.0 503\r\nNats-Msg-Id: 1\r\n\r\n", None),
        (START + b"Nats-Msg-Id: 1\r\nNats-Msg-Id: 2\r\n\r\n", None),
        (START + b"Nats-Msg-Id: 1\r\nNats-TTL: 1s\r\n\r\n", None),
        (START + b"Nats-Rollup: all\r\n\r\n", None),
        (START + b"Nats-Msg-Id\r\n\r\n", None),
        (START + b"Nats-Msg-Id-More: 1\r\n\r\n", None),
        (START + b"Nats-Msg-Id: 1", None),
        (START + b"A: " + b"x" * HEADER_SIZE_MAX + b"\r\n\r\n", None),
    ],
)
def test_which_headers_ask_for_no_more_than_an_id(header: bytes, message_id: bytes | None) -> None:
    assert plain_message_id(header) == message_id


LINES = st.sampled_from(
    [
        b"Nats-Msg-Id: 1",
        b"Nats-Msg-Id:",
        b"Nats-Msg-Id:  x y",
        b"Nats-TTL: 1",
        b"Nats-",
        b"A: b",
        b"",
        b"\r",
        b"\n",
        b"Na",
    ]
)


@given(st.lists(LINES, max_size=5), st.sampled_from([b"", b"\r\n", b"\r\n\r\n", b"\r"]))
def test_both_bodies_read_the_same_id(lines: list[bytes], end: bytes) -> None:
    header = START + b"\r\n".join(lines) + end

    assert message_id_native(header) == message_id_plain(header)


def publish(client: FakeConnection, headers: dict[str, str], payload: bytes = b"x") -> bytes:
    answer = client.request("s.a", payload, headers=headers)
    assert answer is not None
    return answer.data


# A header that asks for nothing but sends a message the long way.
LONG = {"Nats-Expected-Stream": ""}


@pytest.mark.parametrize("first", [{}, LONG], ids=["short", "long"])
@pytest.mark.parametrize("second", [{}, LONG], ids=["short", "long"])
@pytest.mark.parametrize("storage", ["file", "memory"])
def test_both_ways_know_the_same_ids(first: dict[str, str], second: dict[str, str], storage: str) -> None:
    client = BrokerDriver().connect()
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"], "storage": storage})

    answers = [
        publish(client, {"Nats-Msg-Id": "1", **first}),
        publish(client, {"Nats-Msg-Id": "1", **second}),
        publish(client, {"Nats-Msg-Id": "2", **second}),
        publish(client, {"Nats-Expected-Last-Msg-Id": "2"}),
        publish(client, {"Colour": "red", **second}),
        publish(client, {"Nats-Expected-Last-Msg-Id": "2"}),
    ]

    assert answers[:5] == [
        b'{"stream":"S","seq":1}',
        b'{"stream":"S","seq":1,"duplicate": true}',
        b'{"stream":"S","seq":2}',
        b'{"stream":"S","seq":3}',
        b'{"stream":"S","seq":4}',
    ]
    assert b'"err_code":10070' in answers[5]


def test_an_id_is_forgotten_when_its_window_is_over_and_not_before() -> None:
    window = DedupeWindow(100)
    for number in range(10):
        window.remember(b"%d" % number, number + 1, number * 20)

    assert [window.find(b"%d" % number, 185) for number in range(10)] == [0, 0, 0, 0, 0, 6, 7, 8, 9, 10]
    # Those past the window went as others came.
    assert window.size() == 5

    window.remember(b"5", 11, 190)
    window.remember(b"x", 12, 205)

    assert window.find(b"5", 205) == 11
    window.window_ns = 10
    window.remember(b"y", 13, 206)
    assert window.size() == 2
