"""What the server under the browser has lived through: orders, workers, a pinned client, a pipeline, and an attack."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator

import jetspark.sync
from jetspark.client.sync.connection import Connection

# If any of it ran, the page would carry a mark or show a dialog.
ATTACK = "<img/src='x'/onerror='document.body.dataset.hacked=1;alert(1)'>"
SCRIPT = "<script>document.body.dataset.hacked=1;alert(1)</script>"
BIG_NUMBER = "12345678901234567890"


class Story:
    """The actors that stay connected while the tests look."""

    def __init__(self, shop: Connection, worker: Connection) -> None:
        self.shop = shop
        self.worker = worker

    def publish(self, subject: str, body: bytes) -> None:
        self.shop.jetstream().publish(subject, body)


def make_streams(shop: Connection) -> None:
    shop.jetstream().api_request(
        "STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"], "description": SCRIPT}
    )
    shop.jetstream().api_request(
        "STREAM.CREATE.PAYMENTS", {"name": "PAYMENTS", "subjects": ["payments.*"], "storage": "memory"}
    )
    shop.jetstream().api_request("STREAM.CREATE.SCRATCH", {"name": "SCRATCH", "subjects": ["scratch.>"]})
    shop.jetstream().api_request(
        "STREAM.CREATE.KV_jetspark_pipelines",
        {
            "name": "KV_jetspark_pipelines",
            "subjects": ["$KV.jetspark_pipelines.>"],
            "max_msgs_per_subject": 1,
            "storage": "memory",
        },
    )
    stream = shop.jetstream()
    for number in range(30):
        body = json.dumps({"id": number, "customer": {"name": "Ada"}}).encode()
        stream.publish(f"orders.new.{'de' if number % 3 else 'fr'}", body, headers={"Trace-Id": f"t{number}"})
    stream.publish("payments.card", bytes(range(64)))
    stream.publish(f"orders.attack.{ATTACK}", f'{{"html": "{SCRIPT}", "big": {BIG_NUMBER}}}'.encode())
    stream.publish("orders.attack.header", SCRIPT.encode(), headers={"X-Html": SCRIPT})


def report_pipelines(shop: Connection) -> None:
    running = {
        "name": "orders-archive",
        "state": "running",
        "batch": 12,
        "processed_rows_per_second": 1200.5,
        "batch_duration_ms": 840,
        "sink": "parquet",
        "sources": [{"stream": "ORDERS", "end_seq": 16}],
    }
    failed = {"name": "alerts", "state": "failed", "error": f"no column {SCRIPT}", "sources": []}
    for report in (running, failed):
        key = f"$KV.jetspark_pipelines.{report['name']}"
        shop.jetstream().publish(key, json.dumps(report).encode())


def make_consumers(worker: Connection) -> None:
    billing = {
        "durable_name": "billing",
        "ack_policy": "explicit",
        "sample_freq": "100",
        "filter_subject": "orders.new.de",
    }
    worker.jetstream().api_request(
        "CONSUMER.CREATE.ORDERS.billing.orders.new.de",
        {"stream_name": "ORDERS", "config": {"name": "billing", **billing}},
    )
    pinned = {
        "durable_name": "fulfil",
        "ack_policy": "explicit",
        "priority_groups": ["workers"],
        "priority_policy": "pinned_client",
        # Nobody is unpinned for being slow while the tests look.
        "priority_timeout": 3_600_000_000_000,
    }
    worker.jetstream().api_request(
        "CONSUMER.CREATE.ORDERS.fulfil", {"stream_name": "ORDERS", "config": {"name": "fulfil", **pinned}}
    )


def work(worker: Connection) -> None:
    """Twelve acknowledged, one sent back and delivered again; a pinned client that has had one and waits for more."""
    billing = worker.jetstream().consumer("ORDERS", "billing")
    for number, message in enumerate(billing.fetch(13, expires=60)):
        if number < 12:
            message.ack(wait=True)
        else:
            message.nak(wait=True)
    assert len(list(billing.fetch(1, expires=60))) == 1
    got = threading.Event()
    inbox = worker.new_inbox()
    worker.subscribe(inbox, callback=lambda message: got.set())
    request = {"batch": 1000, "expires": 600_000_000_000, "group": "workers"}
    worker.publish("$JS.API.CONSUMER.MSG.NEXT.ORDERS.fulfil", json.dumps(request).encode(), reply=inbox)
    assert got.wait(60)


@contextlib.contextmanager
def tell(url: str) -> Iterator[Story]:
    with (
        jetspark.sync.connect(url, name="shop") as shop,
        jetspark.sync.connect(url, name=f"worker{ATTACK}") as worker,
    ):
        make_streams(shop)
        make_consumers(worker)
        work(worker)
        report_pipelines(shop)
        yield Story(shop, worker)
