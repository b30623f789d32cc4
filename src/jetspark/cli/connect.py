"""From the global options and the context files to a connection.

Decided here: what wins (an option or its environment variable over the context, the context over the defaults), and
that a command's errors are explained while the server can still be asked. Not known here: what commands do.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from jetspark.cli.context import Settings, settings_of
from jetspark.cli.context_files import ContextFiles
from jetspark.cli.errors import NO_CONNECTION, CliError, UsageError, failure
from jetspark.cli.output import note, warn
from jetspark.errors import JetsparkError

if TYPE_CHECKING:
    from jetspark.sync import Connection, JetStream

DEFAULT_SERVER: Final = "nats://127.0.0.1:4222"
# Context key, setting: what a context may say and an option may override.
_FROM_CONTEXT: Final = (
    ("url", "server"),
    ("user", "user"),
    ("password", "password"),
    ("token", "token"),
    ("creds", "creds"),
    ("nkey", "nkey"),
    ("user_jwt", "jwt"),
    ("user_seed", "seed"),
    ("cert", "tlscert"),
    ("key", "tlskey"),
    ("ca", "tlsca"),
    ("jetstream_domain", "js_domain"),
    ("jetstream_api_prefix", "js_api_prefix"),
    ("jetstream_event_prefix", "js_event_prefix"),
    ("inbox_prefix", "inbox_prefix"),
    ("color_scheme", "colors"),
)
_FILES: Final = ("creds", "nkey", "tlscert", "tlskey", "tlsca")
_CREDENTIALS: Final = ("user", "password", "token", "creds", "nkey", "jwt", "seed")


def effective(settings: Settings) -> Settings:
    """The settings with the context filled in."""
    files = ContextFiles()
    name = settings.context or ("" if settings.no_context else files.selected())
    if not name:
        return settings
    context = files.load(name)
    for key in ("nsc", "socks_proxy"):
        if context.get(key):
            raise UsageError(f"context {name} uses {key}, which jetspark does not support", hint="Use --no-context.")
    values = {setting: str(context.get(key) or "") for key, setting in _FROM_CONTEXT}
    if any(getattr(settings, kind) for kind in _CREDENTIALS):
        # Credentials on the line replace the context's as a whole: two kinds at once are refused by the server.
        values.update(dict.fromkeys(_CREDENTIALS, ""))
    chosen: dict[str, Any] = {name: getattr(settings, name) or value for name, value in values.items()}
    first = context.get("tls_first") if settings.tlsfirst is None else settings.tlsfirst
    return replace(settings, tlsfirst=first, **chosen)


def _check_readable(option: str, file: str) -> None:
    """Refuse a file that is not there before a server is asked: it would look as if the server had refused it."""
    try:
        if file:
            Path(file).open("rb").close()
    except OSError as error:
        raise UsageError(f"{option} {file} cannot be read: {error.strerror}") from None


def _credentials(settings: Settings) -> dict[str, Any]:
    if settings.user and not settings.password:
        # As in `nats`: a user alone is a token.
        return {"token": settings.user}
    named = {
        "user": settings.user,
        "password": settings.password,
        "token": settings.token,
        "credentials_file": settings.creds,
        "nkey_seed_file": settings.nkey,
        "jwt": settings.jwt,
        "nkey_seed": settings.seed,
    }
    for option, file in (("--creds", settings.creds), ("--nkey", settings.nkey)):
        _check_readable(option, file)
    return {key: value for key, value in named.items() if value}


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if not (settings.tlscert or settings.tlskey or settings.tlsca):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.tlsca or None)
        if settings.tlscert or settings.tlskey:
            context.load_cert_chain(settings.tlscert, settings.tlskey or None)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(file for file in (settings.tlscert, settings.tlskey, settings.tlsca) if file)
        raise UsageError(f"the TLS files cannot be used ({files}): {error}") from None
    return context


def connect_options(settings: Settings) -> dict[str, Any]:
    """The client's options for these settings (with the context already filled in)."""
    # As in `nats`: the shell does not see a ~ in a context file, nor one after an equals sign.
    settings = replace(settings, **{name: os.path.expanduser(getattr(settings, name)) for name in _FILES})
    servers = [url.strip() for url in (settings.server or DEFAULT_SERVER).split(",") if url.strip()]
    options: dict[str, Any] = {
        "servers": servers,
        "name": settings.connection_name or "jetspark command line",
        "connect_timeout": max(settings.timeout_s, 0.001),
        "request_timeout": max(settings.timeout_s, 0.001),
        "publish_timeout": max(settings.timeout_s, 0.001),
        "tls": _tls(settings),
        "tls_first": bool(settings.tlsfirst),
        **_credentials(settings),
    }
    if settings.inbox_prefix:
        options["inbox_prefix"] = settings.inbox_prefix
    return options


def shown_servers(servers: str) -> str:
    """Addresses for people and logs to read: without the credentials they may carry."""
    return re.sub(r"(^|,|//)[^/,\s]*@", r"\1", servers)


def _report(error: BaseException) -> None:
    warn(str(error) or type(error).__name__)


@contextlib.contextmanager
def connected(ctx: click.Context | None = None, **options: Any) -> Iterator[Connection]:
    """A connection for the time of a command; `options` are the client's, over what the line says.

    Errors of the client end the command here with their exit code and, where the server can tell, what to do next.
    """
    from jetspark.cli.explain import explained
    from jetspark.sync import connect

    settings = effective(settings_of(ctx))
    # What is shown later looks at the command's own settings.
    settings_of(ctx).colors = settings.colors
    try:
        connection = connect(**{"on_error": _report, **connect_options(settings), **options})
    except (JetsparkError, OSError) as error:
        raise _no_connection(error, settings) from error
    with connection:
        try:
            yield connection
        except (JetsparkError, TimeoutError) as error:
            raise explained(error, make_jetstream(connection, settings), ctx or click.get_current_context()) from error


def _no_connection(error: BaseException, settings: Settings) -> CliError:
    from jetspark.client.errors import AuthorizationError, BadOptionError, SecureConnectionError

    if isinstance(error, BadOptionError):
        return failure(error)
    where = shown_servers(settings.server or DEFAULT_SERVER)
    if isinstance(error, AuthorizationError):
        hint = "Give credentials with --user and --password, --creds, --nkey or --context."
        return CliError(f"{where} refused the credentials: {error}", hint=hint, exit_code=NO_CONNECTION)
    hint = "Start one with `jetspark server -js`, or name another with --server or --context."
    if isinstance(error, SecureConnectionError):
        hint = "Check the address (tls:// or nats://) and --tlsca, --tlscert, --tlskey and --tlsfirst."
    return CliError(f"no connection to {where}: {error}", hint=hint, exit_code=NO_CONNECTION)


def make_jetstream(connection: Connection, settings: Settings) -> JetStream:
    """The way to JetStream with the domain, prefix and timeout of the line; traced when asked."""
    from jetspark.sync import JetStream

    class TracedJetStream(JetStream):
        """Tells every question to the API and its answer."""

        def api_request(self, endpoint: str, document: Any = None, *, timeout: Any = None) -> dict[str, Any]:
            """As its parent, in the open."""
            note(f">>> {self.api_prefix}.{endpoint}\n{json.dumps(document) if document is not None else ''}\n")
            answer = super().api_request(endpoint, document, timeout=timeout)
            note(f"<<< {json.dumps(answer)}\n")
            return answer

    made = TracedJetStream if settings.trace else JetStream
    return made(
        connection,
        domain=settings.js_domain,
        api_prefix=settings.js_api_prefix,
        timeout=settings.timeout_s,
        publish_window=0,
    )


@contextlib.contextmanager
def jetstream(ctx: click.Context | None = None, **options: Any) -> Iterator[JetStream]:
    """JetStream for the time of a command; its `connection` is the connection."""
    with connected(ctx, **options) as connection:
        yield make_jetstream(connection, effective(settings_of(ctx)))
