"""Where a message with a given sid goes.

A route is one subscription on the wire. An Inbox keeps messages until somebody takes them; a RequestMux and an
AckMux hand each message to the answer that waits under the last token of its subject. Decides buffering,
auto-unsubscribe accounting and what is dropped; never waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jetspark.client.core.denials import SUBSCRIPTION, Denial
from jetspark.client.core.frames import published_block
from jetspark.client.core.message import says, status_code
from jetspark.client.core.pending import Pending
from jetspark.client.errors import (
    NoRespondersError,
    NoStreamError,
    PublishDeniedError,
    PublishError,
    PublishNotSentError,
    PublishUnknownError,
)
from jetspark.protocol.headers import find_value

if TYPE_CHECKING:
    from jetspark.client.core.message import MessageCore

DROP_NEW: Final = "drop_new"
DROP_OLD: Final = "drop_old"


class Route:
    """One subscription on the wire."""

    def __init__(self, sid: bytes, subject: bytes, queue_group: bytes) -> None:
        self.sid = sid
        self.subject = subject
        self.queue_group = queue_group
        # After this many deliveries the server forgets the subscription; 0: it does not.
        self.delivered_max: int = 0
        self.delivered_count: int = 0

    def deliver(self, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        """One message."""
        raise NotImplementedError

    def fail_denied(self, denial: Denial) -> None:
        """The server did not let something through: whoever waits here for its answer learns that."""

    def subscribe_frame(self) -> bytes:
        """What tells the server, first and after every reconnect."""
        if self.queue_group:
            frame = b"SUB %b %b %b\r\n" % (self.subject, self.queue_group, self.sid)
        else:
            frame = b"SUB %b %b\r\n" % (self.subject, self.sid)
        if self.delivered_max:
            frame += b"UNSUB %b %d\r\n" % (self.sid, max(1, self.delivered_max - self.delivered_count))
        return frame


class Inbox(Route):
    """Keeps messages until somebody takes them."""

    def __init__(
        self,
        sid: bytes,
        subject: bytes,
        queue_group: bytes,
        make_message: Callable[[Inbox, bytes, bytes, bytes, bytes], MessageCore],
        owner: Any,
    ) -> None:
        super().__init__(sid, subject, queue_group)
        self.make_message = make_message
        # The driver's side of the subscription; messages find their connection through it.
        self.owner: Any = owner
        self.queue: deque[MessageCore] = deque()
        self.queue_bytes: int = 0
        self.waiters: list[Callable[[], None]] = []
        # How often waiters were woken. Who is about to wait compares it with what it was before they looked.
        self.wake_count: int = 0
        self.count_max: int = 0
        self.bytes_max: int = 0
        self.when_full: str = DROP_NEW
        self.dropped_count: int = 0
        self.on_drop: Callable[[], None] | None = None
        # No more messages will be added.
        self.closed: bool = False
        # It has another subject on each connection.
        self.is_renewed: bool = False
        # The consumer behind it wants no acknowledgements, so all ack calls do nothing.
        self.ack_none: bool = False
        # How soon it delivers again what is not acknowledged; 0 when that is not known.
        self.ack_wait_s: float = 0.0

    def deliver(self, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        self.delivered_count += 1
        if self.count_max and len(self.queue) >= self.count_max and not self._make_room():
            return
        if self.bytes_max:
            if self.queue_bytes + len(data) > self.bytes_max and self.queue and not self._make_room():
                return
            self.queue_bytes += len(data)
        self.queue.append(self.make_message(self, subject, reply, header, data))
        if self.waiters:
            self.wake()

    def take(self) -> MessageCore:
        """The oldest message; the queue must not be empty."""
        message = self.queue.popleft()
        if self.bytes_max:
            self.queue_bytes -= len(message.data)
        return message

    def wake(self) -> None:
        """Let everyone who waits look again."""
        self.wake_count += 1
        waiters = self.waiters
        self.waiters = []
        for waiter in waiters:
            waiter()

    def close(self) -> None:
        """What is queued stays, nothing is added."""
        self.closed = True
        self.wake()

    def _make_room(self) -> bool:
        self.dropped_count += 1
        if self.on_drop is not None:
            self.on_drop()
        if self.when_full != DROP_OLD:
            return False
        self.take()
        return True


class RequestMux(Route):
    """All requests of a connection: one wildcard subscription, one token each."""

    def __init__(self, sid: bytes, prefix: bytes, make_message: Callable[..., MessageCore], inbox: Inbox) -> None:
        super().__init__(sid, prefix + b"*", b"")
        self.prefix_size: int = len(prefix)
        self.make_message = make_message
        # Answers are messages too; this one never queues, it only gives them an owner.
        self.inbox = inbox
        self.waiting: dict[bytes, Pending] = {}

    def deliver(self, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        pending = self.waiting.pop(subject[self.prefix_size :], None)
        if pending is None:
            return
        if header and status_code(header) == 503:
            pending.fail(NoRespondersError(pending.subject))
        else:
            pending.resolve(self.make_message(self.inbox, subject, reply, header, data))

    def fail_denied(self, denial: Denial) -> None:
        for token, pending in list(self.waiting.items()):
            if denial.covers(pending.subject, self.subject[:-1] + token, self.subject):
                del self.waiting[token]
                pending.fail(denial.error)


class AckMux(Route):
    """All publish acknowledgements of a connection. The value of an answer is the raw PubAck document."""

    def __init__(self, sid: bytes, prefix: bytes) -> None:
        super().__init__(sid, prefix + b"*", b"")
        self.prefix: bytes = prefix
        self.prefix_size: int = len(prefix)
        self.waiting: dict[bytes, Pending] = {}
        self.next_token: int = 0
        # Told when an answer leaves a full window.
        self.window_waiters: list[Callable[[], None]] = []
        # Told of every acknowledgement that is an error, so that a future nobody awaits is not lost.
        self.on_failure: Callable[[Pending], None] | None = None
        # Nobody heard these, so they are not stored; they are sent again after a while. They keep their place.
        self.unheard: dict[bytes, Pending] = {}
        # Told when the first of them is there.
        self.on_unheard: Callable[[], None] | None = None
        # Those with an id whose connection broke before they were answered: see `resend`.
        self.lost: dict[bytes, Pending] = {}
        # Their frames, and those to be sent after them.
        self.held: list[bytes] = []
        self.held_bytes: int = 0
        # Told when there is a connection again, to decide about them.
        self.on_lost: Callable[[], None] | None = None

    def deliver(self, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        token = subject[self.prefix_size :]
        pending = self.waiting.pop(token, None)
        if pending is None:
            return
        if header and status_code(header) == 503:
            if pending.retries_left > 0 and self.on_unheard is not None:
                self._keep_unheard(token, pending)
                return
            self.fail(pending, _unheard_error(pending))
        else:
            pending.resolve(data)
            if b'"error"' in data and self.on_failure is not None and says(data, "error"):
                self.on_failure(pending)
        if self.window_waiters:
            self.wake_window()

    def fail_denied(self, denial: Denial) -> None:
        for token, pending in list(self.waiting.items()):
            if not denial.covers(pending.subject, self.prefix + token, self.subject):
                continue
            del self.waiting[token]
            self.unheard.pop(token, None)
            text = str(denial.error)
            if denial.kind == SUBSCRIPTION:
                said = f"the acknowledgement for {pending.subject} cannot be heard, it may have been stored: {text}"
                self.fail(pending, PublishUnknownError(said))
            else:
                said = f"{text}; the message to {pending.subject} is not stored"
                self.fail(pending, PublishDeniedError(said, denial.subject))
        self.wake_window()

    def _keep_unheard(self, token: bytes, pending: Pending) -> None:
        pending.retries_left -= 1
        self.waiting[token] = pending
        is_first = not self.unheard
        self.unheard[token] = pending
        if is_first and self.on_unheard is not None:
            self.on_unheard()

    def take_unheard(self) -> list[bytes]:
        """The frames to send again now."""
        frames = [pending.frame for token, pending in self.unheard.items() if token in self.waiting]
        self.unheard.clear()
        return frames

    def wake_window(self) -> None:
        """Somebody who waited for a place may look again."""
        waiters = self.window_waiters
        self.window_waiters = []
        for waiter in waiters:
            waiter()

    def expire(self, now_s: float) -> list[Pending]:
        """Those whose time is over are no longer waited for. Entries are in the order they were sent."""
        late: list[bytes] = []
        expired: list[Pending] = []
        for token, pending in self.waiting.items():
            if pending.deadline_s and pending.deadline_s <= now_s:
                late.append(token)
        for token in late:
            pending = self.waiting.pop(token)
            if self.unheard.pop(token, None) is not None:
                self.fail(pending, _unheard_error(pending))
            else:
                expired.append(pending)
        if late:
            self.wake_window()
        return expired

    def connection_lost(self, kept: list[bytes]) -> list[bytes]:
        """What was sent and not answered is held when it has an id; the rest fail as unknown.

        `kept` are the frames that were never handed to the transport. The result are those of them that are simply
        sent after the reconnect: while something is held, publishes that came after it are not.
        """
        unsent = {id(frame) for frame in kept}
        for frame in self.held:
            unsent.add(id(frame))
        for token, pending in list(self.waiting.items()):
            if token in self.unheard:
                continue
            if id(pending.frame) in unsent:
                if pending.was_sent:
                    self.lost[token] = pending
                continue
            if find_value(published_block(pending.frame), b"Nats-Msg-Id"):
                # The stream drops the second copy, if it still knows the id then.
                pending.was_sent = True
                self.lost[token] = pending
                self.held.append(pending.frame)
                continue
            del self.waiting[token]
            self.fail(
                pending,
                PublishUnknownError(
                    f"connection lost before {pending.subject} was acknowledged; it may have been stored"
                ),
            )
        if self.held or self.lost:
            ours = {id(pending.frame) for pending in self.waiting.values()}
            self.held += [frame for frame in kept if id(frame) in ours]
            kept = [frame for frame in kept if id(frame) not in ours]
            self.held_bytes = sum([len(frame) for frame in self.held])
        self.wake_window()
        return kept

    def give_up(self, token: bytes, reason: str) -> None:
        """Do not send one again that was lost with its connection."""
        pending = self.waiting.pop(token, None)
        if pending is not None:
            said = f"connection lost before {pending.subject} was acknowledged; it may have been stored"
            self.fail(pending, PublishUnknownError(f"{said} ({reason})"))
            self.wake_window()

    def closed(self, unsent: set[int], reason: BaseException) -> None:
        """The connection is closed for good: each one learns whether it may have been stored."""
        for token, pending in list(self.waiting.items()):
            del self.waiting[token]
            subject = pending.subject
            error: PublishError
            if token in self.unheard:
                error = _unheard_error(pending)
            elif id(pending.frame) in unsent and not pending.was_sent:
                error = PublishNotSentError(f"{reason}; {subject} was not sent and is not stored")
            else:
                error = PublishUnknownError(f"{reason} before {subject} was acknowledged; it may have been stored")
            error.__cause__ = reason
            self.fail(pending, error)
        self.unheard.clear()
        self.lost.clear()
        self.held = []
        self.held_bytes = 0
        self.wake_window()

    def fail(self, pending: Pending, error: BaseException) -> None:
        """Tell whoever waits, and keep it for `flush` when nobody does."""
        pending.fail(error)
        if self.on_failure is not None:
            self.on_failure(pending)


def _unheard_error(pending: Pending) -> PublishError:
    """For a message that nobody heard."""
    if pending.was_sent:
        return PublishUnknownError(f"no stream takes {pending.subject} now; a copy sent before may have been stored")
    return NoStreamError(pending.subject)
