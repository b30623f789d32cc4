"""`jetspark consumer` does what `nats consumer` does, on any server."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import Jetspark
from tests.cli.terminal import Background

from jetspark.cli.consumer_options import linear_backoff, pause_moment, sample_text, start_document
from jetspark.cli.errors import UsageError
from jetspark.sync import connect

SECOND = 1_000_000_000


@pytest.fixture
def stream(jetspark: Jetspark, name: str) -> Jetspark:
    """A stream with five messages on two subjects."""
    jetspark.run("stream", "rm", name, "--force")
    jetspark("stream", "add", name, "--subjects", f"{name}.*", "--storage", "memory")
    for number, word in enumerate(["a", "b", "a", "b", "a"], 1):
        jetspark("pub", f"{name}.{word}", f"message {number}", "--quiet")
    return jetspark


def test_every_setting_on_the_line_is_the_consumer_s(stream: Jetspark, name: str) -> None:
    line = (
        f"--pull --filter {name}.a,{name}.b --ack explicit --deliver new --max-deliver 5 --max-pending 50"
        " --max-waiting 20 --max-pull-batch 10 --max-pull-expire 1m --max-pull-bytes 1MiB --headers-only --memory"
        " --inactive-threshold 1h --backoff linear --backoff-steps 3 --backoff-min 1s --backoff-max 5s --sample 30%"
        " --description words --metadata team:blue --pause 1h --replicas 1"
    )
    shown = stream("consumer", "add", name, "C", *line.split())

    config = stream.json("consumer", "info", name, "C")["config"]
    expected = {
        "durable_name": "C",
        "filter_subjects": [f"{name}.a", f"{name}.b"],
        "ack_policy": "explicit",
        "deliver_policy": "new",
        "max_deliver": 5,
        "max_ack_pending": 50,
        "max_waiting": 20,
        "max_batch": 10,
        "max_expires": 60 * SECOND,
        "max_bytes": 1 << 20,
        "headers_only": True,
        "mem_storage": True,
        "inactive_threshold": 3600 * SECOND,
        "backoff": [SECOND, 3 * SECOND, 5 * SECOND],
        "sample_freq": "30",
        "description": "words",
        "num_replicas": 1,
    }
    assert {key: config.get(key) for key in expected} == expected
    assert config["metadata"]["team"] == "blue"
    for row in ("Backoff: 1s, 3s, 5s", "Sampling Rate: 30", "Max Pull MaxBytes: 1.0 MiB", "Paused Until Deadline: 20"):
        assert row in shown


def test_a_filter_may_be_a_pattern(stream: Jetspark, name: str) -> None:
    shown = stream("consumer", "add", name, "C", "--pull", "--filter", f"{name}.*")

    assert f"Filter Subject: {name}.*" in shown
    assert "Unprocessed Messages: 5" in shown


def test_a_push_consumer_has_its_own_settings(stream: Jetspark, name: str) -> None:
    line = f"--target to.{name} --deliver-group workers --heartbeat 5s --deliver last --replay original --bps 1000000"
    shown = stream("consumer", "add", name, "P", *line.split(), "--ack", "all", "--wait", "10s")

    config = stream.json("consumer", "info", name, "P")["config"]
    assert "Active Interest: No interest" in shown
    assert (config["deliver_subject"], config["deliver_group"], config["idle_heartbeat"]) == (
        f"to.{name}",
        "workers",
        5 * SECOND,
    )
    assert (config["ack_policy"], config["ack_wait"], config["rate_limit_bps"]) == ("all", 10 * SECOND, 1_000_000)
    assert stream.run("consumer", "next", name, "P").exit_code == 2


@pytest.mark.parametrize(
    ("deliver", "expected"),
    [
        ("all", {"deliver_policy": "all"}),
        ("last", {"deliver_policy": "last"}),
        ("new", {"deliver_policy": "new"}),
        ("subject", {"deliver_policy": "last_per_subject"}),
        ("10", {"deliver_policy": "by_start_sequence", "opt_start_seq": 10}),
        ("2m", {"deliver_policy": "by_start_time", "opt_start_time": "2001-09-09T01:44:40Z"}),
        ("1h", {"deliver_policy": "by_start_time", "opt_start_time": "2001-09-09T00:46:40Z"}),
    ],
)
def test_deliver_takes_a_word_a_sequence_or_a_duration(deliver: str, expected: dict[str, object]) -> None:
    assert start_document(deliver, 1_000_000_000 * SECOND) == expected


@pytest.mark.parametrize("deliver", ["first", "0", "-5", "2x", "1.5"])
def test_no_place_to_start_is_answered_with_some(deliver: str) -> None:
    with pytest.raises(UsageError, match="is no place to start") as caught:
        start_document(deliver, 0)

    assert "all, last, new, subject" in caught.value.hint


def test_the_first_message_is_the_one_the_policy_names(stream: Jetspark, name: str) -> None:
    first = {}
    for deliver in ("all", "last", "subject", "3"):
        stream("consumer", "add", name, f"D{deliver}", "--pull", "--deliver", deliver)
        first[deliver] = json.loads(stream("consumer", "next", name, f"D{deliver}", "--json"))["stream_seq"]

    assert first == {"all": 1, "last": 5, "subject": 4, "3": 3}


def test_next_acknowledges_naks_or_terminates(stream: Jetspark, name: str) -> None:
    stream("consumer", "add", name, "C", "--pull")

    taken = stream("consumer", "next", name, "C", "--count", "2")
    refused = stream("consumer", "next", name, "C", "--nak")
    again = stream("consumer", "next", name, "C", "--term")
    raw = stream("consumer", "next", name, "C", "--raw")

    assert taken.count("Acknowledged message") == 2
    assert "Negatively acknowledged message" in refused
    assert f"subj: {name}.a / tries: 2 / cons seq: 4 / str seq: 3 / pending: 2" in again
    assert "Terminated message" in again
    assert raw == "message 4\n"
    info = stream.json("consumer", "info", name, "C")
    assert (info["ack_floor"]["stream_seq"], info["num_ack_pending"], info["num_pending"]) == (4, 0, 1)


def test_lists_reports_and_searches_show_the_consumers(stream: Jetspark, name: str) -> None:
    stream("consumer", "add", name, "PULL", "--pull")
    stream("consumer", "add", name, "PUSH", "--target", f"to.{name}")

    assert stream("consumer", "ls", name, "--names").split() == ["PULL", "PUSH"]
    assert "Unprocessed" in stream("con", "ls", name)
    assert f"Consumer report for {name} with 2 consumers" in stream("consumer", "report", name)
    assert "5 / 100%" in stream("consumer", "report", name)
    assert stream("consumer", "find", name, "--push", "--names").split() == ["PUSH"]
    assert stream("consumer", "find", name, "--pending", "5", "--names") == ""
    assert stream("consumer", "find", name, "--bound", "--invert", "--names").split() == ["PULL", "PUSH"]
    state = stream.json("consumer", "state", name, "PULL")
    assert (state["num_pending"], state["config"]["durable_name"]) == (5, "PULL")
    assert stream.json("consumer", "ls", name) == ["PULL", "PUSH"]
    assert [one["name"] for one in stream.json("consumer", "report", name)] == ["PULL", "PUSH"]


def test_an_edit_changes_what_is_named_and_leaves_the_rest(stream: Jetspark, name: str) -> None:
    stream("consumer", "add", name, "C", "--pull", "--filter", f"{name}.a", "--sample", "10")
    before = stream.json("consumer", "info", name, "C")["config"]

    stream("consumer", "edit", name, "C", "--max-pending", "7", "--force")

    after = stream.json("consumer", "info", name, "C")["config"]
    assert {key for key in after if after[key] != before.get(key)} == {"max_ack_pending"}
    assert after["max_ack_pending"] == 7


def test_a_copy_has_the_settings_under_another_name(stream: Jetspark, name: str) -> None:
    stream("consumer", "add", name, "C", "--target", f"to.{name}", "--filter", f"{name}.a", "--ack", "explicit")

    stream("consumer", "copy", name, "C", "D", "--pull", "--max-deliver", "3")

    config = stream.json("consumer", "info", name, "D")["config"]
    assert (config["filter_subject"], config["max_deliver"], config["ack_policy"]) == (f"{name}.a", 3, "explicit")
    assert "deliver_subject" not in config


def test_a_paused_consumer_delivers_nothing_until_it_is_resumed(stream: Jetspark, name: str) -> None:
    stream("consumer", "add", name, "C", "--pull")

    paused = stream("consumer", "pause", name, "C", "1h", "--force")
    while_paused = stream.run("consumer", "next", name, "C", "--wait", "100ms")
    resumed = stream("consumer", "resume", name, "C", "--force")

    assert f"Paused {name} > C until 20" in paused
    assert while_paused.exit_code == 5
    assert "was resumed" in resumed
    assert "is not paused" in stream("consumer", "resume", name, "C", "--force")
    assert "message 1" in stream("consumer", "next", name, "C")


def test_a_pause_is_a_duration_or_a_time_to_come() -> None:
    assert pause_moment("1h", 0) == "1970-01-01T01:00:00Z"
    assert pause_moment("2030-01-31T12:00:00+00:00", 0) == "2030-01-31T12:00:00Z"
    with pytest.raises(UsageError, match="neither a duration such as 1h nor a time"):
        pause_moment("later", 0)


def test_a_reset_goes_back_to_a_sequence(stream: Jetspark, name: str) -> None:
    stream("consumer", "add", name, "C", "--pull")
    stream("consumer", "next", name, "C", "--count", "5")

    shown = stream("consumer", "reset", name, "C", "--sequence", "2", "--force")

    assert "Unprocessed Messages: 4" in shown
    assert json.loads(stream("consumer", "next", name, "C", "--json"))["stream_seq"] == 2


def test_a_pinned_client_is_shown_and_unpinned(stream: Jetspark, name: str) -> None:
    stream("consumer", "add", name, "C", "--pull", "--pinned-groups", "jobs", "--pinned-ttl", "1m")
    empty = stream("consumer", "unpin", name, "C", "jobs", "--force")
    with connect(stream.url) as connection:
        message = connection.jetstream().consumer(name, "C").next(group="jobs")
        assert message is not None
        pinned = stream("consumer", "info", name, "C")

        unpinned = stream("consumer", "unpin", name, "C", "jobs", "--force")

    assert "No client was pinned" in empty
    assert "Priority Policy: Pinned Client" in pinned
    assert f"jobs: pinned {message.headers['Nats-Pin-Id']} at 20" in pinned
    assert f"Unpinned client {message.headers['Nats-Pin-Id']}" in unpinned
    assert "jobs: No client" in stream("consumer", "info", name, "C")
    assert "groups here: jobs" in stream.run("consumer", "unpin", name, "C", "other", "--force").stderr


def test_next_pulls_for_the_only_priority_group(stream: Jetspark, name: str) -> None:
    stream("consumer", "add", name, "C", "--pull", "--overflow-groups", "jobs")

    few = stream.run("consumer", "next", name, "C", "--min-pending", "100", "--wait", "100ms")
    enough = stream("consumer", "next", name, "C", "--min-pending", "2", "--raw")

    assert few.exit_code == 5
    assert enough == "message 1\n"


@pytest.mark.long
def test_sub_shows_the_messages_of_a_pull_consumer_and_takes_no_more(stream: Jetspark, name: str) -> None:
    stream("consumer", "add", name, "C", "--pull")

    shown = stream("consumer", "sub", name, "C", "--count", "2")

    info = stream.json("consumer", "info", name, "C")
    assert shown.count("Acknowledged message") == 2
    assert (info["delivered"]["stream_seq"], info["num_ack_pending"]) == (2, 0)
    assert stream("consumer", "sub", name, "C", "--wait", "200ms", "--raw") == "message 3\nmessage 4\nmessage 5\n"


@pytest.mark.long
def test_sub_shows_the_messages_of_a_push_consumer(stream: Jetspark, name: str) -> None:
    stream("consumer", "add", name, "C", "--target", f"to.{name}", "--deliver-group", "g", "--ack", "explicit")

    with Background(stream, "consumer", "sub", name, "C", "--count", "5", ready="Showing messages") as running:
        shown = running.output()

    assert shown.count("Acknowledged message") == 5
    assert stream.json("consumer", "info", name, "C")["ack_floor"]["stream_seq"] == 5


def test_a_removed_consumer_is_gone(stream: Jetspark, name: str) -> None:
    stream("consumer", "add", name, "C", "--pull")

    assert stream.run("consumer", "rm", name, "C").exit_code == 2
    stream("consumer", "rm", name, "C", "--force")

    assert stream("consumer", "ls", name, "--names") == ""


def test_backoff_steps_are_even_and_sampling_is_a_percentage() -> None:
    assert linear_backoff(3, SECOND, 5 * SECOND) == [SECOND, 3 * SECOND, 5 * SECOND]
    assert linear_backoff(1, SECOND, 5 * SECOND) == [SECOND]
    assert (sample_text("80"), sample_text("80%"), sample_text("0"), sample_text("-1")) == ("80", "80", "", "")
    with pytest.raises(UsageError, match="not a percentage"):
        sample_text("101")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["--pull", "--target", "x"], "--pull and --target exclude each other"),
        (["--pinned-groups", "a", "--overflow-groups", "b"], "give one of --pinned-groups"),
        (["--pinned-ttl", "1m"], "--pinned-ttl goes with --pinned-groups"),
        (["--heartbeat", "often"], "--heartbeat: 'often' is not a duration"),
        (["--deliver", "never"], "is no place to start"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(ours: Jetspark, line: list[str], told: str) -> None:
    result = ours.run("consumer", "add", "NEVER", "C", *line)

    assert result.exit_code == 2
    assert told in result.stderr


def test_what_exists_with_other_settings_is_to_be_edited(jetspark: Jetspark, name: str) -> None:
    jetspark.run("stream", "rm", name, "--force")
    jetspark("stream", "add", name, "--subjects", name, "--defaults")
    jetspark("consumer", "add", name, "C", "--pull", "--ack", "explicit", "--defaults")

    stream = jetspark.run("stream", "add", name, "--subjects", f"{name}.other", "--defaults")
    consumer = jetspark.run("consumer", "add", name, "C", "--pull", "--ack", "none", "--defaults")

    assert (stream.exit_code, consumer.exit_code) == (1, 1)
    assert f"Change it with: jetspark stream edit {name}" in stream.stderr
    assert f"Change it with: jetspark consumer edit {name} C" in consumer.stderr
