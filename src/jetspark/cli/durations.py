"""Durations, sizes and counts as `nats` users type and read them: `1d3h5m2s`, `10MiB`, `1,000`, `30.00s`.

Decided here: which spellings are understood and how each is written. The click types at the end turn a bad spelling
into a usage error that shows a good one.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

import click

from jetspark.clock import SystemClock

_UNIT_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "D": 86_400_000_000_000,
    "w": 7 * 86_400_000_000_000,
    "W": 7 * 86_400_000_000_000,
    "M": 30 * 86_400_000_000_000,
    "y": 365 * 86_400_000_000_000,
    "Y": 365 * 86_400_000_000_000,
}
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d|D|w|W|M|y|Y)")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtpe]?)(i?b?)", re.IGNORECASE)
_SIZE_STEPS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
SECOND_NS: Final = 1_000_000_000


def parse_duration_ns(text: str) -> int:
    """`2m`, `1.5h` or `1d3h5m2s` in nanoseconds; a bare number is seconds. ValueError for anything else."""
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    body = body.lstrip("+-")
    if re.fullmatch(r"\d+(\.\d+)?", body):
        return sign * round(float(body) * SECOND_NS)
    total, at = 0.0, 0
    while at < len(body):
        part = _DURATION_PART.match(body, at)
        if part is None:
            raise ValueError(f"{text!r} is not a duration; write one like 10s, 5m, 2h or 1d12h")
        total += float(part[1]) * _UNIT_NS[part[2]]
        at = part.end()
    if not body:
        raise ValueError("an empty duration; write one like 10s, 5m, 2h or 1d12h")
    return sign * round(total)


def parse_size_bytes(text: str) -> int:
    """`512`, `10KB`, `1GiB` in bytes, all units binary as in `nats`; -1 is no limit. ValueError for anything else."""
    body = text.strip()
    if body == "-1":
        return -1
    match = _SIZE.fullmatch(body)
    if match is None:
        raise ValueError(f"{text!r} is not a size; write one like 512, 64KiB, 10MB or 1GiB")
    return int(float(match[1]) * 1024 ** " KMGTPE".index(match[2].upper() or " "))


def human_duration(duration_ns: int) -> str:
    """`179ms`, `30.00s`, `2m0s`, `1d3h5m2s`."""
    if duration_ns < 0:
        return "-" + human_duration(-duration_ns)
    if duration_ns < SECOND_NS:
        return _below_a_second(duration_ns)
    if duration_ns < 60 * SECOND_NS:
        return f"{duration_ns / SECOND_NS:.2f}s"
    # To the nearest second: an hour of which some microseconds have passed is still an hour.
    seconds = (duration_ns + SECOND_NS // 2) // SECOND_NS
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    years, day = divmod(days, 365)
    parts = [(years, "y"), (day, "d"), (hour, "h"), (minute, "m"), (second, "s")]
    first = next(index for index, (count, _) in enumerate(parts) if count)
    return "".join(f"{count}{unit}" for count, unit in parts[first:])


def _below_a_second(duration_ns: int) -> str:
    if duration_ns >= 1_000_000:
        return f"{duration_ns // 1_000_000}ms"
    if duration_ns >= 1_000:
        return f"{duration_ns / 1_000:.3f}".rstrip("0").rstrip(".") + "µs"
    return f"{duration_ns}ns" if duration_ns else "0s"


def human_trip(duration_ns: int) -> str:
    """A round trip, where a part of a millisecond matters: `147.2µs`, `1.59ms`, `1.20s`."""
    if duration_ns >= SECOND_NS:
        return f"{duration_ns / SECOND_NS:.2f}s"
    return f"{duration_ns / 1_000_000:.2f}ms" if duration_ns >= 1_000_000 else f"{duration_ns / 1_000:.1f}µs"


def human_size(size_bytes: float) -> str:
    """`53 B`, `1.5 KiB`, `128 MiB`: binary units."""
    step = 0
    while size_bytes >= 1024 and step < len(_SIZE_STEPS) - 1:
        size_bytes /= 1024
        step += 1
    if step == 0:
        return f"{int(size_bytes)} B"
    return f"{size_bytes:.1f} {_SIZE_STEPS[step]}" if size_bytes < 10 else f"{size_bytes:.0f} {_SIZE_STEPS[step]}"


def human_count(count: float) -> str:
    """`1,000`; a fraction keeps two digits."""
    return f"{count:,}" if isinstance(count, int) else f"{count:,.2f}"


def limit(count: int, write: Any = human_count) -> str:
    """A limit of a configuration: zero and below mean none."""
    return "unlimited" if count <= 0 else str(write(count))


def now_ns() -> int:
    """The machine's time."""
    return SystemClock().now_ns()


def local_time(unix_ns: int, *, fraction: bool = False) -> str:
    """A moment as a person at this machine reads it."""
    moment = datetime.fromtimestamp(unix_ns / SECOND_NS, UTC).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S") + (f".{unix_ns % SECOND_NS:09d}" if fraction else "")


def clock_time(unix_ns: int) -> str:
    """The time of day, for the head of a line."""
    return local_time(unix_ns)[11:]


def wire_ns(text: str) -> int:
    """A time of the API's documents as nanoseconds; 0 for none."""
    from jetspark.api.timestamps import parse_time

    moment = parse_time(text).unix_ns if text else 0
    return max(0, moment)


def ago(text: str) -> str:
    """How long ago a time of the API's documents was; `never` for none."""
    moment_ns = wire_ns(text)
    return human_duration(max(0, now_ns() - moment_ns)) if moment_ns else "never"


class DurationType(click.ParamType[int]):
    """An option like `--max-age 1d12h`, as nanoseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """From text; a number is already converted."""
        if isinstance(value, int):
            return value
        try:
            return parse_duration_ns(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class SizeType(click.ParamType[int]):
    """An option like `--max-bytes 10MiB`, as bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """From text; a number is already converted."""
        if isinstance(value, int):
            return value
        try:
            return parse_size_bytes(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION: Final = DurationType()
SIZE: Final = SizeType()
