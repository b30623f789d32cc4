"""The broker: accounts, sessions, timers and commits, without a socket, a file or a clock.

The edge sets `now_ns`, calls in (a session's `feed`, `wake`, `commit_done`), then performs what has gathered: output
of `dirty_sessions`, the next commit, the next wake-up. What was decided becomes visible and acknowledged only when
its commit is done; memory streams settle at the end of the turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from jetspark.broker import recovery
from jetspark.broker.account import GLOBAL, SYSTEM, Account
from jetspark.broker.changes import Change, Gathered, Removal, Repair, Repairs
from jetspark.broker.commit_failure import refusals, split_removals
from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.failures import OFFLINE_REASON, Casualties, Failure
from jetspark.broker.gate import Gate
from jetspark.broker.ingest import RETRY_AFTER_FAILURE_NS
from jetspark.broker.observer import Observer
from jetspark.broker.options import BrokerOptions
from jetspark.broker.pending_commit import PendingCommit
from jetspark.broker.session import REASON_SHUTDOWN, Session
from jetspark.broker.stream import Stream
from jetspark.broker.system import SystemServices
from jetspark.broker.timers import Timer, TimerOwner, TimerQueue
from jetspark.protocol.nuid import Nuid
from jetspark.protocol.outbox import Outbox
from jetspark.store.block_cache import BlockCache
from jetspark.store.disk import Commit, Disk

# Acknowledgements nobody waits for, and positions of consumers, ride along with the next commit, at latest this late.
LAZY_COMMIT_NS: Final = 20_000_000

# A disk that cannot be read may say so at every request.
READ_FAILURE_AGAIN_NS: Final = 10_000_000_000
READ_FAILURES_MAX: Final = 1000

TIMER_LAZY_COMMIT: Final = 1
TIMER_REPAIR: Final = 2


class Broker(TimerOwner):
    """Everything one server decides."""

    def __init__(
        self, options: BrokerOptions, disk: Disk, random_bytes: Callable[[int], bytes], now_ns: int, gate: Gate
    ) -> None:
        self.options = options
        self.disk = disk
        self.gate = gate
        # Replaced by an edge that keeps figures.
        self.observer: Observer = Observer()
        # Replaced by an edge that answers the system account.
        self.system: SystemServices = SystemServices()
        self.system_seq: int = 0
        self.now_ns: i64 = now_ns
        self.random_bytes = random_bytes
        self.nuid = Nuid(random_bytes)
        self.timers = TimerQueue()
        # Blocks of all streams share one budget of memory.
        self.block_cache = BlockCache()
        self.dirty_sessions: list[Session] = []
        self.sessions: dict[int, Session] = {}
        self.accounts: dict[str, Account] = {}
        self._session_count: int = 0
        self._random_state: i64 = int.from_bytes(random_bytes(7), "big") | 1
        # What the next commit will carry.
        self._dirty_streams: list[Stream] = []
        self._dirty_consumers: list[Consumer] = []
        self._holding: list[Session] = []
        self._starting: list[Consumer] = []
        self._gathered = Gathered()
        self._urgent: bool = False
        self._in_flight: PendingCommit | None = None
        self._lazy_timer = Timer(self, TIMER_LAZY_COMMIT)
        self.repairs = Repairs()
        self._repair_timer = Timer(self, TIMER_REPAIR)
        # Advisories wait for the end of the turn, so that none gets into the middle of what it is about.
        self._announcements: list[tuple[Account, bytes, bytes]] = []
        # Streams in memory whose consumers wait for the end of the turn.
        self._settling: list[Stream] = []
        # Batches that clients have begun and not ended, on all streams.
        self.atomic_batch_count: int = 0
        self.fast_batch_count: int = 0
        self.shutting_down: bool = False
        self.api_total: int = 0
        self.api_errors: int = 0
        self.slow_consumers: int = 0
        self.stale_connections: int = 0
        self.commit_count: int = 0
        self.commit_failures: int = 0
        self.last_commit_error: str = ""
        # Lines worth an operator's eye; the edge logs and clears them.
        self.notices: list[str] = []
        # What raised for one of many; the edge logs and clears them.
        self.failures: list[Failure] = []
        # Errors while reading, and when each may be mentioned again.
        self._read_failures: dict[str, int] = {}
        self.casualties = Casualties(self)
        self.account(GLOBAL)
        self.account(SYSTEM)

    def account(self, name: str) -> Account:
        known = self.accounts.get(name)
        if known is None:
            known = Account(self, name)
            self.accounts[name] = known
        return known

    def failed(self, concerned: str, error: Exception) -> None:
        """Something raised that should not have; the rest goes on."""
        self.failures.append(Failure(concerned, error))

    # -- sessions ----------------------------------------------------------------------------------------------

    def open_session(self, kind: str, host: str, port: int) -> Session:
        self._session_count += 1
        session = Session(self, self.account(GLOBAL), self._session_count, kind, host, port)
        self.sessions[session.session_id] = session
        return session

    def close_session(self, session: Session) -> None:
        """The connection is gone: its subscriptions go with it."""
        if session.closed:
            return
        session.closed = True
        session.closing = True
        session.halted = True
        self.sessions.pop(session.session_id, None)
        try:
            self.system.disconnected(session)
        except Exception as error:  # noqa: BLE001 - its subscriptions must go
            session.fail(error)
        # Monitoring still shows what a closed connection had subscribed to.
        had = dict(session.subscriptions)
        for subscription in had.values():
            try:
                session.remove_subscription(subscription)
            except Exception as error:  # noqa: BLE001 - the others must go
                session.fail(error)
        session.subscriptions = had
        waiting = session.paused_consumers
        session.paused_consumers = []
        for consumer in waiting:
            consumer.resume_after_drain()
        session.release()

    def random_index(self, count: i64) -> i64:
        """An even enough choice among `count`, cheap enough for every message to a queue group."""
        if count <= 1:
            return 0
        state = self._random_state
        state = (state * 25214903917 + 11) & 0xFFFFFFFFFFFF
        self._random_state = state
        return (state >> 17) % count

    # -- what waits for the disk -------------------------------------------------------------------------------

    def held_outbox(self, session: Session) -> Outbox:
        """Where a reply goes that must not leave before the commit that is being gathered now."""
        if not session.holds:
            session.holds = True
            self._holding.append(session)
        self._urgent = True
        return session.held

    def stream_dirty(self, stream: Stream) -> None:
        self._dirty_streams.append(stream)
        self._urgent = True

    def consumer_dirty(self, consumer: Consumer) -> None:
        """This consumer's log has something to write; soon, unless a held reply makes it now."""
        self._dirty_consumers.append(consumer)
        if not self._urgent:
            self.timers.arm_if_earlier(self._lazy_timer, self.now_ns + LAZY_COMMIT_NS)

    def announce_soon(self, account: Account, subject: bytes, body: bytes) -> None:
        self._announcements.append((account, subject, body))

    def deliver_after_commit(self, consumer: Consumer) -> None:
        """A new or reset consumer delivers nothing before the reply that says so has left."""
        consumer.is_starting = True
        self._starting.append(consumer)
        self._urgent = True

    def settle_soon(self, stream: Stream) -> None:
        self._settling.append(stream)

    def change_soon(self, change: Change) -> None:
        """Have what describes a stream or consumer written."""
        self.repairs.drop(change.folder)
        self._gathered.add(change)
        self._urgent = True

    def remove_soon(self, removal: Removal) -> None:
        """Have the folder of a stream or consumer removed."""
        self.repairs.drop_covered(removal)
        self._gathered.remove(removal)
        self._urgent = True

    def settle(self) -> None:
        """End of a turn: advisories go out, memory streams become visible."""
        while self._settling or self._announcements:
            announcements = self._announcements
            self._announcements = []
            for account, subject, body in announcements:
                try:
                    account.publish_from_server(subject, b"", 0, body)
                except Exception as error:  # noqa: BLE001 - the others must be heard
                    self.failed("Announcement on " + subject.decode("utf-8", "replace") + " is lost", error)
            settling = self._settling
            self._settling = []
            for stream in settling:
                try:
                    stream.settle_memory()
                except Exception as error:  # noqa: BLE001 - the others must be seen
                    stream.fail(error)

    def commit_ready(self) -> PendingCommit | None:
        """What must be written now; None when nothing must, or a commit is still under way."""
        self.casualties.withdraw()
        if self._in_flight is not None:
            return None
        # First, because a start would apply to messages what was refused and is on the disk.
        repair = self.repairs.take_due()
        if repair is None and not self._urgent:
            return None
        commit = PendingCommit(repair)
        if repair is not None:
            self._in_flight = commit
            return commit
        self._urgent = False
        self.timers.cancel(self._lazy_timer)
        self._collect_changes(commit)
        problem = self._collect_content(commit)
        for session in self._holding:
            session.holds = False
            commit.sessions.append(session)
            commit.replies.append(session.held.take())
        self._holding = []
        commit.starting = self._starting
        self._starting = []
        if problem or not commit.ops:
            # Nothing reaches the disk: it must not, or all of it is in memory and what was held may go at once.
            self._in_flight = commit
            self.commit_done(commit, problem)
            return None
        self._in_flight = commit
        return commit

    def _collect_changes(self, commit: PendingCommit) -> None:
        """What is made, changed and removed."""
        commit.removals = self._gathered.removals
        commit.changes = self._gathered.changes
        self._gathered = Gathered()
        # Removals first: they need no room and make some, and are done whatever becomes of the rest.
        for removal in commit.removals:
            commit.ops.extend(removal.ops)
        for change in commit.changes:
            commit.ops.extend(change.ops)

    def _collect_content(self, commit: PendingCommit) -> str:
        """Messages, and where consumers stand; why the commit must not be, if one of them cannot be written.

        Replies to what is not written may be among those that wait, so none of them may leave as it is.
        """
        sync = self.options.sync_always
        problem = ""
        dirty_streams = self._dirty_streams
        self._dirty_streams = []
        for stream in dirty_streams:
            stream.is_dirty = False
            if not stream.deleted:
                try:
                    cover = stream.store.collect(commit, sync)
                    if stream.features is not None:
                        stream.features.collect(commit)
                    commit.streams.append(stream)
                    commit.covers.append(cover)
                except Exception as error:  # noqa: BLE001 - the others must be written, if only the next time
                    stream.fail(error)
            if stream.is_failed:
                problem = f"stream {stream.name} is offline: {OFFLINE_REASON}"
        dirty_consumers = self._dirty_consumers
        self._dirty_consumers = []
        for consumer in dirty_consumers:
            consumer.is_dirty = False
            if not consumer.deleted:
                try:
                    consumer.log.collect(commit, sync)
                    commit.consumers.append(consumer)
                except Exception as error:  # noqa: BLE001 - the others must be written, if only the next time
                    consumer.fail(error)
            if consumer.is_failed:
                problem = f"consumer {consumer.name} is offline: {OFFLINE_REASON}"
        return problem

    def _repair_failed(self, repair: Repair, error: str) -> None:
        """Tried again later unless something newer is about to settle it."""
        self.commit_failures += 1
        if error != self.last_commit_error:
            self.last_commit_error = error
            self.notices.append("Commit failed: " + error)
        if not self._gathered.concerns(repair.folder):
            self.repairs.put(repair)
        self._repair_later()

    def _repair_later(self) -> None:
        self.repairs.are_due = False
        self.timers.arm_if_earlier(self._repair_timer, self.now_ns + RETRY_AFTER_FAILURE_NS)

    def commit_done(self, commit: Commit, error: str) -> None:
        """The commit is durable (empty error), or failed as a whole."""
        done = self._in_flight
        assert done is not None and done is commit, "commit_done for a commit that is not in flight"
        self._in_flight = None
        self.repairs.under_way = None
        self.commit_count += 1
        if done.repair is not None and error:
            self._repair_failed(done.repair, error)
            return
        if error:
            self._commit_failed(done, error)
            return
        for position in range(len(done.streams)):
            stream = done.streams[position]
            if not stream.deleted:
                try:
                    stream.committed(done.covers[position])
                except Exception as failure:  # noqa: BLE001 - the others are durable, too
                    stream.fail(failure)
        for consumer in done.consumers:
            if not consumer.deleted:
                try:
                    consumer.log.committed()
                except Exception as failure:  # noqa: BLE001 - the others are durable, too
                    consumer.fail(failure)
        self._release_replies(done)
        start_all(done.starting)
        if self._dirty_consumers and not self._urgent:
            self.timers.arm_if_earlier(self._lazy_timer, self.now_ns + LAZY_COMMIT_NS)

    def _release_replies(self, done: PendingCommit) -> None:
        for position in range(len(done.sessions)):
            session = done.sessions[position]
            if not session.closed:
                try:
                    session.send(done.replies[position])
                except Exception as error:  # noqa: BLE001 - the others wait for theirs
                    session.fail(error)

    def _commit_failed(self, commit: PendingCommit, error: str) -> None:
        """Nothing of it counts: stores go back to what is durable, and everybody who waits is told."""
        self.commit_failures += 1
        self.last_commit_error = error
        self.notices.append("Commit failed: " + error)
        self._fail_changes(commit, error)
        self._join_failure(commit)
        for stream in commit.streams:
            if not stream.deleted:
                try:
                    stream.commit_failed(error)
                except OSError as read_error:
                    # What is in memory is neither what is durable nor what was asked for.
                    recovery.take_offline(stream.account.jetstream, stream, read_error)
                except Exception as failure:  # noqa: BLE001 - the others must go back to what is durable
                    stream.fail(failure)
        for consumer in commit.consumers:
            if not consumer.deleted:
                try:
                    consumer.commit_failed()
                except Exception as failure:  # noqa: BLE001 - the others must be written again
                    consumer.fail(failure)
        self._refuse(commit, error)
        # What is left to write waits a moment: a disk that fails is not asked without a pause. A removal is new to it.
        self._urgent = bool(self._gathered.removals)
        if self._dirty_streams or self._dirty_consumers:
            self.timers.arm_if_earlier(self._lazy_timer, self.now_ns + RETRY_AFTER_FAILURE_NS)
        start_all(commit.starting)

    def _fail_changes(self, commit: PendingCommit, error: str) -> None:
        """Streams and consumers are as the last durable commit has them, but for those that were removed."""
        refused = commit.changes + self._gathered.changes
        self._gathered.changes = []
        for change in reversed(refused):
            try:
                self.repairs.put(Repair(change.folder, change.take_back(commit.starting), change.endangered))
                if change.endangered is not None:
                    change.endangered.refuse_for_a_moment(error)
            except Exception as failure:  # noqa: BLE001 - the others must be taken back
                self.failed(f"What is in {change.folder} may differ from what is in force", failure)
        for removal in commit.removals[commit.performed_count :]:
            self.repairs.put(Repair(removal.folder, removal.ops, None))
        if not self.repairs.is_empty():
            self._repair_later()

    def _join_failure(self, commit: PendingCommit) -> None:
        """What was gathered since a commit that failed depends on the same sequences: it fails with it."""
        holding = self._holding
        self._holding = []
        for session in holding:
            session.holds = False
            # Removals do not: they are still to be tried.
            try:
                removals, others = split_removals(session.held.take())
            except Exception as failure:  # noqa: BLE001 - the others must be told
                session.fail(failure)
                continue
            commit.sessions.append(session)
            commit.replies.append(others)
            if removals:
                self.held_outbox(session).put(removals)
        streams = commit.streams
        for stream in self._dirty_streams:
            stream.is_dirty = False
            if stream not in streams:
                streams.append(stream)
        self._dirty_streams = []
        commit.starting.extend(self._starting)
        self._starting = []

    def _refuse(self, commit: PendingCommit, error: str) -> None:
        is_removed = commit.performed_count >= len(commit.removals)
        for position in range(len(commit.sessions)):
            session = commit.sessions[position]
            if session.closed:
                continue
            try:
                removals, others = split_removals(commit.replies[position])
                session.send(refusals(others, error))
                session.send(removals if is_removed else refusals(removals, error))
            except Exception as failure:  # noqa: BLE001 - the others must be told
                session.fail(failure)

    # -- time --------------------------------------------------------------------------------------------------

    def next_wake_ns(self) -> i64:
        return self.timers.next_ns()

    def wake(self) -> None:
        self.timers.run(self.now_ns)
        if self.timers.failures:
            for error in self.timers.failures:
                self.read_failed("Stored messages cannot be read", error)
            self.timers.failures = []

    def read_failed(self, what: str, error: OSError) -> None:
        """The disk does not give what is stored: the operator hears of each case, and now and then that it lasts."""
        text = f"{what}: {error}"
        if len(self._read_failures) >= READ_FAILURES_MAX:
            self._read_failures.clear()
        if self.now_ns >= self._read_failures.get(text, 0):
            self._read_failures[text] = self.now_ns + READ_FAILURE_AGAIN_NS
            self.notices.append(text)

    def on_timer(self, kind: int, now_ns: i64) -> None:
        if kind == TIMER_REPAIR:
            self.repairs.are_due = True
        elif self._dirty_consumers or self._dirty_streams:
            self._urgent = True

    def timer_failed(self, error: Exception) -> None:
        self.failed("A timer was left half done", error)

    # -- life --------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Bring back every stream and consumer found on disk."""
        if self.options.jetstream and self.options.store_dir:
            for name in recovery.account_names(self):
                self.account(name)
        for account in list(self.accounts.values()):
            account.jetstream.recover()

    def shutdown(self) -> None:
        """Waiting pulls are told; afterwards the edge runs the last commit and closes the connections."""
        self.shutting_down = True
        for account in self.accounts.values():
            account.jetstream.shutdown()
        self._urgent = True
        self.repairs.are_due = True

    def close_all_sessions(self) -> None:
        for session in list(self.sessions.values()):
            session.close(REASON_SHUTDOWN)


def start_all(consumers: list[Consumer]) -> None:
    """Let consumers begin that waited for a commit."""
    for consumer in consumers:
        consumer.is_starting = False
        consumer.is_new = False
        consumer.deliver()
