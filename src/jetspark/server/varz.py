"""The /varz document: the server's settings and totals, under nats-server's names."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jetspark.api.timestamps import format_time
from jetspark.broker.options import VERSION
from jetspark.server.describe import uptime
from jetspark.server.jsz import jetstream_config, jetstream_limits, jetstream_stats

if TYPE_CHECKING:
    from jetspark.server.server import Server


def memory_bytes() -> int:
    """What the process holds in memory now."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        # The peak instead of the present, where the system does not tell.
        return peak_memory_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, sys.platform)
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_memory_bytes(max_rss: int, platform: str) -> int:
    """The peak in bytes: macOS counts it in these, everybody else in kilobytes."""
    return max_rss if platform == "darwin" else max_rss * 1024


def varz(server: Server, request_counts: dict[str, int]) -> dict[str, Any]:
    now_ns = server.clock.now_ns()
    document = _settings(server)
    document.update(_live(server, now_ns))
    document["http_req_stats"] = dict(sorted(request_counts.items()))
    document["config_load_time"] = format_time(server.config_load_ns)
    document["config_digest"] = server.options.config_digest
    if server.options.server_tags:
        document["tags"] = [tag.lower() for tag in server.options.server_tags]
    if server.options.server_metadata:
        document["metadata"] = server.options.server_metadata
    document["feature_flags"] = server.broker.options.feature_flags
    document["system_account"] = server.options.system_account
    document["slow_consumer_stats"] = _by_kind(server.edge.slow_consumers)
    document["stale_connection_stats"] = _by_kind(server.edge.stale_connections)
    # Nobody waits for the disk on the loop here: commits have a thread of their own.
    document["disk_io_wait_stats"] = {"waiters": 0, "waits": 0, "wait_time": 0, "max_wait_time": 0}
    return document


def _by_kind(clients: int) -> dict[str, int]:
    return {"clients": clients, "routes": 0, "gateways": 0, "leafs": 0}


def _settings(server: Server) -> dict[str, Any]:
    options = server.options
    document: dict[str, Any] = {
        "server_id": server.server_id,
        "server_name": server.name,
        "version": VERSION,
        "proto": 1,
        "git_commit": server.broker.options.build,
        "go": f"python{sys.version_info.major}.{sys.version_info.minor}",
        "host": server.host,
        "port": server.port,
    }
    if options.is_auth_required:
        document["auth_required"] = True
    if options.tls is not None:
        document["tls_required"] = not options.allow_non_tls
        document["tls_verify"] = options.tls.verify
    document["max_connections"] = options.max_connections
    if options.max_subscriptions:
        document["max_subscriptions"] = options.max_subscriptions
    document.update(
        ping_interval=options.ping_interval_ns,
        ping_max=options.ping_max,
        http_host=options.http_host or options.host,
        http_port=server.http_port,
        http_base_path=options.http_base_path,
        https_port=server.https_port,
        auth_timeout=_number(options.auth_timeout_effective_s),
        max_control_line=options.max_control_line_bytes,
        max_payload=options.max_payload_bytes,
        max_pending=options.max_pending_bytes,
        cluster={},
        gateway={},
        leaf={},
        mqtt={},
        websocket=_websocket(server),
        jetstream=_jetstream(server),
        tls_timeout=_number(options.tls.timeout_s if options.tls is not None else 2.0),
        write_deadline=options.write_deadline_ns,
    )
    return document


def _number(value: float) -> float | int:
    """Go writes 2, not 2.0."""
    return int(value) if value == int(value) else value


def _websocket(server: Server) -> dict[str, Any]:
    websocket = server.options.websocket
    if not websocket.port:
        return {}
    return {
        "host": websocket.host,
        "port": server.websocket_port,
        "compression": websocket.compression,
    }


def _jetstream(server: Server) -> dict[str, Any]:
    if not server.broker.options.jetstream:
        return {}
    return {
        "config": jetstream_config(server),
        "stats": jetstream_stats(server),
        "limits": jetstream_limits(server),
    }


def _live(server: Server, now_ns: int) -> dict[str, Any]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    lived_s = max(1e-9, (now_ns - server.start_ns) / 1e9)
    totals = server.edge.totals()
    return {
        "start": format_time(server.start_ns),
        "now": format_time(now_ns),
        "uptime": uptime(now_ns - server.start_ns),
        "mem": memory_bytes(),
        "cores": os.cpu_count() or 1,
        "gomaxprocs": os.cpu_count() or 1,
        "cpu": round(100 * (usage.ru_utime + usage.ru_stime) / lived_s, 1),
        "connections": len(server.edge.connections),
        "total_connections": server.edge.total_connections,
        "routes": 0,
        "remotes": 0,
        "leafnodes": 0,
        "in_msgs": totals.in_msgs,
        "in_bytes": totals.in_bytes,
        "in_client_msgs": totals.in_msgs,
        "in_client_bytes": totals.in_bytes,
        "out_msgs": totals.out_msgs,
        "out_bytes": totals.out_bytes,
        "out_client_msgs": totals.out_msgs,
        "out_client_bytes": totals.out_bytes,
        "slow_consumers": server.edge.slow_consumers,
        "stale_connections": server.edge.stale_connections,
        "stalled_clients": 0,
        "subscriptions": sum(account.interest.subscription_count for account in server.broker.accounts.values()),
    }
