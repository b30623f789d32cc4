"""Making and changing streams: add, edit, copy, rm, purge, seal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jetspark.api.stream_config import StreamConfig
from jetspark.cli.backups import copy_messages
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
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import human_count
from jetspark.cli.errors import UsageError
from jetspark.cli.names import complete_stream, pick_stream, stream_argument
from jetspark.cli.output import echo, emit_json
from jetspark.cli.progress import progress_bar, progress_option
from jetspark.cli.prompts import can_ask, choose, confirm, force_option, given
from jetspark.cli.stream_group import stream
from jetspark.cli.stream_look import show_state
from jetspark.cli.stream_options import split_words, stream_document, stream_options
from jetspark.cli.stream_show import plain_document, stream_sheet
from jetspark.client.infos import StreamInfo

if TYPE_CHECKING:
    from jetspark.sync import Stream

# A purge of more than this is made in steps, so that its progress shows and no request takes long.
PURGE_STEP = 500_000


def show_made(settings: Settings, info: StreamInfo, verb: str) -> None:
    """A stream that was made or changed."""
    if settings.json:
        emit_json(plain_document(info.raw))
        return
    echo(f"Stream {info.name} was {verb}\n")
    stream_sheet(info).show()


@stream.verb("add", aliases=("create", "new"))
@click.argument("stream", required=False)
@add_options
@click.option("--first-sequence", "first_seq", type=int, help="The first sequence")
@stream_options
@click.option("--defaults", is_flag=True, help="Ask nothing that has a default")
@pass_settings
def add(
    settings: Settings,
    /,
    stream: str | None,
    config_file: str | None,
    validate: bool,
    output: str | None,
    first_seq: int | None,
    defaults: bool,
    **options: Any,
) -> None:
    """Make a stream. Settings that are not given have the defaults of `nats`.

    jetspark stream add ORDERS --subjects 'ORDERS.*' --storage file --max-age 1d
    """
    document: dict[str, Any] = {"allow_direct": True, **read_config_file(config_file)}
    wanted = stream_document(options)
    document.update(wanted)
    if first_seq is not None:
        document["first_seq"] = first_seq
    document["name"] = given(stream or document.get("name"), "Stream name", argument="STREAM")
    _ask_the_rest(document, defaults=defaults or bool(config_file) or set(wanted) > {"subjects"})
    config = read_config(StreamConfig, document)
    if output or validate:
        save_or_approve(config, config.name, output)
        return
    with jetstream() as js:
        made = js.create_stream(config)
    show_made(settings, made.cached_info, "created")


def _ask_the_rest(document: dict[str, Any], *, defaults: bool) -> None:
    """Subjects must come from somewhere; the two settings that cannot be changed later are offered."""
    if document.get("mirror"):
        # A mirror has its origin's subjects, and its readers may go to either.
        document.setdefault("mirror_direct", True)
    elif not document.get("subjects") and not document.get("sources"):
        document["subjects"] = split_words([given(None, "Subjects (with commas)", argument="--subjects")])
    if defaults or not can_ask():
        return
    if "storage" not in document:
        document["storage"] = choose("Storage", ["file", "memory"], argument="--storage", default="file")
    if "retention" not in document:
        policies = ["limits", "interest", "workqueue"]
        document["retention"] = choose("Retention", policies, argument="--retention", default="limits")


@stream.verb("edit", aliases=("update",))
@stream_argument
@edit_options
@click.option("--no-mirror", "mirror_removed", is_flag=True, help="Remove the mirror configuration")
@click.option("--no-transform", "transform_removed", is_flag=True, help="Remove the subject transform")
@click.option("--no-republish", "republish_removed", is_flag=True, help="Remove the republish configuration")
@stream_options
@pass_settings
def edit(
    settings: Settings,
    /,
    stream: str | None,
    config_file: str | None,
    force: bool,
    interactive: bool,
    dry_run: bool,
    mirror_removed: bool,
    transform_removed: bool,
    republish_removed: bool,
    **options: Any,
) -> None:
    """Change settings of a stream; what is not named stays as it is."""
    gone = {"mirror": mirror_removed, "subject_transform": transform_removed, "republish": republish_removed}
    with jetstream() as js:
        picked = pick_stream(js, stream)
        before = picked.cached_info.config.encode()
        document = {**read_config_file(config_file), **stream_document(options)}
        after = proposed(before, document, removed=[key for key in gone if gone[key]], interactive=interactive)
        wanted = read_config(StreamConfig, {**after, "name": picked.name})
        if not agreed(before, wanted.encode(), f"Really edit stream {picked.name}", force=force, dry_run=dry_run):
            return
        made = js.update_stream(wanted)
    show_made(settings, made.cached_info, "updated")


@stream.verb("rm", aliases=("delete", "del"))
@stream_argument
@force_option
@pass_settings
def rm(settings: Settings, stream: str | None, force: bool) -> None:
    """Remove a stream with everything in it."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        count = human_count(picked.cached_info.state.messages)
        if not confirm(f"Really delete stream {picked.name} with its {count} messages", force=force):
            return
        picked.delete()
    if settings.json:
        emit_json({"stream": picked.name, "deleted": True})


@stream.verb("purge")
@stream_argument
@force_option
@click.option("--subject", default="", help="Only messages of this subject")
@click.option("--seq", type=int, default=0, help="Up to, but not including, this sequence")
@click.option("--keep", type=int, default=0, help="All but the newest so many")
@progress_option
@pass_settings
def purge(
    settings: Settings, stream: str | None, force: bool, subject: str, seq: int, keep: int, progress: bool
) -> None:
    """Remove messages from a stream: all of them, or those the options pick."""
    if seq and keep:
        raise UsageError("give --seq or --keep, not both")
    with jetstream() as js:
        picked = pick_stream(js, stream)
        if not confirm(f"Really purge stream {picked.name}", force=force):
            return
        purged = _purge(picked, subject, seq, keep, show=progress and not settings.json)
        after = picked.info()
    if settings.json:
        emit_json({**plain_document(after.raw), "purged": purged})
        return
    echo(f"Purged {human_count(purged)} messages from {picked.name}\n")
    show_state(after)


def _purge(picked: Stream, subject: str, seq: int, keep: int, *, show: bool) -> int:
    """In steps where the stream is large and the end is a sequence."""
    state = picked.cached_info.state
    last = min(seq or state.last_seq + 1, state.last_seq + 1)
    purged = 0
    with progress_bar(f"Purging {picked.name}", state.messages, show=show) as bar:
        if not subject and not keep:
            for step in range(state.first_seq + PURGE_STEP, last, PURGE_STEP):
                purged += picked.purge(seq=step)
                bar.move_to(purged)
        purged += picked.purge(subject=subject, seq=seq, keep=keep)
        bar.move_to(purged)
    return purged


@stream.verb("seal")
@stream_argument
@force_option
@pass_settings
def seal(settings: Settings, stream: str | None, force: bool) -> None:
    """Seal a stream: nothing can be added or removed any more, for ever."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        if not confirm(f"Really seal stream {picked.name}; sealed streams cannot be unsealed", force=force):
            return
        sealed = picked.update(sealed=True)
    show_made(settings, sealed, "sealed")


@stream.verb("copy", aliases=("cp",))
@click.argument("source", shell_complete=complete_stream)
@click.argument("destination")
@click.option("--data", is_flag=True, help="Copy the messages and consumers too, not only the configuration")
@click.option("--first-sequence", "first_seq", type=int, help="The first sequence")
@progress_option
@stream_options
@pass_settings
def copy(
    settings: Settings,
    /,
    source: str,
    destination: str,
    data: bool,
    first_seq: int | None,
    progress: bool,
    **options: Any,
) -> None:
    """Make a stream like another, with other settings where given.

    Only the configuration is copied, as in `nats`; with --data the messages and consumers too.
    """
    with jetstream() as js:
        origin = pick_stream(js, source)
        document = {**origin.cached_info.config.encode(), **stream_document(options), "name": destination}
        if first_seq is not None:
            document["first_seq"] = first_seq
        if "subjects" in document and not options.get("subjects"):
            raise UsageError(
                f"{source} and {destination} cannot both store {', '.join(document['subjects'])}",
                hint="Give the copy subjects of its own with --subjects.",
            )
        config = read_config(StreamConfig, document)
        if data:
            made = copy_messages(origin, config, show=progress and not settings.json)
        else:
            made = js.create_stream(config)
    show_made(settings, made.cached_info, "created")
