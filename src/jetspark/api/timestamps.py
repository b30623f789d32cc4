"""Times and durations as JetStream writes them.

Decided here: RFC 3339 text with up to nine fraction digits, and Go's duration text (`1m0s`, `500ms`).
Not known here: what time it is. Every instant comes in as unix nanoseconds.

`datetime` stops at microseconds and Go's zero time lies before its own zone arithmetic, so the calendar is computed
on integers; `datetime.date` is only used for its day numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Final

from jetspark.api.numbers import bounded_integer

NANOSECOND: Final = 1
MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
ZERO_TIME_NS: Final = (1 - _EPOCH_DAY) * DAY
"""Go's zero time, the first instant of year 1: how the wire says "never"."""

ZERO_TIME_TEXT: Final = "0001-01-01T00:00:00Z"
_DAYS_OF_400_YEARS: Final = 146_097
_FIRST_NS: Final = ZERO_TIME_NS - 366 * DAY
_LAST_NS: Final = (date(9999, 12, 31).toordinal() - _EPOCH_DAY + 1) * DAY - 1
_MAX_DURATION_NS: Final = (1 << 63) - 1


@lru_cache(maxsize=64)
def _format_day(day: int) -> str:
    """The date of a day counted from 1970; most times of a moment share theirs."""
    ordinal = day + _EPOCH_DAY
    year_0 = ordinal < 1  # `date` begins with year 1; the calendar repeats every 400 years
    calendar = date.fromordinal(ordinal + _DAYS_OF_400_YEARS if year_0 else ordinal)
    return f"{calendar.year - 400 * year_0:04d}-{calendar.month:02d}-{calendar.day:02d}T"


def format_time(unix_ns: int, offset_seconds: int = 0) -> str:
    """RFC 3339 with trailing zeros of the fraction trimmed; `Z` when the zone is UTC."""
    seconds, fraction = divmod(unix_ns, SECOND)
    day, second_of_day = divmod(seconds + offset_seconds, 86_400)
    minutes, second = divmod(second_of_day, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{_format_day(day)}{hour:02d}:{minute:02d}:{second:02d}"
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    if offset_seconds == 0:
        return text + "Z"
    sign = "-" if offset_seconds < 0 else "+"
    offset_minutes = abs(offset_seconds) // 60
    return f"{text}{sign}{offset_minutes // 60:02d}:{offset_minutes % 60:02d}"


_TIME_PATTERN: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(Z|([+-])(\d\d):(\d\d))", re.ASCII
)


@dataclass(frozen=True, slots=True, order=True)
class WireTime:
    """An instant as a peer sent it: compared by instant, written back with the zone it came with."""

    unix_ns: int
    offset_seconds: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return format_time(self.unix_ns, self.offset_seconds)

    @property
    def is_zero(self) -> bool:
        """Whether this is Go's zero time, the wire's way to say "not set"."""
        return self.unix_ns == ZERO_TIME_NS


def parse_time(text: str) -> WireTime:
    """Read RFC 3339 text; `ValueError` carries the sentence nats-server answers with."""
    match = _TIME_PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(_explain_bad_time(text))
    year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
    try:
        ordinal = date(year or 400, month, day).toordinal() - (0 if year else _DAYS_OF_400_YEARS)
    except ValueError:
        which = "month" if not 1 <= month <= 12 else "day"
        raise ValueError(f'parsing time "{text}": {which} out of range') from None
    for value, limit, which in ((hour, 24, "hour"), (minute, 60, "minute"), (second, 60, "second")):
        if value >= limit:
            raise ValueError(f'parsing time "{text}": {which} out of range')
    fraction = int((match[7] or "0")[:9].ljust(9, "0"))
    offset = 0
    if match[8] != "Z":
        for value, limit, which in ((int(match[10]), 24, "hour"), (int(match[11]), 60, "minute")):
            if value > limit:
                raise ValueError(f'parsing time "{text}": time zone offset {which} out of range')
        offset = int(match[10]) * 3600 + int(match[11]) * 60
        if match[9] == "-":
            offset = -offset
    day_ns = ((hour * 60 + minute) * 60 + second) * SECOND + fraction
    unix_ns = (ordinal - _EPOCH_DAY) * DAY + day_ns - offset * SECOND
    return WireTime(min(max(unix_ns, _FIRST_NS), _LAST_NS), offset)


_LAYOUT: Final = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d?"),  # Go takes an hour of one digit
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d(?:[.,]\d+)?"),
    ("Z07:00", r"Z|[+-]\d\d:\d\d"),
)


def _explain_bad_time(text: str) -> str:
    """Name the first part of the layout the text does not follow, as Go's `time.Parse` does."""
    rest = text
    for element, pattern in _LAYOUT:
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{rest}" as "{element}"'
        rest = rest[match.end() :]
    return f'parsing time "{text}": extra text: "{rest}"'


def format_duration(duration_ns: int) -> str:
    """Go's `Duration.String`: `1h2m3.5s`, and below a second `1.5ms`, `2µs`, `3ns`; zero is `0s`."""
    if duration_ns == 0:
        return "0s"
    sign = "-" if duration_ns < 0 else ""
    value = abs(duration_ns)
    if value < SECOND:
        for unit_ns, unit in ((MILLISECOND, "ms"), (MICROSECOND, "µs"), (NANOSECOND, "ns")):
            if value >= unit_ns:
                return sign + _with_fraction(value, unit_ns) + unit
    minutes, rest_ns = divmod(value, MINUTE)
    hours, minutes_left = divmod(minutes, 60)
    text = _with_fraction(rest_ns, SECOND) + "s"
    if minutes:
        text = f"{minutes_left}m{text}"
    if hours:
        text = f"{hours}h{text}"
    return sign + text


def _with_fraction(value: int, unit_ns: int) -> str:
    whole, fraction = divmod(value, unit_ns)
    if fraction == 0:
        return str(whole)
    digits = len(str(unit_ns)) - 1
    return f"{whole}.{fraction:0{digits}d}".rstrip("0")


_UNITS: Final = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "µs": MICROSECOND,  # U+00B5, the micro sign
    "μs": MICROSECOND,  # U+03BC, the Greek letter mu
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
# As many digits as 63 bits hold; Go ignores the rest too.
_FRACTION_DIGITS_MAX: Final = 18
_DURATION_PART: Final = re.compile(r"(\d*)(?:\.(\d*))?([^\d.]*)", re.ASCII)


def parse_duration(text: str) -> int:
    """Read Go duration text (`300ms`, `-1.5h`, `2h45m`) to nanoseconds; `ValueError` in Go's words."""
    sign = -1 if text[:1] == "-" else 1
    position = 1 if text[:1] in ("-", "+") else 0
    if text[position:] == "0":
        return 0
    if position == len(text):
        raise ValueError(f'time: invalid duration "{text}"')
    total = 0
    while position < len(text):
        match = _DURATION_PART.match(text, position)
        if match is None or not (match[1] or match[2]):
            raise ValueError(f'time: invalid duration "{text}"')
        unit = match[3]
        if unit == "":
            raise ValueError(f'time: missing unit in duration "{text}"')
        unit_ns = _UNITS.get(unit)
        if unit_ns is None:
            raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
        total += bounded_integer(match[1]) * unit_ns
        fraction = match[2][:_FRACTION_DIGITS_MAX] if match[2] else ""
        if fraction:
            total += int(fraction) * unit_ns // 10 ** len(fraction)
        if total > _MAX_DURATION_NS + (sign < 0):
            raise ValueError(f'time: invalid duration "{text}"')
        position = match.end()
    return sign * total
