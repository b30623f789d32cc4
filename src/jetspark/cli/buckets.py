"""What `kv` and `object` share: the options that make a bucket, finding one, reading values from the line or a pipe.

Decided here: how bucket options become stream settings, and what is said when a bucket is not there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from jetspark.cli.clusters import is_clustered
from jetspark.cli.durations import DURATION, SECOND_NS, SIZE, human_count, human_duration, human_size, limit
from jetspark.cli.errors import NotFound, UsageError
from jetspark.cli.explain import listed
from jetspark.cli.names import from_server
from jetspark.cli.output import Sheet
from jetspark.cli.prompts import choose, given

if TYPE_CHECKING:
    from jetspark.client.infos import StreamInfo
    from jetspark.sync import JetStream

Function = TypeVar("Function", bound=Callable[..., Any])
KEY_VALUE_PREFIX: Final = "KV_"
OBJECT_PREFIX: Final = "OBJ_"
STORAGE: Final = {"f": "file", "m": "memory", "file": "file", "memory": "memory"}

_OPTIONS: Final = (
    click.option("--description", help="A description for the bucket"),
    click.option("--ttl", type=DURATION, help="How long to keep what is in it"),
    click.option("--replicas", type=int, help="How many replicas of the data to store"),
    click.option("--max-bucket-size", type=SIZE, help="Maximum size for the bucket"),
    click.option("--tags", "tags", multiple=True, metavar="TAG", help="Place the bucket on servers with these tags"),
    click.option("--cluster", help="Place the bucket on a specific cluster"),
    click.option("--compress/--no-compress", default=None, help="Compress the bucket data"),
    click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Metadata of the bucket's stream"),
)
storage_option = click.option(
    "--storage", type=click.Choice(list(STORAGE)), help="Storage backend to use (file, memory)"
)


def complete_bucket(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Buckets of the noun's kind that begin like this."""
    if ctx.command.name == "add":
        return []
    prefix = OBJECT_PREFIX if ctx.parent is not None and ctx.parent.command.name == "object" else KEY_VALUE_PREFIX
    names = from_server(ctx, lambda js: [info.name.removeprefix(prefix) for info in bucket_infos(js, prefix)])
    return [name for name in names if name.startswith(incomplete)]


def complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Keys, of the bucket named before, that begin like this."""
    bucket = str(ctx.params.get("bucket") or "")
    names = from_server(ctx, lambda js: js.key_value(bucket).keys()) if bucket else []
    return [name for name in names if name.startswith(incomplete)]


def complete_object(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Objects, of the bucket named before, that begin like this."""
    bucket = str(ctx.params.get("bucket") or "")
    names = from_server(ctx, lambda js: [one.name for one in js.object_store(bucket).list()]) if bucket else []
    return [name for name in names if name.startswith(incomplete)]


bucket_argument = click.argument("bucket", required=False, shell_complete=complete_bucket)
key_argument = click.argument("key", required=False, shell_complete=complete_key)
object_argument = click.argument("file", required=False, shell_complete=complete_object)


def bucket_options(function: Function) -> Function:
    """The options of making and changing a bucket."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def pairs(texts: tuple[str, ...], separator: str, option: str) -> dict[str, str]:
    """`KEY=VALUE` options as a dict."""
    made: dict[str, str] = {}
    for text in texts:
        key, found, value = text.partition(separator)
        if not found or not key:
            raise UsageError(f"{option} {text!r} is not KEY{separator}VALUE")
        made[key.strip()] = value.strip()
    return made


def stream_settings(options: dict[str, Any]) -> dict[str, Any]:
    """The settings of the stream behind a bucket; only what was given. `ttl` stays seconds, as the client takes it."""
    made: dict[str, Any] = {}
    for option, setting in (
        ("description", "description"),
        ("replicas", "num_replicas"),
        ("max_bucket_size", "max_bytes"),
    ):
        if options.get(option) is not None:
            made[setting] = options[option]
    if options.get("ttl") is not None:
        made["ttl"] = options["ttl"] / SECOND_NS
    if options.get("storage"):
        made["storage"] = STORAGE[options["storage"]]
    if options.get("compress") is not None:
        made["compression"] = "s2" if options["compress"] else "none"
    if options.get("metadata"):
        made["metadata"] = pairs(options["metadata"], "=", "--metadata")
    if options.get("tags") or options.get("cluster"):
        made["placement"] = {"cluster": options.get("cluster") or "", "tags": list(options.get("tags") or ())}
    return made


def bucket_infos(jetstream: JetStream, prefix: str) -> list[StreamInfo]:
    """The streams that are buckets of a kind, by name. Not looked for by subject: a mirror has none."""
    found = [info for info in jetstream.streams() if info.name.startswith(prefix)]
    return sorted(found, key=lambda info: info.name)


def chosen_bucket(jetstream: JetStream, bucket: str | None, prefix: str) -> str:
    """The bucket named, or picked from a list at the terminal."""
    if bucket:
        return bucket
    names = [info.name.removeprefix(prefix) for info in bucket_infos(jetstream, prefix)]
    return choose("Select a bucket", names, argument="BUCKET")


def new_bucket(bucket: str | None) -> str:
    """The name of a bucket to make."""
    return given(bucket, "Bucket name", argument="BUCKET")


def no_bucket(jetstream: JetStream, bucket: str, prefix: str) -> NotFound:
    """What to say when a bucket is not there."""
    noun = "kv" if prefix == KEY_VALUE_PREFIX else "object"
    names = [info.name.removeprefix(prefix) for info in bucket_infos(jetstream, prefix)]
    return NotFound(
        f"no bucket {bucket}; buckets here: {listed(names)}", hint=f"Make it with: jetspark {noun} add {bucket}"
    )


def value_bytes(value: str | None, question: str) -> bytes:
    """A value from the line, else from a pipe, else asked for."""
    if value is not None:
        return value.encode()
    if sys.stdin is not None and not sys.stdin.isatty():
        return sys.stdin.buffer.read()
    return given(None, question, argument="VALUE").encode()


def add_limits(sheet: Sheet, info: StreamInfo) -> None:
    """The rows every bucket has."""
    config, state = info.config, info.state
    sheet.row_if("Description", config.description)
    sheet.row("Bucket Size", human_size(state.bytes))
    sheet.row("Maximum Bucket Size", limit(config.max_bytes, human_size))
    sheet.row("Maximum Age", human_duration(config.max_age) if config.max_age else "unlimited")
    sheet.row("Storage", str(config.storage).capitalize())
    sheet.row("Replicas", human_count(config.num_replicas))
    sheet.row("Compressed", str(str(config.compression) != "none").lower())
    sheet.row("Sealed", str(config.sealed).lower())
    sheet.row("JetStream Stream", info.name)
    for key, value in sorted(config.metadata.items()):
        if not key.startswith("_nats."):
            sheet.row(key, value)


def bucket_document(info: StreamInfo, prefix: str) -> dict[str, Any]:
    """A bucket for a script."""
    document = {
        "bucket": info.name.removeprefix(prefix),
        "stream": info.name,
        "created": info.created,
        "config": info.raw["config"],
        "state": info.raw["state"],
    }
    return {**document, "cluster": info.cluster} if is_clustered(info.cluster) else document
