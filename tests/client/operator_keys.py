"""An operator, an account and its users, as `nsc` would make them: nkeys, JWTs, a server's config, a user's file."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from jetspark.client.credentials import crc16, nkey_credentials

PREFIXES = {"operator": 14 << 3, "account": 0, "user": 20 << 3}
ISSUED_AT = 1_700_000_000


class Key:
    """One nkey, the same for the same word."""

    def __init__(self, kind: str, word: str) -> None:
        prefix = PREFIXES[kind]
        raw = hashlib.sha256(f"{kind} {word}".encode()).digest()
        body = bytes([144 | (prefix >> 5), (prefix & 31) << 3]) + raw
        self.kind = kind
        self.seed = base64.b32encode(body + crc16(body).to_bytes(2, "little")).decode().rstrip("=")
        self._credentials = nkey_credentials(self.seed, "")

    @property
    def public(self) -> str:
        return self._credentials.public_key

    def certify(self, subject: Key, name: str, claims: dict[str, Any]) -> str:
        """A JWT about another key, signed with this one."""
        document: dict[str, Any] = {
            "iat": ISSUED_AT,
            "iss": self.public,
            "name": name,
            "sub": subject.public,
            "nats": {"type": subject.kind, "version": 2, **claims},
        }
        digest = hashlib.new("sha512_256", _compact(document)).digest()
        document["jti"] = base64.b32encode(digest).decode().rstrip("=")
        body = f"{_part({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_part(document)}"
        assert self._credentials.sign is not None
        return f"{body}.{self._credentials.sign(body.encode())}"


def _compact(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _part(document: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(_compact(document)).decode().rstrip("=")


UNLIMITED = {
    "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1,
    "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1, "max_ack_pending": -1,
}  # fmt: skip


class Operator:
    """An operator with one account for applications and one for the system."""

    def __init__(self) -> None:
        self._key = Key("operator", "O")
        self._account = Key("account", "APP")
        self._system = Key("account", "SYS")

    def server_config(self) -> str:
        """What nats-server needs to trust the operator and to know the accounts."""
        operator = self._key.certify(self._key, "O", {"system_account": self._system.public})
        app = self._key.certify(self._account, "APP", {"limits": UNLIMITED})
        plain = {name: value for name, value in UNLIMITED.items() if "storage" not in name}
        system = self._key.certify(self._system, "SYS", {"limits": plain})
        return f"""
            operator: {operator}
            system_account: {self._system.public}
            resolver: MEMORY
            resolver_preload: {{ {self._account.public}: {app}, {self._system.public}: {system} }}
        """

    def user_jwt(self, name: str, **claims: Any) -> tuple[str, str]:
        """(JWT, seed) of a user of the applications' account."""
        key = Key("user", name)
        limits = {"subs": -1, "data": -1, "payload": -1}
        return self._account.certify(key, name, {**limits, "pub": {}, "sub": {}, **claims}), key.seed

    def credentials(self, name: str, **claims: Any) -> str:
        """The text of a user's credentials file."""
        jwt, seed = self.user_jwt(name, **claims)
        return (
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            "************************* IMPORTANT *************************\n"
            "NKEY Seed printed below can be used to sign and prove identity.\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
