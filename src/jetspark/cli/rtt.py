"""`jetspark rtt`: how long the servers take to answer.

Decided here: every address a server name stands for is measured by itself, and one that does not answer is shown as
failed; the command fails only when none answers.
"""

from __future__ import annotations

import socket
import statistics
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

import click

from jetspark.api.timestamps import format_time
from jetspark.cli.connect import DEFAULT_SERVER, connect_options, effective, shown_servers
from jetspark.cli.context import Command, Settings, pass_settings
from jetspark.cli.durations import human_trip, now_ns
from jetspark.cli.errors import NO_CONNECTION, CliError
from jetspark.cli.output import echo, emit_json
from jetspark.errors import JetsparkError

DEFAULT_PORT: Final = 4222


def addresses(url: str) -> list[str]:
    """`host:port` for every address the server's name stands for."""
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    host, port = parts.hostname or "127.0.0.1", parts.port or DEFAULT_PORT
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return [f"{host}:{port}"]
    made = [
        f"[{where[0]}]:{port}" if family == socket.AF_INET6 else f"{where[0]}:{port}" for family, *_, where in found
    ]
    return list(dict.fromkeys(made))


def _with_address(url: str, address: str) -> str:
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    login = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    return f"{parts.scheme}://{login}{address}"


def measure(settings: Settings, url: str, hostname: str, iterations: int) -> list[float]:
    """Round trips in seconds; `hostname` is what the server's certificate is for."""
    from jetspark.sync import connect

    options = connect_options(replace(settings, server=url))
    options["tls_hostname"] = hostname
    with connect(**options) as connection:
        connection.rtt(settings.timeout_s)
        return [connection.rtt(settings.timeout_s) for _ in range(iterations)]


def _row(settings: Settings, url: str, address: str, iterations: int) -> dict[str, Any]:
    """One address, in the words of `nats`, whose `rtt` is in nanoseconds; the best and the worst trip are ours."""
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    name = parts.hostname or ""
    target = url if address.startswith(name) else _with_address(url, address)
    row: dict[str, Any] = {"time": format_time(now_ns()), "address": f"{parts.scheme}://{address}", "url": url}
    try:
        trips_s = measure(settings, target, name, iterations)
    except (JetsparkError, OSError) as error:
        return {**row, "error": str(error) or type(error).__name__}
    return {
        **row,
        "rtt": round(statistics.fmean(trips_s) * 1e9),
        "min_ns": round(min(trips_s) * 1e9),
        "max_ns": round(max(trips_s) * 1e9),
    }


@click.command("rtt", cls=Command)
@click.argument("iterations", type=click.IntRange(min=1), default=5)
@pass_settings
def rtt(settings: Settings, iterations: int) -> None:
    """Measure the round trip to every address of the servers, as the mean of ITERATIONS (5)."""
    chosen = effective(settings)
    servers = [url.strip() for url in (chosen.server or DEFAULT_SERVER).split(",") if url.strip()]
    found: list[dict[str, Any]] = [
        {"url": shown_servers(url), "results": [_row(chosen, url, one, iterations) for one in addresses(url)]}
        for url in servers
    ]
    rows = [row for server in found for row in server["results"]]
    if settings.json:
        emit_json(found)
    else:
        width = max(len(row["address"]) for row in rows) + 4
        for server in found:
            echo(f"{server['url']}:\n")
            for row in server["results"]:
                trip = human_trip(row["rtt"]) if "rtt" in row else f"failed: {row['error']}"
                echo(f"{row['address']:>{width}}: {trip}")
            echo()
    if all("error" in row for row in rows):
        raise CliError("no server answered", hint="Name one with --server or --context.", exit_code=NO_CONNECTION)
