"""A whole server in one event loop: builds the parts, starts them, stops them in the right order.

Decided here: the order of starting and stopping, what a reload may change, and how a lame duck lets its clients go.
Not known here: the command line, signals and threads; `run` and `embedded` own those.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final

from jetspark.broker.broker import Broker
from jetspark.broker.options import BrokerOptions
from jetspark.clock import Clock, SystemClock
from jetspark.server import banner
from jetspark.server.account_limits import apply_limits
from jetspark.server.auth import ServerGate
from jetspark.server.committer import Committer
from jetspark.server.connection import Connection
from jetspark.server.edge import Edge
from jetspark.server.identity import PREFIX_CURVE, encode_key, new_server_id
from jetspark.server.listener import Listener, join_host_port, split_host_port
from jetspark.server.log import Logger, logger_from
from jetspark.server.observations import CommitFigures
from jetspark.server.options import Options, OptionsError, TlsOptions, validate
from jetspark.server.secure import SecureLayer
from jetspark.server.storage import StoreDirectory
from jetspark.server.system_services import ServerServices
from jetspark.server.tls import renew, ssl_context
from jetspark.server.trace import TracedConnection
from jetspark.store.disk import Disk, FileDisk

if TYPE_CHECKING:
    from jetspark.broker.session import Session
    from jetspark.server.monitor import Monitor
    from jetspark.server.websocket import WebsocketListener

# How long the last bytes may take on their way to clients when the server stops.
_CLOSE_TIMEOUT_S: Final = 2.0
_LAME_DUCK_STEP_MAX_S: Final = 1.0


class Server:
    """One server. Start it once; a stopped server stays stopped."""

    def __init__(
        self,
        options: Options,
        *,
        logger: Logger | None = None,
        clock: Clock | None = None,
        disk: Disk | None = None,
    ) -> None:
        validate(options)
        self._disk: Disk = disk or FileDisk()
        self.options = options
        self.clock: Clock = clock or SystemClock()
        self.logger = logger or logger_from(options, self.clock)
        self._accepting: set[asyncio.Task[tuple[asyncio.Transport, asyncio.BaseProtocol]]] = set()
        self.server_id = new_server_id(os.urandom)
        self.name = options.server_name or self.server_id
        self.start_ns = self.clock.now_ns()
        self.config_load_ns = self.start_ns
        self.is_lame_duck = False
        self.is_ready = False
        self._store: StoreDirectory | None = None
        self._monitor: Monitor | None = None
        self._secure_context: ssl.SSLContext | None = None
        self._websocket: WebsocketListener | None = None
        self._committer: Committer | None = None
        self._services: ServerServices | None = None
        self.commit_figures = CommitFigures()
        self._is_stopping = False
        self._stopped = asyncio.Event()
        self._sync_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -- starting ----------------------------------------------------------------------------------------------

    async def start(self, *, before_ready: Callable[[], None] = lambda: None) -> None:
        """Open the store and the ports; when this returns, clients can connect. Raises OptionsError or OSError.

        `before_ready` is called when the ports are known and before the log says that the server is ready.
        """
        loop = asyncio.get_running_loop()
        self.loop = loop
        is_open = False
        banner.starting(self.logger, self.name, self.server_id, self.options)
        self.gate = ServerGate(self.options, loop, os.urandom)
        try:
            broker_options = self._broker_options()
            self.broker = Broker(broker_options, self._disk, os.urandom, self.clock.now_ns(), self.gate)
            for name in self.options.accounts:
                self.broker.account(name)
            services = self._services = ServerServices(self)
            self.broker.system = services
            self._limit_accounts()
            self.edge = Edge(self.broker, self.gate, loop, self.clock, self.logger)
            self.edge.configure(self.options)
            self._committer = Committer(
                self._disk,
                loop,
                self.edge.commit_done,
                self.edge.sync_failed,
                self.commit_figures,
                self.edge.commit_raised,
            )
            self.edge.use(self._committer)
            await self._start_monitor()
            await self._start_jetstream()
            await self._open_ports()
            is_open = True
            self._set_advertised_address()
            self.edge.perform()
            services.events.start()
            self.is_ready = True
            before_ready()
        except BaseException:
            self.is_ready = False
            if is_open:
                await self._accept_nobody()
            await self._release()
            raise
        self.logger.info(f"Listening for client connections on {join_host_port(self.host, self.port)}")
        self.logger.info("Server is ready")

    async def _start_monitor(self) -> None:
        if self.options.http_port or self.options.https_port:
            # Imported when needed: an HTTP library takes as long to load as the rest of the server.
            from jetspark.server.monitor import Monitor

            self._monitor = Monitor(self)
            await self._monitor.start()

    async def _open_ports(self) -> None:
        options = self.options
        if options.websocket.port:
            from jetspark.server.websocket import WebsocketListener

            self._websocket = WebsocketListener(self.edge, options.websocket, self._new_connection, self.logger)
            await self._websocket.start()
        self._listener = Listener(self.loop, self._new_protocol())
        await self._listener.start(options.host, options.port)

    def _new_protocol(self) -> Callable[[], asyncio.Protocol]:
        """What answers on a new socket: a connection, or one behind a layer of TLS."""
        tls = self.options.tls
        if tls is None:
            return self._new_connection
        context = self._secure_context = ssl_context(tls)
        self.broker.options.info_extra |= _tls_info(self.options, tls)

        def secure() -> SecureLayer:
            layer = SecureLayer(self.edge, self.gate, self._new_connection(), tls, context)
            if self.options.allow_non_tls:
                layer.allow_plain()
            return layer

        return secure

    def _broker_options(self) -> BrokerOptions:
        options, jetstream = self.options, self.options.jetstream
        result = BrokerOptions()
        result.server_name, result.server_id = self.name, self.server_id
        # Nothing is encrypted to this key here; tools that know nats-server expect to see one.
        result.info_extra = {"xkey": encode_key(PREFIX_CURVE, os.urandom(32))}
        result.max_payload = options.max_payload_bytes
        result.max_control_line = options.max_control_line_bytes
        result.max_pending = options.max_pending_bytes
        result.max_subscriptions = options.max_subscriptions
        result.jetstream = jetstream.enabled
        result.domain = jetstream.domain
        result.sync_always = jetstream.sync_always
        result.strict = jetstream.strict
        result.default_max_consumers = jetstream.default_max_consumers
        result.max_ack_pending = jetstream.max_ack_pending or -1
        result.max_request_batch = jetstream.max_request_batch
        result.duplicate_window_max_ns = jetstream.duplicate_window_ns
        if jetstream.batch_inflight_per_stream_max > 0:
            result.batch_max_inflight_per_stream = jetstream.batch_inflight_per_stream_max
            result.fast_batch_max_inflight_per_stream = jetstream.batch_inflight_per_stream_max
        if jetstream.batch_inflight_total_max > 0:
            result.batch_max_inflight_total = jetstream.batch_inflight_total_max
            result.fast_batch_max_inflight_total = jetstream.batch_inflight_total_max
        result.batch_max_messages = jetstream.batch_msgs_max
        result.batch_timeout_ns = jetstream.batch_timeout_ns
        result.tags = [tag.lower() for tag in options.server_tags]
        result.feature_flags.update(options.feature_flags)
        result.ack_subject_v2 = options.feature_flags.get("js_ack_fc_v2", False)
        if jetstream.enabled:
            self._store = StoreDirectory(jetstream)
            self._store.lock()
            result.store_dir = str(self._store.root)
            result.max_memory = self._store.max_memory_bytes
            result.max_storage = self._store.max_storage_bytes
        return result

    def _limit_accounts(self) -> None:
        """JetStream is for the accounts that ask for it; without accounts it is for everybody."""
        accounts = self.options.accounts
        for name, account in self.broker.accounts.items():
            account.is_system = name == self.options.system_account
            if account.is_system:
                account.jetstream.enabled = False
            elif accounts:
                configured = accounts.get(name)
                limits = configured.jetstream if configured is not None else None
                account.jetstream.enabled = self.options.jetstream.enabled and limits is not None
                if limits is not None:
                    apply_limits(account.jetstream, limits)

    async def _start_jetstream(self) -> None:
        if self._store is None:
            return
        begin_ns = self.clock.monotonic_ns()
        banner.jetstream(self.logger, self._store, self.options)
        # Nobody else uses the broker yet, so the recovery may keep another thread busy instead of the loop.
        try:
            await self.loop.run_in_executor(None, self.broker.recover)
        except OSError as error:
            raise OptionsError(f"Can't start JetStream: could not read storage directory - {error}") from None
        banner.jetstream_started(self.logger, self.clock.monotonic_ns() - begin_ns)
        if not self.options.jetstream.sync_always:
            self._sync_later()

    def _sync_later(self) -> None:
        interval_s = self.options.jetstream.sync_interval_ns / 1e9
        self._sync_timer = self.loop.call_later(interval_s, self._sync_now)

    def _sync_now(self) -> None:
        assert self._committer is not None
        self._committer.sync_soon()
        self._sync_later()

    def _new_connection(self) -> Connection:
        if self.options.trace:
            options = self.options
            return TracedConnection(
                self.edge, options.traced_msg_len_max, headers_only=options.trace_headers and not options.trace_verbose
            )
        return Connection(self.edge)

    def connect_socket(self) -> socket.socket:
        """One end of a new connection from inside this process; may be called from any thread."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            self.loop.call_soon_threadsafe(self._accept_inside, ours)
        except RuntimeError:
            # The loop is closed: the server has stopped.
            ours.close()
            theirs.close()
            raise
        return theirs

    def _accept_inside(self, ours: socket.socket) -> None:
        # TLS protects a wire, and there is none.
        task = self.loop.create_task(self.loop.connect_accepted_socket(self._new_connection, ours))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    def _set_advertised_address(self) -> None:
        """What INFO tells clients: the address that was opened, or the one the operator says they should use."""
        options = self.broker.options
        options.host, options.port = self.host, self.port
        if self.options.client_advertise:
            try:
                options.host, options.port = split_host_port(self.options.client_advertise, self.port)
            except ValueError as error:
                value = self.options.client_advertise
                raise OptionsError(
                    f"Error setting server INFO with ClientAdvertise value of {value}, err={error}"
                ) from None

    # -- what others ask ---------------------------------------------------------------------------------------

    @property
    def host(self) -> str:
        return self._listener.host

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def http_port(self) -> int:
        """The port of monitoring, 0 when it is off."""
        return self._monitor.port if self._monitor is not None else 0

    @property
    def https_port(self) -> int:
        return self._monitor.secure_port if self._monitor is not None else 0

    @property
    def websocket_port(self) -> int:
        return self._websocket.port if self._websocket is not None else 0

    @property
    def client_url(self) -> str:
        return f"nats://{join_host_port(_reachable(self.host), self.port)}"

    @property
    def url(self) -> str:
        """The address clients use; the same name as on a server that `serve` runs."""
        return self.client_url

    @property
    def monitor_url(self) -> str:
        assert self._monitor is not None
        return f"http://{join_host_port(_reachable(self._monitor.host), self._monitor.port)}"

    @property
    def store_path(self) -> str:
        """Where the streams are, empty without JetStream."""
        return str(self._store.path) if self._store is not None else ""

    async def wait_stopped(self) -> None:
        await self._stopped.wait()

    # -- changing ----------------------------------------------------------------------------------------------

    def reload(self, options: Options) -> None:
        """Take over what may change while running: log, users, limits, renewed certificates.

        Raises OptionsError for anything else.
        """
        validate(options)
        self._refuse_fixed_changes(options)
        self._renew_certificates()
        if options.log_file != self.options.log_file or options.logtime != self.options.logtime:
            self.logger.replace(logger_from(options, self.clock))
        self.logger.is_debug, self.logger.is_trace = options.debug, options.trace
        self.options = options
        self.config_load_ns = self.edge.enter()
        self.edge.configure(options)
        self.gate.configure(options)
        settings = self.broker.options
        settings.max_payload = options.max_payload_bytes
        settings.max_control_line = options.max_control_line_bytes
        settings.max_subscriptions = options.max_subscriptions
        for connection in list(self.edge.connections.values()):
            self.edge.attempt(connection, partial(self._recheck, connection.session))
        self.edge.schedule()
        self.logger.info("Reloaded server configuration")

    def _recheck(self, session: Session) -> None:
        if session.accepted and not self.gate.recheck(session):
            session.reject()

    def _renew_certificates(self) -> None:
        """The files' names stay, what is in them may have been renewed."""
        renew(self._secure_context, self.options.tls)
        if self._monitor is not None:
            renew(self._monitor.secure_context, self.options.tls)
        if self._websocket is not None:
            renew(self._websocket.secure_context, self.options.websocket.tls)

    def _refuse_fixed_changes(self, options: Options) -> None:
        old, new = self.options, options
        for name in (
            "host",
            "port",
            "server_name",
            "http_port",
            "http_host",
            "jetstream",
            "tls",
            "websocket",
            "accounts",
        ):
            if getattr(old, name) != getattr(new, name):
                raise OptionsError(f"config reload not supported for {name}: restart the server to change it")

    # -- stopping ----------------------------------------------------------------------------------------------

    def enter_lame_duck(self) -> None:
        """Accept nobody, tell the clients, let them go one by one, then stop."""
        if self.is_lame_duck or self._is_stopping:
            return
        self.is_lame_duck = True
        task = self.loop.create_task(self._lame_duck())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _lame_duck(self) -> None:
        self.logger.info("Entering lame duck mode, stop accepting new clients")
        await self._accept_nobody()
        await self._finish_streams()
        connections = list(self.edge.connections.values())
        if connections:
            for connection in connections:
                if connection.session.protocol >= 1:
                    self.edge.attempt(connection, partial(connection.session.send_info, {"ldm": True}))
            self.edge.perform()
            grace_ns = self.options.lame_duck_grace_ns
            await asyncio.sleep(grace_ns / 1e9)
            self.logger.info("Closing existing clients")
            spread_s = (self.options.lame_duck_duration_ns - grace_ns) / 1e9
            await self._close_one_by_one(connections, spread_s)
        await self.stop()

    async def _accept_nobody(self) -> None:
        self._listener.stop()
        if self._websocket is not None:
            await self._websocket.refuse_new()

    async def _close_one_by_one(self, connections: list[Connection], spread_s: float) -> None:
        step_s = min(spread_s / len(connections), _LAME_DUCK_STEP_MAX_S)
        chance = random.Random()
        for connection in connections:
            self.edge.enter()
            self.edge.attempt(connection, partial(connection.session.close, "Server Shutdown"))
            self.edge.perform()
            if self.edge.connections:
                await asyncio.sleep(step_s * chance.uniform(0.5, 1.0))

    async def _finish_streams(self) -> None:
        """Answer waiting pulls and put everything decided so far on the disk."""
        if not self.broker.shutting_down:
            self.edge.enter()
            self.broker.shutdown()
        self.edge.perform()
        await self.edge.committed()

    async def stop(self) -> None:
        """Commit everything, tell the clients, close. Safe to call twice."""
        if self._is_stopping:
            await self._stopped.wait()
            return
        self._is_stopping = True
        self.logger.info("Initiating Shutdown...")
        await self._accept_nobody()
        for connection in list(self.edge.connections.values()):
            self.edge.attempt(connection, connection.transport.pause_reading)
        if self._store is not None:
            self.logger.info("Initiating JetStream Shutdown...")
        await self._finish_streams()
        if self._store is not None:
            self.logger.info("JetStream Shutdown")
        self.broker.close_all_sessions()
        self.edge.perform()
        await self.edge.emptied(_CLOSE_TIMEOUT_S)
        self.edge.close()
        await self._release()
        self.logger.info("Server Exiting..")
        self._stopped.set()

    async def _release(self) -> None:
        """Let go of everything the machine lent us; also after a start that failed half way."""
        if self._sync_timer is not None:
            self._sync_timer.cancel()
        if self._services is not None:
            self._services.events.stop()
        if self._websocket is not None:
            await self._websocket.stop()
        if self._committer is not None:
            await self.loop.run_in_executor(None, self._committer.close)
        if self._monitor is not None:
            await self._monitor.stop()
        self.gate.close()
        if isinstance(self._disk, FileDisk):
            self._disk.close()
        if self._store is not None:
            self._store.unlock()

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _tls_info(options: Options, tls: TlsOptions) -> dict[str, object]:
    """What INFO says about TLS."""
    if options.allow_non_tls:
        return {"tls_available": True}
    return {"tls_required": True, "tls_verify": True} if tls.verify else {"tls_required": True}


def _reachable(host: str) -> str:
    """An address a client on this machine can use for a server that listens on it."""
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
