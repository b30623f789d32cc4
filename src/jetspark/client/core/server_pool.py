"""Which server to try next, and how long to wait before trying.

The pool holds what the user gave and what servers told (INFO connect_urls). Addresses are tried in turn; after a
whole round has failed the wait doubles up to a bound, with jitter so that clients do not return all at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import unquote, urlsplit

from jetspark.client.errors import (
    BadOptionError,
    ConnectionLostError,
    ConnectTimeoutError,
    JetsparkError,
    ProtocolError,
    RequestTimeoutError,
    SecureConnectionError,
    ServerError,
)

DEFAULT_PORT: Final = 4222
_PORTS: Final = {"nats": 4222, "tls": 4222, "ws": 80, "wss": 443}
# The same refusal twice from one server will not change by asking a third time.
AUTH_REFUSALS_MAX: Final = 2
# The ways a try can fail that another server, or a later try, may not.
DIAL_ERRORS: Final = (
    OSError,
    ConnectTimeoutError,
    ConnectionLostError,
    SecureConnectionError,
    ProtocolError,
    RequestTimeoutError,
    ServerError,
)
# Once a connection has worked, whatever goes wrong on the way back is worth another try: a garbled INFO, too.
REDIAL_ERRORS: Final = (OSError, JetsparkError, ValueError, TypeError)


class ServerAddress:
    """One server of the pool."""

    def __init__(self, scheme: str, host: str, port: int) -> None:
        self.scheme = scheme
        self.host = host
        self.port = port
        self.path: str = ""
        self.user: str = ""
        self.password: str = ""
        self.token: str = ""
        self.discovered: bool = False
        self.failure_count: int = 0
        self.auth_refusal_count: int = 0

    @property
    def key(self) -> str:
        """The same server under the same key."""
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """To show; without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    @property
    def wants_tls(self) -> bool:
        """The scheme asks for it."""
        return self.scheme in ("tls", "wss")

    @property
    def is_websocket(self) -> bool:
        """NATS inside a websocket."""
        return self.scheme in ("ws", "wss")


def parse_address(text: str, scheme: str = "nats") -> ServerAddress:
    """Read `nats://user:password@host:port`, `host:port`, `tls://…`, `ws://…/path`."""
    text = text.strip()
    if "://" not in text:
        text = f"{scheme}://{text}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadOptionError(f"not a server address: {text!r} ({error})") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise BadOptionError(f"not a server address: {text!r}")
    address = ServerAddress(parts.scheme, parts.hostname, port or _PORTS[parts.scheme])
    if address.is_websocket:
        address.path = parts.path
    if parts.username:
        if parts.password is None:
            address.token = unquote(parts.username)
        else:
            address.user = unquote(parts.username)
            address.password = unquote(parts.password)
    return address


class ServerPool:
    """The servers of one connection, in the order they will be tried."""

    def __init__(self, urls: str | list[str], shuffle: Callable[[list[ServerAddress]], None] | None) -> None:
        texts = urls.split(",") if isinstance(urls, str) else urls
        self.addresses: list[ServerAddress] = [parse_address(text) for text in texts if text.strip()]
        if not self.addresses:
            raise BadOptionError("no server address given")
        # Credentials in one address serve the others, as with nats-server's own clients.
        for address in self.addresses:
            source = self.addresses[0]
            if not address.user and not address.token:
                address.user, address.password, address.token = source.user, source.password, source.token
        if shuffle is not None:
            shuffle(self.addresses)
        self._position: int = -1

    def next(self) -> ServerAddress:
        """The next one to try, round and round."""
        self._position = (self._position + 1) % len(self.addresses)
        return self.addresses[self._position]

    def discovered(self, urls: list[str], scheme: str) -> list[str]:
        """Servers told by INFO; the ones that are new."""
        known = {address.key for address in self.addresses}
        fresh: list[str] = []
        for url in urls:
            address = parse_address(url, scheme)
            if address.key in known:
                continue
            first = self.addresses[0]
            address.user, address.password, address.token = first.user, first.password, first.token
            address.discovered = True
            self.addresses.append(address)
            known.add(address.key)
            fresh.append(address.url)
        # A discovered server that left the cluster and cannot be reached is forgotten.
        told = {parse_address(url, scheme).key for url in urls}
        if told:
            current = self.addresses[self._position] if self._position >= 0 else None
            self.addresses = [
                address
                for address in self.addresses
                if not address.discovered or address.key in told or address is current or not address.failure_count
            ]
            if current is not None:
                self._position = self.addresses.index(current)
        return fresh


def reconnect_delay_s(attempt: int, pool_size: int, wait_s: float, wait_max_s: float, random: float) -> float:
    """How long before attempt number `attempt` (from 0); `random` is in [0, 1).

    The first try of each other server comes at once: one server's failure says nothing of the others.
    """
    rounds = attempt // max(1, pool_size)
    if attempt == 0 or (rounds == 0 and pool_size > 1):
        return 0.0
    bound = min(wait_max_s, wait_s * (2.0 ** min(rounds, 16)))
    return bound * (0.5 + 0.5 * random)
