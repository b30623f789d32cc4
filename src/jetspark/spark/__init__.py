"""JetStream for Spark: the format `jetstream`, for reading and writing, batch and streaming.

    spark = jetspark.spark.session()
    spark.readStream.format("jetstream").option("servers", "nats://127.0.0.1:4222").option("stream", "ORDERS").load()

With this package installed the format is found without registration. Names are loaded when they are first used: Spark
imports this on every worker.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jetspark.spark.java import ensure_java
    from jetspark.spark.lag import LagListener
    from jetspark.spark.reporting import ProgressReporter
    from jetspark.spark.source import JetStreamDataSource
    from jetspark.spark.spark_session import session

__all__ = ["JetStreamDataSource", "LagListener", "ProgressReporter", "ensure_java", "register", "session"]

_HOMES = {
    "JetStreamDataSource": "jetspark.spark.source",
    "LagListener": "jetspark.spark.lag",
    "ProgressReporter": "jetspark.spark.reporting",
    "ensure_java": "jetspark.spark.java",
    "session": "jetspark.spark.spark_session",
}


def register(spark: SparkSession) -> None:
    """Register the format `jetstream` in a session. Only needed if Spark cannot find it by itself.

    That is so in a thread that the program starts: Spark looks for the format of a write in the session that is active
    in the thread, and a new thread has none. This makes `spark` the active session of the thread, as `session()` does.
    """
    from jetspark.spark.source import JetStreamDataSource

    spark.dataSource.register(JetStreamDataSource)
    # A session of Spark Connect has neither, and needs neither.
    if hasattr(spark, "_jsparkSession"):
        spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'jetspark.spark' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
