"""Where Spark finds the format `jetspark_delta` by itself, as `pyspark_jetspark` is for `jetstream`.

Kept light, because a module that fails to import here would hide every other format Spark could find.
"""

from jetspark.spark.pipelines.delta_sink import DeltaDataSource as DefaultSource

__all__ = ["DefaultSource"]
