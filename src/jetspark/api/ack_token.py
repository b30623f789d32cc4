"""Ack reply subjects: what a delivered message says about itself, and where its ack goes.

Two forms exist. Version 1 has nine tokens:

    $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time ns>.<pending>

Version 2 puts the domain (`_` for none) and a hash of the account before the stream, and may grow at its end:

    $JS.ACK.<domain>.<account hash>.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time ns>.<pending>[.…]

Ten tokens are neither. Flow control replies follow the same two forms under `$JS.FC`.
Decided here: the spelling. Not known here: whether the message is still waiting for an ack.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NamedTuple

NO_DOMAIN: Final = "_"
_TOKENS_V1: Final = 9
_TOKENS_V2: Final = 11
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class AckToken(NamedTuple):
    """What an ack reply subject says: which delivery of which message to which consumer."""

    domain: str
    account_hash: str
    stream: str
    consumer: str
    delivered: int
    stream_seq: int
    consumer_seq: int
    timestamp_ns: int
    pending: int


def name_hash(name: str, length: int = 8) -> str:
    """A short name for a long one: the first bytes of its SHA-256, each as one of 62 letters and digits."""
    digest = sha256(name.encode()).digest()
    return "".join(_DIGITS[byte % 62] for byte in digest[:length])


def account_hash(account: str) -> str:
    """The eight characters that stand for an account in version 2 subjects."""
    return name_hash(account)


def ack_prefix(stream: str, consumer: str) -> str:
    """What every version 1 ack subject of a consumer starts with, up to and including the last fixed dot."""
    return f"$JS.ACK.{stream}.{consumer}."


def ack_prefix_v2(domain: str, account: str, stream: str, consumer: str) -> str:
    """The same for version 2."""
    return f"$JS.ACK.{domain or NO_DOMAIN}.{account_hash(account)}.{stream}.{consumer}."


def format_ack(
    prefix: str, *, delivered: int, stream_seq: int, consumer_seq: int, timestamp_ns: int, pending: int
) -> str:
    """The ack reply subject of one delivery; either version, by its prefix."""
    return f"{prefix}{delivered}.{stream_seq}.{consumer_seq}.{timestamp_ns}.{pending}"


def ack_subscription(stream: str, consumer: str) -> str:
    """The pattern that catches every version 1 ack to a consumer."""
    return f"$JS.ACK.{stream}.{consumer}.*.*.*.*.*"


def ack_subscription_v2(domain: str, account: str, stream: str, consumer: str) -> str:
    """The pattern that catches every version 2 ack to a consumer, whatever is added at its end."""
    return f"{ack_prefix_v2(domain, account, stream, consumer)}>"


def parse_ack(subject: str) -> AckToken | None:
    """Read an ack reply subject of either version; None when it is not one."""
    tokens = subject.split(".")
    count = len(tokens)
    if count < _TOKENS_V1 or tokens[0] != "$JS" or tokens[1] != "ACK":
        return None
    domain = ""
    hashed_account = ""
    if count == _TOKENS_V1:
        rest = tokens[2:]
    elif count >= _TOKENS_V2:
        domain = "" if tokens[2] == NO_DOMAIN else tokens[2]
        hashed_account = tokens[3]
        rest = tokens[4:_TOKENS_V2]
    else:
        return None
    digits = "".join(rest[2:])
    if not (digits.isascii() and digits.isdigit()):
        return None
    try:
        numbers = [int(number) for number in rest[2:]]
    except ValueError:  # an empty token
        return None
    return AckToken(domain, hashed_account, rest[0], rest[1], *numbers)


def flow_control_subject(stream: str, consumer: str, random_text: str) -> str:
    """The version 1 subject a push consumer's client answers to let delivery go on."""
    return f"$JS.FC.{stream}.{consumer}.{random_text}"


def flow_control_subject_v2(domain: str, account: str, stream: str, consumer: str, random_text: str) -> str:
    """The same for version 2."""
    return f"$JS.FC.{domain or NO_DOMAIN}.{account_hash(account)}.{stream}.{consumer}.{random_text}"
