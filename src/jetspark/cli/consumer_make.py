"""Making and changing consumers: add, edit, copy, rm."""

from __future__ import annotations

from typing import Any

import click

from jetspark.api.consumer_config import ConsumerConfig
from jetspark.cli.configurations import (
    add_options,
    agreed,
    edit_options,
    proposed,
    read_config,
    read_config_file,
    save_or_approve,
)
from jetspark.cli.connect import jetstream
from jetspark.cli.consumer_group import consumer
from jetspark.cli.consumer_options import consumer_document, consumer_options
from jetspark.cli.consumer_show import consumer_sheet
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import now_ns
from jetspark.cli.errors import UsageError
from jetspark.cli.names import (
    complete_consumer,
    complete_stream,
    consumer_argument,
    pick_consumer,
    pick_stream,
    stream_argument,
)
from jetspark.cli.output import emit_json
from jetspark.cli.prompts import can_ask, choose, confirm, force_option, given
from jetspark.cli.stream_show import plain_document
from jetspark.client.infos import ConsumerInfo


def show_made(settings: Settings, info: ConsumerInfo) -> None:
    """A consumer that was made or changed."""
    if settings.json:
        emit_json(plain_document(info.raw))
    else:
        consumer_sheet(info).show()


@consumer.verb("add", aliases=("create", "new"))
@stream_argument
@click.argument("consumer", required=False)
@add_options
@click.option("--pull", is_flag=True, help="Messages are pulled; what it is without --target")
@click.option("--ephemeral", is_flag=True, help="Without a name that lasts: it goes when nobody uses it")
@consumer_options
@click.option("--defaults", is_flag=True, help="Ask nothing that has a default")
@pass_settings
def add(
    settings: Settings,
    /,
    stream: str | None,
    consumer: str | None,
    config_file: str | None,
    validate: bool,
    output: str | None,
    pull: bool,
    ephemeral: bool,
    defaults: bool,
    **options: Any,
) -> None:
    """Make a consumer of a stream.

    \b
    jetspark consumer add ORDERS DISPATCH --pull --filter ORDERS.processed --ack explicit
    jetspark consumer add ORDERS --target my.monitor --ack none --deliver last --ephemeral
    """
    if pull and options.get("deliver_subject"):
        raise UsageError("--pull and --target exclude each other: a consumer is pulled from or pushes")
    document = read_config_file(config_file)
    document.update(consumer_document(options, now_ns()))
    asks = can_ask() and not (defaults or pull or ephemeral or config_file)
    _name(document, consumer, ephemeral=ephemeral)
    if asks and "deliver_subject" not in document:
        _ask_mode(document)
    if document.get("deliver_policy") == "last_per_subject" and not document.get("filter_subjects"):
        # The server wants to be told which subjects; all of them is what no filter means.
        document["filter_subject"] = document.get("filter_subject") or ">"
    document.setdefault("ack_policy", "none" if document.get("deliver_subject") else "explicit")
    config = read_config(ConsumerConfig, document)
    if output or validate:
        save_or_approve(config, config.durable_name or config.name or "the consumer", output)
        return
    with jetstream() as js:
        made = pick_stream(js, stream).create_consumer(config)
    show_made(settings, made.cached_info)


def _name(document: dict[str, Any], consumer: str | None, *, ephemeral: bool) -> None:
    """A durable has its name twice on the wire; an ephemeral may have one, and never as a durable."""
    name = consumer or document.get("durable_name") or document.get("name") or ""
    if ephemeral:
        document.pop("durable_name", None)
        if name:
            document["name"] = name
        return
    name = given(name, "Consumer name", argument="CONSUMER (or --ephemeral)")
    document["name"] = document["durable_name"] = name


def _ask_mode(document: dict[str, Any]) -> None:
    """Pull or push is the one thing without an obvious answer."""
    if choose("Mode", ["pull", "push"], argument="--pull or --target", default="pull") == "push":
        document["deliver_subject"] = given(None, "Delivery subject", argument="--target")


@consumer.verb("edit", aliases=("update",))
@stream_argument
@consumer_argument
@edit_options
@consumer_options
@pass_settings
def edit(
    settings: Settings,
    /,
    stream: str | None,
    consumer: str | None,
    config_file: str | None,
    force: bool,
    interactive: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """Change settings of a consumer; what is not named stays as it is."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        found = pick_consumer(picked, consumer)
        before = found.cached_info.config.encode()
        changes = {**read_config_file(config_file), **consumer_document(options, now_ns())}
        wanted = read_config(ConsumerConfig, proposed(before, changes, interactive=interactive))
        question = f"Really edit consumer {picked.name} > {found.name}"
        if not agreed(before, wanted.encode(), question, force=force, dry_run=dry_run):
            return
        made = picked.update_consumer(wanted)
    show_made(settings, made.cached_info)


@consumer.verb("copy", aliases=("cp",))
@click.argument("stream", shell_complete=complete_stream)
@click.argument("source", shell_complete=complete_consumer)
@click.argument("destination")
@click.option("--pull", is_flag=True, help="The copy is pulled from")
@click.option("--ephemeral", is_flag=True, help="The copy goes when nobody uses it")
@consumer_options
@pass_settings
def copy(
    settings: Settings,
    /,
    stream: str,
    source: str,
    destination: str,
    pull: bool,
    ephemeral: bool,
    **options: Any,
) -> None:
    """Make a consumer like another of the same stream, with other settings where given."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        found = pick_consumer(picked, source)
        document = {**found.cached_info.config.encode(), **consumer_document(options, now_ns())}
        if pull:
            for name in ("deliver_subject", "deliver_group", "flow_control", "idle_heartbeat"):
                document.pop(name, None)
        for name in ("name", "durable_name"):
            document.pop(name, None)
        _name(document, destination, ephemeral=ephemeral)
        made = picked.create_consumer(read_config(ConsumerConfig, document))
    show_made(settings, made.cached_info)


@consumer.verb("rm", aliases=("delete", "del"))
@stream_argument
@consumer_argument
@force_option
@pass_settings
def rm(settings: Settings, stream: str | None, consumer: str | None, force: bool) -> None:
    """Remove a consumer."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        found = pick_consumer(picked, consumer)
        if not confirm(f"Really delete consumer {picked.name} > {found.name}", force=force):
            return
        found.delete()
    if settings.json:
        emit_json({"stream": picked.name, "consumer": found.name, "deleted": True})
