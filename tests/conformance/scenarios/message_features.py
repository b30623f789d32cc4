"""Rollups, per-message TTL and markers, counters, schedules."""

from __future__ import annotations

from tests.conformance.scenario import Run, scenario

SECOND = 1_000_000_000


@scenario()
def rollup_of_a_subject_and_of_everything(run: Run) -> None:
    run.stream("S", allow_rollup_hdrs=True)
    run.fill("S.a", 3)
    run.fill("S.b", 2)
    run.publish("S.a", "sum", [("Nats-Rollup", "sub")])
    run.stream_info("S", {"subjects_filter": ">"})
    run.publish("S.c", "all", [("Nats-Rollup", "ALL")])
    run.stream_info("S", {"subjects_filter": ">"})
    run.publish("S.c", "bad", [("Nats-Rollup", "some")])
    run.api("STREAM.MSG.GET.S", {"seq": 7})


@scenario()
def rollup_with_a_consumer_behind(run: Run) -> None:
    run.stream("S", allow_rollup_hdrs=True)
    run.consumer("S", "C", quiet=True)
    run.fill("S.a", 3)
    run.fetch("S", "C", 1)
    run.publish("S.a", "sum", [("Nats-Rollup", "sub")])
    run.consumer_info("S", "C")
    run.fetch("S", "C", 1)


@scenario()
def ttl_values(run: Run) -> None:
    run.stream("S", allow_msg_ttl=True)
    for value in ("1", "5s", "1h", "never", "0", "0s", "500ms", "-1", "-5s", "abc", "", "1.5s", "1d", "NEVER"):
        run.publish("S.a", "x", [("Nats-TTL", value)])
    run.stream_info("S")


@scenario()
def ttl_removes_the_message(run: Run) -> None:
    run.stream("S", allow_msg_ttl=True)
    run.publish("S.a", "short", [("Nats-TTL", "1")])
    run.publish("S.b", "long")
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 1)
    run.api("STREAM.MSG.GET.S", {"seq": 1})


@scenario()
def never_survives_max_age(run: Run) -> None:
    run.stream("S", allow_msg_ttl=True, max_age=SECOND // 2)
    run.publish("S.a", "keep", [("Nats-TTL", "never")])
    run.publish("S.b", "drop")
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 1, {"subjects_filter": ">"})


@scenario()
def expiry_leaves_a_marker(run: Run) -> None:
    run.stream("S", subject_delete_marker_ttl=60 * SECOND, max_age=SECOND // 2)
    run.fill("S.a", 2)
    run.until(
        "STREAM.INFO.S", lambda document: (document["state"]["last_seq"], document["state"]["messages"]) == (3, 1)
    )
    run.api("STREAM.MSG.GET.S", {"seq": 3})


@scenario()
def ttl_expiry_leaves_a_marker(run: Run) -> None:
    run.stream("S", subject_delete_marker_ttl=SECOND, max_msgs_per_subject=1)
    run.publish("S.a", "x", [("Nats-TTL", "1")])
    run.until("STREAM.INFO.S", lambda document: document["state"]["last_seq"] == 2)
    run.api("STREAM.MSG.GET.S", {"seq": 2})
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 0)


@scenario()
def counters_add_up(run: Run) -> None:
    run.stream("S", allow_msg_counter=True, allow_direct=True)
    for value in ("+5", "-2", "1", "0", "100000000000000000000000000"):
        run.publish("S.a", "", [("Nats-Incr", value)])
    run.publish("S.b", "", [("Nats-Incr", "-7")])
    run.api("STREAM.MSG.GET.S", {"last_by_subj": "S.a"})
    run.api("STREAM.MSG.GET.S", {"seq": 2})
    run.stream_info("S", {"subjects_filter": ">"})


@scenario()
def counters_refuse(run: Run) -> None:
    run.stream("S", allow_msg_counter=True, allow_rollup_hdrs=True)
    run.publish("S.a", "")
    run.publish("S.a", "x", [("Nats-Incr", "1")])
    run.publish("S.a", "", [("Nats-Incr", "abc")])
    run.publish("S.a", "", [("Nats-Incr", "")])
    run.publish("S.a", "", [("Nats-Incr", "1.5")])
    run.publish("S.a", "", [("Nats-Incr", "1"), ("Nats-Rollup", "sub")])
    run.publish("S.a", "", [("Nats-Incr", "1"), ("Nats-Expected-Last-Sequence", "0")])
    run.publish("S.a", "", [("Nats-Incr", "1"), ("Nats-Expected-Last-Subject-Sequence", "0")])
    run.publish("S.a", "", [("Nats-Incr", "1"), ("Nats-Msg-Id", "i")])
    run.publish("S.a", "", [("Nats-Incr", "1"), ("Nats-Msg-Id", "i")])
    run.stream_info("S")


@scenario()
def counters_keep_other_headers(run: Run) -> None:
    run.stream("S", allow_msg_counter=True)
    run.publish("S.a", "", [("A", "1"), ("Nats-Incr", "+2"), ("B", "2")])
    run.publish("S.a", "", [("Nats-Incr", "+2")])
    run.api("STREAM.MSG.GET.S", {"seq": 1})
    run.consumer("S", "C", quiet=True)
    run.fetch("S", "C", 2)


@scenario()
def schedules_refuse(run: Run) -> None:
    run.stream("S", allow_msg_schedules=True)
    target = ("Nats-Schedule-Target", "S.t")
    for schedule in ("@nope", "@every 500ms", "@every x", "@at yesterday", "* * * *", ""):
        run.publish("S.s", "x", [("Nats-Schedule", schedule), target])
    run.publish("S.s", "x", [("Nats-Schedule", "@every 5s")])
    run.publish("S.s", "x", [("Nats-Schedule", "@every 5s"), ("Nats-Schedule-Target", "other")])
    run.publish("S.s", "x", [("Nats-Schedule", "@every 5s"), ("Nats-Schedule-Target", "S.s")])
    run.publish("S.s", "x", [("Nats-Schedule", "@every 5s"), ("Nats-Schedule-Target", "S.*")])
    run.publish("S.s", "x", [("Nats-Schedule", "@every 5s"), target, ("Nats-Schedule-TTL", "5s")])
    run.publish("S.s", "x", [("Nats-Schedule", "@every 5s"), target, ("Nats-Schedule-Source", "S.*")])
    run.publish("S.s", "x", [("Nats-Schedule", "@every 5s"), target, ("Nats-Schedule-Rollup", "all")])
    run.publish("S.s", "x", [("Nats-Schedule", "@every 5s"), target, ("Nats-Schedule-Time-Zone", "UTC")])
    run.publish("S.s", "x", [("Nats-Schedule", "0 0 5 * * *"), target, ("Nats-Schedule-Time-Zone", "Nowhere")])
    run.publish("S.s", "x", [("Nats-Schedule", "@every 5s"), target, ("Nats-Rollup", "all")])
    run.stream_info("S")


@scenario()
def schedules_accept(run: Run) -> None:
    run.stream("S", allow_msg_schedules=True, allow_msg_ttl=True)
    target = ("Nats-Schedule-Target", "S.t")
    for schedule in ("@every 1h", "@at 2099-01-01T00:00:00Z", "@daily", "@hourly", "@midnight", "0 0 5 * * *"):
        run.publish("S.s", schedule, [("Nats-Schedule", schedule), target])
    run.publish("S.s2", "x", [("Nats-Schedule", "0 0 5 * * *"), target, ("Nats-Schedule-Time-Zone", "Europe/Oslo")])
    run.publish("S.s3", "x", [("Nats-Schedule", "@every 1h"), target, ("Nats-Schedule-TTL", "5s")])
    run.stream_info("S", {"subjects_filter": ">"})
    run.api("STREAM.MSG.GET.S", {"last_by_subj": "S.s"})


@scenario()
def a_schedule_in_the_past_fires_once(run: Run) -> None:
    run.stream("S", allow_msg_schedules=True)
    headers = [("Nats-Schedule", "@at 2020-01-01T00:00:00Z"), ("Nats-Schedule-Target", "S.t"), ("Keep", "me")]
    run.publish("S.s", "body", headers)
    run.until("STREAM.INFO.S", lambda document: document["state"]["last_seq"] == 2)
    run.api("STREAM.MSG.GET.S", {"seq": 2})
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 1, {"subjects_filter": ">"})


@scenario()
def a_repeating_schedule_keeps_firing(run: Run) -> None:
    run.stream("S", allow_msg_schedules=True)
    run.publish("S.s", "tick", [("Nats-Schedule", "@every 1s"), ("Nats-Schedule-Target", "S.t")])
    run.until("STREAM.INFO.S", lambda document: document["state"]["last_seq"] >= 2, {"subjects_filter": ">"})
    run.api("STREAM.MSG.GET.S", {"seq": 2})
