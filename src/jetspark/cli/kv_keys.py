"""The commands of `jetspark kv` about keys: get, put, create, update, del, purge, history, revert, watch."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from jetspark.cli.buckets import bucket_argument, complete_key, key_argument, value_bytes
from jetspark.cli.connect import jetstream
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import DURATION, SECOND_NS, human_count, local_time
from jetspark.cli.kv_base import (
    SHOWN_BYTES,
    done,
    entry_document,
    keys_explained,
    kv,
    open_bucket,
    short,
    wanted_key,
)
from jetspark.cli.output import echo, emit_json, emit_json_line, note, show_table, text_of, write_bytes
from jetspark.cli.prompts import confirm, force_option, given

if TYPE_CHECKING:
    from jetspark.sync import KeyValue, KeyValueEntry


@kv.verb("get")
@bucket_argument
@key_argument
@click.option("--revision", type=click.IntRange(min=1), default=None, help="Get a specific revision")
@click.option("--raw", is_flag=True, help="Show only the value, as it is")
@pass_settings
def get(settings: Settings, bucket: str | None, key: str | None, revision: int | None, raw: bool) -> None:
    """Get the value of a key."""
    with jetstream() as js:
        opened, name = open_bucket(js, bucket), wanted_key(key)
        with keys_explained(opened):
            entry = opened.get(name, revision=revision or 0)
    if raw:
        write_bytes(entry.value)
    elif settings.json:
        emit_json(entry_document(entry))
    else:
        created = local_time(entry.timestamp_ns)
        echo(f"{entry.bucket} > {entry.key} revision: {entry.revision} created @ {created}\n")
        if len(entry.value) > SHOWN_BYTES:
            echo(f"Showing first {SHOWN_BYTES} bytes of {human_count(len(entry.value))}, use --raw for full data\n")
        echo(text_of(entry.value[:SHOWN_BYTES]) + "\n")


def _stored(settings: Settings, bucket: KeyValue, key: str, value: bytes, revision: int) -> None:
    """What a write answers: the value as `nats` does, the revision for a script."""
    if settings.json:
        emit_json({"bucket": bucket.bucket, "key": key, "revision": revision})
    else:
        echo(text_of(value))


@kv.verb("put")
@bucket_argument
@key_argument
@click.argument("value", required=False)
@pass_settings
def put(settings: Settings, bucket: str | None, key: str | None, value: str | None) -> None:
    """Put a value into a key. Without VALUE it is read from stdin."""
    with jetstream() as js:
        opened, name = open_bucket(js, bucket), wanted_key(key)
        data = value_bytes(value, "Value")
        _stored(settings, opened, name, data, opened.put(name, data))


@kv.verb("create")
@bucket_argument
@key_argument
@click.argument("value", required=False)
@click.option("--ttl", type=DURATION, help="How long the key lives; the bucket needs --marker-ttl")
@pass_settings
def create(settings: Settings, bucket: str | None, key: str | None, value: str | None, ttl: int | None) -> None:
    """Put a value into a key only if the key is new or was deleted."""
    with jetstream() as js:
        opened, name = open_bucket(js, bucket), wanted_key(key)
        data = value_bytes(value, "Value")
        with keys_explained(opened):
            revision = opened.create(name, data, ttl=None if ttl is None else ttl / SECOND_NS)
        _stored(settings, opened, name, data, revision)


@kv.verb("update")
@bucket_argument
@key_argument
@click.argument("value", required=False)
@click.argument("revision", required=False, type=click.IntRange(min=0))
@pass_settings
def update(settings: Settings, bucket: str | None, key: str | None, value: str | None, revision: int | None) -> None:
    """Put a value into a key only if its REVISION is still the one named."""
    with jetstream() as js:
        opened, name = open_bucket(js, bucket), wanted_key(key)
        data = given(value, "Value", argument="VALUE").encode()
        last = int(given(None if revision is None else str(revision), "Last revision", argument="REVISION"))
        with keys_explained(opened):
            revision = opened.update(name, data, last)
        _stored(settings, opened, name, data, revision)


@kv.verb("del", aliases=("rm", "delete"))
@bucket_argument
@key_argument
@force_option
@pass_settings
def delete(settings: Settings, bucket: str | None, key: str | None, force: bool) -> None:
    """Delete a key, or without KEY the whole bucket."""
    with jetstream() as js:
        opened = open_bucket(js, bucket)
        what = f"key {opened.bucket} > {key}" if key else f"bucket {opened.bucket} with everything in it"
        if not confirm(f"Delete {what}?", force=force):
            note("Skipping delete")
            return
        if key:
            opened.delete(key)
        else:
            js.delete_key_value(opened.bucket)
    done(settings, f"Deleted {what}", bucket=opened.bucket, key=key)


@kv.verb("purge")
@bucket_argument
@key_argument
@force_option
@click.option("--ttl", type=DURATION, help="How long the mark of the purge is kept; the bucket needs --marker-ttl")
@pass_settings
def purge(settings: Settings, bucket: str | None, key: str | None, force: bool, ttl: int | None) -> None:
    """Delete a key and its history, leaving only a mark."""
    with jetstream() as js:
        opened, name = open_bucket(js, bucket), wanted_key(key)
        if not confirm(f"Purge key {opened.bucket} > {name}?", force=force):
            note("Skipping purge")
            return
        opened.purge(name, ttl=None if ttl is None else ttl / SECOND_NS)
    done(settings, f"Purged key {opened.bucket} > {name}", bucket=opened.bucket, key=name)


def _entry_rows(entries: list[KeyValueEntry]) -> list[list[str]]:
    return [
        [
            entry.key,
            human_count(entry.revision),
            entry.operation,
            local_time(entry.timestamp_ns),
            human_count(len(entry.value)),
            short(entry.value),
        ]
        for entry in entries
    ]


@kv.verb("history")
@bucket_argument
@key_argument
@pass_settings
def history(settings: Settings, bucket: str | None, key: str | None) -> None:
    """Show every value kept of a key."""
    with jetstream() as js:
        opened, name = open_bucket(js, bucket), wanted_key(key)
        with keys_explained(opened):
            entries = opened.history(name)
    if settings.json:
        emit_json([entry_document(entry) for entry in entries])
        return
    show_table(
        f"History for {opened.bucket} > {name}",
        ["Key", "Revision", "Op", "Created", "Length", "Value"],
        _entry_rows(entries),
        right=["Revision", "Length"],
    )


@kv.verb("revert")
@bucket_argument
@key_argument
@click.argument("revision", required=False, type=click.IntRange(min=1))
@force_option
@pass_settings
def revert(settings: Settings, bucket: str | None, key: str | None, revision: int | None, force: bool) -> None:
    """Give a key the value it had at an earlier REVISION."""
    with jetstream() as js:
        opened, name = open_bucket(js, bucket), wanted_key(key)
        wanted = int(given(None if revision is None else str(revision), "Revision", argument="REVISION"))
        with keys_explained(opened):
            current, entry = opened.get(name), opened.get(name, revision=wanted)
        if not force:
            note(f"Now at revision {current.revision}: {short(current.value)}")
            note(f"Revision {wanted}: {short(entry.value)}")
        if not confirm(f"Really revert to revision {wanted}?", force=force):
            note("Skipping revert")
            return
        # Only if nobody changed it meanwhile: the person confirmed what was shown.
        with keys_explained(opened):
            stored = opened.update(name, entry.value, current.revision)
        _stored(settings, opened, name, entry.value, stored)


@kv.verb("watch")
@bucket_argument
@click.argument("key", required=False, default=">", shell_complete=complete_key)
@click.option("--history", "history_too", is_flag=True, help="Include the values before the current ones")
@click.option("--deletes/--no-deletes", default=True, help="Include deletes")
@click.option("--updates", is_flag=True, help="Only show what changes from now on")
@click.option("--revision", type=click.IntRange(min=1), help="Start from a certain revision")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many")
@pass_settings
def watch(
    settings: Settings,
    bucket: str | None,
    key: str,
    history_too: bool,
    deletes: bool,
    updates: bool,
    revision: int | None,
    count: int | None,
) -> None:
    """Show a bucket's values, or those of a key or pattern, and every change after them."""
    with jetstream() as js:
        watcher = open_bucket(js, bucket).watch(
            key,
            include_history=history_too,
            ignore_deletes=not deletes,
            updates_only=updates,
            from_revision=revision or 0,
        )
        shown = 0
        with watcher, suppress(StopIteration):
            for entry in watcher:
                if entry is None:
                    continue
                _show_change(entry, settings)
                shown += 1
                if shown == count:
                    return


def _show_change(entry: KeyValueEntry, settings: Settings) -> None:
    if settings.json:
        emit_json_line(entry_document(entry))
        return
    operation = click.style(entry.operation, fg="red" if entry.is_deleted else "green")
    value = "" if entry.is_deleted else f": {text_of(entry.value)}"
    echo(f"[{local_time(entry.timestamp_ns)}] {operation} {entry.bucket} > {entry.key}{value}")
