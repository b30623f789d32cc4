"""A consumer's log, replayed, is the state the broker had."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from jetspark.store.consumer_codec import HEAD_SIZE
from jetspark.store.consumer_log import (
    ConsumerLog,
    ConsumerReport,
    ConsumerState,
    PendingEntry,
    new_consumer_log,
    open_consumer_log,
)
from jetspark.store.disk import APPEND, MKDIRS, WRITE_FILE, Commit
from jetspark.testing.sim_disk import SimDisk

FOLDER = "s/obs/c"
PATH = "s/obs/c/state.log"


def content(state: ConsumerState) -> tuple[object, ...]:
    pending = {
        seq: (entry.consumer_seq, entry.delivered_ts_ns, entry.deliveries) for seq, entry in state.pending.items()
    }
    return (
        state.delivered_consumer_seq,
        state.delivered_stream_seq,
        state.floor_consumer_seq,
        state.floor_stream_seq,
        pending,
        dict(state.redelivered),
    )


def commit(log: ConsumerLog, disk: SimDisk) -> Commit:
    pending = Commit()
    log.collect(pending, True)
    for op in pending.ops:
        disk.perform(op)
    log.committed()
    return pending


class FakeBroker:
    """Changes a state as a broker would, and tells the log in the same words."""

    def __init__(self, seed: int, log: ConsumerLog) -> None:
        self.rng = Random(seed)
        self.log = log
        self.state = log.state
        self.now_ns = 100
        # Seeds differ in how calm they are: long runs, or everything at once.
        self.verbs: list[Callable[[], None]] = [self.deliver] * self.rng.randrange(1, 10)
        self.verbs += [self.acknowledge] * self.rng.randrange(1, 10)
        self.verbs += [self.redeliver, self.acknowledge_all, self.give_up, self.forget, self.progress, self.move]

    def step(self) -> None:
        self.now_ns += self.rng.choice((0, 0, 0, 1))
        self.rng.choice(self.verbs)()

    def deliver(self) -> None:
        state = self.state
        for _ in range(self.rng.choice((1, 1, 5))):
            seq = state.delivered_stream_seq + self.rng.choice((1, 1, 1, 2))
            state.delivered_consumer_seq += 1
            state.delivered_stream_seq = seq
            state.pending[seq] = PendingEntry(state.delivered_consumer_seq, self.now_ns, 1)
            self.log.delivered(seq, state.delivered_consumer_seq, 1, self.now_ns)

    def some_pending(self) -> int:
        return self.rng.choice(sorted(self.state.pending)) if self.state.pending else 0

    def redeliver(self) -> None:
        seq = self.some_pending()
        if seq:
            entry = self.state.pending[seq]
            self.state.delivered_consumer_seq += 1
            entry.deliveries += 1
            entry.delivered_ts_ns = self.now_ns
            self.state.redelivered[seq] = entry.deliveries
            self.log.delivered(seq, self.state.delivered_consumer_seq, entry.deliveries, self.now_ns)

    def acknowledge(self) -> None:
        seqs = sorted(self.state.pending)[: self.rng.choice((1, 1, 4))] if self.rng.random() < 0.7 else []
        for seq in seqs or ([self.some_pending()] if self.state.pending else []):
            entry = self.state.pending.pop(seq)
            self.state.redelivered.pop(seq, None)
            self.log.acked(seq, entry.consumer_seq)
        if not self.state.pending:
            self.state.floor_consumer_seq = self.state.delivered_consumer_seq
            self.state.floor_stream_seq = self.state.delivered_stream_seq
            self.log.floor(self.state.floor_consumer_seq, self.state.floor_stream_seq)

    def acknowledge_all(self) -> None:
        upto = self.some_pending()
        if upto:
            consumer_seq = self.state.pending[upto].consumer_seq
            for seq in [seq for seq in self.state.pending if seq <= upto]:
                del self.state.pending[seq]
            for seq in [seq for seq in self.state.redelivered if seq <= upto]:
                del self.state.redelivered[seq]
            self.state.floor_consumer_seq = consumer_seq
            self.state.floor_stream_seq = upto
            self.log.acked_all(upto, consumer_seq)

    def give_up(self) -> None:
        seq = self.some_pending()
        if seq:
            deliveries = self.state.pending.pop(seq).deliveries
            self.state.redelivered[seq] = deliveries
            self.log.dropped(seq, deliveries)

    def forget(self) -> None:
        seq = self.some_pending()
        if seq:
            del self.state.pending[seq]
            self.state.redelivered.pop(seq, None)
            self.log.forgotten(seq)

    def progress(self) -> None:
        seq = self.some_pending()
        if seq:
            self.state.pending[seq].delivered_ts_ns = self.now_ns
            self.log.progress(seq, self.now_ns)

    def move(self) -> None:
        self.state.delivered_consumer_seq += 1
        self.state.delivered_stream_seq += 3
        self.log.delivered_position(self.state.delivered_consumer_seq, self.state.delivered_stream_seq)


@pytest.mark.parametrize("seed", range(40))
def test_replaying_the_log_gives_the_state(seed: int) -> None:
    disk = SimDisk()
    log, _, _ = open_consumer_log(disk, FOLDER)
    broker = FakeBroker(seed, log)
    for _ in range(60):
        for _ in range(broker.rng.randrange(8)):
            broker.step()
        commit(log, disk)

        log, state, report = open_consumer_log(disk, FOLDER)
        assert content(state) == content(broker.state)
        assert report.is_clean()
        broker.log = log
        broker.state = state


@pytest.mark.parametrize("seed", range(40))
def test_after_a_crash_the_state_is_that_of_some_commit_not_older_than_the_last(seed: int) -> None:
    disk = SimDisk(Random(seed))
    log, _, _ = open_consumer_log(disk, FOLDER)
    broker = FakeBroker(seed, log)
    for _ in range(40):
        durable = content(broker.state)
        for _ in range(6):
            broker.step()
        pending = Commit()
        log.collect(pending, True)
        if broker.rng.random() < 0.2:
            after = content(broker.state)
            for op in pending.ops[: broker.rng.randrange(len(pending.ops) + 1)]:
                disk.perform(op)
            disk.crash()
            log, state, _ = open_consumer_log(disk, FOLDER)
            assert content(state) in (durable, after)
            broker.log, broker.state = log, state
        else:
            for op in pending.ops:
                disk.perform(op)
            log.committed()


def test_a_batch_delivered_together_is_one_entry_and_so_are_its_acknowledgements() -> None:
    disk = SimDisk()
    log, _, _ = open_consumer_log(disk, FOLDER)
    log.floor(0, 0)
    commit(log, disk)
    before = disk.size(PATH)
    for seq in range(1, 1_001):
        log.delivered(seq, seq, 1, 5)
    for seq in range(1, 1_001):
        log.acked(seq, seq)

    commit(log, disk)

    assert disk.size(PATH) - before < 100


def test_a_log_that_grew_is_replaced_by_a_snapshot() -> None:
    disk = SimDisk()
    log, state, _ = open_consumer_log(disk, FOLDER)
    kinds: set[int] = set()
    for number in range(1, 100):
        for seq in range(number * 1_000, number * 1_000 + 1_000, 2):
            log.delivered(seq, seq, 1, seq)
            log.acked(seq, seq)
        state.delivered_stream_seq = state.delivered_consumer_seq = number * 1_000 + 998
        log.floor(7, 7)
        state.floor_consumer_seq = state.floor_stream_seq = 7
        kinds |= {op.kind for op in commit(log, disk).ops[-2:]}

    assert {APPEND, WRITE_FILE} <= kinds
    assert disk.size(PATH) < 1_200_000
    assert content(open_consumer_log(disk, FOLDER)[1]) == content(state)


def test_a_torn_frame_is_cut_and_reported() -> None:
    disk = SimDisk()
    log, state, _ = open_consumer_log(disk, FOLDER)
    log.floor(1, 1)
    commit(log, disk)
    log.floor(2, 2)
    commit(log, disk)
    del disk.files[PATH].content[-3:]

    _, state, report = open_consumer_log(disk, FOLDER)

    assert report.cut_bytes > 0
    assert state.floor_stream_seq == 0


def test_damage_in_the_middle_costs_one_frame_and_is_reported() -> None:
    disk = SimDisk()
    log, _, _ = open_consumer_log(disk, FOLDER)
    sizes = []
    for number in range(1, 4):
        log.delivered(number, number, 1, 5)
        commit(log, disk)
        sizes.append(disk.size(PATH))
    disk.flip_bit(PATH, (sizes[0] + sizes[1]) // 2)

    log, state, report = open_consumer_log(disk, FOLDER)

    assert report.damaged_frames == 1
    assert 3 in state.pending
    assert 2 not in state.pending
    log.floor(0, 0)
    assert [op.kind for op in commit(log, disk).ops] == [MKDIRS, WRITE_FILE]
    assert open_consumer_log(disk, FOLDER)[2].is_clean()


def test_a_gap_without_a_delivery_after_it_leaves_nothing_unknown() -> None:
    disk = SimDisk()
    log, _, _ = open_consumer_log(disk, FOLDER)
    log.floor(0, 0)
    commit(log, disk)
    log.delivered(1, 1, 1, 5)
    commit(log, disk)
    log.delivered(2, 2, 1, 6)
    log.acked(1, 1)
    log.acked(2, 2)
    damaged_at = disk.size(PATH) + 20
    commit(log, disk)
    log.floor(2, 2)
    commit(log, disk)
    disk.flip_bit(PATH, damaged_at)

    _, state, report = open_consumer_log(disk, FOLDER)

    assert report.damaged_frames == 1
    assert list(state.pending) == [1]
    assert (state.delivered_stream_seq, state.floor_stream_seq) == (1, 2)
    assert report.gaps.unknown == []


def damaged_log(*damaged: int) -> ConsumerReport:
    """Five frames after the snapshot: 1 to 3 delivered, 2 acknowledged, 4 and 6 delivered, 6 acknowledged, 7 delivered.

    Those of the numbers given are damaged; 0 is the snapshot.
    """
    disk = SimDisk()
    log, _, _ = open_consumer_log(disk, FOLDER)
    starts = [HEAD_SIZE]
    log.floor(0, 0)
    commit(log, disk)
    for number in range(1, 6):
        starts.append(disk.size(PATH))
        if number == 1:
            for seq in (1, 2, 3):
                log.delivered(seq, seq, 1, 5)
        elif number == 2:
            log.acked(2, 2)
        elif number == 3:
            log.delivered(4, 4, 1, 6)
            log.delivered(6, 5, 1, 6)
        elif number == 4:
            log.acked(6, 5)
        else:
            log.delivered(7, 6, 1, 7)
        commit(log, disk)
    for number in damaged:
        disk.flip_bit(PATH, starts[number] + 10)
    return open_consumer_log(disk, FOLDER)[2]


@pytest.mark.parametrize(
    ("damaged", "unknown"),
    [
        # No delivery is missing: the next one is the first, or the one after the last.
        ((0,), []),
        ((2,), []),
        ((4,), []),
        # Deliveries are missing up to the next one.
        ((1,), [(1, 3)]),
        ((3,), [(4, 6)]),
        ((1, 3), [(1, 6)]),
        ((0, 1, 2), [(1, 3)]),
        # They are delivered anew.
        ((5,), []),
        ((3, 4, 5), []),
    ],
)
def test_the_number_of_a_delivery_tells_what_was_lost_before_it(
    damaged: tuple[int, ...], unknown: list[tuple[int, int]]
) -> None:
    report = damaged_log(*damaged)

    assert report.gaps.unknown == unknown
    if unknown and 2 not in damaged:
        assert [seq for seq in range(1, 8) if report.gaps.is_settled(seq)] == [2, 6]


def test_after_a_failed_commit_the_whole_state_is_written() -> None:
    disk = SimDisk()
    log, state, _ = open_consumer_log(disk, FOLDER)
    log.delivered(1, 1, 1, 5)
    state.pending[1] = PendingEntry(1, 5, 1)
    state.delivered_consumer_seq = state.delivered_stream_seq = 1
    commit(log, disk)
    log.acked(1, 1)
    state.pending.clear()
    lost = Commit()
    log.collect(lost, True)

    log.rollback(state)
    commit(log, disk)

    assert content(open_consumer_log(disk, FOLDER)[1]) == content(state)


def test_a_consumer_in_memory_writes_nothing() -> None:
    log = new_consumer_log(FOLDER, False)
    log.delivered(1, 1, 1, 5)
    log.acked(1, 1)
    log.floor(1, 1)
    log.snapshot(ConsumerState())

    pending = Commit()
    log.collect(pending, True)

    assert pending.ops == []
    assert not log.has_pending
