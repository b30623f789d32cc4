"""Which endpoint a request under `$JS.API.` belongs to.

Decided here: the table of verbs, and the checks every request passes before its endpoint sees it. An unknown verb or a
wrong count of tokens is met with silence, because that is what nats-server does and clients rely on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from jetspark.api import api_subjects as verbs
from jetspark.api import responses
from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.requests import REQUIRED_API_LEVEL_HEADER, api_level_is_met
from jetspark.broker.consumer import pulls
from jetspark.broker.endpoints import (
    account_info,
    cluster,
    consumer_control,
    consumers,
    direct_get,
    messages,
    snapshots,
    streams,
)
from jetspark.broker.endpoints.call import ApiCall
from jetspark.protocol import headers

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.broker.jetstream import JetStream
    from jetspark.broker.session import Session

# An endpoint gets the call, the names in its subject, and what the subject carries after them.
Endpoint = Callable[[ApiCall, list[str], str], None]

REQUIRED_LEVEL: Final = REQUIRED_API_LEVEL_HEADER.encode()
LEVEL_REFUSED: Final = headers.status_block(412, b"Required Api Level", [])

_ENDPOINTS: Final[dict[str, tuple[str, Endpoint]]] = {
    verbs.ACCOUNT_INFO: (responses.ACCOUNT_INFO, account_info.info),
    verbs.STREAM_CREATE: (responses.STREAM_CREATE, streams.create),
    verbs.STREAM_UPDATE: (responses.STREAM_UPDATE, streams.update),
    verbs.STREAM_NAMES: (responses.STREAM_NAMES, streams.names),
    verbs.STREAM_LIST: (responses.STREAM_LIST, streams.infos),
    verbs.STREAM_INFO: (responses.STREAM_INFO, streams.info),
    verbs.STREAM_DELETE: (responses.STREAM_DELETE, streams.delete),
    verbs.STREAM_PURGE: (responses.STREAM_PURGE, streams.purge),
    verbs.STREAM_MSG_GET: (responses.STREAM_MSG_GET, messages.get),
    verbs.STREAM_MSG_DELETE: (responses.STREAM_MSG_DELETE, messages.delete),
    verbs.STREAM_SNAPSHOT: (responses.STREAM_SNAPSHOT, snapshots.snapshot),
    verbs.STREAM_RESTORE: (responses.STREAM_RESTORE, snapshots.restore),
    verbs.STREAM_PEER_REMOVE: (responses.STREAM_REMOVE_PEER, cluster.required),
    verbs.STREAM_PEER_EVACUATE: (responses.STREAM_REMOVE_PEER, cluster.required),
    verbs.STREAM_CANCEL_MOVE: (responses.STREAM_REMOVE_PEER, cluster.required),
    verbs.STREAM_LEADER_STEPDOWN: (responses.STREAM_LEADER_STEPDOWN, cluster.required),
    verbs.CONSUMER_CREATE: (responses.CONSUMER_CREATE, consumers.create),
    verbs.CONSUMER_DURABLE_CREATE: (responses.CONSUMER_CREATE, consumers.create_durable),
    verbs.CONSUMER_NAMES: (responses.CONSUMER_NAMES, consumers.names),
    verbs.CONSUMER_LIST: (responses.CONSUMER_LIST, consumers.infos),
    verbs.CONSUMER_INFO: (responses.CONSUMER_INFO, consumers.info),
    verbs.CONSUMER_DELETE: (responses.CONSUMER_DELETE, consumers.delete),
    verbs.CONSUMER_PAUSE: (responses.CONSUMER_PAUSE, consumer_control.pause),
    verbs.CONSUMER_UNPIN: (responses.CONSUMER_UNPIN, consumer_control.unpin),
    verbs.CONSUMER_RESET: (responses.CONSUMER_RESET, consumer_control.reset),
    verbs.CONSUMER_PEER_REMOVE: (responses.STREAM_REMOVE_PEER, cluster.required),
    verbs.CONSUMER_PEER_EVACUATE: (responses.STREAM_REMOVE_PEER, cluster.required),
    verbs.CONSUMER_LEADER_STEPDOWN: (responses.CONSUMER_LEADER_STEPDOWN, cluster.required),
}


def receive(jetstream: JetStream, session: Session, verb: bytes, reply: bytes, header: bytes, body: bytes) -> bool:
    """A request under `$JS.API.`; False when nobody listens on that subject, which the requester then learns."""
    if verb.startswith(b"DIRECT.GET."):
        return direct_get.receive(jetstream, verb[11:], reply, header, body)
    subject = f"{verbs.API_PREFIX}.{verb.decode('utf-8', 'replace')}"
    if verb.startswith(b"CONSUMER.MSG.NEXT."):
        # The consumer would have been found before.
        return False
    call = ApiCall(jetstream, session, subject, reply, header, body)
    found = verbs.split_request(subject)
    if found is not None:
        name, names, rest = found
    elif verb.startswith(b"CONSUMER.UNPIN.") and verb.count(b".") == 4:
        # The form of the design document, with the group in the subject.
        name, names, rest = verbs.CONSUMER_UNPIN, subject.split(".")[4:], ""
    else:
        return True
    endpoint = _ENDPOINTS.get(name)
    if endpoint is None:
        return True
    call.response_type = endpoint[0]
    carry_out(call, endpoint[1], names, rest)
    return True


def carry_out(call: ApiCall, endpoint: Endpoint, names: list[str], rest: str) -> None:
    """Have a request answered, one way or another."""
    try:
        if call.header and not api_level_is_met(headers.find_value(call.header, REQUIRED_LEVEL)):
            raise make(ErrorCode.REQUIRED_API_LEVEL)
        if not call.jetstream.enabled:
            raise make(ErrorCode.NOT_ENABLED_FOR_ACCOUNT)
        endpoint(call, names, rest)
    except ApiError as error:
        call.fail(error)
    except OSError as error:
        fail_reading(call, names, error)
    except (OverflowError, ValueError, RecursionError) as error:
        # A number or a nesting that fits the wire and nothing here. The requester must not bring down the others.
        call.broker.notices.append(f"Request {call.subject} refused: {error}")
        call.fail(make(ErrorCode.BAD_REQUEST))


def fail_reading(call: ApiCall, names: list[str], error: OSError) -> None:
    """The disk does not give what the answer needs."""
    stream = call.jetstream.streams.get(names[0]) if names else None
    if stream is not None:
        stream.read_failed(error)
    else:
        call.broker.read_failed(f"Request {call.subject} failed", error)
    call.fail(make(ErrorCode.STREAM_GENERAL, err=f"stored message cannot be read: {error.strerror or error}"))


def pull(jetstream: JetStream, session: Session, consumer: Consumer, reply: bytes, header: bytes, body: bytes) -> None:
    """A pull request that carries headers."""
    if api_level_is_met(headers.find_value(header, REQUIRED_LEVEL)):
        pulls.request(consumer, reply, body)
    elif reply:
        jetstream.account.publish_internal(reply, b"", len(LEVEL_REFUSED), LEVEL_REFUSED)
