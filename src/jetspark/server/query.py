"""The parameters of a monitoring request, read as strictly as nats-server reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# How much of a list is shown unless the request says otherwise.
LIMIT_DEFAULT: Final = 1024

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class BadQuery(Exception):
    """A parameter makes no sense; the message is the body of the answer (400)."""


class Query:
    """The parameters after the question mark."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._parameters = parameters

    def text(self, name: str) -> str:
        return self._parameters.get(name, "")

    def flag(self, name: str) -> bool:
        text = self.text(name)
        if not text or text in _FALSE:
            return False
        if text in _TRUE:
            return True
        raise BadQuery(f"Error decoding boolean for '{name}': strconv.ParseBool: parsing \"{text}\": invalid syntax")

    def page(self) -> tuple[int, int]:
        """Where the part of a list that is shown starts and how long it may be; a negative number is none."""
        offset, limit = self.number("offset"), self.number("limit")
        return max(0, offset), limit if limit > 0 else LIMIT_DEFAULT

    def number(self, name: str) -> int:
        text = self.text(name)
        if not text:
            return 0
        try:
            return int(text)
        except ValueError:
            raise BadQuery(
                f"Error decoding int for '{name}': strconv.Atoi: parsing \"{text}\": invalid syntax"
            ) from None
