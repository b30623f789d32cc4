"""`jetspark object` does what `nats object` does, on any server."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tests.cli.conftest import Jetspark


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of several chunks."""
    path = tmp_path / "picture.bin"
    path.write_bytes(bytes(range(256)) * 1200)
    return path


def test_a_file_comes_back_as_it_was_put(jetspark: Jetspark, bucket: str, file: Path, tmp_path: Path) -> None:
    jetspark("object", "add", bucket, "--ttl", "1h")

    put = jetspark.json(
        "obj", "put", bucket, str(file), "--name", "a/b.bin", "-H", "kind:test", "--metadata", "k=v",
        "--description", "bytes", "--chunk-size", "64KiB",
    )  # fmt: skip
    back = tmp_path / "back.bin"
    told = jetspark("object", "get", bucket, "a/b.bin", "-O", str(back))

    assert back.read_bytes() == file.read_bytes()
    assert told == f"Wrote: 300 KiB to {back}\n"
    assert (put["size"], put["chunks"]) == (307_200, 5)
    assert (put["headers"], put["metadata"], put["description"]) == ({"kind": ["test"]}, {"k": "v"}, "bytes")
    shown = jetspark("object", "info", bucket, "a/b.bin")
    assert f"Object information for {bucket} > a/b.bin" in shown
    assert "Size: 300 KiB" in shown
    assert f"Digest: SHA-256 {hashlib.sha256(file.read_bytes()).hexdigest()}" in shown
    assert "kind: test" in shown


def test_stdin_needs_a_name_and_stdout_takes_any_bytes(jetspark: Jetspark, bucket: str) -> None:
    jetspark("object", "add", bucket)

    assert jetspark.run("object", "put", bucket, stdin=b"x").exit_code == 2
    jetspark("object", "put", bucket, "--name", "greeting", stdin=b"\xffhello\n")

    assert jetspark.run("object", "get", bucket, "greeting", "-O", "-").stdout_bytes == b"\xffhello\n"


def test_a_file_that_exists_is_replaced_only_with_force(ours: Jetspark, bucket: str, tmp_path: Path) -> None:
    ours("object", "add", bucket)
    ours("object", "put", bucket, "--name", "x", stdin=b"new")
    target = tmp_path / "x"
    target.write_bytes(b"old")

    assert ours.run("object", "get", bucket, "x", "-O", str(target)).exit_code == 2
    assert target.read_bytes() == b"old"
    ours("object", "get", bucket, "x", "-O", str(target), "--force")
    assert target.read_bytes() == b"new"


def test_the_name_of_an_object_chooses_no_folder(
    ours: Jetspark, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours("object", "add", bucket)
    ours("object", "put", bucket, "--name", "../../escaped", stdin=b"x")
    below = tmp_path / "one" / "two"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    ours("object", "get", bucket, "../../escaped")

    assert (below / "escaped").read_bytes() == b"x"
    assert not (tmp_path / "escaped").exists()


def test_a_download_that_fails_leaves_no_file(ours: Jetspark, bucket: str, file: Path, tmp_path: Path) -> None:
    from jetspark.sync import connect

    ours("object", "add", bucket)
    ours("object", "put", bucket, str(file), "--name", "broken")
    with connect(ours.url) as connection:
        stream = connection.jetstream().stream(f"OBJ_{bucket}")
        info = connection.jetstream().object_store(bucket).info("broken")
        # The same count of chunks with other bytes.
        stream.purge(subject=f"$O.{bucket}.C.{info.nuid}")
        for _ in range(info.chunks):
            connection.jetstream().publish(f"$O.{bucket}.C.{info.nuid}", b"not what was put")

    result = ours.run("object", "get", bucket, "broken", "-O", str(tmp_path / "out"))

    assert result.exit_code == 1
    assert "digest or size is not the one that was put" in result.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("out")] == []


def test_lists_watches_and_deletes(jetspark: Jetspark, bucket: str) -> None:
    jetspark("object", "add", bucket, "--description", "listed")
    for name in ("b", "a"):
        jetspark("object", "put", bucket, "--name", name, stdin=b"12345")

    assert bucket in jetspark("object", "ls", "--names").splitlines()
    assert "listed" in jetspark("object", "ls")
    assert jetspark("object", "ls", bucket, "--names") == "a\nb\n"
    assert "5 B" in jetspark("object", "ls", bucket)
    jetspark("object", "del", bucket, "a", "--force")
    assert jetspark.run("object", "get", bucket, "a").exit_code == 4
    lines = jetspark("object", "watch", bucket, "--count", "2").splitlines()
    assert sorted(line.split("] ", 1)[1] for line in lines) == [
        f"DEL {bucket} > a",
        f"PUT {bucket} > b: 5 B in 1 chunks",
    ]
    documents = [
        json.loads(line) for line in jetspark("object", "watch", bucket, "--count", "2", "--json").splitlines()
    ]
    assert {one["name"]: one["deleted"] for one in documents} == {"a": True, "b": False}
    jetspark("object", "rm", bucket, "--force")
    assert jetspark.run("object", "info", bucket).exit_code == 4


def test_a_sealed_bucket_takes_nothing_more(jetspark: Jetspark, bucket: str) -> None:
    jetspark("object", "add", bucket)
    assert jetspark.run("object", "seal", bucket).exit_code == 2

    jetspark("object", "seal", bucket, "--force")

    assert jetspark.run("object", "put", bucket, "--name", "x", stdin=b"x").exit_code == 1
    assert "Sealed: true" in jetspark("object", "info", bucket)


def test_edit_changes_the_limit_and_keeps_the_rest(jetspark: Jetspark, bucket: str) -> None:
    jetspark("object", "add", bucket, "--description", "stays")

    config = jetspark.json("object", "edit", bucket, "--max-bucket-size", "1GiB")["config"]

    assert (config["max_bytes"], config["description"]) == (1 << 30, "stays")
