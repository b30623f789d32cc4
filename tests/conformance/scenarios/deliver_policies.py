"""Where a consumer starts, and what it selects."""

from __future__ import annotations

from typing import Any

from tests.conformance.scenario import Run, scenario


def filled(run: Run, **config: Any) -> None:
    run.stream("S", **config)
    for subject in ("S.a", "S.b", "S.a", "S.c", "S.b", "S.a"):
        run.fill(subject, 1)


def starts_at(run: Run, name: str, count: int, **config: Any) -> None:
    run.consumer("S", name, **config)
    run.pull("S", name, {"batch": count + 1, "no_wait": True}).take_until_status()
    run.consumer_info("S", name)


@scenario()
def deliver_all(run: Run) -> None:
    filled(run)
    starts_at(run, "C", 6)


@scenario()
def deliver_last(run: Run) -> None:
    filled(run)
    starts_at(run, "C", 1, deliver_policy="last")
    starts_at(run, "F", 1, deliver_policy="last", filter_subject="S.b")
    starts_at(run, "N", 0, deliver_policy="last", filter_subject="S.none")


@scenario()
def deliver_new(run: Run) -> None:
    filled(run)
    run.consumer("S", "C", deliver_policy="new")
    run.publish("S.z", "new")
    run.pull("S", "C", {"batch": 5, "no_wait": True}).take_until_status()
    run.consumer_info("S", "C")


@scenario(
    known_difference="messages before a start in the future are not counted as pending",
    where=r"message \.reply: .*S\.future\.",
)
def deliver_by_start_sequence(run: Run) -> None:
    filled(run)
    starts_at(run, "C", 3, deliver_policy="by_start_sequence", opt_start_seq=4)
    starts_at(run, "F", 1, deliver_policy="by_start_sequence", opt_start_seq=4, filter_subject="S.b")
    run.consumer("S", "future", deliver_policy="by_start_sequence", opt_start_seq=8)
    run.publish("S.a", "7")
    run.publish("S.a", "8")
    run.pull("S", "future", {"batch": 5, "no_wait": True}).take_until_status()
    run.consumer_info("S", "future")


@scenario()
def start_sequence_before_the_first_message(run: Run) -> None:
    filled(run)
    run.api("STREAM.PURGE.S", {"seq": 4})
    starts_at(run, "C", 3, deliver_policy="by_start_sequence", opt_start_seq=2)
    starts_at(run, "A", 3)


@scenario()
def deliver_by_start_time(run: Run) -> None:
    filled(run)
    start = run.api("STREAM.MSG.GET.S", {"seq": 3})["message"]["time"]
    starts_at(run, "C", 4, deliver_policy="by_start_time", opt_start_time=start)
    starts_at(run, "old", 6, deliver_policy="by_start_time", opt_start_time="2020-01-01T00:00:00Z")
    starts_at(run, "future", 0, deliver_policy="by_start_time", opt_start_time="2099-01-01T00:00:00Z")


@scenario()
def deliver_last_per_subject(run: Run) -> None:
    filled(run)
    starts_at(run, "C", 3, deliver_policy="last_per_subject", filter_subject="S.>")
    starts_at(run, "F", 2, deliver_policy="last_per_subject", filter_subjects=["S.a", "S.c"])
    run.publish("S.b", "later")
    run.pull("S", "C", {"batch": 5, "no_wait": True}).take_until_status()
    run.consumer_info("S", "C")


@scenario()
def last_per_subject_with_messages_in_between(run: Run) -> None:
    filled(run)
    run.consumer("S", "C", deliver_policy="last_per_subject", filter_subject="S.*")
    run.publish("S.a", "newer")
    run.publish("S.d", "newer")
    run.pull("S", "C", {"batch": 9, "no_wait": True}).take_until_status()
    run.consumer_info("S", "C")


@scenario()
def empty_streams(run: Run) -> None:
    run.stream("S")
    for policy in ("all", "last", "new"):
        run.consumer("S", policy, deliver_policy=policy)
    run.consumer("S", "seq", deliver_policy="by_start_sequence", opt_start_seq=1)
    run.consumer("S", "per", deliver_policy="last_per_subject", filter_subject=">")
    run.publish("S.a", "1")
    for name in ("all", "last", "new", "seq", "per"):
        run.pull("S", name, {"batch": 5, "no_wait": True}).take_until_status()


@scenario()
def filters_select_subjects(run: Run) -> None:
    filled(run)
    starts_at(run, "one", 3, filter_subject="S.a")
    starts_at(run, "wild", 6, filter_subject="S.*")
    starts_at(run, "many", 3, filter_subjects=["S.b", "S.c"])
    starts_at(run, "none", 0, filter_subject="S.none")
    starts_at(run, "outside", 0, filter_subject="elsewhere.>")


@scenario()
def filters_skip_deleted_messages(run: Run) -> None:
    filled(run)
    run.consumer("S", "C", filter_subject="S.a")
    run.api("STREAM.MSG.DELETE.S", {"seq": 3})
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_pending"] == 2)
    run.pull("S", "C", {"batch": 5, "no_wait": True}).take_until_status()


@scenario()
def headers_only_sends_sizes(run: Run) -> None:
    run.stream("S")
    run.publish("S.a", "12345")
    run.publish("S.a", "123", [("A", "1")])
    run.publish("S.a", "")
    run.consumer("S", "C", headers_only=True, quiet=True)
    run.fetch("S", "C", 3)


@scenario()
def consumers_in_memory_and_on_memory_streams(run: Run) -> None:
    filled(run, storage="memory")
    starts_at(run, "C", 6)
    starts_at(run, "M", 6, mem_storage=True)


@scenario()
def limits_that_remove_undelivered_messages(run: Run) -> None:
    run.stream("S", max_msgs=3)
    run.consumer("S", "C")
    run.fill("S.a", 5)
    run.until("CONSUMER.INFO.S.C", lambda document: document["num_pending"] == 3)
    run.pull("S", "C", {"batch": 5, "no_wait": True}).take_until_status()
    run.consumer_info("S", "C")


@scenario()
def last_per_subject_without_a_match(run: Run) -> None:
    filled(run, first_seq=10)
    run.consumer("S", "C", deliver_policy="last_per_subject", filter_subject="S.none")
    run.publish("S.none", "now")
    run.pull("S", "C", {"batch": 2, "no_wait": True}).take_until_status()
    run.consumer_info("S", "C")


@scenario()
def a_rollup_moves_filtered_consumers(run: Run) -> None:
    run.stream("S", allow_rollup_hdrs=True, quiet=True)
    run.consumer("S", "C", filter_subject="S.b", quiet=True)
    run.consumer("S", "D", filter_subject="S.a", quiet=True)
    run.publish("S.a", "1")
    run.publish("S.b", "2", [("Nats-Rollup", "sub")])
    run.consumer_info("S", "C")
    run.consumer_info("S", "D")
    run.publish("S.b", "3", [("Nats-Rollup", "sub")])
    run.consumer_info("S", "C")
    run.consumer_info("S", "D")


@scenario()
def last_with_several_filters(run: Run) -> None:
    run.stream("S", quiet=True)
    run.consumer("S", "E", deliver_policy="last", filter_subjects=["S.a", "S.b"])
    for subject in ("S.a", "S.c", "S.b", "S.c"):
        run.fill(subject, 1)
    run.consumer_info("S", "E")
    run.consumer("S", "F", deliver_policy="last", filter_subjects=["S.a", "S.b"])
    run.pull("S", "F", {"batch": 3, "no_wait": True}).take_until_status()


@scenario()
def last_per_subject_where_no_subject_has_more_than_one(run: Run) -> None:
    run.stream("S", first_seq=10, max_msgs_per_subject=1)
    for subject in ("S.b", "S.a", "S.b"):
        run.publish(subject, "x")
    for name, pattern in (("A", "S.a"), ("B", "S.b"), ("C", "S.c")):
        run.consumer("S", name, deliver_policy="last_per_subject", filter_subject=pattern)
    run.fetch("S", "B", 1)
    run.consumer_info("S", "B")


@scenario()
def a_start_by_time_skips_to_the_first_message_that_matches(run: Run) -> None:
    run.stream("S")
    for subject in ("S.a", "S.b", "S.c", "S.c", "S.a", "S.b"):
        run.publish(subject, "x")
    for number, patterns in enumerate((["S.a"], ["S.b"], ["S.c"], ["S.c", "S.b"], ["S.d"], [])):
        run.consumer(
            "S",
            f"C{number}",
            deliver_policy="by_start_time",
            opt_start_time="2020-01-01T00:00:00Z",
            filter_subjects=patterns,
        )


@scenario()
def last_when_the_last_message_is_gone(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 3)
    run.api("STREAM.MSG.DELETE.S", {"seq": 3})
    run.consumer("S", "A", deliver_policy="last")
    run.consumer("S", "B", deliver_policy="last", filter_subject="S.a")
    for name in ("A", "B"):
        run.pull("S", name, {"batch": 2, "no_wait": True}).take_until_status()
