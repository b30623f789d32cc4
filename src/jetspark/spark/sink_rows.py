"""Rows of a DataFrame as messages: which columns there must be, and what each becomes.

Checked against the schema on the driver; against the values a batch at a time, before the first row of that batch is
sent. A value that cannot be sent is a reason given back with the row, not an exception: what happens to such a row is
not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as t

from jetspark.client.core.publish_headers import TTL, ttl_text
from jetspark.client.errors import BadHeaderError, BadOptionError
from jetspark.client.headers import Headers
from jetspark.protocol.subjects import is_valid_subject
from jetspark.spark.sink_options import AUTO, COLUMN, CONTENT, NONE

if TYPE_CHECKING:
    import pyarrow

SUBJECT = "subject"
DATA = ("data", "value")
HEADERS = "headers"
MSG_ID_COLUMN = "msg_id"
TTL_COLUMN = "ttl"
# Columns the source gives beside these: what was read can be written as it is.
SOURCE_ONLY = ("stream", "sequence", "timestamp", "timestamp_ns")
_FIELD = re.compile(r"\{([^{}]*)\}")
_TEXT = (t.StringType, t.VarcharType, t.CharType)
_WHOLE = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
# Headers that told the stream a message was read from what to check, or that it made itself. They were about that
# stream and that moment; the message id is the sink's own.
_CONTROL = re.compile(r"nats-(msg-id$|expected-|batch-|stream-source$|scheduler$|schedule-next$)", re.IGNORECASE)
_NAME_FIELDS = ("key", "name")


@dataclass(frozen=True)
class RowPlan:
    """How the columns of one DataFrame become messages."""

    data: str
    has_subject: bool
    template: str
    fields: tuple[str, ...]
    has_headers: bool
    has_msg_id: bool
    has_ttl: bool
    id_mode: str


@dataclass(slots=True)
class Row:
    """One message, or the reason why it cannot be one."""

    number: int
    subject: str
    block: bytes
    """The user's headers, without the message id."""
    msg_id: bytes
    data: bytes
    reason: str = ""


class Rows:
    """Some rows of a task, a list for each part of a message. `reasons` has those that cannot be sent, by index.

    Or what stands for rows in the stream of the dead letters.
    """

    __slots__ = ("are_letters", "blocks", "ids", "numbers", "payloads", "reasons", "subjects")

    def __init__(
        self,
        numbers: Sequence[int],
        subjects: list[bytes],
        blocks: list[bytes],
        ids: list[bytes],
        payloads: list[bytes],
        reasons: dict[int, str],
        *,
        are_letters: bool = False,
    ) -> None:
        self.numbers = numbers
        self.subjects = subjects
        self.blocks = blocks
        self.ids = ids
        self.payloads = payloads
        self.reasons = reasons
        self.are_letters = are_letters

    def __len__(self) -> int:
        return len(self.payloads)

    def row(self, index: int) -> Row:
        """One of them."""
        return Row(
            self.numbers[index],
            self.subjects[index].decode("utf-8", "replace"),
            self.blocks[index],
            self.ids[index],
            self.payloads[index],
            self.reasons.get(index, ""),
        )

    def between(self, start: int, stop: int) -> Rows:
        """Neighbours among them, all of which can be sent."""
        part = slice(start, stop)
        return Rows(
            self.numbers[part],
            self.subjects[part],
            self.blocks[part],
            self.ids[part],
            self.payloads[part],
            {},
            are_letters=self.are_letters,
        )

    def picked(self, indices: Sequence[int]) -> Rows:
        """Those at some places, all of which can be sent."""
        return Rows(
            [self.numbers[index] for index in indices],
            [self.subjects[index] for index in indices],
            [self.blocks[index] for index in indices],
            [self.ids[index] for index in indices],
            [self.payloads[index] for index in indices],
            {},
            are_letters=self.are_letters,
        )


def plan_rows(schema: t.StructType, template: str, msg_id: str) -> RowPlan:
    """What a DataFrame's columns are for; BadOptionError says what does not fit and what to do."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if len(kinds) < len(schema.fields):
        names = [field.name for field in schema.fields]
        twice = sorted(name for name in kinds if names.count(name) > 1)
        raise BadOptionError(f"columns {', '.join(twice)} are there twice: drop one of each, or give it another name")
    payload = [name for name in DATA if name in kinds]
    if len(payload) != 1:
        found = "both" if payload else f"neither, but {', '.join(kinds) or 'no columns'}"
        raise BadOptionError(f"a row needs one payload column, data or value; this DataFrame has {found}")
    _check_kind(payload[0], kinds[payload[0]], (*_TEXT, t.BinaryType), "binary or string")
    fields = tuple(dict.fromkeys(_FIELD.findall(template)))
    for name in fields:
        if name not in kinds:
            raise BadOptionError(f"option subject names {{{name}}}, and the columns are {', '.join(kinds)}")
        _check_kind(name, kinds[name], (*_TEXT, *_WHOLE, t.BooleanType, t.DateType), "text or a whole number")
    _check_template(template, SUBJECT in kinds)
    for name, allowed, words in (
        (SUBJECT, _TEXT, "string"),
        (MSG_ID_COLUMN, (*_TEXT, *_WHOLE), "string or a whole number"),
        (TTL_COLUMN, (*_TEXT, *_WHOLE, t.DayTimeIntervalType), "string (as in 30s or 1h), seconds, or an interval"),
    ):
        if name in kinds:
            _check_kind(name, kinds[name], allowed, words)
    if HEADERS in kinds:
        _check_headers(kinds[HEADERS])
    known = {*payload, *fields, SUBJECT, HEADERS, MSG_ID_COLUMN, TTL_COLUMN, *SOURCE_ONLY}
    unknown = [name for name in kinds if name not in known]
    if unknown:
        raise BadOptionError(
            f"columns {', '.join(unknown)} have no place in a message: put them into {payload[0]} (as with to_json), "
            "name them in option subject, or drop them"
        )
    return RowPlan(
        payload[0], SUBJECT in kinds, template, fields, HEADERS in kinds, MSG_ID_COLUMN in kinds, TTL_COLUMN in kinds,
        _id_mode(msg_id, MSG_ID_COLUMN in kinds),
    )  # fmt: skip


def _id_mode(asked: str, has_column: bool) -> str:
    if asked == COLUMN and not has_column:
        raise BadOptionError("option msgId is column, and there is no column msg_id")
    if asked in (CONTENT, NONE) or not has_column:
        return CONTENT if asked == AUTO else asked
    if asked not in (AUTO, COLUMN):
        raise BadOptionError(f"option msgId is {asked}, and there is a column msg_id: drop one of them")
    return COLUMN


def _check_kind(name: str, kind: t.DataType, allowed: tuple[type, ...], words: str) -> None:
    if not isinstance(kind, allowed):
        raise BadOptionError(f"column {name} must be {words}, not {kind.simpleString()}")


def _check_template(template: str, has_column: bool) -> None:
    if not template:
        if not has_column:
            raise BadOptionError("where to? give option subject, or a column subject")
        return
    if not is_valid_subject(_FIELD.sub("x", template).encode()) or "{" in _FIELD.sub("", template):
        raise BadOptionError(
            f"option subject takes a subject such as orders.new or orders.{{country}}, not {template!r}"
        )
    if any(token in ("*", ">") for token in template.split(".")):
        raise BadOptionError(f"option subject is where rows are published, so it has no wildcards: {template!r}")


def _check_headers(kind: t.DataType) -> None:
    values = (*_TEXT, t.BinaryType)
    if isinstance(kind, t.MapType) and isinstance(kind.keyType, _TEXT):
        value = kind.valueType.elementType if isinstance(kind.valueType, t.ArrayType) else kind.valueType
        if isinstance(value, values):
            return
    if isinstance(kind, t.ArrayType) and isinstance(kind.elementType, t.StructType):
        pair = kind.elementType.fields
        if len(pair) == 2 and pair[0].name in _NAME_FIELDS and pair[1].name == "value":
            if isinstance(pair[0].dataType, _TEXT) and isinstance(pair[1].dataType, values):
                return
    raise BadOptionError(
        "column headers must be array<struct<key:string,value:binary>> (or string values) or map<string,string>, "
        f"not {kind.simpleString()}"
    )


class RowReader:
    """Arrow batches into rows, numbered from 0 over the whole partition."""

    def __init__(self, plan: RowPlan) -> None:
        self._plan = plan
        self._number = 0

    def read(self, batch: pyarrow.RecordBatch) -> Rows:
        """The rows of one batch. Their ids are those of the column msg_id when ids come from there, else empty."""
        plan = self._plan
        count = batch.num_rows
        reasons: dict[int, str] = {}
        subjects = self._subjects(batch, count)
        if None in subjects:
            said = "it has no subject: the column, or a column of the template, is null"
            reasons.update((index, said) for index, subject in enumerate(subjects) if subject is None)
        empty = [b""] * count
        blocks = self._blocks(batch, reasons) if plan.has_headers or plan.has_ttl else empty
        ids = _ids(batch, reasons) if plan.id_mode == COLUMN else empty
        numbers = range(self._number, self._number + count)
        self._number += count
        return Rows(numbers, [one or b"" for one in subjects], blocks, ids, _payloads(batch, plan.data), reasons)

    def _subjects(self, batch: pyarrow.RecordBatch, count: int) -> list[bytes | None]:
        plan = self._plan
        default: list[bytes | None]
        if plan.fields:
            columns = [_list(batch, name) for name in plan.fields]
            default = [self._filled(values) for values in zip(*columns, strict=True)]
        else:
            default = [plan.template.encode() or None] * count
        if not plan.has_subject:
            return default
        chosen = _list(batch, SUBJECT)
        return [other if own is None else own.encode() for own, other in zip(chosen, default, strict=True)]

    def _filled(self, values: tuple[Any, ...]) -> bytes | None:
        if any(value is None for value in values):
            return None
        told = dict(zip(self._plan.fields, values, strict=True))
        return _FIELD.sub(lambda match: _subject_text(told[match[1]]), self._plan.template).encode()

    def _blocks(self, batch: pyarrow.RecordBatch, reasons: dict[int, str]) -> list[bytes]:
        nothing = [None] * batch.num_rows
        headers = _list(batch, HEADERS) if self._plan.has_headers else nothing
        ttls = _list(batch, TTL_COLUMN) if self._plan.has_ttl else nothing
        blocks = []
        for index, (pairs, ttl) in enumerate(zip(headers, ttls, strict=True)):
            try:
                blocks.append(_block(pairs, ttl))
            except (BadHeaderError, BadOptionError) as error:
                reasons.setdefault(index, str(error))
                blocks.append(b"")
        return blocks


def _block(pairs: Any, ttl: Any) -> bytes:
    made = Headers((name, value) for name, value in _pairs(pairs) if not _CONTROL.match(name))
    # An empty text is what a CSV file has for nothing.
    if ttl is not None and ttl != "":
        made.set(TTL, ttl_text(ttl.total_seconds() if isinstance(ttl, timedelta) else ttl))
    return made.to_block()


def _ids(batch: pyarrow.RecordBatch, reasons: dict[int, str]) -> list[bytes]:
    ids = []
    for index, value in enumerate(_list(batch, MSG_ID_COLUMN)):
        text = "" if value is None else str(value)
        if not text or any(ord(character) < 32 for character in text) or text != text.strip():
            reasons.setdefault(index, f"its msg_id is no message id: {value!r}")
        ids.append(text.encode())
    return ids


def _payloads(batch: pyarrow.RecordBatch, name: str) -> list[bytes]:
    import pyarrow as pa

    column = batch.column(batch.schema.get_field_index(name)).cast(pa.binary())
    values: list[bytes] = column.to_pylist()
    return [value or b"" for value in values] if column.null_count else values


def _list(batch: pyarrow.RecordBatch, name: str) -> list[Any]:
    values: list[Any] = batch.column(batch.schema.get_field_index(name)).to_pylist()
    return values


def _subject_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pairs(headers: Any) -> Iterator[tuple[str, str | bytes]]:
    """Pairs of a headers value: a list of structs, or a map, whose values may be lists."""
    for one in headers or ():
        if one is None:
            continue
        name, value = tuple(one.values()) if isinstance(one, dict) else one
        if name is None:
            raise BadHeaderError("a header has no name: its key is null")
        for single in value if isinstance(value, list) else (value,):
            yield name, b"" if single is None else single
