"""A configuration file as a tree of values that remember where they were written.

Decided here: maps, lists, includes, variables (nearest enclosing map first, then the environment) and the
document's digest. Not known here: which keys exist and what they mean; `options_reader` says that.

A variable marks the value it names as used, because a file may define keys only to refer to them: such a key is
no mistake and must not be reported as unknown.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jetspark.server.config_lexer import (
    BLANK,
    KEY_SEPARATORS,
    NEWLINE,
    SPACE,
    ConfigSyntaxError,
    Lexer,
    Position,
    Scalar,
    Variable,
)

__all__ = ["ConfigSyntaxError", "Node", "digest", "parse_file", "parse_text"]

# Deeper than any real file; a limit keeps a hostile one from exhausting the stack.
_DEPTH_MAX: Final = 100
_BCRYPT_WORD: Final = re.compile(r"2[abxy]\$")


@dataclass(slots=True)
class Node:
    """One value, and the place of its key (or of the value itself inside a list)."""

    value: Scalar | list[Node] | dict[str, Node]
    file: str
    line: int
    column: int
    is_used_variable: bool = False

    @property
    def place(self) -> str:
        """File, line and column, as complaints print them."""
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(slots=True)
class _Scope:
    """What a parse inherits from the one that started it: which files and variables are already being read."""

    environment: Mapping[str, str]
    files: tuple[Path, ...] = ()
    variables: set[str] = field(default_factory=set)


class _Parser:
    def __init__(self, text: str, file: str, scope: _Scope) -> None:
        self._lexer = Lexer(text)
        self._file = file
        self._directory = Path(file).parent
        self._scope = scope
        self._maps: list[dict[str, Node]] = []

    def document(self) -> dict[str, Node]:
        """The whole text. Braces around everything are allowed, so that JSON is valid too."""
        lexer = self._lexer
        top: dict[str, Node] = {}
        self._maps.append(top)
        while True:
            lexer.skip_space_and_comments()
            character = lexer.peek()
            if not character:
                return top
            if character in "{}":
                lexer.offset += 1
                continue
            if character in ",;":
                lexer.offset += 1
                continue
            self._entry(top, is_top=True, depth=1)
            self._end_of_value(ends="},;" + NEWLINE)

    def _entry(self, target: dict[str, Node], *, is_top: bool, depth: int) -> None:
        """One `key value` pair, or one include, into the map."""
        lexer = self._lexer
        is_quoted = lexer.peek() in "\"'"
        key, start = lexer.key()
        if not is_quoted and key.lower() == "include" and lexer.peek() not in KEY_SEPARATORS:
            self._include(lexer.include_name(), target)
            return
        position = lexer.position(start)
        lexer.skip(SPACE)
        if not lexer.peek():
            end = lexer.position(lexer.offset)
            raise ConfigSyntaxError(f"config is invalid ({self._file}:{end.line}:{end.column})")
        if lexer.peek() in KEY_SEPARATORS:
            lexer.offset += 1
            lexer.skip(BLANK if is_top else SPACE)
        target[key] = self._value(position, depth)

    def _end_of_value(self, ends: str) -> None:
        """After a value only a separator, a comment or the end may follow on the line."""
        lexer = self._lexer
        lexer.skip(BLANK)
        if lexer.skip_comment():
            return
        character = lexer.peek()
        if character and character not in ends:
            raise lexer.error(f"Expected the value to end with a new line, comma or closing mark, got '{character}'")

    def _value(self, position: Position, depth: int) -> Node:
        lexer = self._lexer
        if depth > _DEPTH_MAX:
            raise lexer.error(f"Maps and lists are nested deeper than {_DEPTH_MAX}")
        character = lexer.peek()
        if character == "{":
            lexer.offset += 1
            return self._node(self._map(depth + 1), position)
        if character == "[":
            lexer.offset += 1
            return self._node(self._list(depth + 1), position)
        scalar = lexer.scalar()
        if isinstance(scalar, Variable):
            return self._node(self._resolve(scalar.name, position.line), position)
        return self._node(scalar, position)

    def _node(self, value: Scalar | list[Node] | dict[str, Node], position: Position) -> Node:
        return Node(value, self._file, position.line, position.column)

    def _map(self, depth: int) -> dict[str, Node]:
        lexer = self._lexer
        entries: dict[str, Node] = {}
        self._maps.append(entries)
        while True:
            lexer.skip_space_and_comments()
            character = lexer.peek()
            if not character:
                raise lexer.error("Unexpected EOF processing map.")
            if character == "}":
                lexer.offset += 1
                break
            if character in ",;":
                lexer.offset += 1
                continue
            if character == "]":
                raise lexer.error("Unexpected array end ']' processing map.")
            self._entry(entries, is_top=False, depth=depth)
            self._end_of_value(ends="},;" + NEWLINE)
        self._maps.pop()
        return entries

    def _list(self, depth: int) -> list[Node]:
        lexer = self._lexer
        items: list[Node] = []
        while True:
            lexer.skip_space_and_comments()
            character = lexer.peek()
            if not character:
                raise lexer.error("Unexpected EOF processing array.")
            if character == "]":
                lexer.offset += 1
                return items
            if character == ",":
                raise lexer.error("Unexpected array value terminator ','.")
            items.append(self._value(lexer.position(lexer.offset), depth))
            self._end_of_value(ends="]," + NEWLINE)
            if lexer.peek() == ",":
                lexer.offset += 1

    def _resolve(self, name: str, line: int) -> Scalar | list[Node] | dict[str, Node]:
        # A bcrypt hash starts with a dollar sign too; it stands for itself, so that it needs no quotes.
        if _BCRYPT_WORD.match(name):
            return "$" + name
        for entries in reversed(self._maps):
            if name in entries:
                entries[name].is_used_variable = True
                return entries[name].value
        if name in self._scope.variables:
            raise ConfigSyntaxError(
                f"variable reference for '{name}' on line {line} could not be parsed: "
                f"variable reference cycle for '{name}'"
            )
        text = self._scope.environment.get(name)
        if text is None:
            raise ConfigSyntaxError(f"variable reference for '{name}' on line {line} can not be found")
        self._scope.variables.add(name)
        try:
            return _Parser("value=" + text, "", self._scope).document()["value"].value
        except ConfigSyntaxError as error:
            raise ConfigSyntaxError(
                f"variable reference for '{name}' on line {line} could not be parsed: {error}"
            ) from None
        finally:
            self._scope.variables.discard(name)

    def _include(self, name: str, target: dict[str, Node]) -> None:
        path = self._directory / name
        try:
            if path.resolve() in self._scope.files:
                raise ConfigSyntaxError("the file includes itself")
            scope = _Scope(self._scope.environment, (*self._scope.files, path.resolve()), self._scope.variables)
            target.update(_Parser(_read(path), str(path), scope).document())
        except ConfigSyntaxError as error:
            raise ConfigSyntaxError(f"error parsing include file '{name}', {error}") from None


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise ConfigSyntaxError(f"open {path}: {(error.strerror or str(error)).lower()}") from None


def parse_text(text: str, file: str = "", environment: Mapping[str, str] | None = None) -> dict[str, Node]:
    """The top map of a text; `file` is the name used in places and the base of relative includes."""
    files = (Path(file).resolve(),) if file else ()
    return _Parser(text, file, _Scope(os.environ if environment is None else environment, files)).document()


def parse_file(file: str, environment: Mapping[str, str] | None = None) -> dict[str, Node]:
    """The top map of a file."""
    return parse_text(_read(Path(file)), file, environment)


def digest(document: Mapping[str, Node]) -> str:
    """A fingerprint of the values alone: comments, order of keys and spelling of sizes do not change it."""
    text = json.dumps(_plain(dict(document)), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return "sha256:" + hashlib.sha256((text + "\n").encode("utf-8", "replace")).hexdigest()


def _plain(value: Scalar | list[Node] | dict[str, Node]) -> object:
    if isinstance(value, dict):
        return {key: _plain(node.value) for key, node in value.items()}
    if isinstance(value, list):
        return [_plain(node.value) for node in value]
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return value
