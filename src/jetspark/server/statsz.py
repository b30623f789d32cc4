"""The totals of a server and of an account, as the system account gets them by asking and by listening."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Any

from jetspark.api.timestamps import format_time
from jetspark.server.jsz import jetstream_config, jetstream_limits, jetstream_stats
from jetspark.server.varz import memory_bytes

if TYPE_CHECKING:
    from jetspark.server.server import Server


def statsz(server: Server) -> dict[str, Any]:
    now_ns = server.clock.now_ns()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    lived_s = max(1e-9, (now_ns - server.start_ns) / 1e9)
    totals = server.edge.totals()
    sent = {"msgs": totals.out_msgs, "bytes": totals.out_bytes}
    received = {"msgs": totals.in_msgs, "bytes": totals.in_bytes}
    sessions = [connection.session for connection in server.edge.connections.values()]
    document: dict[str, Any] = {
        "start": format_time(server.start_ns),
        "mem": memory_bytes(),
        "cores": os.cpu_count() or 1,
        "cpu": round(100 * (usage.ru_utime + usage.ru_stime) / lived_s, 1),
        "connections": len(sessions),
        "total_connections": server.edge.total_connections,
        "active_accounts": len({session.account.name for session in sessions}),
        "subscriptions": sum(account.interest.subscription_count for account in server.broker.accounts.values()),
        "sent": sent,
        "sent_to_clients": sent,
        "received": received,
        "received_from_clients": received,
        "slow_consumers": server.edge.slow_consumers,
    }
    if server.edge.slow_consumers:
        document["slow_consumer_stats"] = _by_kind(server.edge.slow_consumers)
    if server.edge.stale_connections:
        document["stale_connections"] = server.edge.stale_connections
        document["stale_connection_stats"] = _by_kind(server.edge.stale_connections)
    document["active_servers"] = 1
    if server.broker.options.jetstream:
        config = jetstream_config(server)
        # Where the files are is told to whoever asks for it, not to everybody who listens.
        del config["store_dir"]
        document["jetstream"] = {
            "config": config,
            "stats": jetstream_stats(server),
            "limits": jetstream_limits(server),
        }
    document["gomaxprocs"] = os.cpu_count() or 1
    return document


def _by_kind(clients: int) -> dict[str, int]:
    return {"clients": clients, "routes": 0, "gateways": 0, "leafs": 0}
