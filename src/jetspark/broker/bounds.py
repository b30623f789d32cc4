"""Numbers from documents, brought into the range the broker counts in.

The wire allows 64 bits without a sign, durations of centuries and times from year 1 to 9999; the broker counts in 64
bits with a sign and adds durations to times. What is out of reach stays out of reach, only nearer.
"""

from __future__ import annotations

from typing import Final

# Far above any sequence that can exist.
SEQUENCE_MAX: Final = 1 << 62
# The years 1824 and 2116: before and after everything that can be stored.
TIME_MIN_NS: Final = -(1 << 62)
TIME_MAX_NS: Final = 1 << 62
# 73 years; with it any time the broker lives in can be waited from without overflow.
WAIT_MAX_NS: Final = 1 << 61


def bounded_sequence(sequence: int) -> int:
    return sequence if sequence < SEQUENCE_MAX else SEQUENCE_MAX


def bounded_time(unix_ns: int) -> int:
    if unix_ns < TIME_MIN_NS:
        return TIME_MIN_NS
    return unix_ns if unix_ns < TIME_MAX_NS else TIME_MAX_NS


def bounded_wait(duration_ns: int) -> int:
    return duration_ns if duration_ns < WAIT_MAX_NS else WAIT_MAX_NS
