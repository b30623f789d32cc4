"""Integers in text from a client, of any length.

Decided here: that a number too long for 64 bits stays out of every range a caller checks. Not known here: the ranges.
Python itself refuses to read more than 4,300 digits, with an exception that a caller would have to expect everywhere.
"""

from __future__ import annotations

from typing import Final

_DIGITS_MAX: Final = 20
BEYOND_64_BITS: Final = 10**_DIGITS_MAX


def bounded_integer(text: str) -> int:
    """The integer of a sign and ASCII digits; one of more than 20 digits becomes 10^20 with its sign."""
    sign = -1 if text[:1] == "-" else 1
    digits = (text[1:] if text[:1] in ("-", "+") else text).lstrip("0")
    if len(digits) > _DIGITS_MAX:
        return sign * BEYOND_64_BITS
    return sign * int(digits or "0")
