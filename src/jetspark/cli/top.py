"""`jetspark top`: a server's connections and streams, live, from its monitoring address.

Decided here: what is asked (varz, connz, jsz: every NATS server has them), how two samples become rates, and what is
shown. At a terminal it refreshes until Ctrl-C; in a pipe, or with --once, it shows one sample and ends.
"""

from __future__ import annotations

import base64
import itertools
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

import click
import msgspec

from jetspark.cli.connect import effective
from jetspark.cli.context import Command, Settings, pass_settings
from jetspark.cli.durations import DURATION, SECOND_NS, human_count, human_size, wire_ns
from jetspark.cli.errors import NO_CONNECTION, CliError, UsageError
from jetspark.cli.output import echo, emit_json_line, is_terminal, pictures, text_of

if TYPE_CHECKING:
    from rich.console import RenderableType

DEFAULT_PORT: Final = 8222
SORTS: Final = (
    "cid", "start", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "last", "idle", "uptime",
    "rtt",
)  # fmt: skip
COUNTERS: Final = ("in_msgs", "out_msgs", "in_bytes", "out_bytes")
CONNECTION_COLUMNS: Final = (
    "Host", "CID", "Name", "Subs", "Pending", "Msgs To", "Msgs From", "Bytes To", "Bytes From", "Lang", "Version",
    "Uptime", "Idle",
)  # fmt: skip
STREAM_COLUMNS: Final = ("Stream", "Consumers", "Messages", "Bytes", "Last Seq", "In/s", "Unprocessed", "Outstanding")


@dataclass(frozen=True, slots=True)
class Sample:
    """What the server said at one moment."""

    server: dict[str, Any]
    connections: list[dict[str, Any]]
    streams: list[dict[str, Any]]

    @property
    def now_ns(self) -> int:
        """By the server's own clock."""
        return wire_ns(str(self.server.get("now", "")))


class Monitor:
    """The monitoring address of one server."""

    def __init__(self, url: str, settings: Settings) -> None:
        self.url = url
        self._timeout_s = settings.timeout_s
        self._headers: dict[str, str] = {}
        if settings.user and settings.password:
            login = base64.b64encode(f"{settings.user}:{settings.password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """One document."""
        url = f"{self.url}/{path}" + (f"?{urlencode(query)}" if query else "")
        # Only http and https come this far, see `monitor_url`.
        request = urllib.request.Request(url, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                found = msgspec.json.decode(answer.read())
        except (OSError, msgspec.DecodeError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            hint = "Start the server with -m 8222, or give the address: jetspark top http://HOST:PORT"
            raise CliError(f"no monitoring at {url}: {reason}", hint=hint, exit_code=NO_CONNECTION) from None
        if not isinstance(found, dict):
            raise CliError(f"{url} is not a NATS server's monitoring")
        return found

    def sample(self, sort: str, limit: int, with_streams: bool) -> Sample:
        """Everything that is shown, as of now."""
        server = self.get("varz")
        connections = self.get("connz", sort=sort, limit=limit).get("connections") or []
        streams: list[dict[str, Any]] = []
        if with_streams and server.get("jetstream"):
            accounts = self.get("jsz", streams="true", consumers="true").get("account_details") or []
            streams = [one for account in accounts for one in account.get("stream_detail") or []]
        return Sample(server, connections, sorted(streams, key=lambda one: str(one.get("name"))))


def monitor_url(target: str | None, settings: Settings) -> str:
    """`http://host:port` of an address, a port, or the server that is connected to with the usual port."""
    if not target:
        first = (settings.server or "127.0.0.1").split(",")[0]
        host = urlsplit(first if "://" in first else f"nats://{first}").hostname or "127.0.0.1"
        return f"http://{host}:{DEFAULT_PORT}"
    if target.isdigit():
        return f"http://127.0.0.1:{target}"
    url = target if "://" in target else f"http://{target}"
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"{target} is not a monitoring address", hint="Give one like http://127.0.0.1:8222.")
    return url.rstrip("/")


def rates(before: Sample, after: Sample) -> dict[str, float]:
    """Messages and bytes a second between two samples."""
    elapsed_s = max(1, after.now_ns - before.now_ns) / SECOND_NS
    return {name: max(0.0, (after.server.get(name, 0) - before.server.get(name, 0)) / elapsed_s) for name in COUNTERS}


def stream_rates(before: Sample, after: Sample) -> dict[str, float]:
    """Messages stored a second, by stream."""
    elapsed_s = max(1, after.now_ns - before.now_ns) / SECOND_NS
    last = {one["name"]: one["state"]["last_seq"] for one in before.streams}
    return {
        one["name"]: max(0.0, (one["state"]["last_seq"] - last.get(one["name"], one["state"]["last_seq"])) / elapsed_s)
        for one in after.streams
    }


def document(before: Sample, after: Sample) -> dict[str, Any]:
    """One sample for a script."""
    server, stored = after.server, stream_rates(before, after)
    keys = ("server_id", "server_name", "version", "now", "uptime", "cpu", "mem", "slow_consumers", *COUNTERS)
    return {
        **{key: server.get(key) for key in keys},
        "rates": rates(before, after),
        "connections": after.connections,
        "streams": [
            {"name": one["name"], "state": one["state"], "stored_per_sec": stored[one["name"]]} for one in after.streams
        ],
    }


def head_lines(before: Sample, after: Sample, *, raw: bool) -> list[str]:
    """The server in a few lines."""
    server, speed = after.server, rates(before, after)

    def size(count: float) -> str:
        return f"{count:.0f}" if raw else human_size(count)

    def count(number: float) -> str:
        return f"{number:.0f}" if raw else human_count(round(number))

    lines = [
        f"NATS server version {server.get('version')} (uptime: {server.get('uptime')}) {server.get('server_name')}",
        f"Server:  load: CPU {server.get('cpu', 0)}%   memory: {size(server.get('mem', 0))}"
        f"   slow consumers: {server.get('slow_consumers', 0)}",
    ]
    for word, direction in (("In", "in"), ("Out", "out")):
        lines.append(
            f"  {word + ':':<5}  msgs: {count(server.get(f'{direction}_msgs', 0))}"
            f"   bytes: {size(server.get(f'{direction}_bytes', 0))}"
            f"   msgs/sec: {count(speed[f'{direction}_msgs'])}"
            f"   bytes/sec: {size(speed[f'{direction}_bytes'])}"
        )
    lines.append(f"Connections: {server.get('connections', 0)}   subscriptions: {server.get('subscriptions', 0)}")
    return lines


def connection_rows(sample: Sample, *, raw: bool) -> list[list[str]]:
    """The table of connections."""

    def size(count: int) -> str:
        return str(count) if raw else human_size(count)

    return [
        [
            f"{one.get('ip', '')}:{one.get('port', '')}",
            str(one.get("cid", "")),
            text_of(str(one.get("name", "")).encode()),
            str(one.get("subscriptions", 0)),
            size(one.get("pending_bytes", 0)),
            human_count(one.get("out_msgs", 0)),
            human_count(one.get("in_msgs", 0)),
            size(one.get("out_bytes", 0)),
            size(one.get("in_bytes", 0)),
            text_of(str(one.get("lang", "")).encode()),
            text_of(str(one.get("version", "")).encode()),
            str(one.get("uptime", "")),
            str(one.get("idle", "")),
        ]
        for one in sample.connections
    ]


def stream_rows(before: Sample, after: Sample, *, raw: bool) -> list[list[str]]:
    """The table of streams; how far behind is the consumer that is furthest."""
    stored = stream_rates(before, after)
    rows = []
    for one in after.streams:
        state, consumers = one["state"], one.get("consumer_detail") or []
        rows.append(
            [
                text_of(str(one["name"]).encode()),
                human_count(state.get("consumer_count", 0)),
                human_count(state["messages"]),
                str(state["bytes"]) if raw else human_size(state["bytes"]),
                human_count(state["last_seq"]),
                human_count(round(stored[one["name"]])),
                human_count(max((consumer.get("num_pending", 0) for consumer in consumers), default=0)),
                human_count(sum(consumer.get("num_ack_pending", 0) for consumer in consumers)),
            ]
        )
    return rows


def picture(before: Sample, after: Sample, *, raw: bool) -> RenderableType:
    """Everything, for a terminal or a pipe."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text("\n".join(head_lines(before, after, raw=raw)))]
    parts.append(_table(CONNECTION_COLUMNS, connection_rows(after, raw=raw), left={"Host", "Name", "Lang", "Version"}))
    if after.streams:
        parts.append(_table(STREAM_COLUMNS, stream_rows(before, after, raw=raw), left={"Stream"}))
    return Group(*parts)


def _table(columns: tuple[str, ...], rows: list[list[str]], *, left: set[str]) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, header_style="bold")
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


@click.command("top", cls=Command)
@click.argument("target", required=False)
@click.option("--conns", "-n", type=click.IntRange(min=1), default=1024, help="Maximum number of connections to show")
@click.option("--interval", "-d", type=DURATION, default="1s", show_default=True, help="Refresh interval")
@click.option("--sort", type=click.Choice(SORTS), default="cid", show_default=True, help="Sort connections by")
@click.option("--once", is_flag=True, help="Show one sample and end")
@click.option("--max-refresh", "-r", type=click.IntRange(min=1), help="End after so many samples")
@click.option("--raw", "-b", is_flag=True, help="Show raw bytes")
@click.option("--streams/--no-streams", default=True, help="Show streams too")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Save the first sample to a file")
@pass_settings
def top(
    settings: Settings,
    /,
    *,
    target: str | None,
    conns: int,
    interval: int,
    sort: str,
    once: bool,
    max_refresh: int | None,
    raw: bool,
    streams: bool,
    output: Path | None,
) -> None:
    """Show a server's connections and streams, live.

    TARGET is the server's monitoring address, such as http://127.0.0.1:8222 or a port of this machine; without it
    port 8222 of the server that commands connect to.
    """
    chosen = effective(settings)
    monitor = Monitor(monitor_url(target, chosen), chosen)
    live = is_terminal() and not (once or settings.json or output)
    count = 1 if once or output else max_refresh or (None if live else 1)
    before = monitor.sample(sort, conns, streams)
    with pictures(live=live) as show:
        for number in itertools.count(1):
            time.sleep(interval / SECOND_NS)
            after = monitor.sample(sort, conns, streams)
            if settings.json:
                emit_json_line(document(before, after))
            elif output is not None:
                _save(output, picture(before, after, raw=raw))
            else:
                show(picture(before, after, raw=raw))
            if number == count:
                return
            before = after


def _save(path: Path, shown: RenderableType) -> None:
    from rich.console import Console

    with path.open("w", encoding="utf-8") as file:
        Console(file=file, width=200, no_color=True).print(shown)
    echo(f"Saved to {path}")
