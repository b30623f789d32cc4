"""A driver of its own for a test: archives ORDERS for ever, watched as a person would, until it is interrupted."""

from __future__ import annotations

import sys

from jetspark.spark import pipelines, session
from jetspark.spark.streaming import follow


def main(url: str, archive: str, state: str) -> None:
    settings = {"spark.ui.enabled": False, "spark.ui.showConsoleProgress": False, "spark.log.level": "ERROR"}
    spark = session("archive driver", master="local[2]", **settings)
    query = pipelines.archive(
        spark, "ORDERS", archive, checkpoint=state, every="0 seconds", servers=url, maxOffsetsPerTrigger=20
    )
    follow(query, say=lambda text: print(text, flush=True))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
