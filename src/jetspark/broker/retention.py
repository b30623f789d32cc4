"""Which messages leave a stream without anybody asking: limits of count, size and age, and consumed ones.

Decided here: who goes when a limit is passed, and when an acknowledged message of an interest or work-queue stream is
no longer needed. Per-message lifetimes and delete markers are in `lifetimes.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.stream_config import Discard, Retention, StreamConfig
from jetspark.broker.bounds import bounded_wait
from jetspark.broker.timers import RETRY_NS, Timer, TimerOwner
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream

TIMER_AGE: Final = 1

# Old messages go in slices, so that an hour's worth expiring at once does not hold up everybody else.
EXPIRED_PER_TURN: Final = 4096
# Ages are looked at no more often than this.
AGE_STEP_NS: Final = 10_000_000


class RetentionKeeper(TimerOwner):
    """The limits of one stream at work."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.limited: bool = False
        self.messages_max: i64 = -1
        self.bytes_max: i64 = -1
        # The same where the oldest go for the newest; a stream that discards new messages never gives up old ones.
        self._evict_messages_max: i64 = -1
        self._evict_bytes_max: i64 = -1
        self.per_subject_max: i64 = -1
        self.age_max_ns: i64 = 0
        self._age_timer = Timer(self, TIMER_AGE)
        # What left a work queue because it was acknowledged, with the epoch of the store; until that is durable.
        self._acknowledged: dict[int, int] = {}
        self._view = RecordView()

    def configure(self, config: StreamConfig) -> None:
        self.messages_max = config.max_msgs if config.max_msgs > 0 else -1
        self.bytes_max = config.max_bytes if config.max_bytes > 0 else -1
        evicts = config.discard == Discard.OLD
        self._evict_messages_max = self.messages_max if evicts else -1
        self._evict_bytes_max = self.bytes_max if evicts else -1
        self.per_subject_max = config.max_msgs_per_subject if config.max_msgs_per_subject > 0 else -1
        self.age_max_ns = bounded_wait(config.max_age)
        self.limited = self.messages_max > 0 or self.bytes_max > 0 or self.per_subject_max > 0 or self.age_max_ns > 0

    def after_append(self, subject: bytes, seq: i64) -> None:
        """A message was just stored: let the oldest go until the stream is within its limits again."""
        try:
            self._make_room(subject)
        except OSError as error:
            # The message is stored. What should have gone for it cannot be read and stays.
            self._stream.read_failed(error)

    def _make_room(self, subject: bytes) -> None:
        store = self._stream.store
        if self.per_subject_max > 0:
            self.enforce_subject(subject)
        if self._evict_messages_max > 0:
            while store.message_count > self._evict_messages_max:
                if not self._stream.remove(store.first_seq, False):
                    break
        if self._evict_bytes_max > 0:
            while store.byte_count > self._evict_bytes_max and store.message_count > 0:
                if not self._stream.remove(store.first_seq, False):
                    break
        if self.age_max_ns > 0 and self._age_timer.deadline_ns == 0:
            self._arm_age()

    def enforce_subject(self, subject: bytes) -> None:
        store = self._stream.store
        state = store.subjects.get(subject)
        while state is not None and state.message_count > self.per_subject_max:
            first = store.subject_first_seq(subject)
            if first == 0 or not self._stream.remove(first, False):
                return
            state = store.subjects.get(subject)

    def enforce_all(self, *, is_start: bool = False) -> None:
        """After an update or a restart: everything over a limit goes now."""
        try:
            if is_start:
                # As when they were stored: a crash may have kept a message and not the removal of the one it replaced.
                # The limits of the stream, applied first, would remove another one, which is within every limit.
                self._enforce_subjects()
                self._enforce_limits()
            else:
                self._enforce_limits()
                self._enforce_subjects()
        except OSError as error:
            self._stream.read_failed(error)
        store = self._stream.store
        self._stream.broker.timers.cancel(self._age_timer)
        if self.age_max_ns > 0 and store.message_count > 0:
            self._arm_age()

    def _enforce_limits(self) -> None:
        store = self._stream.store
        if self._evict_messages_max > 0:
            while store.message_count > self._evict_messages_max:
                self._stream.remove(store.first_seq, False)
        if self._evict_bytes_max > 0:
            while store.byte_count > self._evict_bytes_max and store.message_count > 0:
                self._stream.remove(store.first_seq, False)

    def _enforce_subjects(self) -> None:
        store = self._stream.store
        if self.per_subject_max > 0:
            over = [s for s, state in store.subjects.items() if state.message_count > self.per_subject_max]
            for subject in over:
                self.enforce_subject(subject)

    def _arm_age(self) -> None:
        store = self._stream.store
        now_ns = self._stream.broker.now_ns
        due = store.first_ts_ns + self.age_max_ns
        if due < now_ns + AGE_STEP_NS:
            due = now_ns + AGE_STEP_NS
        self._stream.broker.timers.arm(self._age_timer, due)

    def on_timer(self, kind: int, now_ns: i64) -> None:
        stream = self._stream
        if stream.deleted or self.age_max_ns <= 0:
            return
        try:
            self._expire(now_ns)
        except OSError as error:
            stream.read_failed(error)
            stream.broker.timers.arm(self._age_timer, now_ns + RETRY_NS)

    def _expire(self, now_ns: i64) -> None:
        stream = self._stream
        store = stream.store
        oldest_kept_ns = now_ns - self.age_max_ns
        features = stream.features
        seq = store.next_live(store.first_seq)
        for _ in range(EXPIRED_PER_TURN):
            if seq == 0 or not store.view(seq, self._view) or self._view.ts_ns > oldest_kept_ns:
                break
            following = seq + 1
            if features is None or not features.expire(self._view):
                stream.remove(seq, False)
            seq = store.next_live(following)
        if seq != 0 and store.view(seq, self._view):
            due = self._view.ts_ns + self.age_max_ns
            if due < now_ns + AGE_STEP_NS:
                due = now_ns + AGE_STEP_NS
            stream.broker.timers.arm(self._age_timer, due)

    def timer_failed(self, error: Exception) -> None:
        self._stream.fail(error)

    # -- consumed ----------------------------------------------------------------------------------------------

    def consumed(self, seq: i64) -> None:
        """Some consumer is done with this message; if it was the last who needs it, it goes."""
        stream = self._stream
        if not stream.keeps_by_interest:
            return
        try:
            if stream.config.retention == Retention.INTEREST and self._is_needed(seq):
                return
            self._let_go(seq)
        except OSError as error:
            # The acknowledgement counts. The message goes at the next start.
            stream.read_failed(error)

    def acknowledged(self, seq: i64) -> None:
        """A consumer acknowledged what it no longer owes (it was reset since): the message goes if nobody needs it."""
        try:
            if self._stream.keeps_by_interest and not self._is_needed(seq):
                self._let_go(seq)
        except OSError as error:
            self._stream.read_failed(error)

    def _let_go(self, seq: i64) -> None:
        """Remove a message because it was acknowledged."""
        stream = self._stream
        if stream.remove(seq, False) and not stream.in_memory and stream.config.retention == Retention.WORKQUEUE:
            self._acknowledged[seq] = stream.store.epoch

    def settle(self, epoch: i64) -> None:
        """What was collected in this epoch or before is durable."""
        if self._acknowledged:
            self._acknowledged = {seq: left for seq, left in self._acknowledged.items() if left > epoch}

    def _is_needed(self, seq: i64) -> bool:
        stream = self._stream
        if stream.has_offline_readers:
            return True
        for consumer in stream.unfiltered:
            if consumer.needs(seq):
                return True
        if stream.filtered:
            if not stream.store.view(seq, self._view):
                return False
            for consumer in stream.filtered_for(self._view.subject):
                if consumer.needs(seq):
                    return True
        return bool(stream.followers) and self.is_followed(seq)

    def is_followed(self, seq: i64) -> bool:
        """Has a stream that copies this one yet to get the message?"""
        stream = self._stream
        for follower in stream.followers:
            if follower.needs(seq) and stream.store.view(seq, self._view):
                if follower.wanted.accepts(self._view.subject):
                    return True
        return False

    def interest_changed(self) -> None:
        """A consumer left or looks at fewer subjects: messages nobody needs any more go."""
        stream = self._stream
        if stream.config.retention != Retention.INTEREST or stream.has_offline_readers:
            return
        try:
            if not stream.consumers and not stream.followers:
                stream.purge_unread()
            else:
                self._drop_unneeded()
        except OSError as error:
            stream.read_failed(error)

    def _drop_unneeded(self) -> None:
        stream = self._stream
        store = stream.store
        seq = store.next_live(store.first_seq)
        while seq != 0:
            if not self._is_needed(seq):
                stream.remove(seq, False)
            seq = store.next_live(seq + 1)

    def drop_again(self) -> None:
        """A failed commit takes back removals but no acknowledgements: what was acknowledged goes again."""
        stream = self._stream
        if stream.config.retention != Retention.WORKQUEUE:
            self.drop_consumed()
            return
        # Only that: a consumer may have passed over others, which wait in a work queue for somebody to read them.
        acknowledged = list(self._acknowledged)
        self._acknowledged = {}
        try:
            for seq in acknowledged:
                self._let_go(seq)
        except OSError as error:
            stream.read_failed(error)

    def drop_consumed(self) -> None:
        """An acknowledgement may count where the removal it caused does not, as after a restart: remove what nobody
        needs."""
        stream = self._stream
        if not stream.keeps_by_interest or stream.has_offline_readers:
            return
        try:
            self._drop_consumed()
        except OSError as error:
            stream.read_failed(error)

    def _drop_consumed(self) -> None:
        stream = self._stream
        store = stream.store
        upto: i64 = 0
        for consumer in stream.consumers.values():
            if consumer.next_seq > upto:
                upto = consumer.next_seq
        is_work_queue = stream.config.retention == Retention.WORKQUEUE
        seq = store.next_live(store.first_seq)
        while 0 < seq < upto:
            if store.view(seq, self._view):
                readers = stream.unfiltered + stream.filtered_for(self._view.subject)
                # On a work queue a message nobody asked for yet waits for somebody who will.
                is_needed = is_work_queue and not readers
                for consumer in readers:
                    if consumer.needs(seq):
                        is_needed = True
                        break
                if not is_needed and not self.is_followed(seq):
                    self._let_go(seq)
            seq = store.next_live(seq + 1)

    # -- discard new -------------------------------------------------------------------------------------------

    def refusal(self, subject: bytes, added_bytes: i64, is_rollup: bool) -> str:
        """Why a stream that discards new messages will not take this one; empty when it will."""
        config = self._stream.config
        if config.discard != Discard.NEW:
            return ""
        store = self._stream.store
        state = store.subjects.get(subject)
        held: i64 = state.message_count if state is not None else 0
        # A subject at its own limit gives up its oldest for the newest, which then takes no more room.
        is_at_limit = self.per_subject_max > 0 and held >= self.per_subject_max
        if is_at_limit and config.discard_new_per_subject and not is_rollup:
            return "maximum messages per subject exceeded"
        if self.messages_max > 0 and store.message_count >= self.messages_max and not is_at_limit:
            return "maximum messages exceeded"
        if self.bytes_max > 0 and store.byte_count + added_bytes > self.bytes_max:
            freed_bytes: i64 = 0
            if is_at_limit and store.view(store.subject_first_seq(subject), self._view):
                freed_bytes = store.accounted_size(self._view)
            if freed_bytes < added_bytes:
                return "maximum bytes exceeded"
        return ""
