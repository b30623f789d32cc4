"""`jetspark stream` does what `nats stream` does, on any server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Jetspark

from jetspark.cli.stream_look import runs


@pytest.fixture
def stream(jetspark: Jetspark, name: str) -> Jetspark:
    """A stream with five messages on three subjects."""
    jetspark.run("stream", "rm", name, "--force")
    jetspark("stream", "add", name, "--subjects", f"{name}.*", "--storage", "memory")
    for number, word in enumerate(["a", "b", "a", "c", "a"], 1):
        jetspark("pub", f"{name}.{word}", f"message {number}", "--quiet")
    return jetspark


def state(jetspark: Jetspark, name: str) -> dict[str, int]:
    found: dict[str, int] = jetspark.json("stream", "info", name)["state"]
    return found


def test_every_setting_on_the_line_is_the_stream_s(jetspark: Jetspark, name: str) -> None:
    jetspark.run("stream", "rm", name, "--force")
    line = (
        f"--subjects {name}.a,{name}.b --subjects {name}.c --description words --storage file --compression s2"
        " --retention work --discard new --discard-per-subject --max-age 1h --max-bytes 10MiB --max-consumers 7"
        " --max-msg-size 1KiB --max-msgs 1000 --max-msgs-per-subject 10 --dupe-window 30s --no-ack --allow-rollup"
        " --deny-delete --no-allow-direct --allow-msg-ttl --subject-del-markers-ttl 1m --metadata team:blue"
        f" --republish-source {name}.a --republish-destination copy.{name}.a --republish-headers --first-sequence 100"
        " --allow-batch"
    )
    shown = jetspark("stream", "add", name, *line.split())

    config = jetspark.json("stream", "info", name)["config"]
    second = 1_000_000_000
    assert f"Stream {name} was created" in shown
    assert "Compression: S2 Compression" in shown
    assert "Maximum Bytes: 10 MiB" in shown
    assert "team: blue" in shown
    expected = {
        "subjects": [f"{name}.a", f"{name}.b", f"{name}.c"],
        "description": "words",
        "storage": "file",
        "compression": "s2",
        "retention": "workqueue",
        "discard": "new",
        "discard_new_per_subject": True,
        "max_age": 3600 * second,
        "max_bytes": 10 << 20,
        "max_consumers": 7,
        "max_msg_size": 1024,
        "max_msgs": 1000,
        "max_msgs_per_subject": 10,
        "duplicate_window": 30 * second,
        "no_ack": True,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": False,
        "allow_msg_ttl": True,
        "subject_delete_marker_ttl": 60 * second,
        "republish": {"src": f"{name}.a", "dest": f"copy.{name}.a", "headers_only": True},
        "first_seq": 100,
        "allow_atomic": True,
    }
    assert {key: config.get(key) for key in expected} == expected
    assert config["metadata"]["team"] == "blue"


def test_a_configuration_goes_to_a_file_and_comes_back(jetspark: Jetspark, name: str, tmp_path: Path) -> None:
    file = tmp_path / "stream.json"
    jetspark("stream", "add", name, "--subjects", name, "--storage", "memory", "--output", str(file))
    absent = jetspark.run("stream", "info", name)

    valid = jetspark("stream", "add", "--config", str(file), "--validate")
    jetspark("stream", "add", "--config", str(file))

    assert absent.exit_code == 4
    assert "is valid" in valid
    assert jetspark.json("stream", "info", name)["config"]["storage"] == "memory"


def test_lists_and_reports_show_the_stream(stream: Jetspark, name: str) -> None:
    assert name in stream("stream", "ls", "--names").split()
    assert name in stream.json("stream", "ls")
    assert name in [one["config"]["name"] for one in stream.json("stream", "report")]
    assert stream.json("stream", "state", name).keys() == stream.json("stream", "info", name).keys()
    assert any(name in line and " 5 " in line for line in stream("stream", "ls").splitlines())
    assert any(name in line and "Memory" in line for line in stream("stream", "report", "--messages").splitlines())
    assert stream("stream", "ls", "--names", "--subject", f"{name}.a").split() == [name]
    assert stream("stream", "find", "--subject", f"{name}.a", "--names").split() == [name]
    assert stream("stream", "find", "--subject", f"{name}.a", "--empty", "--names") == ""
    assert stream("stream", "find", "--subject", f"{name}.a", "--empty", "--invert", "--names").split() == [name]


def test_streams_of_buckets_are_listed_when_asked(jetspark: Jetspark, name: str) -> None:
    jetspark("kv", "add", name)

    assert f"KV_{name}" not in jetspark("stream", "ls", "--names").split()
    assert f"KV_{name}" in jetspark("stream", "ls", "--names", "--all").split()


def test_subjects_are_counted(stream: Jetspark, name: str) -> None:
    counts = stream.json("stream", "subjects", name)

    assert counts == {f"{name}.a": 3, f"{name}.b": 1, f"{name}.c": 1}
    assert list(counts)[-1] == f"{name}.a"
    assert stream("stream", "subjects", name, f"{name}.b", "--names") == f"{name}.b\n"
    assert f"3 Subjects in stream {name}" in stream("stream", "subjects", name, "--sort", "name")


def test_one_message_is_got_by_sequence_or_as_the_last_of_a_subject(stream: Jetspark, name: str) -> None:
    shown = stream("stream", "get", name, "2")

    assert f"Item: {name}#2 received" in shown
    assert f"on Subject {name}.b" in shown
    assert shown.endswith("message 2\n")
    assert stream.json("stream", "get", name, "--last-for", f"{name}.a")["seq"] == 5
    assert stream("stream", "get", name, "-S", f"{name}.c", "--translate", "tr a-z A-Z").endswith("MESSAGE 4\n")
    assert stream("stream", "get", name, "1", "--raw") == "message 1"
    assert stream.run("stream", "get", name, "-S", f"{name}.z").exit_code == 4


def test_a_message_with_headers_and_any_bytes_is_a_document(stream: Jetspark, name: str) -> None:
    stream("pub", f"{name}.a", "-H", "A:1", "-H", "A:2", stdin=b"\xff\x00")

    document = stream.json("stream", "get", name, "6")

    assert document["headers"] == {"A": ["1", "2"]}
    assert document["data_base64"] == "/wA="


def test_a_stream_is_viewed_from_where_it_is_told(stream: Jetspark, name: str) -> None:
    def sequences(*options: str) -> list[int]:
        return [json.loads(line)["seq"] for line in stream("stream", "view", name, *options, "--json").splitlines()]

    assert sequences() == [1, 2, 3, 4, 5]
    assert sequences("2") == [1, 2]
    assert sequences("--id", "3") == [3, 4, 5]
    assert sequences("--subject", f"{name}.a") == [1, 3, 5]
    assert sequences("--since", "1h") == [1, 2, 3, 4, 5]
    assert stream("stream", "view", name, "1", "--raw") == "message 1\n"
    assert f"[1] Subject: {name}.a Received: 20" in stream("stream", "view", name)


def test_an_edit_shows_the_difference_and_leaves_the_rest(stream: Jetspark, name: str) -> None:
    before = stream.json("stream", "info", name)["config"]
    dry = stream.run("stream", "edit", name, "--max-msgs", "2", "--dry-run")
    unchanged = stream.json("stream", "info", name)["config"]

    stream("stream", "edit", name, "--max-msgs", "2", "--force")

    after = stream.json("stream", "info", name)
    assert '+  "max_msgs": 2' in dry.stderr
    assert unchanged == before
    assert {key for key in after["config"] if after["config"][key] != before.get(key)} == {"max_msgs"}
    assert after["state"]["messages"] == 2
    assert "No difference" in stream.run("stream", "edit", name, "--max-msgs", "2", "--force").stderr


def test_a_purge_removes_what_the_options_pick(stream: Jetspark, name: str) -> None:
    assert stream.json("stream", "purge", name, "--subject", f"{name}.b", "--force")["purged"] == 1
    assert stream.json("stream", "purge", name, "--seq", "3", "--force")["purged"] == 1
    assert stream.json("stream", "purge", name, "--keep", "1", "--force")["purged"] == 2
    assert "Purged 1 messages" in stream("stream", "purge", name, "--force")
    assert state(stream, name)["messages"] == 0


def test_a_large_purge_goes_in_steps(stream: Jetspark, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jetspark.cli.stream_make.PURGE_STEP", 2)

    result = stream.run("stream", "purge", name, "--force", "--json", "--trace")

    assert json.loads(result.stdout)["purged"] == 5
    assert result.stderr.count(f">>> $JS.API.STREAM.PURGE.{name}") == 3
    assert state(stream, name)["messages"] == 0


def test_removed_messages_are_gaps(stream: Jetspark, name: str) -> None:
    nothing = stream("stream", "gaps", name)
    for sequence in ("2", "3"):
        stream("stream", "rmm", name, sequence, "--force")

    assert f"No deleted messages in {name}" in nothing
    assert stream.json("stream", "gaps", name) == [{"first_seq": 2, "last_seq": 3}]
    assert runs((2, 3, 5, 9, 10)) == [(2, 3), (5, 5), (9, 10)]


def test_a_sealed_stream_takes_nothing_more(stream: Jetspark, name: str) -> None:
    stream("stream", "seal", name, "--force")

    assert stream.json("stream", "info", name)["config"]["sealed"] is True
    assert stream.run("pub", "-J", f"{name}.a", "x").exit_code == 1


def test_a_removed_stream_is_gone(stream: Jetspark, name: str) -> None:
    assert stream.run("stream", "rm", name).exit_code == 2
    stream("stream", "rm", name, "--force")

    assert stream.run("stream", "info", name).exit_code == 4


def test_a_backup_comes_back_with_its_messages_and_consumers(jetspark: Jetspark, name: str, tmp_path: Path) -> None:
    jetspark.run("stream", "rm", name, "--force")
    jetspark("stream", "add", name, "--subjects", f"{name}.*")
    jetspark("pub", f"{name}.a", "x {{Count}}", "--count", "30")
    jetspark("consumer", "add", name, "C", "--pull")
    jetspark("consumer", "next", name, "C")
    before = jetspark.json("stream", "info", name)

    told = jetspark.json("stream", "backup", name, str(tmp_path / "saved"), "--check", "--chunk-size", "1KiB")
    again = jetspark.run("stream", "backup", name, str(tmp_path / "saved"))
    jetspark("stream", "rm", name, "--force")
    shown = jetspark("stream", "restore", str(tmp_path / "saved"))

    after = jetspark.json("stream", "info", name)
    assert told["messages"] == 30
    assert "already holds a backup" in again.stderr
    assert f"Restored stream {name}" in shown
    assert after["state"] == before["state"]
    assert jetspark.json("consumer", "info", name, "C")["ack_floor"]["stream_seq"] == 1
    assert jetspark.run("stream", "restore", str(tmp_path)).exit_code == 4


@pytest.mark.parametrize("settings", ["{bad", "[1]", '{"config": 1}', "{}"])
def test_a_damaged_backup_is_refused_by_name(ours: Jetspark, settings: str, tmp_path: Path) -> None:
    (tmp_path / "backup.json").write_text(settings)
    (tmp_path / "stream.tar.s2").write_bytes(b"junk")

    for more in [], ["--replicas", "1"]:
        result = ours.run("stream", "restore", str(tmp_path), *more)

        assert result.exit_code == 2
        assert f"{tmp_path}/backup.json is not of a backup" in result.stderr


def test_a_message_that_is_not_there_cannot_be_removed(stream: Jetspark, name: str) -> None:
    result = stream.run("stream", "rmm", name, "99", "--force")

    assert result.exit_code == 4
    assert f"no message 99 in {name}, which holds 1 to 5" in result.stderr


def test_a_backup_without_consumers_leaves_them_behind(jetspark: Jetspark, name: str, tmp_path: Path) -> None:
    jetspark.run("stream", "rm", name, "--force")
    jetspark("stream", "add", name, "--subjects", f"{name}.*")
    jetspark("consumer", "add", name, "C", "--pull")

    jetspark("stream", "backup", name, str(tmp_path / "saved"), "--no-consumers")
    jetspark("stream", "rm", name, "--force")
    jetspark("stream", "restore", str(tmp_path / "saved"))

    assert jetspark("consumer", "ls", name, "--names") == ""


@pytest.mark.long
def test_a_copy_has_the_settings_and_when_asked_the_messages(stream: Jetspark, name: str) -> None:
    for suffix in ("2", "3"):
        stream.run("stream", "rm", name + suffix, "--force")
    stream("consumer", "add", name, "C", "--pull")
    overlap = stream.run("stream", "copy", name, name + "2")

    stream("stream", "copy", name, name + "2", "--subjects", f"{name}2.*", "--max-msgs", "9")

    empty = stream.json("stream", "info", name + "2")
    assert overlap.exit_code == 2
    assert "--subjects" in overlap.stderr
    assert (empty["state"]["messages"], empty["config"]["max_msgs"], empty["config"]["storage"]) == (0, 9, "memory")


def test_a_copy_with_data_keeps_sequences_times_and_consumers(jetspark: Jetspark, name: str) -> None:
    for suffix in ("", "3"):
        jetspark.run("stream", "rm", name + suffix, "--force")
    jetspark("stream", "add", name, "--subjects", f"{name}.*")
    jetspark("pub", f"{name}.a", "x {{Count}}", "--count", "5")
    jetspark("stream", "rmm", name, "2", "--force")
    jetspark("consumer", "add", name, "C", "--pull")

    jetspark("stream", "copy", name, name + "3", "--subjects", f"{name}3.*", "--data")

    def messages(stream: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in jetspark("stream", "view", stream, "--json").splitlines()]

    assert messages(name + "3") == messages(name)
    assert [message["seq"] for message in messages(name)] == [1, 3, 4, 5]
    assert jetspark("consumer", "ls", name + "3", "--names") == "C\n"


def test_a_mirror_and_its_lag_are_shown(stream: Jetspark, name: str) -> None:
    stream.run("stream", "rm", name + "_MIRROR", "--force")
    shown = stream("stream", "add", name + "_MIRROR", "--mirror", name, "--storage", "memory")

    assert f"Mirror: {name}" in shown
    assert "Mirror Information:" in stream("stream", "info", name + "_MIRROR")
    assert "Replication Report" in stream("stream", "report")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["--metadata", "x"], "is not KEY:VALUE"),
        (["--republish-source", "a"], "--republish-destination need each other"),
        (["--config", "/nonexistent"], "cannot be read"),
        (["--max-bytes", "lots"], "is not a size"),
        (["--retention", "forever"], "is not one of"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(ours: Jetspark, line: list[str], told: str) -> None:
    result = ours.run("stream", "add", "NEVER", "--subjects", "never", *line)

    assert result.exit_code == 2
    assert told in result.stderr
