"""Durations as people give them: seconds as a number, or a timedelta."""

from __future__ import annotations

from datetime import timedelta

from jetspark.client.errors import BadOptionError

Seconds = float | int | timedelta


def seconds(duration: Seconds) -> float:
    """As a number of seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def nanoseconds(duration: Seconds) -> int:
    """As the wire wants it."""
    value = round(seconds(duration) * 1_000_000_000)
    if value < 0:
        raise BadOptionError(f"a duration cannot be negative: {duration!r}")
    return value


def timeout_seconds(duration: Seconds | None, default: float) -> float:
    """A call's own timeout, or the default."""
    if duration is None:
        return default
    value = seconds(duration)
    if value <= 0:
        raise BadOptionError(f"a timeout must be above zero: {duration!r}")
    return value
