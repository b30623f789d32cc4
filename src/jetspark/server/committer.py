"""The commit thread: writes and syncs what the broker decided, away from the loop.

Decided here: operations run in order, one failure fails the whole commit, a commit that the disk is known to take in
no time is performed at once instead of on the thread, and, when the operator relaxed syncing, which files still need
a sync. Not known here: what the bytes mean.

Only one commit is under way at a time; the broker gathers the next one meanwhile.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Final

from jetspark.clock import SystemClock
from jetspark.server.observations import CommitFigures
from jetspark.store import disk
from jetspark.store.disk import Commit, Disk, DiskOp

# A commit of no more than this, on a disk whose syncs take no longer than that, costs the loop less time than it costs
# the publisher to wake two threads.
_AT_ONCE_BYTES_MAX: Final = 16 * 1024
_AT_ONCE_SYNC_NS_MAX: Final = 1_000_000
# One slow sync in a while is forgotten after about this many quick ones.
_SMOOTHING: Final = 16
# After these the file's old content no longer needs a sync, and asking for one would bring a removed file back.
_SETTLES: Final = frozenset({disk.REMOVE, disk.WRITE_FILE, disk.WRITE_CACHE, disk.WRITE_COMPRESSED, disk.TRUNCATE})


class Committer:
    """Runs commits on its own thread and reports back to the loop."""

    def __init__(
        self,
        performer: Disk,
        loop: asyncio.AbstractEventLoop,
        on_done: Callable[[Commit, str], None],
        on_sync_failed: Callable[[str], None],
        figures: CommitFigures | None = None,
        on_mistake: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self._disk = performer
        self._loop = loop
        self._on_done = on_done
        self._on_sync_failed = on_sync_failed
        # Told about what a disk does not raise, which is a mistake of ours.
        self._on_mistake = on_mistake
        self._figures = figures or CommitFigures()
        self._jobs: queue.SimpleQueue[Commit | Callable[[], None] | None] = queue.SimpleQueue()
        # Files with bytes that were written and not yet synced.
        self._unsynced: set[str] = set()
        # Each written by one thread only: the loop's, and the commit thread.
        self._given_count = 0
        self._finished_count = 0
        # What a sync took lately; not known to be quick until it was.
        self._clock = SystemClock()
        self._sync_ns = 2 * _AT_ONCE_SYNC_NS_MAX
        self._thread = threading.Thread(target=self._run, name="jetspark-commit", daemon=True)
        self._thread.start()

    def start(self, commit: Commit) -> None:
        self._put(commit)

    def perform_now(self, commit: Commit) -> str | None:
        """Perform it on this thread if that takes no time: the reason of a failure or nothing. None: `start` it."""
        if self._given_count != self._finished_count:
            return None
        size_bytes, has_sync = 0, False
        for op in commit.ops:
            if op.kind == disk.SYNC:
                has_sync = True
            elif op.kind != disk.APPEND:
                return None
            size_bytes += len(op.data)
        if size_bytes > _AT_ONCE_BYTES_MAX or (has_sync and self._sync_ns > _AT_ONCE_SYNC_NS_MAX):
            return None
        return self._perform(commit)

    def sync_soon(self) -> None:
        """Sync every file written since it was last synced; for a relaxed sync interval."""
        self._put(self._sync_all)

    def close(self) -> None:
        """Finish what was given, sync what is open, and end the thread."""
        self._put(self._sync_all)
        self._jobs.put(None)
        self._thread.join()

    def _put(self, job: Commit | Callable[[], None]) -> None:
        self._given_count += 1
        self._jobs.put(job)

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            if isinstance(job, Commit):
                error = self._perform(job)
                self._finished_count += 1
                self._report(self._on_done, job, error)
            else:
                job()
                self._finished_count += 1

    def _report(self, target: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(target, *arguments)
        except RuntimeError:
            # The loop is gone: the process is ending and nobody waits for the answer any more.
            return

    def _perform(self, commit: Commit) -> str:
        """Run the operations; the reason of the failure, or nothing."""
        figures = self._figures
        begun_ns = self._clock.monotonic_ns()
        try:
            for op in commit.ops:
                if op.kind == disk.SYNC:
                    started_ns = self._clock.monotonic_ns()
                    self._disk.perform(op)
                    taken_ns = self._clock.monotonic_ns() - started_ns
                    self._sync_ns += (taken_ns - self._sync_ns) // _SMOOTHING
                    figures.syncs.observe(taken_ns)
                else:
                    self._disk.perform(op)
                    figures.written_bytes += len(op.data)
                self._note(op)
                commit.performed_count += 1
        except OSError as error:
            return f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
        except Exception as error:  # noqa: BLE001 - the thread must live, or nothing is ever written again
            self._report(self._on_mistake, error)
            return f"internal error: {error!r}"
        figures.commits.observe(self._clock.monotonic_ns() - begun_ns)
        return ""

    def _note(self, op: DiskOp) -> None:
        if op.kind == disk.APPEND:
            self._unsynced.add(op.path)
        elif not self._unsynced:
            return
        elif op.kind == disk.SYNC or op.kind in _SETTLES:
            self._unsynced.discard(op.path)
        elif op.kind == disk.REMOVE_TREE:
            self._unsynced = {path for path in self._unsynced if not path.startswith(op.path + "/")}
        elif op.kind == disk.RENAME and op.path in self._unsynced:
            self._unsynced.discard(op.path)
            self._unsynced.add(op.target)

    def _sync_all(self) -> None:
        paths, self._unsynced = self._unsynced, set()
        for path in sorted(paths):
            try:
                self._disk.perform(DiskOp(disk.SYNC, path))
            except OSError as error:
                self._unsynced.add(path)
                self._report(self._on_sync_failed, f"{error.strerror or error}: {path}")
            except Exception as error:  # noqa: BLE001 - the other files are synced all the same
                self._unsynced.add(path)
                self._report(self._on_mistake, error)
