"""`jetspark consumer cluster`: who leads a consumer of a replicated stream."""

from __future__ import annotations

from typing import Any

import click

from jetspark.cli.connect import jetstream
from jetspark.cli.consumer_group import consumer
from jetspark.cli.consumer_look import find_options, matches
from jetspark.cli.consumer_show import consumer_sheet
from jetspark.cli.context import Noun, Settings, pass_settings
from jetspark.cli.durations import now_ns
from jetspark.cli.leaders import Led, balance, preferred_option, require_followers, show_balance, stand_down
from jetspark.cli.names import consumer_argument, pick_consumer, pick_stream, stream_argument
from jetspark.cli.output import emit_json, note
from jetspark.cli.stream_show import plain_document


@click.group("cluster", cls=Noun)
def cluster() -> None:
    """Leaders of consumers in a cluster of nats-servers."""


consumer.add_command(cluster)
consumer.aliases["c"] = "cluster"


def _led(stream: str, name: str) -> Led:
    return Led(f"consumer {stream} > {name}", "CONSUMER", f"{stream}.{name}")


@cluster.verb("step-down", aliases=("stepdown", "sd", "elect", "down", "d"))
@stream_argument
@consumer_argument
@preferred_option
@click.option("--force", "-f", is_flag=True, help="Ask for an election although there is no leader")
@pass_settings
def step_down(settings: Settings, stream: str | None, consumer: str | None, preferred: str, force: bool) -> None:
    """Have another server lead the consumer."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        found = pick_consumer(picked, consumer)
        led, members = _led(picked.name, found.name), found.cached_info.cluster
        require_followers(led, members, f"jetspark consumer edit {picked.name} {found.name} --replicas 3")
        stand_down(js, led, members, preferred=preferred, force=force, timeout_s=settings.timeout_s)
        after = found.info()
    if settings.json:
        emit_json(plain_document(after.raw))
    else:
        note("")
        consumer_sheet(after).show()


@cluster.verb("balance")
@stream_argument
@find_options
@pass_settings
def balance_consumers(settings: Settings, /, stream: str | None, invert: bool, **wanted: Any) -> None:
    """Spread the leaders of a stream's consumers that match evenly over the servers that have them."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        found = [one for one in picked.consumers() if matches(one, wanted, now_ns()) != invert]
        clusters = {one.name: one.cluster for one in found}
        result = balance(js, settings, {name: _led(picked.name, name) for name in clusters}, clusters, kind="consumers")
        after = (
            [one.cluster for one in picked.consumers() if one.name in clusters] if result.moved else clusters.values()
        )
    show_balance(settings, result, after, where=f" on {picked.name}")
