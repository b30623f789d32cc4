"""`jetspark kv` does what `nats kv` does, on any server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Jetspark, url_of

from jetspark.sync import connect
from jetspark.testing.processes import ServerProcess


def test_a_bucket_shows_what_it_was_made_with(jetspark: Jetspark, bucket: str) -> None:
    shown = jetspark(
        "kv", "add", bucket, "--history", "5", "--ttl", "1h", "--max-bucket-size", "1MiB", "--max-value-size", "1KiB",
        "--description", "settings", "--storage", "m", "--metadata", "team=blue",
    )  # fmt: skip

    assert f"Information for Key-Value Store Bucket {bucket} created" in shown
    for row in (
        "History Kept: 5",
        "Maximum Age: 1h0m0s",
        "Maximum Bucket Size: 1.0 MiB",
        "Maximum Value Size: 1.0 KiB",
        "Description: settings",
        "Storage: Memory",
        "team: blue",
        f"JetStream Stream: KV_{bucket}",
    ):
        assert row in shown
    document = jetspark.json("kv", "status", bucket)
    assert document["bucket"] == bucket
    assert document["config"]["max_msgs_per_subject"] == 5


def test_put_get_update_and_the_history_of_a_key(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket, "--history", "5")

    assert jetspark("kv", "put", bucket, "user", "bob") == "bob\n"
    assert jetspark.json("kv", "update", bucket, "user", "alice", "1") == {
        "bucket": bucket,
        "key": "user",
        "revision": 2,
    }

    assert jetspark("kv", "get", bucket, "user", "--raw") == "alice"
    assert jetspark("kv", "get", bucket, "user").startswith(f"{bucket} > user revision: 2 created @ ")
    assert jetspark.json("kv", "get", bucket, "user", "--revision", "1")["value"] == "bob"
    assert [(entry["revision"], entry["value"]) for entry in jetspark.json("kv", "history", bucket, "user")] == [
        (1, "bob"),
        (2, "alice"),
    ]
    assert "alice" in jetspark("kv", "history", bucket, "user")


def test_a_value_may_come_from_a_pipe_and_be_any_bytes(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket)

    jetspark("kv", "put", bucket, "raw", stdin=b"\xff\x00two\nlines")

    result = jetspark.run("kv", "get", bucket, "raw", "--raw")
    assert result.stdout_bytes == b"\xff\x00two\nlines"
    assert jetspark.json("kv", "get", bucket, "raw")["value_base64"] == "/wB0d28KbGluZXM="
    # A person's terminal gets no control characters from a value.
    assert "\\xff\\x00two" in jetspark("kv", "get", bucket, "raw")


def test_a_long_value_is_cut_for_people_and_whole_with_raw(ours: Jetspark, bucket: str) -> None:
    ours("kv", "add", bucket)
    ours("kv", "put", bucket, "long", "x" * 500)

    shown = ours("kv", "get", bucket, "long")
    assert "Showing first 120 bytes of 500" in shown
    assert "x" * 121 not in shown
    assert ours("kv", "get", bucket, "long", "--raw") == "x" * 500


def test_create_refuses_a_key_that_is_there_and_says_how_to_replace_it(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket)
    jetspark("kv", "create", bucket, "k", "1")

    result = jetspark.run("kv", "create", bucket, "k", "2")

    assert result.exit_code == 1
    assert "key k exists at revision 1" in result.stderr
    assert f"jetspark kv update {bucket} k VALUE 1" in result.stderr
    jetspark("kv", "del", bucket, "k", "--force")
    assert jetspark("kv", "create", bucket, "k", "3") == "3\n"


def test_update_refuses_a_revision_that_has_passed(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket)
    jetspark("kv", "put", bucket, "k", "1")
    jetspark("kv", "put", bucket, "k", "2")

    result = jetspark.run("kv", "update", bucket, "k", "3", "1")

    assert result.exit_code == 1
    assert "key k is not at revision 1" in result.stderr
    assert jetspark("kv", "get", bucket, "k", "--raw") == "2"


def test_a_key_that_is_not_there_is_exit_code_4_with_its_neighbours(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket)
    jetspark("kv", "put", bucket, "username", "bob")

    result = jetspark.run("kv", "get", bucket, "usrname")

    assert result.exit_code == 4
    assert "Did you mean username?" in result.stderr


def test_a_bucket_that_is_not_there_is_exit_code_4_with_those_that_are(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket)

    result = jetspark.run("kv", "get", "NOPE", "k")

    assert result.exit_code == 4
    assert "no bucket NOPE; buckets here: " in result.stderr
    assert bucket in result.stderr
    assert "jetspark kv add NOPE" in result.stderr


def test_deleting_needs_force_when_nobody_can_be_asked(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket)
    jetspark("kv", "put", bucket, "k", "v")

    result = jetspark.run("kv", "del", bucket, "k")

    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert jetspark("kv", "get", bucket, "k", "--raw") == "v"
    jetspark("kv", "del", bucket, "k", "--force")
    gone = jetspark.run("kv", "get", bucket, "k")
    assert gone.exit_code == 4
    assert "deleted at revision 2" in gone.stderr
    jetspark("kv", "rm", bucket, "--force")
    assert jetspark.run("kv", "info", bucket).exit_code == 4


def test_purge_takes_the_history_and_compact_the_marks(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket, "--history", "5")
    for value in ("1", "2", "3"):
        jetspark("kv", "put", bucket, "k", value)

    jetspark("kv", "purge", bucket, "k", "--force")
    assert [entry["operation"] for entry in jetspark.json("kv", "history", bucket, "k")] == ["PURGE"]

    assert jetspark.json("kv", "compact", bucket, "--force", "--older-than", "0s")["compacted"] == 1
    assert jetspark.json("kv", "info", bucket)["state"]["messages"] == 0


def test_revert_gives_a_key_its_earlier_value(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket, "--history", "5")
    jetspark("kv", "put", bucket, "k", "old")
    jetspark("kv", "put", bucket, "k", "new")

    assert jetspark("kv", "revert", bucket, "k", "1", "--force") == "old\n"

    entry = jetspark.json("kv", "get", bucket, "k")
    assert (entry["value"], entry["revision"]) == ("old", 3)
    beyond = jetspark.run("kv", "revert", bucket, "k", "99", "--force")
    assert (beyond.exit_code, "has no such revision" in beyond.stderr) == (4, True)


def test_lists_of_buckets_and_keys(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket, "--description", "listed")
    jetspark("kv", "put", bucket, "b.two", "2")
    jetspark("kv", "put", bucket, "a.one", "1")

    assert bucket in jetspark("kv", "ls", "--names").splitlines()
    assert "listed" in jetspark("kv", "ls")
    assert jetspark("kv", "ls", bucket) == "a.one\nb.two\n"
    assert jetspark.json("kv", "ls", bucket, "b.>") == ["b.two"]
    verbose = jetspark.json("kv", "ls", bucket, "--verbose", "--display-value")
    assert [(entry["key"], entry["value"]) for entry in verbose] == [("a.one", "1"), ("b.two", "2")]
    assert "value" not in jetspark.json("kv", "ls", bucket, "--verbose")[0]


def test_watch_shows_values_and_deletes_in_order(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket, "--history", "5")
    jetspark("kv", "put", bucket, "k", "1")
    jetspark("kv", "put", bucket, "k", "2")
    jetspark("kv", "del", bucket, "k", "--force")

    lines = jetspark("kv", "watch", bucket, "--history", "--count", "3").splitlines()
    assert [line.split("] ", 1)[1] for line in lines] == [
        f"PUT {bucket} > k: 1",
        f"PUT {bucket} > k: 2",
        f"DEL {bucket} > k",
    ]
    documents = jetspark("kv", "watch", bucket, "k", "--history", "--no-deletes", "--count", "2", "--json")
    assert [json.loads(line)["value"] for line in documents.splitlines()] == ["1", "2"]


def test_edit_changes_what_is_named_and_nothing_else(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket, "--history", "5", "--description", "before")

    config = jetspark.json("kv", "edit", bucket, "--description", "after", "--ttl", "1h")["config"]

    assert (config["description"], config["max_msgs_per_subject"]) == ("after", 5)
    assert config["max_age"] == 3_600_000_000_000
    assert jetspark.run("kv", "edit", bucket).exit_code == 2


def test_a_key_with_a_ttl_of_its_own_needs_marker_ttl(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", bucket, "--marker-ttl", "1m")

    jetspark("kv", "create", bucket, "short", "lived", "--ttl", "5m")

    with connect(jetspark.url) as connection:
        stored = connection.jetstream().stream(f"KV_{bucket}").get_last_msg(f"$KV.{bucket}.short")
    assert stored.headers["Nats-TTL"] == "300"


def test_a_bucket_mirrors_another_reads_from_itself_and_writes_to_the_other(jetspark: Jetspark, bucket: str) -> None:
    origin = f"{bucket}_origin"
    jetspark("kv", "add", origin, "--history", "3")
    jetspark("kv", "put", origin, "user.bob", "1")

    shown = jetspark("kv", "add", bucket, "--mirror", origin)
    jetspark("kv", "put", bucket, "user.bob", "2")
    with connect(jetspark.url) as connection, connection.jetstream().key_value(bucket).watch() as watcher:
        # The mirror follows by itself: its second value is waited for.
        seen = next(entry for entry in watcher if entry is not None and entry.value == b"2")

    assert "Mirror Information:" in shown
    assert f"Origin Bucket: {origin}" in shown
    assert (seen.bucket, seen.key, seen.revision) == (bucket, "user.bob", 2)
    assert jetspark("kv", "get", origin, "user.bob", "--raw") == "2"
    assert jetspark("kv", "get", bucket, "user.bob", "--raw") == "2"
    assert jetspark.json("kv", "ls", bucket) == ["user.bob"]
    assert {bucket, origin} <= set(jetspark.json("kv", "ls", "--names"))
    config = jetspark.json("kv", "info", bucket)["config"]
    assert (config["mirror"]["name"], config["mirror_direct"]) == (f"KV_{origin}", True)
    assert not config.get("subjects")


def test_a_mirror_cut_loose_is_a_bucket_of_its_own(jetspark: Jetspark, bucket: str) -> None:
    origin = f"{bucket}_origin"
    jetspark("kv", "add", origin)
    jetspark("kv", "put", origin, "there", "1")
    jetspark("kv", "add", bucket, "--mirror", origin)
    with connect(jetspark.url) as connection, connection.jetstream().key_value(bucket).watch() as watcher:
        assert next(entry for entry in watcher if entry is not None).key == "there"

    edited = jetspark.run("kv", "edit", bucket, "--no-mirror")
    jetspark("kv", "put", bucket, "here", "2")

    assert edited.exit_code == 0
    assert "Mirror Information:" not in edited.stdout
    # The keys it had are not its own: a person has to hear of that.
    assert f"stays stored as $KV.{origin}.>" in edited.stderr
    config = jetspark.json("kv", "info", bucket)["config"]
    assert (config.get("mirror"), config["mirror_direct"]) == (None, False)
    assert config["subjects"] == [f"$KV.{bucket}.>"]
    assert (jetspark.json("kv", "ls", bucket), jetspark.json("kv", "ls", origin)) == (["here"], ["there"])


@pytest.mark.oracle
def test_a_mirror_may_be_of_another_domain(nats_server: ServerProcess, tmp_path: Path, bucket: str) -> None:
    nats = Jetspark(url_of(nats_server), tmp_path)

    shown = nats("kv", "add", bucket, "--mirror", "THERE", "--mirror-domain", "hub")

    assert "External API: $JS.hub.API" in shown
    assert "Last Seen: never" in shown
    assert nats.run("kv", "add", "ALONE", "--mirror-domain", "hub").exit_code == 2


def test_a_bucket_sources_another(jetspark: Jetspark, bucket: str) -> None:
    jetspark("kv", "add", f"{bucket}_from")
    jetspark("kv", "put", f"{bucket}_from", "k", "v")

    jetspark("kv", "add", bucket, "--source", f"{bucket}_from")

    shown = jetspark("kv", "watch", bucket, "k", "--count", "1", "--json")
    assert json.loads(shown)["value"] == "v"


def test_a_bucket_takes_from_more_buckets_when_edited(jetspark: Jetspark, bucket: str) -> None:
    first, second = f"{bucket}_1", f"{bucket}_2"
    for origin in (first, second):
        jetspark("kv", "add", origin)
        jetspark("kv", "put", origin, origin, "v")
    jetspark("kv", "add", bucket, "--source", first)

    shown = jetspark("kv", "edit", bucket, "--source", f"KV_{second}")

    assert [line.split()[-1] for line in shown.splitlines() if "Source Bucket:" in line] == [first, second]
    watched = jetspark("kv", "watch", bucket, "--count", "2", "--json")
    assert {json.loads(line)["key"] for line in watched.splitlines()} == {first, second}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["kv", "get"], "BUCKET"),
        (["kv", "put", "{bucket}"], "KEY"),
        (["kv", "update", "{bucket}", "k"], "VALUE"),
        (["kv", "update", "{bucket}", "k", "v"], "REVISION"),
        (["kv", "add"], "BUCKET"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_missing_argument_is_named_in_a_script(ours: Jetspark, bucket: str, arguments: list[str], named: str) -> None:
    name = "MISSING_ARGUMENTS"
    ours("kv", "add", name)

    result = ours.run(*(word.format(bucket=name) for word in arguments))

    assert result.exit_code == 2
    assert named in result.stderr


def test_bad_names_and_sizes_are_told_apart_from_missing_ones(ours: Jetspark) -> None:
    assert ours.run("kv", "add", "no spaces").exit_code == 2
    assert "is not a size" in ours.run("kv", "add", "B", "--max-bucket-size", "big").stderr
    assert "is not KEY=VALUE" in ours.run("kv", "add", "B", "--metadata", "plain").stderr
