"""One consumer: its place in the stream, and the loop that hands out messages.

Picks the next message (redeliveries first, then new ones that pass the filter and are durable), writes it to whoever
is next (a waiting pull, or the push subject) and keeps the state that acknowledgements move. What an acknowledgement
does is in `acks.py`, who is next in `pull_queue.py` and `push_flow.py`, when a message comes back in `redelivery.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.ack_token import ack_prefix, ack_prefix_v2
from jetspark.api.consumer_config import AckPolicy, ConsumerConfig, PriorityPolicy, ReplayPolicy
from jetspark.broker.advisories import Announcer
from jetspark.broker.bounds import bounded_wait
from jetspark.broker.consumer import serving
from jetspark.broker.consumer.lifecycle import Lifecycle
from jetspark.broker.consumer.outcomes import ACK_ALL, ACK_EXPLICIT, ACK_NONE, NOT_YET, NOTHING, PICKED, STALLED
from jetspark.broker.consumer.priority import Pinning
from jetspark.broker.consumer.pull_queue import PullQueue, read_failure
from jetspark.broker.consumer.push_flow import PushFlow
from jetspark.broker.consumer.redelivery import Redelivery
from jetspark.broker.consumer.second_thoughts import SecondThoughts
from jetspark.broker.timers import RETRY_NS, Timer, TimerOwner
from jetspark.protocol import headers
from jetspark.protocol.subjects import SubjectFilter
from jetspark.store.consumer_log import ConsumerLog
from jetspark.store.consumer_state import ConsumerState, PendingEntry
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.account import Account
    from jetspark.broker.broker import Broker
    from jetspark.broker.session import Session
    from jetspark.broker.stream import Stream

TIMER_ACK_WAIT: Final = 1
TIMER_PULLS: Final = 2
TIMER_REPLAY: Final = 3
TIMER_DISK: Final = 4


class Consumer(TimerOwner):
    """A consumer of one stream."""

    deleted: bool = False
    # Something raised: it counts as deleted, and goes offline at the end of the turn.
    is_failed: bool = False
    is_dirty: bool = False
    # True when new messages should start the delivery loop: something waits for them.
    wants_messages: bool = False
    _delivering: bool = False
    # Made or reset, and nobody has been told yet.
    is_starting: bool = False
    # The same of one that was made and stands where its deliver policy has set it.
    is_new: bool = False
    waits_for_drain: bool = False
    # A message could not be read; the disk is left alone for a moment.
    waits_for_disk: bool = False
    # Messages matching and not yet delivered: offered minus taken, see num_pending().
    offered: i64 = 0
    _offered_base: i64 = 0
    taken: i64 = 0
    ack_policy: i64 = ACK_NONE
    ack_wait_ns: i64 = 0
    deliveries_max: i64 = -1
    ack_pending_max: i64 = -1
    sample_percent: i64 = 0
    headers_only: bool = False
    is_push: bool = False
    replays: bool = False
    _replay_last_ts_ns: i64 = 0
    _replay_sent_ns: i64 = 0
    ack_prefix: bytes = b""
    # The message just picked: its place and how many times it will then have been delivered.
    picked_seq: i64 = 0
    picked_deliveries: i64 = 1
    picked_is_new: bool = True

    def __init__(
        self,
        stream: Stream,
        name: str,
        config: ConsumerConfig,
        log: ConsumerLog,
        state: ConsumerState,
        created_ns: int,
    ) -> None:
        self.stream = stream
        self.account: Account = stream.account
        self.broker: Broker = stream.broker
        self.name = name
        self.config = config
        self.log = log
        self.state = state
        self.created_ns: i64 = created_ns
        # The next stream sequence to look at, and the list to work off before it (last per subject).
        self.next_seq: i64 = 1
        self.first_list: list[int] = []
        self.first_list_at: int = 0
        # The last sequence that list was made for; 0 without one.
        self.list_until_seq: i64 = 0
        # The sequence that a reset asked it to start at, which may be ahead of the stream; 0 without one.
        self.asked_seq: i64 = 0
        # How far it had looked when last nothing was owed any more: a reset goes on from there.
        self.settled_seq: i64 = 0
        self.filter = SubjectFilter([])
        self.backoff: list[int] = []
        self.announcer = Announcer(self)
        self.redelivery = Redelivery(self)
        self.pulls = PullQueue(self)
        self.pinning = Pinning(self)
        self.push = PushFlow(self)
        self.lifecycle = Lifecycle(self)
        self.second_thoughts = SecondThoughts(self)
        self.ack_timer = Timer(self, TIMER_ACK_WAIT)
        self.pull_timer = Timer(self, TIMER_PULLS)
        self.replay_timer = Timer(self, TIMER_REPLAY)
        self.disk_timer = Timer(self, TIMER_DISK)
        self.view = RecordView()
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        """Take on a checked configuration."""
        self.config = config
        self.filter = SubjectFilter([pattern.encode() for pattern in config.filters])
        if config.ack_policy == AckPolicy.EXPLICIT:
            self.ack_policy = ACK_EXPLICIT
        elif config.ack_policy == AckPolicy.NONE:
            self.ack_policy = ACK_NONE
        else:
            self.ack_policy = ACK_ALL
        self.ack_wait_ns = bounded_wait(config.ack_wait)
        self.backoff = [bounded_wait(wait_ns) for wait_ns in config.backoff]
        self.deliveries_max = config.max_deliver if config.max_deliver > 0 else -1
        self.ack_pending_max = config.max_ack_pending if config.max_ack_pending > 0 else -1
        frequency = config.sample_freq.rstrip("%") if config.sample_freq else "0"
        self.sample_percent = int(frequency)
        self.headers_only = config.headers_only
        self.is_push = bool(config.deliver_subject)
        self.replays = config.replay_policy == ReplayPolicy.ORIGINAL
        self.pulls.is_prioritized = config.priority_policy == PriorityPolicy.PRIORITIZED
        options = self.broker.options
        if options.ack_subject_v2:
            prefix = ack_prefix_v2(options.domain, self.account.name, self.stream.name, self.name)
        else:
            prefix = ack_prefix(self.stream.name, self.name)
        self.ack_prefix = prefix.encode()
        self.pinning.configure(config)
        self.push.configure(config)
        self.lifecycle.configure(config)
        self.update_wants()

    def fail(self, error: Exception) -> None:
        """Something raised here: what is in memory cannot be trusted, and what is on disk is not touched any more."""
        if self.deleted:
            return
        self.deleted = True
        self.is_failed = True
        self.wants_messages = False
        # What it has not had is kept for it.
        self.stream.has_offline_readers = True
        self.broker.casualties.add_consumer(self, error)

    # -- counting ----------------------------------------------------------------------------------------------

    def num_pending(self) -> i64:
        """Messages that match and have not been delivered yet."""
        if self.filter.match_all:
            return self.stream.offered - self._offered_base - self.taken
        return self.offered - self.taken

    def recount(self) -> None:
        """Take the number of pending messages from the store itself."""
        pending: i64 = len(self.first_list) - self.first_list_at
        pending += self.stream.store.count_match(self.next_seq, self.filter)
        self.taken = 0
        self.offered = pending
        self._offered_base = self.stream.offered - pending

    def ack_pending(self) -> i64:
        return len(self.state.pending)

    def needs(self, seq: i64) -> bool:
        """Does this consumer still want or owe this message (which its filter accepts)?"""
        if seq >= self.next_seq:
            return True
        if self.first_list and seq in self.first_list[self.first_list_at :]:
            return True
        return seq in self.state.pending or (self.ack_policy != ACK_NONE and seq in self.state.redelivered)

    def update_wants(self) -> None:
        if self.deleted:
            self.wants_messages = False
        elif self.is_push:
            self.wants_messages = self.push.is_bound
        else:
            self.wants_messages = len(self.pulls.waiting) > 0

    def mark_dirty(self) -> None:
        if not self.is_dirty and self.log.enabled:
            self.is_dirty = True
            self.broker.consumer_dirty(self)

    # -- what the stream tells -----------------------------------------------------------------------------------

    def message_removed(self, seq: i64) -> None:
        """A message this consumer could see has left the stream."""
        try:
            self._forget_message(seq)
        except Exception as error:  # noqa: BLE001 - the message is gone for the others, too
            self.fail(error)

    def _forget_message(self, seq: i64) -> None:
        if self.first_list and seq in self.first_list[self.first_list_at :]:
            self.first_list = [s for s in self.first_list[self.first_list_at :] if s != seq]
            self.first_list_at = 0
            self.taken += 1
        elif seq >= self.next_seq:
            self.taken += 1
        elif seq in self.state.pending:
            self.forget_pending(seq, "Unacknowledged message was deleted")
        elif seq in self.state.redelivered:
            self.forget_given_up(seq)

    def forget_given_up(self, seq: i64) -> None:
        """A message that was delivered as often as allowed is gone: no longer worth remembering."""
        self.second_thoughts.forget_given_up(seq, self.state.redelivered.pop(seq))
        self.log.forgotten(seq)
        self.mark_dirty()

    def forget_pending(self, seq: i64, reason: str) -> None:
        """Nobody can acknowledge this any more: treat it as done."""
        from jetspark.broker.consumer import acks

        entry = self.state.pending.get(seq)
        if entry is None:
            return
        if reason:
            self.announcer.terminated(entry, seq, self.deliveries_of(seq), reason)
        self.second_thoughts.forget(seq, entry)
        acks.settle(self, seq)

    def commit_failed(self) -> None:
        """The log could not be written: write the whole state with the next commit."""
        self.log.rollback(self.state)
        self.mark_dirty()

    # -- picking -------------------------------------------------------------------------------------------------

    def pick(self) -> int:
        """Find the next message to deliver; `view` shows it."""
        if self.redelivery.queue and self._pick_redelivery():
            return PICKED
        if self.ack_pending_max > 0 and self.ack_policy != ACK_NONE:
            if len(self.state.pending) >= self.ack_pending_max:
                return STALLED
        store = self.stream.store
        while self.first_list:
            if self.first_list_at >= len(self.first_list):
                self.first_list = []
                self.first_list_at = 0
                break
            seq: i64 = self.first_list[self.first_list_at]
            if seq > store.visible_seq:
                return NOTHING
            if store.view(seq, self.view):
                return self.picked_new(seq)
            self.first_list_at += 1
            self.taken += 1
        visible = store.visible_seq
        if self.next_seq > visible:
            return NOTHING
        found = store.next_match(self.next_seq, visible, self.filter, self.view)
        if found == 0:
            self.next_seq = visible + 1
            return NOTHING
        return self.picked_new(found)

    def picked_new(self, seq: i64) -> int:
        if self.replays and not self._is_replay_due(seq):
            return NOT_YET
        self.picked_seq = seq
        self.picked_deliveries = 1
        self.picked_is_new = True
        return PICKED

    def _pick_redelivery(self) -> bool:
        """The first queued message that may still be delivered; exhausted and vanished ones are settled."""
        store = self.stream.store
        while self.redelivery.queue:
            # Looked at first: it stays in the queue if it cannot be read.
            is_there = store.view(self.redelivery.queue[0], self.view)
            seq = self.redelivery.pop()
            if not is_there:
                self.forget_pending(seq, "")
                continue
            deliveries = self.deliveries_of(seq) + 1
            if self.deliveries_max > 0 and deliveries > self.deliveries_max:
                self.give_up(seq, self.deliveries_max)
                continue
            self.picked_seq = seq
            self.picked_deliveries = deliveries
            self.picked_is_new = False
            return True
        return False

    def deliveries_of(self, seq: i64) -> i64:
        entry = self.state.pending.get(seq)
        if entry is not None:
            return entry.deliveries
        count = self.state.redelivered.get(seq)
        return count if count is not None else 1

    def give_up(self, seq: i64, deliveries: i64) -> None:
        """Delivered as often as allowed: no longer owed, stays in the stream, and somebody may want to know."""
        self.announcer.max_deliveries(seq, deliveries)
        self.state.pending.pop(seq, None)
        self.state.redelivered[seq] = deliveries
        self.redelivery.unqueue(seq)
        self.log.dropped(seq, deliveries)
        self.mark_dirty()

    def _is_replay_due(self, seq: i64) -> bool:
        """Replay at the original pace: wait as long as the message waited after the one before it."""
        now_ns = self.broker.now_ns
        if self._replay_last_ts_ns == 0 or seq > self.lifecycle.replay_until_seq:
            return True
        due = self._replay_sent_ns + (self.view.ts_ns - self._replay_last_ts_ns)
        if due <= now_ns:
            return True
        self.broker.timers.arm(self.replay_timer, due)
        return False

    def unpick(self) -> None:
        """The picked message could not go out: it is next again, uncounted."""
        if not self.picked_is_new:
            self.redelivery.push_front(self.picked_seq)
        elif not self.first_list:
            # What was passed over to find it is not looked at again.
            self.next_seq = self.picked_seq

    # -- delivering ------------------------------------------------------------------------------------------------

    def deliver(self) -> None:
        """Hand out what can be handed out now."""
        if self._delivering or self.deleted or self.is_starting or self.waits_for_drain or self.waits_for_disk:
            return
        if self.lifecycle.is_paused:
            # For a request that does not wait, there is nothing now.
            self.pulls.end_no_wait()
            return
        self._delivering = True
        try:
            if self.is_push:
                self.push.run()
            else:
                serving.serve_pulls(self)
        except OSError as error:
            self._read_failed(error)
        except Exception as error:  # noqa: BLE001 - whoever called has others to look after
            self.fail(error)
        finally:
            self._delivering = False

    def _read_failed(self, error: OSError) -> None:
        """The next message cannot be read. It is not passed over: whoever waits is told, and it is tried again."""
        self.stream.read_failed(error)
        self.pulls.end_all(read_failure(error))
        self.update_wants()
        self.waits_for_disk = True
        self.broker.timers.arm(self.disk_timer, self.broker.now_ns + RETRY_NS)

    def resume_after_drain(self) -> None:
        self.waits_for_drain = False
        self.deliver()

    def wait_for_drain(self, session: Session) -> None:
        if not self.waits_for_drain:
            self.waits_for_drain = True
            session.paused_consumers.append(self)

    def record(self) -> i64:
        """The picked message counts as delivered now; returns its consumer sequence."""
        state = self.state
        now_ns = self.broker.now_ns
        seq = self.picked_seq
        consumer_seq = state.delivered_consumer_seq + 1
        state.delivered_consumer_seq = consumer_seq
        state.last_delivered_ts_ns = now_ns
        if self.picked_is_new:
            self.taken += 1
            if self.first_list:
                self.first_list_at += 1
            else:
                self.next_seq = seq + 1
            if seq > state.delivered_stream_seq:
                state.delivered_stream_seq = seq
        if self.replays:
            self._replay_last_ts_ns = self.view.ts_ns
            self._replay_sent_ns = now_ns
        if self.ack_policy == ACK_NONE:
            state.floor_consumer_seq = consumer_seq
            state.floor_stream_seq = state.delivered_stream_seq
            self.log.delivered_position(consumer_seq, state.delivered_stream_seq)
        else:
            self._expect_ack(seq, consumer_seq, now_ns)
        if not self.is_dirty:
            self.mark_dirty()
        return consumer_seq

    def _expect_ack(self, seq: i64, consumer_seq: i64, now_ns: i64) -> None:
        state = self.state
        deliveries = self.picked_deliveries
        if self.picked_is_new:
            state.pending[seq] = PendingEntry(consumer_seq, now_ns, 1)
        else:
            entry = state.pending.get(seq)
            if entry is None:
                state.pending[seq] = PendingEntry(consumer_seq, now_ns, deliveries)
            else:
                entry.delivered_ts_ns = now_ns
                entry.deliveries = deliveries
            state.redelivered[seq] = deliveries
        self.log.delivered(seq, consumer_seq, deliveries, now_ns)
        if self.ack_timer.deadline_ns == 0:
            self.broker.timers.arm(self.ack_timer, now_ns + self.redelivery.wait_ns(deliveries))
        elif self.backoff:
            self.broker.timers.arm_if_earlier(self.ack_timer, now_ns + self.redelivery.wait_ns(deliveries))

    def arm_pull_timer(self) -> None:
        due = self.pulls.next_due_ns()
        if due > 0:
            self.broker.timers.arm_if_earlier(self.pull_timer, due)

    # -- time ----------------------------------------------------------------------------------------------------------

    def on_timer(self, kind: int, now_ns: i64) -> None:
        if self.deleted:
            return
        if kind == TIMER_ACK_WAIT:
            due = self.redelivery.collect_expired(now_ns)
            if due > 0:
                self.broker.timers.arm(self.ack_timer, due)
            self.deliver()
        elif kind == TIMER_PULLS:
            self.pulls.run_due(now_ns)
            self.update_wants()
            self.arm_pull_timer()
        elif kind == TIMER_REPLAY:
            self.deliver()
        elif kind == TIMER_DISK:
            self.waits_for_disk = False
            self.deliver()

    def timer_failed(self, error: Exception) -> None:
        self.fail(error)

    def look_at_acks(self) -> None:
        """Waits have changed: look at what is outstanding at the right time again."""
        self.broker.timers.arm(self.ack_timer, self.broker.now_ns)

    def heartbeat_block(self, stalled_on: bytes) -> bytes:
        """`100 Idle Heartbeat`: where this consumer stands, so that a client notices what it missed."""
        pairs = [
            (b"Nats-Last-Consumer", b"%d" % self.state.delivered_consumer_seq),
            (b"Nats-Last-Stream", b"%d" % (self.next_seq - 1)),
        ]
        if stalled_on:
            pairs.append((b"Nats-Consumer-Stalled", stalled_on))
        return headers.status_block(100, b"Idle Heartbeat", pairs)

    def interest_changed(self) -> None:
        """Somebody started or stopped listening on the deliver subject."""
        self.push.interest_changed()
        self.update_wants()
