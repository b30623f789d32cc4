"""The commit thread: order, failures, and what still needs a sync."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

from jetspark.server.committer import Committer
from jetspark.store import disk
from jetspark.store.disk import Commit, Disk, DiskOp, FileDisk


class RecordingDisk(Disk):
    """Remembers what it was asked to do; refuses paths that start with /full."""

    def __init__(self) -> None:
        self.done: list[tuple[int, str]] = []

    def perform(self, op: DiskOp) -> None:
        if op.path.startswith("/full"):
            raise OSError(errno.ENOSPC, "No space left on device", op.path)
        self.done.append((op.kind, op.path))


class Bench:
    """A committer in the running loop, and what it reported."""

    def __init__(self, performer: Disk) -> None:
        self.results: asyncio.Queue[tuple[Commit, str]] = asyncio.Queue()
        self.sync_failures: asyncio.Queue[str] = asyncio.Queue()
        self.committer = Committer(
            performer,
            asyncio.get_running_loop(),
            lambda commit, error: self.results.put_nowait((commit, error)),
            self.sync_failures.put_nowait,
        )


def commit_of(*ops: DiskOp) -> Commit:
    commit = Commit()
    for op in ops:
        commit.add(op)
    return commit


def append(path: str, data: bytes = b"x") -> DiskOp:
    return DiskOp(disk.APPEND, path, data)


async def test_a_commit_is_performed_in_order_and_reported(tmp_path: Path) -> None:
    bench = Bench(FileDisk())
    path = str(tmp_path / "block")
    commit = commit_of(append(path, b"one"), append(path, b"two"), DiskOp(disk.SYNC, path))

    bench.committer.start(commit)

    assert await bench.results.get() == (commit, "")
    bench.committer.close()
    assert FileDisk().read_all(path) == b"onetwo"


async def test_one_failure_fails_the_commit_and_stops_it() -> None:
    performer = RecordingDisk()
    bench = Bench(performer)
    commit = commit_of(append("/a"), append("/full/b"), append("/c"))

    bench.committer.start(commit)

    assert await bench.results.get() == (commit, "No space left on device: /full/b")
    assert performer.done == [(disk.APPEND, "/a")]
    assert commit.performed_count == 1
    bench.committer.close()


async def test_commits_after_a_failure_go_on() -> None:
    bench = Bench(RecordingDisk())
    bench.committer.start(commit_of(append("/full/b")))
    await bench.results.get()
    commit = commit_of(append("/a"))

    bench.committer.start(commit)

    assert await bench.results.get() == (commit, "")
    bench.committer.close()


async def test_a_relaxed_sync_covers_every_file_written_since() -> None:
    performer = RecordingDisk()
    bench = Bench(performer)
    bench.committer.start(commit_of(append("/a"), append("/b"), append("/c"), DiskOp(disk.SYNC, "/c")))
    await bench.results.get()
    performer.done.clear()

    bench.committer.sync_soon()
    bench.committer.close()

    assert performer.done == [(disk.SYNC, "/a"), (disk.SYNC, "/b")]


async def test_files_that_are_gone_are_not_synced_back_into_being() -> None:
    performer = RecordingDisk()
    bench = Bench(performer)
    bench.committer.start(
        commit_of(
            append("/removed"),
            append("/tree/inside"),
            append("/moved"),
            append("/kept"),
            DiskOp(disk.REMOVE, "/removed"),
            DiskOp(disk.REMOVE_TREE, "/tree"),
            DiskOp(disk.RENAME, "/moved", target="/target"),
        )
    )
    await bench.results.get()
    performer.done.clear()

    bench.committer.close()

    assert performer.done == [(disk.SYNC, "/kept"), (disk.SYNC, "/target")]


async def test_a_failed_sync_is_reported_and_tried_again() -> None:
    class FailingOnce(RecordingDisk):
        def __init__(self) -> None:
            super().__init__()
            self.left = 1

        def perform(self, op: DiskOp) -> None:
            if op.kind == disk.SYNC and self.left:
                self.left -= 1
                raise OSError(errno.EIO, "Input/output error", op.path)
            super().perform(op)

    performer = FailingOnce()
    bench = Bench(performer)
    bench.committer.start(commit_of(append("/a")))
    await bench.results.get()

    bench.committer.sync_soon()

    assert await bench.sync_failures.get() == "Input/output error: /a"
    bench.committer.close()
    assert performer.done[-1] == (disk.SYNC, "/a")


async def test_a_small_commit_is_performed_at_once_when_the_disk_is_known_to_be_quick(tmp_path: Path) -> None:
    bench = Bench(FileDisk())
    path = str(tmp_path / "block")
    while bench.committer.perform_now(commit := commit_of(append(path), DiskOp(disk.SYNC, path))) is None:
        bench.committer.start(commit)
        assert await bench.results.get() == (commit, "")

    bench.committer.close()

    assert bench.results.empty()
    assert FileDisk().read_all(path).count(b"x") > 1


async def test_a_commit_without_a_sync_needs_no_thread(tmp_path: Path) -> None:
    bench = Bench(FileDisk())
    path = str(tmp_path / "block")

    assert bench.committer.perform_now(commit_of(append(path, b"one"))) == ""

    bench.committer.close()
    assert FileDisk().read_all(path) == b"one"


async def test_a_large_commit_and_one_that_changes_names_are_left_to_the_thread(tmp_path: Path) -> None:
    bench = Bench(RecordingDisk())

    assert bench.committer.perform_now(commit_of(append("/block", bytes(1_000_000)))) is None
    assert bench.committer.perform_now(commit_of(DiskOp(disk.REMOVE, "/block"))) is None

    bench.committer.close()


async def test_a_failure_of_a_commit_performed_at_once_is_returned() -> None:
    bench = Bench(RecordingDisk())

    assert bench.committer.perform_now(commit_of(append("/full/block"))) == "No space left on device: /full/block"

    bench.committer.close()


async def test_nothing_overtakes_what_the_thread_was_given() -> None:
    release = threading.Event()

    class SlowDisk(RecordingDisk):
        def perform(self, op: DiskOp) -> None:
            release.wait(10)
            super().perform(op)

    bench = Bench(SlowDisk())
    first = commit_of(append("/first"))
    bench.committer.start(first)

    assert bench.committer.perform_now(commit_of(append("/second"))) is None

    release.set()
    assert await bench.results.get() == (first, "")
    bench.committer.close()
