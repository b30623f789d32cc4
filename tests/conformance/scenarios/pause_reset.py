"""Pausing, resuming and resetting consumers."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.conformance.scenario import Run, scenario

SECOND = 1_000_000_000
RESUMED = "a resumed consumer serves what waits at once; nats-server waits for the next message"


def five(run: Run, **config: Any) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 5)
    run.consumer("S", "C", quiet=True, **config)


def soon(seconds: float) -> str:
    moment = datetime.fromtimestamp(time.time(), UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@scenario(known_difference=RESUMED, where=r"message \.reply: reference .*\$JS\.ACK")
def a_paused_consumer_delivers_nothing(run: Run) -> None:
    five(run)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.PAUSE.S.C")
    run.api("CONSUMER.PAUSE.S.C", {"pause_until": "2099-01-01T00:00:00Z"})
    advisories.take(1)
    run.consumer_info("S", "C")
    inbox = run.pull("S", "C", {"batch": 1, "expires": 5 * SECOND})
    inbox.nothing()
    run.api("CONSUMER.PAUSE.S.C", {})
    advisories.take(1)
    run.publish("S.a", "nats-server looks again only now")
    inbox.take(1)
    run.consumer_info("S", "C")


@scenario()
def heartbeats_flow_while_paused(run: Run) -> None:
    five(run, pause_until="2099-01-01T00:00:00Z")
    run.consumer_info("S", "C")
    run.pull("S", "C", {"batch": 1, "expires": SECOND, "idle_heartbeat": SECOND // 5}).take(1)


@scenario()
def requests_that_do_not_wait_for_a_paused_consumer(run: Run) -> None:
    five(run, pause_until="2099-01-01T00:00:00Z")
    run.pull("S", "C", {"batch": 2, "no_wait": True}).take_until_status()
    run.pull("S", "C", {"batch": 2, "no_wait": True, "expires": SECOND // 5}).take_until_status()
    waiting = run.pull("S", "C", {"batch": 1, "expires": SECOND})
    run.pull("S", "C", {"batch": 2, "no_wait": True}).take_until_status()
    waiting.take_until_status()
    run.consumer_info("S", "C")


@scenario()
def a_pause_ends_by_itself(run: Run) -> None:
    five(run)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.PAUSE.S.C")
    run.api("CONSUMER.PAUSE.S.C", {"pause_until": soon(0.5)})
    inbox = run.pull("S", "C", {"batch": 1, "expires": 5 * SECOND})
    inbox.take(1)
    advisories.take(2)


@scenario(known_difference=RESUMED, where=r"message \.reply: reference .*\$JS\.ACK")
def a_paused_push_consumer(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 1)
    listener = run.subscribe("d")
    run.consumer("S", "P", deliver_subject="d", ack_policy="none", pause_until="2099-01-01T00:00:00Z")
    listener.nothing()
    run.api("CONSUMER.PAUSE.S.P")
    run.publish("S.a", "nats-server looks again only now")
    listener.take(2)


@scenario()
def pause_requests_are_checked(run: Run) -> None:
    five(run)
    run.api("CONSUMER.PAUSE.S.missing", {"pause_until": "2099-01-01T00:00:00Z"})
    run.api("CONSUMER.PAUSE.NOPE.C", {"pause_until": "2099-01-01T00:00:00Z"})
    run.api("CONSUMER.PAUSE.S.C", {"pause_until": "soon"})
    run.api("CONSUMER.PAUSE.S.C", {"zzz": 1})
    run.api("CONSUMER.PAUSE.S.C", b"{")
    run.api("CONSUMER.PAUSE.S.C", {"pause_until": "2001-01-01T00:00:00Z"})
    run.api("CONSUMER.PAUSE.S.C")


@scenario()
def updates_keep_the_pause(run: Run) -> None:
    five(run, pause_until="2099-01-01T00:00:00Z")
    run.consumer("S", "C", description="updated")
    run.consumer("S", "C", pause_until="2098-01-01T00:00:00Z")


@scenario()
def reset_starts_again_at_the_floor(run: Run) -> None:
    five(run)
    first, _second, _third = run.fetch("S", "C", 3)
    run.ack(first)
    run.api("CONSUMER.RESET.S.C")
    run.consumer_info("S", "C")
    run.fetch("S", "C", 2)


@scenario()
def reset_to_a_sequence(run: Run) -> None:
    five(run)
    for message in run.fetch("S", "C", 5):
        run.ack(message)
    run.api("CONSUMER.RESET.S.C", {"seq": 2})
    run.consumer_info("S", "C")
    run.fetch("S", "C", 1)
    run.api("CONSUMER.RESET.S.C", {"seq": 9})
    run.consumer_info("S", "C")


@scenario()
def reset_refusals(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 5)
    run.consumer("S", "L", deliver_policy="last", quiet=True)
    run.consumer("S", "Q", deliver_policy="by_start_sequence", opt_start_seq=3, quiet=True)
    run.consumer("S", "T", deliver_policy="by_start_time", opt_start_time="2099-01-01T00:00:00Z", quiet=True)
    run.api("CONSUMER.RESET.S.L", {"seq": 1})
    run.api("CONSUMER.RESET.S.Q", {"seq": 2})
    run.api("CONSUMER.RESET.S.Q", {"seq": 4})
    run.api("CONSUMER.RESET.S.T", {"seq": 1})
    run.api("CONSUMER.RESET.S.L", b"{")
    run.api_silence("CONSUMER.RESET.S.missing")


@scenario()
def acks_from_before_a_reset(run: Run) -> None:
    five(run)
    messages = run.fetch("S", "C", 4)
    run.api("CONSUMER.RESET.S.C")
    for message, body in zip(messages, (b"-NAK", b"+ACK", b"+TERM", b"+WPI"), strict=True):
        inbox = run.subscribe(run.client.new_inbox())
        run.client.publish(message.reply, body, reply=inbox.subject)
        inbox.nothing()
    run.consumer_info("S", "C")
    run.fetch("S", "C", 2)
    run.consumer_info("S", "C")


@scenario()
def a_reset_forward_lets_go_of_what_nobody_will_read(run: Run) -> None:
    for retention in ("interest", "workqueue"):
        run.stream(retention, retention=retention, quiet=True)
        run.consumer(retention, "C", quiet=True)
        run.fill(f"{retention}.a", 5)
        run.api(f"CONSUMER.RESET.{retention}.C", {"seq": 4})
        run.until(f"STREAM.INFO.{retention}", lambda document: document["state"]["messages"] in (2, 5))
        run.fetch(retention, "C", 2)


@scenario()
def a_reset_after_everything_was_acknowledged(run: Run) -> None:
    run.stream("S", quiet=True)
    run.consumer("S", "C", filter_subject="S.a", quiet=True)
    for subject in ("S.a", "S.b", "S.b"):
        run.publish(subject, "x")
    message = run.pull("S", "C", {"batch": 2, "no_wait": True}).take_until_status()[0]
    run.ack(message)
    run.consumer_info("S", "C")
    run.api("CONSUMER.RESET.S.C")
    run.publish("S.b", "x")
    run.pull("S", "C", {"batch": 2, "no_wait": True}).take_until_status()
    run.api("CONSUMER.RESET.S.C")


@scenario()
def an_ack_from_before_a_reset_frees_its_message(run: Run) -> None:
    for retention in ("interest", "workqueue"):
        for policy in ("explicit", "all"):
            if retention == "workqueue" and policy == "all":
                continue
            name = f"{retention}-{policy}"
            run.stream(name, retention=retention, quiet=True)
            run.consumer(name, "C", ack_policy=policy, quiet=True)
            run.fill(f"{name}.a", 3)
            first, second = run.fetch(name, "C", 2)
            run.api(f"CONSUMER.RESET.{name}.C", {"seq": 3})
            run.ack(second)
            run.ack(first)
            run.until(f"STREAM.INFO.{name}", lambda document: document["state"]["messages"] == 1)
