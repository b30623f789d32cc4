"""Six-field cron patterns: second, minute, hour, day of month, month, day of week.

Decided here: how a pattern is read, and the next second that fits it in a time zone.
Not known here: what happens then, and the `@` forms; see `schedule`.

An hour that a time zone skips in spring does not fire, and one that it repeats in autumn fires twice. When both days
are restricted, either is enough; when one of them is `*`, both must fit (the custom of Vixie cron).
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from jetspark.api.timestamps import SECOND

_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], start=1
    )
}
_WEEKDAYS: Final = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_NO_NAMES: Final[dict[str, int]] = {}
# Lowest and highest value of each field, and the names its values may have.
_FIELDS: Final = (
    (0, 59, _NO_NAMES),
    (0, 59, _NO_NAMES),
    (0, 23, _NO_NAMES),
    (1, 31, _NO_NAMES),
    (1, 12, _MONTHS),
    (0, 6, _WEEKDAYS),
)
_INTEGER: Final = re.compile(r"\+?\d{1,18}", re.ASCII)
_YEARS_AHEAD_MAX: Final = 5


class CronPattern:
    """A pattern that was read; `CronPattern.parse` raises `ValueError` for one that can not be."""

    def __init__(self, values: list[frozenset[int]], any_day_of_month: bool, any_day_of_week: bool) -> None:
        self._seconds, self._minutes, self._hours, self._days, self._months, self._weekdays = values
        self._either_day = not (any_day_of_month or any_day_of_week)

    @classmethod
    def parse(cls, pattern: str) -> CronPattern:
        """Read six fields separated by white space."""
        texts = pattern.split()
        if len(texts) != len(_FIELDS):
            raise ValueError(f"a pattern has 6 fields, not {len(texts)}")
        values = []
        stars = []
        for text, (low, high, names) in zip(texts, _FIELDS, strict=True):
            field_values, is_star = _parse_field(text, low, high, names)
            values.append(field_values)
            stars.append(is_star)
        return cls(values, stars[3], stars[5])

    def next_fire_ns(self, after_ns: int, zone: tzinfo = UTC) -> int | None:
        """The first whole second after that instant that fits; None when five years hold none."""
        unix_seconds = after_ns // SECOND + 1
        last_year = datetime.fromtimestamp(unix_seconds, zone).year + _YEARS_AHEAD_MAX
        while True:
            local = datetime.fromtimestamp(unix_seconds, zone)
            if local.year > last_year:
                return None
            if local.month not in self._months:
                unix_seconds = _start_of_next_month(local, zone)
            elif not self._day_fits(local.date()):
                unix_seconds = _start_of_day(local.date() + timedelta(days=1), zone)
            elif local.hour not in self._hours:
                # By elapsed time, not by the clock on the wall, which may skip or repeat hours.
                unix_seconds += 3600 - local.minute * 60 - local.second
            elif local.minute not in self._minutes:
                unix_seconds += 60 - local.second
            elif local.second not in self._seconds:
                unix_seconds += 1
            else:
                return unix_seconds * SECOND

    def _day_fits(self, day: date) -> bool:
        fits_month = day.day in self._days
        fits_week = day.isoweekday() % 7 in self._weekdays
        return fits_month or fits_week if self._either_day else fits_month and fits_week


def _start_of_day(day: date, zone: tzinfo) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp())


def _start_of_next_month(local: datetime, zone: tzinfo) -> int:
    first = date(local.year + local.month // 12, local.month % 12 + 1, 1)
    return _start_of_day(first, zone)


def _parse_field(text: str, low: int, high: int, names: dict[str, int]) -> tuple[frozenset[int], bool]:
    """The values of one field, and whether a bare `*` is among its ranges."""
    values: set[int] = set()
    has_star = False
    for expression in text.split(","):
        if not expression:
            continue
        range_values, is_star = _parse_range(expression, low, high, names)
        values.update(range_values)
        has_star = has_star or is_star
    if not values:
        # nats-server searches for such a pattern's next time second by second, for years; here it is just wrong.
        raise ValueError(f"a field without values: {text}")
    return frozenset(values), has_star


def _parse_range(expression: str, low: int, high: int, names: dict[str, int]) -> tuple[range, bool]:
    bounds_text, *step_texts = expression.split("/")
    if len(step_texts) > 1:
        raise ValueError(f"too many slashes: {expression}")
    first_text, *last_texts = bounds_text.split("-")
    is_star = first_text in ("*", "?")
    if is_star:
        first, last = low, high
    else:
        if len(last_texts) > 1:
            raise ValueError(f"too many hyphens: {expression}")
        first = _parse_value(first_text, names)
        last = _parse_value(last_texts[0], names) if last_texts else first
    step = 1
    if step_texts:
        step = _parse_value(step_texts[0], _NO_NAMES)
        if not last_texts:
            last = high
        if step > 1:
            is_star = False
    if step == 0 or not low <= first <= last <= high:
        raise ValueError(f"out of range: {expression}")
    return range(first, last + 1, step), is_star


def _parse_value(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(f"not a number: {text}")
    return int(text)
