# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""A connection to NATS: publish, subscribe, request, and the way to JetStream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from jetspark.client.core.connection import CONGESTED_BYTES
from jetspark.client.core.frames import pattern_bytes, queue_bytes
from jetspark.client.core.options import DEFAULT_URL, ConnectOptions, ConnectSettings, connect_options
from jetspark.client.core.routes import DROP_NEW, DROP_OLD
from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import (
    BadOptionError,
    ConnectionLostError,
    DrainTimeoutError,
    FlushTimeoutError,
    RequestTimeoutError,
)
from jetspark.client.headers import HeadersLike, header_block
from jetspark.client.sync.link import Link
from jetspark.client.sync.msg import Msg
from jetspark.client.sync.subscription import Subscription
from jetspark.client.telemetry import Telemetry, traced_headers

if TYPE_CHECKING:
    from jetspark.client.sync.jetstream import JetStream

# A subscription that falls this far behind starts to lose messages, and says so.
PENDING_COUNT_MAX = 512 * 1024
PENDING_BYTES_MAX = 128 * 1024 * 1024


class Connection:
    """A connection to a server, made by `connect`. Use it as a context manager, or close it."""

    def __init__(self, options: ConnectOptions) -> None:
        options.check()
        self._link = Link(options, Msg)
        self._publish = self._link.publish
        self._core = self._link.core
        self._draining = False
        self._telemetry: Telemetry | None = options.telemetry

    def publish(
        self, subject: str, data: bytes | str = b"", *, reply: str = "", headers: HeadersLike | None = None
    ) -> None:
        """Send a core NATS message to those who are subscribed now. It is not stored; for that, see
        `JetStream.publish`.
        """
        if reply or headers or isinstance(data, str) or self._telemetry is not None:
            body = data.encode() if isinstance(data, str) else data
            if self._telemetry is not None:
                headers = traced_headers(self._telemetry, subject, headers)
            self._publish(subject, self._core.subjects.literal(reply) if reply else b"", header_block(headers), body)
        else:
            self._publish(subject, b"", b"", data)
        if self._core.out_bytes > CONGESTED_BYTES:
            self._link.drain()

    def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        callback: Callable[[Msg], Any] | None = None,
        pending_count_max: int = PENDING_COUNT_MAX,
        pending_bytes_max: int = PENDING_BYTES_MAX,
        when_full: str = DROP_NEW,
    ) -> Subscription:
        """Subscribe to a subject; wildcards are allowed. In a queue group, each message goes to one member only."""
        if when_full not in (DROP_NEW, DROP_OLD):
            raise BadOptionError(f"when_full is {DROP_NEW!r} or {DROP_OLD!r}")
        link = self._link
        with link.guard:
            inbox = link.core.add_inbox(pattern_bytes(subject), queue_bytes(queue), link)
            inbox.count_max = pending_count_max
            inbox.bytes_max = pending_bytes_max
            inbox.when_full = when_full
        return Subscription(link, inbox, callback)

    def request(
        self,
        subject: str,
        data: bytes | str = b"",
        *,
        timeout: Seconds | None = None,
        headers: HeadersLike | None = None,
    ) -> Msg:
        """Send a message and wait for one answer."""
        body = data.encode() if isinstance(data, str) else data
        timeout_s = None if timeout is None else seconds(timeout)
        if self._telemetry is not None:
            headers = traced_headers(self._telemetry, subject, headers)
        answer: Msg = self._link.request(subject, header_block(headers), body, timeout_s)
        return answer

    def flush(self, timeout: Seconds | None = None) -> None:
        """Wait until the server has read everything sent so far."""
        self._link.flush(self._link.options.request_timeout if timeout is None else seconds(timeout))

    def rtt(self, timeout: Seconds | None = None) -> float:
        """The round-trip time to the server, in seconds."""
        started_s = self._link.now()
        self.flush(timeout)
        return self._link.now() - started_s

    def jetstream(
        self, *, domain: str = "", api_prefix: str = "", timeout: Seconds | None = None, publish_window: int = 0
    ) -> JetStream:
        """The JetStream API on this connection: streams, consumers, buckets."""
        from jetspark.client.sync.jetstream import JetStream

        return JetStream(self, domain=domain, api_prefix=api_prefix, timeout=timeout, publish_window=publish_window)

    def new_inbox(self) -> str:
        """A new unique subject for replies."""
        with self._link.guard:
            return self._link.core.new_inbox_subject().decode()

    def drain(self, timeout: Seconds | None = None) -> None:
        """Process what has arrived, send what is queued, then close.

        Subscriptions and consumers are drained as by their own `drain`: callbacks finish what was delivered, and
        consumers that a subscription made are removed. Iterators are not waited for. Publishes get their
        acknowledgement or error. If the connection is down, drain waits for it. DrainTimeoutError when the time is not
        enough.
        """
        link = self._link
        timeout_s = link.options.drain_timeout if timeout is None else seconds(timeout)
        self._draining = True
        try:
            if not link.is_closed:
                self._finish(link.now() + timeout_s)
        finally:
            self.close()

    def _finish(self, deadline_s: float) -> None:
        link = self._link
        late: RequestTimeoutError | None = None
        self._wait_up(deadline_s)
        with link.guard:
            receivers = list(link.receivers)
        for receiver in receivers:
            try:
                receiver._leave(max(0.01, deadline_s - link.now()))
            except RequestTimeoutError as error:
                # The others still get what is possible.
                late = late or error
        if not link.wait_acked(max(0.01, deadline_s - link.now())):
            raise DrainTimeoutError(f"{len(link.core.acks.waiting)} publishes were not acknowledged in time")
        self._flush_last(deadline_s)
        if late is not None:
            raise late if isinstance(late, DrainTimeoutError) else DrainTimeoutError(str(late))

    def _flush_last(self, deadline_s: float) -> None:
        """What was queued reaches a server, on this connection or on the next."""
        link = self._link
        while True:
            self._wait_up(deadline_s)
            try:
                link.flush(max(0.01, deadline_s - link.now()))
                return
            except FlushTimeoutError as error:
                raise DrainTimeoutError(str(error)) from None
            except ConnectionLostError:
                continue

    def _wait_up(self, deadline_s: float) -> None:
        if not self._link.wait_up(max(0.0, deadline_s - self._link.now())):
            raise DrainTimeoutError(f"not connected, with {self._core.unsent_bytes} bytes still to be sent")

    def close(self) -> None:
        """Close for good. Waiting requests fail with ConnectionClosedError; the error of a waiting publish says whether
        the message may be stored.
        """
        self._link.close(None)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def is_connected(self) -> bool:
        """Whether the connection is up now."""
        return self._link.is_up

    @property
    def is_closed(self) -> bool:
        """Whether the connection was closed for good."""
        return self._link.is_closed

    @property
    def is_draining(self) -> bool:
        """Whether `drain` was called."""
        return self._draining

    @property
    def is_lame_duck(self) -> bool:
        """Whether the server has announced that it will stop."""
        return self._core.is_lame_duck

    @property
    def server_info(self) -> dict[str, Any]:
        """The INFO document of the server."""
        return dict(self._core.info)

    @property
    def server_version(self) -> str:
        """The server's version."""
        return str(self._core.info.get("version", ""))

    @property
    def max_payload(self) -> int:
        """The largest message that the server accepts, in bytes."""
        return self._core.payload_size_max

    @property
    def connected_url(self) -> str:
        """The address of the server; empty when not connected."""
        address = self._link.address
        return address.url if address is not None and self._link.is_up else ""

    @property
    def discovered_servers(self) -> list[str]:
        """The addresses learned from the cluster."""
        return [address.url for address in self._link.pool.addresses if address.discovered]

    @property
    def reconnect_count(self) -> int:
        """How often the connection was restored."""
        return max(0, self._core.epoch - 1)

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait to be sent."""
        return self._core.unsent_bytes

    @property
    def last_error(self) -> BaseException | None:
        """Why the connection was closed, if not by `close`."""
        return self._core.close_error


def connect(servers: str | list[str] = DEFAULT_URL, **options: Unpack[ConnectSettings]) -> Connection:
    """Connect to a NATS server, to one of several, or (with `server=`) to one inside this process.

        connection = connect("nats://127.0.0.1:4222", name="billing")

    Raises an error at once when no server answers or the credentials are refused. Later, a lost connection is restored
    by itself, without a time limit. Addresses begin with `nats://`, `tls://`, `ws://` or `wss://`. Durations are
    seconds or timedelta. In parentheses: the defaults.

    - Credentials, one kind of them: `user` and `password`; `token`; `nkey_seed` or `nkey_seed_file`;
      `credentials_file`; `jwt` (with `nkey_seed`, unless it is a bearer token). A secret may be a function, which is
      called at every connect.
    - Name: `name` is shown in the server's monitoring.
    - TLS and protocol: `tls` (True, or an SSLContext), `tls_hostname`, `tls_first`, `websocket_headers`, `inbox_prefix`
      ("_INBOX"), `echo` (True: you receive your own messages too), `verbose`, `pedantic`.
    - Timeouts: `connect_timeout` (2), `request_timeout` (5), `publish_timeout` (5), `drain_timeout` (30),
      `ping_interval` (120) and `ping_outstanding_max` (2).
    - Reconnecting: `allow_reconnect` (True), `reconnect_attempts_max` (-1: no limit), `reconnect_wait` (0.1), growing
      to `reconnect_wait_max` (5) with jitter, `retry_first_connect` (False), `randomize_servers` (True),
      `ignore_discovered_servers` (False).
    - Buffers: `pending_bytes_max` (8 MiB) of output while disconnected, `publish_window` (4000) unacknowledged messages
      of `publish_async`.
    - Callbacks: `on_error(error)`, `on_disconnect()`, `on_reconnect()`, `on_close()`, `on_lame_duck()`,
      `on_discovered_server(url)`. With asyncio they may be coroutine functions.
    - Tracing: `telemetry`, for example `OpenTelemetry()`.
    """
    connection = Connection(connect_options(servers, options))
    connection._link.open()
    return connection
