"""Starting Spark so that it works: a Java is there, workers run this Python, and a replayed batch keeps its partitions.

Nothing about time zones, memory or the master is decided here beyond what the caller says; Spark's defaults hold.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from jetspark.client.errors import MissingExtraError
from jetspark.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark Connect writes each request into its events and its page of the UI, options and SQL with them, and hides what
# this setting matches: options that are named as secrets, in the text of a request and in SQL. It does so before the
# source is asked, so names that are no options here but were meant as secrets (passwrod, seed) count as well.
REDACTION_SETTING = "spark.sql.redaction.string.regex"
_SECRET = r"""(?:pa?s+\w{0,2}w\w{0,2}r?d|passphrase|pwd|to?e?ke?n|tokne|se?c(?:re?|er?)t|cred|seed|jwt|nkey)"""
REDACTION = (
    rf"""(?i)key: "[^"]*{_SECRET}[^"]*"\s*value: "(?:\\.|[^"\\])*\"?"""
    rf"""|{_SECRET}\w*[\\'"`]*[\s=]*\\?(['"]).*?\\?\1"""
)
# With Spark's own default a batch that runs again may find its rows in other partitions than before, and a sink that
# knows a row by its place cannot tell it from another row that is equal.
KEPT_PARTITIONS = {"spark.sql.adaptive.streaming.stateless.enabled": "false"}


def session(app_name: str = "jetspark", *, master: str = "", remote: str = "", **conf: Any) -> SparkSession:
    """A Spark session in which the format `jetstream` works; the current one, if there is one.

        spark = jetspark.spark.session(master="local[4]", **{"spark.sql.shuffle.partitions": 4})

    It finds a Java, and the workers run the same Python as this program. Streaming queries keep their rows in the same
    partitions when a batch is repeated, as the sink needs it (see docs/exactly-once.md), unless `conf` says otherwise.
    `remote` connects to a Spark Connect server, or starts one with `remote="local[2]"`. MissingExtraError if PySpark is
    not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise MissingExtraError("Spark needs PySpark: pip install 'jetspark[spark]'") from error

    from jetspark.spark import register

    # Workers otherwise run whichever python3 comes first on the PATH, which need not have this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if remote:
        builder = builder.remote(remote)
        conf = {REDACTION_SETTING: REDACTION, **conf}
    elif master:
        builder = builder.master(master)
    if not remote or remote.startswith("local"):
        ensure_java()
    for name, value in (KEPT_PARTITIONS | conf).items():
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
    spark = builder.getOrCreate()
    register(spark)
    return spark
