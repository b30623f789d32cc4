"""Proving who we are: nkey seeds, credentials files, and the TLS context.

Shared by both drivers. Signing is done by PyNaCl or cryptography, whichever is installed; both are optional, because
most connections need neither.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from jetspark.client.core.handshake import Credentials, reveal
from jetspark.client.core.options import ConnectOptions
from jetspark.client.errors import AuthorizationError, BadOptionError

_SEED_PREFIX: Final = 144  # the letter S
_BLOCK: Final = re.compile(r"-{3,}BEGIN ([A-Z ]+)-{3,}\s*(\S+)\s*-{3,}END", re.MULTILINE)


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM, as nkeys use it."""
    return binascii.crc_hqx(data, 0)


def decode_seed(seed: str) -> tuple[int, bytes]:
    """(public prefix byte, 32 raw bytes) of an nkey seed."""
    text = seed.strip()
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError):
        raise BadOptionError("not an nkey seed") from None
    if len(raw) != 36 or raw[0] & 248 != _SEED_PREFIX or crc16(raw[:-2]).to_bytes(2, "little") != raw[-2:]:
        raise BadOptionError("not an nkey seed")
    return ((raw[0] & 7) << 5) | ((raw[1] & 248) >> 3), raw[2:34]


def _signer(raw_seed: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    """(public key, sign) by whichever library is there."""
    try:
        from nacl.signing import SigningKey

        key = SigningKey(raw_seed)
        return bytes(key.verify_key), lambda data: bytes(key.sign(data).signature)
    except ImportError:
        pass
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        private = Ed25519PrivateKey.from_private_bytes(raw_seed)
        return private.public_key().public_bytes_raw(), private.sign
    except ImportError:
        raise BadOptionError("nkey and JWT credentials need the package `pynacl` or `cryptography`") from None


def nkey_credentials(seed: str, jwt: str) -> Credentials:
    """Credentials that sign with an nkey seed."""
    prefix, raw = decode_seed(seed)
    public, sign = _signer(raw)
    body = bytes([prefix]) + public
    public_key = base64.b32encode(body + crc16(body).to_bytes(2, "little")).decode().rstrip("=")
    return Credentials(public_key, jwt, lambda nonce: base64.urlsafe_b64encode(sign(nonce)).decode().rstrip("="))


def parse_credentials_file(text: str) -> tuple[str, str]:
    """(JWT, seed) of a credentials file."""
    blocks = {name.strip(): body for name, body in _BLOCK.findall(text)}
    jwt = blocks.get("NATS USER JWT", "")
    seed = blocks.get("USER NKEY SEED", "")
    if not jwt or not seed:
        raise AuthorizationError("the credentials file holds no user JWT and seed")
    return jwt, seed


def _read(path: str) -> str:
    # An unreadable file is the user's error and must be told at once, not retried as a network fault.
    try:
        return Path(path).expanduser().read_text("utf-8")
    except OSError as error:
        raise AuthorizationError(f"cannot read {path}: {error.strerror or error}") from error


def load_credentials(options: ConnectOptions) -> Credentials | None:
    """What the options offer beyond user, password and token; None when nothing."""
    if options.credentials_file:
        jwt, seed = parse_credentials_file(_read(options.credentials_file))
        return nkey_credentials(seed, jwt)
    seed = options.nkey_seed
    if options.nkey_seed_file:
        seed = _read(options.nkey_seed_file).strip()
    if seed:
        return nkey_credentials(seed, reveal(options.jwt))
    if options.jwt:
        # A bearer token needs no signature.
        return Credentials("", reveal(options.jwt), None)
    return None


def refreshed_credentials(options: ConnectOptions, known: Credentials | None) -> Credentials | None:
    """What the options offer now: a file may have been replaced since. What has worked is kept when it is gone."""
    try:
        return load_credentials(options)
    except (AuthorizationError, BadOptionError):
        return known


def tls_context(options: ConnectOptions) -> ssl.SSLContext:
    """The user's context, or the system's trust."""
    if isinstance(options.tls, ssl.SSLContext):
        return options.tls
    return ssl.create_default_context()
