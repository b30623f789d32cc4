"""Who reads the socket of a blocking link, and who writes it.

One thread at a time reads (the leader). A thread that has to wait leads if nobody does, and so reads its own answer
without a switch of threads; the others are woken when their answer came or when the lead is free. A background thread
(see `link`) leads when nobody waits.
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
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from jetspark.client.core import connection as states
from jetspark.client.core.connection import ConnectionCore, is_fatal
from jetspark.client.core.message import MessageCore
from jetspark.client.core.options import ConnectOptions
from jetspark.client.core.pending import Pending
from jetspark.client.core.server_pool import ServerAddress, ServerPool
from jetspark.client.errors import (
    ConnectionLostError,
    ProtocolError,
    RequestTimeoutError,
)
from jetspark.client.sync.exchange import Exchange
from jetspark.client.sync.waiting import Signal, Task
from jetspark.client.sync.wire import Wire
from jetspark.protocol.client_parser import IS_NATIVE
from jetspark.protocol.nuid import Nuid

log = logging.getLogger("jetspark.client")

# A publisher sends by itself once this much waits; the background thread sends smaller rests.
FLUSH_BYTES = 64 * 1024


class SharedWire(Exchange):
    """A socket that many threads wait on."""

    def __init__(self, options: ConnectOptions, make_message: Callable[..., MessageCore]) -> None:
        self.options = options
        self._lock = threading.RLock()
        self.guard = self._lock
        # Held from taking output until it is written, so that what was queued first is sent first. A thread that has
        # this lock may take the one above, never the other way round.
        self._send_lock = threading.Lock()
        self.pool = ServerPool(options.servers, random.shuffle if options.randomize_servers else None)
        self.core = ConnectionCore(
            Nuid(os.urandom), options.inbox_prefix, options.pending_bytes_max, make_message, self
        )
        # Queue a frame or a message. The compiled core runs each of these calls to its end before another thread has a
        # turn, so it needs no lock; the plain one does.
        self.send: Callable[[bytes], None] = self._send_locked
        self.publish: Callable[[str, bytes, bytes, bytes], bytes] = self._publish_locked
        self.publish_acked: Callable[[str, bytes, bytes, Pending], bytes] = self._publish_acked_locked
        if IS_NATIVE:
            self.core.on_output = self._output_began
            self.send = self.core.send
            self.publish = self.core.publish
            self.publish_acked = self.core.publish_acked
        self.receivers: WeakSet[Any] = WeakSet()
        self.address: ServerAddress | None = None
        self.is_tls = False
        self._wire: Wire | None = None
        # Who reads. The role lock is held for moments only, never while waiting.
        self._role_lock = threading.Lock()
        self._has_leader = False
        self._followers: deque[Signal] = deque()
        self.leading: Signal | None = None
        self._leader_ident = 0
        self._left_at_s = 0.0
        # The background thread.
        self._io_event = threading.Event()
        self._io_leads = False
        self._io_watches = False
        self._waker, self._waked = socket.socketpair()
        self._lost_error: BaseException | None = None
        self._closing = False
        self._hooks: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]] | None] = queue.SimpleQueue()
        self._hook_thread: threading.Thread | None = None

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

    def join(self, task: Task | None, timeout_s: float) -> bool:
        """Wait for a background task, at most so long; False when it is still running then."""
        if task is None or task.is_current:
            return True
        task.join(timeout_s)
        return not task.is_running

    def join_only(self, task: Task, timeout_s: float | None) -> None:
        """Wait for a background task."""
        task.join(timeout_s)
        if task.is_running and not task.is_current:
            raise RequestTimeoutError(f"still running after {timeout_s} s")

    def report(self, error: BaseException | None, what: str = "") -> None:
        """Tell the user about something nobody waits for: the log, and the hook."""
        if error is None:
            return
        log.error("%s%s: %s", what, type(error).__name__, error, exc_info=error if error.__traceback__ else None)
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

    def _offer_lead(self) -> None:
        """There is a wire again: let somebody who waits lead, unless another thread was quicker."""
        with self._role_lock:
            if self._has_leader or not self._followers:
                return
            follower = self._followers.popleft()
        follower.nudge()

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

    def _send_locked(self, frame: bytes) -> None:
        with self._lock:
            self.core.send(frame)
        self._output_began()

    def _publish_locked(self, subject: str, reply: bytes, block: bytes, data: bytes) -> bytes:
        with self._lock:
            frame = self.core.publish(subject, reply, block, data)
        self._output_began()
        return frame

    def _publish_acked_locked(self, subject: str, block: bytes, data: bytes, pending: Pending) -> bytes:
        with self._lock:
            token = self.core.publish_acked(subject, block, data, pending)
        self._output_began()
        return token

    def _output_began(self) -> None:
        """The background thread sends what nobody else sends; this thread does when it waits or has queued much."""
        if not self._io_watches:
            self._wake_io()

    def _wake_io(self) -> None:
        if not self._io_event.is_set():
            self._io_event.set()
            if self._io_leads:
                self._kick()

    def flush_output(self) -> None:
        """Send what the core has."""
        self._flush()

    def _flush(self, lock_timeout_s: float = -1) -> bool:
        """Send what the core has; True when there was something. Not to be called with the guard held."""
        core = self.core
        if self._wire is None or not (core.out or core.control):
            return False
        if not self._send_lock.acquire(timeout=lock_timeout_s):
            return False
        try:
            wire = self._wire
            if wire is None:
                return False
            with self._lock:
                data = core.take_output()
            if data:
                try:
                    wire.write(data)
                except (OSError, ValueError, ssl.SSLError) as error:
                    self._wire_lost(wire, error)
            return bool(data)
        finally:
            self._send_lock.release()

    def drain(self) -> None:
        """Send before going on."""
        self.flush_output()

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


def _run_hooks(hooks: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]] | None]) -> None:
    """Call users' functions one after another; one that fails is logged and hurts nobody."""
    while (job := hooks.get()) is not None:
        hook, arguments = job
        try:
            hook(*arguments)
        except Exception:
            log.exception("a connection hook failed")
