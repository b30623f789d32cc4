"""Read a stream in order from any position, without leaving a consumer on the server."""

import os

import jetspark.sync

with jetspark.sync.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222")) as connection:
    jetstream = connection.jetstream()
    stream = jetstream.create_or_update_stream("LEDGER", subjects="ledger.*")
    stream.purge()
    first = jetstream.publish("ledger.in", "100").seq
    for amount in ("-30", "-20", "+5"):
        jetstream.publish("ledger.out", amount)

    balance = 0
    with stream.ordered_consumer(opt_start_seq=first).consume() as messages:
        for message in messages:
            balance += int(message.data)
            if message.metadata.pending_count == 0:
                break
    print("balance", balance)
