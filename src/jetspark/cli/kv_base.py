"""The noun `kv` and what its commands share: opening a bucket, and an entry as words and as JSON."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from jetspark.cli.buckets import KEY_VALUE_PREFIX, chosen_bucket, no_bucket
from jetspark.cli.context import Noun, Settings
from jetspark.cli.errors import CliError, NotFound
from jetspark.cli.output import echo, emit_json, message_document, text_of
from jetspark.cli.prompts import given

if TYPE_CHECKING:
    from jetspark.sync import JetStream, KeyValue, KeyValueEntry

# A value longer than this is cut in `get`; --raw shows all of it.
SHOWN_BYTES: Final = 120
# In tables a value is its two ends.
CELL_CHARACTERS: Final = 40


@click.group("kv", cls=Noun)
def kv() -> None:
    """Key-value buckets.

    The streams behind them are called KV_BUCKET: back one up with `jetspark stream backup KV_BUCKET DIRECTORY`.
    """


def open_bucket(js: JetStream, bucket: str | None) -> KeyValue:
    """The bucket named, or picked at the terminal; when it is not there, those that are are named."""
    from jetspark.client.errors import BucketNotFoundError

    name = chosen_bucket(js, bucket, KEY_VALUE_PREFIX)
    try:
        return js.key_value(name)
    except BucketNotFoundError:
        raise no_bucket(js, name, KEY_VALUE_PREFIX) from None


@contextmanager
def keys_explained(bucket: KeyValue) -> Iterator[None]:
    """What to do next when a key is not there, is there already, or has changed."""
    from jetspark.client.errors import KeyDeletedError, KeyExistsError, KeyNotFoundError, KeyRevisionError

    try:
        yield
    except KeyDeletedError as error:
        raise NotFound(f"{error} in bucket {bucket.bucket}: it was deleted at revision {error.revision}") from None
    except KeyNotFoundError as error:
        keys = bucket.keys()
        if error.args[0] in keys:
            hint = f"Those it has: jetspark kv history {bucket.bucket} {error.args[0]}"
            raise NotFound(f"{bucket.bucket} > {error.args[0]} has no such revision", hint=hint) from None
        near = difflib.get_close_matches(error.args[0], keys, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"List the keys with: jetspark kv ls {bucket.bucket}"
        raise NotFound(f"{error} in bucket {bucket.bucket}", hint=hint) from None
    except KeyExistsError as error:
        hint = f"Replace it with: jetspark kv update {bucket.bucket} {error.key} VALUE {error.revision}"
        raise CliError(str(error), hint=hint) from None
    except KeyRevisionError as error:
        raise CliError(str(error), hint=f"See it with: jetspark kv get {bucket.bucket} {error.key}") from None


def wanted_key(key: str | None) -> str:
    """The key named, or asked for."""
    return given(key, "Key", argument="KEY")


def entry_document(entry: KeyValueEntry) -> dict[str, Any]:
    """An entry for a script."""
    found = message_document("", entry.value, None)
    value = {name.replace("data", "value"): data for name, data in found.items() if name.startswith("data")}
    return {
        "bucket": entry.bucket,
        "key": entry.key,
        "revision": entry.revision,
        "operation": entry.operation,
        "created": _wire_time(entry.timestamp_ns),
        **value,
    }


def _wire_time(unix_ns: int) -> str:
    from jetspark.api.timestamps import format_time

    return format_time(unix_ns)


def done(settings: Settings, text: str, **document: Any) -> None:
    """A change was made: in words, or what it was about for a script."""
    if settings.json:
        emit_json({name: value for name, value in document.items() if value is not None})
    else:
        echo(text)


def short(value: bytes) -> str:
    """A value in the cell of a table."""
    text = text_of(value).replace("\n", "⏎")
    half = CELL_CHARACTERS // 2
    return text if len(text) <= CELL_CHARACTERS else f"{text[:half]}...{text[-half:]}"
