"""How long one message lives: the value of its `Nats-TTL` header.

Decided here: the three forms (whole seconds, a Go duration, `never`) and what is refused.
Not known here: whether the stream allows such headers at all.
"""

from __future__ import annotations

from typing import Final

from jetspark.api.error_codes import ErrorCode, make
from jetspark.api.numbers import bounded_integer
from jetspark.api.timestamps import SECOND, parse_duration

NEVER: Final = -1
"""The message outlives even the stream's `max_age`."""

_SECONDS_MAX: Final = ((1 << 63) - 1) // SECOND


def parse_message_ttl(text: str) -> int:
    """The life of a message in seconds: 0 for the stream's own rules, `NEVER` for no end; `ApiError` 10165."""
    if text == "":
        return 0
    if text.lower() == "never":
        return NEVER
    try:
        duration_ns = parse_duration(text)
    except ValueError:
        if not (text.isascii() and text.isdigit()):
            raise make(ErrorCode.MESSAGE_TTL_INVALID) from None
        return min(bounded_integer(text), _SECONDS_MAX)
    # A plain 0 is a duration too, and as such too short.
    if duration_ns < SECOND:
        raise make(ErrorCode.MESSAGE_TTL_INVALID)
    return duration_ns // SECOND
