"""The process in which a pipeline runs: Spark's own `spark-pipelines`, on a port of its own.

Started by `launch` as `python -m jetspark.spark.pipelines.runner run --spec …`. Spark's command boots a Spark Connect
server in the driver and always looks for it on port 15002, so that two pipelines cannot run on one machine. Here the
server takes a free port and is asked which. A `database` in the spec must exist before a run: it is made here.
Everything else (reading the definitions, running the flows, the exit status) is Spark's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from jetspark.spark.pipelines.project import load_project


def _server_port() -> int:
    from pyspark.sql.session import SparkSession

    session: Any = SparkSession._instantiatedSession
    assert session is not None, "the Connect server was not started in this process"
    service = getattr(session._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return int(getattr(service, "MODULE$").localPort())


def main(arguments: list[str]) -> None:
    """Run Spark's pipeline command with these arguments."""
    from pyspark.pipelines import cli
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

    if "SPARK_REMOTE" not in os.environ:
        setattr(DefaultChannelBuilder, "default_port", staticmethod(_server_port))  # noqa: B010 - a method of theirs
    project = load_project(Path(arguments[arguments.index("--spec") + 1]))
    session = SparkSession.builder.config("spark.sql.connect.serverStacktrace.enabled", "false").getOrCreate()
    if project.database and project.catalog in (None, "spark_catalog"):
        session.sql(f"CREATE DATABASE IF NOT EXISTS `{project.database}`").collect()
    sys.argv = ["spark-pipelines", *arguments]
    cli.main()


if __name__ == "__main__":
    main(sys.argv[1:])
