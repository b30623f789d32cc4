"""The CONNECT document: who we are and how we prove it.

Signing needs a library and reading a credentials file needs a file; both come in as values or callables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jetspark.client.core.options import ConnectOptions, Secret
from jetspark.client.core.server_pool import ServerAddress


class Credentials:
    """What proves who we are: a public key or a JWT, and a way to sign the server's nonce."""

    def __init__(self, public_key: str, jwt: str, sign: Callable[[bytes], str] | None) -> None:
        self.public_key = public_key
        self.jwt = jwt
        self.sign = sign


def reveal(secret: Secret) -> str:
    """A secret given as text or as a callable that knows the current one."""
    return secret() if callable(secret) else secret


def connect_document(
    options: ConnectOptions,
    address: ServerAddress,
    info: dict[str, Any],
    is_tls: bool,
    credentials: Credentials | None,
    version: str,
) -> dict[str, Any]:
    """The body of CONNECT for this server."""
    document: dict[str, Any] = {
        "verbose": options.verbose,
        "pedantic": options.pedantic,
        "tls_required": is_tls,
        "lang": "python-jetspark",
        "version": version,
        "protocol": 1,
        "echo": options.echo,
        "headers": True,
        "no_responders": True,
    }
    if options.name:
        document["name"] = options.name
    user, password, token = reveal(options.user), reveal(options.password), reveal(options.token)
    if credentials is not None:
        nonce = str(info.get("nonce", ""))
        if credentials.jwt:
            document["jwt"] = credentials.jwt
        else:
            document["nkey"] = credentials.public_key
        if credentials.sign is not None and nonce:
            document["sig"] = credentials.sign(nonce.encode())
    elif user or password:
        document["user"], document["pass"] = user, password
    elif token:
        document["auth_token"] = token
    elif address.user:
        document["user"], document["pass"] = address.user, address.password
    elif address.token:
        document["auth_token"] = address.token
    return document


def wants_tls(options: ConnectOptions, address: ServerAddress, info: dict[str, Any]) -> bool:
    """TLS is used when the user, the address or the server asks for it."""
    return bool(options.tls) or address.wants_tls or bool(info.get("tls_required"))
