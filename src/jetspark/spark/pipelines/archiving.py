"""Archive a stream as Parquet files, and replay an archive into a stream.

The files' layout, and which of them count, is decided in `archive_files`. Everything of a message is kept: subject,
sequence, time to the nanosecond, headers, payload. A replay publishes in the order of the sequences, with the original
time, stream and sequence in headers; headers that are instructions to a server are kept under another name, so that an
old condition or rollup is not carried out again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jetspark.spark.pipelines.archive_files import (
    DIGITS,
    OWNER_FILE,
    Owner,
    archive_files,
    check_owner,
    local_folder,
)
from jetspark.spark.pipelines.errors import PipelineError
from jetspark.spark.pipelines.messages import FORMAT, read_messages, sink_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TIME_HEADER = "Jetspark-Archived-Time"
STREAM_HEADER = "Jetspark-Archived-Stream"
SEQUENCE_HEADER = "Jetspark-Archived-Sequence"
# Words to the server about one publish, not about the message: they would be obeyed again.
INSTRUCTIONS = r"(?i)^Nats-(Msg-Id|Rollup|TTL|Expected-.*|Batch-.*|Schedule.*|Incr|Marker-Reason)$"
INSTRUCTION_PREFIX = "Jetspark-Archived-"
PARTITIONS = ("day", "subject_key")
SCHEMA = (
    "stream STRING, subject STRING, sequence LONG, timestamp TIMESTAMP, timestamp_ns LONG,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>, data BINARY"
)
_DAY_NS = 86_400_000_000_000
# A folder's name has 255 bytes at most, and begins with `subject_key=`.
_KEY_BYTES_MAX = 240
_KEY_CHARACTERS = 40


def archive_rows(messages: DataFrame, *, subject_tokens: int | None = None) -> DataFrame:
    """Messages with the two columns by which an archive is partitioned: `day` in UTC, and `subject_key`.

    `subject_tokens` uses only so many leading tokens of the subject as its key, for streams with many subjects.
    """
    from pyspark.sql import functions as f

    # By arithmetic, because the day of a timestamp is the session's, which is another one elsewhere.
    days = f.floor(f.unix_micros("timestamp") / (_DAY_NS // 1000)).cast("int")
    key = f.col("subject") if subject_tokens is None else f.substring_index("subject", ".", subject_tokens)
    return messages.withColumns({"day": f.date_from_unix_date(days), "subject_key": _folder_name(key)})


def _folder_name(key: Column) -> Column:
    """A key that can name a folder: one that is too long for that is cut, and told apart by its hash."""
    from pyspark.sql import functions as f

    # Spark writes each of these as three bytes.
    escaped = f.regexp_count(key, f.lit(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]"""))
    fits = f.octet_length(key) + 2 * escaped <= _KEY_BYTES_MAX
    return f.when(fits, key).otherwise(f.concat(f.left(key, f.lit(_KEY_CHARACTERS)), f.lit("~"), f.sha2(key, 256)))


def archive(
    spark: SparkSession,
    stream: str,
    path: str | Path,
    *,
    checkpoint: str | Path,
    subject_tokens: int | None = None,
    every: str | None = None,
    **options: Any,
) -> StreamingQuery:
    """Start archiving a stream into a folder: what is there now, or, with `every="1 minute"`, until it is stopped.

    Each message is archived exactly once: a micro-batch has folders of its own, and overwrites them if it runs again.
    """
    from jetspark.spark.streaming import query_id, start

    if subject_tokens is not None and subject_tokens < 1:
        raise PipelineError("subject_tokens must be 1 or more; leave it out to partition by whole subjects")
    root = local_folder(path, "an archive")
    owner: Owner | None = None
    if (root / OWNER_FILE).exists():
        # Said here, where it is read; what is not known before the first batch is looked at again there.
        known = Path(checkpoint) / "metadata"
        check_owner(root, Owner(query_id(spark, checkpoint) if known.exists() else "", subject_tokens))
    messages = read_messages(spark, stream, includeHeaders=True, includeTimestampNs=True, **options)

    def write(batch: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions as f

        nonlocal owner
        if owner is None:
            owner = Owner(query_id(batch.sparkSession, checkpoint), subject_tokens)
            owner.claim(root)
        rows = archive_rows(batch, subject_tokens=subject_tokens).withColumn("batch", f.lit(f"{batch_id:0{DIGITS}d}"))
        # As others read it too: Spark's own default is a form of its own, which it alone writes.
        batch.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        # Sorted by what the files are cut by, so that the rows of a file are in the order of the stream.
        ordered = rows.sortWithinPartitions(*PARTITIONS, "sequence")
        writer = ordered.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy(*PARTITIONS, "batch").parquet(str(root))

    return start(messages.writeStream.foreachBatch(write), f"archive {stream}", checkpoint, every)


def read_archive(spark: SparkSession, path: str | Path) -> DataFrame:
    """The messages of an archive, each once, also while it is being compacted."""
    files = archive_files(local_folder(path, "an archive"))
    if not files:
        return spark.createDataFrame([], SCHEMA)
    return spark.read.schema(SCHEMA).parquet(*files)


def replay_rows(archived: DataFrame) -> DataFrame:
    """Archived messages as rows for the sink, with their origin in headers."""
    from pyspark.sql import functions as f

    def renamed(header: Column) -> Column:
        instruction = header["key"].rlike(INSTRUCTIONS)
        key = f.when(instruction, f.concat(f.lit(INSTRUCTION_PREFIX), header["key"])).otherwise(header["key"])
        return f.struct(key.alias("key"), header["value"].alias("value"))

    def added(name: str, value: Column) -> Column:
        return f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))

    origin = f.array(
        added(TIME_HEADER, _rfc3339(f.col("timestamp_ns"))),
        added(STREAM_HEADER, f.col("stream")),
        added(SEQUENCE_HEADER, f.col("sequence")),
    )
    own = f.coalesce(f.transform("headers", renamed), f.array().cast("array<struct<key:string,value:binary>>"))
    identity = f.concat_ws(":", f.col("stream"), f.col("sequence").cast("string"))
    return archived.select("subject", "data", f.concat(own, origin).alias("headers"), identity.alias("msg_id"))


def _rfc3339(time_ns: Column) -> Column:
    """A moment as JetStream writes it, in UTC whatever the session's time zone is."""
    from pyspark.sql import functions as f

    date = f.date_from_unix_date(f.floor(time_ns / _DAY_NS).cast("int")).cast("string")
    rest = f.pmod(time_ns, f.lit(_DAY_NS))
    second_ns = 1_000_000_000
    return f.format_string(
        "%sT%02d:%02d:%02d.%09dZ",
        date,
        f.floor(rest / (3600 * second_ns)),
        f.pmod(f.floor(rest / (60 * second_ns)), f.lit(60)),
        f.pmod(f.floor(rest / second_ns), f.lit(60)),
        f.pmod(rest, f.lit(second_ns)),
    )


def replay(
    spark: SparkSession, path: str | Path, stream: str, *, where: str = "", write_id: str = "", **options: Any
) -> None:
    """Publish the messages of an archive into a stream, in order. The same replay again publishes only what is missing.

    `where` chooses messages in SQL, such as "subject LIKE 'ORDERS.%' AND day >= '2026-11-01'". The stream must take
    their subjects. One task publishes, because only a single publisher can keep the order.
    """
    from pyspark.sql import functions as f

    archived = archive_rows(read_archive(spark, path))
    chosen = archived.where(f.expr(where)) if where else archived
    # Sorted after they are brought together: where partitions that are sorted are put together, Spark chooses an order.
    rows = replay_rows(chosen.repartition(1).sortWithinPartitions("stream", "sequence"))
    whole = local_folder(path, "an archive")
    named = write_id or "replay-" + hashlib.sha256(f"{whole}\n{stream}\n{where}".encode()).hexdigest()[:24]
    rows.write.format(FORMAT).mode("append").options(**sink_options(spark, stream, writeId=named, **options)).save()
