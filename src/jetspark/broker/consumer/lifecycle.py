"""When a consumer sleeps and when it dies: pauses, and inactivity of those that need not outlive their clients.

A push consumer is inactive while nobody listens on its subject; a pull consumer while no request waits, no ack comes
and nothing delivered is still within its wait. Deleting is done by the stream's keeper, `jetstream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.consumer_defaults import DEFAULT_INACTIVE_THRESHOLD_NS
from jetspark.api.timestamps import ZERO_TIME_NS
from jetspark.broker.bounds import bounded_time, bounded_wait
from jetspark.broker.timers import Timer, TimerOwner

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer

TIMER_INACTIVE: Final = 1
TIMER_PAUSE: Final = 2

# Pull consumers get a little longer, so that a client which asks exactly once a threshold is not too late.
PULL_GRACE_NS: Final = 100_000_000


class Lifecycle(TimerOwner):
    """Pause and inactivity of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.threshold_ns: i64 = 0
        self.last_active_ns: i64 = consumer.broker.now_ns
        self.is_paused: bool = False
        self.paused_until_ns: i64 = 0
        # Replay at the original pace ends here: messages stored later are new, not history.
        self.replay_until_seq: i64 = consumer.stream.store.last_seq
        self._inactive_timer = Timer(self, TIMER_INACTIVE)
        self._pause_timer = Timer(self, TIMER_PAUSE)

    def configure(self, config: ConsumerConfig) -> None:
        self.threshold_ns = bounded_wait(config.inactive_threshold)
        if self.threshold_ns == 0 and not config.is_durable:
            self.threshold_ns = DEFAULT_INACTIVE_THRESHOLD_NS
        self._arm_inactive()

    def stop(self) -> None:
        timers = self._consumer.broker.timers
        timers.cancel(self._inactive_timer)
        timers.cancel(self._pause_timer)

    # -- inactivity ------------------------------------------------------------------------------------------------

    def active(self) -> None:
        """A request, an acknowledgement, a listener."""
        self.last_active_ns = self._consumer.broker.now_ns

    def listener_left(self) -> None:
        self.active()
        self._arm_inactive()

    def _arm_inactive(self) -> None:
        timers = self._consumer.broker.timers
        if self.threshold_ns <= 0:
            timers.cancel(self._inactive_timer)
            return
        grace = 0 if self._consumer.is_push else PULL_GRACE_NS
        timers.arm(self._inactive_timer, self.last_active_ns + self.threshold_ns + grace)

    def _is_in_use(self, now_ns: i64) -> bool:
        consumer = self._consumer
        if consumer.is_push:
            return consumer.push.is_bound
        consumer.pulls.drop_dead()
        consumer.update_wants()
        if consumer.pulls.waiting:
            return True
        for entry in consumer.state.pending.values():
            if consumer.redelivery.due_ns(entry) > now_ns:
                return True
        return False

    # -- pause -----------------------------------------------------------------------------------------------------

    def pause(self, wanted_ns: int) -> None:
        """Deliver nothing until then; a time that has passed resumes, and whoever asked for that lets it deliver."""
        consumer = self._consumer
        until_ns: i64 = bounded_time(wanted_ns)
        now_ns = consumer.broker.now_ns
        was_paused = self.is_paused
        self.paused_until_ns = until_ns if until_ns > now_ns else 0
        self.is_paused = until_ns > now_ns
        if self.is_paused:
            consumer.broker.timers.arm(self._pause_timer, until_ns)
            consumer.announcer.paused(True, wanted_ns)
        else:
            consumer.broker.timers.cancel(self._pause_timer)
            if was_paused:
                consumer.announcer.paused(False, ZERO_TIME_NS)

    def on_timer(self, kind: int, now_ns: i64) -> None:
        consumer = self._consumer
        if consumer.deleted:
            return
        if kind == TIMER_PAUSE:
            until_ns = self.paused_until_ns
            self.is_paused = False
            self.paused_until_ns = 0
            consumer.announcer.paused(False, until_ns)
            consumer.deliver()
            return
        grace = 0 if consumer.is_push else PULL_GRACE_NS
        if self._is_in_use(now_ns):
            self.last_active_ns = now_ns
        if self.last_active_ns + self.threshold_ns + grace <= now_ns:
            consumer.account.jetstream.delete_consumer(consumer)
        else:
            self._arm_inactive()

    def timer_failed(self, error: Exception) -> None:
        self._consumer.fail(error)
