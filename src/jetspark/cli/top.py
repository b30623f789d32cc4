"""`jetspark top`: a server's connections and streams, live.

Decided here: what is asked (varz, connz, jsz: every NATS server has them), how two samples become rates, and what is
shown. At a terminal it refreshes until Ctrl-C; in a pipe, or with --once, it shows one sample and ends. Whom to ask,
and how, is in `monitoring`.
"""

from __future__ import annotations

import csv
import io
import itertools
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from jetspark.cli.connect import connected, effective
from jetspark.cli.context import Command, Settings, pass_settings
from jetspark.cli.durations import DURATION, SECOND_NS, human_count, human_size, wire_ns
from jetspark.cli.errors import UsageError
from jetspark.cli.monitoring import HttpMonitor, Monitor, SystemMonitor, monitor_url, names_a_server
from jetspark.cli.output import echo, emit_json_line, is_terminal, pictures, text_of

if TYPE_CHECKING:
    from rich.console import RenderableType

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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of the server, and how it is shown."""

    sort: str
    limit: int
    streams: bool
    subs: bool
    lookup: bool
    raw: bool
    delimiter: str


def take_sample(monitor: Monitor, wanted: Wanted) -> Sample:
    """Everything that is shown, as of now."""
    server = monitor.get("varz")
    found = monitor.get("connz", sort=wanted.sort, limit=wanted.limit, subscriptions=wanted.subs)
    streams: list[dict[str, Any]] = []
    if wanted.streams and server.get("jetstream"):
        accounts = monitor.get("jsz", streams=True, consumer=True).get("account_details") or []
        streams = [one for account in accounts for one in account.get("stream_detail") or []]
    return Sample(server, found.get("connections") or [], sorted(streams, key=lambda one: str(one.get("name"))))


@cache
def host_name(address: str) -> str:
    """What the name service calls an address; the address itself where it knows none."""
    try:
        return socket.gethostbyaddr(address)[0]
    except OSError:
        return address


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


def connection_rows(sample: Sample, wanted: Wanted) -> list[list[str]]:
    """The table of connections."""

    def size(count: int) -> str:
        return str(count) if wanted.raw else human_size(count)

    def host(one: dict[str, Any]) -> str:
        address = str(one.get("ip", ""))
        return f"{host_name(address) if wanted.lookup else address}:{one.get('port', '')}"

    rows = [
        [
            host(one),
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
    if wanted.subs:
        for row, one in zip(rows, sample.connections, strict=True):
            row.append(text_of(", ".join(one.get("subscriptions_list") or ()).encode()))
    return rows


def connection_columns(wanted: Wanted) -> tuple[str, ...]:
    """What the rows are."""
    return (*CONNECTION_COLUMNS, "Subscriptions") if wanted.subs else CONNECTION_COLUMNS


def delimited(sample: Sample, wanted: Wanted) -> str:
    """The connections as a file that a spreadsheet reads."""
    made = io.StringIO()
    writer = csv.writer(made, delimiter=wanted.delimiter, lineterminator="\n")
    writer.writerows([connection_columns(wanted), *connection_rows(sample, wanted)])
    return made.getvalue()


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


def picture(before: Sample, after: Sample, wanted: Wanted) -> RenderableType:
    """Everything, for a terminal or a pipe."""
    from rich.console import Group
    from rich.text import Text

    left = {"Host", "Name", "Lang", "Version", "Subscriptions"}
    parts: list[RenderableType] = [Text("\n".join(head_lines(before, after, raw=wanted.raw)))]
    parts.append(_table(connection_columns(wanted), connection_rows(after, wanted), left=left))
    if after.streams:
        parts.append(_table(STREAM_COLUMNS, stream_rows(before, after, raw=wanted.raw), left={"Stream"}))
    return Group(*parts)


def _table(columns: tuple[str, ...], rows: list[list[str]], *, left: set[str]) -> RenderableType:
    from rich import box
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        # A row is a line: in a narrow terminal words are cut, and numbers stay whole below a heading of two lines.
        is_text = name in left
        heading = name if is_text else name.replace(" ", "\n")
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=not is_text, vertical="bottom")
    for row in rows:
        table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    return Padding(table, (1, 0, 0, 0))


@click.command("top", cls=Command)
@click.argument("target", required=False)
@click.option(
    "--conns", "-n", "limit", type=click.IntRange(min=1), default=1024, help="Maximum number of connections to show"
)
@click.option("--interval", "-d", type=DURATION, default="1s", show_default=True, help="Refresh interval")
@click.option("--sort", type=click.Choice(SORTS), default="cid", show_default=True, help="Sort connections by")
@click.option("--once", is_flag=True, help="Show one sample and end")
@click.option("--max-refresh", "-r", type=int, help="End after so many samples  [default: by Ctrl-C]")
@click.option("--raw", "-b", is_flag=True, help="Show raw bytes")
@click.option("--lookup", is_flag=True, help="Show host names instead of addresses")
@click.option("--subs", is_flag=True, help="Show what each connection subscribes to")
@click.option("--streams/--no-streams", default=True, help="Show streams too")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Save the first sample to a file")
@click.option("--delimiter", default="", help="Give the connections alone, with this character between their fields")
@pass_settings
def top(
    settings: Settings,
    /,
    *,
    target: str | None,
    interval: int,
    once: bool,
    max_refresh: int | None,
    output: Path | None,
    **options: Any,
) -> None:
    """Show a server's connections and streams, live.

    TARGET is the server's monitoring address, such as http://127.0.0.1:8222 or a port of this machine; without it
    port 8222 of the server that commands connect to. A word is the name of a server, which is asked through the system
    account.
    """
    wanted = Wanted(**options)
    if len(wanted.delimiter) > 1:
        raise UsageError(f"--delimiter is one character, not {wanted.delimiter!r}")
    live = is_terminal() and not (once or settings.json or output or wanted.delimiter)
    # Below zero means without end, as in `nats`.
    count = 1 if once or output else max_refresh or -1
    if count < 0:
        count = 0 if live else 1
    with _monitor(target, effective(settings)) as monitor:
        before = take_sample(monitor, wanted)
        with pictures(live=live) as show:
            for number in itertools.count(1):
                time.sleep(interval / SECOND_NS)
                after = take_sample(monitor, wanted)
                if settings.json:
                    emit_json_line(document(before, after))
                elif output is not None:
                    _save(output, before, after, wanted)
                elif wanted.delimiter:
                    echo(delimited(after, wanted).rstrip("\n"))
                else:
                    show(picture(before, after, wanted))
                if number == count:
                    return
                before = after


@contextmanager
def _monitor(target: str | None, settings: Settings) -> Iterator[Monitor]:
    """Whom to ask."""
    if target is None or not names_a_server(target):
        yield HttpMonitor(monitor_url(target, settings), settings)
        return
    with connected() as connection:
        yield SystemMonitor(target, connection)


def _save(path: Path, before: Sample, after: Sample, wanted: Wanted) -> None:
    from rich.console import Console

    with path.open("w", encoding="utf-8") as file:
        if wanted.delimiter:
            file.write(delimited(after, wanted))
        else:
            Console(file=file, width=200, no_color=True).print(picture(before, after, wanted))
    echo(f"Saved to {path}")
