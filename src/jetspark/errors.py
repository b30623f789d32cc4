"""The root of every error this package raises on purpose.

    JetsparkError
    └── each room's own errors, defined beside the code that raises them

Catching JetsparkError catches everything that is about NATS, JetStream or the store, and nothing that is a bug.
"""

from typing import Any


class JetsparkError(Exception):
    """Base of all errors raised by jetspark."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle would hand the finished text to __init__, which makes it from parts: a process pool breaks on that.
        return _copied, (type(self), self.args), self.__dict__ or None


def _copied(kind: type[JetsparkError], arguments: tuple[Any, ...]) -> JetsparkError:
    error = kind.__new__(kind)
    error.args = arguments
    return error
