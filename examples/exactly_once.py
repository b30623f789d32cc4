"""Store a message once and process it once, even if the network fails in between."""

import os

import jetspark.sync

with jetspark.sync.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222")) as connection:
    jetstream = connection.jetstream()
    payments = jetstream.create_or_update_stream("PAYMENTS", subjects="payments.*", duplicate_window=120)
    payments.purge()

    # The server drops a second message with the same id, and says so.
    first = jetstream.publish_once("payments.made", "invoice 17", msg_id="invoice-17")
    again = jetstream.publish_once("payments.made", "invoice 17", msg_id="invoice-17")
    print("the same message:", first.seq == again.seq and again.duplicate)

    worker = payments.create_or_update_consumer("booker")
    message = worker.next()
    assert message is not None
    # A confirmed acknowledgement: the message will not be delivered again.
    print("confirmed:", message.ack(wait=True))
    print("left to do:", worker.info().num_pending + worker.info().num_ack_pending)
