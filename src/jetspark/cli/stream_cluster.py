"""`jetspark stream cluster`: who leads a replicated stream, and which servers have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jetspark.cli.clusters import is_clustered, servers
from jetspark.cli.connect import jetstream
from jetspark.cli.context import Noun, Settings, pass_settings
from jetspark.cli.durations import now_ns
from jetspark.cli.errors import UsageError, failure
from jetspark.cli.leaders import (
    Led,
    balance,
    not_clustered,
    preferred_option,
    require_followers,
    show_balance,
    stand_down,
)
from jetspark.cli.names import complete_peer, pick_stream, stream_argument
from jetspark.cli.output import echo, emit_json, note
from jetspark.cli.prompts import choose
from jetspark.cli.stream_group import stream
from jetspark.cli.stream_look import find_options, matches
from jetspark.cli.stream_show import plain_document, stream_sheet

if TYPE_CHECKING:
    from jetspark.sync import JetStream


@click.group("cluster", cls=Noun)
def cluster() -> None:
    """Leaders and peers of a stream in a cluster of nats-servers."""


stream.add_command(cluster)
stream.aliases["c"] = "cluster"


def _led(name: str) -> Led:
    return Led(f"stream {name}", "STREAM", name)


@cluster.verb("step-down", aliases=("stepdown", "sd", "elect", "down", "d"))
@stream_argument
@preferred_option
@click.option("--force", "-f", is_flag=True, help="Ask for an election although there is no leader")
@pass_settings
def step_down(settings: Settings, stream: str | None, preferred: str, force: bool) -> None:
    """Have another server lead the stream."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        found, led = picked.cached_info.cluster, _led(picked.name)
        require_followers(led, found, f"jetspark stream edit {picked.name} --replicas 3")
        stand_down(js, led, found, preferred=preferred, force=force, timeout_s=settings.timeout_s)
        after = picked.info()
    if settings.json:
        emit_json(plain_document(after.raw))
    else:
        note("")
        stream_sheet(after).show()


@cluster.verb("peer-remove", aliases=("pr",))
@stream_argument
@click.argument("peer", required=False, shell_complete=complete_peer)
@click.option("--force", "-f", is_flag=True, help="Also when the stream is nowhere else")
@pass_settings
def peer_remove(settings: Settings, stream: str | None, peer: str | None, force: bool) -> None:
    """Take the stream from a server; the cluster gives it to another, if one is free."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        found = picked.cached_info.cluster
        if not is_clustered(found):
            raise not_clustered(f"stream {picked.name}")
        names = sorted(name for name in servers(found) if name)
        if len(names) == 1 and not force:
            raise UsageError(
                f"stream {picked.name} is on {names[0]} alone: its messages would be lost",
                hint="Add --force if it is meant.",
            )
        peer = peer or choose("Which server?", names, argument="PEER")
        if peer not in names:
            raise UsageError(f"stream {picked.name} is not on {peer}; it is on: {', '.join(names)}")
        _remove(js, picked.name, peer)
    if settings.json:
        emit_json({"stream": picked.name, "removed": peer})
    else:
        echo(f'Requested removal of peer "{peer}" from stream {picked.name}')


def _remove(js: JetStream, name: str, peer: str) -> None:
    from jetspark.api.error_codes import ApiError, ErrorCode

    try:
        js.api_request(f"STREAM.PEER.REMOVE.{name}", {"peer": peer})
    except ApiError as error:
        if error.err_code != ErrorCode.PEER_REMAP:
            raise
        hint = f"No other server can take it; be content with fewer: jetspark stream edit {name} --replicas 1"
        raise failure(error, hint=hint) from error


@cluster.verb("balance")
@find_options
@pass_settings
def balance_streams(settings: Settings, /, subject: str, invert: bool, **wanted: Any) -> None:
    """Spread the leaders of the streams that match evenly over the servers that have them."""
    with jetstream() as js:
        found = [one for one in js.streams(subject) if matches(one, wanted, now_ns()) != invert]
        clusters = {one.name: one.cluster for one in found}
        result = balance(js, settings, {name: _led(name) for name in clusters}, clusters, kind="streams")
        after = (
            [one.cluster for one in js.streams(subject) if one.name in clusters] if result.moved else clusters.values()
        )
    show_balance(settings, result, after)
