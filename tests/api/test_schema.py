"""Documents as dataclasses: reading strictly and leniently, writing in order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from jetspark.api.error_codes import ApiError
from jetspark.api.schema import (
    BOOL,
    INT,
    STRING,
    STRING_LIST,
    STRING_MAP,
    TIME,
    StructOf,
    decode_documents,
    decode_into,
    decode_one,
    encode_struct,
    wire,
    wire_fields,
)
from jetspark.api.timestamps import WireTime, parse_time


@dataclass(frozen=True, kw_only=True)
class Inner:
    flag: bool = wire(BOOL, omit_empty=True)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Outer:
    zeta: str = wire(STRING)
    count: int = wire(INT, default=-1, omit_empty=True)
    words: tuple[str, ...] = wire(STRING_LIST, omit_empty=True)
    labels: Mapping[str, str] = wire(STRING_MAP, omit_empty=True)
    since: WireTime | None = wire(TIME, omit_empty=True)
    inner: Inner | None = wire(StructOf(Inner, "server.Inner"), omit_empty=True)
    extra: Mapping[str, Any] = field(default_factory=dict)


def read(body: bytes, *, strict: bool = True) -> Outer:
    return Outer(**decode_documents(wire_fields(Outer), body, "Outer", strict))


def test_fields_are_written_in_order_of_declaration_and_empty_ones_left_out() -> None:
    assert encode_struct(Outer()) == {"zeta": "", "count": -1}
    full = Outer(
        zeta="z", count=3, words=("b", "a"), labels={"b": "2", "a": "1"}, since=WireTime(0), inner=Inner(flag=True)
    )

    document = encode_struct(full)

    assert list(document) == ["zeta", "count", "words", "labels", "since", "inner"]
    assert list(document["labels"]) == ["a", "b"]
    assert document["since"] == "1970-01-01T00:00:00Z"


def test_what_was_written_can_be_read_back() -> None:
    body = (
        b'{"zeta":"z","count":3,"words":["a"],"labels":{"a":"1"},"since":"2026-01-01T00:00:00Z","inner":{"flag":true}}'
    )

    assert read(body) == Outer(
        zeta="z",
        count=3,
        words=("a",),
        labels={"a": "1"},
        since=parse_time("2026-01-01T00:00:00Z"),
        inner=Inner(flag=True),
    )


def test_null_leaves_a_field_as_it_is() -> None:
    assert read(b'{"zeta":null,"count":null,"words":null,"since":null,"inner":null}') == Outer()


def test_strictly_an_unknown_field_is_refused_wherever_it_is() -> None:
    for body in (b'{"x":1}', b'{"inner":{"x":1}}'):
        with pytest.raises(ApiError, match='json: unknown field "x"'):
            read(body)


def test_leniently_an_unknown_field_is_kept_and_written_back() -> None:
    outer = read(b'{"zeta":"z","x":{"y":[1,2.5]},"inner":{"n":7}}', strict=False)

    assert outer.extra == {"x": {"y": [1, 2.5]}}
    assert encode_struct(outer) == {"zeta": "z", "count": -1, "inner": {"n": 7}, "x": {"y": [1, 2.5]}}


def test_later_documents_add_to_earlier_ones() -> None:
    assert read(b'{"zeta":"a","count":1}{"zeta":"b"}') == Outer(zeta="b", count=1)


def test_a_plain_decode_takes_one_document_and_ignores_what_it_does_not_know() -> None:
    assert decode_one(wire_fields(Outer), b'{"count":2,"x":1}', "Outer") == {"count": 2}
    with pytest.raises(ApiError, match="after top-level value"):
        decode_one(wire_fields(Outer), b'{"count":2}{}', "Outer")


def test_a_parsed_document_is_read_like_a_body() -> None:
    values: dict[str, Any] = {}
    decode_into(values, wire_fields(Outer), {"count": 4, "words": ["a"], "labels": {"k": "v"}}, "Outer", strict=True)

    assert values == {"count": 4, "words": ("a",), "labels": {"k": "v"}}
