"""One stream: what it takes in, what it keeps, who is told.

`ingest` is the hot way: checks, append, acknowledgement held for the commit. Which publish is refused is decided in
`ingest.py`, which message leaves in `retention.py`; the bytes are the store's. Consumers hang off the stream and hear
of new messages when these are durable, never before.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.error_codes import ApiError
from jetspark.api.stream_config import Discard, PersistMode, Retention, Storage, StreamConfig
from jetspark.broker import ingest
from jetspark.broker.bounds import bounded_wait
from jetspark.broker.consumer import jumps
from jetspark.broker.dedupe import DedupeWindow
from jetspark.broker.publish import MESSAGE_ID, Publish, plain_message_id
from jetspark.broker.retention import RetentionKeeper
from jetspark.protocol import headers
from jetspark.protocol.outbox import Outbox
from jetspark.protocol.subjects import SubjectFilter
from jetspark.store.disk import Commit
from jetspark.store.record import SUBJECT_SIZE_MAX
from jetspark.store.stream_store import StreamStore
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.account import Account
    from jetspark.broker.broker import Broker
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.broker.features import StreamFeatures
    from jetspark.broker.feed import Feed
    from jetspark.broker.room import Room
    from jetspark.broker.session import Session

LETTER_I: Final = 73


class Stream:
    """A stream and its consumers."""

    def __init__(
        self, broker: Broker, account: Account, config: StreamConfig, store: StreamStore, created_ns: int
    ) -> None:
        self.broker = broker
        self.account = account
        self.room: Room = account.jetstream.room
        self.config: StreamConfig = config
        self.name: str = config.name
        self.store: StreamStore = store
        self.created_ns: i64 = created_ns
        self.deleted: bool = False
        # Something raised: it counts as deleted, and goes offline at the end of the turn.
        self.is_failed: bool = False
        self.is_dirty: bool = False
        self.is_settling: bool = False
        # Purged before it held anything, which only shows in what it says of its first sequence.
        self.was_purged_unused: bool = False
        self.in_memory: bool = config.storage == Storage.MEMORY
        self.consumers: dict[str, Consumer] = {}
        # Consumers by how they learn of a new message: all at once, or by subject.
        self.unfiltered: list[Consumer] = []
        self.filtered: list[Consumer] = []
        self._filtered_for: dict[bytes, list[Consumer]] = {}
        # Consumers whose start lies ahead of the stream: what is stored before it is not for them.
        self._ahead: list[Consumer] = []
        # Messages ever offered to unfiltered consumers; each remembers where it stood when it joined.
        self.offered: i64 = 0
        self.dedupe = DedupeWindow(0)
        self.retention = RetentionKeeper(self)
        # TTLs, schedules, counters, batches, mirrors: absent on a plain stream.
        self.features: StreamFeatures | None = None
        # Mirrors and sourcing streams that copy this one.
        self.followers: list[Feed] = []
        # Somebody who reads this stream could not be recovered: what everybody else is done with stays for them.
        self.has_offline_readers: bool = False
        # Why a stored message could not be read last time, and when that was.
        self.read_failure: str = ""
        self.read_failed_ns: i64 = 0
        # Publishes are refused until then because the disk failed, and longer while a repair waits.
        self.failed_until_ns: i64 = 0
        self.failure: str = ""
        self.view = RecordView()
        # Where a stream in memory collects what it would write, which is nothing.
        self._nothing = Commit()
        # Digest of the configuration, for the hot way.
        self.plain: bool = False
        self.acknowledges: bool = True
        # Replies need not wait for the disk: there is none, or the stream was configured so (`persist_mode`).
        self.replies_at_once: bool = False
        self.ack_before: bytes = b""
        self.keeps_by_interest: bool = False
        self.message_size_max: i64 = -1
        self.configure(config)

    def configure(self, config: StreamConfig) -> None:
        """Take on a checked configuration."""
        self.config = config
        self.message_size_max = config.max_msg_size if config.max_msg_size > 0 else -1
        self.acknowledges = not config.no_ack
        self.replies_at_once = self.in_memory or config.persist_mode == PersistMode.ASYNC
        self.keeps_by_interest = config.retention != Retention.LIMITS
        self.dedupe.window_ns = bounded_wait(config.duplicate_window)
        name = json.dumps(self.name)
        domain = self.broker.options.domain
        where = ',"domain":' + json.dumps(domain) if domain else ""
        self.ack_before = f'{{"stream":{name}{where},"seq":'.encode()
        self.plain = (
            config.subject_transform is None
            and config.republish is None
            and not config.sealed
            and config.mirror is None
            and config.discard == Discard.OLD
            and config.retention != Retention.INTEREST
            and not config.allow_msg_counter
            and not config.allow_msg_schedules
        )
        self.retention.configure(config)
        if config.max_msgs_per_subject > 1:
            self.store.track_subject_sequences(True)

    def fail(self, error: Exception) -> None:
        """Something raised here: what is in memory cannot be trusted, and what is on disk is not touched any more."""
        if self.deleted:
            return
        self.deleted = True
        self.is_failed = True
        self.broker.casualties.add_stream(self, error)

    # -- in ----------------------------------------------------------------------------------------------------

    def ingest(self, session: Session | None, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> None:
        """A message on one of this stream's subjects."""
        # What ends in `I` may be a part of a fast batch, which every stream has an answer to.
        size: i64 = len(reply)
        if not self.plain or self.room.is_tight or (size > 4 and reply[size - 1] == LETTER_I):
            ingest.checked(self, session, subject, reply, header_size, body)
            return
        is_too_large = self.message_size_max >= 0 and len(body) > self.message_size_max
        if is_too_large or len(subject) > SUBJECT_SIZE_MAX or self.failed_until_ns > 0:
            ingest.checked(self, session, subject, reply, header_size, body)
            return
        if header_size > 0:
            self._ingest_with_headers(session, subject, reply, header_size, body)
            return
        seq = self.append(subject, 0, body)
        self.dedupe.last_id = b""
        if reply and self.acknowledges:
            self.acknowledge(reply, seq)

    def _ingest_with_headers(
        self, session: Session | None, subject: bytes, reply: bytes, header_size: i64, body: bytes
    ) -> None:
        """The short way for headers that ask for no more than that a message is stored once."""
        message_id = plain_message_id(body[:header_size]) if self.features is None else None
        if message_id is None:
            ingest.checked(self, session, subject, reply, header_size, body)
            return
        now_ns = self.broker.now_ns
        duplicate_of: i64 = self.dedupe.find(message_id, now_ns) if message_id else 0
        if duplicate_of > 0:
            if reply and self.acknowledges:
                self.reply_number(reply, duplicate_of, ingest.DUPLICATE_AFTER)
            return
        seq = self.append(subject, header_size, body)
        self.dedupe.note(message_id, seq, now_ns)
        if reply and self.acknowledges:
            self.acknowledge(reply, seq)

    def append(self, subject: bytes, header_size: i64, body: bytes) -> i64:
        """Store a message that has passed every check, and let limits take what must go."""
        seq = self.put(subject, header_size, body)
        if self.retention.limited:
            self.retention.after_append(subject, seq)
        return seq

    def put(self, subject: bytes, header_size: i64, body: bytes) -> i64:
        """Store a message; limits have yet to take what must go for it."""
        store = self.store
        now_ns = self.broker.now_ns
        # Time never runs backwards inside a stream, or looking up by time would go wrong.
        if now_ns < store.last_ts_ns:
            now_ns = store.last_ts_ns
        seq = store.append(subject, header_size, body, now_ns)
        self.offer(subject)
        if self._ahead:
            self._pass_over(subject, seq)
        return seq

    def takes_runs(self) -> bool:
        """Is nothing to be decided for a message without headers, so that many can be stored as one?"""
        if not self.plain or self.room.is_tight or self.failed_until_ns > 0 or self.message_size_max >= 0:
            return False
        return not self.retention.limited and not self._ahead and not self.store.tracks_sequences

    def put_run(self, subject: bytes, bodies: list[bytes]) -> i64:
        """Store messages on one subject; the sequence of the first."""
        first_seq = self.store.append_run(subject, bodies, max(self.broker.now_ns, self.store.last_ts_ns))
        count: i64 = len(bodies)
        # The last of them is offered like any other.
        self.offered += count - 1
        if self.filtered:
            for consumer in self.filtered_for(subject):
                consumer.offered += count - 1
        self.offer(subject)
        return first_seq

    def put_copy(self, seq: i64, ts_ns: i64, subject: bytes, header_size: i64, body: bytes) -> i64:
        """Store a message under the sequence and time it has in the stream it comes from."""
        self.store.append_at(seq, subject, header_size, body, ts_ns)
        self.offer(subject)
        if self._ahead:
            self._pass_over(subject, seq)
        return seq

    def store_own(self, publish: Publish) -> bool:
        """Store a message of the server's own making; False when the stream will not take it."""
        try:
            return ingest.store_own(self, publish) > 0
        except ApiError:
            return False

    def offer(self, subject: bytes) -> None:
        """A message was stored: consumers count it as pending, and the commit will show it."""
        self.offered += 1
        if self.filtered:
            for consumer in self.filtered_for(subject):
                consumer.offered += 1
        if not self.is_dirty:
            self.mark_dirty()

    def _pass_over(self, subject: bytes, seq: i64) -> None:
        """This message comes before some consumers begin: it was never pending for them."""
        for consumer in self._ahead:
            if seq < consumer.next_seq and consumer.filter.accepts(subject):
                consumer.taken += 1
        self._ahead = [consumer for consumer in self._ahead if consumer.next_seq > seq + 1]

    def mark_dirty(self) -> None:
        """Something waits to be written (file) or to be seen (memory)."""
        if self.in_memory:
            if not self.is_settling:
                self.is_settling = True
                self.broker.settle_soon(self)
        elif not self.is_dirty:
            self.is_dirty = True
            self.broker.stream_dirty(self)

    def filtered_for(self, subject: bytes) -> list[Consumer]:
        """The filtered consumers that want this subject, remembered."""
        known = self._filtered_for.get(subject)
        if known is None:
            known = [consumer for consumer in self.filtered if consumer.filter.accepts(subject)]
            if len(self._filtered_for) >= 65536:
                self._filtered_for.clear()
            self._filtered_for[subject] = known
        return known

    def acknowledge(self, reply: bytes, seq: i64) -> None:
        self.reply_number(reply, seq, b"}")

    def reply_number(self, reply: bytes, seq: i64, after: bytes) -> None:
        """The publish acknowledgement, held until the message is durable."""
        route = self.account.interest.reply_route(reply)
        plain = route.plain
        if len(plain) == 1 and not route.queues:
            subscription = plain[0]
            target = subscription.session
            if target.permissions is None:
                out = self.reply_outbox(target)
                size = out.put_number_reply(reply, subscription.sid, self.ack_before, seq, after)
                target.count_delivery(subscription, size)
                return
        self.reply(reply, self.ack_before + b"%d" % seq + after)

    def reply_outbox(self, target: Session) -> Outbox:
        if self.replies_at_once:
            if not target.is_dirty:
                target.mark_dirty()
            return target.out
        return self.broker.held_outbox(target)

    def reply(self, reply: bytes, body: bytes) -> None:
        """Any other reply about what was just decided for this stream."""
        if self.replies_at_once:
            self.account.publish_internal(reply, b"", 0, body)
        else:
            self.account.hold_reply(reply, 0, body)

    # -- visible -----------------------------------------------------------------------------------------------

    def committed(self, seq: i64) -> None:
        """Everything up to seq is durable: consumers may have it."""
        self.store.committed(seq)
        if self.store.has_pending and not self.in_memory and not self.broker.shutting_down:
            # Now that the removals are durable their bytes may go, and nobody else may ever ask for a commit.
            self.mark_dirty()
        if self.failed_until_ns > 0 and not self.broker.repairs.concern(self):
            self.failed_until_ns = 0
        self.room.look()
        if not self.in_memory:
            self.retention.settle(self.store.epoch_in_flight)
            for consumer in self.consumers.values():
                try:
                    consumer.second_thoughts.settle(self.store.epoch_in_flight)
                except Exception as error:  # noqa: BLE001 - the others have second thoughts, too
                    consumer.fail(error)
        self.wake_consumers()
        self._tell_visible(seq)

    def _tell_visible(self, seq: i64) -> None:
        features = self.features
        if features is not None:
            try:
                features.visible(seq)
            except OSError as error:
                self.read_failed(error)
            except Exception as error:  # noqa: BLE001 - those that copy this stream have it
                self.fail(error)
        if self.followers:
            for follower in self.followers:
                try:
                    follower.origin_visible()
                except Exception as error:  # noqa: BLE001 - the others copy on
                    follower.stream.fail(error)

    def read_failed(self, error: OSError) -> None:
        """A stored message could not be read."""
        self.read_failure = error.strerror or str(error)
        self.read_failed_ns = self.broker.now_ns
        self.broker.read_failed(f"Stream '{self.account.name} > {self.name}' cannot be read", error)

    def settle_memory(self) -> None:
        self.is_settling = False
        if not self.deleted:
            self.committed(self.store.collect(self._nothing, False))

    def wake_consumers(self) -> None:
        for consumer in self.unfiltered:
            if consumer.wants_messages:
                consumer.deliver()
        for consumer in self.filtered:
            if consumer.wants_messages:
                consumer.deliver()

    def refuse_for_a_moment(self, error: str) -> None:
        """The disk failed: publishes are refused for a while, and then until nothing refused is left on the disk."""
        self.failure = error
        self.failed_until_ns = self.broker.now_ns + ingest.RETRY_AFTER_FAILURE_NS

    def commit_failed(self, error: str) -> None:
        """The disk refused: forget what is not durable, refuse publishes for a moment, then try again."""
        self.store.rollback()
        self.dedupe.forget_above(self.store.last_seq)
        self.dedupe.last_id = b""
        if self.store.view(self.store.last_seq, self.view):
            self.dedupe.last_id = headers.find_value(self.view.header(), MESSAGE_ID) or b""
        if self.features is not None:
            self.features.rolled_back(self.store.last_seq)
        self.refuse_for_a_moment(error)
        for consumer in self.consumers.values():
            try:
                consumer.second_thoughts.take_back()
            except Exception as failure:  # noqa: BLE001 - the others take theirs back
                consumer.fail(failure)
        # Some may be ahead of the stream now.
        self.sort_consumers()
        # Removals were taken back; acknowledgements and changed limits were not.
        self.retention.enforce_all()
        self.retention.drop_again()
        # What is back may be what somebody waits for.
        self.wake_consumers()

    # -- out ---------------------------------------------------------------------------------------------------

    def remove(self, seq: i64, erase: bool) -> bool:
        """Take one message out; consumers that had not seen it stop waiting for it."""
        if self.consumers:
            if not self.store.view(seq, self.view):
                return False
            subject = self.view.subject
            if not self.store.remove(seq, erase):
                return False
            for consumer in self.unfiltered:
                consumer.message_removed(seq)
            if self.filtered:
                for consumer in self.filtered_for(subject):
                    consumer.message_removed(seq)
        elif not self.store.remove(seq, erase):
            return False
        features = self.features
        if features is not None:
            features.removed(seq)
        self.mark_dirty()
        return True

    def purge_unread(self) -> None:
        """Drop everything of a stream that nobody reads."""
        assert not self.consumers, self.consumers
        if self.store.last_seq == 0:
            self.was_purged_unused = True
        self.store.purge_below(self.store.last_seq + 1)
        if self.features is not None:
            self.features.purged()
        self.mark_dirty()

    def purge(self, filter_subject: bytes, below_seq: i64, keep: i64) -> i64:
        """The purge of the API: by subject, up to a sequence, or all but the newest."""
        try:
            count = self._purge_store(filter_subject, below_seq, keep)
        except OSError:
            # Some of it may be gone.
            with suppress(OSError):
                self._tell_purged(filter_subject)
            self.mark_dirty()
            raise
        self._tell_purged(filter_subject)
        self.mark_dirty()
        return count

    def _purge_store(self, filter_subject: bytes, below_seq: i64, keep: i64) -> i64:
        store = self.store
        if (not filter_subject or filter_subject == b">") and keep <= 0:
            if below_seq == 0 and store.last_seq == 0:
                self.was_purged_unused = True
            count = store.purge_below(below_seq if 0 < below_seq <= store.last_seq else store.last_seq + 1)
            if below_seq > store.last_seq + 1:
                # Sequences that were never used are purged too: the stream goes on after them.
                store.skip_to(below_seq - 1, store.last_ts_ns)
        else:
            patterns = [filter_subject] if filter_subject else []
            count = store.purge_subject(SubjectFilter(patterns), below_seq, keep)
        return count

    def roll_up(self, subject: bytes, whole_stream: bool, seq: i64) -> None:
        """The message just stored replaces what came before it."""
        try:
            if whole_stream:
                self.store.purge_below(seq)
                self._tell_purged(b"")
            else:
                self.store.purge_subject(SubjectFilter([subject]), seq, 0)
                self._tell_purged(subject)
        except OSError as error:
            # It is stored, whatever else stays.
            self.read_failed(error)
        self.mark_dirty()

    def _tell_purged(self, subject: bytes) -> None:
        """The stream, or the messages of a subject, were purged on request: consumers find their new place."""
        store = self.store
        first_left_seq = store.first_seq
        if subject and self.consumers:
            first_left_seq = store.next_match(store.first_seq, store.last_seq, SubjectFilter([subject]), self.view)
        for consumer in self.consumers.values():
            try:
                consumer.second_thoughts.before_jump()
                jumps.purge_requested(consumer, subject, first_left_seq)
                consumer.second_thoughts.after_jump()
            except OSError:
                # Whoever asked is told that the disk cannot be read.
                raise
            except Exception as error:  # noqa: BLE001 - the others find their place
                consumer.fail(error)
        if self.features is not None:
            self.features.purged()

    # -- consumers ---------------------------------------------------------------------------------------------

    def attach(self, consumer: Consumer) -> None:
        """A consumer joins, or has changed its filters."""
        self.consumers[consumer.name] = consumer
        self.sort_consumers()

    def detach(self, consumer: Consumer) -> None:
        self.consumers.pop(consumer.name, None)
        self.sort_consumers()

    def sort_consumers(self) -> None:
        self.unfiltered = [c for c in self.consumers.values() if c.filter.match_all]
        self.filtered = [c for c in self.consumers.values() if not c.filter.match_all]
        self._filtered_for = {}
        next_seq = self.store.last_seq + 1
        self._ahead = [c for c in self.consumers.values() if c.next_seq > next_seq]

    def has_interest(self, subject: bytes) -> bool:
        """Would any consumer want a message on this subject, or any stream that copies this one?"""
        if self.unfiltered or self.has_offline_readers:
            return True
        if self.filtered and self.filtered_for(subject):
            return True
        for follower in self.followers:
            if follower.wanted.accepts(subject):
                return True
        return False
