"""Subjects that count: `Nats-Incr` is added to the subject's total, which becomes the message.

The total is in the last message of the subject, so nothing has to be remembered or recovered. A counter that is
sourced from other streams keeps the last total it has seen of each in a header and adds the difference.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from jetspark.api.error_codes import ErrorCode, make
from jetspark.broker.publish import (
    EXPECTED_LAST_MESSAGE_ID,
    EXPECTED_LAST_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    EXPECTED_STREAM,
    INCREMENT,
    ROLLUP,
    STREAM_SOURCE,
    Publish,
)
from jetspark.protocol import headers
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream

COUNTER_SOURCES: Final = b"Nats-Counter-Sources"

# Longer numbers are refused rather than computed with.
DIGITS_MAX: Final = 4000
_INTEGER: Final = re.compile(rb"[+-]?[0-9]+")


class Total:
    """What a subject has counted to, and what it has seen of the counters it is sourced from."""

    def __init__(self) -> None:
        self.value: int = 0
        self.sources: dict[str, dict[str, str]] = {}


def read_increment(text: bytes) -> int:
    if _INTEGER.fullmatch(text) is None or len(text) > DIGITS_MAX:
        raise make(ErrorCode.MESSAGE_COUNTER_INVALID)
    return int(text)


def verify(publish: Publish, is_allowed: bool) -> None:
    """The rules of `Nats-Incr`, for every stream."""
    asked = publish.asks.get(INCREMENT)
    if not asked:
        return
    publish.increment = read_increment(asked)
    publish.has_increment = True
    if publish.is_internal:
        return
    if not is_allowed:
        raise make(ErrorCode.MESSAGE_COUNTER_DISABLED)
    if publish.payload:
        raise make(ErrorCode.MESSAGE_COUNTER_PAYLOAD)
    for name in (
        ROLLUP,
        EXPECTED_STREAM,
        EXPECTED_LAST_MESSAGE_ID,
        EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
        EXPECTED_LAST_SEQUENCE,
        EXPECTED_LAST_SUBJECT_SEQUENCE,
    ):
        if publish.asks.get(name):
            raise make(ErrorCode.MESSAGE_COUNTER_INVALID)


def total_of(stream: Stream, subject: bytes) -> Total:
    """The total so far; ApiError when the last message of the subject is not one."""
    total = Total()
    last = stream.store.subject_last_seq(subject)
    view = RecordView()
    if last == 0 or not stream.store.view(last, view):
        return total
    total.value = read_value(view.payload())
    seen = headers.find_value(view.header(), COUNTER_SOURCES)
    if seen:
        total.sources = read_sources(seen)
    return total


def read_value(payload: bytes) -> int:
    """The number in `{"val":"5"}`; a document without one counts as zero."""
    try:
        document = json.loads(payload)
    except ValueError:
        raise make(ErrorCode.MESSAGE_COUNTER_BROKEN) from None
    if not isinstance(document, dict):
        raise make(ErrorCode.MESSAGE_COUNTER_BROKEN)
    text = document.get("val", "")
    if not isinstance(text, str):
        raise make(ErrorCode.MESSAGE_COUNTER_BROKEN)
    number = text.encode()
    return int(number) if _INTEGER.fullmatch(number) is not None and len(number) <= DIGITS_MAX else 0


def read_sources(text: bytes) -> dict[str, dict[str, str]]:
    """`{"STREAM":{"subject":"12"}}`"""
    try:
        document = json.loads(text)
    except ValueError:
        raise make(ErrorCode.MESSAGE_COUNTER_BROKEN) from None
    if not isinstance(document, dict):
        raise make(ErrorCode.MESSAGE_COUNTER_BROKEN)
    sources: dict[str, dict[str, str]] = {}
    for stream_name, subjects in document.items():
        if not isinstance(subjects, dict):
            raise make(ErrorCode.MESSAGE_COUNTER_BROKEN)
        seen: dict[str, str] = {}
        for subject, value in subjects.items():
            if not isinstance(value, str):
                raise make(ErrorCode.MESSAGE_COUNTER_BROKEN)
            seen[subject] = value
        sources[stream_name] = seen
    return sources


def apply(publish: Publish, total: Total) -> None:
    """Add the increment to the total, and make the total the message."""
    if not publish.has_increment:
        raise make(ErrorCode.MESSAGE_COUNTER_MISSING)
    increment = publish.increment
    origin = publish.asks.get(STREAM_SOURCE)
    if origin:
        increment = difference(publish, origin, total)
        publish.header = headers.set_header(publish.header, INCREMENT, b"%d" % increment)
    total.value += increment
    text = str(total.value)
    if len(text) > DIGITS_MAX:
        raise make(ErrorCode.MESSAGE_COUNTER_INVALID)
    publish.payload = b'{"val":"%s"}' % text.encode()
    publish.ack_after = b',"val":"%s"}' % text.encode()
    if total.sources:
        seen = json.dumps(total.sources, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
        publish.header = headers.set_header(publish.header, COUNTER_SOURCES, seen)


def difference(publish: Publish, origin: bytes, total: Total) -> int:
    """How far another stream's counter has moved since it was last seen here."""
    words = origin.decode("utf-8", "replace").split(" ")
    subject = words[4] if len(words) >= 5 else publish.subject.decode("utf-8", "replace")
    value = read_value(publish.payload)
    seen = total.sources.setdefault(words[0], {})
    before = seen.get(subject, "").encode()
    seen[subject] = str(value)
    return value - (int(before) if _INTEGER.fullmatch(before) is not None else 0)
