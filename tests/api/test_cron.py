"""Cron patterns: the next time is the first second that fits."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetspark.api.cron import CronPattern
from jetspark.api.timestamps import SECOND, format_time, parse_time


def following(pattern: str, after: str, zone: str = "UTC", count: int = 1) -> list[str]:
    cron = CronPattern.parse(pattern)
    times = []
    time_ns: int | None = parse_time(after).unix_ns
    for _ in range(count):
        assert time_ns is not None
        time_ns = cron.next_fire_ns(time_ns, ZoneInfo(zone))
        assert time_ns is not None
        times.append(format_time(time_ns))
    return times


@pytest.mark.parametrize(
    ("pattern", "after", "expected"),
    [
        ("* * * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
        ("* * * * * *", "2026-01-01T00:00:00.9Z", "2026-01-01T00:00:01Z"),
        ("0 0 0 * * *", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("*/15 * * * * *", "2026-01-01T00:00:16Z", "2026-01-01T00:00:30Z"),
        ("5/20 * * * * *", "2026-01-01T00:00:46Z", "2026-01-01T00:01:05Z"),
        ("0 30 8-10 * * *", "2026-01-01T10:30:00Z", "2026-01-02T08:30:00Z"),
        ("0 0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 0 * * sun", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("0 0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("0 0 0 */2 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("0 0 0 1 jan,jul *", "2026-02-01T00:00:00Z", "2026-07-01T00:00:00Z"),
        ("59 59 23 31 12 *", "2026-12-31T23:59:59Z", "2027-12-31T23:59:59Z"),
    ],
)
def test_the_next_time_fits_the_pattern(pattern: str, after: str, expected: str) -> None:
    assert following(pattern, after) == [expected]


def test_hours_are_those_of_the_zone() -> None:
    assert following("0 0 9 * * *", "2026-01-01T00:00:00Z", "America/New_York") == ["2026-01-01T14:00:00Z"]
    assert following("0 0 9 * * *", "2026-07-01T00:00:00Z", "America/New_York") == ["2026-07-01T13:00:00Z"]
    assert following("0 0 0 * * *", "2026-01-01T00:00:00Z", "Asia/Kolkata", 2) == [
        "2026-01-01T18:30:00Z",
        "2026-01-02T18:30:00Z",
    ]


def test_an_hour_skipped_in_spring_does_not_fire() -> None:
    assert following("0 30 2 * * *", "2026-03-28T12:00:00Z", "Europe/Amsterdam", 2) == [
        "2026-03-30T00:30:00Z",
        "2026-03-31T00:30:00Z",
    ]


def test_an_hour_repeated_in_autumn_fires_twice() -> None:
    assert following("0 30 2 * * *", "2026-10-24T12:00:00Z", "Europe/Amsterdam", 3) == [
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:30:00Z",
        "2026-10-26T01:30:00Z",
    ]


def test_a_date_that_never_comes_has_no_next_time() -> None:
    assert CronPattern.parse("0 0 0 30 2 *").next_fire_ns(0) is None


@pytest.mark.parametrize("pattern", ["", "* * * * *", ", * * * * *", "*/0 * * * * *", "1-0 * * * * *", "x * * * * *"])
def test_what_is_not_a_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        CronPattern.parse(pattern)


# Each text with the values it stands for, spelt out by hand.
MINUTES = {"*": range(60), "0": [0], "5-7": [5, 6, 7], "*/20": [0, 20, 40], "50/4": [50, 54, 58], "1,59": [1, 59]}
HOURS = {"*": range(24), "3": [3], "22-23": [22, 23], "*/7": [0, 7, 14, 21]}
DAYS = {"*": range(1, 32), "?": range(1, 32), "15": [15], "*/10": [1, 11, 21, 31], "30,31": [30, 31]}
MONTHS = {"*": range(1, 13), "feb": [2], "6-8": [6, 7, 8]}
WEEKDAYS = {"*": range(7), "0": [0], "mon-wed": [1, 2, 3]}


def fits(time: datetime, texts: tuple[str, ...]) -> bool:
    """The rules of cron, written the other way round: does this minute fit?"""
    minute, hour, day, month, weekday = texts
    if not (time.minute in MINUTES[minute] and time.hour in HOURS[hour] and time.month in MONTHS[month]):
        return False
    day_fits = time.day in DAYS[day]
    weekday_fits = (time.weekday() + 1) % 7 in WEEKDAYS[weekday]
    if day in ("*", "?") or weekday == "*":
        return day_fits and weekday_fits
    return day_fits or weekday_fits


@settings(max_examples=40)
@given(
    st.tuples(*(st.sampled_from(sorted(field)) for field in (MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS))),
    st.integers(min_value=0, max_value=365 * 24 * 60),
)
def test_the_next_time_is_the_first_minute_that_fits(texts: tuple[str, ...], start_minute: int) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=start_minute)
    found_ns = CronPattern.parse(f"0 {' '.join(texts)}").next_fire_ns(int(start.timestamp()) * SECOND)
    assert found_ns is not None
    found = datetime.fromtimestamp(found_ns // SECOND, UTC)

    assert fits(found, texts)
    # The three days before it hold no other; going back to the start each time would take minutes.
    earlier = max(start, found - timedelta(days=3)) + timedelta(minutes=1)
    while earlier < found:
        assert not fits(earlier, texts)
        earlier += timedelta(minutes=1)
