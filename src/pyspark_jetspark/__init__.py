"""Where Spark finds the format `jetstream` by itself: it looks for modules named `pyspark_*` with a `DefaultSource`.

Kept light, because a module that fails to import here would hide every other format Spark could find.
"""

from jetspark.spark.source import JetStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
