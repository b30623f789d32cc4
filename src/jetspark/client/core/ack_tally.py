"""Many messages sent at once, and their acknowledgements counted instead of kept.

A place in a table costs a byte, so a message of a block makes no object at all on its way back; only refusals are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import i64

from jetspark.client.core.connection import ConnectionCore
from jetspark.client.core.message import MessageCore, status_code
from jetspark.client.core.routes import Inbox

IS_NATIVE: Final = not __file__.endswith(".py")

# A block has fewer messages than any number of more digits.
PLACE_DIGITS_MAX: Final = 10

WAITING: Final = 0
STORED: Final = 1
REFUSED: Final = 2


class AckTally(Inbox):
    """Where the acknowledgements of one block arrive: each names its message by the last token of its subject."""

    def __init__(
        self, sid: bytes, prefix: bytes, count: int, make_message: Callable[..., MessageCore], owner: Any
    ) -> None:
        super().__init__(sid, prefix + b"*", b"", make_message, owner)
        self.prefix: bytes = prefix
        self.prefix_size: int = len(prefix)
        self.count: int = count
        self.outcomes: bytearray = bytearray(count)
        self.answered_count: int = 0
        self.duplicate_count: int = 0
        self.last_ack: bytes = b""
        # The place in the block and what was answered; empty when nobody takes the subject.
        self.refusals: list[tuple[int, bytes]] = []

    def deliver(self, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        place = place_in(subject, self.prefix_size, self.count)
        if place >= self.count or self.outcomes[place] != WAITING:
            return
        self.answered_count += 1
        if (header and status_code(header) == 503) or b'"error"' in data or b'"seq"' not in data:
            self.outcomes[place] = REFUSED
            self.refusals.append((place, b"" if header and status_code(header) == 503 else data))
        else:
            self.outcomes[place] = STORED
            self.last_ack = data
            if b'"duplicate"' in data:
                self.duplicate_count += 1
        if self.answered_count == self.count and self.waiters:
            self.wake()


def place_in(subject: bytes, start: i64, limit: i64) -> i64:
    """The number from there to the end of a subject; the limit for anything that is no place below it."""
    end: i64 = len(subject)
    if not IS_NATIVE:
        token = subject[start:]
        return min(int(token), limit) if token.isdigit() and len(token) <= PLACE_DIGITS_MAX else limit
    if start >= end or end - start > PLACE_DIGITS_MAX:
        return limit
    place: i64 = 0
    at: i64 = start
    while at < end:
        digit: i64 = subject[at] - 48
        if digit < 0 or digit > 9:
            return limit
        place = place * 10 + digit
        at += 1
    return min(place, limit)


def open_tally(core: ConnectionCore, count: int, owner: Any) -> AckTally:
    """Listen for the acknowledgements of a block."""
    tally = AckTally(core.new_sid(), core.new_inbox_subject() + b".", count, core.make_message, owner)
    core.add_route(tally)
    return tally
