"""Header blocks and unique names."""

from __future__ import annotations

import random

from jetspark.protocol import headers
from jetspark.protocol.nuid import ALPHABET, Nuid

BLOCK = b"NATS/1.0\r\nNats-Msg-Id: 7\r\nA:  b \r\nA: c\r\n\r\n"


def test_look_up_is_exact_the_first_wins_and_only_leading_spaces_go() -> None:
    assert headers.find_value(BLOCK, b"Nats-Msg-Id") == b"7"
    assert headers.find_value(BLOCK, b"nats-msg-id") is None
    assert headers.find_value(BLOCK, b"A") == b"b "
    assert headers.find_value(BLOCK, b"Msg-Id") is None


def test_pairs_come_in_order() -> None:
    assert headers.parse(BLOCK) == [(b"Nats-Msg-Id", b"7"), (b"A", b"b"), (b"A", b"c")]
    assert headers.parse(headers.build([(b"x", b"1")])) == [(b"x", b"1")]


def test_status_lines() -> None:
    assert headers.status_block(404, b"No Messages", []) == b"NATS/1.0 404 No Messages\r\n\r\n"
    assert headers.status_block(503, b"", [(b"K", b"v")]) == b"NATS/1.0 503\r\nK: v\r\n\r\n"


def test_lines_are_added_after_those_already_there() -> None:
    assert headers.append_headers(b"", [(b"K", b"v")]) == b"NATS/1.0\r\nK: v\r\n\r\n"
    assert headers.append_headers(BLOCK, [(b"K", b"v")]) == BLOCK[:-2] + b"K: v\r\n\r\n"


def test_lines_are_removed_by_name_and_prefix_and_nothing_left_is_no_block() -> None:
    assert headers.remove_headers(BLOCK, [b"A"], []) == b"NATS/1.0\r\nNats-Msg-Id: 7\r\n\r\n"
    assert headers.remove_headers(BLOCK, [b"A"], [b"Nats-"]) == b""


def test_a_status_is_not_stored() -> None:
    assert headers.without_status(b"NATS/1.0 503 Foo\r\nA: b\r\n\r\n") == b"NATS/1.0\r\nA: b\r\n\r\n"
    assert headers.without_status(BLOCK) == BLOCK


def test_names_have_22_letters_and_do_not_repeat() -> None:
    nuid = Nuid(random.Random(1).randbytes)

    names = [nuid.next() for _ in range(1000)]

    assert len(set(names)) == 1000
    assert all(len(name) == 22 and set(name) <= set(ALPHABET) for name in names)


def test_the_same_randomness_gives_the_same_names() -> None:
    assert Nuid(random.Random(2).randbytes).next() == Nuid(random.Random(2).randbytes).next()
    assert len(Nuid(random.Random(2).randbytes).short(4)) == 4
