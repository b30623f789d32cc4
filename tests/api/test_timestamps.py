"""Times and durations in the wire's spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.api.timestamps import (
    DAY,
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    ZERO_TIME_NS,
    ZERO_TIME_TEXT,
    WireTime,
    format_duration,
    format_time,
    parse_duration,
    parse_time,
)

NANOSECONDS = st.integers(min_value=ZERO_TIME_NS, max_value=parse_time("9999-12-31T00:00:00Z").unix_ns)


@pytest.mark.parametrize(
    ("unix_ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (500 * MILLISECOND, "1970-01-01T00:00:00.5Z"),
        (1_794_772_170_141_554_578, "2026-11-15T19:49:30.141554578Z"),
        (1_794_772_170_140_000_000, "2026-11-15T19:49:30.14Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (ZERO_TIME_NS, ZERO_TIME_TEXT),
        (951_782_400 * SECOND, "2000-02-29T00:00:00Z"),
    ],
)
def test_times_are_written_with_trimmed_fractions_in_utc(unix_ns: int, text: str) -> None:
    assert format_time(unix_ns) == text
    assert parse_time(text).unix_ns == unix_ns


@pytest.mark.parametrize(
    ("sent", "instant", "echoed"),
    [
        ("2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00Z", "2026-01-01T02:00:00+02:00"),
        ("2025-12-31T16:30:00.50-07:30", "2026-01-01T00:00:00.5Z", "2025-12-31T16:30:00.5-07:30"),
        ("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00,25Z", "2026-01-01T00:00:00.25Z", "2026-01-01T00:00:00.25Z"),
        ("2026-01-01T00:00:00.1234567899Z", "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00.123456789Z"),
    ],
)
def test_a_time_is_compared_by_instant_and_echoed_in_its_own_zone(sent: str, instant: str, echoed: str) -> None:
    parsed = parse_time(sent)

    assert parsed == parse_time(instant)
    assert str(parsed) == echoed


@pytest.mark.parametrize("text", ["", "x", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00"])
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="parsing time"):
        parse_time(text)


@pytest.mark.long
@given(NANOSECONDS, st.integers(min_value=-23 * 60, max_value=23 * 60))
def test_every_time_survives_writing_and_reading(unix_ns: int, offset_minutes: int) -> None:
    if unix_ns < ZERO_TIME_NS + DAY:
        offset_minutes = 0
    time = WireTime(unix_ns, offset_minutes * 60)

    again = parse_time(str(time))

    assert (again.unix_ns, again.offset_seconds) == (time.unix_ns, time.offset_seconds)


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1500, "1.5µs"),
        (500 * MILLISECOND, "500ms"),
        (1_234_567, "1.234567ms"),
        (SECOND, "1s"),
        (1500 * MILLISECOND, "1.5s"),
        (MINUTE, "1m0s"),
        (HOUR, "1h0m0s"),
        (HOUR + 2 * MINUTE + 3 * SECOND + 500 * MILLISECOND, "1h2m3.5s"),
        (100 * HOUR, "100h0m0s"),
        (-5 * SECOND, "-5s"),
        (-(1 << 63), "-2562047h47m16.854775808s"),
    ],
)
def test_durations_are_written_as_go_writes_them(duration_ns: int, text: str) -> None:
    assert format_duration(duration_ns) == text
    assert parse_duration(text) == duration_ns


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("1h2m", HOUR + 2 * MINUTE),
        ("+5s", 5 * SECOND),
        ("0", 0),
        ("-0", 0),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("1us", 1000),
        ("1μs", 1000),
        ("2m1h", HOUR + 2 * MINUTE),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, duration_ns: int) -> None:
    assert parse_duration(text) == duration_ns


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "invalid duration"),
        ("-", "invalid duration"),
        ("5", "missing unit in duration"),
        ("1d", 'unknown unit "d" in duration'),
        (".s", "invalid duration"),
        ("s", "invalid duration"),
        ("1 s", 'unknown unit " s" in duration'),
        ("10000000h", "invalid duration"),
    ],
)
def test_what_is_not_a_duration_is_refused_in_gos_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_duration(text)


@pytest.mark.long
@given(st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1))
def test_every_duration_survives_writing_and_reading(duration_ns: int) -> None:
    assert parse_duration(format_duration(duration_ns)) == duration_ns


def test_the_zero_time_means_not_set() -> None:
    assert parse_time(ZERO_TIME_TEXT).is_zero
    assert not WireTime(0).is_zero
