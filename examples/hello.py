"""Store a message, read it back, acknowledge it. Needs a server: `jetspark server -js`, or any NATS server."""

import os

import jetspark.sync

with jetspark.sync.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222")) as connection:
    jetstream = connection.jetstream()
    orders = jetstream.create_or_update_stream("ORDERS", subjects="orders.>")

    stored = jetstream.publish("orders.new", b"two cups")  # returns when the stream has it
    print("stored as message", stored.seq)

    worker = orders.create_or_update_consumer("worker")
    message = worker.next()
    assert message is not None
    print("got", message.data, "on", message.subject)
    message.ack()
