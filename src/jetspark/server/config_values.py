"""Reading one typed value out of a configuration node, with its place in every complaint.

Decided here: what counts as a duration, a size, an address, a list of words. Not known here: any setting's name.
Problems are collected rather than raised at once, so that a file with three mistakes is corrected in one go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from jetspark.api.timestamps import parse_duration
from jetspark.server.config_file import Node

_SIZE_LETTERS: Final = {"K": 10, "M": 20, "G": 30, "T": 40}
_KINDS: Final = {bool: "a boolean", int: "an integer", float: "a float", str: "a string", list: "a list", dict: "a map"}


class ConfigError(Exception):
    """One complaint about one value; the message starts with the value's place."""


class Problems:
    """What was found wrong so far: errors stop the server, warnings are printed and it goes on."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def read_map(self, node: Node, handlers: Mapping[str, Callable[[Node], None]], aliases: Mapping[str, str]) -> None:
        """Give each entry to the handler of its key; keys are case-insensitive."""
        self.read_entries(entries(node), handlers, aliases)

    def read_entries(
        self, items: Mapping[str, Node], handlers: Mapping[str, Callable[[Node], None]], aliases: Mapping[str, str]
    ) -> None:
        """As `read_map`, for a map already at hand."""
        for key, node in items.items():
            name = key.lower()
            handler = handlers.get(aliases.get(name, name))
            if handler is None:
                if not node.is_used_variable:
                    self.errors.append(f'{node.place}: unknown field "{key}"')
                continue
            try:
                handler(node)
            except ConfigError as error:
                self.errors.append(str(error))

    def duration_ns(self, node: Node, field: str) -> int:
        """A duration string; a bare number means seconds, which nats-server accepts with a warning."""
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            self.warnings.append(
                f'{node.place}: invalid use of field "{field}": {field} should be converted to a duration'
            )
            return node.value * 1_000_000_000
        return duration_ns(node, field)


def wrong(node: Node, reason: str) -> ConfigError:
    """A complaint about a value, with its place."""
    return ConfigError(f"{node.place}: {reason}")


def kind(node: Node) -> str:
    """What sort of value was written, in words."""
    return _KINDS.get(type(node.value), "a date")


def string(node: Node) -> str:
    """A string."""
    if not isinstance(node.value, str):
        raise wrong(node, f"expected a string, got {kind(node)}")
    return node.value


def boolean(node: Node) -> bool:
    """A truth value."""
    if not isinstance(node.value, bool):
        raise wrong(node, f"expected true or false, got {kind(node)}")
    return node.value


def integer(node: Node) -> int:
    """A whole number; sizes with a unit are numbers already."""
    if isinstance(node.value, bool) or not isinstance(node.value, int):
        raise wrong(node, f"expected an integer, got {kind(node)}")
    return node.value


def integer_31(node: Node, field: str) -> int:
    """A number that the wire must be able to carry as a signed 32-bit one."""
    value = integer(node)
    if value > (1 << 31) - 1:
        raise wrong(node, f"{field} value is too big")
    return value


def size_bytes(node: Node, field: str) -> int:
    """A number, or a string such as "10G" whose letter counts in 1024s."""
    if not isinstance(node.value, str):
        return integer(node)
    if not node.value:
        return 0
    digits, letter = node.value[:-1], node.value[-1]
    if not re.fullmatch("-?[0-9]+", digits):
        raise wrong(node, f'{field} is not a size: "{node.value}"')
    if letter not in _SIZE_LETTERS:
        raise wrong(node, f"{field} sizes defined as strings must end in K, M, G, T")
    return int(digits) << _SIZE_LETTERS[letter]


def seconds(node: Node, field: str) -> float:
    """A timeout given as a number of seconds or as a duration string."""
    if isinstance(node.value, str):
        return duration_ns(node, field) / 1e9
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        raise wrong(node, f"expected a number of seconds or a duration for {field}, got {kind(node)}")
    return float(node.value)


def duration_ns(node: Node, field: str) -> int:
    """A duration string, in nanoseconds."""
    text = string(node)
    try:
        return parse_duration(text)
    except ValueError as error:
        raise wrong(node, f"error parsing {field}: {error}") from None


def strings(node: Node, field: str) -> list[str]:
    """One word or a list of words."""
    if isinstance(node.value, str):
        return [node.value]
    return [string(item) for item in items(node, field)]


def items(node: Node, field: str) -> list[Node]:
    """The items of a list."""
    if not isinstance(node.value, list):
        raise wrong(node, f"expected {field} to be a list, got {kind(node)}")
    return node.value


def entries(node: Node) -> dict[str, Node]:
    """The entries of a map."""
    if not isinstance(node.value, dict):
        raise wrong(node, f"expected a map, got {kind(node)}")
    return node.value


def address(node: Node) -> tuple[str, int]:
    """`host:port`, `[v6]:port`, or a port alone (then the host is empty)."""
    if isinstance(node.value, int) and not isinstance(node.value, bool):
        return "", node.value
    text = string(node)
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon:
        raise wrong(node, f'could not parse address string "{text}"')
    if not re.fullmatch("[+-]?[0-9]+", port):
        raise wrong(node, f'could not parse port "{port}"')
    return host, int(port)
