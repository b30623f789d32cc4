"""Starting Spark so that it works: a Java is there, and workers run this Python.

Nothing about time zones, memory or the master is decided here beyond what the caller says; Spark's defaults hold.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from jetspark.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(app_name: str = "jetspark", *, master: str = "", remote: str = "", **conf: Any) -> SparkSession:
    """A Spark session with the format `jetstream` in it; the one that runs already, if one does.

        spark = jetspark.spark.session(master="local[4]", **{"spark.sql.shuffle.partitions": 4})

    `remote` connects to a Spark Connect server (or starts one, with `remote="local[2]"`) instead.
    """
    from pyspark.sql import SparkSession

    from jetspark.spark import register

    # Workers otherwise run whichever python3 comes first on the PATH, which need not have this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if remote:
        builder = builder.remote(remote)
    elif master:
        builder = builder.master(master)
    if not remote or remote.startswith("local"):
        ensure_java()
    for name, value in conf.items():
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
    spark = builder.getOrCreate()
    register(spark)
    return spark
