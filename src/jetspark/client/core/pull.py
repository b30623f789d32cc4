"""Pulling: what a request says, what its answers mean, how much is still owed.

The table of answers is that of nats-server 2.15; texts are matched by their words and without regard to case, because
numbers are appended to some. Knows no subscription and no timer.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from jetspark.client.core.message import status_code, status_text
from jetspark.client.errors import (
    BadOptionError,
    BadPullError,
    ConsumerDeletedError,
    ConsumerIsPushError,
    PullError,
    PullLimitError,
    PullUnavailableError,
)
from jetspark.protocol.headers import find_value

# What an answer to a pull asks of us.
HEARTBEAT: Final = 1  # the server is there
ENDED: Final = 2  # the request is over, and says what it still owed
EMPTY: Final = 3  # the request is over: there is nothing (more) to give now
AGAIN: Final = 4  # the server has forgotten our requests: ask again
PIN_LOST: Final = 5  # another client is pinned: forget the id and ask again
FATAL: Final = 6  # asking again cannot help
CROWDED: Final = 7  # too many requests wait; the heartbeat will tell when to ask again

# Sent as the batch when only bytes are limited.
BATCH_UNLIMITED: Final = 1_000_000


class PullRequest:
    """What is asked for, apart from how many."""

    def __init__(self) -> None:
        self.expires_ns: int = 0
        self.heartbeat_ns: int = 0
        self.no_wait: bool = False
        self.group: str = ""
        self.min_pending: int = 0
        self.min_ack_pending: int = 0
        self.priority: int = -1

    def check(self) -> None:
        """Refuse what the server would refuse."""
        if self.heartbeat_ns and 2 * self.heartbeat_ns > self.expires_ns:
            raise BadOptionError("idle_heartbeat must be at most half of expires")
        if self.min_pending < 0 or self.min_ack_pending < 0:
            raise BadOptionError("min_pending and min_ack_pending cannot be negative")
        if self.priority > 9:
            raise BadOptionError("priority is 0 to 9")
        if not self.group and (self.min_pending or self.min_ack_pending or self.priority >= 0):
            raise BadOptionError("min_pending, min_ack_pending and priority need a group")

    def body(self, batch: int, max_bytes: int, pin_id: str) -> bytes:
        """The JSON of one request."""
        document: dict[str, Any] = {"batch": batch}
        if max_bytes:
            document["max_bytes"] = max_bytes
        if self.no_wait:
            document["no_wait"] = True
        if self.expires_ns:
            document["expires"] = self.expires_ns
        if self.heartbeat_ns:
            document["idle_heartbeat"] = self.heartbeat_ns
        if self.group:
            document["group"] = self.group
        if self.min_pending:
            document["min_pending"] = self.min_pending
        if self.min_ack_pending:
            document["min_ack_pending"] = self.min_ack_pending
        if self.priority >= 0:
            document["priority"] = self.priority
        if pin_id:
            document["id"] = pin_id
        return msgspec.json.encode(document)


def meaning(block: bytes) -> int:
    """What a status asks of us."""
    code = status_code(block)
    if code == 100:
        return HEARTBEAT
    if code == 404:
        return EMPTY
    if code == 423:
        return PIN_LOST
    return _meaning_of_words(code, status_text(block).lower(), b"\r\nNats-Pending-Messages:" in block)


def _meaning_of_words(code: int, words: str, says_pending: bool) -> int:
    # A server that stops says what it owed, but the pull is to go on elsewhere, or here after the restart.
    if code == 409 and ("server shutdown" in words or "leadership change" in words):
        return AGAIN
    if says_pending:
        return ENDED
    if code == 408 or (code == 409 and ("batch completed" in words or "exceeds maxbytes" in words)):
        return EMPTY
    return CROWDED if code == 409 and "maxwaiting" in words else FATAL


def pull_error(block: bytes) -> PullError:
    """The exception for a status that cannot be got over."""
    code, text = status_code(block), status_text(block)
    words = text.lower()
    if code == 503:
        return PullUnavailableError(code, text or "no such consumer, or no JetStream")
    if code in (400, 412):
        return BadPullError(code, text)
    if "deleted" in words:
        return ConsumerDeletedError(code, text)
    if "push based" in words:
        return ConsumerIsPushError(code, text)
    if "maxrequest" in words or "maxwaiting" in words:
        return PullLimitError(code, text)
    return PullError(code, text)


def pending_numbers(block: bytes) -> tuple[int, int]:
    """(messages, bytes) a request still owed when it ended."""
    messages = find_value(block, b"Nats-Pending-Messages")
    size = find_value(block, b"Nats-Pending-Bytes")
    return _number(messages), _number(size)


def _number(value: bytes | None) -> int:
    return int(value) if value is not None and value.isdigit() else 0


class PullBuffer:
    """How much of a continuous consumer's buffer is already asked for.

    Requests are not followed one by one: what counts is the sum still owed (seed 4). When a quarter has been used,
    the next request asks for what is missing, which in steady state is that quarter.
    """

    def __init__(self, max_messages: int, max_bytes: int, threshold_messages: int, threshold_bytes: int) -> None:
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.threshold_messages = threshold_messages
        self.threshold_bytes = threshold_bytes
        self.pending_messages: int = 0
        self.pending_bytes: int = 0

    def wants(self) -> bool:
        """Time for another request."""
        if self.max_bytes:
            return self.max_bytes - self.pending_bytes >= self.threshold_bytes
        return self.max_messages - self.pending_messages >= self.threshold_messages

    def next_request(self) -> tuple[int, int]:
        """(batch, max_bytes) of the request to send now; counted as owed."""
        if self.max_bytes:
            size = self.max_bytes - self.pending_bytes
            self.pending_messages += BATCH_UNLIMITED
            self.pending_bytes += size
            return BATCH_UNLIMITED, size
        batch = self.max_messages - self.pending_messages
        self.pending_messages += batch
        return batch, 0

    def took(self, size: int) -> None:
        """One message came."""
        if self.pending_messages > 0:
            self.pending_messages -= 1
        if self.max_bytes:
            self.pending_bytes = max(0, self.pending_bytes - size)

    def ended(self, messages: int, size: int) -> None:
        """A request ended and will not send these."""
        self.pending_messages = max(0, self.pending_messages - messages)
        self.pending_bytes = max(0, self.pending_bytes - size)

    def forget(self) -> None:
        """Nothing is owed any more."""
        self.pending_messages = 0
        self.pending_bytes = 0


def quarter(amount: int) -> int:
    """25 %, rounded up, so that a buffer of one still refills."""
    return -(-amount // 4)
