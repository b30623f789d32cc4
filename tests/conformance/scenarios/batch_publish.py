"""Atomic batches: all messages of a batch are stored together or not at all."""

from __future__ import annotations

from tests.conformance.scenario import Run, scenario
from tests.conformance.wire import Headers


def part(identity: str, sequence: int | str, *more: tuple[str, str], commit: str = "") -> Headers:
    headers = [("Nats-Batch-Id", identity), ("Nats-Batch-Sequence", str(sequence)), *more]
    return [*headers, ("Nats-Batch-Commit", commit)] if commit else headers


@scenario()
def a_batch_is_stored_at_commit(run: Run) -> None:
    run.stream("S", allow_atomic=True)
    run.publish("S.a", "1", part("u1", 1))
    run.publish("S.b", "2", part("u1", 2))
    run.stream_info("S")
    run.publish("S.c", "3", part("u1", 3, commit="1"))
    run.stream_info("S")
    for seq in (1, 2, 3):
        run.api("STREAM.MSG.GET.S", {"seq": seq})


@scenario()
def a_batch_of_one(run: Run) -> None:
    run.stream("S", allow_atomic=True)
    run.publish("S.a", "1", part("u1", 1, commit="1"))
    run.stream_info("S")


@scenario()
def commit_without_its_message(run: Run) -> None:
    run.stream("S", allow_atomic=True)
    run.publish("S.a", "1", part("u1", 1))
    run.publish("S.a", "2", part("u1", 2))
    run.publish("S.a", "not stored", part("u1", 3, commit="eob"))
    run.stream_info("S")


@scenario()
def gaps_and_bad_headers_are_refused(run: Run) -> None:
    run.stream("S", allow_atomic=True)
    run.publish("S.a", "1", [("Nats-Batch-Id", "u1")])
    run.publish("S.a", "1", part("u1", 2))
    run.publish("S.a", "1", part("u2", "x"))
    run.publish("S.a", "1", part("i" * 65, 1))
    run.publish("S.a", "1", part("", 1))
    run.publish("S.a", "1", part("u3", 1))
    run.publish("S.a", "1", part("u3", 3))
    run.publish("S.a", "1", part("u3", 2))
    run.publish("S.a", "1", part("u4", 1, commit="yes"))
    run.publish("S.a", "1", part("u5", 1, ("Nats-Expected-Last-Msg-Id", "x")))
    run.stream_info("S")


@scenario()
def expectations_fail_the_whole_batch(run: Run) -> None:
    run.stream("S", allow_atomic=True)
    run.fill("S.a", 2)
    run.publish("S.b", "1", part("u1", 1, ("Nats-Expected-Last-Sequence", "9")))
    run.publish("S.b", "2", part("u1", 2, commit="1"))
    run.publish("S.b", "1", part("u2", 1, ("Nats-Expected-Last-Subject-Sequence", "9")))
    run.publish("S.b", "2", part("u2", 2, commit="1"))
    run.publish("S.b", "1", part("u3", 1, ("Nats-Expected-Last-Sequence", "2")))
    run.publish("S.b", "2", part("u3", 2, commit="1"))
    run.stream_info("S")


@scenario()
def duplicates_inside_a_batch(run: Run) -> None:
    run.stream("S", allow_atomic=True)
    run.publish("S.a", "0", [("Nats-Msg-Id", "known")])
    run.publish("S.a", "1", part("u1", 1, ("Nats-Msg-Id", "a")))
    run.publish("S.a", "2", part("u1", 2, ("Nats-Msg-Id", "a"), commit="1"))
    run.publish("S.a", "1", part("u2", 1, ("Nats-Msg-Id", "known")))
    run.publish("S.a", "2", part("u2", 2, commit="1"))
    run.stream_info("S")


@scenario()
def two_batches_interleave(run: Run) -> None:
    run.stream("S", allow_atomic=True)
    run.publish("S.a", "a1", part("a", 1))
    run.publish("S.b", "b1", part("b", 1))
    run.publish("S.x", "plain")
    run.publish("S.b", "b2", part("b", 2, commit="1"))
    run.publish("S.a", "a2", part("a", 2, commit="1"))
    run.api("STREAM.MSG.GET.S", {"seq": 2})
    run.api("STREAM.MSG.GET.S", {"seq": 5})


@scenario()
def limits_inside_a_batch(run: Run) -> None:
    run.stream("S", allow_atomic=True, max_msgs=2, discard="new", max_msg_size=100)
    run.publish("S.a", "1", part("u1", 1))
    run.publish("S.a", "2", part("u1", 2))
    run.publish("S.a", "3", part("u1", 3, commit="1"))
    run.stream_info("S")
    run.publish("S.a", "x" * 200, part("u2", 1))
    run.publish("S.a", "y", part("u2", 2, commit="1"))
    run.stream_info("S")


@scenario()
def abandoned_batches_are_advised(run: Run) -> None:
    run.stream("S", allow_atomic=True)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S")
    run.publish("S.a", "1", part("u1", 1))
    run.publish("S.a", "3", part("u1", 3))
    advisories.take(1)


@scenario()
def a_batch_larger_than_allowed(run: Run) -> None:
    run.stream("S", allow_atomic=True, storage="memory")
    inbox = run.subscribe(run.client.new_inbox())
    for number in range(1, 1001):
        block = f"NATS/1.0\r\nNats-Batch-Id: big\r\nNats-Batch-Sequence: {number}\r\n\r\n".encode()
        run.client.publish("S.a", b"x", reply=inbox.subject if number == 1000 else "", block=block)
    inbox.take(1)
    run.publish("S.a", "last", part("big", 1001, commit="1"))
    run.stream_info("S")
