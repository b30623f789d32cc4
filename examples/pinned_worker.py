"""A priority group: one worker is active, another on standby takes over when the first one stops."""

import os
import threading

import jetspark.sync

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
GROUP = {"priority_groups": "workers", "priority_policy": "pinned_client", "priority_timeout": 2, "ack_wait": 3}

with jetspark.sync.connect(URL) as setup:
    jetstream = setup.jetstream()
    stream = jetstream.create_or_update_stream("TASKS", subjects="tasks.*")
    stream.purge()
    if "group" in stream.consumer_names():
        stream.delete_consumer("group")
    stream.create_consumer("group", **GROUP)

    got: dict[str, list[int]] = {"first": [], "second": []}
    enough = threading.Event()

    def work(name: str, until: int) -> None:
        with jetspark.sync.connect(URL, name=name) as connection:
            consumer = connection.jetstream().consumer("TASKS", "group")
            with consumer.consume(group="workers", expires=1) as messages:
                for message in messages:
                    message.ack(wait=True)
                    got[name].append(message.metadata.stream_sequence)
                    if len(got["first"]) + len(got["second"]) >= until:
                        enough.set()
                    if len(got[name]) >= 5:
                        return  # what it had not acknowledged goes to the other, pinned after priority_timeout

    workers = [threading.Thread(target=work, args=(name, 10)) for name in got]
    for worker in workers:
        worker.start()
    for number in range(10):
        jetstream.publish("tasks.do", str(number))
    enough.wait(30)
    for worker in workers:
        worker.join()
    together = sorted(got["first"] + got["second"])
    print("each of", len(together), "messages was done once:", len(set(together)) == len(together) == 10)
