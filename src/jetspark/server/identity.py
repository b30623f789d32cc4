"""Names that prove themselves: nkeys as text, and the checking of a signature.

Decided here: the text form of a key (base32 of prefix, key and checksum) and what counts as a valid signature of a
nonce. Not known here: who the key belongs to.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

PREFIX_SERVER: Final = 0x68  # N
PREFIX_USER: Final = 0xA0  # U
PREFIX_CURVE: Final = 0xB8  # X
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 11
_SIGNATURE_BYTES: Final = 64


def encode_key(prefix: int, key: bytes) -> str:
    """A public key as text; the first letter tells what sort of key it is."""
    raw = bytes([prefix]) + key
    return base64.b32encode(raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")).decode().rstrip("=")


def decode_key(prefix: int, text: str) -> bytes | None:
    """The 32 bytes of a public key of that sort, or None when the text is not one."""
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError):
        return None
    if len(raw) != 1 + _KEY_BYTES + 2 or raw[0] != prefix:
        return None
    if binascii.crc_hqx(raw[:-2], 0).to_bytes(2, "little") != raw[-2:]:
        return None
    return raw[1:-2]


def new_server_id(random_bytes: Callable[[int], bytes]) -> str:
    """An id for one run of a server. Nobody asks it to sign anything, so chance does instead of a key."""
    return encode_key(PREFIX_SERVER, random_bytes(_KEY_BYTES))


def new_nonce(random_bytes: Callable[[int], bytes]) -> str:
    """What a client with a key must sign."""
    return base64.urlsafe_b64encode(random_bytes(_NONCE_BYTES)).decode().rstrip("=")


def is_signature_valid(public_key: bytes, nonce: str, signature: str) -> bool:
    """Did the owner of the key sign the nonce? The signature is base64, with the URL alphabet or the standard one."""
    padded = signature + "=" * (-len(signature) % 4)
    try:
        raw = base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return False
    if len(raw) != _SIGNATURE_BYTES:
        return False
    try:
        VerifyKey(public_key).verify(nonce.encode(), raw)
    except BadSignatureError:
        return False
    return True
