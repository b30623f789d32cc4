"""Creating and updating streams: defaults, what is refused, what may change."""

from __future__ import annotations

from typing import Any

from tests.conformance.scenario import Run, scenario

SECOND = 1_000_000_000


def attempts(run: Run, *configs: dict[str, Any]) -> None:
    """Try each config on a stream of its own on `S.>`; delete it again if it was made.

    The names differ because nats-server, when busy, may find files of a deleted stream of the same name.
    """
    for number, config in enumerate(configs):
        run.record("attempt", repr(config))
        name = f"S{number}"
        subjects = {} if "mirror" in config or "sources" in config else {"subjects": ["S.>"]}
        if "error" not in run.stream(name, **(subjects | config)):
            run.api(f"STREAM.DELETE.{name}", quiet=True)


@scenario()
def defaults_are_echoed_back(run: Run) -> None:
    run.api("STREAM.CREATE.S", {"name": "S"})
    run.stream_info("S")


@scenario()
def memory_stream_defaults(run: Run) -> None:
    run.stream("S", storage="memory")


@scenario()
def every_plain_setting_is_kept(run: Run) -> None:
    run.stream(
        "S",
        description="all of it",
        subjects=["a.*", "b.>"],
        retention="interest",
        max_consumers=7,
        max_msgs=100,
        max_bytes=100_000,
        max_age=3600 * SECOND,
        max_msgs_per_subject=9,
        max_msg_size=1000,
        discard="new",
        discard_new_per_subject=True,
        storage="memory",
        duplicate_window=30 * SECOND,
        compression="none",
        allow_direct=True,
        deny_delete=True,
        allow_rollup_hdrs=True,
        first_seq=50,
        metadata={"owner": "team"},
        consumer_limits={"inactive_threshold": 60 * SECOND, "max_ack_pending": 50},
    )
    run.stream_info("S")


@scenario()
def zero_limits_become_unlimited(run: Run) -> None:
    run.stream("S", max_consumers=0, max_msgs=0, max_bytes=0, max_msgs_per_subject=0, max_msg_size=0)
    run.update_stream("S", max_consumers=-5, max_msgs=-5, max_bytes=-5, max_msgs_per_subject=-5, max_msg_size=-5)


@scenario()
def implied_settings(run: Run) -> None:
    attempts(
        run,
        {"subject_delete_marker_ttl": 5 * SECOND},
        {"allow_msg_schedules": True},
        {"allow_msg_ttl": True},
        {"allow_msg_counter": True},
        {"allow_atomic": True},
        {"allow_batched": True},
        {"persist_mode": "async"},
        {"persist_mode": "default"},
        {"compression": "s2"},
        {"placement": {}},
        {"max_age": 60 * SECOND},
    )


@scenario()
def identical_create_succeeds_and_different_is_refused(run: Run) -> None:
    run.stream("S", max_msgs=5)
    run.stream("S", max_msgs=5)
    run.stream("S", max_msgs=6)
    run.stream("S", max_msgs=5, metadata={"_nats.ver": "1"})


@scenario()
def names_must_match_and_be_valid(run: Run) -> None:
    run.api("STREAM.CREATE.S", {"name": "T"})
    run.api("STREAM.CREATE.S", {})
    run.api("STREAM.CREATE.a/b", {"name": "a/b"})
    run.api("STREAM.CREATE.a\\b", {"name": "a\\b"})
    run.api("STREAM.CREATE." + "n" * 256, {"name": "n" * 256})
    run.api("STREAM.CREATE." + "n" * 255, {"name": "n" * 255, "subjects": ["x"]})
    run.api("STREAM.CREATE.S", {"name": "S", "description": "d" * 4097})
    run.api("STREAM.CREATE.S", {"name": "S", "metadata": {"k": "v" * 131072}})


@scenario()
def bad_json_is_reported(run: Run) -> None:
    run.api("STREAM.CREATE.S", b"")
    run.api("STREAM.CREATE.S", b"{")
    run.api("STREAM.CREATE.S", b"[]")
    run.api("STREAM.CREATE.S", {"name": "S", "nope": 1})
    run.api("STREAM.CREATE.S", {"name": "S", "max_age": 1.5})
    run.api("STREAM.CREATE.S", {"name": "S", "max_msgs": "many"})
    run.api("STREAM.CREATE.S", {"name": 5})
    run.api("STREAM.CREATE.S", {"name": "S", "subjects": "s"})
    run.api("STREAM.CREATE.S", {"name": "S", "sealed": "yes"})


@scenario()
def bad_enums_are_reported(run: Run) -> None:
    attempts(
        run,
        {"retention": "foo"},
        {"storage": "tape"},
        {"discard": "some"},
        {"compression": "zip"},
        {"compression": ""},
        {"persist_mode": "later"},
        {"retention": 1},
    )


@scenario()
def ages_and_windows_are_checked(run: Run) -> None:
    attempts(
        run,
        {"max_age": -1},
        {"max_age": 1},
        {"max_age": SECOND // 10},
        {"duplicate_window": -1},
        {"duplicate_window": 1},
        {"duplicate_window": 2 * SECOND, "max_age": SECOND},
        {"duplicate_window": SECOND // 10},
    )


@scenario()
def contradictions_are_refused(run: Run) -> None:
    attempts(
        run,
        {"deny_purge": True, "allow_rollup_hdrs": True},
        {"discard_new_per_subject": True},
        {"discard_new_per_subject": True, "discard": "new"},
        {"discard_new_per_subject": True, "discard": "new", "max_msgs_per_subject": 1},
        {"sealed": True},
        {"mirror_direct": True},
        {"placement": {"preferred": "x"}},
        {"num_replicas": 3},
        {"num_replicas": 6},
        {"num_replicas": -1},
    )


@scenario()
def newer_features_refuse_bad_combinations(run: Run) -> None:
    attempts(
        run,
        {"allow_msg_counter": True, "discard": "new"},
        {"allow_msg_counter": True, "allow_msg_ttl": True},
        {"allow_msg_counter": True, "allow_msg_schedules": True},
        {"allow_msg_counter": True, "retention": "workqueue"},
        {"subject_delete_marker_ttl": SECOND // 2},
        {"subject_delete_marker_ttl": -1},
        {"allow_msg_schedules": True, "discard": "new"},
        {"persist_mode": "async", "storage": "memory"},
        {"persist_mode": "async", "allow_atomic": True},
    )


@scenario()
def subjects_are_checked(run: Run) -> None:
    attempts(
        run,
        {"subjects": ["a", "a"]},
        {"subjects": ["a.*", "a.b"]},
        {"subjects": ["a..b"]},
        {"subjects": ["a b"]},
        {"subjects": [""]},
        {"subjects": [">"]},
        {"subjects": ["$JS.>"]},
        {"subjects": ["$JS.API.>"]},
        {"subjects": ["$SYS.>"]},
        {"subjects": ["*.x"]},
        {"subjects": ["foo>bar"]},
    )


@scenario()
def overlap_with_another_stream_is_refused(run: Run) -> None:
    run.stream("A", subjects=["a.>", "z"])
    run.stream("B", subjects=["a.b"])
    run.stream("B", subjects=["*.b"])
    run.stream("B", subjects=["b"])
    run.update_stream("B", subjects=["b", "z"])


@scenario()
def mirror_and_source_configs_are_checked(run: Run) -> None:
    run.stream("O", subjects=["o"])
    attempts(
        run,
        {"mirror": {"name": "O"}, "subjects": ["x"]},
        {"mirror": {"name": "O"}, "first_seq": 5},
        {"mirror": {"name": "O"}, "sources": [{"name": "O"}]},
        {"mirror": {"name": "bad name"}},
        {"mirror": {"name": "O", "filter_subject": "o", "subject_transforms": [{"src": "o", "dest": "p"}]}},
        {"mirror": {"name": "S5"}},
        {"mirror": {"name": "O"}, "allow_msg_counter": True},
        {"mirror": {"name": "O"}, "allow_atomic": True},
        {"mirror": {"name": "O"}, "allow_msg_schedules": True},
        {"mirror": {"name": "O"}, "subject_delete_marker_ttl": SECOND},
        {"sources": [{"name": "O"}, {"name": "O"}]},
        {"sources": [{"name": "bad name"}]},
        {"sources": [{"name": "O"}], "allow_msg_schedules": True},
        {"sources": [{"name": "S13"}]},
        {"mirror": {"name": "O", "opt_start_seq": 3, "filter_subject": "o"}},
        {"sources": [{"name": "O", "filter_subject": "o"}, {"name": "O", "filter_subject": "p"}]},
    )


@scenario()
def transforms_and_republish_are_checked(run: Run) -> None:
    attempts(
        run,
        {"subject_transform": {"src": "S.>", "dest": "T.>"}},
        {"subject_transform": {"src": "S..x", "dest": "T.>"}},
        {"subject_transform": {"src": "S.*", "dest": "T.{{wildcard(2)}}"}},
        {"subject_transform": {"src": "S.*", "dest": "T.{{nope(1)}}"}},
        {"subject_transform": {"src": "S.*", "dest": "T.{{partition(3,1)}}.{{wildcard(1)}}"}},
        {"republish": {"src": "S.>", "dest": "S.x.>"}},
        {"republish": {"src": "S.>", "dest": "R.>"}},
        {"republish": {"src": "", "dest": "R.>"}},
        {"republish": {"src": "S.*", "dest": "R.$2"}},
        {"republish": {"src": "S.>", "dest": "R.>", "headers_only": True}},
    )


@scenario()
def pedantic_mode_refuses_silent_changes(run: Run) -> None:
    attempts(
        run,
        {"pedantic": True, "max_age": 60 * SECOND},
        {"pedantic": True, "max_age": 60 * SECOND, "duplicate_window": 60 * SECOND},
        {"pedantic": True, "max_msgs": 0},
        {"pedantic": True},
        {"pedantic": True, "subject_delete_marker_ttl": 5 * SECOND},
    )


@scenario()
def update_needs_an_existing_stream(run: Run) -> None:
    run.update_stream("S")
    run.api("STREAM.UPDATE.S", b"")
    run.api("STREAM.UPDATE.S", {"name": "T"})
    run.api("STREAM.UPDATE.S", {"name": "S", "zzz": 1})


@scenario()
def update_replaces_the_whole_config(run: Run) -> None:
    run.stream("S", max_msgs=10, description="first", metadata={"a": "1"})
    run.update_stream("S", max_bytes=10_000, subjects=["S.>", "extra"])
    run.stream_info("S")
    run.publish("extra", "x")


@scenario()
def update_refuses_what_may_not_change(run: Run) -> None:
    run.stream("S")
    run.update_stream("S", storage="memory")
    run.update_stream("S", retention="workqueue")
    run.update_stream("S", retention="interest")
    run.update_stream("S", retention="limits")
    run.update_stream("S", num_replicas=3)
    run.update_stream("S", mirror={"name": "O"})
    run.update_stream("S", persist_mode="async")
    run.update_stream("S", allow_msg_counter=True)
    run.update_stream("S", first_seq=100)
    run.update_stream("S", name_is_unknown=True)


@scenario()
def update_refuses_to_take_back_promises(run: Run) -> None:
    run.stream("S", deny_delete=True, deny_purge=True, allow_msg_ttl=True)
    run.update_stream("S", deny_purge=True, allow_msg_ttl=True)
    run.update_stream("S", deny_delete=True, allow_msg_ttl=True)
    run.update_stream("S", deny_delete=True, deny_purge=True)
    run.stream("T", allow_msg_schedules=True)
    run.update_stream("T")
    run.stream("C", allow_msg_counter=True)
    run.update_stream("C")


@scenario()
def lower_limits_take_effect_at_once(run: Run) -> None:
    run.stream("S")
    run.fill("S.a", 6)
    run.fill("S.b", 4)
    run.update_stream("S", max_msgs=7)
    run.stream_info("S")
    run.update_stream("S", max_msgs_per_subject=2)
    run.stream_info("S", {"subjects_filter": ">"})


@scenario()
def sealing_freezes_the_stream(run: Run) -> None:
    run.stream("S")
    run.fill("S.a", 2)
    run.update_stream("S", sealed=True)
    run.publish("S.a", "x")
    run.api("STREAM.MSG.DELETE.S", {"seq": 1})
    run.api("STREAM.PURGE.S")
    run.update_stream("S", sealed=False)
    run.update_stream("S", sealed=True, description="still")
    run.api("STREAM.DELETE.S")


@scenario()
def consumer_limits_hold_for_existing_consumers(run: Run) -> None:
    run.stream("S")
    run.consumer("S", "C", max_ack_pending=100)
    run.update_stream("S", consumer_limits={"max_ack_pending": 10})
    run.update_stream("S", consumer_limits={"max_ack_pending": 200})
    run.consumer("S", "D", max_ack_pending=300)
    run.consumer("S", "E")


@scenario()
def deleted_streams_are_gone(run: Run) -> None:
    run.stream("S")
    run.api("STREAM.DELETE.S", {"x": 1})
    run.api("STREAM.DELETE.S")
    run.api("STREAM.DELETE.S")
    run.stream_info("S")
    frame = run.client.request("S.a", b"x")
    run.record_message(frame)


@scenario()
def cluster_only_calls_are_refused(run: Run) -> None:
    run.stream("S")
    run.consumer("S", "C")
    for subject in ("STREAM.LEADER.STEPDOWN.S", "CONSUMER.LEADER.STEPDOWN.S.C"):
        run.api(subject)
    run.api("STREAM.PEER.REMOVE.S", {"peer": "x"})


@scenario()
def unknown_api_subjects_stay_silent(run: Run) -> None:
    run.api_silence("NOPE")
    run.api_silence("STREAM.TEMPLATE.NAMES")
    run.api_silence("STREAM.CREATE")
    run.api_silence("STREAM.INFO.a.b")
    run.api_silence("META.LEADER.STEPDOWN")


@scenario()
def required_api_level_is_checked(run: Run) -> None:
    run.api("STREAM.CREATE.S", {"name": "S"}, headers=[("Nats-Required-Api-Level", "99")])
    run.api("STREAM.CREATE.S", {"name": "S"}, headers=[("Nats-Required-Api-Level", "2")])
    run.api("STREAM.INFO.S", headers=[("Nats-Required-Api-Level", "6")])
