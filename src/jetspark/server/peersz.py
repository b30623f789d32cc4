"""The /routez, /gatewayz and /leafz documents: those of a nats-server that has none of these, as a single server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetspark.api.timestamps import format_time
from jetspark.server.query import Query

if TYPE_CHECKING:
    from jetspark.server.server import Server


def routez(server: Server, query: Query) -> dict[str, Any]:
    now = format_time(server.clock.now_ns())
    return {"server_id": server.server_id, "server_name": server.name, "now": now, "num_routes": 0, "routes": []}


def gatewayz(server: Server, query: Query) -> dict[str, Any]:
    return {**_stamp(server), "outbound_gateways": {}, "inbound_gateways": {}}


def leafz(server: Server, query: Query) -> dict[str, Any]:
    return {**_stamp(server), "leafnodes": 0, "leafs": []}


def _stamp(server: Server) -> dict[str, Any]:
    return {"server_id": server.server_id, "now": format_time(server.clock.now_ns())}
