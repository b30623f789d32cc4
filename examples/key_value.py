"""A key-value bucket: current value, history, compare and set, and watching for changes."""

import os

import jetspark.sync
from jetspark.client.errors import KeyRevisionError

with jetspark.sync.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222")) as connection:
    jetstream = connection.jetstream()
    if "settings" in jetstream.key_value_names():
        jetstream.delete_key_value("settings")
    settings = jetstream.create_key_value("settings", history=5)

    revision = settings.put("theme", "light")
    settings.update("theme", "dark", last=revision)
    try:
        settings.update("theme", "blue", last=revision)
    except KeyRevisionError as error:
        print("refused:", error)
    print("now", settings.get("theme").value.decode())
    print("was", [entry.value.decode() for entry in settings.history("theme")])

    with settings.watch("theme") as changes:
        entry = changes.next(timeout=5)
        assert entry is not None
        print("the watch begins with", entry.key, "=", entry.value.decode())
