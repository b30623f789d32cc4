"""Limits, discard policies and the three retention policies."""

from __future__ import annotations

from tests.conformance.scenario import Run, scenario

SECOND = 1_000_000_000


@scenario()
def max_msgs_drops_the_oldest(run: Run) -> None:
    run.stream("S", max_msgs=3)
    run.fill("S.a", 5)
    run.stream_info("S")


@scenario()
def max_bytes_drops_the_oldest(run: Run) -> None:
    run.stream("S", max_bytes=120)
    run.fill("S.a", 6, "0123456789")
    run.stream_info("S")
    run.publish("S.a", "x" * 200)
    run.stream_info("S")


@scenario()
def max_bytes_in_memory(run: Run) -> None:
    run.stream("S", max_bytes=120, storage="memory")
    run.fill("S.a", 6, "0123456789")
    run.stream_info("S")


@scenario()
def max_msgs_per_subject_drops_within_the_subject(run: Run) -> None:
    run.stream("S", max_msgs_per_subject=2)
    run.fill("S.a", 4)
    run.fill("S.b", 1)
    run.fill("S.a", 1)
    run.stream_info("S", {"subjects_filter": ">", "deleted_details": True})


@scenario()
def discard_new_refuses_at_max_msgs(run: Run) -> None:
    run.stream("S", max_msgs=2, discard="new")
    for _ in range(3):
        run.publish("S.a", "x")
    run.api("STREAM.MSG.DELETE.S", {"seq": 1})
    run.publish("S.a", "x")
    run.stream_info("S")


@scenario()
def discard_new_refuses_at_max_bytes(run: Run) -> None:
    run.stream("S", max_bytes=100, discard="new")
    for _ in range(3):
        run.publish("S.a", "0123456789")
    run.stream_info("S")


@scenario()
def discard_new_per_subject(run: Run) -> None:
    run.stream("S", max_msgs_per_subject=1, discard="new", discard_new_per_subject=True, allow_rollup_hdrs=True)
    run.publish("S.a", "1")
    run.publish("S.a", "2")
    run.publish("S.b", "1")
    run.publish("S.a", "3", [("Nats-Rollup", "sub")])
    run.stream_info("S", {"subjects_filter": ">"})


@scenario()
def discard_new_with_subject_limit_evicts_its_own(run: Run) -> None:
    run.stream("S", max_msgs_per_subject=1, max_msgs=2, discard="new")
    run.publish("S.a", "1")
    run.publish("S.b", "1")
    run.publish("S.a", "2")
    run.publish("S.c", "1")
    run.stream_info("S", {"subjects_filter": ">"})


@scenario()
def max_msg_size_counts_headers_and_payload(run: Run) -> None:
    run.stream("S", max_msg_size=30)
    run.publish("S.a", "x" * 30)
    run.publish("S.a", "x" * 31)
    run.publish("S.a", "x" * 10, [("A", "1")])
    run.publish("S.a", "x" * 20, [("A", "1")])


@scenario()
def header_block_over_64k_is_refused(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "x", [("A", "v" * 65535)])
    run.publish("S.a", "x", [("A", "v" * 65000)])


@scenario()
def max_age_expires_messages(run: Run) -> None:
    run.stream("S", max_age=SECOND // 3)
    run.fill("S.a", 3)
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 0)
    run.publish("S.a", "after")


@scenario()
def no_ack_streams_never_answer(run: Run) -> None:
    run.stream("S", no_ack=True, max_msgs=1, discard="new")
    inbox = run.subscribe(run.client.new_inbox())
    run.client.publish("S.a", b"x", reply=inbox.subject)
    run.client.publish("S.a", b"x", reply=inbox.subject)
    inbox.nothing()
    run.stream_info("S")


@scenario()
def ordinary_subscribers_see_published_messages_too(run: Run) -> None:
    run.stream("S")
    listener = run.subscribe("S.>")
    run.publish("S.a", "x")
    listener.take(1)


@scenario()
def interest_without_consumers_keeps_nothing(run: Run) -> None:
    run.stream("S", retention="interest")
    run.publish("S.a", "x")
    run.publish("S.a", "x", [("Nats-Msg-Id", "1")])
    run.publish("S.a", "x", [("Nats-Msg-Id", "1")])
    run.stream_info("S")


@scenario()
def interest_removes_after_every_consumer_acked(run: Run) -> None:
    run.stream("S", retention="interest")
    run.consumer("S", "A", quiet=True)
    run.consumer("S", "B", filter_subject="S.b", quiet=True)
    run.publish("S.a", "1")
    run.publish("S.b", "2")
    run.publish("S.c", "3")
    run.stream_info("S")
    messages = run.fetch("S", "A", 3)
    for message in messages:
        run.ack(message)
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 1)
    run.ack(run.fetch("S", "B", 1)[0])
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 0)


@scenario()
def deleting_a_consumer_releases_interest(run: Run) -> None:
    run.stream("S", retention="interest")
    run.consumer("S", "A", quiet=True)
    run.consumer("S", "B", quiet=True)
    run.fill("S.a", 3)
    for message in run.fetch("S", "A", 2):
        run.ack(message)
    run.stream_info("S")
    run.api("CONSUMER.DELETE.S.B")
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 1)
    run.api("CONSUMER.DELETE.S.A")
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 0)


@scenario()
def workqueue_removes_on_ack_and_term(run: Run) -> None:
    run.stream("S", retention="workqueue")
    run.fill("S.a", 3)
    run.stream_info("S")
    run.consumer("S", "W")
    first, second, third = run.fetch("S", "W", 3)
    run.ack(first)
    run.ack(third, "+TERM")
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 1)
    run.ack(second, "-NAK")
    run.ack(run.fetch("S", "W", 1)[0])
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 0)


@scenario()
def workqueue_consumers_are_restricted(run: Run) -> None:
    run.stream("S", retention="workqueue")
    run.consumer("S", "none", ack_policy="none")
    run.consumer("S", "all", ack_policy="all")
    run.consumer("S", "new", deliver_policy="new")
    run.consumer("S", "push", deliver_subject="d", ack_policy="none")
    run.consumer("S", "A", filter_subject="S.a")
    run.consumer("S", "A2", filter_subject="S.a")
    run.consumer("S", "any", filter_subject="S.*")
    run.consumer("S", "whole")
    run.consumer("S", "B", filter_subjects=["S.b", "S.c"])
    run.consumer("S", "C", filter_subjects=["S.c", "S.d"])
    run.api("CONSUMER.DELETE.S.A")
    run.api("CONSUMER.DELETE.S.B")
    run.consumer("S", "W")
    run.consumer("S", "W2")


@scenario()
def limits_and_interest_may_be_exchanged(run: Run) -> None:
    run.stream("S")
    run.fill("S.a", 2)
    run.consumer("S", "A", quiet=True)
    run.update_stream("S", retention="interest")
    run.ack(run.fetch("S", "A", 1)[0])
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 1)
    run.update_stream("S", retention="limits")
    run.ack(run.fetch("S", "A", 1)[0])
    run.stream_info("S")


@scenario()
def max_consumers_is_enforced(run: Run) -> None:
    run.stream("S", max_consumers=1)
    run.consumer("S", "A")
    run.consumer("S", "B")
    run.consumer("S", "A", description="an update is no new consumer")


@scenario()
def too_large_reservations_are_refused(run: Run) -> None:
    run.stream("F", max_bytes=1 << 60)
    run.stream("M", max_bytes=1 << 60, storage="memory")


@scenario()
def several_lower_limits_at_once(run: Run) -> None:
    run.stream("S")
    run.publish("S.c", "")
    run.publish("S.a", "x" * 20)
    run.publish("S.a", "x" * 60)
    run.update_stream("S", max_bytes=140, max_msgs_per_subject=1)
    run.stream_info("S", {"subjects_filter": ">"})


@scenario()
def interest_when_a_consumer_without_acks_leaves(run: Run) -> None:
    run.stream("S", retention="interest")
    run.consumer("S", "N", ack_policy="none", quiet=True)
    run.publish("S.a", "1")
    run.consumer("S", "A", ack_policy="all", quiet=True)
    run.publish("S.b", "2")
    messages = run.pull("S", "A", {"batch": 5, "no_wait": True}).take_until_status()
    run.api("CONSUMER.DELETE.S.N")
    run.stream_info("S")
    run.ack(messages[-2])
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 0)


@scenario()
def lower_limits_of_a_stream_that_discards_new_messages(run: Run) -> None:
    for storage in ("file", "memory"):
        run.stream(storage, storage=storage, discard="new")
        for subject in "aabbb":
            run.publish(f"{storage}.{subject}", "x" * 10)
        run.update_stream(storage, storage=storage, discard="new", max_msgs=3, max_bytes=100)
        run.publish(f"{storage}.a", "no")
        run.update_stream(storage, storage=storage, discard="new", max_msgs=3, max_msgs_per_subject=2)
        run.publish(f"{storage}.a", "no")
        run.update_stream(storage, storage=storage, discard="old", max_msgs=3)
        run.publish(f"{storage}.a", "yes")
        run.stream_info(storage, {"subjects_filter": ">"})


@scenario()
def a_rollup_comes_after_the_limits(run: Run) -> None:
    for storage in ("file", "memory"):
        run.stream(storage, storage=storage, max_msgs=4, allow_rollup_hdrs=True)
        for subject in "abba":
            run.publish(f"{storage}.{subject}", "x")
        run.publish(f"{storage}.b", "all b", [("Nats-Rollup", "sub")])
        run.stream_info(storage, {"subjects_filter": ">", "deleted_details": True})
        run.update_stream(storage, storage=storage, max_bytes=150, allow_rollup_hdrs=True)
        run.publish(f"{storage}.b", "b" * 60, [("Nats-Rollup", "sub")])
        run.stream_info(storage, {"subjects_filter": ">", "deleted_details": True})
