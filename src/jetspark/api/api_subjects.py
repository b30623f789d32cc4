"""The subjects of the JetStream API, for asking and for answering.

Decided here: how each request subject is spelt, and how one is taken apart again.
Not known here: who listens, and what the request body means.
"""

from __future__ import annotations

from typing import Final

API_PREFIX: Final = "$JS.API"
ALL_API: Final = "$JS.API.>"
ACK_PREFIX: Final = "$JS.ACK"
FLOW_CONTROL_PREFIX: Final = "$JS.FC"
SNAPSHOT_ACK_PREFIX: Final = "$JS.SNAPSHOT.ACK"
SNAPSHOT_RESTORE_PREFIX: Final = "$JS.SNAPSHOT.RESTORE"
ADVISORY_PREFIX: Final = "$JS.EVENT.ADVISORY"
METRIC_PREFIX: Final = "$JS.EVENT.METRIC"

ACCOUNT_INFO: Final = "INFO"
STREAM_CREATE: Final = "STREAM.CREATE"
STREAM_UPDATE: Final = "STREAM.UPDATE"
STREAM_NAMES: Final = "STREAM.NAMES"
STREAM_LIST: Final = "STREAM.LIST"
STREAM_INFO: Final = "STREAM.INFO"
STREAM_DELETE: Final = "STREAM.DELETE"
STREAM_PURGE: Final = "STREAM.PURGE"
STREAM_MSG_GET: Final = "STREAM.MSG.GET"
STREAM_MSG_DELETE: Final = "STREAM.MSG.DELETE"
STREAM_SNAPSHOT: Final = "STREAM.SNAPSHOT"
STREAM_RESTORE: Final = "STREAM.RESTORE"
STREAM_PEER_REMOVE: Final = "STREAM.PEER.REMOVE"
STREAM_PEER_EVACUATE: Final = "STREAM.PEER.EVACUATE"
STREAM_CANCEL_MOVE: Final = "STREAM.CANCEL_MOVE"
STREAM_LEADER_STEPDOWN: Final = "STREAM.LEADER.STEPDOWN"
CONSUMER_CREATE: Final = "CONSUMER.CREATE"
CONSUMER_DURABLE_CREATE: Final = "CONSUMER.DURABLE.CREATE"
CONSUMER_NAMES: Final = "CONSUMER.NAMES"
CONSUMER_LIST: Final = "CONSUMER.LIST"
CONSUMER_INFO: Final = "CONSUMER.INFO"
CONSUMER_DELETE: Final = "CONSUMER.DELETE"
CONSUMER_PAUSE: Final = "CONSUMER.PAUSE"
CONSUMER_UNPIN: Final = "CONSUMER.UNPIN"
CONSUMER_RESET: Final = "CONSUMER.RESET"
CONSUMER_MSG_NEXT: Final = "CONSUMER.MSG.NEXT"
CONSUMER_PEER_REMOVE: Final = "CONSUMER.PEER.REMOVE"
CONSUMER_PEER_EVACUATE: Final = "CONSUMER.PEER.EVACUATE"
CONSUMER_LEADER_STEPDOWN: Final = "CONSUMER.LEADER.STEPDOWN"
DIRECT_GET: Final = "DIRECT.GET"


def domain_prefix(domain: str) -> str:
    """The API prefix that reaches a domain: `$JS.<domain>.API`, or the plain prefix for no domain."""
    return f"$JS.{domain}.API" if domain else API_PREFIX


def request(verb: str, *names: str, prefix: str = API_PREFIX) -> str:
    """The subject of a request: `request(STREAM_INFO, "ORDERS")` is `$JS.API.STREAM.INFO.ORDERS`."""
    return ".".join((prefix, verb, *names))


def consumer_create(stream: str, consumer: str, filter_subject: str = "", *, prefix: str = API_PREFIX) -> str:
    """The subject that creates a consumer; a single filter rides in it so that permissions can see it."""
    subject = f"{prefix}.{CONSUMER_CREATE}.{stream}"
    if consumer:
        subject += f".{consumer}"
        if filter_subject:
            subject += f".{filter_subject}"
    return subject


def without_domain(subject: str, domain: str) -> str:
    """Rewrite a request that came under the domain's prefix to the plain prefix; others pass unchanged."""
    long_prefix = f"$JS.{domain}.API."
    if domain and subject.startswith(long_prefix):
        return f"{API_PREFIX}.{subject[len(long_prefix) :]}"
    return subject


_VERBS_BY_NAMES: Final[dict[str, int]] = {
    ACCOUNT_INFO: 0,
    STREAM_NAMES: 0,
    STREAM_LIST: 0,
    STREAM_CREATE: 1,
    STREAM_UPDATE: 1,
    STREAM_INFO: 1,
    STREAM_DELETE: 1,
    STREAM_PURGE: 1,
    STREAM_MSG_GET: 1,
    STREAM_MSG_DELETE: 1,
    STREAM_SNAPSHOT: 1,
    STREAM_RESTORE: 1,
    STREAM_PEER_REMOVE: 1,
    STREAM_PEER_EVACUATE: 1,
    STREAM_CANCEL_MOVE: 1,
    STREAM_LEADER_STEPDOWN: 1,
    CONSUMER_NAMES: 1,
    CONSUMER_LIST: 1,
    CONSUMER_DURABLE_CREATE: 2,
    CONSUMER_INFO: 2,
    CONSUMER_DELETE: 2,
    CONSUMER_PAUSE: 2,
    CONSUMER_UNPIN: 2,
    CONSUMER_RESET: 2,
    CONSUMER_MSG_NEXT: 2,
    CONSUMER_PEER_REMOVE: 2,
    CONSUMER_PEER_EVACUATE: 2,
    CONSUMER_LEADER_STEPDOWN: 2,
}
# Verbs whose subject carries a rest of any length after the names: (fewest names, names before the rest).
_OPEN_VERBS: Final[dict[str, tuple[int, int]]] = {CONSUMER_CREATE: (1, 2), DIRECT_GET: (1, 1)}


def split_request(subject: str) -> tuple[str, list[str], str] | None:
    """Take a `$JS.API.` subject apart: (verb, names, rest), or None when no such request exists.

    The rest is what CONSUMER.CREATE and DIRECT.GET carry after the names: a filter, or a subject. None means
    silence, not an error: nats-server answers nothing to an unknown request or a wrong count of tokens.
    """
    tokens = subject.split(".")
    if len(tokens) < 3 or tokens[0] != "$JS" or tokens[1] != "API" or not all(tokens):
        return None
    for verb_length in (3, 2, 1):
        if len(tokens) < 2 + verb_length:
            continue
        verb = ".".join(tokens[2 : 2 + verb_length])
        names = tokens[2 + verb_length :]
        if verb in _OPEN_VERBS:
            fewest, before_rest = _OPEN_VERBS[verb]
            if len(names) < fewest:
                return None
            return verb, names[:before_rest], ".".join(names[before_rest:])
        if verb in _VERBS_BY_NAMES:
            return (verb, names, "") if len(names) == _VERBS_BY_NAMES[verb] else None
    return None
