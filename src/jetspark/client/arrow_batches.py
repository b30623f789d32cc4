"""Arrow record batches from the columns a sink collected, and what users see of them: the schema.

The one place that knows pyarrow, which is an optional extra: it is imported when the first batch is asked for. A
column is cut out of the wire's bytes by one `take` over positions, so no Python object is made for a message.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from jetspark.client.core import arrow_decode
from jetspark.client.core.arrow_decode import HEADER_STRIDE, NUMBER_STRIDE, ROW_STRIDE, Columns
from jetspark.client.errors import BadOptionError, MissingExtraError

SUBJECT = "subject"
SEQUENCE = "sequence"
TIMESTAMP = "timestamp"
HEADERS = "headers"
DATA = "data"
REPLY = "reply"
CONSUMER_SEQUENCE = "consumer_sequence"
DELIVERY_COUNT = "delivery_count"
PENDING_COUNT = "pending_count"
COLUMNS = (
    SUBJECT, SEQUENCE, TIMESTAMP, HEADERS, DATA, REPLY, CONSUMER_SEQUENCE, DELIVERY_COUNT, PENDING_COUNT,
)  # fmt: skip

_NUMBER_COLUMNS = {
    SEQUENCE: arrow_decode.SEQUENCE,
    TIMESTAMP: arrow_decode.TIMESTAMP,
    CONSUMER_SEQUENCE: arrow_decode.CONSUMER_SEQUENCE,
    DELIVERY_COUNT: arrow_decode.DELIVERY_COUNT,
    PENDING_COUNT: arrow_decode.PENDING_COUNT,
}
_BYTE_COLUMNS = {
    SUBJECT: arrow_decode.SUBJECT,
    REPLY: arrow_decode.REPLY,
    DATA: arrow_decode.DATA,
}


def load_pyarrow() -> Any:
    """The pyarrow module; MissingExtraError naming the extra when it is not installed."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise MissingExtraError("Arrow batches need pyarrow: pip install 'jetspark[arrow]'") from None
    return pyarrow


class BatchBuilder:
    """Makes batches of the chosen columns. Keeps what the batches of one read have in common.

    `header_bytes` gives the values of headers as they are instead of as text.
    """

    def __init__(self, columns: Sequence[str] | None = None, header_bytes: bool = False) -> None:
        self.names = list(COLUMNS if columns is None else columns)
        unknown = [name for name in self.names if name not in COLUMNS]
        if unknown or not self.names or len(set(self.names)) != len(self.names):
            raise BadOptionError(f"columns are some of {', '.join(COLUMNS)}, each once; not {', '.join(self.names)}")
        self._pa = load_pyarrow()
        self._header_bytes = header_bytes
        self._types = arrow_types(self._pa, header_bytes)
        self.schema = self._pa.schema([(name, self._types[name]) for name in self.names])
        # stride -> 0, stride, 2 * stride, ...: which elements a column takes, for as many rows as were ever needed.
        self._steps: dict[int, Any] = {}

    def empty(self) -> Any:
        """A batch without rows."""
        return self._pa.RecordBatch.from_pylist([], schema=self.schema)

    def build(self, columns: Columns) -> Any:
        """The rows of a sink as a batch."""
        if not columns.rows:
            return self.empty()
        pa = self._pa
        wire = pa.py_buffer(columns.wire)
        parts = pa.Array.from_buffers(
            pa.binary(), columns.rows * ROW_STRIDE, [None, pa.py_buffer(columns.positions), wire]
        )
        numbers = pa.Array.from_buffers(pa.int64(), columns.rows * NUMBER_STRIDE, [None, pa.py_buffer(columns.numbers)])
        arrays = []
        for name in self.names:
            if name == HEADERS:
                arrays.append(self._headers(columns, wire))
            elif name in _NUMBER_COLUMNS:
                taken = self._every(numbers, NUMBER_STRIDE, _NUMBER_COLUMNS[name], columns.rows)
                arrays.append(taken.view(self._types[name]))
            else:
                taken = self._every(parts, ROW_STRIDE, _BYTE_COLUMNS[name], columns.rows)
                arrays.append(taken if name == DATA else self._text(taken))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def from_rows(self, rows: Iterable[dict[str, Any]]) -> Any:
        """A batch of a few rows that were made one by one, the values of their headers as bytes."""
        kept = [{name: row[name] for name in self.names} for row in rows]
        if HEADERS in self.names and not self._header_bytes:
            for row in kept:
                row[HEADERS] = [{**pair, "value": pair["value"].decode("utf-8", "replace")} for pair in row[HEADERS]]
        return self._pa.RecordBatch.from_pylist(kept, self.schema)

    def _headers(self, columns: Columns, wire: Any) -> Any:
        pa = self._pa
        size = len(columns.header_positions) // (4 * HEADER_STRIDE)
        parts = pa.Array.from_buffers(
            pa.binary(), size * HEADER_STRIDE, [None, pa.py_buffer(columns.header_positions), wire]
        )
        names = self._text(self._every(parts, HEADER_STRIDE, 0, size))
        values = self._every(parts, HEADER_STRIDE, 2, size)
        if not self._header_bytes:
            values = self._text(values)
        kind = self._types[HEADERS]
        pairs = pa.StructArray.from_arrays([names, values], fields=list(kind.value_type))
        starts = pa.Array.from_buffers(pa.int32(), columns.rows + 1, [None, pa.py_buffer(columns.header_starts)])
        return pa.ListArray.from_arrays(starts, pairs, type=kind)

    def _every(self, values: Any, stride: int, first: int, count: int) -> Any:
        """Element `first` of each group of `stride`."""
        steps = self._steps.get(stride)
        if steps is None or len(steps) < count:
            size = 1 << max(10, count.bit_length())
            indices = array("q", range(0, size * stride, stride))
            steps = self._pa.Array.from_buffers(self._pa.int64(), size, [None, self._pa.py_buffer(indices)])
            self._steps[stride] = steps
        # A slice that starts later needs no indices of its own.
        return values.slice(first).take(steps.slice(0, count))

    def _text(self, values: Any) -> Any:
        """Bytes as text. What is not UTF-8 shows replacement characters, and hides nothing else."""
        try:
            return values.cast(self._pa.string())
        except self._pa.ArrowInvalid:
            decoded = [value.decode("utf-8", "replace") for value in values.to_pylist()]
            return self._pa.array(decoded, self._pa.string())


def arrow_types(pa: Any, header_bytes: bool = False) -> dict[str, Any]:
    """The type of each column. Plain types only: Spark, pandas, Polars and DuckDB take them as they are."""
    value = pa.binary() if header_bytes else pa.string()
    pair = pa.struct([pa.field("key", pa.string(), False), pa.field("value", value, False)])
    return {
        SUBJECT: pa.string(),
        SEQUENCE: pa.int64(),
        TIMESTAMP: pa.timestamp("ns", "UTC"),
        HEADERS: pa.list_(pa.field("item", pair, False)),
        DATA: pa.binary(),
        REPLY: pa.string(),
        CONSUMER_SEQUENCE: pa.int64(),
        DELIVERY_COUNT: pa.int64(),
        PENDING_COUNT: pa.int64(),
    }


def ack_frames(batch: Any, last_only: bool) -> bytes:
    """An acknowledgement of every row, or of the last one, ready to send."""
    pa = load_pyarrow()
    if REPLY not in batch.schema.names:
        raise BadOptionError("a batch can be acknowledged only with its reply column")
    replies = batch.column(REPLY)
    if last_only:
        replies = replies.slice(max(0, len(replies) - 1))
    replies = replies.filter(replies.is_valid()).cast(pa.binary())
    joined = pa.compute.binary_join_element_wise(b"PUB ", replies, b" 4\r\n+ACK\r\n", b"")
    return b"".join(joined.to_pylist()) if joined.offset else _value_bytes(joined)


def _value_bytes(values: Any) -> bytes:
    """What lies behind a binary array that is no slice: all its values, one after the other."""
    buffer = values.buffers()[2]
    return buffer.to_pybytes() if buffer is not None else b""
