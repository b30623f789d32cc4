"""Documents of streams and consumers on disk, whatever they are called."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.store import meta
from jetspark.store.disk import DOOMED_SUFFIX, DiskOp, FileDisk
from jetspark.testing.sim_disk import SimDisk

ROOT = "root/$G"


def perform(disk: SimDisk, operations: list[DiskOp]) -> None:
    for op in operations:
        disk.perform(op)


@given(name=st.text(min_size=1, max_size=40))
def test_a_name_of_usual_length_comes_back_from_its_escaped_form(name: str) -> None:
    escaped = meta.escape(name)

    assert set(escaped) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-%")
    if len(escaped) < 200:
        assert meta.unescape(escaped) == name


@given(left=st.text(min_size=1, max_size=300), right=st.text(min_size=1, max_size=300))
def test_different_names_have_different_folders(left: str, right: str) -> None:
    assert (meta.escape(left) == meta.escape(right)) == (left == right)
    assert len(meta.escape(left)) <= 255


@pytest.mark.parametrize("name", ["ORDERS", "a/b", "..", ".", "con:*?", "%", "ÜBER", "x" * 255, "名" * 200])
def test_a_stream_and_its_consumer_are_listed_again(name: str) -> None:
    disk = SimDisk()
    perform(disk, meta.write_stream(ROOT, name, b'{"name":"s"}'))
    perform(disk, meta.write_consumer(ROOT, name, name, b'{"name":"c"}'))

    assert meta.list_streams(disk, ROOT).found == [(meta.stream_path(ROOT, name), b'{"name":"s"}')]
    assert meta.list_consumers(disk, ROOT, name).found == [(meta.consumer_path(ROOT, name, name), b'{"name":"c"}')]
    assert meta.list_roots(disk, "root") == [ROOT]


def test_a_damaged_document_is_reported_and_not_read() -> None:
    disk = SimDisk()
    perform(disk, meta.write_stream(ROOT, "A", b'{"name":"A"}'))
    perform(disk, meta.write_stream(ROOT, "B", b'{"name":"B"}'))
    disk.flip_bit(f"{meta.stream_path(ROOT, 'A')}/meta.inf", 4)

    listing = meta.list_streams(disk, ROOT)

    assert listing.found == [(meta.stream_path(ROOT, "B"), b'{"name":"B"}')]
    assert listing.damaged == [meta.stream_path(ROOT, "A")]


def test_removing_a_consumer_leaves_its_stream() -> None:
    disk = SimDisk()
    perform(disk, meta.write_stream(ROOT, "A", b"{}"))
    perform(disk, meta.write_consumer(ROOT, "A", "c", b"{}"))

    disk.perform(meta.remove_consumer(ROOT, "A", "c"))

    assert meta.list_consumers(disk, ROOT, "A").found == []
    assert len(meta.list_streams(disk, ROOT).found) == 1
    disk.perform(meta.remove_stream(ROOT, "A"))
    assert meta.list_streams(disk, ROOT).found == []


def test_a_removed_stream_stays_removed_after_a_power_failure() -> None:
    for seed in range(20):
        disk = SimDisk(Random(seed))
        perform(disk, meta.write_stream(ROOT, "A", b"{}"))

        disk.perform(meta.remove_stream(ROOT, "A"))
        disk.crash()

        assert meta.list_streams(disk, ROOT).found == []


def test_what_a_crash_left_of_a_removal_is_cleaned_up_and_not_reported(tmp_path: Path) -> None:
    disk = FileDisk()
    root = str(tmp_path)
    for op in meta.write_stream(root, "A", b"{}"):
        disk.perform(op)
    doomed = tmp_path / "streams" / ("B" + DOOMED_SUFFIX)
    (doomed / "msgs").mkdir(parents=True)

    listing = meta.list_streams(disk, root)

    assert [folder for folder, _ in listing.found] == [meta.stream_path(root, "A")]
    assert listing.damaged == []
    assert disk.list_dir(f"{root}/streams") == ["A"]
