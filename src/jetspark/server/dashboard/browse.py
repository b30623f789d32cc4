"""Messages of a stream, a page at a time.

Decided here: which messages a page shows, how far a search looks before it asks to be continued, and how much of a
body is sent. Only messages that are durable are shown, as consumers have it. Nothing is interpreted: what is text and
what is JSON is for the page to find out.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable
from typing import Any, Final

from jetspark.api.timestamps import format_time
from jetspark.broker.stream import Stream
from jetspark.protocol import headers
from jetspark.protocol.subjects import SubjectFilter, is_valid_subject
from jetspark.store.queries import find_next
from jetspark.store.stream_store import StreamStore
from jetspark.store.view import RecordView

PAGE_COUNT: Final = 25
# How long one request looks when little matches; then the page shows what it has and can go on.
SEARCH_NS: Final = 1_000_000_000
# Sequences looked at between two turns of the loop: a few milliseconds.
_SLICE: Final = 8192
# Up to this many, subjects are asked where their messages are before a search begins.
_SUBJECTS_QUICK: Final = 10_000
PREVIEW_BYTES: Final = 400
# As much as a message may have unless the operator allows more.
BODY_BYTES_MAX: Final = 1024 * 1024
BYTES_SHOWN_MAX: Final = 4096
SUBJECTS_MAX: Final = 200
# All but tab, line ends and escape, which terminals use for colours.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class BadFilter(Exception):
    """Not a subject to look for; the message says so."""


def parse_filter(text: str) -> SubjectFilter:
    if not text:
        return SubjectFilter([])
    pattern = text.encode()
    if not is_valid_subject(pattern):
        raise BadFilter(f"{text!r} is not a subject: use words between dots, * for one word, > for all that follow")
    return SubjectFilter([pattern])


async def page(
    stream: Stream, text: str, start_seq: int, *, newest_first: bool, monotonic_ns: Callable[[], int]
) -> dict[str, Any]:
    """Messages that match, from a sequence on (0: from the end the order begins with)."""
    wanted = parse_filter(text)
    store = stream.store
    last, first = int(store.visible_seq), int(store.first_seq)
    begin = min(start_seq or last, last) if newest_first else max(start_seq, first)
    low, high = _bounds(store, wanted, first, last)
    seq = min(begin, high) if newest_first else max(begin, low)
    rows: list[dict[str, Any]] = []
    view = RecordView()
    end_ns = monotonic_ns() + SEARCH_NS
    span = PAGE_COUNT
    while low <= seq <= high and len(rows) < PAGE_COUNT and monotonic_ns() < end_ns and not stream.deleted:
        left = PAGE_COUNT - len(rows)
        if newest_first:
            bottom = max(low, seq - span + 1)
            found = _matches(store, wanted, bottom, seq)[-left:][::-1]
        else:
            bottom = min(high, seq + span - 1)
            found = _matches(store, wanted, seq, bottom, left)
        rows += [_document(view, PREVIEW_BYTES) for number in found if store.view(number, view)]
        step = -1 if newest_first else 1
        seq = (found[-1] if len(found) == left else bottom) + step
        # Where little is found more is looked at together, and other work is done in between.
        span = min(2 * span, _SLICE)
        await asyncio.sleep(0)
    is_end = not low <= seq <= high
    return {
        "rows": rows,
        "next_seq": 0 if is_end else seq,
        "searched": abs((first - 1 if newest_first else last + 1) - begin if is_end else seq - begin),
        "first_seq": first,
        "last_seq": last,
    }


def _bounds(store: StreamStore, wanted: SubjectFilter, first: int, last: int) -> tuple[int, int]:
    """Between which sequences a match can be, as far as subjects tell; an empty range when there is none."""
    if wanted.match_all or len(store.subjects) > _SUBJECTS_QUICK:
        return first, last
    states = [state for subject, state in store.subjects.items() if wanted.accepts(subject)]
    low = min((int(state.first_seq) for state in states), default=last + 1)
    high = max((int(state.last_seq) for state in states), default=0)
    return max(first, low), min(last, high)


def _matches(store: StreamStore, wanted: SubjectFilter, low: int, high: int, count_max: int = 0) -> list[int]:
    """Sequences between two that match, the first so many (0: all)."""
    found: list[int] = []
    seq = int(find_next(store, low, high, wanted))
    while seq:
        found.append(seq)
        if len(found) == count_max or seq >= high:
            break
        seq = int(find_next(store, seq + 1, high, wanted))
    return found


def message(stream: Stream, seq: int) -> dict[str, Any] | None:
    """One message, whole unless it is very large."""
    view = RecordView()
    if not 0 < seq <= stream.store.visible_seq or not stream.store.view(seq, view):
        return None
    return _document(view, BODY_BYTES_MAX)


def _document(view: RecordView, size_max: int) -> dict[str, Any]:
    payload = view.payload()
    document: dict[str, Any] = {
        "seq": int(view.seq),
        "time": format_time(view.ts_ns),
        "subject": view.subject.decode("utf-8", "replace"),
        "size": len(payload),
        "headers": [
            [name.decode("utf-8", "replace"), value.decode("utf-8", "replace")]
            for name, value in headers.parse(view.header())
        ],
    }
    text = _text(payload[:size_max], is_cut=len(payload) > size_max)
    if text is not None:
        document["text"] = text
    else:
        size_max = BYTES_SHOWN_MAX
        document["base64"] = base64.b64encode(payload[:size_max]).decode()
    document["shown"] = min(len(payload), size_max)
    document["truncated"] = len(payload) > size_max
    return document


def _text(shown: bytes, *, is_cut: bool) -> str | None:
    """The bytes as text, None when they are none: not UTF-8, or with control characters nobody types."""
    if _CONTROL.search(shown):
        return None
    try:
        return shown.decode()
    except UnicodeDecodeError as error:
        # A character cut in two by the limit is no reason to call it binary.
        return shown[: error.start].decode() if is_cut and error.start >= len(shown) - 3 else None


async def subjects(stream: Stream, text: str) -> dict[str, Any]:
    """Subjects in the stream that contain a text, with their counts, most first."""
    found: list[tuple[int, str]] = []
    for position, (subject, state) in enumerate(list(stream.store.subjects.items())):
        if position % 2000 == 0:
            await asyncio.sleep(0)
        name = subject.decode("utf-8", "replace")
        if text in name:
            found.append((int(state.message_count), name))
    found.sort(key=lambda item: (-item[0], item[1]))
    rows = [{"subject": name, "messages": count} for count, name in found[:SUBJECTS_MAX]]
    return {"total": len(found), "rows": rows}
