"""The root of every error this package raises on purpose.

    JetsparkError
    └── each room's own errors, defined beside the code that raises them

Catching JetsparkError catches everything that is about NATS, JetStream or the store, and nothing that is a bug.
"""


class JetsparkError(Exception):
    """Base of all errors raised by jetspark."""
