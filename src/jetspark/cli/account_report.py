"""`jetspark account report`: the streams, the connections and the traffic of an account, of all servers that have it.

Decided here: what the servers are asked (each answers for itself), how long stragglers are waited for, and the columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from jetspark.cli.account_group import account
from jetspark.cli.connect import connected, jetstream
from jetspark.cli.context import Noun, Settings, pass_settings
from jetspark.cli.durations import human_count, human_size, wire_ns
from jetspark.cli.errors import TIMED_OUT, CliError
from jetspark.cli.output import emit_json, show_table

if TYPE_CHECKING:
    from jetspark.client.infos import StreamInfo
    from jetspark.sync import Connection, JetStream

# After the first answer the other servers of a cluster have so long, as with `nats`.
STRAGGLER_S: Final = 0.3
# A server tells no more connections than this at once.
PAGE: Final = 1024
# Enough of an id to tell two servers apart.
ID_SHOWN: Final = 12
STATES: Final = {"open": 0, "closed": 1, "all": 2}
ORDERS: Final = {
    "in-bytes": lambda one: one["in_bytes"],
    "out-bytes": lambda one: one["out_bytes"],
    "in-msgs": lambda one: one["in_msgs"],
    "out-msgs": lambda one: one["out_msgs"],
    # The longer it is there, the earlier it came.
    "uptime": lambda one: -wire_ns(str(one.get("start", ""))),
    "cid": lambda one: one["cid"],
    "subs": lambda one: one["subscriptions"],
}


@click.group("report", cls=Noun, invoke_without_command=True, no_args_is_help=False)
@click.pass_context
def report(ctx: click.Context) -> None:
    """What an account has: its streams (when nothing else is asked for), connections or traffic."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(streams)


account.add_command(report)
account.aliases["rep"] = "report"


@report.verb("streams")
@pass_settings
def streams(settings: Settings) -> None:
    """Show every stream with what it holds and how its consumers stand."""
    with jetstream() as js:
        rows = [_report_row(js, found) for found in sorted(js.streams(), key=lambda one: one.name)]
    if settings.json:
        emit_json(rows)
        return
    show_table(
        "Streams of this account",
        [
            "Stream",
            "Storage",
            "Replicas",
            "Consumers",
            "Messages",
            "Bytes",
            "Unprocessed",
            "Outstanding",
            "Redelivered",
        ],
        [
            [row["stream"], row["storage"].capitalize(), row["replicas"], human_count(row["consumers"])]
            + [human_count(row["messages"]), human_size(row["bytes"])]
            + [human_count(row[name]) for name in ("unprocessed", "outstanding", "redelivered")]
            for row in rows
        ],
        right=["Replicas", "Consumers", "Messages", "Bytes", "Unprocessed", "Outstanding", "Redelivered"],
        empty="No streams here",
    )


def _report_row(js: JetStream, found: StreamInfo) -> dict[str, Any]:
    consumers = js.stream_handle(found.name).consumers()
    return {
        "stream": found.name,
        "storage": str(found.config.storage),
        "replicas": found.config.num_replicas,
        "consumers": len(consumers),
        "messages": found.state.messages,
        "bytes": found.state.bytes,
        # The consumer that is furthest behind: what the stream still has to hand out.
        "unprocessed": max((one.num_pending for one in consumers), default=0),
        "outstanding": sum(one.num_ack_pending for one in consumers),
        "redelivered": sum(one.num_redelivered for one in consumers),
    }


def answers(connection: Connection, settings: Settings, question: str, **options: Any) -> list[dict[str, Any]]:
    """What each server says; an error when none does."""
    inbox = connection.new_inbox()
    found: list[dict[str, Any]] = []
    with connection.subscribe(inbox) as subscription:
        connection.publish(f"$SYS.REQ.ACCOUNT.PING.{question}", msgspec.json.encode(options), reply=inbox)
        while (answer := subscription.next(STRAGGLER_S if found else settings.timeout_s)) is not None:
            if answer.status_code == 503:
                raise CliError("the server here does not tell about accounts", hint="nats-server 2.9 and later do.")
            found.append(msgspec.json.decode(answer.data, type=dict))
    if not found:
        raise CliError("no server tells about this account", hint="Wait longer with --timeout.", exit_code=TIMED_OUT)
    for one in found:
        if error := one.get("error"):
            raise CliError(f"{one.get('server', {}).get('name', '')}: {error.get('description', error)}")
    return found


def shown_server(server: dict[str, Any]) -> str:
    """A server's name; the beginning of its id where it was given none."""
    name = str(server.get("name", ""))
    return f"{name[:ID_SHOWN]}.." if name == server.get("id") and len(name) > ID_SHOWN else name


def _connections(connection: Connection, settings: Settings, **options: Any) -> Iterator[dict[str, Any]]:
    """Every connection, with the server it is on; page by page while one of the servers has more."""
    offset = 0
    while True:
        pages = answers(connection, settings, "CONNZ", limit=PAGE, offset=offset, **options)
        for page in pages:
            server = {key: page["server"].get(key, "") for key in ("name", "cluster", "id")}
            for one in page["data"].get("connections") or []:
                yield {"server": server, **one}
        offset += PAGE
        if all(int(page["data"].get("total", 0)) <= offset for page in pages):
            return


CONNECTION_COLUMNS: Final = (
    "CID", "Name", "Server", "Cluster", "IP", "Uptime", "In Msgs", "Out Msgs", "In Bytes", "Out Bytes", "Subs",
)  # fmt: skip


@report.verb("connections", aliases=("conn", "connz", "conns"))
@click.option("--sort", type=click.Choice([*ORDERS]), default="subs", show_default=True, help="Sort by this")
@click.option(
    "--top", type=click.IntRange(1), default=1000, show_default=True, help="Show so many, those with the most"
)
@click.option("--subject", default="", help="Those with a subscription that matches")
@click.option("--username", default="", help="Those of this user")
@click.option("--reverse", "-R", is_flag=True, help="Those with the most first")
@click.option("--state", type=click.Choice([*STATES]), default="open", show_default=True, help="Those in this state")
@click.option("--closed-reason", metavar="REASON", default="", help="Those closed for a reason with these words")
@pass_settings
def connections(
    settings: Settings, /, sort: str, top: int, reverse: bool, state: str, closed_reason: str, **asked: str
) -> None:
    """Show the connections of the account on every server."""
    options: dict[str, Any] = {"subscriptions": True, "auth": True, "state": STATES[state]}
    options.update({"filter_subject": asked["subject"]} if asked["subject"] else {})
    options.update({"user": asked["username"]} if asked["username"] else {})
    with connected() as connection:
        found = list(_connections(connection, settings, **options))
    found = [one for one in found if closed_reason.lower() in str(one.get("reason", "")).lower()]
    found.sort(key=ORDERS[sort])
    shown = found[-top:]
    if reverse:
        shown.reverse()
    if settings.json:
        emit_json(shown)
        return
    with_reason = state != "open"
    columns = (*CONNECTION_COLUMNS, "Reason") if with_reason else CONNECTION_COLUMNS
    rows = [_connection_row(one)[: len(columns)] for one in shown]
    if len(found) > 1:
        rows.append(_totals(found)[: len(columns)])
    title = f"Top {human_count(len(shown))} Connections out of {human_count(len(found))} by {sort}"
    show_table(title, columns, rows, right=CONNECTION_COLUMNS[6:], empty="No connections match")
    _show_servers(found)


def _connection_row(one: dict[str, Any]) -> tuple[str, ...]:
    kind = str(one.get("kind", "Client"))
    return (
        f"{'' if kind == 'Client' else kind[0]}{one['cid']}",
        str(one.get("name") or one.get("mqtt_client") or ""),
        shown_server(one["server"]),
        one["server"]["cluster"],
        f"{one.get('ip', '')}:{one.get('port', '')}",
        str(one.get("uptime", "")),
        human_count(one["in_msgs"]),
        human_count(one["out_msgs"]),
        human_size(one["in_bytes"]),
        human_size(one["out_bytes"]),
        human_count(one["subscriptions"]),
        str(one.get("reason", "")),
    )


def _totals(found: list[dict[str, Any]]) -> tuple[str, ...]:
    def total(name: str) -> int:
        return sum(one[name] for one in found)

    counts = (human_count(total("in_msgs")), human_count(total("out_msgs")))
    sizes = (human_size(total("in_bytes")), human_size(total("out_bytes")))
    head = ("", f"Totals for {human_count(len(found))} connections", "", "", "", "")
    return (*head, *counts, *sizes, human_count(total("subscriptions")), "")


def _show_servers(found: list[dict[str, Any]]) -> None:
    counts = Counter((shown_server(one["server"]), one["server"]["cluster"]) for one in found)
    if len(counts) > 1:
        rows = [(*server, human_count(count)) for server, count in sorted(counts.items(), key=lambda item: item[1])]
        show_table("Connections per server", ("Server", "Cluster", "Connections"), rows, right=("Connections",))


TRAFFIC_COLUMNS: Final = (
    "Server", "Cluster", "Version", "Connections", "Subscriptions", "Leafnodes",
    "Sent Bytes", "Sent Messages", "Received Bytes", "Received Messages", "Slow Consumers",
)  # fmt: skip


@report.verb("statistics", aliases=("stats", "statsz"))
@pass_settings
def statistics(settings: Settings) -> None:
    """Show how many connections and how much traffic of the account each server has."""
    with connected() as connection:
        found = [
            {"server": one["server"], **account_statz}
            for one in answers(connection, settings, "STATZ")
            for account_statz in (one["data"].get("account_statz") or [])[:1]
        ]
    found.sort(key=lambda one: str(one["server"].get("name", "")))
    if settings.json:
        emit_json(found)
        return
    rows = [_traffic_row(one) for one in found]
    show_table(
        "Server Statistics", TRAFFIC_COLUMNS, rows, right=TRAFFIC_COLUMNS[3:], empty="No server has this account"
    )


def _traffic_row(one: dict[str, Any]) -> tuple[str, ...]:
    server, sent, received = one["server"], one["sent"], one["received"]
    return (
        shown_server(server),
        str(server.get("cluster", "")),
        str(server.get("ver", "")),
        human_count(one["conns"]),
        human_count(one["num_subscriptions"]),
        human_count(one["leafnodes"]),
        human_size(sent["bytes"]),
        human_count(sent["msgs"]),
        human_size(received["bytes"]),
        human_count(received["msgs"]),
        human_count(one["slow_consumers"]),
    )
