"""Whole pipelines between streams and tables, each a short function over DataFrames.

    from jetspark.spark import pipelines

    pipelines.archive(spark, "ORDERS", "archive/orders", checkpoint="state/orders")
    pipelines.replay(spark, "archive/orders", "ORDERS_AGAIN")

Names are loaded when they are first used. `jetspark pipeline` runs projects that declare such pipelines in files.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetspark.spark.pipelines.ack_metrics import METRIC_SUBJECTS, ack_latency, ack_samples
    from jetspark.spark.pipelines.archive_files import compact
    from jetspark.spark.pipelines.archiving import archive, archive_rows, read_archive, replay, replay_rows
    from jetspark.spark.pipelines.delta_table import lakehouse
    from jetspark.spark.pipelines.errors import PipelineError
    from jetspark.spark.pipelines.messages import (
        as_messages,
        connection_options,
        json_fields,
        read_messages,
        read_stored,
        sink_options,
    )
    from jetspark.spark.pipelines.routing import Rule, fan_out
    from jetspark.spark.pipelines.windows import ROCKSDB, aggregate, dedupe, join_streams

_HOMES = {
    "METRIC_SUBJECTS": "ack_metrics",
    "ROCKSDB": "windows",
    "PipelineError": "errors",
    "Rule": "routing",
    "ack_latency": "ack_metrics",
    "ack_samples": "ack_metrics",
    "aggregate": "windows",
    "archive": "archiving",
    "archive_rows": "archiving",
    "as_messages": "messages",
    "compact": "archive_files",
    "connection_options": "messages",
    "dedupe": "windows",
    "fan_out": "routing",
    "join_streams": "windows",
    "json_fields": "messages",
    "lakehouse": "delta_table",
    "read_archive": "archiving",
    "read_messages": "messages",
    "read_stored": "messages",
    "replay": "archiving",
    "replay_rows": "archiving",
    "sink_options": "messages",
}

__all__ = [
    "METRIC_SUBJECTS",
    "ROCKSDB",
    "PipelineError",
    "Rule",
    "ack_latency",
    "ack_samples",
    "aggregate",
    "archive",
    "archive_rows",
    "as_messages",
    "compact",
    "connection_options",
    "dedupe",
    "fan_out",
    "join_streams",
    "json_fields",
    "lakehouse",
    "read_archive",
    "read_messages",
    "read_stored",
    "replay",
    "replay_rows",
    "sink_options",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'jetspark.spark.pipelines' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"jetspark.spark.pipelines.{home}"), name)
    globals()[name] = value
    return value
