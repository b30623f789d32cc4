"""How the text of an option becomes a value: one small parser a kind, each able to say what it takes.

Spark hands every option over as text. A parser returns the value or raises ValueError; naming the option and helping
with a bad one is done where options are read, not here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

# An nkey seed: of a user, an account or an operator, in base 32.
_SEED = re.compile(r"S[UAOXNC][A-Z2-7]{56}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?")
_DURATION_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?")
_SIZE_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


# A value this long is no help in an error.
_SHOWN_MAX = 200


class SecretInPlaceError(ValueError):
    """A secret where the name of a file belongs. It is not repeated."""


@dataclass(frozen=True)
class Kind:
    """A kind of value: the words that describe it, and the function that reads it."""

    takes: str
    read: Callable[[str], Any]


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("empty")
    return text.strip()


def _file(text: str) -> str:
    word = _text(text)
    if "-----BEGIN" in word or _SEED.fullmatch(word):
        # This option is shown in plans and logs.
        raise SecretInPlaceError("this is the secret itself, not the file it is in")
    return word


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise ValueError("empty")
    return names


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("not true or false")
    return word == "true"


def _duration_s(text: str) -> float:
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError("not a duration")
    return float(match[1]) * _DURATION_S[match[2] or "ms"]


def _timeout_s(text: str) -> float:
    value = _duration_s(text)
    if value <= 0:
        raise ValueError("no time at all")
    return value


def _size_bytes(text: str) -> int:
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or int(match[1]) < 1:
        raise ValueError("not a size")
    return int(match[1]) * _SIZE_BYTES[match[2]]


def _time_ns(text: str) -> int:
    word = text.strip()
    if re.fullmatch(r"\d+", word):
        return int(word) * 1_000_000
    moment = datetime.fromisoformat(word)
    if moment.tzinfo is None:
        raise ValueError("a time without a zone")
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds) * 1000


TEXT = Kind("text", _text)
# Secrets keep every character, also blanks at their ends.
SECRET_TEXT = Kind("text", lambda text: text)
NAMES = Kind("a name, or several with commas between them", _names)
FLAG = Kind("true or false", _flag)
SIZE = Kind("a number of bytes, such as 1048576 or 64m", _size_bytes)
TIME = Kind("milliseconds since 1970, or a time with its zone, such as 2026-11-16T08:00:00Z", _time_ns)
# A bare number is milliseconds, as Kafka's source has it.
DURATION = Kind("a duration such as 500ms, 30s, 15m or 1h (a bare number is milliseconds)", _duration_s)
MILLISECONDS = Kind("milliseconds, or a duration such as 30s", _duration_s)
TIMEOUT = Kind("milliseconds above 0, or a duration such as 30s", _timeout_s)
FILE = Kind("a file path", _file)


def whole_number(least: int = 0) -> Kind:
    """A whole number of at least so much."""

    def read(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError("too small")
        return value

    return Kind(f"a whole number, {least} or more", read)


def choice(*words: str) -> Kind:
    """One of a few words."""

    def read(text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise ValueError("none of these")
        return word

    return Kind("one of " + ", ".join(words), read)


def shortened(text: str) -> str:
    """A value as it is repeated in an error."""
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."
