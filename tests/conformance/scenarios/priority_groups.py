"""Priority groups: overflow, pinned client, prioritized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance.scenario import Run, scenario

SECOND = 1_000_000_000
LONG = 5 * SECOND
SHORT = SECOND // 4


def grouped(run: Run, policy: str, count: int = 5, **config: Any) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", count)
    run.consumer("S", "C", priority_policy=policy, priority_groups=["A"], quiet=True, **config)


def waits_for(count: int) -> Callable[[Any], bool]:
    """Has the consumer so many requests waiting?"""
    return lambda document: document["num_waiting"] == count


@scenario()
def pulls_must_name_the_group(run: Run) -> None:
    grouped(run, "overflow")
    run.pull("S", "C", {"batch": 1, "expires": LONG}).take(1)
    run.pull("S", "C", {"batch": 1, "expires": LONG, "group": "B"}).take(1)
    run.pull("S", "C", {"batch": 1, "expires": LONG, "group": "A"}).take(1)
    run.pull("S", "C").take(1)
    run.pull("S", "C", b"1").take(1)


@scenario()
def fields_of_other_policies_are_refused(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 3)
    run.consumer("S", "N", quiet=True)
    run.consumer("S", "P", priority_policy="pinned_client", priority_groups=["A"], quiet=True)
    for body in ({"min_pending": 1}, {"min_ack_pending": 1}, {"id": "x"}, {"priority": 10}, {"priority": -1}):
        run.record("body", repr(body))
        run.pull("S", "N", {"batch": 1, "expires": LONG, **body}).take(1)
    run.pull("S", "N", {"batch": 1, "expires": LONG, "group": "ignored"}).take(1)
    run.pull("S", "P", {"batch": 1, "expires": LONG, "group": "A", "min_pending": 1}).take(1)


@scenario()
def overflow_waits_for_pending(run: Run) -> None:
    grouped(run, "overflow", 2)
    inbox = run.pull("S", "C", {"batch": 5, "expires": LONG, "group": "A", "min_pending": 4})
    run.fill("S.a", 1)
    inbox.nothing()
    for _ in range(2):
        run.fill("S.a", 1)
        inbox.take(1)
    inbox.nothing()
    run.consumer_info("S", "C")


@scenario()
def overflow_waits_for_unacknowledged(run: Run) -> None:
    grouped(run, "overflow", 6)
    inbox = run.pull("S", "C", {"batch": 2, "expires": LONG, "group": "A", "min_ack_pending": 3})
    inbox.nothing()
    run.pull("S", "C", {"batch": 3, "expires": LONG, "group": "A"}).take(3)
    inbox.take(2)


@scenario()
def unconditional_pulls_go_first(run: Run) -> None:
    grouped(run, "overflow", 0)
    conditional = run.pull("S", "C", {"batch": 5, "expires": LONG, "group": "A", "min_pending": 100})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 1)
    plain = run.pull("S", "C", {"batch": 2, "expires": LONG, "group": "A"})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 2)
    for _ in range(2):
        run.fill("S.a", 1)
        plain.take(1)
    run.fill("S.a", 1)
    conditional.nothing()


@scenario()
def overflow_state_in_consumer_info(run: Run) -> None:
    grouped(run, "overflow")
    run.consumer_info("S", "C")


@scenario()
def pinning_the_first_client(run: Run) -> None:
    grouped(run, "pinned_client")
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.PINNED.S.C")
    run.consumer_info("S", "C")
    first = run.pull("S", "C", {"batch": 2, "expires": LONG, "group": "A"}).take(2)[0]
    advisories.take(1)
    run.consumer_info("S", "C")
    pin = first.header("Nats-Pin-Id")
    other = run.pull("S", "C", {"batch": 2, "expires": LONG, "group": "A"})
    other.nothing()
    run.pull("S", "C", {"batch": 2, "expires": LONG, "group": "A", "id": pin}).take(2)
    run.pull("S", "C", {"batch": 2, "expires": LONG, "group": "A", "id": "wrong"}).take(1)


@scenario()
def heartbeats_for_unpinned_clients(run: Run) -> None:
    grouped(run, "pinned_client")
    run.pull("S", "C", {"batch": 1, "expires": LONG, "group": "A"}).take(1)
    body = {"batch": 1, "expires": SECOND, "idle_heartbeat": SECOND // 5, "group": "A"}
    run.pull("S", "C", body).take(1)


@scenario()
def unpin_by_request(run: Run) -> None:
    grouped(run, "pinned_client", 6)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.S.C")
    first = run.pull("S", "C", {"batch": 1, "expires": LONG, "group": "A"}).take(1)[0]
    pin = first.header("Nats-Pin-Id")
    run.api("CONSUMER.UNPIN.S.C", {"group": "A"})
    advisories.take(1)
    run.consumer_info("S", "C")
    second = run.pull("S", "C", {"batch": 1, "expires": LONG, "group": "A"}).take(1)[0]
    run.record("changed", different=second.header("Nats-Pin-Id") != pin)
    run.pull("S", "C", {"batch": 1, "expires": LONG, "group": "A", "id": pin}).take(1)


@scenario()
def waiting_requests_with_an_old_pin(run: Run) -> None:
    grouped(run, "pinned_client", 1)
    first = run.pull("S", "C", {"batch": 1, "expires": LONG, "group": "A"}).take(1)[0]
    pinned = run.pull("S", "C", {"batch": 3, "expires": LONG, "group": "A", "id": first.header("Nats-Pin-Id")})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 1)
    run.api("CONSUMER.UNPIN.S.C", {"group": "A"})
    fresh = run.pull("S", "C", {"batch": 1, "expires": LONG, "group": "A"})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 2)
    run.publish("S.a", "after")
    fresh.take(1)
    pinned.take(1)


@scenario()
def the_pin_times_out(run: Run) -> None:
    grouped(run, "pinned_client", 4, priority_timeout=SECOND)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.S.C")
    first = run.pull("S", "C", {"batch": 1, "expires": LONG, "group": "A"}).take(1)[0]
    advisories.take(1)
    second = run.pull("S", "C", {"batch": 1, "expires": LONG, "group": "A"}).take(1)[0]
    run.record("changed", different=second.header("Nats-Pin-Id") != first.header("Nats-Pin-Id"))


@scenario()
def unpin_refusals(run: Run) -> None:
    grouped(run, "pinned_client", 0)
    run.consumer("S", "N", quiet=True)
    run.api("CONSUMER.UNPIN.S.C")
    run.api("CONSUMER.UNPIN.S.C", b"{")
    run.api("CONSUMER.UNPIN.S.C", {})
    run.api("CONSUMER.UNPIN.S.C", {"group": ""})
    run.api("CONSUMER.UNPIN.S.C", {"group": "bad name"})
    run.api("CONSUMER.UNPIN.S.C", {"group": "B"})
    run.api("CONSUMER.UNPIN.S.C", {"group": "A"})
    run.api("CONSUMER.UNPIN.S.N", {"group": "A"})
    run.api("CONSUMER.UNPIN.S.missing", {"group": "A"})
    run.api("CONSUMER.UNPIN.NOPE.C", {"group": "A"})


@scenario()
def priorities_order_requests(run: Run) -> None:
    grouped(run, "prioritized", 0)
    inboxes = []
    for number, priority in enumerate((2, 1, 0), 1):
        body = {"batch": 2, "expires": LONG, "group": "A", "priority": priority}
        inboxes.append(run.pull("S", "C", body))
        run.until("CONSUMER.INFO.S.C", waits_for(number))
    for number in (2, 2, 1, 1, 0):
        run.fill("S.a", 1)
        inboxes[number].take(1)


@scenario()
def equal_priorities_take_turns(run: Run) -> None:
    grouped(run, "prioritized", 0)
    first = run.pull("S", "C", {"batch": 2, "expires": LONG, "group": "A", "priority": 3})
    second = run.pull("S", "C", {"batch": 2, "expires": LONG, "group": "A", "priority": 3})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 2)
    for inbox in (first, second, first, second):
        run.fill("S.a", 1)
        inbox.take(1)


@scenario()
def several_groups_are_accepted(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 3)
    run.consumer("S", "C", priority_policy="overflow", priority_groups=["A", "B"])
    run.pull("S", "C", {"batch": 1, "expires": LONG, "group": "B"}).take(1)
    run.consumer_info("S", "C")


@scenario()
def policy_may_be_changed(run: Run) -> None:
    grouped(run, "overflow", 2)
    run.consumer("S", "C", priority_policy="pinned_client", priority_groups=["B"])
    run.pull("S", "C", {"batch": 1, "expires": LONG, "group": "B"}).take(1)
    run.consumer("S", "C")
    run.consumer_info("S", "C")
