"""The gap check of ordered consumers: both of its bodies, on both forms of the acknowledgement subject."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.client.core import ordered
from jetspark.client.core.ordered import OrderCheck

SUBJECTS = st.one_of(
    st.tuples(st.sampled_from(["", "hub.acc.", "_.acc."]), st.integers(0, 12), st.sampled_from(["", ".x", ".x.y"])).map(
        lambda parts: f"$JS.ACK.{parts[0]}S.C.1.77.{parts[1]}.123.5{parts[2]}".encode()
    ),
    st.binary(max_size=30),
)


@given(SUBJECTS, st.integers(1, 12))
def test_both_bodies_judge_alike(reply: bytes, expected: int) -> None:
    assert ordered._is_delivery(reply, expected) == ordered._is_delivery_plain(reply, expected)


@pytest.mark.parametrize("domain", ["", "hub.acc."])
def test_the_next_delivery_is_accepted_and_a_gap_is_not(domain: str) -> None:
    check = OrderCheck()
    assert check.accept(f"$JS.ACK.{domain}S.C.1.10.1.5.3".encode())
    assert not check.accept(f"$JS.ACK.{domain}S.C.1.12.3.5.1".encode())
    assert check.accept(f"$JS.ACK.{domain}S.C.1.11.2.5.2".encode())
    assert (check.stream_sequence, check.consumer_sequence) == (11, 2)
    check.restart()
    assert check.accept(f"$JS.ACK.{domain}S.D.1.12.1.5.1".encode())
