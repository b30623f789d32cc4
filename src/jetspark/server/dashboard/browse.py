"""Messages of a stream, a page at a time.

Decided here: which messages a page shows, how far a search looks before it asks to be continued, and how much of a
body is sent. Only messages that are durable are shown, as consumers have it. Nothing is interpreted: what is text and
what is JSON is for the page to find out.
"""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any, Final

from jetspark.api.timestamps import format_time
from jetspark.broker.stream import Stream
from jetspark.protocol import headers
from jetspark.protocol.subjects import SubjectFilter, is_valid_subject
from jetspark.store.view import RecordView

PAGE_COUNT: Final = 25
# Sequences one request looks at when few of them match; then the page shows what it has and can go on.
SEARCH_MAX: Final = 20_000
_SLICE: Final = 500
PREVIEW_BYTES: Final = 400
BODY_BYTES_MAX: Final = 512 * 1024
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


async def page(stream: Stream, text: str, start_seq: int, *, newest_first: bool) -> dict[str, Any]:
    """Messages that match, from a sequence on (0: from the end the order begins with)."""
    wanted = parse_filter(text)
    store = stream.store
    last, first = int(store.visible_seq), int(store.first_seq)
    step = -1 if newest_first else 1
    seq = min(start_seq or last, last) if newest_first else max(start_seq, first)
    rows: list[dict[str, Any]] = []
    view = RecordView()
    looked = 0
    while first <= seq <= last and len(rows) < PAGE_COUNT and looked < SEARCH_MAX and not stream.deleted:
        looked += 1
        if looked % _SLICE == 0:
            await asyncio.sleep(0)
        if store.is_live(seq) and store.view(seq, view) and wanted.accepts(view.subject):
            rows.append(_document(view, PREVIEW_BYTES))
        seq += step
    is_end = not first <= seq <= last
    return {
        "rows": rows,
        "next_seq": 0 if is_end else seq,
        "searched": looked,
        "first_seq": first,
        "last_seq": last,
    }


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
        "truncated": len(payload) > size_max,
    }
    text = _text(payload[:size_max], is_cut=document["truncated"])
    if text is not None:
        document["text"] = text
    else:
        document["base64"] = base64.b64encode(payload[:BYTES_SHOWN_MAX]).decode()
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
        if position % (_SLICE * 4) == 0:
            await asyncio.sleep(0)
        name = subject.decode("utf-8", "replace")
        if text in name:
            found.append((int(state.message_count), name))
    found.sort(key=lambda item: (-item[0], item[1]))
    rows = [{"subject": name, "messages": count} for count, name in found[:SUBJECTS_MAX]]
    return {"total": len(found), "rows": rows}
