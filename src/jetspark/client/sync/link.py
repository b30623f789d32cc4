"""The blocking driver: dialling, coming back, and the background thread.

The background thread leads (see `shared_wire`) when nobody waits, keeps time, and reconnects. It keeps out of the way
of a busy caller: it takes the lead only when that has been free for a while.
"""

from __future__ import annotations

import os
import random
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable

from jetspark import __version__
from jetspark.client.core.handshake import Credentials, connect_document, wants_tls
from jetspark.client.core.message import MessageCore
from jetspark.client.core.options import ConnectOptions
from jetspark.client.core.pending import Pending
from jetspark.client.core.server_pool import (
    AUTH_REFUSALS_MAX,
    DIAL_ERRORS,
    REDIAL_ERRORS,
    ServerAddress,
    reconnect_delay_s,
)
from jetspark.client.credentials import load_credentials, refreshed_credentials, tls_context
from jetspark.client.errors import (
    AuthorizationError,
    ConnectionClosedError,
    ConnectionLostError,
    ConnectTimeoutError,
    SecureConnectionError,
    StaleConnectionError,
    no_servers_error,
)
from jetspark.client.in_process import in_process_socket
from jetspark.client.sync.shared_wire import SharedWire
from jetspark.client.sync.wire import Wire
from jetspark.client.websocket import WebSocketCodec

# The background thread takes the lead when it has been free for this long.
LINGER_S = 0.005
# Closing waits at most this long for a thread that is writing, before it ends the socket.
CLOSING_FLUSH_S = 1.0


class Link(SharedWire):
    """One connection over its whole life: dialling, reading, writing, coming back."""

    def __init__(self, options: ConnectOptions, make_message: Callable[..., MessageCore]) -> None:
        super().__init__(options, make_message)
        self._credentials: Credentials | None = None
        self._thread: threading.Thread | None = None
        self._next_tick_s = 0.0
        _LINKS.add(self)

    # Life.

    def open(self) -> None:
        """The first connection. Fails fast: one try for each server, none after refused credentials."""
        try:
            self._credentials = load_credentials(self.options)
        except BaseException:
            self.close(None)
            raise
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
                raise no_servers_error(causes)
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
            self._check_not_closing()
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
            sock = in_process_socket(options.server)
        else:
            sock = socket.create_connection((address.host, address.port), timeout=options.connect_timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(None)
        wire = Wire(sock, codec, self._waked)
        self.is_tls = address.scheme == "wss" or (options.tls_first and not address.is_websocket)
        try:
            if self.is_tls:
                hostname = options.tls_hostname or address.host
                wire.start_tls(tls_context(options), hostname, deadline_s - time.monotonic())
            if codec is not None:
                wire.write_raw(codec.take_output())
        except BaseException:
            wire.close()
            raise
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
        with self._lock:
            # Closed by another thread meanwhile: nobody would close this one.
            self._check_not_closing()
            with self._role_lock:
                self._wire = wire
            # Together with the wire: from here on another thread may read it, lose it, and say so.
            self._lost_error = None
        self.flush_output()

    def _check_not_closing(self) -> None:
        if self._closing:
            raise ConnectionClosedError("the connection was closed while it was being made")

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

    # The background thread.

    def _run(self) -> None:
        while not self._closing:
            if self._lost_error is not None:
                self._reconnect(self._lost_error)
                continue
            self._tick()
            if self._flush():
                # Somebody publishes: stay at hand with the next rest of output, instead of being woken for each.
                self._left_at_s = time.monotonic()
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
            self._tick()
            is_wanted = self._io_event.is_set()
            self._io_event.clear()
            self._flush()
            if is_wanted or self._followers:
                self._io_watches = True
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
            self._pause(attempt)
            attempt += 1
            address = self.pool.next()
            try:
                self._credentials = refreshed_credentials(self.options, self._credentials)
                self._dial(address)
            except ConnectionClosedError:
                return
            except AuthorizationError as error:
                last = error
                if self._is_refused_for_good(address, error):
                    self.close(error)
                    return
            except Exception as error:  # noqa: BLE001 - a secret function may raise anything, and work the next time
                last = error
                address.failure_count += 1
                if not isinstance(error, REDIAL_ERRORS):
                    self.report(error, "reconnect: ")
            else:
                self._hook(self.options.on_reconnect)
                self._offer_lead()
                return

    def _is_refused_for_good(self, address: ServerAddress, error: AuthorizationError) -> bool:
        """Count a refusal; True when another try would offer the same once more."""
        address.auth_refusal_count += 1
        if address.auth_refusal_count == AUTH_REFUSALS_MAX:
            self.report(error)
        return address.auth_refusal_count >= AUTH_REFUSALS_MAX and not self.options.may_offer_other_secrets

    def _pause(self, attempt: int) -> None:
        """Wait before a try, unless it is the first; `close` ends it."""
        self._io_event.clear()
        if attempt:
            self._io_event.wait(self._delay_s(attempt))

    def close(self, error: BaseException | None) -> None:
        """For good."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        # Another thread may be stuck in a write that only the end of the socket frees.
        self._flush(CLOSING_FLUSH_S)
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
        self._send_lock = threading.Lock()
        self.guard = self._lock
        self._role_lock = threading.Lock()
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.sock.close()
        # What waited to be sent is sent by the other process: here nobody can say that it is not stored.
        self.core.out = []
        self.core.acks.held = []
        self.core.close(ConnectionLostError("the process was forked"))


_CHANCE = random.Random()
_LINKS: weakref.WeakSet[Link] = weakref.WeakSet()


def _abandon_all() -> None:
    for link in list(_LINKS):
        link.abandon()


if hasattr(os, "register_at_fork"):
    # Not on Windows, which has no forks.
    os.register_at_fork(after_in_child=_abandon_all)
