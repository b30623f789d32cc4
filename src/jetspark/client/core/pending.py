"""An answer that has not come yet.

Holds the outcome and tells one waiter; how to wait is a driver's business. Lighter than a future on purpose: an
acknowledged publish makes one of these and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Pending:
    """One outcome: a value or an error, once."""

    __slots__ = (
        "deadline_s",
        "done",
        "error",
        "frame",
        "retries_left",
        "sent_s",
        "subject",
        "value",
        "wake",
        "was_sent",
    )

    def __init__(self, subject: str, frame: bytes, deadline_s: float) -> None:
        self.subject: str = subject
        # Kept to tell, when the connection breaks, whether it was handed to the transport (or to send it again).
        self.frame: bytes = frame
        self.deadline_s: float = deadline_s
        self.done: bool = False
        self.value: object = None
        self.error: BaseException | None = None
        self.wake: Callable[[], None] | None = None
        # How often it may be sent again when nobody was there to hear it.
        self.retries_left: int = 0
        # When it was queued, for one with an id.
        self.sent_s: float = 0.0
        # A copy of it may have arrived, though it waits to be sent.
        self.was_sent: bool = False

    def resolve(self, value: object) -> None:
        """The answer came."""
        if not self.done:
            self.value = value
            self.done = True
            if self.wake is not None:
                self.wake()

    def fail(self, error: BaseException) -> None:
        """No answer will come, and this is why."""
        if not self.done:
            self.error = error
            self.done = True
            if self.wake is not None:
                self.wake()
