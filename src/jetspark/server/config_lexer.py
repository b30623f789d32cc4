"""How characters of a configuration file become keys and plain values.

Decided here: where a key or a bare word ends, what is a number, a date, an address, a truth value or a
variable, and which escapes a string may hold. Not known here: maps, lists, variables' meaning, files.

The format is nats-server's. Its bare words are generous (`127.0.0.1:4222`, `2m`, `foo.>` need no quotes), so a
word that starts like a number may still turn out to be a string.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Final

BLANK: Final = " \t"
NEWLINE: Final = "\r\n"
SPACE: Final = " \t\r\n\v\f\u0085\u00a0"
KEY_SEPARATORS: Final = ":="

_BARE_WORD_END: Final = frozenset("\r\n;,]} \t")
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}
_BOOLEANS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

# Sizes: a single letter counts in thousands, with b or i it counts in 1024s.
_UNITS: Final = {
    suffix: base**power
    for power, letter in enumerate("kmgtpe", start=1)
    for suffix, base in ((letter, 1000), (letter + "b", 1024), (letter + "i", 1024), (letter + "ib", 1024))
}
_INTEGER: Final = re.compile(r"(-?[0-9]+)([kKmMgGtTpPeE][bBiI]*)?(?=[\r\n;,\]} \t]|\Z)")
_FLOAT: Final = re.compile(r"-?[0-9]+\.[0-9]+(?![0-9.])")
_ADDRESS: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9.:-]*")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_BLOCK_END: Final = re.compile(r"\n\)(?=\n|\Z)")

INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)

Scalar = str | int | float | bool | datetime.datetime


class ConfigSyntaxError(Exception):
    """The text is not in the configuration format; the message names the line."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A `$name` that stands for a value defined elsewhere."""

    name: str


@dataclass(frozen=True, slots=True)
class Position:
    """Where a key stands: the line counts from 1, the column from 0 on the first line and from 1 on others.

    The uneven column is nats-server's own, kept so that both print the same place.
    """

    line: int
    column: int


class Lexer:
    """A cursor over the text of one file."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.offset = 0

    def position(self, offset: int) -> Position:
        """The line and column of an offset."""
        line_break = self.text.rfind("\n", 0, offset)
        start = max(line_break, 0)
        return Position(self.text.count("\n", 0, offset) + 1, len(self.text[start:offset].encode()))

    def error(self, reason: str) -> ConfigSyntaxError:
        """A complaint about the line the cursor is on."""
        line = self.text.count("\n", 0, self.offset) + 1
        return ConfigSyntaxError(f"Parse error on line {line}: '{reason}'")

    def peek(self) -> str:
        """The next character, empty at the end."""
        return self.text[self.offset : self.offset + 1]

    def skip(self, characters: str) -> None:
        """Step over any of these characters."""
        while self.offset < len(self.text) and self.text[self.offset] in characters:
            self.offset += 1

    def skip_comment(self) -> bool:
        """Step over a comment (up to the end of its line) if one starts here."""
        if not self.text.startswith(("#", "//"), self.offset):
            return False
        while self.offset < len(self.text) and self.text[self.offset] not in NEWLINE:
            self.offset += 1
        return True

    def skip_space_and_comments(self) -> None:
        """Step to the next thing that means something."""
        self.skip(SPACE)
        while self.skip_comment():
            self.skip(SPACE)

    def key(self) -> tuple[str, int]:
        """A key, bare or in quotes, and the offset of its first character."""
        character = self.peek()
        if character in KEY_SEPARATORS:
            raise self.error(f"Unexpected key separator '{character}'")
        if character in "\"'":
            start = self.offset + 1
            end = self.text.find(character, start)
            if end < 0:
                self.offset = len(self.text)
                raise self.error("Unexpected EOF in a quoted key")
            self.offset = end + 1
            return self.text[start:end], start
        start = self.offset
        self.offset += 1
        while self.offset < len(self.text) and self.text[self.offset] not in SPACE + KEY_SEPARATORS:
            self.offset += 1
        return self.text[start : self.offset], start

    def include_name(self) -> str:
        """The file named after the word `include`."""
        self.skip(BLANK)
        character = self.peek()
        if character and character in "\"'":
            start = self.offset + 1
            end = self.text.find(character, start)
            if end < 0:
                raise self.error("Unexpected EOF in a quoted include")
            self.offset = end + 1
            return self.text[start:end]
        if not character or character in "[{(-\\" + NEWLINE or character.isdigit():
            raise self.error("Expected a file name after include")
        start = self.offset
        while self.offset < len(self.text) and self.text[self.offset] not in "\r\n;} \t":
            self.offset += 1
        return self.text[start : self.offset]

    def scalar(self) -> Scalar | Variable:
        """A value that is neither a map nor a list."""
        character = self.peek()
        if character == '"':
            self.offset += 1
            return self._double_quoted()
        if character == "'":
            return self._single_quoted()
        if character == "(":
            return self._block()
        if character == ".":
            raise self.error("Floats must start with a digit")
        if character in NEWLINE:  # Also the empty string at the end of the text.
            self.offset += 1
            raise self.error("Expected value but found new line")
        if character.isdigit() or character == "-":
            number = self._number()
            if number is not None:
                return number
        return self._bare_word()

    def _number(self) -> Scalar | None:
        """A number, date or address starting here, or None when the word is a plain string."""
        if match := _INTEGER.match(self.text, self.offset):
            digits, suffix = match.group(1), (match.group(2) or "").lower()
            if suffix and suffix not in _UNITS:
                raise self.error(f"Unknown size suffix in '{match.group(0)}'")
            number = int(digits) * (_UNITS[suffix] if suffix else 1)
            if not INT64_MIN <= number <= INT64_MAX:
                raise ConfigSyntaxError(f"integer '{match.group(0)}' is out of the range")
            self.offset = match.end()
            return number
        if match := _FLOAT.match(self.text, self.offset):
            self.offset = match.end()
            return float(match.group(0))
        if match := _ADDRESS.match(self.text, self.offset):
            self.offset = match.end()
            return match.group(0)
        if match := _DATE.match(self.text, self.offset):
            self.offset = match.end()
            try:
                return datetime.datetime.fromisoformat(match.group(0))
            except ValueError:
                raise ConfigSyntaxError(f"expected Zulu formatted DateTime, but got '{match.group(0)}'") from None
        if re.compile(r"[0-9]+-").match(self.text, self.offset):
            raise self.error("All ISO8601 dates must be in full Zulu form.")
        if re.compile(r"-(?![0-9])|-?[0-9]+\.(?![0-9])").match(self.text, self.offset):
            raise self.error(f"Expected a number at '{self.text[self.offset : self.offset + 16].split()[0]}'")
        return None

    def _single_quoted(self) -> str:
        start = self.offset + 1
        end = self.text.find("'", start)
        if end < 0:
            self.offset = len(self.text)
            raise self.error("Unexpected EOF.")
        self.offset = end + 1
        return self.text[start:end]

    def _double_quoted(self) -> str:
        parts: list[str] = []
        while True:
            character = self.peek()
            self.offset += 1
            if character == "":
                raise self.error("Unexpected EOF.")
            if character == '"':
                return "".join(parts)
            parts.append(self._escape() if character == "\\" else character)

    def _block(self) -> str:
        """Text between `(` and a `)` that stands alone on its line, taken as it is."""
        start = self.offset + 1
        end = _BLOCK_END.search(self.text, start)
        if end is None:
            self.offset = len(self.text)
            raise self.error("Unexpected EOF processing block.")
        self.offset = end.end()
        return self.text[start : end.start() + 1]

    def _bare_word(self) -> Scalar | Variable:
        start = self.offset
        parts: list[str] = []
        escaped = False
        while True:
            character = self.peek()
            if character == "" or character in _BARE_WORD_END:
                break
            self.offset += 1
            if character == "'":
                return "".join(parts)
            if character == "\\":
                escaped = True
                parts.append(self._escape())
            else:
                parts.append(character)
        word = "".join(parts)
        if escaped:
            return word
        if word.lower() in _BOOLEANS:
            return _BOOLEANS[word.lower()]
        if self.text[start : start + 1] == "$":
            return Variable(word[1:])
        return word

    def _escape(self) -> str:
        """What the characters after a backslash stand for."""
        character = self.peek()
        self.offset += 1
        if character == "x":
            digits = self.text[self.offset : self.offset + 2]
            if not re.fullmatch("[0-9a-fA-F]{2}", digits):
                raise self.error(f"Expected two hexadecimal digits after '\\x', but got '{digits}'")
            self.offset += 2
            return bytes.fromhex(digits).decode("utf-8", "surrogateescape")
        if character not in _ESCAPES:
            raise self.error(f"Invalid escape character '{character}', allowed are \\xXX, \\t, \\n, \\r, \\\" and \\\\")
        return _ESCAPES[character]
