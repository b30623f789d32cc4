"""Read a stream into an Arrow table, for pandas, Polars or DuckDB. Needs the extra [arrow]."""

import os

import jetspark.sync

with jetspark.sync.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222")) as connection:
    jetstream = connection.jetstream(publish_window=4000)
    stream = jetstream.create_or_update_stream("CLICKS", subjects="clicks.*")
    stream.purge()
    for number in range(10_000):
        jetstream.publish_async(f"clicks.{'home' if number % 3 else 'shop'}", f"visitor {number}")
    jetstream.flush()

    table = stream.scan(columns=["subject", "sequence", "timestamp"]).read_all()
    print(table.num_rows, "rows,", table.column_names)
    print(sorted(table.group_by("subject").aggregate([("sequence", "count")]).to_pylist(), key=str))
