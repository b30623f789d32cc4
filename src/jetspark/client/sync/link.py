"""The blocking driver: a socket, and threads that share the work of reading it.

One thread at a time reads (the leader). A thread that has to wait leads if nobody does, and so reads its own answer
without a switch of threads; the others are woken when their answer came or when the lead is free. A background thread
leads when nobody waits, keeps time, and reconnects. It keeps out of the way of a busy caller: it takes the lead only
when that has been free for a while.
"""

from __future__ import annotations

import logging
import os
import queue
import random
import socket
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from jetspark import __version__
from jetspark.client.core import connection as states
from jetspark.client.core.connection import ConnectionCore, is_fatal
from jetspark.client.core.handshake import Credentials, connect_document, wants_tls
from jetspark.client.core.message import MessageCore
from jetspark.client.core.options import ConnectOptions
from jetspark.client.core.pending import Pending
from jetspark.client.core.server_pool import AUTH_REFUSALS_MAX, ServerAddress, ServerPool, reconnect_delay_s
from jetspark.client.credentials import load_credentials, tls_context
from jetspark.client.errors import (
    AuthorizationError,
    ConnectionLostError,
    ConnectTimeoutError,
    NoServersError,
    ProtocolError,
    RequestTimeoutError,
    SecureConnectionError,
    StaleConnectionError,
)
from jetspark.client.sync.exchange import Exchange
from jetspark.client.sync.waiting import Signal, Task
from jetspark.client.sync.wire import Wire
from jetspark.client.websocket import WebSocketCodec
from jetspark.protocol.nuid import Nuid

log = logging.getLogger("jetspark.client")

# The background thread takes the lead when it has been free for this long.
LINGER_S = 0.005
# A publisher sends by itself once this much waits; the background thread sends smaller rests.
FLUSH_BYTES = 64 * 1024

DIAL_ERRORS = (OSError, ConnectTimeoutError, ConnectionLostError, SecureConnectionError, ProtocolError)


class Link(Exchange):
    """One connection over its whole life: dialling, reading, writing, coming back."""

    def __init__(self, options: ConnectOptions, make_message: Callable[..., MessageCore]) -> None:
        self.options = options
        self._lock = threading.RLock()
        self.guard = self._lock
        self.pool = ServerPool(options.servers, random.shuffle if options.randomize_servers else None)
        self.core = ConnectionCore(
            Nuid(os.urandom), options.inbox_prefix, options.pending_bytes_max, make_message, self
        )
        self.address: ServerAddress | None = None
        self.is_tls = False
        self._wire: Wire | None = None
        self._credentials: Credentials | None = None
        # Who reads. The role lock is held for moments only, never while waiting.
        self._role_lock = threading.Lock()
        self._has_leader = False
        self._followers: deque[Signal] = deque()
        self.leading: Signal | None = None
        self._leader_ident = 0
        self._left_at_s = 0.0
        # The background thread.
        self._thread: threading.Thread | None = None
        self._io_event = threading.Event()
        self._io_leads = False
        self._io_watches = False
        self._waker, self._waked = socket.socketpair()
        self._lost_error: BaseException | None = None
        self._next_tick_s = 0.0
        self._closing = False
        self._hooks: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]] | None] = queue.SimpleQueue()
        self._hook_thread: threading.Thread | None = None
        _LINKS.add(self)

    # Waiting, for everything above.

    def signal(self) -> Signal:
        """Something to wait for."""
        return Signal(self)

    def now(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def spawn(self, function: Callable[..., Any], *arguments: Any) -> Task:
        """Run in the background until it ends."""
        return Task(function, arguments, self.report)

    def is_current(self, task: Task | None) -> bool:
        """The caller runs inside this background task."""
        return task is not None and task.is_current

    def join(self, task: Task | None, timeout_s: float) -> None:
        """Wait for a background task, at most so long."""
        if task is not None:
            task.join(timeout_s)

    def join_only(self, task: Task, timeout_s: float | None) -> None:
        """Wait for a background task."""
        task.join(timeout_s)
        if task.is_running and not task.is_current:
            raise RequestTimeoutError(f"still running after {timeout_s} s")

    def report(self, error: BaseException | None) -> None:
        """Tell the user about something nobody waits for: the log, and the hook."""
        if error is None:
            return
        log.error("%s: %s", type(error).__name__, error, exc_info=error if error.__traceback__ else None)
        self._hook(self.options.on_error, error)

    def call_hook(self, hook: Callable[..., Any], *arguments: Any) -> None:
        """Call a user's function beside the work; what it raises is logged."""
        self._hook(hook, *arguments)

    def _hook(self, hook: Callable[..., Any] | None, *arguments: Any) -> None:
        if hook is None:
            return
        with self._lock:
            if self._hook_thread is None:
                self._hook_thread = threading.Thread(
                    target=_run_hooks, args=(self._hooks,), name="jetspark hooks", daemon=True
                )
                self._hook_thread.start()
        self._hooks.put((hook, arguments))

    # The lead.

    def drive(self, signal: Signal, timeout_s: float | None) -> bool:
        """Wait for a signal, reading the socket meanwhile if nobody else does. False when the time was over first."""
        self.flush_output()
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not signal.is_set:
            left_s = None if deadline_s is None else deadline_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return False
            with self._role_lock:
                leads = not self._has_leader and self._wire is not None
                if leads:
                    self._has_leader = True
                    self.leading = signal
                    self._leader_ident = threading.get_ident()
                else:
                    signal.prepare()
                    self._followers.append(signal)
                    must_kick = self._io_leads
            if leads:
                self._lead(signal, deadline_s)
                continue
            if must_kick:
                self._kick()
            try:
                signal.block(left_s)
            finally:
                with self._role_lock:
                    if signal in self._followers:
                        self._followers.remove(signal)
        return True

    def _lead(self, signal: Signal, deadline_s: float | None) -> None:
        """Read until the signal is set or the time is over."""
        try:
            while not signal.is_set:
                wire = self._wire
                if wire is None:
                    return
                left_s = None if deadline_s is None else deadline_s - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return
                self._read(wire, left_s)
        finally:
            self._resign()

    def _resign(self) -> None:
        """Give the lead to somebody who waits, or leave it to the background thread."""
        follower: Signal | None = None
        with self._role_lock:
            self._has_leader = False
            self.leading = None
            if self._followers and self._wire is not None:
                follower = self._followers.popleft()
            self._left_at_s = time.monotonic()
        if follower is not None:
            follower.nudge()
        elif not self._io_watches:
            self._io_event.set()

    def leader_signalled(self) -> None:
        """The leader's own signal was set; when another thread did it, the leader still waits in the kernel."""
        if threading.get_ident() != self._leader_ident:
            self._kick()

    def _kick(self) -> None:
        """Whoever leads waits in the kernel: ask it to look around (and the background thread to step back)."""
        try:
            self._waker.send(b"k")
        except OSError:
            return

    def _read(self, wire: Wire, timeout_s: float | None) -> None:
        try:
            data = wire.read(timeout_s)
            if data:
                self._feed(wire, data)
        except (OSError, ConnectionLostError, ProtocolError, ValueError) as error:
            self._wire_lost(wire, error)

    def _feed(self, wire: Wire, data: bytes) -> None:
        core = self.core
        with self._lock:
            if wire is not self._wire:
                return
            finished = False
            try:
                core.feed(data)
                finished = True
            except ProtocolError as error:
                finished = True
                self._wire_lost(wire, error)
            finally:
                if not finished:
                    # Interrupted (Ctrl-C) in the middle of a chunk: its rest is lost, so the connection starts anew.
                    self._wire_lost(wire, ConnectionLostError("reading was interrupted"))
            must_send = bool(core.control)
            has_news = core.errors or core.discovered_urls or core.lame_duck_news
        if must_send:
            self.flush_output()
        if has_news:
            self._tell_news()

    def _tell_news(self) -> None:
        core = self.core
        with self._lock:
            errors, core.errors = core.errors, []
            urls, core.discovered_urls = core.discovered_urls, []
            is_lame_duck, core.lame_duck_news = core.lame_duck_news, False
        if urls and not self.options.ignore_discovered_servers:
            scheme = self.address.scheme if self.address is not None else "nats"
            for url in self.pool.discovered(urls, scheme):
                self._hook(self.options.on_discovered_server, url)
        if is_lame_duck:
            self._hook(self.options.on_lame_duck)
        for error in errors:
            if core.state == states.UP:
                self.report(error)
            if is_fatal(error) and self._wire is not None:
                self._wire_lost(self._wire, error)

    # Output.

    @property
    def congested(self) -> bool:
        """Never for long: this face sends before it returns."""
        return self.core.out_bytes > FLUSH_BYTES

    def send(self, frame: bytes) -> None:
        """Queue a frame; it is sent when enough waits, when its thread waits, or by the background thread."""
        with self._lock:
            self.core.send(frame)
            size = self.core.out_bytes
        if size > FLUSH_BYTES:
            self.flush_output()
        elif not self._io_watches:
            self._wake_io()

    def publish(self, subject: str, reply: bytes, block: bytes, data: bytes) -> bytes:
        """Check and queue a message; the frame that was queued."""
        with self._lock:
            frame = self.core.publish(subject, reply, block, data)
            size = self.core.out_bytes
        if size > FLUSH_BYTES:
            self.flush_output()
        elif not self._io_watches:
            self._wake_io()
        return frame

    def publish_acked(self, subject: str, block: bytes, data: bytes, pending: Pending) -> bytes:
        """Publish to a stream; `pending` will get the raw acknowledgement. The token to cancel it by."""
        with self._lock:
            token = self.core.publish_acked(subject, block, data, pending)
            size = self.core.out_bytes
        if size > FLUSH_BYTES:
            self.flush_output()
        elif not self._io_watches:
            self._wake_io()
        return token

    def _wake_io(self) -> None:
        if not self._io_event.is_set():
            self._io_event.set()
            if self._io_leads:
                self._kick()

    def flush_output(self) -> None:
        """Send what the core has."""
        core = self.core
        wire = self._wire
        if wire is None or not (core.out or core.control):
            return
        with self._lock:
            data = core.take_output()
        if data:
            try:
                wire.write(data)
            except (OSError, ValueError, ssl.SSLError) as error:
                self._wire_lost(wire, error)

    def drain(self) -> None:
        """Send before going on."""
        self.flush_output()

    # Life.

    def open(self) -> None:
        """The first connection. Fails fast: one try for each server, none after refused credentials."""
        self._credentials = load_credentials(self.options)
        causes: list[tuple[str, BaseException]] = []
        attempt = 0
        while True:
            for _ in range(len(self.pool.addresses)):
                address = self.pool.next()
                try:
                    self._dial(address)
                    self._start_thread()
                    return
                except AuthorizationError:
                    self.close(None)
                    raise
                except DIAL_ERRORS as error:
                    causes.append((address.url, error))
                attempt += 1
            if not self.options.retry_first_connect:
                self.close(None)
                if len(causes) == 1 and isinstance(causes[0][1], (ConnectTimeoutError, SecureConnectionError)):
                    raise causes[0][1]
                raise NoServersError(causes)
            causes = causes[-len(self.pool.addresses) :]
            time.sleep(self._delay_s(attempt))

    def _delay_s(self, attempt: int) -> float:
        options = self.options
        pool_size = len(self.pool.addresses)
        return reconnect_delay_s(
            attempt, pool_size, options.reconnect_wait, options.reconnect_wait_max, _CHANCE.random()
        )

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="jetspark link", daemon=True)
        self._thread.start()

    def _dial(self, address: ServerAddress) -> None:
        """One try on one server, up to the first PONG."""
        deadline_s = time.monotonic() + self.options.connect_timeout
        wire: Wire | None = None
        with self._lock:
            self.core.attach()
            self.address = address
        try:
            wire = self._connect_wire(address, deadline_s)
            self._handshake(wire, address, deadline_s)
        except BaseException as error:
            if wire is not None:
                wire.close()
            with self._lock:
                self.core.detach(error)
            if isinstance(error, TimeoutError) and not isinstance(error, ConnectTimeoutError):
                raise ConnectTimeoutError(
                    f"{address.url} did not answer within {self.options.connect_timeout} s"
                ) from None
            if isinstance(error, ssl.SSLError):
                raise SecureConnectionError(str(error)) from error
            raise
        address.failure_count = 0
        address.auth_refusal_count = 0
        self._tell_news()

    def _connect_wire(self, address: ServerAddress, deadline_s: float) -> Wire:
        options = self.options
        codec = WebSocketCodec(address, options.websocket_headers, os.urandom) if address.is_websocket else None
        if options.server is not None:
            sock = options.server.connect_socket()
        else:
            sock = socket.create_connection((address.host, address.port), timeout=options.connect_timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(None)
        wire = Wire(sock, codec, self._waked)
        self.is_tls = address.scheme == "wss" or (options.tls_first and not address.is_websocket)
        if self.is_tls:
            wire.start_tls(tls_context(options), options.tls_hostname or address.host, deadline_s - time.monotonic())
        if codec is not None:
            wire.write_raw(codec.take_output())
        return wire

    def _handshake(self, wire: Wire, address: ServerAddress, deadline_s: float) -> None:
        core = self.core
        self._await_step(wire, core.info_pending, deadline_s)
        info = core.info
        if not self.is_tls and not address.is_websocket and wants_tls(self.options, address, info):
            if not (info.get("tls_required") or info.get("tls_available")):
                raise SecureConnectionError(f"{address.url} does not offer TLS")
            hostname = self.options.tls_hostname or address.host
            wire.start_tls(tls_context(self.options), hostname, deadline_s - time.monotonic())
            self.is_tls = True
        with self._lock:
            core.connect(connect_document(self.options, address, info, self.is_tls, self._credentials, __version__))
            data = core.take_output()
        wire.write(data)
        self._await_step(wire, core.up_pending, deadline_s)
        with self._role_lock:
            self._wire = wire
        self.flush_output()

    def _await_step(self, wire: Wire, pending: Pending, deadline_s: float) -> None:
        while not pending.done:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            data = wire.read(left_s)
            if data:
                with self._lock:
                    self.core.feed(data)
        if pending.error is not None:
            raise pending.error

    def _wire_lost(self, wire: Wire, error: BaseException) -> None:
        """The socket is gone, or must go."""
        with self._lock:
            if wire is not self._wire:
                return
            with self._role_lock:
                self._wire = None
            was_up = self.core.state == states.UP
            self.core.detach(error)
            if not self._closing and was_up:
                self._lost_error = error
        wire.close()
        if not self._closing:
            self._hook(self.options.on_disconnect)
        self._io_event.set()
        self._kick()

    # The background thread.

    def _run(self) -> None:
        while not self._closing:
            if self._lost_error is not None:
                self._reconnect(self._lost_error)
                continue
            self._tick()
            self.flush_output()
            if not self._take_lead():
                continue
            try:
                self._lead_idle()
            finally:
                self._io_leads = False
                self._resign()

    def _take_lead(self) -> bool:
        """Lead when nobody does and nobody did a moment ago; else wait a little."""
        with self._role_lock:
            free_s = time.monotonic() - self._left_at_s
            if not self._has_leader and self._wire is not None and free_s >= LINGER_S:
                self._has_leader = True
                self._io_leads = True
                self._io_event.clear()
                return True
            is_busy = self._has_leader
        if is_busy:
            # Whoever leads will say when it leaves; until then only the time and small rests of output are ours.
            self._io_watches = False
            self._io_event.wait(self._tick_pause_s())
            self._io_event.clear()
            self._io_watches = True
            return False
        self._io_watches = True
        time.sleep(LINGER_S)
        return False

    def _lead_idle(self) -> None:
        """Read while nobody else wants to; step back when kicked."""
        self._io_watches = False
        wire = self._wire
        if wire is None:
            return
        while self._wire is wire and not self._closing:
            self._read(wire, self._tick_pause_s())
            self._io_event.clear()
            self.flush_output()
            self._tick()
            if self._followers:
                return

    def _tick_pause_s(self) -> float:
        return min(1.0, self.options.ping_interval / 2, self.options.publish_timeout / 4)

    def _tick(self) -> None:
        now_s = time.monotonic()
        if now_s < self._next_tick_s:
            return
        self._next_tick_s = now_s + self._tick_pause_s()
        wire = self._wire
        try:
            with self._lock:
                self.core.tick(now_s, self.options.ping_interval, self.options.ping_outstanding_max)
        except StaleConnectionError as error:
            if wire is not None:
                self._wire_lost(wire, error)

    def _reconnect(self, first_error: BaseException) -> None:
        """Come back, for as long as allowed."""
        if not self.options.allow_reconnect:
            self.close(first_error)
            return
        attempt = 0
        limit = self.options.reconnect_attempts_max
        last: BaseException = first_error
        while not self._closing:
            if 0 <= limit <= attempt:
                self.close(last)
                return
            self._io_event.clear()
            self._io_event.wait(self._delay_s(attempt)) if attempt else None
            attempt += 1
            address = self.pool.next()
            try:
                self._dial(address)
            except AuthorizationError as error:
                last = error
                address.auth_refusal_count += 1
                if address.auth_refusal_count >= AUTH_REFUSALS_MAX:
                    self.report(error)
                    self.close(error)
                    return
            except DIAL_ERRORS as error:
                last = error
                address.failure_count += 1
            else:
                self._lost_error = None
                self._hook(self.options.on_reconnect)
                self._resign()
                return

    def close(self, error: BaseException | None) -> None:
        """For good."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self.flush_output()
        with self._lock:
            self.core.close(error)
            with self._role_lock:
                wire, self._wire = self._wire, None
                followers = list(self._followers)
        if wire is not None:
            wire.close()
        for follower in followers:
            follower.nudge()
        self._io_event.set()
        self._kick()
        self._hook(self.options.on_close)
        self._hooks.put(None)
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join(5)
        self._waker.close()
        self._waked.close()

    def abandon(self) -> None:
        """This process is a fork: the connection belongs to the other one."""
        self._closing = True
        self._lock = threading.RLock()
        self.guard = self._lock
        self._role_lock = threading.Lock()
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.sock.close()
        self.core.close(ConnectionLostError("the process was forked"))


_CHANCE = random.Random()
_LINKS: weakref.WeakSet[Link] = weakref.WeakSet()


def _abandon_all() -> None:
    for link in list(_LINKS):
        link.abandon()


os.register_at_fork(after_in_child=_abandon_all)


def _run_hooks(hooks: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]] | None]) -> None:
    """Call users' functions one after another; one that fails is logged and hurts nobody."""
    while (job := hooks.get()) is not None:
        hook, arguments = job
        try:
            hook(*arguments)
        except Exception:  # noqa: BLE001 - a user's function may raise anything
            log.exception("a connection hook failed")
