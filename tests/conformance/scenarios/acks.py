"""Acknowledgements of every kind, and the floor they move."""

from __future__ import annotations

from typing import Any

from tests.conformance.scenario import Run, scenario

SECOND = 1_000_000_000


def five(run: Run, **config: Any) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 5)
    run.consumer("S", "C", quiet=True, **config)


@scenario()
def every_body_that_acknowledges(run: Run) -> None:
    five(run)
    for message, body in zip(run.fetch("S", "C", 4), ("", "+ACK", "+OK", "anything"), strict=True):
        run.ack(message, body)
        run.consumer_info("S", "C")


@scenario()
def floor_moves_when_gaps_close(run: Run) -> None:
    five(run)
    messages = run.fetch("S", "C", 5)
    for number in (2, 1, 5, 3, 4):
        run.ack(messages[number - 1])
        run.consumer_info("S", "C")


@scenario()
def acknowledging_twice_is_confirmed_again(run: Run) -> None:
    five(run)
    message = run.fetch("S", "C", 1)[0]
    run.ack(message)
    run.ack(message)
    run.consumer_info("S", "C")


@scenario()
def ack_all_acknowledges_everything_before(run: Run) -> None:
    five(run, ack_policy="all")
    messages = run.fetch("S", "C", 5)
    run.ack(messages[2])
    run.consumer_info("S", "C")
    run.ack(messages[0])
    run.consumer_info("S", "C")
    run.ack(messages[4])
    run.consumer_info("S", "C")


@scenario()
def ack_none_has_no_responder(run: Run) -> None:
    five(run, ack_policy="none")
    message = run.fetch("S", "C", 1)[0]
    frame = run.client.request(message.reply, b"+ACK")
    run.record("answer", status=frame.status)
    run.consumer_info("S", "C")


@scenario()
def nak_redelivers_before_new_messages(run: Run) -> None:
    five(run)
    first, second, _third = run.fetch("S", "C", 3)
    run.ack(second, "-NAK")
    run.ack(first, "-NAK")
    run.consumer_info("S", "C")
    run.fetch("S", "C", 3)
    run.consumer_info("S", "C")


@scenario()
def nak_with_a_delay(run: Run) -> None:
    five(run)
    first, second = run.fetch("S", "C", 2)
    run.ack(first, '-NAK {"delay": 250000000}')
    run.ack(second, "-NAK 250ms")
    run.consumer_info("S", "C")
    run.pull("S", "C", {"batch": 5, "expires": 3 * SECOND}).take(5)
    run.consumer_info("S", "C")


@scenario()
def nak_with_a_bad_delay_is_plain(run: Run) -> None:
    five(run)
    first, second = run.fetch("S", "C", 2)
    run.ack(first, "-NAK {bad")
    run.ack(second, "-NAK never")
    run.fetch("S", "C", 2)


@scenario()
def nak_of_an_acknowledged_message_is_ignored(run: Run) -> None:
    five(run)
    first = run.fetch("S", "C", 1)[0]
    run.ack(first)
    run.ack(first, "-NAK")
    run.fetch("S", "C", 1)
    run.consumer_info("S", "C")


@scenario()
def in_progress_extends_the_wait(run: Run) -> None:
    five(run, ack_wait=SECOND // 2)
    message = run.fetch("S", "C", 1)[0]
    for _ in range(4):
        run.client.drain_arrived(0.25)
        run.ack(message, "+WPI")
    run.consumer_info("S", "C")
    run.ack(message)
    run.consumer_info("S", "C")


@scenario()
def term_ends_redelivery(run: Run) -> None:
    five(run, ack_wait=SECOND // 4)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C")
    first, second = run.fetch("S", "C", 2)
    run.ack(first, "+TERM")
    run.ack(second, "+TERM with a reason")
    run.consumer_info("S", "C")
    advisories.take(2)
    run.ack(first, "+TERM")
    advisories.take(1)


@scenario()
def next_acknowledges_and_pulls(run: Run) -> None:
    five(run)
    first = run.fetch("S", "C", 1)[0]
    inbox = run.subscribe(run.client.new_inbox())
    run.client.publish(first.reply, b"+NXT", reply=inbox.subject)
    second = inbox.take(1)[0]
    run.client.publish(second.reply, b"+NXT 2", reply=inbox.subject)
    fourth = inbox.take(2)[1]
    run.client.publish(fourth.reply, b'+NXT {"batch": 5, "no_wait": true}', reply=inbox.subject)
    inbox.take_until_status()
    run.consumer_info("S", "C")


@scenario()
def bogus_sequences_are_ignored(run: Run) -> None:
    five(run)
    message = run.fetch("S", "C", 1)[0]
    words = message.reply.split(".")
    inbox = run.subscribe(run.client.new_inbox())
    for index, value in ((5, "99"), (5, "x"), (6, "77")):
        changed = [*words]
        changed[index] = value
        run.client.publish(".".join(changed), b"+ACK", reply=inbox.subject)
    inbox.nothing()
    run.consumer_info("S", "C")


@scenario()
def acks_in_the_longer_form_are_accepted(run: Run) -> None:
    five(run)
    first, second = run.fetch("S", "C", 2)
    rest = first.reply.removeprefix("$JS.ACK.")
    frame = run.client.request(f"$JS.ACK._.szMpdrwD.{rest}", b"+ACK")
    run.record("answer", status=frame.status, payload=frame.payload.decode())
    run.consumer_info("S", "C")
    run.ack(second)


@scenario()
def acks_without_a_reply_count_too(run: Run) -> None:
    five(run)
    for message in run.fetch("S", "C", 3):
        run.ack(message, double=False)
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_ack_pending"] == 0)


@scenario()
def acks_with_headers(run: Run) -> None:
    five(run)
    message = run.fetch("S", "C", 1)[0]
    frame = run.client.request(message.reply, b"+ACK", block=b"NATS/1.0\r\nTrace: 1\r\n\r\n")
    run.record("answer", status=frame.status, payload=frame.payload.decode())
    run.consumer_info("S", "C")


@scenario()
def an_ack_sample_counts_the_deliveries_up_to_the_one_acknowledged(run: Run) -> None:
    five(run, sample_freq="100", ack_wait=SECOND // 4)
    metrics = run.subscribe("$JS.EVENT.METRIC.CONSUMER.ACK.S.C")
    [first] = run.fetch("S", "C", 1)
    for again in run.pull("S", "C", {"batch": 5, "expires": SECOND}).take(5)[4:]:
        run.record("again", reply=again.reply.split(".")[4])
    run.ack(first)
    metrics.take(1)


@scenario()
def ack_samples_are_published(run: Run) -> None:
    five(run, sample_freq="100")
    metrics = run.subscribe("$JS.EVENT.METRIC.CONSUMER.ACK.S.C")
    first, second, third = run.fetch("S", "C", 3)
    run.ack(first)
    metrics.take(1)
    run.ack(second, "-NAK")
    run.ack(third, "+TERM")
    metrics.nothing()
    run.ack(run.fetch("S", "C", 1)[0])
    metrics.take(1)


@scenario()
def max_ack_pending_stalls_delivery(run: Run) -> None:
    five(run, max_ack_pending=2)
    inbox = run.pull("S", "C", {"batch": 5, "expires": 4 * SECOND})
    first, second = inbox.take(2)
    inbox.nothing()
    run.consumer_info("S", "C")
    run.ack(first)
    inbox.take(1)
    run.ack(second)
    inbox.take(1)
    run.consumer_info("S", "C")


@scenario()
def ack_tokens_count_down_pending(run: Run) -> None:
    five(run)
    run.fetch("S", "C", 5)
    run.publish("S.a", "6")
    run.fetch("S", "C", 1)


@scenario()
def terminating_where_an_ack_is_for_all_before(run: Run) -> None:
    five(run, ack_policy="all")
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>")
    messages = run.fetch("S", "C", 5)
    run.ack(messages[2], "+TERM why")
    run.consumer_info("S", "C")
    run.ack(messages[1], "+TERM")
    run.consumer_info("S", "C")
    advisories.take(2)


@scenario()
def an_ack_for_all_before_is_not_sampled(run: Run) -> None:
    five(run, ack_policy="all", sample_freq="100")
    metrics = run.subscribe("$JS.EVENT.METRIC.>")
    run.ack(run.fetch("S", "C", 2)[1])
    metrics.nothing()


@scenario(
    known_difference="a message that leaves its stream is no acknowledgement of those before it (`ack all`)",
    where=r"(num_ack_pending|ack_floor|num_pending)",
)
def a_deleted_message_where_an_ack_is_for_all_before(run: Run) -> None:
    five(run, ack_policy="all")
    run.fetch("S", "C", 3)
    run.api("STREAM.MSG.DELETE.S", {"seq": 3})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_ack_pending"] < 3)
