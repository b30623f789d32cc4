"""Publishing: acknowledgements, message ids, expectations and the order in which they are checked."""

from __future__ import annotations

from tests.conformance.scenario import Run, Server, scenario
from tests.conformance.wire import Headers

SECOND = 1_000_000_000


def id_header(value: str) -> Headers:
    return [("Nats-Msg-Id", value)]


@scenario()
def acknowledgement_text(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "x")
    run.publish("S.a", "")
    run.publish("S.b", "x", [("A", "b")])


@scenario()
def duplicates_are_acknowledged_with_the_first_sequence(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "1", id_header("one"))
    run.publish("S.a", "2")
    run.publish("S.b", "3", id_header("one"))
    run.publish("S.b", "3", id_header("ONE"))
    run.publish("S.b", "3", [("nats-msg-id", "one")])
    run.publish("S.b", "3", id_header(""))
    run.stream_info("S")


@scenario()
def ids_are_forgotten_after_the_window(run: Run) -> None:
    run.stream("S", duplicate_window=SECOND // 5)
    run.publish("S.a", "1", id_header("one"))
    run.publish("S.a", "1", id_header("one"))
    for _ in range(100):
        run.client.drain_arrived(0.05)
        ack = run.client.request("S.a", b"1", block=b"NATS/1.0\r\nNats-Msg-Id: one\r\n\r\n").json()
        if ack["seq"] != 1:
            break
    run.record("ack", document=ack)


@scenario()
def purge_and_delete_do_not_forget_ids(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "1", id_header("one"))
    run.publish("S.a", "2", id_header("two"))
    run.api("STREAM.MSG.DELETE.S", {"seq": 1})
    run.publish("S.a", "1", id_header("one"))
    run.api("STREAM.PURGE.S")
    run.publish("S.a", "2", id_header("two"))
    run.stream_info("S")


@scenario()
def expected_stream(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "x", [("Nats-Expected-Stream", "T")])
    run.publish("S.a", "x", [("Nats-Expected-Stream", "S")])


@scenario()
def expected_last_sequence(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "x", [("Nats-Expected-Last-Sequence", "1")])
    run.publish("S.a", "x", [("Nats-Expected-Last-Sequence", "0")])
    run.publish("S.a", "x", [("Nats-Expected-Last-Sequence", "0")])
    run.publish("S.a", "x", [("Nats-Expected-Last-Sequence", "abc")])
    run.publish("S.a", "x", [("Nats-Expected-Last-Sequence", "1")])
    run.publish("S.a", "x", [("Nats-Expected-Last-Sequence", "-1")])


@scenario()
def expected_last_subject_sequence(run: Run) -> None:
    run.stream("S")
    run.fill("S.a", 1)
    run.fill("S.b", 2)
    name = "Nats-Expected-Last-Subject-Sequence"
    run.publish("S.c", "x", [(name, "1")])
    run.publish("S.c", "x", [(name, "0")])
    run.publish("S.a", "x", [(name, "3")])
    run.publish("S.a", "x", [(name, "1")])
    run.publish("S.a", "x", [(name, "0")])


@scenario()
def expected_last_subject_sequence_for_another_subject(run: Run) -> None:
    run.stream("S")
    run.fill("S.a.x", 1)
    run.fill("S.a.y", 1)
    sequence, subject = "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject"
    run.publish("S.b", "x", [(sequence, "1"), (subject, "S.a.x")])
    run.publish("S.b", "x", [(sequence, "1"), (subject, "S.a.*")])
    run.publish("S.b", "x", [(sequence, "2"), (subject, "S.a.*")])
    run.publish("S.b", "x", [(subject, "S.a.x")])
    run.publish("S.b", "x", [(sequence, "0"), (subject, "S.none")])


@scenario()
def expected_last_message_id(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "x", [("Nats-Expected-Last-Msg-Id", "x")])
    run.publish("S.a", "x", id_header("one"))
    run.publish("S.a", "x", [("Nats-Expected-Last-Msg-Id", "two")])
    run.publish("S.a", "x", [("Nats-Expected-Last-Msg-Id", "one")])
    run.publish("S.a", "x", [("Nats-Expected-Last-Msg-Id", "one")])


@scenario()
def expectations_come_before_duplicates(run: Run) -> None:
    run.stream("S", max_msgs=5)
    run.publish("S.a", "x", id_header("one"))
    run.publish("S.a", "x", [*id_header("one"), ("Nats-Expected-Last-Sequence", "9")])
    run.publish("S.a", "x", [*id_header("one"), ("Nats-Expected-Last-Msg-Id", "nope")])
    run.publish("S.a", "x", [*id_header("one"), ("Nats-Expected-Stream", "nope")])
    run.publish("S.a", "x", [*id_header("one"), ("Nats-Rollup", "sub")])
    run.publish("S.a", "x", [*id_header("one"), ("Nats-TTL", "1s")])
    run.publish("S.a", "x", [("Nats-Expected-Stream", "nope"), ("Nats-Expected-Last-Sequence", "9")])
    run.publish("S.a", "x", [("Nats-TTL", "1s"), ("Nats-Expected-Last-Sequence", "9")])
    run.publish("S.a", "x", [("Nats-Rollup", "sub"), ("Nats-Expected-Last-Sequence", "9")])


@scenario()
def duplicate_of_a_full_discard_new_stream(run: Run) -> None:
    run.stream("S", max_msgs=1, discard="new")
    run.publish("S.a", "x", id_header("one"))
    run.publish("S.a", "x", id_header("two"))
    run.publish("S.a", "x", id_header("one"))
    run.api("STREAM.PURGE.S")
    run.publish("S.a", "x", id_header("two"))


@scenario()
def headers_are_stored_verbatim(run: Run) -> None:
    run.stream("S", allow_direct=True)
    pairs = [("A", "1"), ("a", "2"), ("A", "3"), ("Nats-Msg-Id", "i"), ("Nats-Expected-Stream", "S"), ("E", "")]
    run.publish("S.a", "x", pairs)
    run.api("STREAM.MSG.GET.S", {"seq": 1})
    run.consumer("S", "C", quiet=True)
    run.fetch("S", "C", 1)


@scenario()
def a_published_status_line_is_removed(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "x", [("A", "1")], status="503 Foo")
    run.publish("S.a", "x", status="503 Foo")
    run.api("STREAM.MSG.GET.S", {"seq": 1})
    run.api("STREAM.MSG.GET.S", {"seq": 2})


@scenario()
def the_source_header_is_reserved(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "x", [("Nats-Stream-Source", "T 1 > > a")])


@scenario()
def disabled_features_are_refused(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "x", [("Nats-Rollup", "sub")])
    run.publish("S.a", "x", [("Nats-TTL", "5s")])
    run.publish("S.a", "", [("Nats-Incr", "1")])
    run.publish("S.a", "x", [("Nats-Batch-Id", "b"), ("Nats-Batch-Sequence", "1")])
    run.publish("S.a", "x", [("Nats-Schedule", "@every 1s"), ("Nats-Schedule-Target", "S.b")])


@scenario()
def publish_without_a_reply_is_stored(run: Run) -> None:
    run.stream("S")
    run.client.publish("S.a", b"quiet")
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 1)


@scenario()
def many_in_flight_keep_their_order(run: Run) -> None:
    run.stream("S")
    inbox = run.subscribe(run.client.new_inbox())
    run.client.send(b"".join(b"PUB S.a %s 3\r\n%03d\r\n" % (inbox.subject.encode(), n) for n in range(100)))
    inbox.take(100)
    run.api("STREAM.MSG.GET.S", {"seq": 57})


@scenario()
def subject_without_a_stream_has_no_responders(run: Run) -> None:
    frame = run.client.request("nobody.home", b"x")
    run.record("message", "503", status=frame.status, headers=[list(pair) for pair in frame.headers])


@scenario(Server(config="jetstream { domain: hub }\n", own=True))
def a_domain_is_named_in_acknowledgements(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "x")
    run.stream_info("S")
    frame = run.client.request("$JS.hub.API.STREAM.INFO.S")
    run.record("domain api", document=frame.json())
    run.api("INFO")
    run.consumer("S", "C")
    run.fetch("S", "C", 1)
    run.api("STREAM.LIST")


@scenario(Server(config="jetstream { domain: hub }\n", own=True))
def buckets_are_written_through_the_domain(run: Run) -> None:
    run.stream("KV_b", subjects=["$KV.b.>"])
    run.stream("OBJ_b", subjects=["$OBJ.b.>"])
    run.publish("$JS.hub.API.$KV.b.k", "1")
    run.publish("$JS.hub.API.$KV.b.k", "2", [("A", "b")])
    run.publish("$JS.hub.API.$OBJ.b.k", "3")
    run.publish("$JS.hub.API.$KV.c.k", "4")
    run.api("STREAM.MSG.GET.KV_b", {"seq": 2})
    run.api("STREAM.MSG.GET.OBJ_b", {"seq": 1})


@scenario()
def large_messages_are_stored_whole(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "x" * 1_000_000)
    run.consumer("S", "C", quiet=True)
    message = run.fetch("S", "C", 1)[0]
    run.record("size", size=len(message.payload), same=message.payload == b"x" * 1_000_000)


@scenario()
def size_is_checked_before_everything_else(run: Run) -> None:
    run.stream("S", max_msg_size=60)
    run.publish("S.a", "x", id_header("one"))
    large = "x" * 80
    run.publish("S.a", large, id_header("one"))
    run.publish("S.a", large, [("Nats-Expected-Last-Sequence", "9")])
    run.publish("S.a", large, [("Nats-Expected-Stream", "nope")])
    run.publish("S.a", large, [("Nats-Expected-Last-Msg-Id", "nope")])
    run.publish("S.a", large, [("Nats-Rollup", "sub")])
    run.publish("S.a", large, [("Nats-TTL", "1s")])
    run.publish("S.a", large, [("Nats-Incr", "1")])
    run.publish("S.a", large, [("Nats-Batch-Id", "b"), ("Nats-Batch-Sequence", "1")])
    run.publish("S.a", large, [("Nats-Stream-Source", "T 1 > > a")])
    run.update_stream("S", max_msg_size=60, sealed=True)
    run.publish("S.a", large)


@scenario()
def header_size_is_checked_in_its_place(run: Run) -> None:
    run.stream("S", max_msg_size=1000)
    run.stream("T")
    huge = ("A", "v" * 65535)
    run.publish("S.a", "x", [huge])
    run.publish("T.a", "x", [huge, ("Nats-Expected-Last-Sequence", "9")])
    run.publish("T.a", "x", [huge, ("Nats-Rollup", "sub")])
