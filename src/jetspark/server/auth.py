"""Who may come in, and as whom: tokens, passwords, nkeys and the user for those who say nothing.

Decided here: whether a CONNECT proves what it claims, and which account and permissions follow. Passwords kept as
bcrypt hashes are checked on another thread, because one check takes longer than a thousand messages.
Not known here: what a permission allows (`broker.permissions`), and the wire.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import bcrypt

from jetspark.broker.gate import ACCEPT, PENDING, REJECT, Gate
from jetspark.broker.permissions import Permissions
from jetspark.broker.session import Session
from jetspark.server.identity import PREFIX_USER, decode_key, is_signature_valid, new_nonce
from jetspark.server.options import GLOBAL_ACCOUNT, Options, PermissionOptions, UserOptions

_BCRYPT: Final = re.compile(r"\$2[abxy]\$\d{2}\$.*")
# Two threads: a flood of wrong passwords must not keep more than the machine's second core busy.
_BCRYPT_THREADS: Final = 2
_CONNECTION_TYPES: Final = {"nats": "STANDARD", "websocket": "WEBSOCKET"}


def is_bcrypt(secret: str) -> bool:
    return _BCRYPT.fullmatch(secret) is not None


def permissions_from(options: PermissionOptions | None) -> Permissions | None:
    """The broker's form of a user's permissions; None when nothing is restricted."""
    if options is None:
        return None
    permissions = Permissions(
        _encoded(options.publish_allow),
        [subject.encode() for subject in options.publish_deny],
        _encoded(options.subscribe_allow),
        [subject.encode() for subject in options.subscribe_deny],
    )
    if options.responses_max != 0:
        permissions.allow_responses = True
        permissions.responses_max = options.responses_max
        permissions.responses_expires_ns = options.responses_expire_ns
    return permissions


def _encoded(subjects: list[str] | None) -> list[bytes] | None:
    return None if subjects is None else [subject.encode() for subject in subjects]


class ServerGate(Gate):
    """The gate of a configured server."""

    def __init__(self, options: Options, loop: asyncio.AbstractEventLoop, random_bytes: Callable[[int], bytes]) -> None:
        super().__init__()
        self._loop = loop
        self._random_bytes = random_bytes
        self._executor: ThreadPoolExecutor | None = None
        # Called after a late answer, so that what it released is performed.
        self.on_late_answer: Callable[[Session], None] = lambda session: None
        # Names from client certificates, by session, for those who log in with one.
        self._certificate_names: dict[int, list[str]] = {}
        # Told about every refusal, for the log.
        self.on_refusal: Callable[[Session, str], None] = lambda session, who: None
        self.configure(options)

    def configure(self, options: Options) -> None:
        """Take the users of these options from now on."""
        self._token = options.token
        self._single = UserOptions(name=options.username, password=options.password)
        self._users = {user.name: user for user in options.users if user.name}
        self._nkeys = {user.nkey: user for user in options.users if user.nkey}
        self._no_auth_user = self._find(options.no_auth_user) if options.no_auth_user else None
        self._is_open = not options.is_auth_required
        self._connections_max = {
            name: account.max_connections for name, account in options.accounts.items() if account.max_connections >= 0
        }

    def _find(self, name: str) -> UserOptions | None:
        return self._users.get(name) or self._nkeys.get(name)

    def present_certificate(self, session: Session, names: list[str]) -> None:
        """The client proved these names in its TLS handshake; they stand in for a password."""
        self._certificate_names[session.session_id] = names

    def forget(self, session: Session) -> None:
        self._certificate_names.pop(session.session_id, None)

    def required(self) -> bool:
        return not self._is_open and self._no_auth_user is None

    def welcome(self, session: Session) -> None:
        """A connection was made: what it is before it says CONNECT."""
        if self._nkeys:
            session.nonce = new_nonce(self._random_bytes)
        if self._no_auth_user is not None:
            self._admit(session, self._no_auth_user)
            session.account = session.broker.account(session.account_name)

    def authenticate(self, session: Session, connect: dict[str, Any]) -> int:
        if not session.rtt_ns:
            # The time from our INFO to its CONNECT is a first guess; PINGs will make it better.
            session.rtt_ns = session.broker.now_ns - session.start_ns
        if self._is_open:
            return ACCEPT
        names = self._certificate_names.get(session.session_id)
        if names is not None:
            return self._check_certificate(session, connect, names)
        user, secret = self._claim(connect)
        if user is None:
            return self._refuse(session, connect)
        if user.connection_types and _CONNECTION_TYPES[session.kind] not in user.connection_types:
            return self._refuse(session, connect)
        if user.account in self._connections_max and self._is_account_full(session, user.account):
            # Pending for ever: the answer has been given and the session is on its way out.
            return PENDING
        if user is self._no_auth_user and secret is None:
            self._admit(session, user)
            return ACCEPT
        if user.nkey:
            return self._check_nkey(session, connect, user)
        return self._check_password(session, connect, user, secret or "")

    def _check_password(self, session: Session, connect: dict[str, Any], user: UserOptions, secret: str) -> int:
        if is_bcrypt(user.password):
            self._check_later(session, connect, user, secret)
            return PENDING
        if hmac.compare_digest(user.password.encode(), secret.encode()):
            self._admit(session, user)
            return ACCEPT
        return self._refuse(session, connect)

    def _is_account_full(self, session: Session, account: str) -> bool:
        others = sum(
            1 for other in session.broker.sessions.values() if other.account_name == account and other is not session
        )
        if others < self._connections_max[account]:
            return False
        session.send_error("maximum account active connections exceeded")
        session.close("Maximum Account Connections Exceeded")
        return True

    def _claim(self, connect: dict[str, Any]) -> tuple[UserOptions | None, str | None]:
        """Which user the client says it is, and its proof; no proof at all for the user of the silent."""
        name, password = str(connect.get("user") or ""), str(connect.get("pass") or "")
        token, nkey = str(connect.get("auth_token") or ""), str(connect.get("nkey") or "")
        if self._token:
            return UserOptions(password=self._token), token
        if not (name or password or token or nkey) and self._no_auth_user is not None:
            return self._no_auth_user, None
        if nkey:
            return self._nkeys.get(nkey), ""
        if self._single.name or self._single.password:
            return (self._single if name == self._single.name else None), password
        return self._users.get(name), password

    def _check_certificate(self, session: Session, connect: dict[str, Any], names: list[str]) -> int:
        for name in names:
            user = self._users.get(name)
            if user is not None:
                self._admit(session, user)
                return ACCEPT
        return self._refuse(session, connect)

    def _check_nkey(self, session: Session, connect: dict[str, Any], user: UserOptions) -> int:
        key = decode_key(PREFIX_USER, user.nkey)
        signature = str(connect.get("sig") or "")
        if key is None or not session.nonce or not is_signature_valid(key, session.nonce, signature):
            return self._refuse(session, connect)
        self._admit(session, user)
        return ACCEPT

    def _check_later(self, session: Session, connect: dict[str, Any], user: UserOptions, secret: str) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(_BCRYPT_THREADS, thread_name_prefix="jetspark-bcrypt")
        answer = self._loop.run_in_executor(self._executor, _bcrypt_matches, user.password, secret)

        def decided(future: asyncio.Future[bool]) -> None:
            if future.cancelled() or session.closed:
                return
            accepted = future.result()
            try:
                if accepted:
                    self._admit(session, user)
                else:
                    self._refuse(session, connect)
                session.auth_result(accepted)
            except Exception as error:  # noqa: BLE001 - what follows CONNECT is read in here, and may be anything
                session.fail(error)
            self.on_late_answer(session)

        answer.add_done_callback(decided)

    def _admit(self, session: Session, user: UserOptions) -> None:
        session.user_name = user.name or user.nkey
        session.account_name = user.account
        session.permissions = permissions_from(user.permissions)

    def _refuse(self, session: Session, connect: dict[str, Any]) -> int:
        self.on_refusal(session, str(connect.get("user") or connect.get("nkey") or ""))
        return REJECT

    def recheck(self, session: Session) -> bool:
        """After the users were read again: may this session stay? Its permissions are brought up to date."""
        if self._is_open:
            self._permit(session, None)
            return True
        connect = session.connect_options
        user, secret = self._claim(connect)
        if user is None or user.account != (session.account_name or GLOBAL_ACCOUNT):
            return False
        # A hash cannot be checked again without its password's cost; the session proved it once already.
        is_proven = secret is None or bool(user.nkey) or is_bcrypt(user.password) or user.password == secret
        if is_proven:
            self._permit(session, user.permissions)
        return is_proven

    def _permit(self, session: Session, permissions: PermissionOptions | None) -> None:
        session.permissions = permissions_from(permissions)
        session.guarded = session.verbose or session.pedantic or permissions is not None

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


def _bcrypt_matches(stored: str, secret: str) -> bool:
    try:
        # bcrypt reads 72 bytes; a longer password was cut when the hash was made, too.
        return bcrypt.checkpw(secret.encode()[:72], stored.encode())
    except ValueError:
        return False
