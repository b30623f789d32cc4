"""The frames of messages: both bodies that make them say the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jetspark.client.core.frames import FrameMaker, publish_plain

WORDS = st.binary(min_size=1, max_size=30)
MAKER = FrameMaker()


@given(WORDS, st.one_of(st.just(b""), WORDS), st.one_of(st.just(b""), WORDS), st.binary(max_size=300))
def test_both_bodies_make_the_same_frame(subject: bytes, reply: bytes, block: bytes, data: bytes) -> None:
    assert MAKER.publish_native(subject, reply, block, data) == publish_plain(subject, reply, block, data)


def test_a_large_message_is_one_frame_too() -> None:
    data = bytes(100_000)
    assert MAKER.publish(b"a", b"r", b"", data) == b"PUB a r 100000\r\n" + data + b"\r\n"
    assert MAKER.publish(b"a", b"", b"h", b"x" * 12_345) == b"HPUB a 1 12346\r\nh" + b"x" * 12_345 + b"\r\n"
