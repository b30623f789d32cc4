"""Single messages in a stream: get, delete, purge."""

from __future__ import annotations

from typing import Any

from tests.conformance.scenario import Run, scenario


def three_subjects(run: Run, **config: Any) -> None:
    run.stream("S", **config)
    for subject in ("S.a", "S.b", "S.a", "S.c", "S.b", "S.a"):
        run.fill(subject, 1)


@scenario()
def get_by_sequence_and_subject(run: Run) -> None:
    three_subjects(run)
    run.api("STREAM.MSG.GET.S", {"seq": 2})
    run.api("STREAM.MSG.GET.S", {"last_by_subj": "S.a"})
    run.api("STREAM.MSG.GET.S", {"last_by_subj": "S.*"})
    run.api("STREAM.MSG.GET.S", {"next_by_subj": "S.b"})
    run.api("STREAM.MSG.GET.S", {"next_by_subj": "S.b", "seq": 3})
    run.api("STREAM.MSG.GET.S", {"next_by_subj": "S.*", "seq": 4})
    run.api("STREAM.MSG.GET.S", {"start_time": "2020-01-01T00:00:00Z"})


@scenario()
def get_refuses_and_misses(run: Run) -> None:
    run.api("STREAM.MSG.GET.S", {"seq": 1})
    three_subjects(run)
    run.api("STREAM.MSG.GET.S")
    run.api("STREAM.MSG.GET.S", {})
    run.api("STREAM.MSG.GET.S", {"seq": 0})
    run.api("STREAM.MSG.GET.S", {"seq": 99})
    run.api("STREAM.MSG.GET.S", {"seq": 1, "last_by_subj": "S.a"})
    run.api("STREAM.MSG.GET.S", {"last_by_subj": "S.zzz"})
    run.api("STREAM.MSG.GET.S", {"next_by_subj": "S.c", "seq": 5})
    run.api("STREAM.MSG.GET.S", {"last_by_subj": "S.a", "next_by_subj": "S.a"})
    run.api("STREAM.MSG.GET.S", {"seq": 1, "batch": 2})
    run.api("STREAM.MSG.GET.S", {"seq": 1, "zzz": 2})
    run.api("STREAM.MSG.GET.S", b"{")
    run.api("STREAM.MSG.GET.S", {"start_time": "2099-01-01T00:00:00Z"})


@scenario()
def get_encodes_payload_and_headers(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "")
    run.publish("S.a", "payload", [("A", "1")])
    run.publish("S.a", "", [("A", "1")])
    for seq in (1, 2, 3):
        run.api("STREAM.MSG.GET.S", {"seq": seq})
    run.api("STREAM.MSG.GET.S", {"seq": 2, "no_hdr": True})


@scenario()
def delete_removes_one_message(run: Run) -> None:
    three_subjects(run)
    run.api("STREAM.MSG.DELETE.S", {"seq": 3})
    run.api("STREAM.MSG.DELETE.S", {"seq": 3})
    run.api("STREAM.MSG.DELETE.S", {"seq": 99})
    run.api("STREAM.MSG.DELETE.S", {"seq": 0})
    run.api("STREAM.MSG.DELETE.S", {"seq": 2, "no_erase": True})
    run.api("STREAM.MSG.DELETE.S")
    run.api("STREAM.MSG.DELETE.S", {})
    run.api("STREAM.MSG.DELETE.S", {"sequence": 1})
    run.api("STREAM.MSG.DELETE.NOPE", {"seq": 1})
    run.api("STREAM.MSG.GET.S", {"seq": 3})
    run.stream_info("S", {"deleted_details": True, "subjects_filter": ">"})


@scenario()
def delete_in_memory(run: Run) -> None:
    three_subjects(run, storage="memory")
    run.api("STREAM.MSG.DELETE.S", {"seq": 3})
    run.api("STREAM.MSG.DELETE.S", {"seq": 3})
    run.api("STREAM.MSG.DELETE.S", {"seq": 99})
    run.api("STREAM.MSG.DELETE.S", {"seq": 1})
    run.stream_info("S", {"deleted_details": True})


@scenario()
def delete_of_the_first_and_last_moves_the_ends(run: Run) -> None:
    three_subjects(run)
    run.api("STREAM.MSG.DELETE.S", {"seq": 6})
    run.stream_info("S")
    run.api("STREAM.MSG.DELETE.S", {"seq": 2})
    run.api("STREAM.MSG.DELETE.S", {"seq": 1})
    run.stream_info("S")
    for seq in (3, 4, 5):
        run.api("STREAM.MSG.DELETE.S", {"seq": seq})
    run.stream_info("S")
    run.publish("S.a", "next")


@scenario()
def deny_delete_and_deny_purge(run: Run) -> None:
    three_subjects(run, deny_delete=True, deny_purge=True)
    run.api("STREAM.MSG.DELETE.S", {"seq": 1})
    run.api("STREAM.PURGE.S")
    run.stream_info("S")


@scenario()
def purge_everything(run: Run) -> None:
    three_subjects(run)
    run.api("STREAM.PURGE.S")
    run.stream_info("S")
    run.publish("S.a", "after")
    run.api("STREAM.PURGE.S", {})
    run.api("STREAM.PURGE.S")


@scenario()
def purge_by_sequence_and_keep(run: Run) -> None:
    three_subjects(run)
    run.api("STREAM.PURGE.S", {"seq": 1})
    run.api("STREAM.PURGE.S", {"seq": 3})
    run.stream_info("S")
    run.api("STREAM.PURGE.S", {"keep": 2})
    run.stream_info("S")
    run.api("STREAM.PURGE.S", {"keep": 9})
    run.api("STREAM.PURGE.S", {"seq": 99})
    run.stream_info("S")


@scenario()
def purge_by_subject(run: Run) -> None:
    three_subjects(run)
    run.api("STREAM.PURGE.S", {"filter": "S.a", "keep": 1})
    run.stream_info("S", {"subjects_filter": ">"})
    run.api("STREAM.PURGE.S", {"filter": "S.b", "seq": 4})
    run.stream_info("S", {"subjects_filter": ">"})
    run.api("STREAM.PURGE.S", {"filter": "S.zzz"})
    run.api("STREAM.PURGE.S", {"filter": "S.*"})
    run.stream_info("S", {"subjects_filter": ">"})


@scenario()
def purge_refusals(run: Run) -> None:
    run.api("STREAM.PURGE.S")
    three_subjects(run)
    run.api("STREAM.PURGE.S", {"seq": 2, "keep": 1})
    run.api("STREAM.PURGE.S", {"zzz": 1})
    run.api("STREAM.PURGE.S", b"{")
    run.stream_info("S")


@scenario()
def purge_moves_consumers_forward(run: Run) -> None:
    three_subjects(run)
    run.consumer("S", "C", quiet=True)
    run.fetch("S", "C", 2)
    run.consumer_info("S", "C")
    run.api("STREAM.PURGE.S", {"seq": 4})
    run.consumer_info("S", "C")
    run.api("STREAM.PURGE.S")
    run.consumer_info("S", "C")
    run.publish("S.a", "after")
    run.fetch("S", "C", 1)
    run.consumer_info("S", "C")


@scenario()
def purge_of_a_filter_updates_pending_counts(run: Run) -> None:
    three_subjects(run)
    run.consumer("S", "A", filter_subject="S.a", quiet=True)
    run.consumer("S", "All", quiet=True)
    run.fetch("S", "All", 1)
    run.api("STREAM.PURGE.S", {"filter": "S.a"})
    run.consumer_info("S", "A")
    run.consumer_info("S", "All")
    run.fetch("S", "All", 3)


@scenario()
def deleting_messages_updates_consumers(run: Run) -> None:
    three_subjects(run)
    run.consumer("S", "C", quiet=True)
    _first, second = run.fetch("S", "C", 2)
    run.api("STREAM.MSG.DELETE.S", {"seq": 1})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_ack_pending"] == 1)
    run.api("STREAM.MSG.DELETE.S", {"seq": 4})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_pending"] == 3)
    run.ack(second)
    run.fetch("S", "C", 3)
    run.consumer_info("S", "C")


@scenario()
def stored_time_is_kept_in_deliveries(run: Run) -> None:
    run.stream("S", allow_direct=True)
    run.publish("S.a", "x")
    run.consumer("S", "C", quiet=True)
    message = run.fetch("S", "C", 1)[0]
    stored = run.api("STREAM.MSG.GET.S", {"seq": 1})["message"]["time"]
    direct = run.client.request("$JS.API.DIRECT.GET.S", b'{"seq":1}').header("Nats-Time-Stamp")
    fraction = stored.removesuffix("Z").partition(".")[2].ljust(9, "0")
    run.record("same time", direct=direct == stored, token=message.reply.split(".")[-2].endswith(fraction))


@scenario()
def purges_that_match_nothing_leave_consumers_alone(run: Run) -> None:
    three_subjects(run)
    run.consumer("S", "C", filter_subject="S.b", quiet=True)
    run.consumer("S", "D", quiet=True)
    for body in ({"filter": "none", "seq": 19}, {"filter": "none"}, {"filter": "S.none", "keep": 1}):
        run.api("STREAM.PURGE.S", body)
        run.consumer_info("S", "C")
        run.consumer_info("S", "D")


@scenario()
def purging_an_empty_stream(run: Run) -> None:
    run.stream("F")
    run.stream("M", storage="memory")
    for name in ("F", "M"):
        run.api(f"STREAM.PURGE.{name}")
        run.stream_info(name)
        run.publish(f"{name}.a", "x")
        run.stream_info(name)


@scenario()
def purges_that_keep_everything_leave_consumers_alone(run: Run) -> None:
    run.stream("S", first_seq=10)
    run.consumer("S", "C", filter_subject="S.c", quiet=True)
    run.fill("S.a", 2)
    run.api("STREAM.PURGE.S", {"filter": "S.>", "keep": 3})
    run.consumer_info("S", "C")
    run.api("STREAM.PURGE.S", {"filter": "S.>", "keep": 1})
    run.consumer_info("S", "C")


@scenario()
def purges_of_other_subjects_leave_a_consumer_where_it_is(run: Run) -> None:
    three_subjects(run)
    for name, patterns in (("None", ["none"]), ("A", ["S.a"]), ("All", []), ("BC", ["S.b", "S.c"])):
        run.consumer("S", name, filter_subjects=patterns, quiet=True)
    for body in ({"filter": "S.c", "seq": 5}, {"filter": "S.b", "keep": 1}, {"filter": "S.a", "seq": 4}, {"seq": 5}):
        run.api("STREAM.PURGE.S", body)
        for name in ("None", "A", "All", "BC"):
            run.consumer_info("S", name)


@scenario()
def purges_that_keep_enough_move_a_consumer_to_the_first_message(run: Run) -> None:
    run.stream("S", max_msgs=3)
    run.consumer("S", "C", quiet=True)
    run.fill("S.a", 5)
    run.consumer_info("S", "C")
    run.api("STREAM.PURGE.S", {"filter": "S.a", "keep": 4})
    run.consumer_info("S", "C")


@scenario()
def a_purge_of_other_subjects_delays_what_was_given_back(run: Run) -> None:
    three_subjects(run)
    run.consumer("S", "C", ack_wait=2_000_000_000, quiet=True)
    first, second = run.fetch("S", "C", 2)
    run.ack(first, "-NAK")
    run.api("STREAM.PURGE.S", {"filter": "S.c"})
    run.ack(second, "-NAK")
    run.pull("S", "C", {"batch": 6, "no_wait": True}).take_until_status()
    run.pull("S", "C", {"batch": 1, "expires": 5_000_000_000}).take(1)


@scenario()
def a_purge_forgets_what_was_given_up(run: Run) -> None:
    three_subjects(run)
    run.consumer("S", "C", max_deliver=2, quiet=True)
    for _ in range(2):
        run.ack(run.fetch("S", "C", 1)[0], "-NAK")
    run.ack(run.fetch("S", "C", 1)[0])
    run.consumer_info("S", "C")
    run.api("STREAM.PURGE.S", {"filter": "S.c"})
    run.consumer_info("S", "C")


@scenario()
def a_purge_moves_the_floor_to_before_what_is_still_owed(run: Run) -> None:
    for storage in ("file", "memory"):
        run.stream(storage, storage=storage, quiet=True)
        for subject in "cbacbc":
            run.publish(f"{storage}.{subject}", "x")
        run.consumer(storage, "C", filter_subject=f"{storage}.b", quiet=True)
        run.fetch(storage, "C", 2)
        run.api(f"STREAM.PURGE.{storage}", {"keep": 4})
        run.consumer_info(storage, "C")
        run.api(f"STREAM.PURGE.{storage}", {"keep": 1})
        run.consumer_info(storage, "C")
