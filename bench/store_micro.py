"""What one append, one read and one search of the store cost, on the build that is installed.

    python bench/store_micro.py [messages]

128-byte bodies, 16-byte subjects, hashes and subject states included; the disk is a pair of functions that do nothing,
or real files for the last lines. Processor time (so that a busy machine does not show, nor does waiting for the disk),
best of three, in nanoseconds a message.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

from jetspark import _build
from jetspark.protocol.subjects import SubjectFilter
from jetspark.store.consumer_log import new_consumer_log
from jetspark.store.disk import Commit, Disk, FileDisk
from jetspark.store.recovery import open_stream_store
from jetspark.store.store_base import StoreOptions
from jetspark.store.stream_store import StreamStore
from jetspark.store.view import RecordView

BODY = b"x" * 128
BATCH = 1_000


def subjects(count: int) -> list[bytes]:
    return [b"orders.eu.%06d" % number for number in range(count)]


def best_of_three(label: str, count: int, run: Callable[[], float]) -> None:
    best = min(run() for _ in range(3))
    print(f"{label:52} {best / count * 1e9:8.0f} ns")


def commit(store: StreamStore, disk: Disk | None) -> None:
    pending = Commit()
    seq = store.collect(pending, True)
    if disk is not None:
        for op in pending.ops:
            disk.perform(op)
    store.committed(seq)


def fill(store: StreamStore, count: int, names: list[bytes], disk: Disk | None) -> float:
    """Seconds for appending, commits included when there is a disk."""
    spent = 0.0
    name_count = len(names)
    append = store.append
    for start in range(0, count, BATCH):
        begun = time.process_time()
        for number in range(start, start + BATCH):
            append(names[number % name_count], 0, BODY, 1_700_000_000_000_000_000 + number)
        if disk is not None:
            commit(store, disk)
        spent += time.process_time() - begun
        if disk is None:
            commit(store, None)
    return spent


def fresh(path: str, disk: Disk, *, memory: bool = False) -> StreamStore:
    return open_stream_store(disk, path, StoreOptions(memory=memory))


def measure_append(count: int) -> None:
    disk = FileDisk()
    for label, memory, name_count in (
        ("append, file, 10 subjects", False, 10),
        ("append, file, a new subject each", False, count),
        ("append, memory, 10 subjects", True, 10),
    ):
        names = subjects(name_count)
        best_of_three(label, count, partial(append_run, disk, memory, count, names))


def append_run(disk: Disk, memory: bool, count: int, names: list[bytes]) -> float:
    return fill(fresh("none", disk, memory=memory), count, names, None)


def measure_commit(count: int) -> None:
    store = fresh("none", FileDisk())
    names = subjects(10)

    def run() -> float:
        spent = 0.0
        for start in range(0, count, BATCH):
            for number in range(start, start + BATCH):
                store.append(names[number % 10], 0, BODY, number)
            begun = time.process_time()
            commit(store, None)
            spent += time.process_time() - begun
        return spent

    best_of_three(f"collect and committed, {BATCH} messages each, no disk", count, run)


def measure_reads(count: int) -> None:
    store = fresh("", FileDisk(), memory=True)
    fill(store, count, subjects(10), None)
    view = RecordView()

    def sequential() -> float:
        begun = time.process_time()
        for seq in range(1, count + 1):
            store.view(seq, view)
        return time.process_time() - begun

    def matching(pattern: bytes) -> Callable[[], float]:
        wanted = SubjectFilter([pattern])

        def run() -> float:
            begun = time.process_time()
            seq = 1
            while True:
                found = store.next_match(seq, count, wanted, view)
                if found == 0:
                    return time.process_time() - begun
                seq = found + 1

        return run

    best_of_three("view, one after the other", count, sequential)
    best_of_three("next_match, everything", count, matching(b">"))
    best_of_three("next_match, a wildcard that takes all", count, matching(b"orders.*.*"))
    best_of_three("next_match, a literal taking one in ten, a message", count, matching(b"orders.eu.000003"))


def measure_removals(count: int) -> None:
    names = subjects(10)
    # What stays in the cache: nothing was written that could be read back.
    count = min(count, 100_000)

    def run() -> float:
        store = fresh("none", FileDisk())
        fill(store, count, names, None)
        begun = time.process_time()
        for _ in range(count):
            store.remove(store.first_seq, False)
        return time.process_time() - begun

    best_of_three("remove the first", count, run)


def measure_consumer(count: int) -> None:
    def run() -> float:
        log = new_consumer_log("none", True)
        begun = time.process_time()
        for seq in range(1, count + 1):
            log.delivered(seq, seq, 1, 5)
        for seq in range(1, count + 1):
            log.acked(seq, seq)
            log.floor(seq, seq)
        return time.process_time() - begun

    best_of_three("consumer log: delivered, acked, floor", count, run)


def measure_files(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        disk = FileDisk()
        store = fresh(f"{folder}/s", disk)
        spent = fill(store, count, subjects(10), disk)
        print(f"{'append and commit every ' + str(BATCH) + ', real files':52} {spent / count * 1e9:8.0f} ns")
        store.closed()
        begun = time.process_time()
        store = fresh(f"{folder}/s", disk)
        print(f"{'open again':52} {(time.process_time() - begun) * 1e3:8.1f} ms")
        view = RecordView()
        begun = time.process_time()
        for seq in range(1, count + 1):
            store.view(seq, view)
        print(f"{'view, one after the other, from files':52} {(time.process_time() - begun) / count * 1e9:8.0f} ns")
        store.closed()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    print(f"{_build.KIND} build, {count} messages")
    measure_append(count)
    measure_commit(count)
    measure_reads(count)
    measure_removals(count)
    measure_consumer(count)
    measure_files(count)
    print(f"{'largest memory held':52} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:8} MB")


if __name__ == "__main__":
    main()
