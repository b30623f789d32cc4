"""Connections that ended, as monitoring shows them: what they were and did, without what they sent or their secrets.

Decided here: how many are kept and how much memory they may take together. Anybody can connect and leave, so neither
may depend on what was sent.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jetspark.broker.account import Account
    from jetspark.broker.interest import Subscription
    from jetspark.broker.session import Session

BYTES_MAX: Final = 16 * 1024 * 1024
# What an object of each kind takes besides its texts, about.
_CONNECTION_BYTES: Final = 800
_SUBSCRIPTION_BYTES: Final = 300


class ClosedSubscription:
    """What a connection had subscribed to when it ended."""

    __slots__ = ("delivered", "delivered_max", "queue", "sid", "subject")

    def __init__(self, subscription: Subscription) -> None:
        self.subject: bytes = subscription.subject
        self.queue: bytes = subscription.queue
        self.sid: bytes = subscription.sid
        self.delivered: int = subscription.delivered
        self.delivered_max: int = subscription.delivered_max

    def size_bytes(self) -> int:
        return _SUBSCRIPTION_BYTES + len(self.subject) + len(self.queue) + len(self.sid)


class ClosedConnection:
    """The figures of a session that ended, under the names they have there."""

    __slots__ = (
        "account",
        "buffered_bytes",
        "close_reason",
        "closed",
        "host",
        "in_bytes",
        "in_msgs",
        "kind",
        "language",
        "last_activity_ns",
        "name",
        "out_bytes",
        "out_msgs",
        "port",
        "rtt_ns",
        "session_id",
        "size_bytes",
        "start_ns",
        "stop_ns",
        "subscription_count",
        "subscriptions",
        "user_name",
        "version",
    )

    def __init__(self, session: Session, stop_ns: int) -> None:
        self.stop_ns = stop_ns
        self.closed = True
        self.account: Account = session.account
        self.session_id = session.session_id
        self.kind, self.host, self.port = session.kind, session.host, session.port
        self.name, self.language, self.version = session.name, session.language, session.version
        self.user_name, self.close_reason = session.user_name, session.close_reason
        self.start_ns: int = session.start_ns
        self.last_activity_ns: int = session.last_activity_ns
        self.rtt_ns: int = session.rtt_ns
        self.buffered_bytes: int = session.buffered_bytes
        self.in_msgs: int = session.in_msgs
        self.in_bytes: int = session.in_bytes
        self.out_msgs: int = session.out_msgs
        self.out_bytes: int = session.out_bytes
        self.subscriptions = {sid: ClosedSubscription(each) for sid, each in session.subscriptions.items()}
        self.subscription_count = len(self.subscriptions)
        texts = (self.name, self.language, self.version, self.user_name, self.close_reason)
        self.size_bytes = _CONNECTION_BYTES + sum(len(text) for text in texts)
        self.size_bytes += sum(each.size_bytes() for each in self.subscriptions.values())

    def forget_subscriptions(self) -> None:
        """Keep their number only."""
        self.size_bytes -= sum(each.size_bytes() for each in self.subscriptions.values())
        self.subscriptions = {}


class ClosedConnections:
    """The last connections that ended, newest last; as many as may be, and no more than fit."""

    def __init__(self, count_max: int, bytes_max: int = BYTES_MAX) -> None:
        self._connections: collections.deque[ClosedConnection] = collections.deque()
        self._count_max = count_max
        self._bytes_max = bytes_max
        self.size_bytes = 0

    def __iter__(self) -> Iterator[ClosedConnection]:
        return iter(self._connections)

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: ClosedConnection) -> None:
        if connection.size_bytes > self._bytes_max:
            connection.forget_subscriptions()
        self._connections.append(connection)
        self.size_bytes += connection.size_bytes
        self._shrink()

    def limit(self, count_max: int) -> None:
        """Keep this many from now on."""
        self._count_max = max(0, count_max)
        self._shrink()

    def _shrink(self) -> None:
        while self._connections and (len(self._connections) > self._count_max or self.size_bytes > self._bytes_max):
            self.size_bytes -= self._connections.popleft().size_bytes
