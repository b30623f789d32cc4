"""Reading JSON: values as they were spelt, and the words for what is not JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

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

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def test_numbers_keep_their_spelling_and_objects_their_pairs() -> None:
    value = read_document(b'{"a":1e3,"a":[1.50]}')

    assert value == [("a", "1e3"), ("a", ["1.50"])]
    assert isinstance(value, JsonObject)
    assert isinstance(value[0][1], JsonNumber)


def test_a_body_may_hold_no_value_or_several() -> None:
    assert list(read_documents(b"  \n")) == []
    assert list(read_documents(b'{"a":1} {"b":2}3')) == [[("a", "1")], [("b", "2")], "3"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b"{} {}", "invalid character '{' after top-level value"),
        (b"nope", "invalid character 'o' in literal null (expecting 'u')"),
        (b"{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
    ],
)
def test_a_single_value_is_read_with_the_words_of_a_plain_decode(body: bytes, sentence: str) -> None:
    with pytest.raises(JsonSyntaxError) as error:
        read_document(body)

    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("{", "unexpected EOF"),
        ('{"é":x}', "invalid character 'x' looking for beginning of value at offset 7"),
        ("[NaN]", "invalid character 'N' looking for beginning of value at offset 2"),
        ('"\\ud8"', 'invalid escape sequence `\\ud8" ` in string at offset 7'),
    ],
)
def test_offsets_are_counted_in_bytes(body: str, sentence: str) -> None:
    with pytest.raises(JsonSyntaxError) as error:
        list(read_documents(body.encode() + (b"" if body == "{" else b" ")))

    assert str(error.value) == sentence


@pytest.mark.long
@given(JSON_VALUES)
def test_whatever_is_json_is_read_as_the_standard_library_reads_it(value: object) -> None:
    body = json.dumps(value).encode()

    assert to_plain(read_document(body)) == json.loads(body)
    assert json.loads(to_text(read_document(body))) == json.loads(body)


@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:0123eE+-.\\untrfalsé ', max_size=30).map(str.encode))
def test_any_bytes_are_read_or_refused_with_a_sentence(body: bytes) -> None:
    sentence = "no error"
    try:
        list(read_documents(body))
    except JsonSyntaxError as error:
        sentence = str(error)

    assert sentence


def test_deep_nesting_is_refused_and_does_not_fall_over() -> None:
    with pytest.raises(JsonSyntaxError):
        list(read_documents(b"[" * 200_000))


def test_text_is_quoted_with_gos_escapes() -> None:
    assert quote_go('a"b\\c\n\x01é') == '"a\\"b\\\\c\\n\\x01é"'
