"""Creating and updating consumers: defaults, names, what is refused, what may change."""

from __future__ import annotations

from typing import Any

from tests.conformance.scenario import Run, scenario

SECOND = 1_000_000_000


def attempts(run: Run, *configs: dict[str, Any], stream: str = "S") -> None:
    """Try each config as a durable consumer; delete it again if it was made."""
    for number, config in enumerate(configs):
        run.record("attempt", repr(config))
        name = f"c{number}"
        if "error" not in run.consumer(stream, name, **config):
            run.api(f"CONSUMER.DELETE.{stream}.{name}", quiet=True)


@scenario()
def pull_defaults(run: Run) -> None:
    run.stream("S")
    run.consumer("S", "explicit")
    run.consumer("S", "none", ack_policy="none")
    run.consumer("S", "all", ack_policy="all")
    run.consumer("S", "omitted", ack_policy=None)
    run.consumer_info("S", "explicit")


@scenario()
def push_defaults(run: Run) -> None:
    run.stream("S")
    run.consumer("S", "explicit", deliver_subject="d1")
    run.consumer("S", "none", ack_policy="none", deliver_subject="d2")
    run.consumer("S", "group", deliver_subject="d3", deliver_group="g")
    run.consumer_info("S", "group")


@scenario()
def every_pull_setting_is_kept(run: Run) -> None:
    run.stream("S")
    run.consumer(
        "S",
        "C",
        description="all of it",
        deliver_policy="by_start_sequence",
        opt_start_seq=5,
        ack_wait=10 * SECOND,
        max_deliver=7,
        backoff=[SECOND, 2 * SECOND],
        filter_subjects=["S.a", "S.b.>"],
        replay_policy="original",
        sample_freq="50%",
        max_waiting=10,
        max_ack_pending=20,
        headers_only=True,
        max_batch=30,
        max_expires=40 * SECOND,
        max_bytes=5000,
        inactive_threshold=3600 * SECOND,
        mem_storage=True,
        metadata={"owner": "team"},
    )
    run.consumer_info("S", "C")


@scenario()
def every_push_setting_is_kept(run: Run) -> None:
    run.stream("S")
    run.consumer(
        "S",
        "C",
        deliver_subject="deliver.here",
        flow_control=True,
        idle_heartbeat=SECOND,
        rate_limit_bps=100_000,
        max_ack_pending=-1,
        deliver_policy="by_start_time",
        opt_start_time="2024-02-03T04:05:06.7Z",
        num_replicas=1,
    )
    run.consumer("S", "Z", deliver_policy="by_start_time", opt_start_time="2024-02-03T04:05:06+02:00")


@scenario()
def names_follow_the_request_subject(run: Run) -> None:
    run.stream("S")
    create = {"stream_name": "S", "config": {"durable_name": "C"}}
    run.api("CONSUMER.CREATE.S", create)
    run.api("CONSUMER.CREATE.S.D", create)
    run.api("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": {}})
    run.api("CONSUMER.DURABLE.CREATE.S.D", create)
    run.api("CONSUMER.DURABLE.CREATE.S.C", create)
    run.api("CONSUMER.CREATE.S.N", {"stream_name": "S", "config": {"name": "other"}})
    run.api("CONSUMER.CREATE.S.M", {"stream_name": "S", "config": {}})
    run.api("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"name": "given"}})
    run.api("CONSUMER.CREATE.S.C", {"stream_name": "T", "config": {}})
    run.api("CONSUMER.CREATE.NOPE.C", {"stream_name": "NOPE", "config": {}})
    run.api("CONSUMER.CREATE.S.a/b", {"stream_name": "S", "config": {}})
    run.api("CONSUMER.CREATE.S." + "n" * 256, {"stream_name": "S", "config": {}})
    run.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C", "name": "D"}})


@scenario()
def unnamed_consumers_get_a_random_name(run: Run) -> None:
    run.stream("S")
    name = run.ephemeral("S", ack_policy="explicit")
    run.record("name", length=len(name), letters=name.isalnum())
    run.consumer_info("S", name)
    pushed = run.ephemeral("S", deliver_subject="d")
    run.consumer_info("S", pushed)


@scenario()
def filters_in_the_request_subject(run: Run) -> None:
    run.stream("S")
    run.api("CONSUMER.CREATE.S.C.S.a", {"stream_name": "S", "config": {"filter_subject": "S.a"}})
    run.api("CONSUMER.CREATE.S.D.S.a", {"stream_name": "S", "config": {"filter_subject": "S.b"}})
    run.api("CONSUMER.CREATE.S.D.S.a", {"stream_name": "S", "config": {}})
    run.api("CONSUMER.CREATE.S.D.S.a", {"stream_name": "S", "config": {"filter_subjects": ["S.a"]}})
    run.api("CONSUMER.CREATE.S.E.S.>", {"stream_name": "S", "config": {"filter_subject": "S.>"}})


@scenario()
def bad_json_is_reported(run: Run) -> None:
    run.stream("S")
    run.api("CONSUMER.CREATE.S.C", b"")
    run.api("CONSUMER.CREATE.S.C", b"{")
    run.api("CONSUMER.CREATE.S.C", {})
    run.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "zzz": 1})
    run.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"zzz": 1}})
    run.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"ack_wait": 1.5}})
    run.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"backoff": "x"}})
    run.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"opt_start_time": "yesterday"}})
    run.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {}, "action": "replace"})


@scenario()
def bad_enums_are_reported(run: Run) -> None:
    run.stream("S")
    attempts(
        run,
        {"ack_policy": "some"},
        {"deliver_policy": "soon"},
        {"replay_policy": "slow"},
        {"ack_policy": ""},
        {"priority_policy": "best", "priority_groups": ["A"]},
    )


@scenario()
def push_only_and_pull_only_settings(run: Run) -> None:
    run.stream("S")
    attempts(
        run,
        {"deliver_subject": "d.*"},
        {"deliver_subject": "d..x"},
        {"deliver_subject": "S.x"},
        {"deliver_subject": "d", "max_waiting": 5},
        {"deliver_subject": "d", "ack_policy": "none", "max_ack_pending": 5},
        {"deliver_subject": "d", "idle_heartbeat": SECOND // 100},
        {"deliver_subject": "d", "flow_control": True},
        {"deliver_subject": "d", "max_batch": 5},
        {"rate_limit_bps": 1000},
        {"idle_heartbeat": SECOND},
        {"flow_control": True},
        {"max_expires": 1},
        {"deliver_group": "g"},
        {"direct": True},
        {"deliver_subject": "d", "direct": True},
    )


@scenario()
def filters_are_checked(run: Run) -> None:
    run.stream("S")
    attempts(
        run,
        {"filter_subject": "S..a"},
        {"filter_subject": "elsewhere"},
        {"filter_subject": "S.a", "filter_subjects": ["S.b"]},
        {"filter_subjects": ["S.a", "S.*"]},
        {"filter_subjects": ["S.a", ""]},
        {"filter_subjects": ["S.a"]},
        {"filter_subjects": []},
        {"filter_subjects": ["S.a", "S.a"]},
        {"filter_subjects": ["S.b c"]},
    )


@scenario()
def start_positions_are_checked(run: Run) -> None:
    run.stream("S")
    attempts(
        run,
        {"opt_start_seq": 5},
        {"opt_start_time": "2024-01-01T00:00:00Z"},
        {"deliver_policy": "last", "opt_start_seq": 5},
        {"deliver_policy": "last", "opt_start_time": "2024-01-01T00:00:00Z"},
        {"deliver_policy": "new", "opt_start_seq": 5},
        {"deliver_policy": "by_start_sequence"},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 1, "opt_start_time": "2024-01-01T00:00:00Z"},
        {"deliver_policy": "by_start_time"},
        {"deliver_policy": "by_start_time", "opt_start_seq": 5},
        {"deliver_policy": "last_per_subject"},
        {"deliver_policy": "last_per_subject", "filter_subject": "S.>", "opt_start_seq": 4},
        {"deliver_policy": "last_per_subject", "filter_subject": "S.>"},
        {"deliver_policy": "last_per_subject", "filter_subjects": ["S.a", "S.b"]},
    )


@scenario()
def numbers_are_checked(run: Run) -> None:
    run.stream("S")
    attempts(
        run,
        {"backoff": [SECOND, 2 * SECOND, 3 * SECOND], "max_deliver": 2},
        {"backoff": [SECOND, 2 * SECOND], "max_deliver": 2},
        {"backoff": [SECOND, 2 * SECOND]},
        {"backoff": [-1]},
        {"ack_wait": -1},
        {"ack_wait": 0},
        {"max_deliver": -5},
        {"max_deliver": 0},
        {"sample_freq": "abc"},
        {"sample_freq": "30"},
        {"sample_freq": "30%"},
        {"sample_freq": "300"},
        {"sample_freq": "-5"},
        {"description": "d" * 4097},
        {"metadata": {"k": "v" * 131072}},
        {"num_replicas": 3},
        {"num_replicas": -1},
        {"max_waiting": -1},
        {"max_batch": -1, "max_bytes": -1, "inactive_threshold": -1},
        {"max_ack_pending": -1},
        {"max_ack_pending": -7},
    )


@scenario()
def pedantic_mode_refuses_silent_changes(run: Run) -> None:
    run.stream("S")
    for config in (
        {"max_deliver": -5},
        {"backoff": [SECOND], "ack_wait": 5 * SECOND},
        {"max_waiting": -1},
        {"max_batch": -1},
        {"inactive_threshold": -1},
        {},
    ):
        body = {"stream_name": "S", "config": {"ack_policy": "explicit", **config}, "pedantic": True}
        run.api("CONSUMER.CREATE.S.C", body)
        run.api("CONSUMER.DELETE.S.C", quiet=True)


@scenario()
def flow_control_ack_policy(run: Run) -> None:
    run.stream("S")
    attempts(
        run,
        {"ack_policy": "flow_control"},
        {"ack_policy": "flow_control", "deliver_subject": "d"},
        {"ack_policy": "flow_control", "deliver_subject": "d", "flow_control": True, "idle_heartbeat": SECOND},
    )


@scenario()
def priority_settings_are_checked(run: Run) -> None:
    run.stream("S")
    attempts(
        run,
        {"priority_policy": "overflow"},
        {"priority_policy": "overflow", "priority_groups": []},
        {"priority_groups": ["A"]},
        {"priority_policy": "none", "priority_groups": ["A"]},
        {"priority_timeout": SECOND},
        {"priority_policy": "overflow", "priority_groups": [""]},
        {"priority_policy": "overflow", "priority_groups": ["bad name"]},
        {"priority_policy": "overflow", "priority_groups": ["a" * 17]},
        {"priority_policy": "overflow", "priority_groups": ["A"], "deliver_subject": "d"},
        {"priority_policy": "overflow", "priority_groups": ["A", "B"]},
        {"priority_policy": "overflow", "priority_groups": ["a/b_c=-1"]},
        {"priority_policy": "overflow", "priority_groups": ["A"], "ack_policy": "none"},
        {"priority_policy": "pinned_client", "priority_groups": ["A"]},
        {"priority_policy": "pinned_client", "priority_groups": ["A"], "priority_timeout": 3 * SECOND},
        {"priority_policy": "prioritized", "priority_groups": ["A"]},
        {"priority_policy": "overflow", "priority_groups": ["A"], "priority_timeout": SECOND},
    )


@scenario()
def stream_limits_bind_consumers(run: Run) -> None:
    run.stream("S", consumer_limits={"inactive_threshold": 60 * SECOND, "max_ack_pending": 50})
    attempts(
        run,
        {},
        {"max_ack_pending": 51},
        {"max_ack_pending": 50},
        {"max_ack_pending": -1},
        {"inactive_threshold": 61 * SECOND},
        {"inactive_threshold": 60 * SECOND},
        {"ack_policy": "none"},
    )


@scenario()
def actions_create_and_update(run: Run) -> None:
    run.stream("S")
    run.consumer("S", "C", action="update")
    run.consumer("S", "C", action="create")
    run.consumer("S", "C", action="create")
    run.consumer("S", "C", action="create", description="other")
    run.consumer("S", "C", action="update", description="updated")
    run.consumer("S", "C", description="again")
    run.consumer("S", "C", action="")


@scenario()
def updates_that_are_refused(run: Run) -> None:
    run.stream("S")
    run.consumer("S", "C")
    for change in (
        {"deliver_policy": "new"},
        {"ack_policy": "all"},
        {"ack_policy": "none"},
        {"replay_policy": "original"},
        {"max_waiting": 7},
        {"mem_storage": True},
        {"deliver_subject": "d"},
        {"num_replicas": 3},
    ):
        run.record("change", repr(change))
        run.consumer("S", "C", **change)
    run.consumer("S", "Q", deliver_policy="by_start_sequence", opt_start_seq=3)
    run.consumer("S", "Q", deliver_policy="by_start_sequence", opt_start_seq=4)
    run.consumer("S", "T", deliver_policy="by_start_time", opt_start_time="2024-01-01T00:00:00Z")
    run.consumer("S", "T", deliver_policy="by_start_time", opt_start_time="2024-01-01T02:00:00+02:00")
    run.consumer("S", "T", deliver_policy="by_start_time", opt_start_time="2024-01-02T00:00:00Z")
    run.consumer("S", "P", deliver_subject="d", idle_heartbeat=SECOND)
    run.consumer("S", "P", deliver_subject="d", idle_heartbeat=2 * SECOND)
    run.consumer("S", "P", deliver_subject="d", idle_heartbeat=SECOND, flow_control=True)
    run.consumer("S", "P")


@scenario()
def updates_that_are_accepted(run: Run) -> None:
    run.stream("S")
    run.fill("S.a", 2)
    run.fill("S.b", 3)
    run.consumer("S", "C")
    run.consumer("S", "C", ack_wait=5 * SECOND, max_deliver=9, max_ack_pending=11, description="d")
    run.consumer("S", "C", sample_freq="10", headers_only=True, max_batch=5, max_expires=SECOND, max_bytes=100)
    run.consumer("S", "C", filter_subject="S.b", inactive_threshold=600 * SECOND, metadata={"a": "b"})
    run.consumer("S", "C", filter_subjects=["S.a", "S.b"], backoff=[SECOND], max_deliver=3)
    run.consumer("S", "C", priority_policy="overflow", priority_groups=["A"])
    run.consumer("S", "C", num_replicas=1)
    run.consumer_info("S", "C")


@scenario()
def changing_the_deliver_subject(run: Run) -> None:
    run.stream("S")
    run.consumer("S", "P", deliver_subject="d.one")
    run.consumer("S", "P", deliver_subject="d.two")
    listener = run.subscribe("d.two")
    run.until("CONSUMER.INFO.S.P", lambda document: bool(document.get("push_bound")))
    run.consumer("S", "P", deliver_subject="d.three")
    listener.close()
    run.until("CONSUMER.INFO.S.P", lambda document: not document.get("push_bound"))
    run.consumer("S", "P", deliver_subject="d.three")


@scenario()
def changing_filters_recounts_pending(run: Run) -> None:
    run.stream("S")
    for subject in ("S.a", "S.b", "S.a", "S.b", "S.c"):
        run.fill(subject, 1)
    run.consumer("S", "C", filter_subject="S.a")
    run.ack(run.fetch("S", "C", 1)[0])
    run.consumer("S", "C", filter_subject="S.b")
    run.consumer_info("S", "C")
    run.fetch("S", "C", 1)


@scenario()
def deleting_consumers(run: Run) -> None:
    run.stream("S")
    run.api("CONSUMER.DELETE.S.C")
    run.api("CONSUMER.DELETE.NOPE.C")
    run.consumer("S", "C")
    run.api("CONSUMER.DELETE.S.C", {"x": 1})
    run.api("CONSUMER.DELETE.S.C")
    run.consumer_info("S", "C")
    run.consumer_info("NOPE", "C")


@scenario()
def required_api_level_for_consumers(run: Run) -> None:
    run.stream("S")
    body = {"stream_name": "S", "config": {}}
    run.api("CONSUMER.CREATE.S.C", body, headers=[("Nats-Required-Api-Level", "99")])
    run.api("CONSUMER.CREATE.S.C", body, headers=[("Nats-Required-Api-Level", "5")])
