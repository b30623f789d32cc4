"""The body of a pull request: how many messages, how long to wait, under what conditions.

Decided here: the three forms a body may have (empty, a number, a JSON object) and the words for a bad one.
Not known here: the consumer's own caps and its priority policy; the broker applies those.

This is read once for every pull, so the usual bodies take a short way through msgspec. Whatever that way refuses,
or might read differently from nats-server (`1e9` is not an integer there), takes the exact way.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from jetspark.api.error_codes import ApiError
from jetspark.api.numbers import bounded_integer
from jetspark.api.schema import BOOL, DURATION, INT, INT64, STRING, WireField, decode_one
from jetspark.api.timestamps import parse_duration

_INT64_MAX: Final = (1 << 63) - 1


class PullRequest:
    """One pull. `batch` 0 was not given; `expires_ns` 0 never expires; `has_json` is false for empty and number."""

    __slots__ = (
        "batch",
        "expires_ns",
        "group",
        "has_json",
        "idle_heartbeat_ns",
        "max_bytes",
        "min_ack_pending",
        "min_pending",
        "no_wait",
        "pin_id",
        "priority",
    )

    def __init__(self, batch: int) -> None:
        self.batch: int = batch
        self.max_bytes: int = 0
        self.no_wait: bool = False
        self.expires_ns: int = 0
        self.idle_heartbeat_ns: int = 0
        self.group: str = ""
        self.min_pending: int = 0
        self.min_ack_pending: int = 0
        self.pin_id: str = ""
        self.priority: int = 0
        self.has_json: bool = False


class _Body(msgspec.Struct):
    expires: int = 0
    batch: int = 0
    max_bytes: int = 0
    no_wait: bool = False
    idle_heartbeat: int = 0
    group: str = ""
    min_pending: int = 0
    min_ack_pending: int = 0
    id: str = ""
    priority: int = 0


_DECODER: Final = msgspec.json.Decoder(_Body)
_FIELDS: Final = (
    WireField("expires", DURATION, True),
    WireField("batch", INT, True),
    WireField("max_bytes", INT, True),
    WireField("no_wait", BOOL, True),
    WireField("idle_heartbeat", DURATION, True),
    WireField("group", STRING, True),
    WireField("min_pending", INT64, True),
    WireField("min_ack_pending", INT64, True),
    WireField("id", STRING, True),
    WireField("priority", INT, True),
)
# A number with a fraction, an exponent or too many digits for 63 bits: nats-server refuses most of these.
_UNUSUAL_NUMBER: Final = re.compile(rb":\s*+-?(?:\d++[.eE]|\d{19})")
# nats-server knows a field in capitals too. The match begins at a quote and tries nothing twice: a pattern that begins
# at any capital takes time quadratic in a long value.
_CAPITALS_IN_KEY: Final = re.compile(rb'"[^":A-Z]*+[A-Z][^":]*+"\s*+:')


def _is_usual(text: bytes) -> bool:
    if _UNUSUAL_NUMBER.search(text) is not None:
        return False
    return text.islower() or _CAPITALS_IN_KEY.search(text) is None


def parse_pull_request(body: bytes) -> PullRequest | str:
    """Read a pull's body; a string is the text to send after `400 Bad Request - `."""
    if not body:
        return PullRequest(1)
    text = body.strip()
    if not text:
        return PullRequest(1)
    if text[0] != 0x7B:  # "{"
        return PullRequest(_parse_count(text))
    decoded = _decode_remembered(text) if len(text) <= _REMEMBERED_LENGTH_MAX else _decode(text)
    if isinstance(decoded, str):
        return decoded
    heartbeat_ns = decoded.idle_heartbeat
    if heartbeat_ns > 0 and heartbeat_ns * 2 > decoded.expires:
        return "heartbeat value too large"
    request = PullRequest(decoded.batch)
    request.has_json = True
    request.max_bytes = decoded.max_bytes
    request.no_wait = decoded.no_wait
    request.expires_ns = decoded.expires
    request.idle_heartbeat_ns = heartbeat_ns
    request.group = decoded.group
    request.min_pending = decoded.min_pending
    request.min_ack_pending = decoded.min_ack_pending
    request.pin_id = decoded.id
    request.priority = decoded.priority
    return request


def _parse_count(text: bytes) -> int:
    # Go's Atoi: an optional sign and digits. Anything else asks for one message.
    digits = text[1:] if text[:1] in (b"+", b"-") else text
    if not digits.isdigit():
        return 1
    count = bounded_integer(text.decode("ascii"))
    return count if -_INT64_MAX - 1 <= count <= _INT64_MAX else 1


def _decode(text: bytes) -> _Body | str:
    if _is_usual(text):
        try:
            return _DECODER.decode(text)
        except (msgspec.MsgspecError, RecursionError):
            pass  # nulls are fine with nats-server, and what is wrong needs its words
    try:
        return _decode_exactly(text)
    except ApiError as error:
        return error.description.removeprefix("invalid JSON: ")


# Most clients ask with the same few bodies over and over.
_REMEMBERED_LENGTH_MAX: Final = 256
_decode_remembered: Final = lru_cache(maxsize=1024)(_decode)


def _decode_exactly(text: bytes) -> _Body:
    # Here nats-server decodes through a pointer, and so does not name the type of the fields it complains about.
    return _Body(**decode_one(_FIELDS, text, ""))


_DELAY: Final = (WireField("delay", DURATION, False),)


def parse_nak_delay(body: bytes) -> int | None:
    """The delay of a `-NAK` body in nanoseconds: `-NAK {"delay":ns}` or `-NAK 300ms`; None for a plain NAK.

    A delay that can not be read makes it a plain NAK too. An explicit zero is a delay: the message keeps its place
    among the pending ones instead of joining the redelivery queue.
    """
    text = body[4:].strip()
    if not text:
        return None
    try:
        if text[:1] == b"{":
            delay: int = decode_one(_DELAY, text, "ConsumerNakOptions").get("delay", 0)
            return delay
        return parse_duration(text.decode("utf-8", "replace"))
    except (ApiError, ValueError):
        return None
