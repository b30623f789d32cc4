"""Who waits at a consumer, and who is pinned to it: requests, followed back to the connections they came from.

Decided here: that the client behind a request is the one that listens on its inbox. A pinned client that is busy with
a batch has no request waiting; then the one seen last with the same pin is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetspark.api.timestamps import format_time

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.broker.consumer.pull_queue import WaitingPull
    from jetspark.server.dashboard.sampler import ConsumerTrack

_PULLS_MAX = 100


def _client(consumer: Consumer, pull: WaitingPull) -> dict[str, object]:
    listeners = consumer.pulls.route(pull).plain
    if not listeners:
        return {}
    session = listeners[0].session
    return {"cid": session.session_id, "name": session.name, "host": session.host}


def waiting_pulls(consumer: Consumer) -> list[dict[str, Any]]:
    """The requests that wait, in the order they will be served."""
    return [
        {
            **_client(consumer, pull),
            "left": int(pull.left),
            "expires": format_time(pull.expires_at_ns) if pull.expires_at_ns else "",
            "group": pull.group,
            "priority": pull.priority,
            "min_pending": int(pull.min_pending),
            "min_ack_pending": int(pull.min_ack_pending),
            "is_pinned": bool(pull.pin_id) and pull.pin_id == consumer.pinning.pin_id,
        }
        for pull in list(consumer.pulls.waiting)[:_PULLS_MAX]
    ]


def pinned_client(consumer: Consumer, track: ConsumerTrack | None) -> dict[str, Any] | None:
    """The pin of a consumer and who holds it, None when nobody is pinned."""
    pinning = consumer.pinning
    pin_id = pinning.pin_id
    if not pin_id:
        return None
    first = pinning.claimed_by()
    client = _client(consumer, first) if first is not None else {}
    for pull in consumer.pulls.waiting:
        if pull.pin_id == pin_id:
            client = _client(consumer, pull)
            break
    if track is not None:
        if client:
            track.pinned_by = (pin_id, client)
        elif track.pinned_by is not None and track.pinned_by[0] == pin_id:
            client = track.pinned_by[1]
    return {**client, "id": pin_id, "group": pinning.pin_group, "since": format_time(pinning.pinned_ns)}
