"""JSON documents as frozen dataclasses: what each field is on the wire, read and written in one place.

Decided here: how a declared field is decoded (strictly, with nats-server's words, or leniently), when it is left out
of the output, and in which order fields are written (the order of declaration).
Not known here: any particular document, and whether its values make sense together.

nats-server names Go types and field paths in its complaints; the kinds below carry those names, because people
search for these sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, TypeVar

from jetspark.api.error_codes import ErrorCode, make
from jetspark.api.json_text import (
    JsonNumber,
    JsonObject,
    JsonSyntaxError,
    quote_go,
    read_document,
    read_documents,
    to_plain,
    to_text,
)
from jetspark.api.numbers import bounded_integer
from jetspark.api.timestamps import ZERO_TIME_NS, WireTime, parse_time

Struct = TypeVar("Struct")


class SchemaError(ValueError):
    """The document does not fit; the message is the sentence after `invalid JSON: `."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the document we are, for error texts."""

    path: str
    in_list: bool = False

    def mismatch(self, value: Any, go_type: str) -> SchemaError:
        """The complaint about a value of the wrong kind at this place."""
        what = _describe(value, go_type)
        if "." not in self.path:
            what = what.partition(" ")[0]
            return SchemaError(f"json: cannot unmarshal {what} into Go value of type {go_type}")
        prefix = "" if self.in_list else "Go struct field "
        return SchemaError(f"json: cannot unmarshal {what} into {prefix}{self.path} of type {go_type}")


_INTEGER_TYPES: Final = frozenset({"int", "int32", "int64", "uint64", "time.Duration"})


def _describe(value: Any, go_type: str) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (JsonNumber, int, float)):
        # Only a number that is the wrong number is shown; where no number fits at all, it is just "number".
        return f"number {value}" if go_type in _INTEGER_TYPES else "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (JsonObject, Mapping)):
        return "object"
    return "array"


class Kind:
    """How one kind of value is read and written. `zero` is what a missing or null field becomes."""

    go_type = ""

    def zero(self) -> Any:
        """The value of a field the document does not mention."""
        raise NotImplementedError

    def decode(self, value: Any, place: Place, strict: bool) -> Any:
        """The Python value, or `SchemaError`."""
        raise NotImplementedError

    def encode(self, value: Any) -> Any:
        """The JSON value."""
        return value

    def is_empty(self, value: Any) -> bool:
        """Whether `omit_empty` leaves the value out."""
        return not value


class _String(Kind):
    go_type = "string"

    def zero(self) -> str:
        return ""

    def decode(self, value: Any, place: Place, strict: bool) -> str:
        if not isinstance(value, str) or isinstance(value, JsonNumber):
            raise place.mismatch(value, self.go_type)
        return value


class _Bool(Kind):
    go_type = "bool"

    def zero(self) -> bool:
        return False

    def decode(self, value: Any, place: Place, strict: bool) -> bool:
        if not isinstance(value, bool):
            raise place.mismatch(value, self.go_type)
        return value


class _Integer(Kind):
    def __init__(self, go_type: str, low: int, high: int) -> None:
        self.go_type = go_type
        self._low = low
        self._high = high

    def zero(self) -> int:
        return 0

    def decode(self, value: Any, place: Place, strict: bool) -> int:
        if isinstance(value, JsonNumber):
            # Text such as 1e9 or 1.0 has an integer's value but is not an integer to the API.
            number = bounded_integer(value) if value.lstrip("-").isdigit() else None
        else:
            number = value if isinstance(value, int) and not isinstance(value, bool) else None
        if number is None or not self._low <= number <= self._high:
            raise place.mismatch(value, self.go_type)
        return number


class _Time(Kind):
    go_type = "time.Time"

    def __init__(self, zero: WireTime | None) -> None:
        self._zero = zero

    def zero(self) -> WireTime | None:
        return self._zero

    def decode(self, value: Any, place: Place, strict: bool) -> WireTime:
        if not isinstance(value, str) or isinstance(value, JsonNumber):
            raise place.mismatch(value, self.go_type)
        try:
            return parse_time(value)
        except ValueError as error:
            raise SchemaError(str(error)) from None

    def encode(self, value: WireTime) -> str:
        return str(value)

    def is_empty(self, value: WireTime | None) -> bool:
        return value is None


class EnumOf(Kind):
    """One word of a few. `unknown` gives the complaint about any other JSON text."""

    def __init__(
        self,
        words: type[StrEnum],
        zero: StrEnum,
        *,
        unknown: Callable[[Any], str] | None = None,
        aliases: Mapping[str, StrEnum] | None = None,
        any_case: bool = False,
    ) -> None:
        self._words: dict[str, StrEnum] = {str(word): word for word in words}
        self._words.update(aliases or {})
        self._zero = zero
        self._any_case = any_case
        self._unknown = unknown or (lambda value: f"can not unmarshal {quote_go(to_text(value))}")

    def zero(self) -> StrEnum:
        return self._zero

    def decode(self, value: Any, place: Place, strict: bool) -> StrEnum | str:
        if isinstance(value, str) and not isinstance(value, JsonNumber):
            word = self._words.get(value.lower() if self._any_case else value)
            if word is not None:
                return word
            if not strict:
                return value  # a newer peer's word: better shown than refused
        raise SchemaError(self._unknown(value))

    def encode(self, value: str) -> str:
        return str(value)

    def is_empty(self, value: str) -> bool:
        return value == self._zero


class ListOf(Kind):
    """A JSON array, kept as a tuple."""

    def __init__(self, item: Kind, go_type: str) -> None:
        self._item = item
        self.go_type = go_type

    def zero(self) -> tuple[Any, ...]:
        return ()

    def decode(self, value: Any, place: Place, strict: bool) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)) or isinstance(value, JsonObject):
            raise place.mismatch(value, self.go_type)
        items = []
        for index, item in enumerate(value):
            if item is None:
                items.append(self._item.zero())
            else:
                items.append(self._item.decode(item, Place(f"{place.path}.{index}", in_list=True), strict))
        return tuple(items)

    def encode(self, value: tuple[Any, ...]) -> list[Any]:
        return [None if item is None else self._item.encode(item) for item in value]


class MapOf(Kind):
    """A JSON object with free keys; written with its keys sorted, as Go does."""

    def __init__(self, item: Kind, go_type: str) -> None:
        self._item = item
        self.go_type = go_type

    def zero(self) -> dict[str, Any]:
        return {}

    def decode(self, value: Any, place: Place, strict: bool) -> dict[str, Any]:
        if not isinstance(value, (JsonObject, Mapping)):
            raise place.mismatch(value, self.go_type)
        result = {}
        for key, item in pairs_of(value):
            kind = self._item
            result[key] = kind.zero() if item is None else kind.decode(item, Place(f"{place.path}.{key}"), strict)
        return result

    def encode(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value[key] for key in sorted(value)}


class StructOf(Kind):
    """A nested document. `optional` fields are None when absent, others become an empty document."""

    def __init__(self, struct: type[Any], go_type: str, *, optional: bool = True) -> None:
        self._struct = struct
        self.go_type = go_type
        self._optional = optional

    def zero(self) -> Any:
        return None if self._optional else self._struct()

    def decode(self, value: Any, place: Place, strict: bool) -> Any:
        if not isinstance(value, (JsonObject, Mapping)):
            raise place.mismatch(value, self.go_type)
        values: dict[str, Any] = {}
        decode_into(values, wire_fields(self._struct), value, place.path, strict)
        return self._struct(**values)

    def encode(self, value: Any) -> dict[str, Any]:
        return encode_struct(value)

    def is_empty(self, value: Any) -> bool:
        return value is None


STRING: Final = _String()
BOOL: Final = _Bool()
INT: Final = _Integer("int", -(1 << 63), (1 << 63) - 1)
INT64: Final = _Integer("int64", -(1 << 63), (1 << 63) - 1)
INT32: Final = _Integer("int32", -(1 << 31), (1 << 31) - 1)
UINT64: Final = _Integer("uint64", 0, (1 << 64) - 1)
DURATION: Final = _Integer("time.Duration", -(1 << 63), (1 << 63) - 1)
TIME: Final = _Time(None)
TIME_VALUE: Final = _Time(WireTime(ZERO_TIME_NS))
STRING_LIST: Final = ListOf(STRING, "[]string")
UINT64_LIST: Final = ListOf(UINT64, "[]uint64")
DURATION_LIST: Final = ListOf(DURATION, "[]time.Duration")
STRING_MAP: Final = MapOf(STRING, "map[string]string")
UINT64_MAP: Final = MapOf(UINT64, "map[string]uint64")


@dataclass(frozen=True, slots=True)
class WireField:
    """One field of a document: its name, its kind, and whether an empty value is left out."""

    name: str
    kind: Kind
    omit_empty: bool


def wire(kind: Kind, *, default: Any = MISSING, omit_empty: bool = False) -> Any:
    """Declare a dataclass field that appears in the document under its own name."""
    metadata = {"kind": kind, "omit_empty": omit_empty}
    if default is MISSING:
        return field(default_factory=kind.zero, metadata=metadata)
    return field(default=default, metadata=metadata)


_SPECS: Final[dict[type[Any], tuple[WireField, ...]]] = {}


def wire_fields(struct: type[Any]) -> tuple[WireField, ...]:
    """The wire fields of a dataclass, in order of declaration."""
    spec = _SPECS.get(struct)
    if spec is None:
        spec = tuple(
            WireField(item.name, item.metadata["kind"], item.metadata["omit_empty"])
            for item in fields(struct)
            if "kind" in item.metadata
        )
        _SPECS[struct] = spec
    return spec


def pairs_of(value: Any) -> list[tuple[str, Any]]:
    """The pairs of a JSON object in either of its two forms."""
    return value if isinstance(value, JsonObject) else list(value.items())


def decode_into(values: dict[str, Any], spec: tuple[WireField, ...], document: Any, path: str, strict: bool) -> None:
    """Decode an object's fields into `values`; unknown ones are refused, or kept under `extra` when not strict."""
    by_name = {item.name: item for item in spec}
    for key, value in pairs_of(document):
        # Go matches field names without regard to case when no exact match exists.
        item = by_name.get(key) or by_name.get(key.lower())
        if item is None:
            if strict:
                raise SchemaError(f"json: unknown field {quote_go(key)}")
            values.setdefault("extra", {})[key] = to_plain(value)
        elif value is None and not isinstance(item.kind, EnumOf):
            if item.kind.zero() is None:
                values[item.name] = None
        else:
            values[item.name] = item.kind.decode(value, Place(f"{path}.{key}"), strict)


def decode_documents(spec: tuple[WireField, ...], body: bytes, go_name: str, strict: bool) -> dict[str, Any]:
    """Read a request body as nats-server's strict decoder does; the error is `ApiError` 10025.

    The body may hold several values, each adding to the one before, and none at all is an empty document.
    """
    values: dict[str, Any] = {}
    try:
        for document in read_documents(body):
            _decode_root(values, spec, document, go_name, strict)
    except (SchemaError, JsonSyntaxError) as error:
        raise make(ErrorCode.INVALID_JSON, err=error) from None
    return values


def decode_one(spec: tuple[WireField, ...], body: bytes, go_name: str) -> dict[str, Any]:
    """Read a body that is decoded plainly: exactly one value, unknown fields ignored; `ApiError` 10025."""
    values: dict[str, Any] = {}
    try:
        _decode_root(values, spec, read_document(body), go_name, strict=False)
    except (SchemaError, JsonSyntaxError) as error:
        raise make(ErrorCode.INVALID_JSON, err=error) from None
    values.pop("extra", None)
    return values


def _decode_root(
    values: dict[str, Any], spec: tuple[WireField, ...], document: Any, go_name: str, strict: bool
) -> None:
    if document is None:
        return
    if not isinstance(document, JsonObject):
        raise Place(go_name).mismatch(document, f"server.{go_name}")
    decode_into(values, spec, document, go_name, strict)


def encode_struct(value: Any) -> dict[str, Any]:
    """The document of a dataclass: fields in order, empty ones left out where declared so, then what was kept."""
    document: dict[str, Any] = {}
    for item in wire_fields(type(value)):
        content = getattr(value, item.name)
        if item.omit_empty and item.kind.is_empty(content):
            continue
        document[item.name] = item.kind.encode(content)
    extra: Mapping[str, Any] = getattr(value, "extra", {})
    for key, content in extra.items():
        document.setdefault(key, content)
    return document
