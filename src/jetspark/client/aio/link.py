"""The asyncio driver: sockets, timers and tasks for one connection.

Performs what `client/core` decides. Output is written once a loop turn; input goes to the core in the chunks the
socket had. Nothing here knows JetStream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import ssl
import traceback
from collections.abc import Callable, Coroutine
from typing import Any
from weakref import WeakSet

from jetspark import __version__
from jetspark.client.aio.exchange import Exchange
from jetspark.client.aio.waiting import Guard, Signal, call
from jetspark.client.aio.wire import Wire
from jetspark.client.core import connection as states
from jetspark.client.core.connection import CONGESTED_BYTES, ConnectionCore, is_fatal
from jetspark.client.core.handshake import Credentials, connect_document, wants_tls
from jetspark.client.core.message import MessageCore
from jetspark.client.core.options import ConnectOptions
from jetspark.client.core.pending import Pending
from jetspark.client.core.server_pool import (
    AUTH_REFUSALS_MAX,
    DIAL_ERRORS,
    REDIAL_ERRORS,
    ServerAddress,
    ServerPool,
    reconnect_delay_s,
)
from jetspark.client.credentials import load_credentials, refreshed_credentials, tls_context
from jetspark.client.errors import (
    AuthorizationError,
    ConnectionLostError,
    ConnectTimeoutError,
    ProtocolError,
    RequestTimeoutError,
    SecureConnectionError,
    StaleConnectionError,
    WrongLoopError,
    no_servers_error,
)
from jetspark.client.in_process import in_process_socket
from jetspark.client.websocket import WebSocketCodec
from jetspark.protocol.nuid import Nuid

log = logging.getLogger("jetspark.client")

_CHANCE = random.Random()


class Link(Exchange):
    """One connection over its whole life: dialling, reading, writing, coming back."""

    def __init__(self, options: ConnectOptions, make_message: Callable[..., MessageCore]) -> None:
        self.options = options
        self.guard = Guard()
        self.pool = ServerPool(options.servers, random.shuffle if options.randomize_servers else None)
        self.core = ConnectionCore(
            Nuid(os.urandom), options.inbox_prefix, options.pending_bytes_max, make_message, self
        )
        self.core.on_output = self._schedule_flush
        # The hot calls go straight to the core: one loop, nothing to guard.
        self.send = self.core.send
        self.publish = self.core.publish
        self.publish_acked = self.core.publish_acked
        self.receivers: WeakSet[Any] = WeakSet()
        self.address: ServerAddress | None = None
        self.is_tls = False
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._credentials: Credentials | None = None
        self._flush_scheduled = False
        self._drain_waiters: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._hooks: set[asyncio.Task[Any]] = set()
        self._reconnecting: asyncio.Task[None] | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._closing = False
        _LINKS.add(self)

    # Waiting, for everything above.

    def signal(self) -> Signal:
        """Something to wait for."""
        self._check_loop()
        return Signal()

    def _check_loop(self) -> None:
        """Elsewhere nothing would ever be sent, and nobody woken."""
        if asyncio.get_running_loop() is not self._loop:
            raise WrongLoopError("the connection was made on another event loop: make one on each")

    def now(self) -> float:
        """Seconds that never go back."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def spawn(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> asyncio.Task[Any]:
        """Run in the background until it ends or the connection is closed."""
        task = self._loop.create_task(function(*arguments))
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.report(task.exception())

    def is_current(self, task: asyncio.Task[Any] | None) -> bool:
        """The caller runs inside this background task."""
        return task is not None and asyncio.current_task() is task

    async def join(self, task: asyncio.Task[Any] | None, timeout_s: float) -> bool:
        """Wait for a background task; cancel it, and say False, when the time is over."""
        if task is None or task.done() or self.is_current(task):
            return True
        await asyncio.wait({task}, timeout=timeout_s)
        if task.done():
            return True
        task.cancel()
        await asyncio.wait({task}, timeout=1.0)
        return False

    async def join_only(self, task: asyncio.Task[Any], timeout_s: float | None) -> None:
        """Wait for a background task and leave it running when the time is over."""
        if not task.done() and not self.is_current(task):
            done, _ = await asyncio.wait({task}, timeout=timeout_s)
            if not done:
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
        if hook is not None:
            # Kept apart from the tasks that close() cancels: the last words must be heard.
            task = self._loop.create_task(_guarded(hook, *arguments))
            self._hooks.add(task)
            task.add_done_callback(self._hooks.discard)

    # Output.

    @property
    def congested(self) -> bool:
        """So much waits to be sent that publishers should wait too."""
        return self.core.out_bytes > CONGESTED_BYTES

    def _schedule_flush(self) -> None:
        self._check_loop()
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self.flush_output)

    def flush_output(self) -> None:
        """Write what the core has, unless the transport is full."""
        self._flush_scheduled = False
        wire = self._wire
        if wire is None or wire.transport is None or wire.paused or wire.transport.is_closing():
            return
        data = self.core.take_output()
        if data:
            wire.write(data)
        if self._drain_waiters:
            waiters = self._drain_waiters
            self._drain_waiters = []
            for waiter in waiters:
                waiter()

    async def drain(self) -> None:
        """Wait until the output is no longer congested; other tasks get their turn."""
        self.flush_output()
        await asyncio.sleep(0)
        while self.congested and self.core.state == states.UP:
            signal = Signal()
            self._drain_waiters.append(signal.set)
            await signal.wait(None)

    # Input.

    def received(self, wire: Wire, data: bytes) -> None:
        """Bytes from the current transport."""
        if wire is not self._wire:
            return
        core = self.core
        try:
            core.feed(data)
        except ProtocolError as error:
            self.wire_lost(wire, error)
            return
        if core.errors or core.discovered_urls or core.lame_duck_news:
            self._tell_news()

    def _tell_news(self) -> None:
        core = self.core
        errors, core.errors = core.errors, []
        urls, core.discovered_urls = core.discovered_urls, []
        if urls and not self.options.ignore_discovered_servers:
            scheme = self.address.scheme if self.address is not None else "nats"
            for url in self.pool.discovered(urls, scheme):
                self._hook(self.options.on_discovered_server, url)
        if core.lame_duck_news:
            core.lame_duck_news = False
            self._hook(self.options.on_lame_duck)
        for error in errors:
            if core.state == states.UP:
                self.report(error)
            if is_fatal(error) and self._wire is not None:
                self.wire_lost(self._wire, error)

    # Life.

    async def open(self) -> None:
        """The first connection. Fails fast: one try for each server, none after refused credentials."""
        self._credentials = load_credentials(self.options)
        causes: list[tuple[str, BaseException]] = []
        attempt = 0
        while True:
            for _ in range(len(self.pool.addresses)):
                address = self.pool.next()
                try:
                    await self._dial(address)
                    self._tick()
                    return
                except AuthorizationError:
                    await self.close(None)
                    raise
                except DIAL_ERRORS as error:
                    causes.append((address.url, error))
                attempt += 1
            if not self.options.retry_first_connect:
                await self.close(None)
                if len(causes) == 1 and isinstance(causes[0][1], (ConnectTimeoutError, SecureConnectionError)):
                    raise causes[0][1]
                raise no_servers_error(causes)
            causes = causes[-len(self.pool.addresses) :]
            await asyncio.sleep(self._delay_s(attempt))

    def _delay_s(self, attempt: int) -> float:
        options = self.options
        pool_size = len(self.pool.addresses)
        return reconnect_delay_s(
            attempt, pool_size, options.reconnect_wait, options.reconnect_wait_max, _CHANCE.random()
        )

    async def _dial(self, address: ServerAddress) -> None:
        """One try on one server, up to the first PONG."""
        self.core.attach()
        self.address = address
        wire: Wire | None = None
        try:
            async with asyncio.timeout(self.options.connect_timeout):
                wire = await self._connect_wire(address)
                await self._wait_step(self.core.info_pending)
                info = self.core.info
                if not self.is_tls and not address.is_websocket and wants_tls(self.options, address, info):
                    await self._start_tls(wire, address, info)
                document = connect_document(self.options, address, info, self.is_tls, self._credentials, __version__)
                self.core.connect(document)
                self.flush_output()
                await self._wait_step(self.core.up_pending)
        except BaseException as error:
            self._drop_wire(wire)
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

    async def _wait_step(self, pending: Pending) -> None:
        await self.wait(pending, None)
        if pending.error is not None:
            raise pending.error

    async def _connect_wire(self, address: ServerAddress) -> Wire:
        options = self.options
        codec = WebSocketCodec(address, options.websocket_headers, os.urandom) if address.is_websocket else None
        self._wire = wire = Wire(self, codec)
        self.is_tls = address.scheme == "wss" or (options.tls_first and not address.is_websocket)
        if options.server is not None:
            sock = in_process_socket(options.server)
            if sock.family == socket.AF_UNIX:
                await self._loop.create_unix_connection(lambda: wire, sock=sock)
            else:
                await self._loop.create_connection(lambda: wire, sock=sock)
            return wire
        context = tls_context(options) if self.is_tls else None
        hostname = (options.tls_hostname or address.host) if context else None
        await self._loop.create_connection(
            lambda: wire, address.host, address.port, ssl=context, server_hostname=hostname
        )
        if codec is not None:
            wire.transport.write(codec.take_output())
        return wire

    async def _start_tls(self, wire: Wire, address: ServerAddress, info: dict[str, Any]) -> None:
        if not (info.get("tls_required") or info.get("tls_available")):
            raise SecureConnectionError(f"{address.url} does not offer TLS")
        hostname = self.options.tls_hostname or address.host
        transport = await self._loop.start_tls(
            wire.transport, wire, tls_context(self.options), server_hostname=hostname
        )
        wire.transport = transport
        self.is_tls = True

    def _drop_wire(self, wire: Wire | None) -> None:
        if self._wire is wire or wire is None:
            wire, self._wire = self._wire, None
        if wire is not None and wire.transport is not None:
            wire.transport.abort()

    def wire_lost(self, wire: Wire, error: BaseException) -> None:
        """The transport is gone, or must go."""
        if wire is not self._wire:
            return
        was_up = self.core.state == states.UP
        self._drop_wire(wire)
        self.core.detach(error)
        if self._closing or not was_up:
            return
        self._hook(self.options.on_disconnect)
        if self.options.allow_reconnect:
            self._reconnecting = self._loop.create_task(self._reconnect(error))
        else:
            self._reconnecting = self._loop.create_task(self.close(error))

    async def _reconnect(self, first_error: BaseException) -> None:
        """Come back, for as long as allowed."""
        attempt = 0
        limit = self.options.reconnect_attempts_max
        last: BaseException = first_error
        while not self._closing:
            if 0 <= limit <= attempt:
                await self.close(last)
                return
            await asyncio.sleep(self._delay_s(attempt))
            attempt += 1
            address = self.pool.next()
            try:
                self._credentials = refreshed_credentials(self.options, self._credentials)
                await self._dial(address)
            except AuthorizationError as error:
                last = error
                if self._is_refused_for_good(address, error):
                    await self.close(error)
                    return
            except Exception as error:  # noqa: BLE001 - a secret function may raise anything, and work the next time
                last = error
                address.failure_count += 1
                if not isinstance(error, REDIAL_ERRORS):
                    self.report(error, "reconnect: ")
            else:
                self._hook(self.options.on_reconnect)
                return

    def _is_refused_for_good(self, address: ServerAddress, error: AuthorizationError) -> bool:
        """Count a refusal; True when another try would offer the same once more."""
        address.auth_refusal_count += 1
        if address.auth_refusal_count == AUTH_REFUSALS_MAX:
            self.report(error)
        return address.auth_refusal_count >= AUTH_REFUSALS_MAX and not self.options.may_offer_other_secrets

    def _tick(self) -> None:
        options = self.options
        try:
            self.core.tick(self._loop.time(), options.ping_interval, options.ping_outstanding_max)
        except StaleConnectionError as error:
            if self._wire is not None:
                self.wire_lost(self._wire, error)
        pause = min(1.0, options.ping_interval / 2, options.publish_timeout / 4)
        self._ticker = self._loop.call_later(pause, self._tick)

    async def close(self, error: BaseException | None) -> None:
        """For good."""
        if self._closing:
            return
        self._closing = True
        if self._ticker is not None:
            self._ticker.cancel()
        if self._wire is not None and self.core.state == states.UP:
            self.flush_output()
        self.core.close(error)
        wire, self._wire = self._wire, None
        current = asyncio.current_task()
        for task in [*self._tasks, self._reconnecting]:
            if task is not None and task is not current:
                task.cancel()
        for waiter in self._drain_waiters:
            waiter()
        self._hook(self.options.on_close)
        if wire is not None and wire.transport is not None:
            await wire.close(self.is_tls)
        # A transport closes its socket in the next turn of the loop, which may be the last one.
        await asyncio.sleep(0)

    def abandon(self) -> None:
        """This process is a fork: the connection belongs to the other one, and so do its loop and its transport."""
        self._closing = True
        self._wire = None
        # What waited to be sent is sent by the other process: here nobody can say that it is not stored.
        self.core.out = []
        self.core.acks.held = []
        self.core.close(ConnectionLostError("the process was forked"))


_LINKS: WeakSet[Link] = WeakSet()


def _abandon_all() -> None:
    for link in list(_LINKS):
        link.abandon()


if hasattr(os, "register_at_fork"):
    # Not on Windows, which has no forks.
    os.register_at_fork(after_in_child=_abandon_all)


async def _guarded(function: Callable[..., Any], *arguments: Any) -> None:
    """A hook that fails is logged and hurts nobody."""
    with contextlib.suppress(asyncio.CancelledError):
        try:
            await call(function, *arguments)
        except Exception:  # noqa: BLE001 - a user's function may raise anything
            log.error("a connection hook failed:\n%s", traceback.format_exc())
