"""Names of streams and consumers.

Decided here: which names are allowed and how long they, descriptions and metadata may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAME_LENGTH_MAX: Final = 255
DESCRIPTION_LENGTH_MAX: Final = 4096
METADATA_BYTES_MAX: Final = 128 * 1024

_FORBIDDEN: Final = frozenset(" \t\r\n\f.*>\\/")


def is_valid_asset_name(name: str) -> bool:
    """Whether a stream or consumer may be called that: not empty, no white space, dots, wildcards or slashes."""
    return bool(name) and _FORBIDDEN.isdisjoint(name)


def has_path_separator(name: str) -> bool:
    """Whether a name would leave its directory."""
    return "/" in name or "\\" in name


def byte_length(text: str) -> int:
    """Lengths are limited in bytes, not in characters."""
    return len(text.encode("utf-8", "replace"))


def metadata_bytes(metadata: Mapping[str, str]) -> int:
    """How much of the metadata limit is used: all keys and all values."""
    return sum(byte_length(key) + byte_length(value) for key, value in metadata.items())
