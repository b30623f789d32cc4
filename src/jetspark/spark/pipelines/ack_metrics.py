"""How long consumers take to acknowledge, from the samples the server publishes.

A consumer with a sampling rate (`jetspark consumer add ... --sample 100`) makes the server publish a small document for
each sampled ack on `$JS.EVENT.METRIC.CONSUMER.ACK.<stream>.<consumer>`. A stream that captures those subjects turns
them into data; here they become rows, and the rows become figures a window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.spark.pipelines.windows import aggregate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METRIC_SUBJECTS = "$JS.EVENT.METRIC.CONSUMER.ACK.>"
_SAMPLE = (
    "type STRING, id STRING, timestamp STRING, stream STRING, consumer STRING,"
    " consumer_seq LONG, stream_seq LONG, ack_time LONG, deliveries LONG"
)
_MILLISECOND_NS = 1_000_000


def ack_samples(messages: DataFrame) -> DataFrame:
    """The ack samples in a stream that collects the metric subjects, one row for each.

    Columns: timestamp, stream, consumer, consumer_sequence, stream_sequence, ack_ms, deliveries.
    """
    from pyspark.sql import functions as f

    document = f.from_json(f.col("data").cast("string"), _SAMPLE)
    samples = messages.select(f.col("timestamp"), document.alias("sample"))
    wanted = samples.where(f.col("sample.type") == "io.nats.jetstream.metric.v1.consumer_ack")
    return wanted.select(
        "timestamp",
        f.col("sample.stream").alias("stream"),
        f.col("sample.consumer").alias("consumer"),
        f.col("sample.consumer_seq").alias("consumer_sequence"),
        f.col("sample.stream_seq").alias("stream_sequence"),
        (f.col("sample.ack_time") / _MILLISECOND_NS).alias("ack_ms"),
        f.col("sample.deliveries").alias("deliveries"),
    )


def ack_latency(messages: DataFrame, *, window: str = "1 minute", late: str = "1 minute") -> DataFrame:
    """The ack latency of each consumer and window: samples, median, 95th and 99th percentile, maximum, redelivered."""
    from pyspark.sql import functions as f

    values = {
        "samples": f.count("*"),
        "median_ms": f.percentile_approx("ack_ms", 0.5),
        "p95_ms": f.percentile_approx("ack_ms", 0.95),
        "p99_ms": f.percentile_approx("ack_ms", 0.99),
        "longest_ms": f.max("ack_ms"),
        "redelivered": f.count_if(f.col("deliveries") > 1),
    }
    return aggregate(ack_samples(messages), values, window=window, late=late, by=("stream", "consumer"))
