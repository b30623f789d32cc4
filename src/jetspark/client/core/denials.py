"""What a permissions error ends.

The server says only which subject it did not let through: a message's own, the one its answer was to come to, or a
subscription's. Decided here: whether an answer that is waited for can still come after that.
"""

from __future__ import annotations

from typing import Final

from jetspark.client.errors import PermissionsError

PUBLISH: Final = 0
REPLY: Final = 1
SUBSCRIPTION: Final = 2


class Denial:
    """One permissions error, understood."""

    def __init__(self, error: PermissionsError) -> None:
        self.error = error
        self.subject: str = error.subject
        words = str(error).lower()
        self.kind: int = PUBLISH
        if "subscription to" in words:
            self.kind = SUBSCRIPTION
        elif "reply of" in words:
            self.kind = REPLY

    def covers(self, subject: str, reply: bytes, listening: bytes) -> bool:
        """Nothing sent to `subject` will be answered at `reply`, which is heard by listening on `listening`."""
        if self.kind == PUBLISH:
            return subject == self.subject
        return (reply if self.kind == REPLY else listening) == self.subject.encode()
