"""Store a large object in chunks; its checksum is verified when it is read."""

import os

import jetspark.sync

with jetspark.sync.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222")) as connection:
    jetstream = connection.jetstream()
    reports = jetstream.create_object_store("reports")
    content = b"one line of a report\n" * 50_000

    info = reports.put("2026/november.txt", content, description="monthly")
    print("stored", info.size, "bytes in", info.chunks, "chunks")
    print("the same again:", reports.get("2026/november.txt").data == content)
    jetstream.delete_object_store("reports")
