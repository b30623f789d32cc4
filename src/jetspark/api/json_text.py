"""Reading JSON request bodies the way nats-server's decoder does, with its words for what is wrong.

Decided here: the plain value tree (numbers keep their text, objects keep their pairs) and the sentence for a
syntax error. Not known here: which fields a document has; `schema` checks those.

Well-formed text is read by the standard library's C scanner. Only text that it refuses is walked again in Python,
to name the offending byte and its offset, which end up in front of users.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from jetspark.api.numbers import bounded_integer


class JsonNumber(str):
    """A number as it was spelt: `1e9` is not an integer to the API, though it has an integer's value."""

    __slots__ = ()


class JsonObject(list[tuple[str, Any]]):
    """An object's pairs in document order; a repeated key stays repeated, and the last one wins."""


class JsonSyntaxError(ValueError):
    """The text is not JSON; the message is the sentence after `invalid JSON: `."""


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


_SCANNER: Final = json.JSONDecoder(
    object_pairs_hook=JsonObject, parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=_refuse_constant
)
_WHITE_SPACE: Final = " \t\r\n"
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Longer integers are not kept exactly: Python would refuse to read or write them.
_DIGITS_EXACT_MAX: Final = 1000
_HEX_DIGITS: Final = "0123456789abcdefABCDEF"


def read_documents(body: bytes) -> Iterator[Any]:
    """Each JSON value of the body in turn; a request body may hold none, one, or several that build on each other."""
    text = body.decode("utf-8", "replace")
    position = 0
    end = len(text)
    while True:
        while position < end and text[position] in _WHITE_SPACE:
            position += 1
        if position == end:
            return
        try:
            value, position = _scan(text, position)
        except (ValueError, RecursionError):
            raise JsonSyntaxError(explain_syntax_error(text, position)) from None
        yield value


def read_document(body: bytes) -> Any:
    """The one value of a body that must hold exactly one, as `json.Unmarshal` reads it."""
    text = body.decode("utf-8", "replace")
    position = 0
    end = len(text)
    while position < end and text[position] in _WHITE_SPACE:
        position += 1
    if position == end:
        raise JsonSyntaxError("unexpected end of JSON input")
    try:
        value, position = _scan(text, position)
    except (ValueError, RecursionError):
        sentence = explain_syntax_error(text, position).partition(" at offset ")[0]
        raise JsonSyntaxError("unexpected end of JSON input" if sentence == "unexpected EOF" else sentence) from None
    while position < end and text[position] in _WHITE_SPACE:
        position += 1
    if position < end:
        raise JsonSyntaxError(f"invalid character {quote_character(text[position])} after top-level value")
    return value


def _scan(text: str, position: int) -> tuple[Any, int]:
    value, end = _SCANNER.raw_decode(text, position)
    if _SURROGATE_ESCAPE.search(text, position, end) is not None:
        value = _without_surrogates(value)
    return value, end


def _without_surrogates(value: Any) -> Any:
    """The tree with U+FFFD in place of each half of a surrogate pair: Go reads it so, and no half can be written."""
    if isinstance(value, JsonObject):
        return JsonObject((_without_surrogates(key), _without_surrogates(item)) for key, item in value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, str) and not isinstance(value, JsonNumber):
        return _SURROGATE.sub("\ufffd", value)
    return value


def to_plain(value: Any) -> Any:
    """The tree as ordinary dicts, lists and numbers, for fields that are kept without being understood."""
    if isinstance(value, JsonObject):
        return {key: to_plain(item) for key, item in value}
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    if isinstance(value, JsonNumber):
        if not value.lstrip("-").isdigit():
            return float(value)
        return int(value) if len(value) <= _DIGITS_EXACT_MAX else bounded_integer(value)
    return value


def to_text(value: Any) -> str:
    """The value as compact JSON text, near enough to its source to be quoted in an error."""
    if isinstance(value, JsonNumber):
        return str(value)
    return json.dumps(to_plain(value), separators=(",", ":"), ensure_ascii=False)


def quote_character(character: str) -> str:
    """A character in single quotes, as Go's JSON errors show it."""
    if character == "'":
        return r"'\''"
    if character == '"':
        return "'\"'"
    return f"'{quote_go(character)[1:-1]}'"


_GO_ESCAPES: Final = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v",
    "\\": r"\\", '"': r"\"",
}  # fmt: skip


def quote_go(text: str) -> str:
    """A string in double quotes with Go's escapes, as `%q` prints it."""
    parts = ['"']
    for character in text:
        escaped = _GO_ESCAPES.get(character)
        if escaped is not None:
            parts.append(escaped)
        elif character < " " or character == "\x7f":
            parts.append(f"\\x{ord(character):02x}")
        else:
            parts.append(character)
    parts.append('"')
    return "".join(parts)


class _Found(Exception):
    """Carries the position and sentence of the first offending character out of the walk."""

    def __init__(self, position: int, sentence: str) -> None:
        self.position = position
        self.sentence = sentence


def explain_syntax_error(text: str, start: int) -> str:
    """The sentence for the first thing wrong in the value starting there, with the byte offset just after it."""
    try:
        _Walk(text).value(start)
    except _Found as found:
        if found.position >= len(text):
            return "unexpected EOF"
        offset = len(text[: found.position + 1].encode("utf-8", "replace"))
        return f"{found.sentence} at offset {offset}"
    except RecursionError:
        return "exceeded max depth"
    return "unexpected EOF"


class _Walk:
    """JSON's grammar as Go's scanner steps through it, stopping at the first character that does not fit."""

    def __init__(self, text: str) -> None:
        self.text = text

    def peek(self, position: int) -> str:
        return self.text[position] if position < len(self.text) else ""

    def fail(self, position: int, where: str) -> None:
        character = self.peek(position)
        raise _Found(position, f"invalid character {quote_character(character)} {where}" if character else "")

    def skip_space(self, position: int) -> int:
        while self.peek(position) and self.peek(position) in _WHITE_SPACE:
            position += 1
        return position

    def value(self, position: int) -> int:
        position = self.skip_space(position)
        character = self.peek(position)
        if character == "{":
            return self.object(position + 1)
        if character == "[":
            return self.array(position + 1)
        if character == '"':
            return self.string(position + 1)
        if character == "-" or character.isdigit():
            return self.number(position)
        for literal in ("true", "false", "null"):
            if character == literal[0]:
                return self.literal(position, literal)
        self.fail(position, "looking for beginning of value")
        return position

    def object(self, position: int) -> int:
        position = self.skip_space(position)
        if self.peek(position) == "}":
            return position + 1
        while True:
            position = self.skip_space(position)
            if self.peek(position) != '"':
                self.fail(position, "looking for beginning of object key string")
            position = self.skip_space(self.string(position + 1))
            if self.peek(position) != ":":
                self.fail(position, "after object key")
            position = self.skip_space(self.value(position + 1))
            if self.peek(position) == "}":
                return position + 1
            if self.peek(position) != ",":
                self.fail(position, "after object key:value pair")
            position += 1

    def array(self, position: int) -> int:
        position = self.skip_space(position)
        if self.peek(position) == "]":
            return position + 1
        while True:
            position = self.skip_space(self.value(position))
            if self.peek(position) == "]":
                return position + 1
            if self.peek(position) != ",":
                self.fail(position, "after array element")
            position += 1

    def literal(self, position: int, literal: str) -> int:
        for index, expected in enumerate(literal):
            if self.peek(position + index) != expected:
                self.fail(position + index, f"in literal {literal} (expecting {quote_character(expected)})")
        return position + len(literal)

    def number(self, position: int) -> int:
        if self.peek(position) == "-":
            position += 1
        if self.peek(position) == "0":
            position += 1
        else:
            position = self.digits(position)
        if self.peek(position) == ".":
            position = self.digits(position + 1)
        if self.peek(position) in ("e", "E"):
            position += 1
            if self.peek(position) in ("+", "-"):
                position += 1
            position = self.digits(position)
        return position

    def digits(self, position: int) -> int:
        if not self.peek(position).isdigit():
            self.fail(position, "in numeric literal")
        while self.peek(position).isdigit():
            position += 1
        return position

    def string(self, position: int) -> int:
        while True:
            character = self.peek(position)
            if character == '"':
                return position + 1
            if character == "\\":
                position = self.escape(position)
                continue
            if character == "" or character < " ":
                self.fail(position, "in string")
            position += 1

    def escape(self, position: int) -> int:
        kind = self.peek(position + 1)
        if kind and kind in '"\\/bfnrt':
            return position + 2
        if kind != "u":
            raise _Found(position + 1, f"invalid escape sequence `\\{kind}` in string")
        digits = self.text[position + 2 : position + 6]
        if len(digits) < 4:
            raise _Found(len(self.text), "")
        if any(digit not in _HEX_DIGITS for digit in digits):
            raise _Found(position + 5, f"invalid escape sequence `\\u{digits}` in string")
        return position + 6
