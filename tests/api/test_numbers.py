"""Integers of any length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.api.numbers import BEYOND_64_BITS, bounded_integer


@given(st.integers(-(10**20) + 1, 10**20 - 1), st.integers(0, 5))
def test_a_number_of_twenty_digits_is_read_exactly(number: int, zeros: int) -> None:
    sign = "-" if number < 0 else ""
    assert bounded_integer(f"{sign}{'0' * zeros}{abs(number)}") == number


@pytest.mark.parametrize("length", [21, 4_300, 4_301, 1_000_000])
def test_a_longer_number_is_beyond_every_range(length: int) -> None:
    digits = "9" * length

    assert (bounded_integer(digits), bounded_integer("+" + digits)) == (BEYOND_64_BITS, BEYOND_64_BITS)
    assert bounded_integer("-" + digits) == -BEYOND_64_BITS


def test_zeros_in_front_do_not_count() -> None:
    assert bounded_integer("-" + "0" * 10_000 + "17") == -17
    assert bounded_integer("0" * 10_000) == 0
