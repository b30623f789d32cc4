"""What the system account hears without asking: who comes and goes, and now and then the totals.

Nothing is put together for nobody: each event is written only when somebody listens for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from jetspark.api.responses import encode_json
from jetspark.api.timestamps import format_time
from jetspark.broker.account import Account
from jetspark.broker.session import Session
from jetspark.broker.system import server_document
from jetspark.server.statsz import statsz
from jetspark.server.subsz import account_totals

if TYPE_CHECKING:
    from jetspark.server.server import Server

CONNECT_TYPE: Final = "io.nats.server.advisory.v1.client_connect"
DISCONNECT_TYPE: Final = "io.nats.server.advisory.v1.client_disconnect"
ACCOUNT_TYPE: Final = "io.nats.server.advisory.v1.account_connections"
TOTALS_INTERVAL_S: Final = 10.0


class SystemEvents:
    """The announcements of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Announce the totals every now and then."""
        self._timer = self._server.loop.call_later(TOTALS_INTERVAL_S, self._announce_again)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _announce_again(self) -> None:
        # First: one that cannot be made must not be the last.
        self.start()
        self._server.edge.enter()
        self.announce_totals()
        self._server.edge.schedule()

    # -- what there is to tell ---------------------------------------------------------------------------------------

    def connected(self, session: Session) -> None:
        account = session.account
        self._account_changed(account)
        subject = f"$SYS.ACCOUNT.{account.name}.CONNECT"
        if self._is_heard(subject):
            self._announce(subject, {**self._head(CONNECT_TYPE), "client": _client(session)})

    def disconnected(self, session: Session) -> None:
        account = session.account
        if session.accepted:
            self._account_changed(account)
        subject = f"$SYS.ACCOUNT.{account.name}.DISCONNECT"
        if self._is_heard(subject):
            self._announce(subject, self._farewell(session))

    def refused(self, session: Session) -> None:
        subject = f"$SYS.SERVER.{self._server.server_id}.CLIENT.AUTH.ERR"
        if self._is_heard(subject):
            self._announce(subject, self._farewell(session))

    def announce_totals(self) -> None:
        subject = f"$SYS.SERVER.{self._server.server_id}.STATSZ"
        if self._is_heard(subject):
            self._announce(subject, {"server": server_document(self._server.broker), "statsz": statsz(self._server)})

    def account_connections(self, account: Account) -> dict[str, Any]:
        """How many connections an account has, and their traffic."""
        return {**self._head(ACCOUNT_TYPE), **account_totals(self._server, account)}

    def _account_changed(self, account: Account) -> None:
        if account is self._system():
            return
        for subject in (f"$SYS.ACCOUNT.{account.name}.SERVER.CONNS", f"$SYS.SERVER.ACCOUNT.{account.name}.CONNS"):
            if self._is_heard(subject):
                self._announce(subject, self.account_connections(account))

    # -- how it is told ----------------------------------------------------------------------------------------------

    def _system(self) -> Account:
        return self._server.broker.account(self._server.options.system_account)

    def _is_heard(self, subject: str) -> bool:
        interest = self._system().interest
        return interest.subscription_count > 0 and interest.reply_route(subject.encode()).has_subscribers

    def _announce(self, subject: str, document: dict[str, Any]) -> None:
        self._server.broker.announce_soon(self._system(), subject.encode(), encode_json(document))

    def _head(self, kind: str) -> dict[str, Any]:
        broker = self._server.broker
        return {
            "type": kind,
            "id": broker.nuid.next(),
            "timestamp": format_time(broker.now_ns),
            "server": server_document(broker),
        }

    def _farewell(self, session: Session) -> dict[str, Any]:
        client = _client(session)
        tail = {name: client.pop(name) for name in ("name_tag", "kind", "client_type")}
        if session.rtt_ns:
            client["rtt"] = session.rtt_ns
        client["stop"] = format_time(self._server.broker.now_ns)
        return {
            **self._head(DISCONNECT_TYPE),
            "client": {**client, **tail},
            # As the client sees it: what it sent is what came in.
            "sent": {"msgs": session.in_msgs, "bytes": session.in_bytes},
            "received": {"msgs": session.out_msgs, "bytes": session.out_bytes},
            "reason": session.close_reason or "Client Closed",
        }


def _client(session: Session) -> dict[str, Any]:
    client: dict[str, Any] = {
        "start": format_time(session.start_ns),
        "host": session.host,
        "id": session.session_id,
        "acc": session.account.name,
    }
    # One that was not let in has said who it is all the same.
    said = session.connect_options
    introduction = {
        "user": session.user_name or said.get("user"),
        "name": session.name or said.get("name"),
        "lang": session.language or said.get("lang"),
        "ver": session.version or said.get("version"),
    }
    client.update({name: str(text) for name, text in introduction.items() if text})
    client["name_tag"] = session.account.name
    client["kind"] = "Client"
    client["client_type"] = session.kind
    return client
