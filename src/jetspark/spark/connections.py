"""Connections of a worker process: made once for each set of connection options, kept, and dropped when of no use.

Spark runs many small tasks in few Python processes, so a connection outlives the task that made it. One is dropped when
it is dead, when the process turns out to be a fork, or when it was not asked for in a while (looked at on the next
call; Spark itself ends idle workers). Decides also how a first connection is retried. What is said over a connection is
not known here.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from jetspark.client.api_errors import JetStreamDisabledError, UnavailableError
from jetspark.client.errors import (
    AuthorizationError,
    BadOptionError,
    ConnectionFailure,
    NoRespondersError,
    PublishTimeoutError,
    PublishUnknownError,
    RequestTimeoutError,
)
from jetspark.spark.options import CONNECTION_OPTIONS, TLS_OPTIONS, Options

if TYPE_CHECKING:
    from jetspark.client.sync import Connection, JetStream

log = logging.getLogger("jetspark.spark")

RETRY_WAIT_MAX_S = 10.0
RECONNECT_WAIT_S = 0.1
RECONNECT_WAIT_MAX_S = 2.0
# What may be better in a moment. A refusal (ApiError) is an answer, and no reason to ask again, but for a cluster that
# has no leader at the moment.
TRANSIENT_ERRORS: tuple[type[Exception], ...] = (
    ConnectionFailure,
    RequestTimeoutError,
    NoRespondersError,
    PublishTimeoutError,
    PublishUnknownError,
    UnavailableError,
)

# Each stands for a kind of credentials.
_CREDENTIALS = ("user", "token", "credentialsFile", "nkeySeedFile", "nkeySecret", "jwtToken")
_CONNECTION_KEYS = tuple(option.key for option in CONNECTION_OPTIONS)
Answer = TypeVar("Answer")


class _Kept:
    """A connection, who made it and when it was last asked for."""

    def __init__(self, client: Connection) -> None:
        self.client = client
        self.process_id = os.getpid()
        self.used_s = time.monotonic()
        self.task_id = _task_id()


_KEPT: dict[tuple[Any, ...], _Kept] = {}


def connection(options: Options) -> Connection:
    """The worker's connection for these options, made when there is none. Ask again for every task; do not close it."""
    return retrying(options, lambda: _current(options))


def jetstream(options: Options) -> JetStream:
    """JetStream through the worker's connection, in the domain the options name."""
    return _jetstream(connection(options), options)


def ask(options: Options, question: Callable[[JetStream], Answer]) -> Answer:
    """Ask the server something, again on a new connection when the old one is lost.

    The answer may be lost after the server has acted, so asking twice must do no more than asking once.
    """
    return retrying(options, lambda: question(_jetstream(_current(options), options)))


def _current(options: Options) -> Connection:
    key = tuple(options[name] for name in _CONNECTION_KEYS)
    _drop_useless()
    kept = _KEPT.get(key)
    if kept is None:
        kept = _KEPT[key] = _Kept(new_connection(options))
    kept.used_s, kept.task_id = time.monotonic(), _task_id()
    return kept.client


def _jetstream(client: Connection, options: Options) -> JetStream:
    return client.jetstream(
        domain=options["domain"], api_prefix=options["apiPrefix"], timeout=options["requestTimeoutMs"]
    )


def retrying(options: Options, ask: Callable[[], Answer]) -> Answer:
    """Do it, and again after a wait while only the transport fails; the last failure is raised."""
    wait_s = options["retryIntervalMs"]
    for left in range(options["numRetries"], -1, -1):
        try:
            return ask()
        except TRANSIENT_ERRORS as error:
            if not left or is_final(error):
                raise
            log.warning("%s; trying again in %g s, %d times more", error, wait_s, left)
            time.sleep(wait_s)
            wait_s = min(RETRY_WAIT_MAX_S, wait_s * 2)
    raise AssertionError("the last try returns or raises")


def is_final(error: Exception) -> bool:
    """Who is refused, does not trust the server's certificate or has no JetStream, is told the same in a moment."""
    is_refused = isinstance(error, (AuthorizationError, JetStreamDisabledError))
    return is_refused or isinstance(error.__cause__, ssl.SSLCertVerificationError)


def drop_all() -> None:
    """Close every connection of this process."""
    for key in list(_KEPT):
        _drop(key)


def _drop_useless() -> None:
    now_s, task_id = time.monotonic(), _task_id()
    idle_place = _CONNECTION_KEYS.index("idleconnectionms")
    for key, kept in list(_KEPT.items()):
        # A connection of the running task may be in the middle of something, however long ago it was asked for.
        is_idle = now_s - kept.used_s > key[idle_place] and (task_id is None or kept.task_id != task_id)
        if kept.process_id != os.getpid():
            # It belongs to the process we were forked from, and its socket is not ours to close.
            del _KEPT[key]
        elif kept.client.is_closed or is_idle:
            _drop(key)


def _drop(key: tuple[Any, ...]) -> None:
    kept = _KEPT.pop(key)
    if kept.process_id == os.getpid() and not kept.client.is_closed:
        kept.client.close()


def _task_id() -> int | None:
    """The Spark task that is running here; None on the driver's side."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.taskAttemptId()


def new_connection(options: Options, *, allow_reconnect: bool = True) -> Connection:
    """A connection of the caller's own, to be closed by the caller. One try for each server."""
    try:
        return _connect(options, allow_reconnect)
    except AuthorizationError as error:
        shown = [name for name in _CREDENTIALS if options[name]]
        given = f"option {shown[0]}" if shown else "no credentials in the options"
        raise AuthorizationError(f"{', '.join(options['servers'])} with {given}: {error}") from None


def _connect(options: Options, allow_reconnect: bool) -> Connection:
    from jetspark.client.sync import connect

    secrets: dict[str, Any] = {}
    if options["jwtToken"]:
        secrets["jwt"] = options["jwtToken"]
    # Delays double up to the longest, so the number of tries for a time is about that time over the longest delay.
    attempts = 5 + int(options["reconnectTimeoutMs"] / RECONNECT_WAIT_MAX_S)
    return connect(
        list(options["servers"]),
        name="jetspark-spark",
        user=options["user"],
        password=options["password"],
        token=options["token"],
        credentials_file=options["credentialsFile"],
        nkey_seed_file=options["nkeySeedFile"],
        nkey_seed=options["nkeySecret"],
        tls=tls_context(options),
        tls_hostname=options["tls.hostname"],
        tls_first=options["tls.first"],
        inbox_prefix=options["inboxPrefix"],
        connect_timeout=options["connectTimeoutMs"],
        request_timeout=options["requestTimeoutMs"],
        allow_reconnect=allow_reconnect,
        reconnect_wait=RECONNECT_WAIT_S,
        reconnect_wait_max=RECONNECT_WAIT_MAX_S,
        reconnect_attempts_max=attempts * len(options["servers"]),
        **secrets,
    )


def tls_context(options: Options) -> ssl.SSLContext | bool | None:
    """What the tls options ask for; None when they ask for nothing."""
    if not any(options[name] for name in TLS_OPTIONS):
        return True if options["tls"] else None
    try:
        context = ssl.create_default_context(cafile=options["tls.caFile"] or None)
    except (OSError, ssl.SSLError) as error:
        raise BadOptionError(f"option tls.caFile: cannot read {options['tls.caFile']}: {error}") from None
    if options["tls.certFile"]:
        try:
            context.load_cert_chain(
                options["tls.certFile"], options["tls.keyFile"] or None, options["tls.keyPassword"] or None
            )
        except (OSError, ssl.SSLError) as error:
            said = f"cannot use {options['tls.certFile']} with its key: {error}"
            raise BadOptionError(f"option tls.certFile: {said}") from None
    return context
