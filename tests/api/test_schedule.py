"""Schedules: when each form fires."""

import pytest

from jetspark.api.error_codes import ApiError
from jetspark.api.schedule import ScheduleHeaders, check_schedule, parse_schedule
from jetspark.api.stream_config import StreamConfig
from jetspark.api.timestamps import SECOND, format_time, parse_time

NOON = parse_time("2026-11-15T12:00:00Z").unix_ns


def next_fire(pattern: str, zone: str | None = None, after_ns: int = NOON, now_ns: int | None = None) -> str:
    fire_ns = parse_schedule(pattern, zone, NOON).next_fire_ns(after_ns, now_ns)
    assert fire_ns is not None
    return format_time(fire_ns)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("@at 2030-01-01T00:00:00+01:00", "2029-12-31T23:00:00Z"),
        ("@every 90s", "2026-11-15T12:01:30Z"),
        ("@yearly", "2027-01-01T00:00:00Z"),
        ("@annually", "2027-01-01T00:00:00Z"),
        ("@monthly", "2026-12-01T00:00:00Z"),
        ("@weekly", "2026-11-22T00:00:00Z"),
        ("@daily", "2026-11-16T00:00:00Z"),
        ("@midnight", "2026-11-16T00:00:00Z"),
        ("@hourly", "2026-11-15T13:00:00Z"),
        ("0 15 12 * * *", "2026-11-15T12:15:00Z"),
    ],
)
def test_every_form_knows_its_next_time(pattern: str, expected: str) -> None:
    assert next_fire(pattern) == expected


def test_only_an_exact_time_does_not_repeat() -> None:
    assert not parse_schedule("@at 2030-01-01T00:00:00Z", None, NOON).repeats
    assert parse_schedule("@every 1s", None, NOON).repeats
    assert parse_schedule("@daily", None, NOON).repeats


def test_an_interval_counts_from_the_nearest_whole_second() -> None:
    assert next_fire("@every 1s", after_ns=NOON + SECOND // 2 - 1) == "2026-11-15T12:00:01Z"
    assert next_fire("@every 1s", after_ns=NOON + SECOND // 2) == "2026-11-15T12:00:02Z"


def test_times_missed_while_the_server_was_down_fire_once() -> None:
    later = NOON + 3600 * SECOND

    assert next_fire("@every 10s", now_ns=later) == "2026-11-15T13:00:10Z"
    assert next_fire("*/10 * * * * *", now_ns=later) == "2026-11-15T13:00:10Z"
    assert next_fire("@at 2020-01-01T00:00:00Z", now_ns=later) == "2020-01-01T00:00:00Z"


def test_a_zone_belongs_to_patterns_only() -> None:
    assert next_fire("@daily", "Europe/Amsterdam") == "2026-11-15T23:00:00Z"
    with pytest.raises(ApiError) as refused:
        parse_schedule("@every 5s", "Europe/Amsterdam", NOON)
    assert refused.value.err_code == 10189
    with pytest.raises(ApiError) as refused:
        parse_schedule("@daily", "Mars/Olympus", NOON)
    assert refused.value.err_code == 10223


def test_a_field_without_values_is_refused_at_once() -> None:
    with pytest.raises(ApiError) as refused:
        parse_schedule(", * * * * *", None, NOON)

    assert refused.value.err_code == 10189


def test_a_schedule_must_be_aimed_at_another_subject_of_its_stream() -> None:
    config = StreamConfig(name="S", subjects=("s.>",), allow_msg_schedules=True)
    headers = ScheduleHeaders(pattern="@daily", target="s.t")

    assert check_schedule(headers, "s.a", config, NOON) is not None
    with pytest.raises(ApiError, match="target is invalid"):
        check_schedule(headers, "s.t", config, NOON)
