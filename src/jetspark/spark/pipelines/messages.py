"""Streams as DataFrames for pipelines: the source with the session's own settings filled in, and rows for the sink.

A pipeline's files say which stream they read; where the servers are and who connects is the run's business. Settings
of the session that begin with `spark.jetspark.` (from `configuration` in the spec, `jetspark pipeline run --server`, or
`session(**{"spark.jetspark.servers": ...})`) become options of source and sink, and options given in code win.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jetspark.spark.pipelines.project import CONF_PREFIX
from jetspark.spark.pipelines.routing import check_subject, subject_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DEFAULT_SERVERS = "nats://127.0.0.1:4222"
FORMAT = "jetstream"
KEY_FORMAT = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def connection_options(spark: SparkSession) -> dict[str, str]:
    """The connection options of the session (`spark.jetspark.…`)."""
    settings: dict[str, str] = dict(spark.conf.getAll)
    found = {key.removeprefix(CONF_PREFIX): value for key, value in settings.items() if key.startswith(CONF_PREFIX)}
    return {"servers": DEFAULT_SERVERS, **found}


def read_messages(spark: SparkSession, stream: str, **options: Any) -> DataFrame:
    """The messages of a stream, or of several with commas between them, as a streaming DataFrame.

    It begins with the first stored message; the bare source would begin with the next one.
    """
    chosen = {**connection_options(spark), "stream": stream, **_texts(options)}
    if not {name.lower() for name in chosen} & {"startingoffsets", "startingtimestamp"}:
        chosen["startingOffsets"] = "earliest"
    return spark.readStream.format(FORMAT).options(**chosen).load()


def read_stored(spark: SparkSession, stream: str, **options: Any) -> DataFrame:
    """The messages that are in a stream now, as a batch DataFrame."""
    chosen = {**connection_options(spark), "stream": stream, **_texts(options)}
    return spark.read.format(FORMAT).options(**chosen).load()


def sink_options(spark: SparkSession, stream: str, **options: Any) -> dict[str, str]:
    """Options for writing to a stream, also for `dp.create_sink`."""
    return {**connection_options(spark), "stream": stream, **_texts(options)}


def _texts(options: dict[str, Any]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if value is not None
    }


def json_fields(messages: DataFrame, schema: str, *, keep: Sequence[str] = ("subject", "timestamp")) -> DataFrame:
    """Parse the payloads as JSON: one column for each field, and the columns in `keep`.

    A payload that is not such a document gives nulls; `where("order_id IS NULL")` finds them.
    """
    from pyspark.sql import functions as f

    document = f.from_json(f.col("data").cast("string"), schema)
    return messages.select(*keep, document.alias("document")).select(*keep, "document.*")


def as_messages(rows: DataFrame, *, subject: Column | str, key: Sequence[Column | str], data: Any = None) -> DataFrame:
    """Rows as messages for the sink: a subject, the row as JSON (or `data`), and an id made of the key's values.

    A text as subject may have columns in braces, as in `ALERTS.{country}`. A value is one word of the subject: what
    does not fit in one, and null or empty text, becomes `_`. A Column is taken as it is, also if its text has braces.

    The key identifies a row: if it is computed again after a crash, it gets the same id and is stored once.
    """
    from pyspark.sql import functions as f

    if isinstance(subject, str):
        check_subject("as_messages", subject)
    named = subject_of(subject) if isinstance(subject, str) else subject
    body = f.to_json(f.struct("*")) if data is None else data
    return rows.select(
        named.alias("subject"),
        body.cast("binary").alias("data"),
        f.sha2(key_text([f.col(one) if isinstance(one, str) else one for one in key]), 256).alias("msg_id"),
    )


def key_text(key: Sequence[Column]) -> Column:
    """A text for the values of a key: different values give different texts, whatever the session's time zone.

    JSON tells null, empty text and separators inside values apart, and has times in UTC to the microsecond. It
    replaces bytes that are not UTF-8, so texts are added as they are.
    """
    from pyspark.sql import functions as f

    named = f.struct(*[one.alias(f"k{number}") for number, one in enumerate(key)])
    exact = [f.when(f.typeof(one) == "string", f.hex(one.cast("string"))) for one in key]
    return f.concat_ws("|", f.to_json(named, KEY_FORMAT), *exact)
