"""Scheduled messages: when they fire, and which headers make one.

Decided here: the forms of the `Nats-Schedule` header, the next time each fires, and the checks of the headers beside
it, in nats-server's order.
Not known here: the current time (an argument), and the storing and publishing.

| form | fires |
|---|---|
| `@at 2030-01-01T00:00:00Z` | once |
| `@every 5s` | again and again, a second or more apart |
| `@yearly` `@annually` `@monthly` `@weekly` `@daily` `@midnight` `@hourly` | at the start of each |
| six cron fields, seconds first | whenever they fit, in the zone of `Nats-Schedule-Time-Zone` or UTC |
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from jetspark.api.cron import CronPattern
from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.message_ttl import parse_message_ttl
from jetspark.api.stream_config import StreamConfig
from jetspark.api.timestamps import SECOND, format_time, parse_duration, parse_time
from jetspark.protocol.subjects import collides, is_literal

_PREDEFINED: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}


class Schedule:
    """When a message fires. Make one with `parse_schedule`."""

    def __init__(
        self, *, at_ns: int | None = None, every_ns: int = 0, cron: CronPattern | None = None, zone: tzinfo = UTC
    ) -> None:
        self._at_ns = at_ns
        self._every_ns = every_ns
        self._cron = cron
        self._zone = zone

    @property
    def repeats(self) -> bool:
        """Whether there is another time after the next."""
        return self._at_ns is None

    def next_fire_ns(self, after_ns: int, now_ns: int | None = None) -> int | None:
        """The next time after an instant: the storing of the schedule, or its last firing.

        With `now_ns`, times that passed meanwhile (the server was down) are skipped, so that a repeating schedule
        fires once and not once for each. None when a pattern has no time within five years.
        """
        if self._at_ns is not None:
            return self._at_ns
        fire_ns = self._following(after_ns)
        if fire_ns is not None and now_ns is not None and fire_ns < now_ns:
            fire_ns = self._following(_round_to_second(now_ns))
        return fire_ns

    def resumed_fire_ns(self, base_ns: int, alive_ns: int) -> int | None:
        """The next time after a restart: reckoned from a base (the storing, or a time it was to fire at), and with
        everything up to `alive_ns` fired already because the server was there to do it."""
        if self._at_ns is not None:
            return self._at_ns
        if self._cron is None:
            first_ns = _round_to_second(base_ns) + self._every_ns
            missed = max(0, (alive_ns - first_ns) // self._every_ns + 1)
            return first_ns + missed * self._every_ns
        return self._cron.next_fire_ns(max(base_ns, alive_ns), self._zone)

    def format_fire(self, fire_ns: int) -> str:
        """A time to fire as headers show it: in the schedule's own zone."""
        offset = datetime.fromtimestamp(fire_ns // SECOND, self._zone).utcoffset()
        return format_time(fire_ns, 0 if offset is None else int(offset.total_seconds()))

    def _following(self, after_ns: int) -> int | None:
        if self._cron is None:
            return _round_to_second(after_ns) + self._every_ns
        return self._cron.next_fire_ns(after_ns, self._zone)


def _round_to_second(time_ns: int) -> int:
    return (time_ns + SECOND // 2) // SECOND * SECOND


def _bad_pattern() -> ApiError:
    return make(ErrorCode.MESSAGE_SCHEDULES_PATTERN_INVALID)


@lru_cache(maxsize=64)
def _find_zone(name: str) -> tzinfo:
    # "Local" is the zone of the server's machine. A stream should not fire differently elsewhere, so here it is UTC.
    if name in ("UTC", "Local"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise make(ErrorCode.MESSAGE_SCHEDULES_TIME_ZONE_INVALID) from None


def parse_schedule(pattern: str, time_zone: str | None, now_ns: int) -> Schedule:
    """Read a `Nats-Schedule` value; `time_zone` is None when its header is absent. `ApiError` 10189 or 10223.

    The current time decides whether a cron pattern has a time to come at all.
    """
    zone = None if time_zone is None else _find_zone(time_zone)
    if pattern.startswith(("@at ", "@every ")):
        if zone is not None:
            raise _bad_pattern()
        return _parse_plain(pattern)
    try:
        cron = CronPattern.parse(_PREDEFINED.get(pattern, pattern))
    except ValueError:
        raise _bad_pattern() from None
    schedule = Schedule(cron=cron, zone=zone or UTC)
    if schedule.next_fire_ns(now_ns) is None:
        raise _bad_pattern()
    return schedule


def _parse_plain(pattern: str) -> Schedule:
    keyword, _, value = pattern.partition(" ")
    try:
        if keyword == "@at":
            return Schedule(at_ns=parse_time(value).unix_ns)
        every_ns = parse_duration(value)
    except ValueError:
        raise _bad_pattern() from None
    if every_ns < SECOND:
        raise _bad_pattern()
    return Schedule(every_ns=every_ns)


@dataclass(frozen=True, kw_only=True)
class ScheduleHeaders:
    """The headers of a message that is to be a schedule; None where a header is absent."""

    pattern: str
    time_zone: str | None = None
    ttl: str = ""
    rollup: str = ""
    target: str = ""
    source: str = ""
    message_rollup: str = ""
    """The message's own `Nats-Rollup`, in lower case."""


def check_schedule(headers: ScheduleHeaders, subject: str, config: StreamConfig, now_ns: int) -> Schedule | None:
    """The schedule a message sets on its subject, or the error; None for an empty pattern, which is no schedule."""
    if not headers.pattern:
        _check_lone_zone(headers.time_zone, config)
        return None
    if not config.allow_msg_schedules:
        raise make(ErrorCode.MESSAGE_SCHEDULES_DISABLED)
    schedule = parse_schedule(headers.pattern, headers.time_zone, now_ns)
    _check_ttl_and_rollup(headers, config)
    _check_target(headers, subject, config)
    if headers.message_rollup not in ("", "sub"):
        raise make(ErrorCode.MESSAGE_SCHEDULES_ROLLUP_INVALID)
    return schedule


def _check_lone_zone(time_zone: str | None, config: StreamConfig) -> None:
    """A zone without a pattern means nothing, but it must exist."""
    if time_zone is None:
        return
    try:
        _find_zone(time_zone)
    except ApiError:
        if not config.allow_msg_schedules:
            raise make(ErrorCode.MESSAGE_SCHEDULES_DISABLED) from None
        raise


def _check_ttl_and_rollup(headers: ScheduleHeaders, config: StreamConfig) -> None:
    try:
        parse_message_ttl(headers.ttl)
    except ApiError:
        raise make(ErrorCode.MESSAGE_SCHEDULES_TTL_INVALID) from None
    if headers.rollup not in ("", "sub"):
        raise make(ErrorCode.MESSAGE_SCHEDULES_ROLLUP_INVALID)
    if headers.ttl and not config.allow_msg_ttl:
        raise make(ErrorCode.MESSAGE_TTL_DISABLED)


def _check_target(headers: ScheduleHeaders, subject: str, config: StreamConfig) -> None:
    target = headers.target
    source = headers.source
    if target == subject or not is_literal(target.encode()):
        raise make(ErrorCode.MESSAGE_SCHEDULES_TARGET_INVALID)
    if source and (source in (target, subject) or not is_literal(source.encode())):
        raise make(ErrorCode.MESSAGE_SCHEDULES_SOURCE_INVALID)
    if not _is_captured(target, config):
        raise make(ErrorCode.MESSAGE_SCHEDULES_TARGET_INVALID)
    if source and not _is_captured(source, config):
        raise make(ErrorCode.MESSAGE_SCHEDULES_SOURCE_INVALID)


def _is_captured(subject: str, config: StreamConfig) -> bool:
    return any(collides(captured.encode(), subject.encode()) for captured in config.subjects)
