"""`jetspark object`: object stores.

Decided here: the words and flags (those of `nats object`), where a file goes, and that a download which turns out
damaged leaves no file behind. Chunks and digests are the client's business.
"""

from __future__ import annotations

import base64
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from jetspark.cli.buckets import (
    OBJECT_PREFIX,
    add_limits,
    bucket_argument,
    bucket_document,
    bucket_infos,
    bucket_options,
    chosen_bucket,
    new_bucket,
    no_bucket,
    object_argument,
    pairs,
    storage_option,
    stream_settings,
)
from jetspark.cli.clusters import add_cluster
from jetspark.cli.connect import jetstream
from jetspark.cli.context import Noun, Settings, pass_settings
from jetspark.cli.durations import SIZE, ago, human_count, human_size, local_time, wire_ns
from jetspark.cli.errors import UsageError
from jetspark.cli.kv_base import done
from jetspark.cli.output import Sheet, echo, emit_json, emit_json_line, note, show_table
from jetspark.cli.progress import Bar, progress_bar, progress_option
from jetspark.cli.prompts import confirm, force_option, given

if TYPE_CHECKING:
    from jetspark.client.infos import StreamInfo
    from jetspark.sync import JetStream, ObjectInfo, ObjectStore


@click.group("object", cls=Noun)
def object_store() -> None:
    """Object stores: files of any size, kept as chunks in a stream with a digest.

    The streams behind them are called OBJ_BUCKET.
    """


@object_store.verb("add", aliases=("new",))
@bucket_argument
@bucket_options
@storage_option
@pass_settings
def add(settings: Settings, /, bucket: str | None, **options: Any) -> None:
    """Add a bucket."""
    name = new_bucket(bucket)
    with jetstream() as js:
        js.create_object_store(name, **stream_settings(options))
        _show_bucket(js.stream_info(OBJECT_PREFIX + name), settings)


@object_store.verb("edit")
@bucket_argument
@bucket_options
@pass_settings
def edit(settings: Settings, /, bucket: str | None, **options: Any) -> None:
    """Change a bucket; what is not named stays as it is."""
    changes = stream_settings(options)
    if "ttl" in changes:
        changes["max_age"] = changes.pop("ttl")
    if not changes:
        raise UsageError("nothing to change", hint="Name what should be different, such as --max-bucket-size 1GiB.")
    with jetstream() as js:
        name = _open(js, bucket).bucket
        _show_bucket(js.update_stream(OBJECT_PREFIX + name, **changes).cached_info, settings)


def _open(js: JetStream, bucket: str | None) -> ObjectStore:
    from jetspark.client.errors import BucketNotFoundError

    name = chosen_bucket(js, bucket, OBJECT_PREFIX)
    try:
        return js.object_store(name)
    except BucketNotFoundError:
        raise no_bucket(js, name, OBJECT_PREFIX) from None


class _Counted:
    """An open file that moves a bar."""

    def __init__(self, file: BinaryIO, bar: Bar) -> None:
        self._file = file
        self._bar = bar

    def read(self, size: int = -1) -> bytes:
        """As the file."""
        data = self._file.read(size)
        self._bar.advance(len(data))
        return data

    def write(self, data: bytes) -> int:
        """As the file."""
        self._bar.advance(len(data))
        return self._file.write(data)


@object_store.verb("put")
@bucket_argument
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="The object's name, when it is not the file's")
@click.option("--description", default="", help="A description for the object")
@click.option("--header", "-H", "headers", multiple=True, metavar="KEY:VALUE", help="Headers of the object")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Metadata of the object")
@click.option("--chunk-size", type=SIZE, help="Size of the chunks  [default: 128KiB]")
@progress_option
@force_option
@pass_settings
def put(
    settings: Settings,
    bucket: str | None,
    file: Path | None,
    name: str | None,
    description: str,
    headers: tuple[str, ...],
    metadata: tuple[str, ...],
    chunk_size: int | None,
    progress: bool,
    force: bool,
) -> None:
    """Put a FILE into a bucket. Without FILE it is read from stdin; --name is needed then."""
    if file is None and not name:
        raise UsageError("reading from stdin needs --name", hint="Name a file, or give the object a --name.")
    wanted = name or str(file)
    more: dict[str, Any] = {"chunk_bytes": chunk_size} if chunk_size else {}
    with jetstream() as js:
        store = _open(js, bucket)
        if not force and not _may_replace(store, wanted):
            note("Skipping put")
            return
        total = file.stat().st_size if file is not None else None
        with (
            file.open("rb") if file is not None else nullcontext(sys.stdin.buffer) as source,
            progress_bar(f"Putting {wanted}", total, unit="bytes", show=progress and not settings.json) as bar,
        ):
            stored = store.put(
                wanted,
                cast(BinaryIO, _Counted(source, bar)),
                description=description,
                headers={key: [value] for key, value in pairs(headers, ":", "--header").items()},
                metadata=pairs(metadata, "=", "--metadata"),
                **more,
            )
        _show_object(stored, settings)


def _may_replace(store: ObjectStore, name: str) -> bool:
    """An object of that name is replaced only by someone who means it; a script without --force means it too."""
    from jetspark.cli.prompts import can_ask
    from jetspark.client.errors import ObjectNotFoundError

    if not can_ask():
        return True
    try:
        found = store.info(name)
    except ObjectNotFoundError:
        return True
    return confirm(f"Replace {store.bucket} > {name} ({human_size(found.size)})?", force=False)


@object_store.verb("get")
@bucket_argument
@object_argument
@click.option(
    "--output",
    "-O",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Where to write it; - is stdout  [default: the object's name]",
)
@progress_option
@force_option
@pass_settings
def get(
    settings: Settings, bucket: str | None, file: str | None, output: str | None, progress: bool, force: bool
) -> None:
    """Get an object out of a bucket."""
    with jetstream() as js:
        store = _open(js, bucket)
        name = given(file, "Object", argument="FILE")
        found = store.info(name)
        if output == "-":
            store.get(name, write_to=sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        # Only the last part: an object's name must not choose a folder of this machine.
        target = Path(output) if output else Path(Path(name).name)
        if target.exists() and not confirm(f"Replace the file {target}?", force=force):
            note("Skipping get")
            return
        partial = target.with_name(target.name + ".part")
        try:
            with (
                partial.open("wb") as sink,
                progress_bar(f"Getting {name}", found.size, unit="bytes", show=progress and not settings.json) as bar,
            ):
                store.get(name, write_to=cast(BinaryIO, _Counted(sink, bar)))
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    text = f"Wrote: {human_size(found.size)} to {target}"
    done(settings, text, bucket=store.bucket, name=name, size=found.size, file=str(target))


@object_store.verb("del", aliases=("rm", "delete"))
@bucket_argument
@object_argument
@force_option
@pass_settings
def delete(settings: Settings, bucket: str | None, file: str | None, force: bool) -> None:
    """Delete an object, or without FILE the whole bucket."""
    with jetstream() as js:
        store = _open(js, bucket)
        found = store.info(file) if file else None
        what = f"{store.bucket} > {file}" if found else f"bucket {store.bucket} with everything in it"
        if not confirm(f"Delete {what}?", force=force):
            note("Skipping delete")
            return
        if file:
            store.delete(file)
        else:
            js.delete_object_store(store.bucket)
    done(settings, f"Removed {what}", bucket=store.bucket, name=file)


@object_store.verb("info", aliases=("show", "status", "i"))
@bucket_argument
@object_argument
@pass_settings
def info(settings: Settings, bucket: str | None, file: str | None) -> None:
    """Show a bucket, or an object in it."""
    with jetstream() as js:
        store = _open(js, bucket)
        if file:
            _show_object(store.info(file), settings)
        else:
            _show_bucket(js.stream_info(OBJECT_PREFIX + store.bucket), settings)


def _show_bucket(found: StreamInfo, settings: Settings) -> None:
    if settings.json:
        emit_json(bucket_document(found, OBJECT_PREFIX))
        return
    name = found.name.removeprefix(OBJECT_PREFIX)
    sheet = Sheet(f"Information for Object Store Bucket {name} created {local_time(wire_ns(found.created))}")
    sheet.section("Configuration")
    sheet.row("Bucket Name", name)
    add_limits(sheet, found)
    add_cluster(sheet, found.cluster, "Cluster Group")
    sheet.show()


def object_document(found: ObjectInfo) -> dict[str, Any]:
    """An object for a script."""
    from jetspark.api.timestamps import format_time

    made: dict[str, Any] = {
        "bucket": found.bucket,
        "name": found.name,
        "description": found.description,
        "size": found.size,
        "chunks": found.chunks,
        "digest": found.digest,
        "mtime": format_time(found.timestamp_ns),
        "headers": found.headers,
        "metadata": found.metadata,
        "deleted": found.deleted,
    }
    if found.is_link:
        made["link"] = {"bucket": found.link_bucket, "name": found.link_name}
    return made


def _shown_digest(digest: str) -> str:
    """A digest as other programs print it (`sha256sum`), not in the base64 it is stored in."""
    kind, _, text = digest.partition("=")
    try:
        return f"{kind} {base64.urlsafe_b64decode(text).hex()}"
    except ValueError:
        return digest


def _show_object(found: ObjectInfo, settings: Settings) -> None:
    if settings.json:
        emit_json(object_document(found))
        return
    sheet = Sheet(f"Object information for {found.bucket} > {found.name}")
    sheet.row_if("Description", found.description)
    sheet.row("Size", human_size(found.size))
    sheet.row("Modification Time", local_time(found.timestamp_ns))
    sheet.row("Chunks", human_count(found.chunks))
    sheet.row_if("Digest", _shown_digest(found.digest))
    if found.is_link:
        sheet.row("Link To", " > ".join(part for part in (found.link_bucket, found.link_name) if part))
    for heading, values in (("Headers", found.headers), ("Metadata", found.metadata)):
        if values:
            sheet.section(heading)
            for key, value in sorted(values.items()):
                sheet.row(key, ", ".join(value) if isinstance(value, list) else value)
    sheet.show()


@object_store.verb("ls", aliases=("list",))
@bucket_argument
@click.option("--names", "-n", is_flag=True, help="Show just the names")
@pass_settings
def ls(settings: Settings, bucket: str | None, names: bool) -> None:
    """List the buckets, or the objects of a BUCKET."""
    with jetstream() as js:
        if not bucket:
            _list_buckets(bucket_infos(js, OBJECT_PREFIX), settings, names)
            return
        found = sorted(_open(js, bucket).list(), key=lambda one: one.name)
    if settings.json:
        emit_json([one.name for one in found] if names else [object_document(one) for one in found])
    elif names:
        for one in found:
            echo(one.name)
    else:
        rows = [[one.name, human_size(one.size), local_time(one.timestamp_ns)] for one in found]
        show_table("Bucket Contents", ["Name", "Size", "Time"], rows, right=["Size"], empty="No entries found")


def _list_buckets(infos: list[StreamInfo], settings: Settings, names: bool) -> None:
    listed = [one.name.removeprefix(OBJECT_PREFIX) for one in infos]
    if settings.json:
        emit_json(listed if names else [bucket_document(one, OBJECT_PREFIX) for one in infos])
    elif names:
        for name in listed:
            echo(name)
    else:
        show_table(
            "Object Store Buckets",
            ["Bucket", "Description", "Created", "Size", "Last Update"],
            [
                [
                    name,
                    one.config.description,
                    local_time(wire_ns(one.created)),
                    human_size(one.state.bytes),
                    ago(one.raw["state"].get("last_ts", "")),
                ]
                for name, one in zip(listed, infos, strict=True)
            ],
            right=["Size", "Last Update"],
            empty="No Object Store buckets found",
        )


@object_store.verb("seal")
@bucket_argument
@force_option
@pass_settings
def seal(settings: Settings, bucket: str | None, force: bool) -> None:
    """Seal a bucket: nothing in it can be changed any more, ever."""
    with jetstream() as js:
        store = _open(js, bucket)
        if not confirm(f"Really seal bucket {store.bucket}? Sealed buckets can not be unsealed", force=force):
            note("Skipping seal")
            return
        store.seal()
    done(settings, f"{store.bucket} has been sealed", bucket=store.bucket, sealed=True)


@object_store.verb("watch")
@bucket_argument
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many")
@pass_settings
def watch(settings: Settings, bucket: str | None, count: int | None) -> None:
    """Show a bucket's objects and every change after them."""
    with jetstream() as js:
        shown = 0
        with _open(js, bucket).watch() as watcher, suppress(StopIteration):
            for found in watcher:
                if found is None:
                    continue
                _show_change(found, settings)
                shown += 1
                if shown == count:
                    return


def _show_change(found: ObjectInfo, settings: Settings) -> None:
    if settings.json:
        emit_json_line(object_document(found))
        return
    head = f"[{local_time(found.timestamp_ns)}]"
    if found.deleted:
        echo(f"{head} {click.style('DEL', fg='red')} {found.bucket} > {found.name}")
    else:
        size = f"{human_size(found.size)} in {human_count(found.chunks)} chunks"
        echo(f"{head} {click.style('PUT', fg='green')} {found.bucket} > {found.name}: {size}")
