"""Priority groups: who among the waiting pulls may be served at all.

overflow: a request with thresholds is served only when enough is pending or unacknowledged. pinned_client: one client
gets everything until it goes quiet. prioritized: lower numbers first (the order is kept by the queue). Texts and order
of checks are nats-server's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.consumer_config import ConsumerConfig, PriorityPolicy
from jetspark.api.pull_request import PullRequest
from jetspark.broker.bounds import bounded_wait
from jetspark.broker.timers import Timer, TimerOwner
from jetspark.protocol import headers

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.broker.consumer.pull_queue import WaitingPull

TIMER_PIN: Final = 1

SERVE: Final = 1
LATER: Final = 0
ENDED: Final = -1


def bad_request(text: bytes) -> bytes:
    return headers.status_block(400, b"Bad Request - " + text, [])


class Pinning(TimerOwner):
    """The priority policy of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.groups: list[str] = []
        self.is_overflow: bool = False
        self.is_pinned: bool = False
        # Deliveries carry Nats-Pin-Id.
        self.stamps: bool = False
        # Requests must be looked at one by one; false leaves the short way.
        self.is_needed: bool = False
        self.timeout_ns: i64 = 0
        self.pin_id: str = ""
        self.pin_group: str = ""
        self.pinned_ns: i64 = 0
        self._claimed_by: WaitingPull | None = None
        self._timer = Timer(self, TIMER_PIN)

    def configure(self, config: ConsumerConfig) -> None:
        self.groups = list(config.priority_groups)
        self.is_overflow = config.priority_policy == PriorityPolicy.OVERFLOW
        self.is_pinned = config.priority_policy == PriorityPolicy.PINNED_CLIENT
        self.stamps = self.is_pinned
        self.is_needed = self.is_overflow or self.is_pinned
        self.timeout_ns = bounded_wait(config.priority_timeout)
        if not self.is_pinned and self.pin_id:
            self.release()

    # -- a request arrives ---------------------------------------------------------------------------------------

    def refusal(self, parsed: PullRequest) -> bytes:
        """The status that refuses a request, or b""."""
        if not parsed.has_json:
            return b""
        if (parsed.min_pending > 0 or parsed.min_ack_pending > 0) and not self.is_overflow:
            return bad_request(b"Not a Overflow Priority consumer")
        if parsed.pin_id and not self.is_pinned:
            return bad_request(b"Not a Pinned Client Priority consumer")
        if parsed.priority < 0 or parsed.priority > 9:
            return bad_request(b"Priority must be between 0 and 9")
        if not self.groups:
            return b""
        if not parsed.group:
            return bad_request(b"Priority Group missing")
        if parsed.group not in self.groups:
            return bad_request(b"Invalid Priority Group")
        if self.is_pinned and parsed.pin_id:
            if parsed.pin_id != self.pin_id:
                return headers.status_block(423, b"Nats-Pin-Id mismatch", [])
            self._restart_timer()
        return b""

    # -- a message is to be delivered ----------------------------------------------------------------------------

    def fits(self, pull: WaitingPull) -> int:
        """May this request have the next message? ENDED: it was answered and is gone."""
        consumer = self._consumer
        if self.is_overflow:
            if pull.min_pending <= 0 and pull.min_ack_pending <= 0:
                return SERVE
            if pull.min_pending > 0 and consumer.num_pending() >= pull.min_pending:
                return SERVE
            if pull.min_ack_pending > 0 and consumer.ack_pending() >= pull.min_ack_pending:
                return SERVE
            return LATER
        if not self.pin_id:
            if not self.has_messages():
                return LATER
            if pull.pin_id:
                self._refuse_old_pin(pull)
                return ENDED
            self._pin(pull)
            return SERVE
        if pull.pin_id == self.pin_id:
            return SERVE
        if not pull.pin_id:
            return LATER
        self._refuse_old_pin(pull)
        return ENDED

    def has_messages(self) -> bool:
        """A client is pinned when there is something to deliver, not before."""
        consumer = self._consumer
        if consumer.redelivery.queue:
            return True
        visible_seq = consumer.stream.store.visible_seq
        if consumer.first_list_at < len(consumer.first_list):
            return consumer.first_list[consumer.first_list_at] <= visible_seq
        return consumer.num_pending() > 0 and consumer.next_seq <= visible_seq

    def _refuse_old_pin(self, pull: WaitingPull) -> None:
        block = headers.status_block(423, b"Nats-Wrong-Pin-Id", pull.remaining_headers())
        self._consumer.pulls.send(pull, block)

    def _pin(self, pull: WaitingPull) -> None:
        consumer = self._consumer
        self.pin_id = consumer.broker.nuid.next()
        self.pin_group = pull.group or self.groups[0]
        self.pinned_ns = consumer.broker.now_ns
        pull.pin_id = self.pin_id
        self._claimed_by = pull
        self._restart_timer()
        consumer.announcer.pinned(self.pin_group, self.pin_id)

    def release_claim(self, pull: WaitingPull) -> None:
        """The request that was just pinned ended without a message: the pin goes with it."""
        if self._claimed_by is pull and pull.delivered == 0:
            self.release()

    def claimed_by(self) -> WaitingPull | None:
        """The request that was pinned first, which tells who holds the pin; it may have been served since."""
        return self._claimed_by

    def release(self) -> None:
        self.pin_id = ""
        self.pinned_ns = 0
        self._claimed_by = None
        self._consumer.broker.timers.cancel(self._timer)

    def unpin(self, reason: str) -> None:
        """By an operator or because the client went quiet; the next request to be served becomes the pinned one."""
        if not self.pin_id:
            return
        group = self.pin_group
        self.release()
        self._consumer.announcer.unpinned(group, reason)
        self._consumer.deliver()

    def _restart_timer(self) -> None:
        if self.timeout_ns > 0:
            self._consumer.broker.timers.arm(self._timer, self._consumer.broker.now_ns + self.timeout_ns)

    def on_timer(self, kind: int, now_ns: i64) -> None:
        if not self._consumer.deleted:
            self.unpin("timeout")

    def timer_failed(self, error: Exception) -> None:
        self._consumer.fail(error)
