"""The /connz document: the connections, open or closed, sorted and cut as asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jetspark.api.timestamps import format_duration, format_time
from jetspark.broker.interest import Subscription
from jetspark.broker.session import Session
from jetspark.protocol.subjects import collides
from jetspark.server.closed import ClosedConnection, ClosedSubscription
from jetspark.server.describe import uptime
from jetspark.server.options import GLOBAL_ACCOUNT
from jetspark.server.query import BadQuery, Query

if TYPE_CHECKING:
    from jetspark.server.server import Server

_STATES: Final = {"": "open", "open": "open", "closed": "closed", "any": "any", "all": "any"}

# A closed connection with the time it closed, an open one with 0.
Entry = tuple[Session | ClosedConnection, int]


class ConnzRequest:
    """What one request asks for."""

    def __init__(self, query: Query) -> None:
        self.shows_subscriptions = False
        self.shows_detail = query.text("subs").lower() == "detail"
        if not self.shows_detail:
            self.shows_subscriptions = query.flag("subs")
        self.shows_login = query.flag("auth")
        self.sort = query.text("sort")
        self.offset, self.limit = query.page()
        self.session_id = query.number("cid")
        self.user = query.text("user")
        self.account = query.text("acc")
        self.filter_subject = query.text("filter_subject")
        state = query.text("state").lower()
        if state not in _STATES:
            raise BadQuery(f"Error decoding state for {query.text('state')}")
        self.state = _STATES[state]
        if self.sort and self.sort not in _SORTS:
            raise BadQuery(f"invalid sorting option: {self.sort}")
        if self.sort in ("stop", "reason") and self.state == "open":
            raise BadQuery(f"sort by {self.sort} only valid on closed connections")
        if self.user and not self.shows_login:
            # A user is only matched where users are shown.
            self.shows_login = True


def connz(server: Server, query: Query) -> dict[str, Any]:
    request = ConnzRequest(query)
    now_ns = server.clock.now_ns()
    if request.account and request.account not in server.broker.accounts:
        return _document("", now_ns, None, 0, request)
    found = _select(server, request)
    total = len(found)
    if request.session_id:
        total = len(server.edge.connections)
        chosen = [entry for entry in found if entry[0].session_id == request.session_id]
        request.limit = 1
    else:
        # The total counts those of other users, too.
        found = [entry for entry in found if request.user in ("", entry[0].user_name)]
        chosen = _sorted(found, request.sort, now_ns)[request.offset : request.offset + request.limit]
    infos = [_info(server, entry, request, now_ns) for entry in chosen]
    return _document(server.server_id, now_ns, infos, total, request)


def _document(
    server_id: str, now_ns: int, infos: list[dict[str, Any]] | None, total: int, request: ConnzRequest
) -> dict[str, Any]:
    return {
        "server_id": server_id,
        "now": format_time(now_ns),
        "num_connections": len(infos or []),
        "total": total,
        "offset": request.offset,
        "limit": request.limit,
        "connections": infos,
    }


def _select(server: Server, request: ConnzRequest) -> list[Entry]:
    entries: list[Entry] = []
    if request.state in ("open", "any"):
        entries += [(connection.session, 0) for connection in server.edge.connections.values()]
    if request.state in ("closed", "any"):
        entries += [(closed, closed.stop_ns) for closed in server.edge.closed]
    return [entry for entry in entries if _is_wanted(entry[0], request)]


def _is_wanted(session: Session | ClosedConnection, request: ConnzRequest) -> bool:
    if request.account and session.account.name != request.account:
        return False
    if request.filter_subject and request.account:
        wanted = request.filter_subject.encode()
        return any(collides(subscription.subject, wanted) for subscription in session.subscriptions.values())
    return True


_SORTS: Final[dict[str, Callable[[Entry, int], Any]]] = {
    "cid": lambda entry, now_ns: entry[0].session_id,
    "start": lambda entry, now_ns: entry[0].start_ns,
    "subs": lambda entry, now_ns: -_subscription_count(entry[0]),
    "pending": lambda entry, now_ns: -entry[0].buffered_bytes,
    "msgs_to": lambda entry, now_ns: -entry[0].out_msgs,
    "msgs_from": lambda entry, now_ns: -entry[0].in_msgs,
    "bytes_to": lambda entry, now_ns: -entry[0].out_bytes,
    "bytes_from": lambda entry, now_ns: -entry[0].in_bytes,
    "last": lambda entry, now_ns: -entry[0].last_activity_ns,
    "idle": lambda entry, now_ns: entry[0].last_activity_ns,
    "uptime": lambda entry, now_ns: -((entry[1] or now_ns) - entry[0].start_ns),
    "stop": lambda entry, now_ns: -entry[1],
    "reason": lambda entry, now_ns: entry[0].close_reason,
    "rtt": lambda entry, now_ns: -entry[0].rtt_ns,
}


def _sorted(entries: list[Entry], sort: str, now_ns: int) -> list[Entry]:
    key = _SORTS[sort or "cid"]
    return sorted(entries, key=lambda entry: (key(entry, now_ns), entry[0].session_id))


def _info(server: Server, entry: Entry, request: ConnzRequest, now_ns: int) -> dict[str, Any]:
    session, stop_ns = entry
    end_ns = stop_ns or now_ns
    info: dict[str, Any] = {
        "cid": session.session_id,
        "kind": "Client",
        "type": session.kind,
        "ip": session.host,
        "port": session.port,
        "start": format_time(session.start_ns),
        "last_activity": format_time(session.last_activity_ns),
    }
    if stop_ns:
        info["stop"] = format_time(stop_ns)
        info["reason"] = session.close_reason
    if session.rtt_ns:
        info["rtt"] = format_duration(session.rtt_ns)
    info.update(
        uptime=uptime(end_ns - session.start_ns),
        idle=uptime(end_ns - session.last_activity_ns),
        pending_bytes=session.buffered_bytes,
        in_msgs=session.in_msgs,
        out_msgs=session.out_msgs,
        in_bytes=session.in_bytes,
        out_bytes=session.out_bytes,
        subscriptions=_subscription_count(session),
    )
    introduction = {"name": session.name, "lang": session.language, "version": session.version}
    info.update({name: text for name, text in introduction.items() if text})
    connection = server.edge.connections.get(session.session_id)
    if connection is not None:
        info.update(connection.tls_info())
    if request.shows_login:
        if session.user_name:
            info["authorized_user"] = session.user_name
        if session.account.name != GLOBAL_ACCOUNT:
            info["account"] = session.account.name
    _add_subscriptions(info, session, request)
    if request.shows_login:
        info["name_tag"] = session.account.name
    return info


def _subscription_count(session: Session | ClosedConnection) -> int:
    return session.subscription_count if isinstance(session, ClosedConnection) else len(session.subscriptions)


def _add_subscriptions(info: dict[str, Any], session: Session | ClosedConnection, request: ConnzRequest) -> None:
    if not session.subscriptions:
        return
    if request.shows_subscriptions:
        info["subscriptions_list"] = [
            subscription.subject.decode("utf-8", "replace") for subscription in session.subscriptions.values()
        ]
    elif request.shows_detail:
        info["subscriptions_list_detail"] = [
            {**_owner(session), **subscription_detail(subscription, session.session_id)}
            for subscription in session.subscriptions.values()
        ]


def _owner(session: Session | ClosedConnection) -> dict[str, str]:
    """Whose subscription it was is told of closed connections only."""
    return {"account": session.account.name, "account_tag": session.account.name} if session.closed else {}


def subscription_detail(subscription: Subscription | ClosedSubscription, session_id: int) -> dict[str, Any]:
    """One subscription as /connz and /subsz show it."""
    detail: dict[str, Any] = {"subject": subscription.subject.decode("utf-8", "replace")}
    if subscription.queue:
        detail["qgroup"] = subscription.queue.decode("utf-8", "replace")
    detail["sid"] = subscription.sid.decode("utf-8", "replace")
    detail["msgs"] = subscription.delivered
    if subscription.delivered_max:
        detail["max"] = subscription.delivered_max
    detail["cid"] = session_id
    return detail
