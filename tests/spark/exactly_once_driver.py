"""The driver that `exactly_once` kills: numbers into a stream, without end; a line for each batch that is committed."""

from __future__ import annotations

import sys

from jetspark.spark.spark_session import session

# Few rows in flight, so that a batch takes a while and most kills find it half stored.
IN_FLIGHT = 8


def main(url: str, checkpoint: str, plan: str, batch_rows: str) -> None:
    spark = session(
        "exactly once",
        master="local[2,4]",
        **{
            "spark.ui.enabled": False,
            "spark.ui.showConsoleProgress": False,
            "spark.sql.shuffle.partitions": 2,
            "spark.driver.memory": "512m",
            # A short life: the time goes into starting, not into running well.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", batch_rows)
        .option("numPartitions", 2)
        .load()
        .selectExpr("cast(value as string) as data")
    )
    if plan == "shuffle":
        rows = rows.repartition(2, "data")
    query = (
        rows.writeStream.format("jetstream")
        .option("servers", url)
        .option("subject", "out.rows")
        .option("maxInFlight", IN_FLIGHT)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    told = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != told:
            told = progress["batchId"]
            print(f"batch {told}", flush=True)
        query.awaitTermination(0.1)
    raise SystemExit(str(query.exception()))


if __name__ == "__main__":
    main(*sys.argv[1:])
