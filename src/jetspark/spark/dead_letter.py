"""Rows that cannot be stored for what is in them, as messages for another subject, with the reason.

Which rows these are is decided by who checks or sends them, and when they are sent too; here is what becomes of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jetspark.client.headers import Headers
from jetspark.spark.sink_ids import IdMaker, Place
from jetspark.spark.sink_rows import Row, Rows

REASON = "Jetspark-Reason"
SUBJECT = "Jetspark-Subject"
ROW = "Jetspark-Row"
SIZE = "Jetspark-Size"
OWN_PREFIX = "Jetspark-Row-"
SUFFIX = b":dead"
# What a server takes of headers, whatever the size of its largest message.
HEADERS_BYTES_MAX = 65_535
REASON_CHARACTERS_MAX = 500
ID_BYTES_MAX = 512
# What is added to a block of headers when it is sent: the message id's name, the size of the data, line ends.
ADDED_BYTES = 64


def dead_letters(refused: Sequence[Row], subject: str, place: Place, max_payload: int, make_ids: IdMaker) -> Rows:
    """The messages that stand for refused rows. `make_ids` names those whose own id cannot be sent, by their content:
    a row is known again in whatever place it comes the next time.
    """
    ids = [_letter_id(row, make_ids) for row in refused]
    parts = [_letter(row, place, max_payload - len(one)) for row, one in zip(refused, ids, strict=True)]
    return Rows(
        [row.number for row in refused],
        [subject.encode()] * len(ids),
        [block for block, _ in parts],
        ids,
        [data for _, data in parts],
        {},
        are_letters=True,
    )


def _letter(row: Row, place: Place, size_max: int) -> tuple[bytes, bytes]:
    """Reason, intended subject, and place as headers; the row's own headers if they fit, its data as far as it fits."""
    told = Headers()
    told.set(REASON, _line(row.reason))
    told.set(SUBJECT, _line(row.subject))
    told.set(ROW, f"{place.batch}:{place.partition}:{row.number}")
    # A row that was a dead letter before has those of its own.
    headers = Headers([*(pair for pair in _own_headers(row) if pair[0] not in told), *told.all_items()])
    if len(headers.to_block()) > min(size_max // 2, HEADERS_BYTES_MAX - ID_BYTES_MAX - ADDED_BYTES):
        headers = told
    data = row.data
    room = max(0, size_max - len(headers.to_block()) - ADDED_BYTES)
    if len(data) > room:
        headers.set(SIZE, len(data))
        data = data[:room]
    return headers.to_block(), data


def _letter_id(row: Row, make_ids: IdMaker) -> bytes:
    if 0 < len(row.msg_id) < ID_BYTES_MAX - len(SUFFIX) and all(32 < byte < 127 for byte in row.msg_id):
        return row.msg_id + SUFFIX
    return make_ids([row.subject.encode()], [row.block], [row.data])[0] + SUFFIX


def _own_headers(row: Row) -> Iterator[tuple[str, str]]:
    # What tells a stream to do something may be what it was refused for: kept to be read, not to be obeyed.
    for name, value in Headers.from_block(row.block).all_items():
        yield (f"{OWN_PREFIX}{name}" if name.lower().startswith("nats-") else name), value


def _line(text: str) -> str:
    """Text as one header line."""
    return "".join(c if c.isprintable() else " " for c in text)[:REASON_CHARACTERS_MAX].strip()
