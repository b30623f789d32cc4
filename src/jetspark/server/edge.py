"""Between the loop and the broker: performs what the broker decided, once a turn.

Decided here: what happens together. All connections that had something to say in one turn of the loop share one
`perform`: memory streams settle, the next commit starts, each connection gets one write, one timer is armed.
Not known here: the protocol, the disk's format, how a connection is made.

When a commit takes so long that what arrived meanwhile fills a budget, reading stops until it is done: a slow disk
slows publishers down instead of filling memory.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from jetspark.broker.broker import Broker
from jetspark.broker.session import Session
from jetspark.clock import Clock
from jetspark.server.closed import ClosedConnection, ClosedConnections
from jetspark.server.connection import FIRST_PING_NS, Connection
from jetspark.server.describe import describe
from jetspark.server.log import Logger
from jetspark.server.memory import return_free_memory
from jetspark.server.options import Options
from jetspark.store.disk import Commit

if TYPE_CHECKING:
    from jetspark.server.auth import ServerGate
    from jetspark.server.committer import Committer

# Bytes that may arrive while one commit is under way before their senders have to wait.
UNCOMMITTED_BYTES_MAX: Final = 64 * 1024 * 1024

# Without a commit or a look at stored messages for this long the server counts as quiet, and gives memory back.
QUIET_S: Final = 0.5

# The machine's clock may be set while a long timer runs, so none runs longer than this without a look.
TIMER_MAX_S: Final = 10.0


class Totals:
    """Traffic summed over connections."""

    def __init__(self) -> None:
        self.in_msgs = 0
        self.in_bytes = 0
        self.out_msgs = 0
        self.out_bytes = 0

    def add(self, other: Totals | Session) -> None:
        self.in_msgs += other.in_msgs
        self.in_bytes += other.in_bytes
        self.out_msgs += other.out_msgs
        self.out_bytes += other.out_bytes


class Edge:
    """One server's loop side."""

    def __init__(
        self, broker: Broker, gate: ServerGate, loop: asyncio.AbstractEventLoop, clock: Clock, logger: Logger
    ) -> None:
        self.broker = broker
        self.loop = loop
        self.logger = logger
        self.now_ns = clock.now_ns
        self.is_scheduled = False
        self.connections: dict[int, Connection] = {}
        # For monitoring; `configure` says how many.
        self.closed = ClosedConnections(0)
        self.total_connections = 0
        self.slow_consumers = 0
        self.stale_connections = 0
        # Why the last commit failed, empty when it did not.
        self.disk_error = ""
        self._past = Totals()
        self._gate = gate
        self._committer: Committer | None = None
        self._is_committing = False
        self._uncommitted_bytes = 0
        self.uncommitted_bytes_max = UNCOMMITTED_BYTES_MAX
        self._read_paused: list[Connection] = []
        self._timer: asyncio.TimerHandle | None = None
        self._trim_timer: asyncio.TimerHandle | None = None
        self._timer_at_ns = 0
        self._commit_waiter: asyncio.Future[None] | None = None
        self._empty_waiter: asyncio.Future[None] | None = None
        self._jitter = random.Random()
        gate.on_late_answer = self._login_decided
        gate.on_refusal = self._log_refusal

    def configure(self, options: Options) -> None:
        """Take these limits from now on."""
        self.max_pending_bytes = options.max_pending_bytes
        self.max_connections = options.max_connections
        self.write_deadline_s = options.write_deadline_ns / 1e9
        self.ping_max = options.ping_max
        self._ping_interval_ns = options.ping_interval_ns
        self._websocket_ping_interval_ns = options.websocket.ping_interval_ns
        self._login_s = options.auth_timeout_effective_s
        self.closed.limit(options.max_closed_clients)

    def use(self, committer: Committer) -> None:
        self._committer = committer

    def enter(self) -> int:
        """Tell the broker the time before calling into it."""
        now_ns = self.now_ns()
        self.broker.now_ns = now_ns
        return now_ns

    # -- connections -------------------------------------------------------------------------------------------

    def opened(self, connection: Connection, kind: str) -> None:
        """A connection was made: it gets a session. Nothing is said yet."""
        self.enter()
        peer = connection.transport.get_extra_info("peername")
        host, port = (peer[0], peer[1]) if isinstance(peer, tuple) else ("", 0)
        session = self.broker.open_session(kind, host, port)
        connection.session = session
        self.total_connections += 1
        self._gate.welcome(session)
        self.connections[session.session_id] = connection
        if self.logger.is_debug:
            self.logger.debug(f"{describe(session)} - Client connection created")

    def say_info(self, connection: Connection) -> None:
        """The first word to a client; or that the house is full."""
        session = connection.session
        session.send_info({})
        if len(self.connections) > max(0, self.max_connections):
            self.logger.error(f"{describe(session)} - maximum connections exceeded")
            session.send_error("maximum connections exceeded")
            session.close("Maximum Connections Exceeded")
        # At once: the client's first byte may be here already, and on a TLS port it ends what is said in clear.
        connection.flush()

    def start_clocks(self, connection: Connection) -> None:
        """The client may speak now: from here on it has to log in in time and answer PINGs."""
        session = connection.session
        if session.closing:
            return
        first_ns = min(FIRST_PING_NS, self.ping_interval_ns(session.kind))
        connection.start_timers(
            first_ping_s=first_ns * (1.0 + self._jitter.random() / 5) / 1e9,
            login_s=0.0 if session.accepted else self._login_s,
        )

    def lost(self, connection: Connection) -> None:
        session = connection.session
        now_ns = self.enter()
        self.connections.pop(session.session_id, None)
        self._gate.forget(session)
        self.broker.close_session(session)
        self.closed.add(ClosedConnection(session, now_ns))
        session.subscriptions = {}
        self._past.add(session)
        if self.logger.is_debug:
            self.logger.debug(f"{describe(session)} - Client connection closed: {session.close_reason}")
        if self._empty_waiter is not None and not self.connections and not self._empty_waiter.done():
            self._empty_waiter.set_result(None)
        self.schedule()

    def fail(self, connection: Connection, error: Exception) -> None:
        """Something raised for this connection: it ends, at once and without a word, and nobody else is concerned."""
        connection.session.fail(error)
        try:
            connection.transport.abort()
        except Exception as another:  # noqa: BLE001 - there is nothing left to try
            connection.session.fail(another)
        self.schedule()

    def attempt(self, connection: Connection, step: Callable[[], object]) -> None:
        """Do something to one connection of many; what it raises is that connection's end."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the others have their turn
            self.fail(connection, error)

    def drained(self, connection: Connection) -> None:
        """A connection's buffer emptied: deliveries that waited for it go on."""
        self.enter()
        connection.session.drained()
        self.schedule()

    def ping_interval_ns(self, kind: str) -> int:
        if kind == "websocket" and self._websocket_ping_interval_ns > 0:
            return self._websocket_ping_interval_ns
        return self._ping_interval_ns

    def note_read(self, connection: Connection, count: int) -> None:
        """Bytes came in; while a commit is under way they count against the budget."""
        if not self._is_committing:
            return
        self._uncommitted_bytes += count
        if self._uncommitted_bytes > self.uncommitted_bytes_max and not connection.is_read_paused:
            connection.is_read_paused = True
            connection.transport.pause_reading()
            self._read_paused.append(connection)

    def totals(self) -> Totals:
        """Messages and bytes of all connections there ever were."""
        result = Totals()
        result.add(self._past)
        for connection in self.connections.values():
            result.add(connection.session)
        return result

    def count_slow_consumer(self, connection: Connection, detail: str) -> None:
        self.slow_consumers += 1
        self.broker.slow_consumers += 1
        self.logger.info(f"{describe(connection.session)} - Slow Consumer Detected: {detail}")

    def count_stale(self, connection: Connection) -> None:
        self.stale_connections += 1
        self.broker.stale_connections += 1
        self.logger.debug(f"{describe(connection.session)} - Stale Client Connection - Closing")

    def await_login(self, connection: Connection) -> None:
        """Read no more from this client before it is known who it is."""
        if not connection.is_login_paused and not connection.transport.is_closing():
            connection.is_login_paused = True
            connection.transport.pause_reading()

    def _login_decided(self, session: Session) -> None:
        connection = self.connections.get(session.session_id)
        if connection is not None and connection.is_login_paused:
            connection.is_login_paused = False
            if not connection.is_read_paused:
                self.attempt(connection, connection.resume_reading)
        self.schedule()

    def _log_refusal(self, session: Session, who: str) -> None:
        detail = f' - User "{who}"' if who else ""
        self.logger.error(f"{describe(session)} - authentication error{detail}")

    # -- the turn ----------------------------------------------------------------------------------------------

    def schedule(self) -> None:
        """Perform at the end of this turn of the loop."""
        if not self.is_scheduled:
            self.is_scheduled = True
            self.loop.call_soon(self._perform_scheduled)

    def _perform_scheduled(self) -> None:
        self.is_scheduled = False
        self.perform()

    def perform(self) -> None:
        """Do what the broker decided since the last time."""
        broker = self.broker
        try:
            broker.settle()
            # The disk starts first: it works while the sockets are written.
            commit = broker.commit_ready()
            if commit is not None:
                self._start(commit)
        except Exception as error:  # noqa: BLE001 - the sockets are written and the timer is armed all the same
            broker.failed("A turn of the loop was left half done", error)
        if broker.dirty_sessions:
            self._flush_dirty()
        if broker.notices or broker.failures:
            self._log_notices()
        if broker.dirty_sessions:
            self.schedule()
        if self._trim_timer is None and broker.block_cache.is_swollen():
            self._watch_quiet()
        wake_ns = broker.next_wake_ns()
        if wake_ns != self._timer_at_ns:
            self._arm(wake_ns)

    def _flush_dirty(self) -> None:
        dirty = self.broker.dirty_sessions
        self.broker.dirty_sessions = []
        connections = self.connections
        for session in dirty:
            connection = connections.get(session.session_id)
            if connection is None:
                session.take_output()
                continue
            try:
                connection.flush()
            except Exception as error:  # noqa: BLE001 - the others are written to all the same
                self.fail(connection, error)

    def _watch_quiet(self) -> None:
        self._trim_timer = self.loop.call_later(QUIET_S, self._trim_when_quiet, self.broker.commit_count)

    def _trim_when_quiet(self, commit_count: int) -> None:
        """Return memory once no commit has come for a while, and what was read from disk is not being read."""
        self._trim_timer = None
        cache = self.broker.block_cache
        cache.age()
        if self.broker.commit_count != commit_count or cache.is_swollen():
            self._watch_quiet()
            return
        return_free_memory()

    def _start(self, commit: Commit) -> None:
        if self._trim_timer is None:
            self._watch_quiet()
        assert self._committer is not None
        error = self._committer.perform_now(commit)
        if error is not None:
            self._settle_commit(commit, error)
            # Whatever that set in motion is for the next turn.
            self.schedule()
            return
        self._is_committing = True
        self._uncommitted_bytes = 0
        self._committer.start(commit)

    def _settle_commit(self, commit: Commit, error: str) -> None:
        self.enter()
        self.broker.commit_done(commit, error)
        self.disk_error = error

    def commit_done(self, commit: Commit, error: str) -> None:
        self._is_committing = False
        try:
            self._settle_commit(commit, error)
        except Exception as failure:  # noqa: BLE001 - who waits for the end of this commit must go on
            self.broker.failed("A commit was left half settled", failure)
        paused, self._read_paused = self._read_paused, []
        for connection in paused:
            connection.is_read_paused = False
            if not connection.is_login_paused:
                self.attempt(connection, connection.resume_reading)
        # At once: the next batch has been waiting for this thread's answer.
        self.perform()
        waiter = self._commit_waiter
        if waiter is not None and not self._is_committing:
            self._commit_waiter = None
            waiter.set_result(None)

    async def committed(self) -> None:
        """Wait until nothing that was decided is on its way to the disk any more."""
        while self._is_committing:
            self._commit_waiter = self.loop.create_future()
            await self._commit_waiter

    async def emptied(self, timeout_s: float) -> None:
        """Wait until every connection is gone; those that do not go in time are cut."""
        if not self.connections:
            return
        self._empty_waiter = self.loop.create_future()
        try:
            await asyncio.wait_for(self._empty_waiter, timeout_s)
        except TimeoutError:
            for connection in list(self.connections.values()):
                self.attempt(connection, connection.transport.abort)

    def sync_failed(self, reason: str) -> None:
        self.logger.error(f"Sync failed: {reason}")

    def commit_raised(self, error: Exception) -> None:
        self.broker.failed("A commit failed", error)
        self.schedule()

    def _log_notices(self) -> None:
        notices = self.broker.notices
        self.broker.notices = []
        for text in notices:
            self.logger.warning(text)
        failures = self.broker.failures
        self.broker.failures = []
        for failure in failures:
            trace = "".join(traceback.format_exception(failure.error)).rstrip()
            self.logger.error(f"{failure.concerned} because of a mistake in this server, please report it:\n{trace}")

    # -- time --------------------------------------------------------------------------------------------------

    def _arm(self, wake_ns: int) -> None:
        self._timer_at_ns = wake_ns
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wake_ns > 0:
            delay_s = min(max(0.0, (wake_ns - self.now_ns()) / 1e9), TIMER_MAX_S)
            self._timer = self.loop.call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._timer_at_ns = -1
        self.enter()
        try:
            self.broker.wake()
        except Exception as error:  # noqa: BLE001 - the next timer must be armed
            self.broker.failed("Timers were left half done", error)
        self.perform()

    def close(self) -> None:
        """Stop the timers; connections are ended by whoever stops the server."""
        if self._trim_timer is not None:
            self._trim_timer.cancel()
        self._arm(0)
