"""Random work on a store over a disk that crashes, fails and fills up; what may be left afterwards is checked.

After a crash: everything durable that nobody removed since is there, unchanged; whatever else is there was really
appended; nothing durably removed is back; the counters agree with the content.
"""

from __future__ import annotations

import errno
from random import Random

from jetspark.protocol.subjects import SubjectFilter
from jetspark.store.block_cache import BlockCache
from jetspark.store.disk import SYNC, Commit, DiskOp
from jetspark.store.recovery import open_stream_store
from jetspark.store.store_base import StoreOptions
from jetspark.store.stream_store import StreamStore
from jetspark.testing.sim_disk import SimDisk
from tests.store.model import Model, Stored, check_consistent, check_same, live_messages

SUBJECTS = (b"a", b"b.1", b"b.2", b"c.long.subject", b"d")


class CrashHarness:
    """One run, decided by its seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.disk = SimDisk(self.rng)
        self.options = StoreOptions(
            block_size=self.rng.choice((200, 600, 2_000)),
            compress=self.rng.random() < 0.3,
            track_sequences=self.rng.random() < 0.3,
        )
        self.options.cache = BlockCache(self.rng.choice((0, 1_000, 1 << 20)))
        self.now_ns = 1_000
        self.model = Model()
        self.durable = Model()
        # Everything ever appended since the last crash under a sequence that is not durable, several if it was reused.
        self.appended: dict[int, list[Stored]] = {}
        self.removed: set[int] = set()
        self.store = self.open()
        self.crash_rate = self.rng.choice((0.0, 0.01, 0.05))
        self.fault_rate = self.rng.choice((0.0, 0.1, 0.3))
        self.removal_rate = self.rng.choice((0.05, 0.3, 0.6))

    def open(self) -> StreamStore:
        return open_stream_store(self.disk, "s", self.options)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        check_same(self.store, self.model)

    def step(self) -> None:
        chance = self.rng.random()
        if chance < self.crash_rate:
            self.crash([])
        elif chance < 0.2:
            self.commit()
        elif self.rng.random() < self.removal_rate:
            self.remove_something()
        else:
            self.append()

    def append(self) -> None:
        self.now_ns += self.rng.randrange(3)
        header = b"NATS/1.0\r\nN: 1\r\n\r\n" if self.rng.random() < 0.2 else b""
        payload = self.rng.randbytes(self.rng.randrange(80))
        stored = Stored(self.rng.choice(SUBJECTS), header, payload, self.now_ns)
        if self.rng.random() < 0.05:
            self.model.last_seq += self.rng.randrange(1, 20)
            self.store.skip_to(self.model.last_seq, self.now_ns)
        seq = self.model.append(stored)
        assert self.store.append(stored.subject, len(header), header + payload, self.now_ns) == seq
        self.appended.setdefault(seq, []).append(stored)

    def remove_something(self) -> None:
        kind = self.rng.randrange(20)
        before = set(self.model.messages)
        if kind == 0:
            below = self.rng.randrange(self.model.last_seq + 2)
            self.model.messages = {seq: kept for seq, kept in self.model.messages.items() if seq >= below}
            self.store.purge_below(below)
        elif kind == 1:
            subject = self.rng.choice(SUBJECTS)
            keep = self.rng.randrange(3)
            count = self.model.purge_subject(subject, 0, keep)
            assert self.store.purge_subject(SubjectFilter([subject]), 0, keep) == count
        elif before:
            seq = min(before) if kind < 8 else self.rng.choice(sorted(before))
            del self.model.messages[seq]
            assert self.store.remove(seq, self.rng.random() < 0.3)
        self.removed |= before - set(self.model.messages)

    def commit(self) -> None:
        pending = Commit()
        seq = self.store.collect(pending, True)
        collected = self.model.copy()
        if self.rng.random() < 0.5:
            # The loop goes on while the commit is under way.
            self.append()
            self.remove_something()
        if self.rng.random() < self.crash_rate * 4:
            self.crash(pending.ops)
            return
        if not self.perform(pending.ops):
            self.store.rollback()
            self.model = self.durable.copy()
            check_same(self.store, self.model)
            return
        self.store.committed(seq)
        self.durable = collected
        check_same(self.store, self.model)

    def perform(self, operations: list[DiskOp]) -> bool:
        failing = self.rng.random() < self.fault_rate
        victim = self.rng.randrange(len(operations)) if failing and operations else -1
        for position, op in enumerate(operations):
            if position == victim:
                if op.kind != SYNC and self.rng.random() < 0.5:
                    self.disk.perform_partly(op)
                self.disk.fail_when = lambda _: errno.ENOSPC
            try:
                self.disk.perform(op)
            except OSError:
                self.disk.fail_when = None
                return False
        return True

    def crash(self, operations: list[DiskOp]) -> None:
        done = self.rng.randrange(len(operations) + 1)
        for op in operations[:done]:
            self.disk.perform(op)
        if done < len(operations):
            self.disk.perform_partly(operations[done])
        self.disk.crash()
        self.store = self.open()
        self.check_after_crash()

    def check_after_crash(self) -> None:
        found = live_messages(self.store)
        check_consistent(self.store)
        for seq, stored in self.durable.messages.items():
            if seq not in self.removed:
                assert found.get(seq) == stored, f"durable message {seq} is gone"
        for seq, stored in found.items():
            if seq in self.durable.messages:
                assert stored == self.durable.messages[seq]
            else:
                assert seq > self.durable.last_seq, f"removed message {seq} is back"
                assert stored in self.appended.get(seq, []), f"message {seq} was never appended"
        assert self.store.last_seq >= self.durable.last_seq
        self.model = Model(found, self.store.last_seq, self.store.last_ts_ns)
        # What a crash left is taken as it is; the next one must not lose it once it is committed again.
        self.durable = self.model.copy()
        self.removed = set()
        self.appended = {}
