"""Which pull request gets the next message.

Requests wait in arrival order and are served one message at a time in turn, so that a batch of 10,000 cannot starve
the rest; priorities reorder them. Decided here: when a request ends and with which status line. Not known here: which
message is next (the consumer picks) and how it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.pull_request import PullRequest
from jetspark.broker.bounds import bounded_wait
from jetspark.broker.interest import Route, Subscription
from jetspark.protocol import headers

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer

SECOND_NS: Final = 1_000_000_000

NO_MESSAGES: Final = headers.status_block(404, b"No Messages", [])
REQUESTS_PENDING: Final = headers.status_block(408, b"Requests Pending", [])
MAX_WAITING: Final = headers.status_block(409, b"Exceeded MaxWaiting", [])
CONSUMER_DELETED: Final = headers.status_block(409, b"Consumer Deleted", [])

PRIORITY_WITHOUT_DOCUMENT: Final = 10


class WaitingPull:
    """One request that waits, with what is left of it."""

    def __init__(self, reply: bytes, request: PullRequest, route: Route, now_ns: i64) -> None:
        self.reply = reply
        self.route = route
        # Of interest when the route was looked up; 0 looks it up at first use.
        self.generation: i64 = 0
        # A JSON request without batch is served one message, but reports nothing left.
        self.left: i64 = request.batch if request.batch > 0 else 1
        self.reported_left: i64 = request.batch if request.batch > 0 else 0
        self.bytes_left: i64 = request.max_bytes
        self.has_byte_budget: bool = request.max_bytes > 0
        self.no_wait: bool = request.no_wait
        # A negative expiry has passed already.
        self.expires_at_ns: i64 = now_ns + bounded_wait(request.expires_ns) if request.expires_ns != 0 else 0
        self.heartbeat_ns: i64 = bounded_wait(request.idle_heartbeat_ns)
        self.heartbeat_at_ns: i64 = now_ns + self.heartbeat_ns if self.heartbeat_ns > 0 else 0
        self.delivered: i64 = 0
        self.group: str = request.group
        self.min_pending: i64 = request.min_pending
        self.min_ack_pending: i64 = request.min_ack_pending
        self.pin_id: str = request.pin_id
        self.priority: int = request.priority if request.has_json else PRIORITY_WITHOUT_DOCUMENT

    def remaining_headers(self) -> list[tuple[bytes, bytes]]:
        bytes_left = self.bytes_left if self.has_byte_budget else 0
        return [
            (b"Nats-Pending-Messages", b"%d" % self.reported_left),
            (b"Nats-Pending-Bytes", b"%d" % bytes_left),
        ]


class PullQueue:
    """The requests waiting at one pull consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        # A list, which compiled code handles natively; few wait at a time.
        self.waiting: list[WaitingPull] = []
        self.is_prioritized: bool = False
        self._last_cleanup_ns: i64 = 0

    def route(self, pull: WaitingPull) -> Route:
        """Where the request's inbox leads now."""
        interest = self._consumer.account.interest
        if pull.generation != interest.generation:
            # Not every route is kept where a change would mark it, so the count of changes decides.
            pull.generation = interest.generation
            pull.route = interest.reply_route(pull.reply)
        return pull.route

    def has_interest(self, pull: WaitingPull) -> bool:
        return self.route(pull).has_subscribers

    def add(self, pull: WaitingPull) -> None:
        if self.is_prioritized:
            self._insert_by_priority(pull)
        else:
            self.waiting.append(pull)

    def _insert_by_priority(self, pull: WaitingPull) -> None:
        """Behind all of its own priority, before the lesser ones."""
        place = 0
        for other in self.waiting:
            if other.priority > pull.priority:
                break
            place += 1
        self.waiting.insert(place, pull)

    def rotate(self) -> None:
        """The first request had its turn and is not finished."""
        if len(self.waiting) > 1:
            pull = self.waiting.pop(0)
            self.add(pull)

    def remove(self, pull: WaitingPull) -> None:
        if self.waiting and self.waiting[0] is pull:
            self.waiting.pop(0)
        elif pull in self.waiting:
            self.waiting.remove(pull)

    def claimed(self) -> i64:
        """Messages that waiting requests will still take."""
        total: i64 = 0
        for pull in self.waiting:
            total += pull.left
        return total

    def drop_dead(self) -> None:
        """Forget requests whose inbox nobody listens on, and those past their time."""
        now_ns = self._consumer.broker.now_ns
        kept: list[WaitingPull] = []
        for pull in self.waiting:
            if not self.has_interest(pull):
                continue
            if 0 < pull.expires_at_ns <= now_ns:
                self.send_timeout(pull)
                continue
            kept.append(pull)
        self.waiting = kept

    def make_room(self, waiting_max: int) -> bool:
        """Is there a place for one more? Looks for dead requests at most once a second."""
        if len(self.waiting) < waiting_max:
            return True
        now_ns = self._consumer.broker.now_ns
        if now_ns - self._last_cleanup_ns >= SECOND_NS:
            self._last_cleanup_ns = now_ns
            self.drop_dead()
        return len(self.waiting) < waiting_max

    # -- status lines --------------------------------------------------------------------------------------------

    def send_timeout(self, pull: WaitingPull) -> None:
        self.send(pull, headers.status_block(408, b"Request Timeout", pull.remaining_headers()))

    def send(self, pull: WaitingPull, block: bytes) -> None:
        self._consumer.account.publish_internal(pull.reply, b"", len(block), block)

    def end_no_wait(self) -> None:
        """The consumer ran out of messages: requests that do not wait end here."""
        if not self.waiting:
            return
        ended = [p for p in self.waiting if p.no_wait and (p.expires_at_ns == 0 or p.delivered > 0)]
        for pull in ended:
            self.remove(pull)
            self.send(pull, NO_MESSAGES)

    def end_all(self, block: bytes) -> None:
        """The consumer goes away."""
        waiting = self.waiting
        self.waiting = []
        for pull in waiting:
            self.send(pull, block)

    def end_for_shutdown(self) -> None:
        waiting = self.waiting
        self.waiting = []
        for pull in waiting:
            self.send(pull, headers.status_block(409, b"Server Shutdown", pull.remaining_headers()))

    # -- time ----------------------------------------------------------------------------------------------------

    def next_due_ns(self) -> i64:
        """When the first request expires or wants a heartbeat; 0 when none does."""
        due: i64 = 0
        for pull in self.waiting:
            if pull.expires_at_ns > 0 and (due == 0 or pull.expires_at_ns < due):
                due = pull.expires_at_ns
            if pull.heartbeat_at_ns > 0 and (due == 0 or pull.heartbeat_at_ns < due):
                due = pull.heartbeat_at_ns
        return due

    def run_due(self, now_ns: i64) -> None:
        """End what has expired, send the heartbeats that are due."""
        kept: list[WaitingPull] = []
        for pull in self.waiting:
            if 0 < pull.expires_at_ns <= now_ns:
                self.send_timeout(pull)
                continue
            if 0 < pull.heartbeat_at_ns <= now_ns:
                if not self.has_interest(pull):
                    continue
                if pull.no_wait and pull.delivered > 0:
                    # Held up by max_ack_pending: nats-server ends it at its first heartbeat; nats-py builds on that.
                    self.send(pull, NO_MESSAGES)
                    continue
                self.send(pull, self._consumer.heartbeat_block(b""))
                pull.heartbeat_at_ns = now_ns + pull.heartbeat_ns
            kept.append(pull)
        self.waiting = kept


def read_failure(error: OSError) -> bytes:
    """The end of a request whose messages cannot be read."""
    reason = (error.strerror or type(error).__name__).encode("utf-8", "replace")
    return headers.status_block(500, b"Stored Message Cannot Be Read: " + reason, [])


def first_target(route: Route) -> Subscription | None:
    """The only subscriber behind an inbox, the usual case; None when there are none or several."""
    if len(route.plain) == 1 and not route.queues:
        return route.plain[0]
    return None
