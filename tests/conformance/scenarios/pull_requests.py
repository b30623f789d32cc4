"""Pull requests: how they wait, how they end, and every status line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance.scenario import Run, Server, scenario

SECOND = 1_000_000_000
SHORT = SECOND // 4


def five(run: Run, **config: Any) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 5)
    run.consumer("S", "C", quiet=True, **config)


def empty(run: Run, **config: Any) -> None:
    run.stream("S", quiet=True)
    run.consumer("S", "C", quiet=True, **config)


def waits_for(count: int) -> Callable[[Any], bool]:
    """Has the consumer so many requests waiting?"""
    return lambda document: document["num_waiting"] == count


@scenario()
def bodies_that_are_not_json(run: Run) -> None:
    five(run)
    for body, count in ((None, 1), (b"2", 2), (b"what", 1), (b"0", 1)):
        run.pull("S", "C", body).take(count)
    run.consumer_info("S", "C")


@scenario()
def bad_requests(run: Run) -> None:
    five(run)
    for body in (b"{", b"{}", {"batch": "x"}, {"batch": -1}, {"expires": -1}, {"no_wait": 5}, {"batch": 0}):
        run.record("body", repr(body))
        run.pull("S", "C", body).take(1)


@scenario()
def heartbeat_larger_than_half_the_expiry(run: Run) -> None:
    empty(run)
    run.pull("S", "C", {"batch": 1, "expires": SECOND, "idle_heartbeat": SECOND}).take(1)
    run.pull("S", "C", {"batch": 1, "idle_heartbeat": SECOND}).take(1)


@scenario()
def unknown_fields_are_ignored(run: Run) -> None:
    five(run)
    run.pull("S", "C", {"batch": 1, "unknown": True}).take(1)


@scenario()
def no_wait_on_an_empty_consumer(run: Run) -> None:
    empty(run)
    run.pull("S", "C", {"batch": 5, "no_wait": True}).take(1)
    run.pull("S", "C", {"no_wait": True}).take(1)


@scenario()
def no_wait_held_up_by_acks_ends_with_its_first_heartbeat(run: Run) -> None:
    run.stream("S", quiet=True)
    run.consumer("S", "C", max_ack_pending=3, quiet=True)
    run.fill("S.a", 5)
    body = {"batch": 5, "no_wait": True, "expires": 2 * SECOND, "idle_heartbeat": SECOND // 5}
    run.pull("S", "C", body).take_until_status()


@scenario()
def no_wait_drains_and_ends(run: Run) -> None:
    five(run)
    run.pull("S", "C", {"batch": 3, "no_wait": True}).take(3)
    run.pull("S", "C", {"batch": 3, "no_wait": True}).take(3)
    run.pull("S", "C", {"batch": 3, "no_wait": True}).take(1)


@scenario()
def no_wait_with_expiry_waits_for_the_first(run: Run) -> None:
    empty(run)
    run.pull("S", "C", {"batch": 5, "no_wait": True, "expires": SHORT}).take(1)
    inbox = run.pull("S", "C", {"batch": 5, "no_wait": True, "expires": 5 * SECOND})
    inbox.nothing(0.1)
    run.publish("S.a", "1")
    inbox.take_until_status()


@scenario()
def no_wait_while_others_wait(run: Run) -> None:
    empty(run)
    run.pull("S", "C", {"batch": 5, "expires": 5 * SECOND})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 1)
    run.pull("S", "C", {"batch": 1, "no_wait": True}).take(1)


@scenario()
def expiry_reports_what_is_left(run: Run) -> None:
    five(run)
    run.pull("S", "C", {"batch": 8, "expires": SHORT}).take(6)
    run.pull("S", "C", {"batch": 8, "expires": SHORT, "max_bytes": 1000}).take(1)
    run.pull("S", "C", {"expires": SHORT}).take(1)
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 0)


@scenario()
def heartbeats_while_waiting(run: Run) -> None:
    five(run)
    run.fetch("S", "C", 2)
    run.fetch("S", "C", 3)
    run.pull("S", "C", {"batch": 1, "expires": SECOND, "idle_heartbeat": SECOND // 5}).take(2)


@scenario()
def heartbeats_with_a_filter_run_ahead(run: Run) -> None:
    run.stream("S", quiet=True)
    for subject in ("S.a", "S.b", "S.b", "S.b"):
        run.fill(subject, 1)
    run.consumer("S", "C", filter_subject="S.a", quiet=True)
    run.fetch("S", "C", 1)
    run.pull("S", "C", {"batch": 1, "expires": SECOND, "idle_heartbeat": SECOND // 5}).take(1)


@scenario()
def waiting_pull_gets_new_messages(run: Run) -> None:
    empty(run)
    inbox = run.pull("S", "C", {"batch": 2, "expires": 5 * SECOND})
    run.publish("S.a", "1")
    inbox.take(1)
    run.publish("S.a", "2")
    inbox.take(1)
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 0)


@scenario()
def requests_take_turns(run: Run) -> None:
    empty(run)
    first = run.pull("S", "C", {"batch": 3, "expires": 5 * SECOND})
    second = run.pull("S", "C", {"batch": 2, "expires": 5 * SECOND})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 2)
    for inbox in (first, second, first, second, first):
        run.fill("S.a", 1)
        inbox.take(1)


@scenario()
def one_inbox_for_several_requests(run: Run) -> None:
    five(run)
    inbox = run.pull("S", "C", {"batch": 2, "expires": 5 * SECOND})
    run.pull("S", "C", {"batch": 2, "expires": 5 * SECOND}, inbox=inbox)
    inbox.take(4)


@scenario()
def queue_subscribed_inbox(run: Run) -> None:
    five(run)
    inbox = run.subscribe("in.box", queue="q")
    run.pull("S", "C", {"batch": 2, "expires": 5 * SECOND}, inbox=inbox)
    inbox.take(2)


@scenario()
def max_bytes_ends_a_request(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 5, "0123456789")
    run.consumer("S", "C", ack_policy="none", quiet=True)
    run.pull("S", "C", {"batch": 5, "max_bytes": 200, "expires": 2 * SECOND}).take_until_status()
    run.pull("S", "C", {"batch": 5, "max_bytes": 5, "expires": 2 * SECOND}).take_until_status()
    run.pull("S", "C", {"batch": 1, "max_bytes": 500, "expires": 2 * SECOND}).take_until_status()
    run.consumer_info("S", "C")


@scenario()
def request_limits_of_the_consumer(run: Run) -> None:
    five(run, max_batch=2, max_expires=SECOND, max_bytes=50)
    run.pull("S", "C", {"batch": 3, "expires": SECOND}).take(1)
    run.pull("S", "C", {"batch": 1, "expires": 2 * SECOND}).take(1)
    run.pull("S", "C", {"batch": 1, "expires": SECOND, "max_bytes": 51}).take(1)
    run.pull("S", "C", {"batch": 1}).take(1)
    run.pull("S", "C", b"3").take(1)


@scenario()
def request_limit_durations_are_written_as_go_does(run: Run) -> None:
    run.stream("S", quiet=True)
    for number, limit in enumerate((SECOND // 2, 60 * SECOND, 90 * SECOND, 3600 * SECOND, 1_500_000, 2_345_678_901)):
        run.consumer("S", f"c{number}", max_expires=limit, quiet=True)
        run.pull("S", f"c{number}", {"batch": 1, "expires": 7200 * SECOND}).take(1)


@scenario()
def too_many_waiting_requests(run: Run) -> None:
    empty(run, max_waiting=2)
    for _ in range(2):
        run.pull("S", "C", {"batch": 1, "expires": 5 * SECOND})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 2)
    run.pull("S", "C", {"batch": 1, "expires": 5 * SECOND}).take(1)
    heartbeat = {"batch": 1, "expires": 5 * SECOND, "idle_heartbeat": SECOND}
    run.pull("S", "C", heartbeat).nothing()


@scenario()
def requests_whose_inbox_is_gone_are_dropped(run: Run) -> None:
    empty(run)
    inbox = run.pull("S", "C", {"batch": 5, "expires": 5 * SECOND})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 1)
    inbox.close()
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 0)
    run.publish("S.a", "kept for the next request")
    run.fetch("S", "C", 1)


@scenario()
def requests_of_closed_connections_are_dropped(run: Run) -> None:
    empty(run)
    other = run.connect()
    inbox = run.subscribe("other.inbox", client=other)
    other.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":5,"expires":5000000000}', reply=inbox.subject)
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 1)
    other.close()
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 0)


@scenario()
def request_without_a_reply_is_ignored(run: Run) -> None:
    five(run)
    run.client.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":2}')
    run.fetch("S", "C", 1)
    run.consumer_info("S", "C")


@scenario()
def pull_from_a_push_consumer(run: Run) -> None:
    run.stream("S", quiet=True)
    run.consumer("S", "P", deliver_subject="d", quiet=True)
    run.pull("S", "P", {"batch": 1, "no_wait": True}).take(1)


@scenario()
def pull_from_a_missing_consumer(run: Run) -> None:
    run.stream("S", quiet=True)
    for consumer in ("S", "NOPE"):
        inbox = run.pull(consumer, "missing", {"batch": 1, "expires": SECOND})
        frame = run.client.next_message(inbox.sid)
        run.record("answer", status=frame.status, headers=[list(pair) for pair in frame.headers])


@scenario()
def deleting_the_consumer_ends_requests(run: Run) -> None:
    empty(run)
    inbox = run.pull("S", "C", {"batch": 5, "expires": 5 * SECOND})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 1)
    run.api("CONSUMER.DELETE.S.C")
    inbox.take(1)


@scenario()
def deleting_the_stream_ends_requests(run: Run) -> None:
    empty(run)
    inbox = run.pull("S", "C", {"batch": 5, "expires": 5 * SECOND})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 1)
    run.api("STREAM.DELETE.S")
    inbox.take(1)


@scenario(Server(own=True))
def stopping_the_server_ends_requests(run: Run) -> None:
    empty(run)
    inbox = run.pull("S", "C", {"batch": 5, "expires": 5 * SECOND})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_waiting"] == 1)
    run.server.stop()
    inbox.take(1)
    while True:
        frame = run.client.next_control()
        if frame.op == "EOF":
            break
    run.record("closed")


@scenario()
def stalled_no_wait_request(run: Run) -> None:
    five(run, max_ack_pending=1)
    first = run.fetch("S", "C", 1)[0]
    inbox = run.pull("S", "C", {"batch": 1, "expires": SHORT})
    inbox.take(1)
    run.ack(first)
    run.fetch("S", "C", 1)


@scenario()
def required_api_level_on_pull(run: Run) -> None:
    five(run)
    inbox = run.subscribe(run.client.new_inbox())
    block = b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n"
    run.client.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b"1", reply=inbox.subject, block=block)
    inbox.take(1)


@scenario()
def num_waiting_counts_requests(run: Run) -> None:
    empty(run)
    for count in (1, 2, 3):
        run.pull("S", "C", {"batch": 2, "expires": 5 * SECOND})
        run.until("CONSUMER.INFO.S.C", waits_for(count))


@scenario()
def replay_original_keeps_the_gaps(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 1)
    run.client.drain_arrived(0.4)
    run.fill("S.a", 1)
    run.consumer("S", "C", replay_policy="original", quiet=True)
    inbox = run.pull("S", "C", {"batch": 2, "expires": 5 * SECOND})
    inbox.take(1)
    inbox.nothing(0.2)
    inbox.take(1)


@scenario()
def exact_status_frames(run: Run) -> None:
    empty(run)
    inbox = run.subscribe("ibx")
    run.pull("S", "C", {"batch": 5, "expires": SHORT}, inbox=inbox)
    run.pull("S", "C", {"batch": 5, "no_wait": True}, inbox=run.subscribe("ibx2"))
    frame = run.client.next_message(inbox.sid)
    run.record("frame", line=frame.line.decode(), block=frame.header_block.decode(), payload=frame.payload.decode())


@scenario()
def max_bytes_counts_what_headers_only_leaves_out(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 4, "x" * 100)
    run.consumer("S", "C", ack_policy="none", headers_only=True, quiet=True)
    for budget in (60, 150, 160, 170, 400):
        run.pull("S", "C", {"batch": 2, "no_wait": True, "max_bytes": budget}).take_until_status(2)
