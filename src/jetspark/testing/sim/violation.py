"""What is raised when the broker breaks a promise."""

from __future__ import annotations


class Violation(AssertionError):
    """A promise was broken: which one, and how."""


def require(holds: bool, promise: str, *details: object) -> None:
    """Raise unless it holds. Details are put into words only when it does not."""
    if not holds:
        raise Violation(f"{promise}: {' '.join(str(detail) for detail in details)}" if details else promise)
