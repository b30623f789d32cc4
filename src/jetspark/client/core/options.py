"""How to connect: every setting of a connection in one place, checked.

Knows nothing of sockets; credentials that need reading or signing are callables given by the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import BadOptionError

DEFAULT_URL = "nats://127.0.0.1:4222"

Secret = str | Callable[[], str]

_DURATIONS = (
    "connect_timeout",
    "request_timeout",
    "drain_timeout",
    "ping_interval",
    "reconnect_wait",
    "reconnect_wait_max",
    "publish_timeout",
)


class ConnectSettings(TypedDict, total=False):
    """The keywords of `connect`, for type checkers: the fields of ConnectOptions but for `servers`."""

    name: str
    user: Secret
    password: Secret
    token: Secret
    nkey_seed: str
    nkey_seed_file: str
    credentials_file: str
    jwt: Secret
    tls: Any
    tls_hostname: str
    tls_first: bool
    websocket_headers: dict[str, str] | None
    inbox_prefix: str
    echo: bool
    verbose: bool
    pedantic: bool
    connect_timeout: Seconds
    request_timeout: Seconds
    drain_timeout: Seconds
    ping_interval: Seconds
    ping_outstanding_max: int
    allow_reconnect: bool
    reconnect_attempts_max: int
    reconnect_wait: Seconds
    reconnect_wait_max: Seconds
    retry_first_connect: bool
    randomize_servers: bool
    ignore_discovered_servers: bool
    pending_bytes_max: int
    publish_window: int
    publish_timeout: Seconds
    server: Any
    on_error: Callable[[BaseException], Any] | None
    on_disconnect: Callable[[], Any] | None
    on_reconnect: Callable[[], Any] | None
    on_close: Callable[[], Any] | None
    on_lame_duck: Callable[[], Any] | None
    on_discovered_server: Callable[[str], Any] | None
    telemetry: Any


@dataclass(kw_only=True)
class ConnectOptions:
    """Settings of one connection; seconds unless the name says otherwise."""

    servers: str | list[str] = DEFAULT_URL
    name: str = ""
    # Credentials: at most one kind.
    user: Secret = ""
    password: Secret = ""
    token: Secret = ""
    nkey_seed: str = ""
    nkey_seed_file: str = ""
    credentials_file: str = ""
    jwt: Secret = ""
    # Wire.
    tls: Any = None
    tls_hostname: str = ""
    tls_first: bool = False
    websocket_headers: dict[str, str] | None = None
    inbox_prefix: str = "_INBOX"
    echo: bool = True
    verbose: bool = False
    pedantic: bool = False
    # Waiting.
    connect_timeout: float = 2.0
    request_timeout: float = 5.0
    drain_timeout: float = 30.0
    ping_interval: float = 120.0
    ping_outstanding_max: int = 2
    # Reconnecting.
    allow_reconnect: bool = True
    reconnect_attempts_max: int = -1
    reconnect_wait: float = 0.1
    reconnect_wait_max: float = 5.0
    retry_first_connect: bool = False
    randomize_servers: bool = True
    ignore_discovered_servers: bool = False
    # Buffers.
    pending_bytes_max: int = 8 * 1024 * 1024
    publish_window: int = 4000
    publish_timeout: float = 5.0
    # In-process: an embedded server instead of a socket.
    server: Any = None
    # Hooks.
    on_error: Callable[[BaseException], Any] | None = None
    on_disconnect: Callable[[], Any] | None = None
    on_reconnect: Callable[[], Any] | None = None
    on_close: Callable[[], Any] | None = None
    on_lame_duck: Callable[[], Any] | None = None
    on_discovered_server: Callable[[str], Any] | None = None
    telemetry: Any = None

    @property
    def may_offer_other_secrets(self) -> bool:
        """A function or a file may give another secret the next time, so a refusal is not final."""
        secrets = (self.user, self.password, self.token, self.jwt)
        return bool(self.nkey_seed_file or self.credentials_file) or any(callable(secret) for secret in secrets)

    def check(self) -> None:
        """Refuse what cannot work, before anything is opened."""
        kinds = [
            bool(self.user or self.password),
            bool(self.token),
            bool(self.nkey_seed or self.nkey_seed_file) and not self.jwt,
            bool(self.credentials_file or self.jwt),
        ]
        if sum(kinds) > 1:
            raise BadOptionError("give one kind of credentials: user and password, token, nkey, or credentials")
        for option in ("connect_timeout", "request_timeout", "drain_timeout", "ping_interval", "publish_timeout"):
            if getattr(self, option) <= 0:
                raise BadOptionError(f"{option} must be above zero")
        if self.reconnect_wait < 0 or self.reconnect_wait_max < self.reconnect_wait:
            raise BadOptionError("reconnect_wait must be at least zero and at most reconnect_wait_max")
        if self.publish_window < 1:
            raise BadOptionError("publish_window must be at least 1")
        prefix = self.inbox_prefix
        if (
            not prefix
            or any(c in " \t\r\n*>" for c in prefix)
            or ".." in prefix
            or prefix[0] == "."
            or prefix[-1] == "."
        ):
            raise BadOptionError(f"not an inbox prefix: {prefix!r}")


def connect_options(servers: str | list[str], settings: Mapping[str, Any]) -> ConnectOptions:
    """The options as a caller of `connect` gives them."""
    values = dict(settings)
    for name in _DURATIONS:
        if name in values:
            values[name] = seconds(values[name])
    return ConnectOptions(servers=servers, **values)
