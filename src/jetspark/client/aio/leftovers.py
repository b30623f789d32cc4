"""Messages whose fetch was cancelled, or left early: they are for the next one.

Without acknowledgements the server would not deliver them again, and with them only after `ack_wait`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jetspark.client.aio.msg import Msg
from jetspark.client.core.retiring import retire
from jetspark.client.core.routes import Inbox

if TYPE_CHECKING:
    from jetspark.client.aio.link import Link

# An answer takes one round trip.
SETTLE_MAX_S = 1.0


class Leftovers:
    """What the fetches of one consumer have not taken, in the order it was delivered."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._messages: deque[Msg] = deque()
        # Of fetches that have left: something may still be on its way to them.
        self._inboxes: deque[Inbox] = deque()

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, messages: Iterable[Msg]) -> None:
        """Keep messages that were taken from an inbox and not given to anybody."""
        self._messages.extend(messages)

    def add_from(self, inbox: Inbox) -> None:
        """Keep the messages of an inbox that stays."""
        with self._link.guard:
            self._drain(inbox)

    def leave(self, inbox: Inbox, is_over: bool) -> None:
        """A fetch has ended. Unless its request is over, the server may have sent more than has come."""
        link = self._link
        with link.guard:
            if is_over:
                link.core.remove_route(inbox)
            else:
                retire(link.core, inbox)
            if inbox.queue or not inbox.closed:
                self._inboxes.append(inbox)

    async def settle(self, count: int, deadline_s: float) -> bool:
        """Wait until so many are here, or nothing more can come. Whether there was anything to wait for.

        A server that is silent is not waited for: what it sends later comes with a later fetch.
        """
        if not self._inboxes:
            return False
        link = self._link
        limit_s = min(deadline_s, link.now() + SETTLE_MAX_S)
        has_waited = False
        while len(self._messages) < count:
            with link.guard:
                inbox = self._gather()
                seen_count = 0 if inbox is None else inbox.wake_count
            left_s = limit_s - link.now()
            if inbox is None or len(self._messages) >= count or left_s <= 0:
                break
            has_waited = True
            await link.wait_inbox(inbox, seen_count, left_s)
        return has_waited

    def _gather(self) -> Inbox | None:
        """Take what has come, inbox by inbox. The first one to which more may come, if there is any."""
        while self._inboxes:
            inbox = self._inboxes[0]
            self._drain(inbox)
            if not inbox.closed:
                return inbox
            self._inboxes.popleft()
        return None

    def _drain(self, inbox: Inbox) -> None:
        queue: Any = inbox.queue
        while queue:
            message: Msg = queue.popleft()
            if not message.status_code:
                self._messages.append(message)

    def take(self, count: int) -> list[Msg]:
        """At most so many, the oldest first."""
        messages = self._messages
        with self._link.guard:
            return [messages.popleft() for _ in range(min(count, len(messages)))]

    def clear(self) -> None:
        """Nobody wants them any more."""
        with self._link.guard:
            self._messages.clear()
            self._inboxes.clear()
