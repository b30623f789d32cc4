"""Rows of a sink as messages, and messages as rows: what one kind of fetch left is for the next, of either kind."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from jetspark.client.core.arrow_decode import ColumnSink
from jetspark.client.core.connection import ConnectionCore

# As in the positions of a row: subject, reply, headers and data, with what is between them.
_ROW: Final = Struct("<7i")


def rows_as_messages(core: ConnectionCore, sink: ColumnSink) -> list[Any]:
    """Take all rows out of a sink."""
    columns = sink.take_columns()
    wire, positions = columns.wire, columns.positions
    made: list[Any] = []
    for place in range(columns.rows):
        subject, subject_stop, reply, reply_stop, header, body, stop = _ROW.unpack_from(positions, place * _ROW.size)
        made.append(
            core.make_message(
                sink.inbox, wire[subject:subject_stop], wire[reply:reply_stop], wire[header:body], wire[body:stop]
            )
        )
    return made


def add_rows(sink: ColumnSink, messages: list[Any]) -> None:
    """Put messages into a sink, as if they came now."""
    for message in messages:
        start = message.subject_bytes + b" " + sink.sid + b" "
        reply_stop = len(start) + len(message.reply_bytes)
        body = reply_stop + len(message.header_block)
        wire = start + message.reply_bytes + message.header_block + message.data
        sink.take(wire, 0, len(message.subject_bytes), len(start), reply_stop, reply_stop, body, len(wire))
