"""The shop: producers publish orders, workers process them, a monitor reads everything.

`Shop` remembers which orders were acknowledged and which were processed; `checks` compares that with what is stored.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jetspark.sync
from jetspark.client.errors import ClientError

COUNTRIES = ("ch", "de", "fr", "it", "jp")
ALERT_AMOUNT = 950
GROUP = "workers"
PRODUCERS = 2
# The server is killed in the middle: everybody tries again for this long.
PATIENCE_S = 60.0
GOODBYE_S = 10.0


def orders(seed: int = 17) -> Iterator[dict[str, Any]]:
    """The same orders every time, without end."""
    chance = random.Random(seed)
    for number in itertools.count():
        yield {"id": f"order-{number}", "country": chance.choice(COUNTRIES), "amount": chance.randint(1, 1000)}


class Shop:
    """Producers, a worker group with a pinned client, and a monitor."""

    def __init__(self, url: str, all_orders: Iterable[dict[str, Any]], rate: float) -> None:
        self._url = url
        self._orders = iter(all_orders)
        self._take = threading.Lock()
        self._rate = rate
        self._threads: list[threading.Thread] = []
        self._leave = {"anna": threading.Event(), "bert": threading.Event()}
        self.closing = threading.Event()
        self.published: dict[str, int] = {}  # order id -> sequence it was acknowledged with
        self.done_by: Counter[str] = Counter()
        self._done: set[str] = set()
        self.monitored = 0
        self.failures: list[str] = []

    def open(self) -> None:
        """Create the streams and consumers."""
        with self._connect("setup") as connection:
            jetstream = connection.jetstream()
            jetstream.create_stream("ORDERS", subjects="ORDERS.*", description="the demo shop", allow_direct=True)
            jetstream.create_stream("TOTALS", subjects="TOTALS.>", max_msgs_per_subject=1, allow_direct=True)
            jetstream.create_stream("ALERTS", subjects="ALERTS.>", allow_direct=True)
            # Acknowledgement samples are messages like any other: keep them.
            jetstream.create_stream("LATENCY", subjects="$JS.EVENT.METRIC.CONSUMER.ACK.>", max_age=3600)
            jetstream.create_consumer(
                "ORDERS",
                "NEW",
                durable_name="NEW",
                filter_subject="ORDERS.new",
                ack_wait=5,
                sample_freq="100",
                priority_groups=[GROUP],
                priority_policy="pinned_client",
                priority_timeout=3,
            )

    def _connect(self, name: str) -> jetspark.sync.Connection:
        return jetspark.sync.connect(self._url, name=f"demo {name}")

    def start(self) -> None:
        """Start producers, workers and the monitor."""
        for number in range(PRODUCERS):
            self._spawn(self._produce, f"producer {number}")
        for name in self._leave:
            self._spawn(self._work, name)
        self._spawn(self._watch, "monitor")

    def _spawn(self, target: Callable[[str], None], name: str) -> None:
        def run() -> None:
            try:
                target(name)
            except Exception as error:  # noqa: BLE001 - whatever it was, the verdict must say so
                self.failures.append(f"{name}: {type(error).__name__}: {error}")

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _next_order(self) -> dict[str, Any] | None:
        with self._take:
            return next(self._orders, None)

    def _produce(self, name: str) -> None:
        with self._connect(name) as connection:
            jetstream = connection.jetstream()
            while not self.closing.wait(PRODUCERS / self._rate) and (order := self._next_order()) is not None:
                # The id makes it safe to send again until it is acknowledged, also across a crash of the server.
                stored = jetstream.publish_once("ORDERS.new", json.dumps(order), msg_id=order["id"], timeout=PATIENCE_S)
                self.published[order["id"]] = stored.seq

    def _work(self, name: str) -> None:
        """The pinned worker gets orders; the other one waits."""
        leave = self._leave[name]
        with self._connect(name) as connection:
            jetstream = connection.jetstream()
            consumer = jetstream.consumer("ORDERS", "NEW")
            while not (leave.is_set() or self.closing.is_set()):
                with contextlib.suppress(ClientError):  # The server is away for a moment, or another is pinned.
                    self._process(jetstream, consumer.fetch(20, expires=1, group=GROUP), name)

    def _process(self, jetstream: jetspark.sync.JetStream, batch: Sequence[jetspark.sync.Msg], name: str) -> None:
        """Store each result, then acknowledge: what a crash comes between is done again, and its copy dropped."""
        done = {f"done-{json.loads(message.data)['id']}": message for message in batch}
        try:
            for result_id, message in done.items():
                jetstream.publish_async("ORDERS.processed", message.data, msg_id=result_id)
            jetstream.flush()
        except ClientError:
            # What of it is stored is not known, and need not be: the ids are the same.
            for result_id, message in done.items():
                jetstream.publish_once("ORDERS.processed", message.data, msg_id=result_id, timeout=PATIENCE_S)
        self.done_by[name] += len(done.keys() - self._done)
        self._done.update(done)
        for message in batch:
            # The last one is confirmed, and with it those before it.
            message.ack(wait=message is batch[-1])

    def _watch(self, name: str) -> None:
        """Read everything in order, without acknowledgements."""
        with self._connect(name) as connection:
            monitor = connection.jetstream().ordered_consumer("ORDERS")
            with monitor.consume() as messages:
                while not self.closing.is_set():
                    if messages.next(timeout=0.5) is not None:
                        self.monitored += 1

    def dismiss(self, name: str) -> None:
        """Let a worker stop without telling the server."""
        self._leave[name].set()

    def processed(self, connection: jetspark.sync.Connection) -> int:
        """How many orders are done, according to the consumer."""
        info = connection.jetstream().consumer("ORDERS", "NEW").info()
        return len(self.published) - info.num_pending - info.num_ack_pending

    def close(self) -> None:
        """Stop everybody."""
        self.closing.set()
        for thread in self._threads:
            thread.join(GOODBYE_S)
