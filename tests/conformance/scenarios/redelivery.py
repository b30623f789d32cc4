"""Redelivery: ack waits, backoff, and the end of attempts."""

from __future__ import annotations

from typing import Any

from tests.conformance.scenario import Run, scenario

SECOND = 1_000_000_000
SHORT = SECOND // 4


def three(run: Run, **config: Any) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 3)
    run.consumer("S", "C", quiet=True, **config)


@scenario()
def unacknowledged_messages_come_again(run: Run) -> None:
    three(run, ack_wait=SHORT)
    run.fetch("S", "C", 2)
    messages = run.fetch("S", "C", 3)
    run.consumer_info("S", "C")
    again = run.fetch("S", "C", 3)
    run.consumer_info("S", "C")
    for message in [*messages, *again]:
        run.ack(message)
    run.consumer_info("S", "C")


@scenario()
def redelivery_to_a_waiting_pull(run: Run) -> None:
    three(run, ack_wait=SHORT)
    inbox = run.pull("S", "C", {"batch": 6, "expires": 5 * SECOND})
    inbox.take(6)
    run.consumer_info("S", "C")


@scenario()
def max_deliver_one_gives_up_at_once(run: Run) -> None:
    three(run, ack_wait=SHORT, max_deliver=1)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C")
    run.fetch("S", "C", 1)
    run.consumer_info("S", "C")
    advisories.take(1)
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_ack_pending"] == 0)
    run.ack(run.fetch("S", "C", 1)[0])
    run.consumer_info("S", "C")


@scenario()
def max_deliver_two_gives_up_when_served(run: Run) -> None:
    three(run, ack_wait=SHORT, max_deliver=2)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C")
    run.fetch("S", "C", 1)
    run.fetch("S", "C", 2)
    inbox = run.pull("S", "C", {"batch": 5, "expires": 3 * SECOND})
    advisories.take(1)
    inbox.take(2)
    run.consumer_info("S", "C")


@scenario()
def nak_at_the_limit_gives_up(run: Run) -> None:
    three(run, max_deliver=2)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C")
    run.ack(run.fetch("S", "C", 1)[0], "-NAK")
    run.ack(run.fetch("S", "C", 1)[0], "-NAK")
    run.consumer_info("S", "C")
    run.fetch("S", "C", 1)
    advisories.take(1)
    run.consumer_info("S", "C")
    run.stream_info("S")


@scenario()
def backoff_sets_the_waits(run: Run) -> None:
    three(run, backoff=[SECOND // 5, SECOND // 2], max_deliver=3)
    run.consumer_info("S", "C")
    inbox = run.pull("S", "C", {"batch": 10, "expires": 2 * SECOND})
    inbox.take_until_status()
    run.consumer_info("S", "C")


@scenario()
def acknowledged_after_the_wait_is_still_acknowledged(run: Run) -> None:
    three(run, ack_wait=SHORT)
    message = run.fetch("S", "C", 1)[0]
    run.client.drain_arrived(0.4)
    run.ack(message)
    run.fetch("S", "C", 1)
    run.consumer_info("S", "C")


@scenario()
def workqueue_keeps_what_was_given_up(run: Run) -> None:
    run.stream("S", retention="workqueue", quiet=True)
    run.fill("S.a", 2)
    run.consumer("S", "C", max_deliver=1, ack_wait=SHORT, quiet=True)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C")
    run.fetch("S", "C", 1)
    advisories.take(1)
    run.stream_info("S")
    run.ack(run.fetch("S", "C", 1)[0])
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 1)


@scenario()
def deleted_pending_messages_are_terminated(run: Run) -> None:
    three(run)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C")
    run.fetch("S", "C", 2)
    run.api("STREAM.MSG.DELETE.S", {"seq": 2})
    advisories.take(1)
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_ack_pending"] == 1)


@scenario()
def several_expired_messages_come_in_order(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 8)
    run.consumer("S", "C", ack_wait=SHORT, quiet=True)
    run.fetch("S", "C", 5)
    inbox = run.pull("S", "C", {"batch": 8, "expires": 3 * SECOND})
    inbox.take(8)


@scenario()
def updating_ack_wait_holds_for_later_deliveries(run: Run) -> None:
    three(run, ack_wait=30 * SECOND)
    run.consumer("S", "C", ack_wait=SHORT)
    run.fetch("S", "C", 1)
    run.pull("S", "C", {"batch": 3, "expires": 3 * SECOND}).take(3)
