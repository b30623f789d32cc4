"""The walk-through of the model deep dive, number by number, as nats-server counts today."""

from __future__ import annotations

from typing import Any

from tests.conformance.scenario import Run, scenario
from tests.conformance.wire import Frame

SECOND = 1_000_000_000


def numbers(run: Run) -> None:
    """What `nats consumer info` prints under State."""
    info = run.api("CONSUMER.INFO.ORDERS.DISPATCH", quiet=True)
    delivered, floor = info["delivered"], info["ack_floor"]
    run.record(
        "state",
        delivered=[delivered["consumer_seq"], delivered["stream_seq"]],
        floor=[floor["consumer_seq"], floor["stream_seq"]],
        ack_pending=info["num_ack_pending"],
        redelivered=info["num_redelivered"],
        pending=info["num_pending"],
    )


def next_message(run: Run) -> Frame:
    return run.pull("ORDERS", "DISPATCH", {"batch": 1, "expires": 5 * SECOND}).take(1)[0]


@scenario()
def orders_and_dispatch(run: Run) -> None:
    run.stream("ORDERS", subjects=["ORDERS.*"])
    run.consumer("ORDERS", "DISPATCH", filter_subject="ORDERS.processed", ack_wait=SECOND // 4)
    run.stream_info("ORDERS")
    numbers(run)
    run.publish("ORDERS.processed", "order 4")
    run.stream_info("ORDERS")
    run.ack(next_message(run))
    numbers(run)
    run.publish("ORDERS.processed", "order 5")
    next_message(run)
    numbers(run)
    next_message(run)
    numbers(run)
    run.ack(next_message(run))
    numbers(run)


@scenario()
def deduplication(run: Run) -> None:
    run.stream("ORDERS", subjects=["ORDERS.*"])
    for number in range(1, 5):
        run.publish("ORDERS.new", f"hello{number}", [("Nats-Msg-Id", "1")])
    run.stream_info("ORDERS")


@scenario()
def storage_overhead_of_hello(run: Run) -> None:
    run.stream("O", subjects=["o.ne"])
    run.publish("o.ne", "hello")
    run.stream_info("O")


@scenario()
def starting_positions(run: Run) -> None:
    run.stream("ORDERS", subjects=["ORDERS.*"])
    run.fill("ORDERS.processed", 100, "order {}")
    common: dict[str, Any] = {"filter_subject": "ORDERS.processed", "ack_policy": "none"}
    run.consumer("ORDERS", "ALL", deliver_policy="all", **common)
    run.consumer("ORDERS", "LAST", deliver_policy="last", **common)
    run.consumer("ORDERS", "TEN", deliver_policy="by_start_sequence", opt_start_seq=10, **common)
    for name in ("ALL", "LAST", "TEN"):
        run.fetch("ORDERS", name, 1)


@scenario()
def ephemeral_monitor(run: Run) -> None:
    run.stream("ORDERS", subjects=["ORDERS.*"])
    run.fill("ORDERS.processed", 3, "order {}")
    listener = run.subscribe("my.monitor")
    run.ephemeral("ORDERS", deliver_subject="my.monitor", ack_policy="none", deliver_policy="last")
    listener.take(1)
    run.publish("ORDERS.processed", "order 4")
    listener.take(1)


@scenario()
def double_acks_of_every_kind(run: Run) -> None:
    run.stream("ORDERS", subjects=["ORDERS.*"])
    run.fill("ORDERS.processed", 4, "order {}")
    run.consumer("ORDERS", "DISPATCH", filter_subject="ORDERS.processed")
    for message, body in zip(run.fetch("ORDERS", "DISPATCH", 4), ("+ACK", "-NAK", "+WPI", "+TERM"), strict=True):
        run.ack(message, body)
    numbers(run)


@scenario()
def pull_internals_of_the_first_seed(run: Run) -> None:
    run.stream("bar", subjects=["bar"])
    run.consumer("bar", "dur", filter_subject="bar", max_ack_pending=20000)
    run.fill("bar", 6, "helo")
    inbox = run.subscribe("_INBOX.example")
    run.pull("bar", "dur", None, inbox=inbox)
    inbox.take(1)
    run.pull("bar", "dur", {"batch": 5, "expires": 4_990_000_000}, inbox=inbox)
    inbox.take(5)
    run.pull("bar", "dur", {"batch": 1, "no_wait": True}, inbox=inbox)
    inbox.take(1)
    run.consumer_info("bar", "dur")
