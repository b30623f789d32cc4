"""Rows that cannot be stored for what is in them: to another subject with the reason, or the end of the task.

Which rows these are is decided by who checks or sends them; here is what becomes of one.
"""

from __future__ import annotations

from dataclasses import dataclass

from jetspark.client.core.publish_headers import MSG_ID
from jetspark.client.headers import Headers
from jetspark.spark.sink_ids import Place
from jetspark.spark.sink_rows import Row

REASON = "Jetspark-Reason"
SUBJECT = "Jetspark-Subject"
ROW = "Jetspark-Row"
SIZE = "Jetspark-Size"
OWN_PREFIX = "Jetspark-Row-"
SUFFIX = b":dead"
# Room for the headers of a dead letter within the server's largest message.
HEADERS_BYTES_MAX = 2048
REASON_CHARACTERS_MAX = 500


@dataclass(frozen=True)
class DeadLetter:
    """The message that stands for a refused row."""

    block: bytes
    msg_id: bytes
    data: bytes


def dead_letter(row: Row, reason: str, place: Place, max_payload: int) -> DeadLetter:
    """Reason, intended subject, and place as headers; the row's own headers and data as far as they fit."""
    headers = _own_headers(row, max_payload)
    headers.set(REASON, _line(reason))
    headers.set(SUBJECT, _line(row.subject))
    headers.set(ROW, f"{place.batch}:{place.partition}:{row.number}")
    msg_id = (row.msg_id if _is_plain(row.msg_id) else b"%br%d" % (place.prefix, row.number)) + SUFFIX
    headers.set(MSG_ID, msg_id)
    data = row.data
    room = max(0, max_payload - len(headers.to_block()) - 64)
    if len(data) > room:
        headers.set(SIZE, len(data))
        data = data[:room]
    return DeadLetter(headers.to_block(), msg_id, data)


def _own_headers(row: Row, max_payload: int) -> Headers:
    if len(row.block) > max(0, max_payload // 2 - HEADERS_BYTES_MAX):
        return Headers()
    # What tells a stream to do something may be what it was refused for: kept to be read, not to be obeyed.
    pairs = Headers.from_block(row.block).all_items()
    return Headers(
        (f"{OWN_PREFIX}{name}" if name.lower().startswith("nats-") else name, value) for name, value in pairs
    )


def _is_plain(msg_id: bytes) -> bool:
    return bool(msg_id) and all(32 < byte < 127 for byte in msg_id)


def _line(text: str) -> str:
    """Text as one header line."""
    return "".join(c if c.isprintable() else " " for c in text)[:REASON_CHARACTERS_MAX].strip()
