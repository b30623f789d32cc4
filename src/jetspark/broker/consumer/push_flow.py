"""Push delivery: to a subject, while somebody listens there, no faster than they can take it.

Flow control keeps a window of bytes: past half of it a request for an answer goes out, past all of it delivery stops
until the answer comes; each answer doubles the window up to 32 MiB. Heartbeats say that nothing is the matter when
nothing is sent. The rate limit is a bucket of bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.ack_token import flow_control_subject, flow_control_subject_v2
from jetspark.api.consumer_config import ConsumerConfig
from jetspark.broker.bounds import bounded_wait
from jetspark.broker.consumer import writing
from jetspark.broker.consumer.outcomes import PICKED
from jetspark.broker.interest import Route, Subscription
from jetspark.broker.timers import Timer, TimerOwner
from jetspark.protocol import headers

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer

WINDOW_MAX: Final = 32 * 1024 * 1024
WINDOW_START: Final = WINDOW_MAX // 16

TIMER_HEARTBEAT: Final = 1
TIMER_RATE: Final = 2

FLOW_REQUEST: Final = headers.status_block(100, b"FlowControl Request", [])


class PushFlow(TimerOwner):
    """The push side of one consumer; idle for pull consumers."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.subject: bytes = b""
        self.group: bytes = b""
        self.is_bound: bool = False
        self._route: Route | None = None
        self.heartbeat_ns: i64 = 0
        self._heartbeat_timer = Timer(self, TIMER_HEARTBEAT)
        self._last_sent_ns: i64 = 0
        self.flow_control: bool = False
        self._window: i64 = WINDOW_START
        self._outstanding: i64 = 0
        self._asked_bytes: i64 = 0
        self._flow_subject: bytes = b""
        # Rate limit: bytes a second, what may still go, and when that was last topped up.
        self._rate: i64 = 0
        self._burst: i64 = 0
        self._allowance: i64 = 0
        self._topped_up_ns: i64 = 0
        self._rate_timer = Timer(self, TIMER_RATE)

    def configure(self, config: ConsumerConfig) -> None:
        consumer = self._consumer
        subject = config.deliver_subject.encode()
        if subject != self.subject:
            if self.subject:
                consumer.account.stop_listening(self.subject, consumer)
            self.subject = subject
            if subject:
                consumer.account.listen(subject, consumer)
        self.group = config.deliver_group.encode()
        self.heartbeat_ns = bounded_wait(config.idle_heartbeat)
        self.flow_control = config.flow_control
        rate = config.rate_limit_bps // 8
        if rate != self._rate:
            self._rate = rate
            stream_max = consumer.stream.config.max_msg_size
            self._burst = stream_max if stream_max > 0 else consumer.broker.options.max_payload
            self._allowance = self._burst
            self._topped_up_ns = consumer.broker.now_ns
        self._route = None
        self.is_bound = bool(subject) and self._has_listener()
        self._arm_heartbeat()

    def stop(self) -> None:
        consumer = self._consumer
        if self.subject:
            consumer.account.stop_listening(self.subject, consumer)
        self._forget_flow_subject()
        consumer.broker.timers.cancel(self._heartbeat_timer)
        consumer.broker.timers.cancel(self._rate_timer)

    # -- listeners -------------------------------------------------------------------------------------------------

    def _listeners(self) -> Route:
        route = self._route
        if route is None or route.stale:
            route = self._consumer.account.interest.route(self.subject)
            self._route = route
        return route

    def _has_listener(self) -> bool:
        """Does a subscription name the deliver subject itself? Wildcards get copies but bind nothing."""
        route = self._listeners()
        if not self.group:
            for subscription in route.plain:
                if subscription.subject == self.subject:
                    return True
        for members in route.queues:
            for member in members:
                if member.subject == self.subject and (not self.group or member.queue == self.group):
                    return True
        return False

    def interest_changed(self) -> None:
        consumer = self._consumer
        was_bound = self.is_bound
        self.is_bound = bool(self.subject) and self._has_listener()
        if self.is_bound and not was_bound:
            # Whoever listens now has nothing outstanding.
            self._outstanding = 0
            self._forget_flow_subject()
            consumer.lifecycle.active()
            self._arm_heartbeat()
            consumer.update_wants()
            consumer.look_at_acks()
            consumer.deliver()
        elif was_bound and not self.is_bound:
            consumer.broker.timers.cancel(self._heartbeat_timer)
            consumer.lifecycle.listener_left()

    def _target(self) -> Subscription | None:
        """The one subscription that gets the next message; None when the general way must decide."""
        route = self._listeners()
        if len(route.plain) == 1 and not route.queues:
            return route.plain[0]
        if not route.plain and len(route.queues) == 1:
            return self._consumer.account.choose_member(None, route.queues[0])
        return None

    # -- delivering ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        consumer = self._consumer
        while self.is_bound:
            if self.flow_control and self._outstanding > self._window:
                return
            target = self._target()
            if target is not None and not target.session.has_room():
                consumer.wait_for_drain(target.session)
                return
            if consumer.pick() != PICKED:
                return
            size: i64 = consumer.view.header_size + (0 if consumer.headers_only else consumer.view.body_size)
            if self._rate > 0 and not self._may_send(size):
                consumer.unpick()
                return
            self._send_picked(target, size)

    def _send_picked(self, target: Subscription | None, size: i64) -> None:
        consumer = self._consumer
        if self.flow_control:
            size += len(consumer.view.subject) + writing.reply_size(consumer)
        if target is not None and target.session.permissions is None:
            session = target.session
            writing.write(consumer, session.out, target, None)
            session.count_delivery(target, size)
            if not session.is_dirty:
                session.mark_dirty()
        else:
            writing.fan_out(consumer, self.subject, None)
        self._last_sent_ns = consumer.broker.now_ns
        if self.flow_control:
            self._outstanding += size
            if not self._flow_subject and self._outstanding > self._window // 2:
                self._ask()

    def _may_send(self, size: i64) -> bool:
        """Has the bucket enough? If not, come back when it will have."""
        now_ns = self._consumer.broker.now_ns
        gained = (now_ns - self._topped_up_ns) * self._rate // 1_000_000_000
        if gained > 0:
            self._allowance += gained
            if self._allowance > self._burst:
                self._allowance = self._burst
            self._topped_up_ns = now_ns
        if self._allowance >= size:
            self._allowance -= size
            return True
        missing = size - self._allowance
        self._consumer.broker.timers.arm(self._rate_timer, now_ns + missing * 1_000_000_000 // self._rate + 1)
        return False

    # -- flow control ----------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Ask the client to say that it has come this far."""
        consumer = self._consumer
        options = consumer.broker.options
        word = consumer.broker.nuid.short(4)
        if options.ack_subject_v2:
            subject = flow_control_subject_v2(
                options.domain, consumer.account.name, consumer.stream.name, consumer.name, word
            )
        else:
            subject = flow_control_subject(consumer.stream.name, consumer.name, word)
        self._flow_subject = subject.encode()
        self._asked_bytes = self._outstanding
        consumer.account.jetstream.flow_replies[self._flow_subject] = consumer
        self._send(FLOW_REQUEST, self._flow_subject)

    def _send(self, block: bytes, reply: bytes) -> None:
        """A status message, to whom a message would go."""
        consumer = self._consumer
        target = self._target()
        if target is not None:
            session = target.session
            session.deliver(target, self.subject, reply, len(block), block, session.out)
            session.mark_dirty()
        else:
            consumer.account.publish_internal(self.subject, reply, len(block), block)

    def answered(self, subject: bytes) -> None:
        """The client has come as far as the last question."""
        if subject != self._flow_subject:
            return
        self._forget_flow_subject()
        self._outstanding -= self._asked_bytes
        if self._outstanding < 0:
            self._outstanding = 0
        if self._window < WINDOW_MAX:
            self._window *= 2
        self._consumer.deliver()

    def _forget_flow_subject(self) -> None:
        if self._flow_subject:
            self._consumer.account.jetstream.flow_replies.pop(self._flow_subject, None)
            self._flow_subject = b""

    # -- time ------------------------------------------------------------------------------------------------------

    def _arm_heartbeat(self) -> None:
        if self.heartbeat_ns > 0 and self.is_bound:
            timers = self._consumer.broker.timers
            timers.arm(self._heartbeat_timer, self._consumer.broker.now_ns + self.heartbeat_ns)

    def on_timer(self, kind: int, now_ns: i64) -> None:
        consumer = self._consumer
        if consumer.deleted or not self.is_bound:
            return
        if kind == TIMER_RATE:
            consumer.deliver()
            return
        timers = consumer.broker.timers
        due = self._last_sent_ns + self.heartbeat_ns
        if due > now_ns:
            timers.arm(self._heartbeat_timer, due)
            return
        is_stalled = self.flow_control and self._outstanding > self._window
        stalled_on = self._flow_subject if is_stalled else b""
        self._send(consumer.heartbeat_block(stalled_on), b"")
        timers.arm(self._heartbeat_timer, now_ns + self.heartbeat_ns)

    def timer_failed(self, error: Exception) -> None:
        self._consumer.fail(error)
