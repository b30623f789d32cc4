"""Who is looking at the dashboard: HTTP's credentials, proved to the server as a client proves them.

Decided here: that a name and password (or a token in the place of the password) are those of the server's own users,
that what a viewer sees is his account's and what his permissions let him ask for, and how long a login is remembered.
Not known here: what is on the page.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, Final

from jetspark.broker.account import Account
from jetspark.broker.session import Session
from jetspark.server.dashboard.inner_client import InnerClient, LoginRefused

if TYPE_CHECKING:
    from jetspark.server.server import Server

_IDLE_NS: Final = 120_000_000_000
_LOGINS_MAX: Final = 64
_TIDY_S: Final = 30.0
# From one address logins are tried one after the other, a wrong one takes this long, and this many may wait.
_REFUSED_S: Final = 0.25
GUESSES_MAX: Final = 8


class Viewer:
    """Somebody who was let in."""

    def __init__(self, server: Server, client: InnerClient, session: Session) -> None:
        self._server = server
        self.client = client
        self.account: Account = session.account
        self.user = session.user_name
        self._permissions = session.permissions
        self.used_ns = 0

    @property
    def is_gone(self) -> bool:
        """The connection ended, or the users were read again and this one is another now."""
        session = self.client.session(self._server)
        if self.client.is_closed or session is None or session.closing:
            return True
        self._permissions = session.permissions
        return False

    def may_ask(self, subject: str) -> bool:
        """Do this viewer's permissions let him send this request?"""
        return self._permissions is None or self._permissions.can_publish(subject.encode())

    @property
    def payload_bytes_max(self) -> int:
        return int(self._server.broker.options.max_payload)

    @property
    def is_restricted(self) -> bool:
        return self._permissions is not None

    @property
    def sees_server(self) -> bool:
        """Totals of the whole server are for its operators where accounts keep tenants apart."""
        options = self._server.options
        return not options.accounts or self.account.name == options.system_account

    @property
    def is_operator(self) -> bool:
        return self.account.name == self._server.options.system_account


class TooManyGuesses(Exception):
    """More logins from one address than may wait."""


class _Gate:
    """Where the logins of one address wait for each other."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0


class Logins:
    """Viewers by what they sent, so that a page of twenty requests logs in once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._viewers: dict[bytes, Viewer] = {}
        self._under_way: dict[bytes, asyncio.Task[Viewer]] = {}
        self._gates: dict[str, _Gate] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tidying: asyncio.Task[None] | None = None

    async def viewer(self, authorization: str, address: str) -> Viewer:
        """The viewer behind an Authorization header (empty: none was sent). Raises LoginRefused and TooManyGuesses."""
        # Bytes that are no UTF-8 come as escapes.
        key = hashlib.sha256(authorization.encode("utf-8", "surrogateescape")).digest()
        known = self._viewers.get(key)
        if known is None or known.is_gone:
            credentials = self._credentials(authorization)
            task = self._under_way.get(key)
            if task is None:
                task = asyncio.get_running_loop().create_task(self._login(key, credentials, address))
                self._under_way[key] = task
            # A page asks for many things at once; whoever hangs up does not take the login from the others.
            known = await asyncio.shield(task)
        known.used_ns = self._server.clock.monotonic_ns()
        return known

    def _credentials(self, authorization: str) -> dict[str, str]:
        options = self._server.options
        if not options.is_auth_required:
            return {}
        if not authorization:
            if options.no_auth_user:
                return {}
            raise LoginRefused("a user and password of this server are needed")
        name, password = parse_basic(authorization)
        if not password:
            # Users who prove themselves by a certificate or a key have none, and cannot do that here.
            raise LoginRefused("a password is needed")
        return {"user": name, "pass": password, "auth_token": password}

    async def _login(self, key: bytes, credentials: dict[str, str], address: str) -> Viewer:
        try:
            await self._forget_idle()
            client = await self._through_the_gate(credentials, address)
        finally:
            del self._under_way[key]
        session = client.session(self._server)
        if session is None:
            await client.close()
            raise LoginRefused("the server closed the connection")
        viewer = self._viewers[key] = Viewer(self._server, client, session)
        self._tidy_later()
        return viewer

    async def _through_the_gate(self, credentials: dict[str, str], address: str) -> InnerClient:
        """Log in; whoever guesses waits for his last guess first."""
        if not credentials:
            return await InnerClient.login(self._server, credentials)
        gate = self._gates.setdefault(address, _Gate())
        if gate.waiting >= GUESSES_MAX:
            raise TooManyGuesses
        gate.waiting += 1
        try:
            async with gate.lock:
                try:
                    return await InnerClient.login(self._server, credentials)
                except LoginRefused:
                    await asyncio.sleep(_REFUSED_S)
                    raise
        finally:
            gate.waiting -= 1
            if not gate.waiting:
                self._gates.pop(address, None)

    def _tidy_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TIDY_S, self._tidy)

    def _tidy(self) -> None:
        self._timer = None
        self._tidying = asyncio.get_running_loop().create_task(self._forget_idle())
        self._tidy_later()

    async def _forget_idle(self) -> None:
        now_ns = self._server.clock.monotonic_ns()
        by_age = sorted(self._viewers.items(), key=lambda item: item[1].used_ns)
        crowd = max(0, len(by_age) - _LOGINS_MAX + 1)
        for position, (key, viewer) in enumerate(by_age):
            if position < crowd or viewer.is_gone or now_ns - viewer.used_ns > _IDLE_NS:
                self._viewers.pop(key, None)
                await viewer.client.close()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._under_way.values()):
            task.cancel()
        viewers, self._viewers = self._viewers, {}
        for viewer in viewers.values():
            await viewer.client.close()


def parse_basic(authorization: str) -> tuple[str, str]:
    """Name and password of a Basic Authorization header; raises LoginRefused for anything else."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        known = scheme if scheme.isascii() and scheme else "this"
        raise LoginRefused(f"{known} is not a way to log in here: use a user and a password")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        raise LoginRefused("the Authorization header cannot be read") from None
    name, _, password = text.partition(":")
    return name, password
