"""What a stream should hold: a dictionary and a few rules, simple enough to be believed.

Every operation that reached the broker is applied here too, in the same order; what the model then holds is what the
store must hold. `mark` and `restore` follow commits: what was durable when, and what a refused commit takes back.
What is due by time alone (age, lifetimes) is not decided here but allowed: see `may_be_gone`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from jetspark.api.stream_config import Discard, Retention, Storage, StreamConfig
from jetspark.protocol.subjects import matches
from jetspark.testing.sim.consumer_model import ConsumerModel
from jetspark.testing.sim.violation import require

NEVER = -1
SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Message:
    """One stored message."""

    seq: int
    subject: bytes
    header: bytes
    payload: bytes
    ts_ns: int
    message_id: bytes
    # When its own lifetime ends; 0 without one, NEVER for one that outlives the stream's age limit.
    deadline_ns: int


def message(seq: int, subject: bytes, header: bytes, payload: bytes, ts_ns: int) -> Message:
    """A message with what its headers say about it."""
    message_id = header_value(header, b"Nats-Msg-Id")
    lifetime = header_value(header, b"Nats-TTL")
    deadline_ns = 0
    if lifetime:
        deadline_ns = NEVER if lifetime == b"never" else ts_ns + int(lifetime) * SECOND_NS
    return Message(seq, subject, header, payload, ts_ns, message_id, deadline_ns)


def header_value(header: bytes, name: bytes) -> bytes:
    """The value of a header, empty without it."""
    start = header.find(b"\r\n" + name + b": ")
    if start < 0:
        return b""
    start += len(name) + 4
    return header[start : header.index(b"\r\n", start)]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A publish as its headers have it."""

    subject: bytes
    header: bytes
    payload: bytes
    message_id: bytes = b""
    expected_last_seq: int = -1
    expected_last_subject_seq: int = -1
    expected_last_id: bytes | None = None
    expected_stream: str = ""
    rollup: bytes = b""
    lifetime_s: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a publish: a sequence (its own, or that of the message it repeats), or why it is refused."""

    seq: int = 0
    is_duplicate: bool = False
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A stream as it was at one moment."""

    messages: dict[int, Message]
    last_seq: int
    last_ts_ns: int


class StreamModel:
    """One stream, from its creation to its deletion."""

    def __init__(self, config: StreamConfig, now_ns: int) -> None:
        self.config = config
        self.name = config.name
        self.in_memory = config.storage == Storage.MEMORY
        self.messages: dict[int, Message] = {}
        # Their sequences, in order.
        self.seqs: list[int] = []
        self.byte_count = 0
        self.last_seq = max(config.first_seq - 1, 0)
        self.last_ts_ns = 0
        self.visible_seq = self.last_seq
        self.ids: dict[bytes, tuple[int, int]] = {}
        self.last_id = b""
        self.failed_until_ns = 0
        # When messages were last brought back, or the limits changed: none was late before.
        self.changed_ns = now_ns
        self.latest_ts_ns = 0
        self.consumers: dict[str, ConsumerModel] = {}
        self.durable = self.mark()
        self.in_flight: Mark | None = None
        # Every message that was given a sequence since the durable mark, also those taken back since.
        self.appended: dict[int, list[Message]] = {}
        # Every message that ever had a sequence.
        self.published: dict[int, list[Message]] = {}
        # Messages removed, each with the number of commits collected by then: not durable until a later one is done.
        self.removed: dict[int, int] = {}
        # Those of a work queue that were removed because they were acknowledged, in the same way.
        self.done: dict[int, int] = {}
        self.collected_count = 0
        # A consumer was set past what is below: a start may take that for acknowledged.
        self.skipped_below = 0
        # The same for messages that came back after their consumer had gone on.
        self.came_late: set[int] = set()
        self.has_failed = False
        # Commits collected when it was last purged; -1 when that is durable.
        self.purged_at = -1
        # Purged when it had never held anything; not remembered over a restart.
        # Messages that expire in the current turn.
        self.leaving: set[int] = set()
        self.was_purged_unused = False

    # -- counting ------------------------------------------------------------------------------------------------

    @property
    def first_seq(self) -> int:
        """The first message's sequence; one past the last without any."""
        return self.seqs[0] if self.seqs else self.last_seq + 1

    def size_of(self, subject: bytes, header: bytes, payload: bytes) -> int:
        """What a message counts for."""
        size = len(subject) + len(header) + len(payload)
        if self.in_memory:
            return size + 16
        return size + 30 + (4 if header else 0)

    def on_subject(self, subject: bytes) -> list[int]:
        """Sequences of one subject, oldest first."""
        return [seq for seq in self.seqs if self.messages[seq].subject == subject]

    def live_from(self, seq: int) -> list[int]:
        """Sequences at or after one."""
        return self.seqs[bisect_left(self.seqs, seq) :]

    # -- publish -------------------------------------------------------------------------------------------------

    def publish(self, attempt: Attempt, now_ns: int) -> Outcome:
        """What the stream does with a message, and do it."""
        outcome = self._examine(attempt, now_ns)
        if outcome.refusal or outcome.is_duplicate:
            return outcome
        seq = self.last_seq + 1
        self.last_id = attempt.message_id
        if attempt.message_id:
            # What is past the window is forgotten now, also if the window becomes longer later.
            window_ns = self.config.duplicate_window
            self.ids = {name: known for name, known in self.ids.items() if known[1] + window_ns > now_ns}
            self.ids[attempt.message_id] = (seq, now_ns)
        if self._is_wanted(attempt.subject):
            ts_ns = max(now_ns, self.last_ts_ns)
            self.put(message(seq, attempt.subject, attempt.header, attempt.payload, ts_ns))
        else:
            self.last_seq = seq
            self.last_ts_ns = now_ns
        self.enforce(attempt.subject)
        self._roll_up(attempt, seq)
        return Outcome(seq)

    def put(self, new: Message) -> None:
        """Hold a message under its sequence, which becomes the last."""
        self.messages[new.seq] = new
        self.latest_ts_ns = max(self.latest_ts_ns, new.ts_ns)
        self.seqs.append(new.seq)
        self.byte_count += self.size_of(new.subject, new.header, new.payload)
        self.last_seq = new.seq
        self.last_ts_ns = new.ts_ns
        self.appended.setdefault(new.seq, []).append(new)
        self.published.setdefault(new.seq, []).append(new)

    def _is_wanted(self, subject: bytes) -> bool:
        if self.config.retention != Retention.INTEREST:
            return True
        return any(consumer.accepts(subject) for consumer in self.consumers.values())

    def _examine(self, attempt: Attempt, now_ns: int) -> Outcome:
        """The checks, in order; nothing changes."""
        config = self.config
        if config.sealed:
            return Outcome(refusal="sealed")
        if 0 < config.max_msg_size < len(attempt.header) + len(attempt.payload):
            return Outcome(refusal="too large")
        refusal = self._expectation_refusal(attempt)
        if refusal:
            return Outcome(refusal=refusal)
        known = self.ids.get(attempt.message_id) if attempt.message_id else None
        if known is not None and known[1] + config.duplicate_window > now_ns:
            return Outcome(known[0], is_duplicate=True)
        if attempt.expected_last_id is not None and attempt.expected_last_id != self.last_id:
            return Outcome(refusal="wrong last message id")
        if attempt.rollup and (not config.allow_rollup_hdrs or config.deny_purge):
            return Outcome(refusal="rollup not permitted")
        if now_ns < self.failed_until_ns:
            return Outcome(refusal="disk failed")
        if not self._is_wanted(attempt.subject):
            return Outcome()
        return Outcome(refusal=self._room_refusal(attempt))

    def _expectation_refusal(self, attempt: Attempt) -> str:
        if attempt.expected_stream and attempt.expected_stream != self.name:
            return "wrong stream"
        if attempt.lifetime_s and not self.config.allow_msg_ttl:
            return "lifetimes not allowed"
        if attempt.expected_last_subject_seq >= 0:
            on_subject = self.on_subject(attempt.subject)
            if attempt.expected_last_subject_seq != (on_subject[-1] if on_subject else 0):
                return "wrong last sequence of the subject"
        if attempt.expected_last_seq >= 0 and attempt.expected_last_seq != self.last_seq:
            return "wrong last sequence"
        return ""

    def _room_refusal(self, attempt: Attempt) -> str:
        """A stream that discards new messages, and is full."""
        config = self.config
        if config.discard != Discard.NEW:
            return ""
        on_subject = self.on_subject(attempt.subject)
        freed_bytes = 0
        # The newest of a subject that is full takes the place of its oldest, whatever the other limits.
        is_replacing = 0 < config.max_msgs_per_subject <= len(on_subject)
        if is_replacing:
            if config.discard_new_per_subject and not attempt.rollup:
                return "subject full"
            oldest = self.messages[on_subject[0]]
            freed_bytes = self.size_of(oldest.subject, oldest.header, oldest.payload)
        if 0 < config.max_msgs <= len(self.seqs) and not is_replacing:
            return "full"
        added = self.size_of(attempt.subject, attempt.header, attempt.payload)
        if 0 < config.max_bytes < self.byte_count + added and freed_bytes < added:
            return "full of bytes"
        return ""

    def _roll_up(self, attempt: Attempt, seq: int) -> None:
        replaced: list[int] = []
        if attempt.rollup == b"all":
            replaced = [old for old in self.seqs if old < seq]
        elif attempt.rollup == b"sub":
            replaced = [old for old in self.on_subject(attempt.subject) if old < seq]
        if attempt.rollup:
            self.purged_at = self.collected_count
            self.remove_many(replaced)
            self._forget_purged()

    def _forget_purged(self) -> None:
        """After a purge every consumer looks at the stream again, whatever its filter."""
        for consumer in self.consumers.values():
            for seq in [seq for seq in consumer.pending if seq not in self.messages]:
                consumer.message_removed(seq)

    # -- leaving -------------------------------------------------------------------------------------------------

    def enforce(self, subject: bytes) -> None:
        """Let the oldest go until the limits hold."""
        config = self.config
        if config.max_msgs_per_subject > 0:
            on_subject = self.on_subject(subject)
            self.remove_many(on_subject[: max(0, len(on_subject) - config.max_msgs_per_subject)])
        if config.discard == Discard.NEW:
            return
        if config.max_msgs > 0:
            self.remove_many(self.seqs[: max(0, len(self.seqs) - config.max_msgs)])
        while 0 < config.max_bytes < self.byte_count and self.seqs:
            self.remove(self.seqs[0])

    def enforce_all(self) -> None:
        """The same for every subject, after an update or a restart."""
        self.enforce(b"")
        for subject in dict.fromkeys(kept.subject for kept in self.messages.values()):
            self.enforce(subject)

    def remove_many(self, seqs: list[int]) -> None:
        """Remove messages, whoever may still have wanted them."""
        for seq in list(seqs):
            self.remove(seq)

    def remove(self, seq: int) -> bool:
        """Remove one message; nobody can acknowledge it any more."""
        gone = self.messages.pop(seq, None)
        if gone is None:
            return False
        del self.seqs[bisect_left(self.seqs, seq)]
        self.byte_count -= self.size_of(gone.subject, gone.header, gone.payload)
        self.removed[seq] = self.collected_count
        for consumer in self.consumers.values():
            # One that changed its filter since learns of it when the message would come again.
            if consumer.accepts(gone.subject):
                consumer.message_removed(seq)
        return True

    def purge(self, subject_filter: bytes, below_seq: int, keep: int) -> int:
        """The purge of the API; how many messages went."""
        before = len(self.seqs)
        self.purged_at = self.collected_count
        if self.last_seq == 0 and not subject_filter and keep <= 0 and below_seq == 0:
            self.was_purged_unused = True
        chosen = [s for s in self.seqs if not subject_filter or matches(subject_filter, self.messages[s].subject)]
        if keep > 0:
            # What is kept are the newest of all that match, also of those above the limit.
            chosen = chosen[: max(0, len(chosen) - keep)]
        if below_seq > 0:
            chosen = [seq for seq in chosen if seq < below_seq]
        self.remove_many(chosen)
        self._forget_purged()
        if not subject_filter and keep <= 0 and below_seq > self.last_seq + 1:
            self.last_seq = below_seq - 1
        return before - len(self.seqs)

    def consumed(self, seq: int) -> None:
        """A consumer is done with a message: it goes if nobody else needs it."""
        if self.config.retention == Retention.LIMITS or seq not in self.messages:
            return
        if self.config.retention == Retention.INTEREST and self._is_needed(seq):
            return
        self._let_go(seq)

    def acknowledged(self, seq: int) -> None:
        """A message was acknowledged that its consumer no longer owes."""
        if self.config.retention != Retention.LIMITS and seq in self.messages and not self._is_needed(seq):
            self._let_go(seq)

    def _let_go(self, seq: int) -> None:
        if self.remove(seq) and self.config.retention == Retention.WORKQUEUE:
            self.done[seq] = self.collected_count

    def _is_needed(self, seq: int) -> bool:
        subject = self.messages[seq].subject
        return any(consumer.accepts(subject) and consumer.needs(seq) for consumer in self.consumers.values())

    def interest_changed(self) -> None:
        """A consumer left or looks elsewhere: what nobody needs goes."""
        if self.config.retention == Retention.INTEREST:
            self.remove_many([seq for seq in self.seqs if not self._is_needed(seq)])
            if not self.consumers and self.last_seq == 0:
                self.was_purged_unused = True

    def due_ns(self, kept: Message) -> int:
        """When a message may leave by time; 0 for never."""
        due_ns = kept.deadline_ns if kept.deadline_ns > 0 else 0
        if self.config.max_age > 0 and kept.deadline_ns != NEVER:
            by_age_ns = kept.ts_ns + self.config.max_age
            due_ns = by_age_ns if due_ns == 0 else min(due_ns, by_age_ns)
        return due_ns

    def latest_due_ns(self, seq: int) -> int:
        """When a message may leave at the latest: age is looked at from the front, at the time the front's is due.

        Behind a message from before the clock was set back, even one that has left meanwhile, others wait their turn.
        """
        return self.latest_ts_ns + self.config.max_age if self.messages[seq].ts_ns < self.latest_ts_ns else 0

    # -- commits -------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """The stream as it is now."""
        return Mark(dict(self.messages), self.last_seq, self.last_ts_ns)

    def collected(self) -> None:
        """What has happened so far is on its way to the disk."""
        self.in_flight = self.mark()
        self.collected_count += 1

    def committed(self) -> None:
        """It is durable."""
        mark = self.in_flight
        require(mark is not None, "a commit is done that was never begun", self.name)
        assert mark is not None
        self.in_flight = None
        self.durable = mark
        self.visible_seq = mark.last_seq
        self.failed_until_ns = 0
        self.appended = {seq: tries for seq, tries in self.appended.items() if seq > mark.last_seq}
        self.removed = {seq: count for seq, count in self.removed.items() if count >= self.collected_count}
        self.done = {seq: count for seq, count in self.done.items() if count >= self.collected_count}
        for consumer in self.consumers.values():
            consumer.forgotten = {seq: owed for seq, owed in consumer.forgotten.items() if seq in self.removed}
            consumer.jumps = [jump for jump in consumer.jumps if jump[0] >= self.collected_count]
        self.has_failed = False
        if self.purged_at < self.collected_count:
            self.purged_at = -1

    def failed(self, now_ns: int) -> None:
        """The disk refused: everything since the last durable commit did not happen."""
        self.restore(self.durable)
        self.changed_ns = now_ns
        self.has_failed = True

    def tidy(self, is_live: Callable[[int], bool]) -> None:
        """What the rules ask for once more: limits hold, and what everybody is done with goes."""
        self.enforce_all()
        for consumer in self.consumers.values():
            consumer.accept_late_acks(is_live)
        self.drop_consumed()
        # What nobody has come to yet and nobody needs either may go now or later.
        if self.config.retention == Retention.INTEREST and self.consumers:
            self.remove_many([seq for seq in self.seqs if not self._is_needed(seq) and not is_live(seq)])

    def drop_consumed(self) -> None:
        """Removals are taken back, acknowledgements are not: what everybody is done with goes again."""
        if self.config.retention == Retention.WORKQUEUE:
            for seq in list(self.done):
                self._let_go(seq)
            self.came_late.update(seq for seq in self.seqs if seq in self.removed and not self._is_needed(seq))
        elif self.config.retention == Retention.INTEREST and self.consumers:
            until = max(consumer.next_seq for consumer in self.consumers.values())
            self.remove_many([seq for seq in self.seqs if seq < until and not self._is_needed(seq)])

    def restore(self, mark: Mark) -> None:
        """Go back to how it was."""
        self.in_flight = None
        self.messages = dict(mark.messages)
        self.seqs = sorted(self.messages)
        self.byte_count = sum(self.size_of(m.subject, m.header, m.payload) for m in self.messages.values())
        self.last_seq = mark.last_seq
        self.last_ts_ns = mark.last_ts_ns
        # Ids of what is gone are gone; the others are remembered from when they were stored.
        self.ids = {name: known for name, known in self.ids.items() if known[0] <= mark.last_seq}
        last = self.messages.get(self.last_seq)
        self.last_id = last.message_id if last is not None else b""

    def settle_durable(self) -> None:
        """After a start: what is there is durable."""
        self.was_purged_unused = False
        self.visible_seq = self.last_seq
        self.durable = self.mark()
        self.in_flight = None
        self.appended = {}
        self.removed = {}
        self.done = {}
        self.has_failed = False
