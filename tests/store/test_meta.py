"""Documents of streams and consumers on disk, whatever they are called."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.store import meta
from jetspark.store.disk import DOOMED_SUFFIX, MKDIRS, WRITE_FILE, DiskOp, FileDisk
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


def test_one_flipped_bit_costs_nothing_and_is_repaired() -> None:
    path = f"{meta.stream_path(ROOT, 'A')}/meta.inf"
    document = b'{"name":"A","subjects":["a.>"]}'
    sound = SimDisk()
    perform(sound, meta.write_stream(ROOT, "A", document))
    written = sound.read_all(path)

    for bit in range(8 * len(written)):
        disk = SimDisk()
        perform(disk, meta.write_stream(ROOT, "A", document))
        disk.flip_bit(path, bit // 8, bit % 8)

        listing = meta.list_streams(disk, ROOT)

        assert listing.found == [(meta.stream_path(ROOT, "A"), document)], bit
        assert listing.repaired == [meta.stream_path(ROOT, "A")]
        assert disk.read_all(path) == written


def test_a_document_that_was_cut_short_is_read_while_one_copy_is_whole() -> None:
    path = f"{meta.stream_path(ROOT, 'A')}/meta.inf"
    document = b'{"name":"A"}'
    copy = meta.with_checksum(document)

    for data in (
        copy,
        *(copy + copy[:size] for size in range(len(copy))),
        *(copy[size:] + copy for size in range(len(copy))),
    ):
        disk = SimDisk()
        perform(disk, [DiskOp(MKDIRS, meta.stream_path(ROOT, "A")), DiskOp(WRITE_FILE, path, data)])

        listing = meta.list_streams(disk, ROOT)

        assert listing.found == [(meta.stream_path(ROOT, "A"), document)], data
        assert disk.read_all(path) == 2 * copy


def test_a_document_without_a_sound_copy_is_reported_and_not_read() -> None:
    disk = SimDisk()
    perform(disk, meta.write_stream(ROOT, "A", b'{"name":"A"}'))
    perform(disk, meta.write_stream(ROOT, "B", b'{"name":"B"}'))
    path = f"{meta.stream_path(ROOT, 'A')}/meta.inf"
    disk.flip_bit(path, 4)
    disk.flip_bit(path, disk.size(path) // 2 + 4)
    damaged = disk.read_all(path)

    listing = meta.list_streams(disk, ROOT)

    assert listing.found == [(meta.stream_path(ROOT, "B"), b'{"name":"B"}')]
    assert listing.damaged == [(meta.stream_path(ROOT, "A"), "its description is missing or damaged")]
    assert disk.read_all(path) == damaged


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


def test_a_document_that_was_found_after_a_kill_outlives_a_power_failure() -> None:
    found_count = 0
    for seed in range(200):
        disk = SimDisk(Random(seed))
        made = [*meta.write_stream(ROOT, "A", b"{}"), *meta.write_consumer(ROOT, "A", "c", b"{}")]
        done = seed % len(made)
        perform(disk, made[:done])
        disk.perform_partly(made[done])

        streams = meta.list_streams(disk, ROOT).found
        consumers = meta.list_consumers(disk, ROOT, "A").found
        found_count += len(streams) + len(consumers)
        disk.crash()

        assert set(meta.list_streams(disk, ROOT).found) >= set(streams), seed
        assert set(meta.list_consumers(disk, ROOT, "A").found) >= set(consumers), seed
    assert found_count > 0


def test_what_was_not_found_after_a_kill_is_not_found_after_a_power_failure() -> None:
    gone_count = 0
    for seed in range(200):
        disk = SimDisk(Random(seed))
        perform(disk, [*meta.write_stream(ROOT, "A", b"{}"), *meta.write_consumer(ROOT, "A", "c", b"{}")])
        removal = meta.remove_consumer(ROOT, "A", "c") if seed % 2 else meta.remove_stream(ROOT, "A")
        disk.perform_partly(removal)

        streams = meta.list_streams(disk, ROOT).found
        consumers = meta.list_consumers(disk, ROOT, "A").found
        gone_count += 2 - len(streams) - len(consumers)
        disk.crash()

        assert meta.list_streams(disk, ROOT).found == streams, seed
        assert meta.list_consumers(disk, ROOT, "A").found == consumers, seed
    assert gone_count > 0
