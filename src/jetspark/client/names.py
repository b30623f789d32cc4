"""Names of streams, consumers and groups, checked before they become part of a subject."""

from __future__ import annotations

from typing import Final

from jetspark.api.priority_group import is_valid_group_name
from jetspark.client.errors import BadOptionError

_FORBIDDEN: Final = " \t\r\n\f.*>/\\"
_NAME_SIZE_MAX: Final = 255


def check_name(kind: str, name: str) -> str:
    """The name itself, when it can be one."""
    if not name or len(name) > _NAME_SIZE_MAX or any(c in _FORBIDDEN for c in name):
        raise BadOptionError(f"not a {kind} name: {name!r}")
    return name


def check_group(group: str) -> str:
    """The name of a priority group, when it can be one."""
    if not is_valid_group_name(group):
        raise BadOptionError(f"not a priority group name: {group!r}")
    return group


def server_is_older(version: str, major: int, minor: int) -> bool:
    """Does the server's version come before this one? An unreadable version is taken for a new one."""
    parts = version.split("-")[0].split(".")
    try:
        return (int(parts[0]), int(parts[1])) < (major, minor)
    except (ValueError, IndexError):
        return False
