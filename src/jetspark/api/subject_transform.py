"""Rewriting subjects: from a pattern to a destination with placeholders.

Decided here: the placeholder functions, what makes a transform invalid and the words for it, and the rewriting itself.
Not known here: which stream uses a transform, and where random numbers come from (one is asked for when needed).

    src  orders.*.*      dest  by.{{wildcard(2)}}.{{partition(3,1)}}
    orders.eu.42    ->   by.42.1
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from jetspark.api.numbers import bounded_integer

_INVALID: Final = "invalid mapping destination"
_INT32_MAX: Final = (1 << 31) - 1


class TransformError(ValueError):
    """A transform that can not be; the message is nats-server's."""


def _bad_destination(reason: str, token: str) -> TransformError:
    return TransformError(f"{_INVALID}: {reason} in {token}" if token else f"{_INVALID}: {reason}")


_NOT_ENOUGH: Final = "not enough arguments passed to the function"
_TOO_MANY: Final = "too many arguments passed to the function"
_INVALID_ARGUMENT: Final = "function argument is invalid or in the wrong format"
_OUT_OF_RANGE: Final = "wildcard index out of range"
_UNKNOWN_FUNCTION: Final = "unknown function"
_INVALID_TRANSFORM: Final = "invalid transform"

# In the order in which nats-server tries them. Only the capitals of the camel case may be small.
_FUNCTIONS: Final = {
    name: re.compile(r"\{\{\s*+" + pattern + r"\s*+\(")
    for name, pattern in (
        ("wildcard", "[wW]ildcard"),
        ("partition", "[pP]artition"),
        ("splitfromleft", "[sS]plit[fF]rom[lL]eft"),
        ("splitfromright", "[sS]plit[fF]rom[rR]ight"),
        ("slicefromleft", "[sS]lice[fF]rom[lL]eft"),
        ("slicefromright", "[sS]lice[fF]rom[rR]ight"),
        ("right", "[rR]ight"),
        ("left", "[lL]eft"),
        ("split", "[sS]plit"),
        ("random", "[rR]andom"),
    )
}
_CALL_END: Final = re.compile(r"(.*)\)\s*\}\}")
_COMMA: Final = re.compile(r",\s*")
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Part:
    """One token of the destination: plain text, or a function of some source tokens."""

    function: str  # "" for plain text
    text: str
    sources: tuple[int, ...] = ()  # positions of source tokens
    number: int = 0
    separator: str = ""


def _parse_integer(text: str) -> int | None:
    return bounded_integer(text) if _INTEGER.fullmatch(text) else None


def _is_mustache(token: str) -> bool:
    return len(token) > 4 and token.startswith("{{") and token.endswith("}}")


def _find_call(token: str) -> tuple[str, str] | None:
    """The first function that the token calls, and the text between its parentheses."""
    for name, opening in _FUNCTIONS.items():
        opened = opening.search(token)
        # A call that does not end behind its first opening ends behind no later one: one try, and so linear time.
        closed = None if opened is None else _CALL_END.match(token, opened.end())
        if closed is not None:
            return name, closed[1]
    return None


def _read_part(token: str) -> _Part:
    """The placeholder a destination token is, with its wildcard numbers still counted from 1 in `sources`."""
    if len(token) > 1 and token[0] == "$":
        # Subjects may begin with $ for other reasons; only a number makes it a placeholder.
        index = _parse_integer(token[1:])
        return _Part("", token) if index is None else _Part("wildcard", token, (index,))
    if not _is_mustache(token):
        return _Part("", token)
    called = _find_call(token)
    if called is not None:
        return _read_function(called[0], token, _COMMA.split(called[1]))
    raise _bad_destination(_UNKNOWN_FUNCTION, token)


def _read_function(name: str, token: str, arguments: list[str]) -> _Part:
    if name == "wildcard":
        if arguments == [""]:
            raise _bad_destination(_NOT_ENOUGH, token)
        if len(arguments) > 1:
            raise _bad_destination(_TOO_MANY, token)
        return _Part(name, token, (_integer_argument(arguments[0], token),))
    if name == "partition":
        buckets = _integer_argument(arguments[0], token, _INT32_MAX)
        sources = tuple(_integer_argument(argument, token) for argument in arguments[1:])
        return _Part(name, token, sources, buckets)
    if name == "random":
        if len(arguments) != 1:
            raise _bad_destination(_NOT_ENOUGH, token)
        return _Part(name, token, (), _integer_argument(arguments[0], token, _INT32_MAX))
    return _read_function_of_two(name, token, arguments)


def _read_function_of_two(name: str, token: str, arguments: list[str]) -> _Part:
    if len(arguments) != 2:
        raise _bad_destination(_NOT_ENOUGH if len(arguments) < 2 else _TOO_MANY, token)
    source = _integer_argument(arguments[0], token)
    if name == "split":
        if " " in arguments[1] or "." in arguments[1]:
            raise _bad_destination(_INVALID_ARGUMENT, token)
        return _Part(name, token, (source,), 0, arguments[1])
    return _Part(name, token, (source,), _integer_argument(arguments[1], token, _INT32_MAX))


def _integer_argument(text: str, token: str, highest: int = (1 << 63) - 1) -> int:
    number = _parse_integer(text.strip(" "))
    if number is None or number > highest:
        raise _bad_destination(_INVALID_ARGUMENT, token)
    return number


def _tokens_of(subject: str) -> tuple[list[str], int, bool] | None:
    """The tokens of a pattern, how many are `*`, and whether it ends in `>`; None when it is not a pattern."""
    if not subject:
        return None
    tokens = subject.split(".")
    if "" in tokens or ">" in tokens[:-1]:
        return None
    return tokens, tokens.count("*"), tokens[-1] == ">"


class SubjectTransformer:
    """A valid transform, ready to rewrite subjects. Build it with `SubjectTransformer.parse`."""

    def __init__(self, source: str, destination: str, source_tokens: list[str], parts: list[_Part]) -> None:
        self.source = source
        self.destination = destination
        self._source_tokens = source_tokens
        self._parts = parts
        self._copies_rest = parts[-1].text == ">" and not parts[-1].function
        self._is_identity = source == ">" and destination == ">"

    @classmethod
    def parse(cls, source: str, destination: str) -> SubjectTransformer:
        """Read a transform; an empty source is `>`. `TransformError` says what is wrong."""
        source = source or ">"
        source_parts = _tokens_of(source)
        destination_parts = _tokens_of(destination)
        if (
            source_parts is None
            or destination_parts is None
            or destination_parts[1] > 0
            or source_parts[2] != destination_parts[2]
        ):
            raise TransformError("invalid subject")
        source_tokens, wildcards, has_rest = source_parts
        positions = [position for position, token in enumerate(source_tokens) if token == "*"]
        parts = []
        for token in destination_parts[0]:
            part = _read_part(token)
            if part.function and (wildcards or has_rest):
                part = _bind(part, positions)
            elif part.function in ("random", "partition"):
                # Without wildcards there is nothing to point at: the whole subject is hashed.
                part = _Part(part.function, token, (), part.number)
            elif part.function:
                raise _bad_destination(_OUT_OF_RANGE, token)
            parts.append(part)
        return cls(source, destination, source_tokens, parts)

    def matches(self, subject: str) -> bool:
        """Whether the literal subject falls under the source pattern."""
        if self.source == ">":
            return True
        tokens = subject.split(".")
        pattern = self._source_tokens
        for position, token in enumerate(pattern):
            if token == ">":
                return len(tokens) > position
            if position >= len(tokens) or (token != "*" and token != tokens[position]):
                return False
        return len(tokens) == len(pattern)

    def transform(self, subject: str, random_number: Callable[[int], int] | None = None) -> str | None:
        """The rewritten subject, or None when it does not fall under the source.

        `random_number(n)` gives a number from 0 to n-1; it is only called for `{{random(n)}}`.
        """
        if self._is_identity:
            return subject
        if not self.matches(subject):
            return None
        tokens = subject.split(".")
        parts = self._parts[:-1] if self._copies_rest else self._parts
        result = [_render(part, tokens, random_number) for part in parts]
        if self._copies_rest:
            result.extend(tokens[len(self._source_tokens) - 1 :])
        return ".".join(result)


def _bind(part: _Part, positions: list[int]) -> _Part:
    """Turn wildcard numbers into positions of source tokens."""
    bound = []
    for index in part.sources:
        if index > len(positions):
            raise _bad_destination(_OUT_OF_RANGE, f"{part.text}: [{index}]")
        # Zero and below name no wildcard; nats-server then takes the first token.
        bound.append(positions[index - 1] if index > 0 else 0)
    return _Part(part.function, part.text, tuple(bound), part.number, part.separator)


def _render(part: _Part, tokens: list[str], random_number: Callable[[int], int] | None) -> str:
    if not part.function:
        return part.text
    if part.function == "partition":
        key = "".join(tokens[position] for position in part.sources) if part.sources else ".".join(tokens)
        return str(partition_of(key.encode(), part.number))
    if part.function == "random":
        ceiling = abs(part.number)
        if ceiling == 0:
            return "0"
        if random_number is None:
            raise ValueError("this transform needs random numbers")
        return str(random_number(ceiling))
    return _RENDERERS[part.function](tokens[part.sources[0]], part)


def partition_of(key: bytes, buckets: int) -> int:
    """Which of the buckets a key falls in: its 32-bit FNV-1a hash, modulo. No buckets is bucket 0."""
    if buckets == 0:
        return 0
    value = 0x811C9DC5
    for byte in key:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value % (buckets & 0xFFFFFFFF)


def _whole(token: str, part: _Part) -> str:
    return token


def _fits(token: str, part: _Part) -> bool:
    # A number that does not fall inside the token leaves the token whole.
    return 0 < part.number < len(token)


def _split_from_left(token: str, part: _Part) -> str:
    return f"{token[: part.number]}.{token[part.number :]}" if _fits(token, part) else token


def _split_from_right(token: str, part: _Part) -> str:
    return f"{token[: -part.number]}.{token[-part.number :]}" if _fits(token, part) else token


def _slice_from_left(token: str, part: _Part) -> str:
    if not _fits(token, part):
        return token
    return ".".join(token[start : start + part.number] for start in range(0, len(token), part.number))


def _slice_from_right(token: str, part: _Part) -> str:
    if not _fits(token, part):
        return token
    first = len(token) % part.number
    slices = [token[start : start + part.number] for start in range(first, len(token), part.number)]
    return ".".join([token[:first], *slices] if first else slices)


def _left(token: str, part: _Part) -> str:
    return token[: part.number] if _fits(token, part) else token


def _right(token: str, part: _Part) -> str:
    return token[-part.number :] if _fits(token, part) else token


def _split(token: str, part: _Part) -> str:
    pieces = token.split(part.separator) if part.separator else list(token)
    result = ""
    for index, piece in enumerate(pieces):
        result += piece
        is_last = index == len(pieces) - 1
        if not is_last and pieces[index + 1] and not (index == 0 and not piece):
            result += "."
    return result


_RENDERERS: Final[dict[str, Callable[[str, _Part], str]]] = {
    "wildcard": _whole,
    "splitfromleft": _split_from_left,
    "splitfromright": _split_from_right,
    "slicefromleft": _slice_from_left,
    "slicefromright": _slice_from_right,
    "left": _left,
    "right": _right,
    "split": _split,
}
_WHITE_SPACE: Final = re.compile(r"[\t\n\f\r ]")


def check_mapping(source: str, destination: str) -> None:
    """Refuse a transform as a configuration would: `TransformError`. An empty destination is always fine."""
    if destination == "":
        return
    after_rest = False
    for token in destination.split("."):
        if token == "" or after_rest:
            raise _bad_destination(_INVALID_TRANSFORM, token)
        if _is_mustache(token):
            if _find_call(token) is None:
                raise _bad_destination(_UNKNOWN_FUNCTION, token)
        elif token == ">":
            after_rest = True
        elif _WHITE_SPACE.search(token):
            raise _bad_destination(_INVALID_TRANSFORM, "")
    SubjectTransformer.parse(source, destination)
