"""The frames of messages: both bodies that make them say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.client.core.ack_tally import place_in
from jetspark.client.core.frames import (
    FrameMaker,
    block_frames,
    block_frames_native,
    block_frames_plain,
    publish_plain,
)

WORDS = st.binary(min_size=1, max_size=30)
MAKER = FrameMaker()


@given(WORDS, st.one_of(st.just(b""), WORDS), st.one_of(st.just(b""), WORDS), st.binary(max_size=300))
def test_both_bodies_make_the_same_frame(subject: bytes, reply: bytes, block: bytes, data: bytes) -> None:
    assert MAKER.publish_native(subject, reply, block, data) == publish_plain(subject, reply, block, data)


def test_a_large_message_is_one_frame_too() -> None:
    data = bytes(100_000)
    assert MAKER.publish(b"a", b"r", b"", data) == b"PUB a r 100000\r\n" + data + b"\r\n"
    assert MAKER.publish(b"a", b"", b"h", b"x" * 12_345) == b"HPUB a 1 12346\r\nh" + b"x" * 12_345 + b"\r\n"


BLOCKS = st.sampled_from([b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nColour: red\r\n\r\n"])


@given(st.lists(st.tuples(WORDS, BLOCKS, st.binary(max_size=200), WORDS), max_size=12), st.booleans())
def test_both_bodies_make_the_same_block(rows: list[tuple[bytes, bytes, bytes, bytes]], has_ids: bool) -> None:
    subjects, blocks, payloads = ([row[part] for row in rows] for part in range(3))
    ids = [row[3] for row in rows] if has_ids else []

    made = block_frames_native(b"_INBOX.x.", subjects, blocks, payloads, ids)

    assert made == block_frames_plain(b"_INBOX.x.", subjects, blocks, payloads, ids)


def test_a_block_carries_ids_in_its_headers_and_places_in_its_replies() -> None:
    blocks = [b"", b"NATS/1.0\r\nColour: red\r\n\r\n"]

    assert block_frames(b"I.", [b"s.a", b"s.b"], blocks, [b"one", b""], [b"1", b"22"]) == (
        b"HPUB s.a I.0 28 31\r\nNATS/1.0\r\nNats-Msg-Id: 1\r\n\r\none\r\n"
        b"HPUB s.b I.1 42 42\r\nNATS/1.0\r\nColour: red\r\nNats-Msg-Id: 22\r\n\r\n\r\n"
    )
    assert block_frames(b"I.", [b"s.a"], [b""], [b"x"], []) == b"PUB s.a I.0 1\r\nx\r\n"


@pytest.mark.parametrize(
    ("token", "place"),
    [(b"0", 0), (b"7", 7), (b"99", 99), (b"100", 100), (b"", 100), (b"x", 100), (b"1x", 100), (b"-1", 100),
     (b"9" * 10, 100), (b"9" * 30, 100)],
)  # fmt: skip
def test_the_place_of_an_answer_is_read_from_its_subject(token: bytes, place: int) -> None:
    assert place_in(b"I." + token, 2, 100) == place
