"""A stream in Spark: as a table, and as a streaming query with a total. Needs the extra [spark] and Java."""

import os
import tempfile
from typing import Any

import jetspark.spark
import jetspark.sync

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")

with jetspark.sync.connect(URL) as connection:
    jetstream = connection.jetstream()
    sales = jetstream.create_or_update_stream("SALES", subjects="sales.*")
    sales.purge()
    for number in range(1, 1001):
        jetstream.publish_async(f"sales.{('ch', 'de')[number % 2]}", str(number))
    jetstream.flush()

settings: dict[str, Any] = {
    "spark.sql.shuffle.partitions": 2,
    "spark.ui.showConsoleProgress": False,
    "spark.log.level": "ERROR",
}
spark = jetspark.spark.session("totals", master="local[2]", **settings)
options = {"servers": URL, "stream": "SALES"}

# A batch: what is in the stream now.
table = spark.read.format("jetstream").options(**options).load()
totals = table.groupBy("subject").agg({"sequence": "count"}).orderBy("subject")
print([(row[0], row[1]) for row in totals.collect()])

# A streaming query: it continues from its checkpoint after a restart. availableNow ends it when it has read everything.
with tempfile.TemporaryDirectory() as state:
    query = (
        spark.readStream.format("jetstream")
        .options(**options, startingOffsets="earliest")
        .load()
        .selectExpr("CAST(CAST(data AS STRING) AS LONG) AS amount")
        .groupBy()
        .sum("amount")
        .writeStream.format("memory")
        .queryName("running")
        .outputMode("complete")
        .option("checkpointLocation", state)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("sold for", spark.table("running").collect()[0][0])
spark.stop()
