"""`jetspark kv`: key-value buckets.

Decided here: the words and flags of `nats kv` about buckets; those about keys are in `kv_keys`. What a bucket is, and
how a key is read or written, is the client's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jetspark.cli import kv_keys
from jetspark.cli.buckets import (
    KEY_VALUE_PREFIX,
    add_limits,
    bucket_argument,
    bucket_document,
    bucket_infos,
    bucket_options,
    new_bucket,
    storage_option,
    stream_settings,
)
from jetspark.cli.clusters import add_cluster
from jetspark.cli.connect import jetstream
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import (
    DURATION,
    SECOND_NS,
    SIZE,
    ago,
    human_count,
    human_duration,
    human_size,
    limit,
    local_time,
    wire_ns,
)
from jetspark.cli.errors import UsageError
from jetspark.cli.kv_base import done, entry_document, kv, open_bucket, short
from jetspark.cli.output import Sheet, echo, emit_json, note, show_table
from jetspark.cli.prompts import confirm, force_option

if TYPE_CHECKING:
    from jetspark.api.stream_config import StreamSource
    from jetspark.client.infos import StreamInfo
    from jetspark.sync import KeyValueEntry

# Loaded for its commands.
__all__ = ["kv", "kv_keys"]


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    made = stream_settings(options)
    if options.get("max_value_size") is not None:
        made["max_value_size"] = options["max_value_size"]
    if options.get("history") is not None:
        made["history"] = options["history"]
    if options.get("marker_ttl") is not None:
        made["limit_marker_ttl"] = options["marker_ttl"] / SECOND_NS
    if options.get("republish_destination"):
        made["republish"] = {
            "src": options.get("republish_source") or ">",
            "dest": options["republish_destination"],
            "headers_only": bool(options.get("republish_headers")),
        }
    return made


def _stream_of(bucket: str) -> str:
    """The stream of a bucket, which may be named either way."""
    return KEY_VALUE_PREFIX + bucket.removeprefix(KEY_VALUE_PREFIX)


def _source(bucket: str, origin: str) -> dict[str, Any]:
    """What a bucket takes from another: its keys, under its own name."""
    keys = f"$KV.{origin.removeprefix(KEY_VALUE_PREFIX)}.>"
    return {"name": _stream_of(origin), "subject_transforms": [{"src": keys, "dest": f"$KV.{bucket}.>"}]}


def _key_value_options(function: Any) -> Any:
    for option in (
        click.option("--republish-headers", is_flag=True, help="Republish only message headers, no bodies"),
        click.option("--republish-destination", metavar="DEST", help="Republish what is stored to this subject"),
        click.option("--republish-source", metavar="SRC", help="Republish only subjects like this"),
        click.option("--max-value-size", type=SIZE, help="Maximum size for any single value"),
        click.option("--marker-ttl", type=DURATION, help="Allow a TTL for each key, and keep markers this long"),
        click.option("--history", type=click.IntRange(1, 64), help="How many values to keep per key  [default: 1]"),
    ):
        function = option(function)
    return bucket_options(function)


_source_option = click.option(
    "--source", "sources", multiple=True, metavar="BUCKET", help="Source from a different bucket"
)


@kv.verb("add", aliases=("new",))
@bucket_argument
@_key_value_options
@storage_option
@click.option("--mirror", metavar="BUCKET", help="Mirror a different bucket: read here, written there")
@click.option("--mirror-domain", metavar="DOMAIN", help="The JetStream domain of the bucket to mirror")
@_source_option
@pass_settings
def add(
    settings: Settings,
    /,
    bucket: str | None,
    mirror: str | None,
    mirror_domain: str | None,
    sources: tuple[str, ...],
    **options: Any,
) -> None:
    """Add a bucket."""
    name = new_bucket(bucket)
    made = _settings(options)
    if mirror_domain and not mirror:
        raise UsageError("--mirror-domain needs --mirror", hint="Name the bucket to mirror with --mirror BUCKET.")
    if mirror:
        made["mirror"] = {"name": _stream_of(mirror)}
    if mirror_domain:
        made["mirror"]["external"] = {"api": f"$JS.{mirror_domain}.API", "deliver": ""}
    if sources:
        made["sources"] = [_source(name, source) for source in sources]
    with jetstream() as js:
        js.create_key_value(name, **made)
        _show(js.stream_info(KEY_VALUE_PREFIX + name), settings)


@kv.verb("edit")
@bucket_argument
@_key_value_options
@click.option("--no-mirror", is_flag=True, help="Mirror no longer: the bucket is written by itself")
@_source_option
@pass_settings
def edit(settings: Settings, /, bucket: str | None, no_mirror: bool, sources: tuple[str, ...], **options: Any) -> None:
    """Change a bucket; what is not named stays as it is."""
    made = _settings(options)
    renamed = {
        "history": "max_msgs_per_subject",
        "max_value_size": "max_msg_size",
        "limit_marker_ttl": "subject_delete_marker_ttl",
        "ttl": "max_age",
    }
    changes = {renamed.get(name, name): value for name, value in made.items()}
    if "subject_delete_marker_ttl" in changes:
        changes["allow_msg_ttl"] = True
    if not (changes or no_mirror or sources):
        raise UsageError("nothing to change", hint="Name what should be different, such as --history 5.")
    with jetstream() as js:
        name = open_bucket(js, bucket).bucket
        before = js.stream_info(KEY_VALUE_PREFIX + name)
        if sources:
            changes["sources"] = [
                *(before.raw["config"].get("sources") or ()),
                *(_source(name, one) for one in sources),
            ]
        if no_mirror:
            changes |= {"mirror": None, "mirror_direct": False, "subjects": [f"$KV.{name}.>"]}
        changed = js.update_stream(before.name, **changes).cached_info
    _show(changed, settings)
    if no_mirror and before.config.mirror is not None and changed.state.messages:
        # Its messages keep the subjects they came with, and a key is found by the bucket's own.
        origin = before.config.mirror.name.removeprefix(KEY_VALUE_PREFIX)
        note(f"What was mirrored stays stored as $KV.{origin}.>: those are no keys of {name}.")


@kv.verb("ls", aliases=("list",))
@bucket_argument
@click.argument("pattern", required=False, default=">")
@click.option("--names", "-n", is_flag=True, help="Show just the names")
@click.option("--verbose", "-v", is_flag=True, help="Show more about each key")
@click.option("--display-value", is_flag=True, help="Show values too (with --verbose)")
@pass_settings
def ls(settings: Settings, bucket: str | None, pattern: str, names: bool, verbose: bool, display_value: bool) -> None:
    """List the buckets, or the keys of a BUCKET that match PATTERN."""
    with jetstream() as js:
        if not bucket:
            _list_buckets(bucket_infos(js, KEY_VALUE_PREFIX), settings, names)
            return
        opened = open_bucket(js, bucket)
        if not verbose:
            found = opened.keys(pattern)
        else:
            with opened.watch(pattern, ignore_deletes=True, meta_only=not display_value) as watcher:
                entries = sorted(watcher.initial(), key=lambda entry: entry.key)
    if verbose:
        _list_entries(opened.bucket, entries, settings, display_value)
    elif settings.json:
        emit_json(found)
    else:
        echo("\n".join(found) if found else f"No keys found in bucket {opened.bucket}")


def _list_buckets(infos: list[StreamInfo], settings: Settings, names: bool) -> None:
    if settings.json:
        emit_json(
            [info.name.removeprefix(KEY_VALUE_PREFIX) for info in infos]
            if names
            else [bucket_document(info, KEY_VALUE_PREFIX) for info in infos]
        )
    elif names:
        for info in infos:
            echo(info.name.removeprefix(KEY_VALUE_PREFIX))
    else:
        show_table(
            "Key-Value Buckets",
            ["Bucket", "Description", "Created", "Size", "Values", "Last Update"],
            [
                [
                    info.name.removeprefix(KEY_VALUE_PREFIX),
                    info.config.description,
                    _created(info),
                    human_size(info.state.bytes),
                    human_count(info.state.messages),
                    ago(info.raw["state"].get("last_ts", "")),
                ]
                for info in infos
            ],
            right=["Size", "Values", "Last Update"],
            empty="No Key-Value buckets found",
        )


def _created(info: StreamInfo) -> str:
    return local_time(wire_ns(info.created))


def _list_entries(bucket: str, entries: list[KeyValueEntry], settings: Settings, display_value: bool) -> None:
    if settings.json:
        documents = [entry_document(entry) for entry in entries]
        if not display_value:
            documents = [{name: one[name] for name in one if not name.startswith("value")} for one in documents]
        emit_json(documents)
        return
    columns = ["Key", "Created", "Revision"] + (["Value"] if display_value else [])
    rows = [
        [entry.key, local_time(entry.timestamp_ns), human_count(entry.revision)]
        + ([short(entry.value)] if display_value else [])
        for entry in entries
    ]
    show_table(f"Contents for bucket {bucket}", columns, rows, right=["Revision"], empty="No keys found in bucket")


@kv.verb("info", aliases=("status", "view"))
@bucket_argument
@pass_settings
def info(settings: Settings, bucket: str | None) -> None:
    """Show the status of a bucket."""
    with jetstream() as js:
        _show(js.stream_info(KEY_VALUE_PREFIX + open_bucket(js, bucket).bucket), settings)


def _show(found: StreamInfo, settings: Settings) -> None:
    if settings.json:
        emit_json(bucket_document(found, KEY_VALUE_PREFIX))
        return
    name, config = found.name.removeprefix(KEY_VALUE_PREFIX), found.config
    sheet = Sheet(f"Information for Key-Value Store Bucket {name} created {_created(found)}")
    sheet.section("Configuration")
    sheet.row("Bucket Name", name)
    sheet.row("History Kept", human_count(max(1, config.max_msgs_per_subject)))
    sheet.row("Values Stored", human_count(found.state.messages))
    sheet.row("Per-Key TTL Supported", str(config.allow_msg_ttl).lower())
    if config.subject_delete_marker_ttl:
        sheet.row("Limit Marker TTL", human_duration(config.subject_delete_marker_ttl))
    sheet.row("Maximum Value Size", limit(config.max_msg_size, human_size))
    add_limits(sheet, found)
    if config.mirror is not None:
        sheet.section("Mirror Information")
        _add_origin(sheet, "Origin Bucket", config.mirror, found.mirror or {})
    if config.sources:
        sheet.section("Sources Information")
        states = {state.get("name"): state for state in found.sources or ()}
        for source in config.sources:
            _add_origin(sheet, "Source Bucket", source, states.get(source.name, {}))
    add_cluster(sheet, found.cluster, "Cluster Group")
    sheet.show()


def _add_origin(sheet: Sheet, label: str, origin: StreamSource, state: dict[str, Any]) -> None:
    sheet.row(label, origin.name.removeprefix(KEY_VALUE_PREFIX))
    if origin.external is not None:
        sheet.row("External API", origin.external.api)
    active_ns = int(state.get("active", -1))
    sheet.row("Last Seen", f"{human_duration(active_ns)} ago" if active_ns > 0 else "never")
    sheet.row("Lag", human_count(int(state.get("lag", 0))))


@kv.verb("compact")
@bucket_argument
@force_option
@click.option("--older-than", type=DURATION, default="30m", show_default=True, help="Keep marks younger than this")
@pass_settings
def compact(settings: Settings, bucket: str | None, force: bool, older_than: int) -> None:
    """Reclaim the space of deleted keys: their history goes, and marks that are old enough."""
    with jetstream() as js:
        opened = open_bucket(js, bucket)
        question = f"Purge all historic values and audit trails for deleted keys in bucket {opened.bucket}?"
        if not confirm(question, force=force):
            note("Skipping compact")
            return
        count = opened.purge_deletes(older_than=older_than / SECOND_NS)
    done(settings, f"Compacted {human_count(count)} deleted keys", bucket=opened.bucket, compacted=count)
