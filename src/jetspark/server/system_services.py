"""What answers under `$SYS.REQ.`: the monitoring documents as messages, for the tools that manage servers.

Decided here: which services there are, for whom, what a request may ask for, and how an answer is wrapped. The system
account may ask for everything; any other account for its own connections and totals. Not known here: what the
documents say, and what happens without being asked for (`system_events`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jetspark.api.json_text import JsonSyntaxError, read_document, to_plain
from jetspark.api.responses import encode_json
from jetspark.broker.session import Session
from jetspark.broker.system import SystemServices, server_document
from jetspark.server.connz import connz
from jetspark.server.healthz import healthz
from jetspark.server.jsz import account_jsz, jsz
from jetspark.server.peersz import gatewayz, leafz, routez
from jetspark.server.query import BadQuery, Query
from jetspark.server.statsz import statsz
from jetspark.server.subsz import account_detail, accountz, accstatz, subsz
from jetspark.server.system_events import SystemEvents
from jetspark.server.varz import varz

if TYPE_CHECKING:
    from jetspark.server.server import Server

Document = Callable[["Server", Query], Any]

EVERYBODY: Final = "PING"
# What a request's body calls a parameter, and what the same is called after a question mark.
_NAMES: Final = {"account": "acc", "consumer": "consumers", "subscriptions": "subs", "include_unused": "unused"}
_HEALTH_NAMES: Final = {"account": "account", "consumer": "consumer"}
_STATES: Final = ("open", "closed", "any")

_OF_SERVER: Final[dict[str, Document]] = {
    "VARZ": lambda server, query: varz(server, {}),
    "SUBSZ": subsz,
    "CONNZ": connz,
    "ROUTEZ": routez,
    "GATEWAYZ": gatewayz,
    "LEAFZ": leafz,
    "ACCOUNTZ": accountz,
    "JSZ": jsz,
    "HEALTHZ": lambda server, query: _health(server, query),
    "IPQUEUESZ": lambda server, query: {},
    "RAFTZ": lambda server, query: {},
}
_OF_ACCOUNT: Final[dict[str, Document]] = {
    "SUBSZ": subsz,
    "CONNZ": connz,
    "LEAFZ": leafz,
    "JSZ": account_jsz,
    "INFO": account_detail,
    "STATZ": accstatz,
}
# What accounts other than the system's may ask about themselves.
_OF_OWN_ACCOUNT: Final = {
    "$SYS.REQ.SERVER.PING.CONNZ": "CONNZ",
    "$SYS.REQ.ACCOUNT.PING.CONNZ": "CONNZ",
    "$SYS.REQ.ACCOUNT.PING.STATZ": "STATZ",
}


class BadRequest(Exception):
    """The body makes no sense; the message says why."""


class ServerServices(SystemServices):
    """The services of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.events = SystemEvents(server)

    # -- who comes and goes ----------------------------------------------------------------------------------------

    def connected(self, session: Session) -> None:
        self.events.connected(session)

    def refused(self, session: Session) -> None:
        self.events.refused(session)

    def disconnected(self, session: Session) -> None:
        self.events.disconnected(session)

    # -- requests --------------------------------------------------------------------------------------------------

    def request(self, session: Session, subject: bytes, reply: bytes, body: bytes) -> bool:
        text = subject.decode("utf-8", "replace")
        if session.account.name != self._server.options.system_account:
            service = _OF_OWN_ACCOUNT.get(text)
            if service is None:
                return False
            self._answer(session, reply, body, _OF_ACCOUNT[service], session.account.name)
            return True
        words = text.split(".")
        if words[2] == "SERVER":
            return self._of_server(session, words[3:], reply, body)
        if words[2] == "ACCOUNT":
            return self._of_account(session, words[3:], reply, body)
        return False

    def _of_server(self, session: Session, words: list[str], reply: bytes, body: bytes) -> bool:
        """`$SYS.REQ.SERVER.<id or PING>.<service>`."""
        is_all = words[0] == EVERYBODY
        if not is_all and words[0] != self._server.server_id:
            return False
        service = words[1] if len(words) == 2 else "STATSZ" if is_all and len(words) == 1 else ""
        if service == "STATSZ":
            self._totals(session, reply, body)
        elif service == "IDZ":
            server = self._server
            self._send(session, reply, {"name": server.name, "host": server.host, "id": server.server_id})
        elif service == "KICK" and not is_all:
            self._answer(session, reply, body, _kick)
        elif service in _OF_SERVER:
            self._answer(session, reply, body, _OF_SERVER[service])
        else:
            return False
        return True

    def _of_account(self, session: Session, words: list[str], reply: bytes, body: bytes) -> bool:
        """`$SYS.REQ.ACCOUNT.<name or PING>.<service>`."""
        if words == ["NSUBS"]:
            self._count_subscribers(session, reply, body)
        elif len(words) != 2:
            return False
        elif words[1] == "CONNS":
            account = self._server.broker.accounts.get(words[0])
            if account is not None and reply:
                self._send(session, reply, self.events.account_connections(account))
        elif words == [EVERYBODY, "STATZ"]:
            self._answer(session, reply, body, accstatz)
        elif words[1] in _OF_ACCOUNT:
            self._answer(session, reply, body, _OF_ACCOUNT[words[1]], words[0])
        else:
            return False
        return True

    def _answer(self, session: Session, reply: bytes, body: bytes, document: Document, account: str = "") -> None:
        """The document, wrapped; an error in its place; or nothing, when other servers are meant."""
        if not reply:
            return
        broker = self._server.broker
        try:
            wanted = read_body(body)
            if not self._is_meant(wanted):
                return
            parameters = read_parameters(wanted, health=document is _OF_SERVER["HEALTHZ"])
        except BadRequest as error:
            answer = {"server": server_document(broker), "error": {"code": 400, "description": str(error)}}
            self._send(session, reply, answer)
            return
        if account:
            parameters["acc"] = account
            if document is subsz:
                parameters["subs"] = "1"
        wrapped: dict[str, Any] = {"server": server_document(broker)}
        try:
            data = document(self._server, Query(parameters))
            if document is accstatz and not data["account_statz"]:
                return
            if data is not None:
                wrapped["data"] = data
        except BadQuery as error:
            if document is not _kick:
                wrapped["data"] = None
            wrapped["error"] = {"code": 500, "description": str(error)}
        self._send(session, reply, wrapped)

    def _is_meant(self, wanted: dict[str, Any]) -> bool:
        """Is this server among those the request is for?"""
        server = self._server
        facts = {"server_name": server.name, "host": server.host, "cluster": ""}
        for name, fact in facts.items():
            part = wanted.get(name) or ""
            if part and (part != fact if wanted.get("exact_match") else part not in fact):
                return False
        tags = server.broker.options.tags
        if any(str(tag).lower() not in tags for tag in wanted.get("tags") or []):
            return False
        domain = wanted.get("domain") or ""
        return not domain or domain == server.broker.options.domain

    def _totals(self, session: Session, reply: bytes, body: bytes) -> None:
        """STATSZ, which is wrapped in its own way; without a reply everybody hears it."""
        try:
            if not self._is_meant(read_body(body)):
                return
        except BadRequest as error:
            problem = {"code": 400, "description": str(error)}
            self._send(session, reply, {"server": server_document(self._server.broker), "error": problem})
            return
        if not reply:
            self.events.announce_totals()
            return
        document = {"server": server_document(self._server.broker), "statsz": statsz(self._server)}
        self._send(session, reply, document)

    def _count_subscribers(self, session: Session, reply: bytes, body: bytes) -> None:
        """How many plain subscriptions and queue groups a message on a subject would go to."""
        try:
            wanted = read_body(body)
        except BadRequest:
            return
        account = self._server.broker.accounts.get(str(wanted.get("acc", "")))
        if account is None or not reply:
            return
        route = account.interest.reply_route(str(wanted.get("subject", "")).encode())
        count = len(route.plain) + sum(len(members) for members in route.queues)
        session.account.publish_internal(reply, b"", 0, b"%d" % count)

    def _send(self, session: Session, reply: bytes, document: dict[str, Any]) -> None:
        if reply:
            session.account.publish_internal(reply, b"", 0, encode_json(document))


def read_body(body: bytes) -> dict[str, Any]:
    """The request's document; an empty body asks for nothing in particular."""
    if not body:
        return {}
    try:
        document = to_plain(read_document(body))
    except JsonSyntaxError as error:
        raise BadRequest(str(error)) from None
    if not isinstance(document, dict):
        raise BadRequest("json: cannot unmarshal into Go value: an object is expected")
    return document


def read_parameters(wanted: dict[str, Any], *, health: bool) -> dict[str, str]:
    """The fields of the request's document as the parameters the documents know."""
    names = {**_NAMES, **_HEALTH_NAMES} if health else _NAMES
    parameters: dict[str, str] = {}
    for name, value in wanted.items():
        if name == "state":
            if not isinstance(value, int) or not 0 <= value < len(_STATES):
                raise BadRequest(f"json: cannot unmarshal {json.dumps(value)} into Go struct field .state")
            parameters["state"] = _STATES[value]
        elif name == "subscriptions_detail":
            if value is True:
                parameters["subs"] = "detail"
        elif name in ("limit", "offset", "cid") and (isinstance(value, bool) or not isinstance(value, int)):
            raise BadRequest(f"json: cannot unmarshal {json.dumps(value)} into Go struct field .{name} of type int")
        elif name == "accounts" and isinstance(value, list):
            parameters["accounts_list"] = ",".join(str(item) for item in value)
        elif isinstance(value, bool):
            parameters.setdefault(names.get(name, name), "true" if value else "false")
        elif isinstance(value, str | int):
            parameters[names.get(name, name)] = str(value)
    return parameters


def _health(server: Server, query: Query) -> dict[str, Any]:
    code, document = healthz(server, query)
    return {"status": document["status"], "status_code": code, **document}


def _kick(server: Server, query: Query) -> None:
    connection = server.edge.connections.get(query.number("cid"))
    if connection is None:
        raise BadQuery("no such client or leafnode id")
    connection.session.close("Kicked")
