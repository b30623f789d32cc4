"""Frames as they leave, the same in both builds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jetspark.protocol.outbox import Outbox

edges = [10**n for n in range(19)] + [10**n - 1 for n in range(1, 19)]
numbers = st.one_of(st.integers(0, 2**62), st.sampled_from(edges))


@given(numbers)
def test_numbers_are_written_as_decimals(number: int) -> None:
    out = Outbox()

    out.put_number_reply(b"r", b"7", b"<", number, b">")

    body = b"<%d>" % number
    assert out.take() == b"MSG r 7 %d\r\n%b\r\n" % (len(body), body)


@given(numbers, numbers, numbers, st.binary(max_size=30))
def test_a_delivery_carries_its_ack_subject(deliveries: int, seq: int, pending: int, payload: bytes) -> None:
    out = Outbox()

    out.put_delivery(b"s", b"1", b"$JS.ACK.S.C.", deliveries, seq, 3, 4, pending, 0, payload)

    reply = b"$JS.ACK.S.C.%d.%d.3.4.%d" % (deliveries, seq, pending)
    assert out.take() == b"MSG s 1 %b %d\r\n%b\r\n" % (reply, len(payload), payload)


@given(st.lists(st.sampled_from([0, 7, 1_763_000_000_123_456_789, 1_763_000_000_123_456_790, 2**62]), max_size=12))
def test_each_delivery_carries_its_own_time_however_often_it_repeats(times_ns: list[int]) -> None:
    out = Outbox()

    for ts_ns in times_ns:
        out.put_delivery(b"s", b"1", b"A.", 1, 2, 3, ts_ns, 5, 0, b"")

    assert out.take() == b"".join(b"MSG s 1 A.1.2.3.%d.5 0\r\n\r\n" % ts_ns for ts_ns in times_ns)


DELIVERIES = st.tuples(
    st.sampled_from([b"a", b"a.b", b"c"]),
    st.sampled_from([b"1", b"22"]),
    st.sampled_from([b"$JS.ACK.S.C.", b"A."]),
    st.sampled_from([1, 1, 1, 2, 10_000]),
    st.sampled_from([0, 9_999, 10_000, 99_999_999, 100_000_000, 2**62]),
    st.sampled_from([0, 1, 4095, 4096, 70_000]),
)


@given(st.lists(DELIVERIES, max_size=12))
def test_no_delivery_takes_anything_from_the_one_before(
    deliveries: list[tuple[bytes, bytes, bytes, int, int, int]],
) -> None:
    out = Outbox()

    for subject, sid, prefix, count, number, size in deliveries:
        out.put_delivery(subject, sid, prefix, count, number, number, number, number, 0, b"x" * size)

    expected = [
        b"MSG %b %b %b%d.%d.%d.%d.%d %d\r\n%b\r\n"
        % (subject, sid, prefix, count, number, number, number, number, size, b"x" * size)
        for subject, sid, prefix, count, number, size in deliveries
    ]
    assert out.take() == b"".join(expected)


def test_a_delivery_with_headers_is_an_hmsg() -> None:
    out = Outbox()

    out.put_delivery(b"s", b"1", b"A.", 1, 2, 3, 4, 5, 12, b"NATS/1.0\r\n\r\nabc")

    assert out.take() == b"HMSG s 1 A.1.2.3.4.5 12 15\r\nNATS/1.0\r\n\r\nabc\r\n"


def test_messages_with_and_without_reply_and_headers() -> None:
    out = Outbox()

    out.put_message(b"a.b", b"9", b"", 0, b"hi")
    out.put_message(b"a.b", b"9", b"r", 0, b"")
    out.put_message(b"a.b", b"9", b"r", 12, b"NATS/1.0\r\n\r\nx")
    out.put(b"PONG\r\n")

    expected = b"MSG a.b 9 2\r\nhi\r\nMSG a.b 9 r 0\r\n\r\nHMSG a.b 9 r 12 13\r\nNATS/1.0\r\n\r\nx\r\nPONG\r\n"
    assert out.size == len(expected)
    assert out.take() == expected
    assert out.size == 0
    assert out.take() == b""
