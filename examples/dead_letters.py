"""Dead letters: a message that keeps failing is moved to another stream, and the worker goes on with the rest."""

import os

import jetspark.sync

TRIES = 3

with jetspark.sync.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222")) as connection:
    jetstream = connection.jetstream()
    mail = jetstream.create_or_update_stream("MAIL", subjects="mail.*", retention="workqueue")
    dead = jetstream.create_or_update_stream("DEAD_MAIL", subjects="dead.>")
    mail.purge()
    dead.purge()
    for address in ("anna@example.com", "nobody", "bert@example.com"):
        jetstream.publish("mail.send", address)

    sender = mail.create_or_update_consumer("sender", max_deliver=TRIES)
    sent = 0
    while sent < 2 or dead.info().state.messages < 1:
        message = sender.next()
        assert message is not None
        address = message.data.decode()
        if "@" in address:
            sent += 1
            message.ack()
        elif message.metadata.delivery_count < TRIES:
            message.nak(delay=0.1)  # comes again a little later
        else:
            # Store it first, then terminate it. A crash in between stores it again, and the id drops the copy.
            original = f"mail-{message.metadata.stream_sequence}"
            jetstream.publish_once(f"dead.{message.subject}", message.data, msg_id=original)
            message.term("not an address")

    print("sent", sent, "and put aside", dead.get_last_msg("dead.mail.send").data.decode())
    print("left in the queue:", mail.info().state.messages)
