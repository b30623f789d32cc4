"""Durations, sizes and counts are read and written as `nats` does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.cli.durations import (
    human_count,
    human_duration,
    human_size,
    human_trip,
    limit,
    parse_duration_ns,
    parse_size_bytes,
)

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("10s", 10 * SECOND),
        ("2m", 120 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1d3h5m2s", (86400 + 3 * 3600 + 302) * SECOND),
        ("1w", 7 * 86400 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("300ms", 300_000_000),
        ("5us", 5_000),
        ("-1s", -SECOND),
        ("7", 7 * SECOND),
    ],
)
def test_a_duration_is_read_in_every_unit(text: str, expected_ns: int) -> None:
    assert parse_duration_ns(text) == expected_ns


@pytest.mark.parametrize("text", ["", "abc", "10 parsecs", "1h!", "s", "1x"])
def test_what_is_no_duration_is_answered_with_one_that_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"write one like 10s, 5m, 2h or 1d12h"):
        parse_duration_ns(text)


@pytest.mark.parametrize(
    ("duration_ns", "expected"),
    [
        (0, "0s"),
        (831_653, "831.653µs"),
        (179_400_000, "179ms"),
        (30 * SECOND, "30.00s"),
        (120 * SECOND, "2m0s"),
        (3600 * SECOND, "1h0m0s"),
        (3600 * SECOND - 2_000, "1h0m0s"),
        (97502 * SECOND, "1d3h5m2s"),
        (400 * 86400 * SECOND, "1y35d0h0m0s"),
        (-SECOND, "-1.00s"),
    ],
)
def test_a_duration_is_written_as_nats_writes_it(duration_ns: int, expected: str) -> None:
    assert human_duration(duration_ns) == expected


@pytest.mark.parametrize(
    ("duration_ns", "expected"),
    [(0, "0.0µs"), (147_240, "147.2µs"), (1_591_339, "1.59ms"), (999_990_000, "999.99ms"), (1_204_000_000, "1.20s")],
)
def test_a_round_trip_keeps_what_a_duration_rounds_away(duration_ns: int, expected: str) -> None:
    assert human_trip(duration_ns) == expected


@given(st.integers(min_value=60, max_value=10**9))
def test_what_is_written_of_a_minute_and_more_reads_back(seconds: int) -> None:
    assert parse_duration_ns(human_duration(seconds * SECOND)) == seconds * SECOND


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("512", 512),
        ("1KB", 1024),
        ("64KiB", 65536),
        ("1.5m", 1572864),
        ("1GB", 1 << 30),
        ("-1", -1),
        ("2 TiB", 2 << 40),
    ],
)
def test_a_size_is_read_in_binary_units(text: str, expected: int) -> None:
    assert parse_size_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "big", "-2", "1XB"])
def test_what_is_no_size_is_answered_with_one_that_is(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size; write one like"):
        parse_size_bytes(text)


@pytest.mark.parametrize(
    ("size_bytes", "expected"), [(53, "53 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (134217728, "128 MiB")]
)
def test_a_size_is_written_in_binary_units(size_bytes: int, expected: str) -> None:
    assert human_size(size_bytes) == expected


def test_counts_have_separators_and_no_limit_is_a_word() -> None:
    assert human_count(1000000) == "1,000,000"
    assert (limit(-1), limit(0), limit(1000)) == ("unlimited", "unlimited", "1,000")
