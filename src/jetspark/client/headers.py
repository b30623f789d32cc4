"""Headers as people use them: a mapping from name to value, several values under one name allowed.

Names are matched without regard to case and sent as written. Values that are not UTF-8 survive a round trip
(they are decoded with surrogate escapes), so one odd header never hides the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from jetspark.client.errors import BadHeaderError
from jetspark.protocol import headers as wire

HeaderValue = str | bytes | int | Iterable[str | bytes | int]
HeadersLike = Mapping[str, HeaderValue] | Iterable[tuple[str, HeaderValue]]


class Headers(Mapping[str, str]):
    """Headers of one message."""

    def __init__(self, headers: HeadersLike = ()) -> None:
        self._pairs: list[tuple[str, str]] = []
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        if isinstance(headers, Headers):
            pairs = headers.all_items()
        for name, value in pairs:
            if isinstance(value, (str, bytes, int)):
                self.add(name, value)
            else:
                for one in value:
                    self.add(name, one)

    @classmethod
    def from_block(cls, block: bytes) -> Headers:
        """Read a block from the wire."""
        made = cls()
        if block:
            made._pairs = [
                (name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape"))
                for name, value in wire.parse(block)
            ]
        return made

    def add(self, name: str, value: str | bytes | int) -> None:
        """One more value under a name."""
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
        if not name or any(ord(c) <= 32 or c == ":" or ord(c) == 127 for c in name):
            raise BadHeaderError(f"not a header name: {name!r}")
        if "\r" in text or "\n" in text or "\0" in text:
            raise BadHeaderError(f"header {name} would break the line: {text!r}")
        self._pairs.append((name, text))

    def set(self, name: str, value: str | bytes | int) -> None:
        """Exactly one value under a name."""
        self.remove(name)
        self.add(name, value)

    def remove(self, name: str) -> None:
        """No value under a name."""
        key = name.lower()
        self._pairs = [pair for pair in self._pairs if pair[0].lower() != key]

    def get_all(self, name: str) -> list[str]:
        """Every value under a name, in order."""
        key = name.lower()
        return [value for pair_name, value in self._pairs if pair_name.lower() == key]

    def all_items(self) -> list[tuple[str, str]]:
        """Every pair, in order, repeated names included."""
        return list(self._pairs)

    def to_block(self) -> bytes:
        """The block to send; empty when there is nothing in it."""
        if not self._pairs:
            return b""
        return wire.build(
            [
                (name.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape"))
                for name, value in self._pairs
            ]
        )

    def __getitem__(self, name: str) -> str:
        key = name.lower()
        for pair_name, value in self._pairs:
            if pair_name.lower() == key:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        seen: set[str] = set()
        for name, _ in self._pairs:
            if name.lower() not in seen:
                seen.add(name.lower())
                yield name

    def __len__(self) -> int:
        return len({name.lower() for name, _ in self._pairs})

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(pair_name.lower() == name.lower() for pair_name, _ in self._pairs)

    def __repr__(self) -> str:
        return f"Headers({self._pairs!r})"


def header_block(headers: HeadersLike | None) -> bytes:
    """The bytes of a user's headers, checked; empty for none."""
    if not headers:
        return b""
    return Headers(headers).to_block()
