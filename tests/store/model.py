"""What a stream store must be equal to: a dict of sequences, and the few numbers around it."""

from __future__ import annotations

from dataclasses import dataclass, field

from jetspark.protocol.subjects import SubjectFilter, matches
from jetspark.store.disk import Commit, Disk
from jetspark.store.recovery import open_stream_store
from jetspark.store.store_base import StoreOptions
from jetspark.store.stream_store import StreamStore
from jetspark.store.view import RecordView


@dataclass(frozen=True)
class Stored:
    subject: bytes
    header: bytes
    payload: bytes
    ts_ns: int

    def file_size(self) -> int:
        size = 30 + len(self.subject) + len(self.payload)
        return size + 4 + len(self.header) if self.header else size

    def memory_size(self) -> int:
        return 16 + len(self.subject) + len(self.header) + len(self.payload)


@dataclass
class Model:
    """The stream, kept simply."""

    messages: dict[int, Stored] = field(default_factory=dict)
    last_seq: int = 0
    last_ts_ns: int = 0

    def copy(self) -> Model:
        return Model(dict(self.messages), self.last_seq, self.last_ts_ns)

    def append(self, stored: Stored) -> int:
        self.last_seq += 1
        self.last_ts_ns = stored.ts_ns
        self.messages[self.last_seq] = stored
        return self.last_seq

    def skip_to(self, seq: int, ts_ns: int) -> None:
        if seq > self.last_seq:
            self.last_seq = seq
            self.last_ts_ns = ts_ns

    def matching(self, pattern: bytes, low: int = 0, high: int = 1 << 62) -> list[int]:
        return [
            seq for seq in sorted(self.messages) if low <= seq <= high and matches(pattern, self.messages[seq].subject)
        ]

    def purge_subject(self, pattern: bytes, below_seq: int, keep: int) -> int:
        found = self.matching(pattern)
        kept = set(found[max(0, len(found) - keep) :]) if keep else set()
        gone = [seq for seq in found if (below_seq <= 0 or seq < below_seq) and seq not in kept]
        for seq in gone:
            del self.messages[seq]
        return len(gone)


def commit(store: StreamStore, disk: Disk, *, sync: bool = True) -> None:
    """One commit, performed and reported done."""
    pending = Commit()
    seq = store.collect(pending, sync)
    for op in pending.ops:
        disk.perform(op)
    store.committed(seq)


def commit_all(store: StreamStore, disk: Disk) -> None:
    """Commit until nothing is left to do, follow-up work included."""
    commit(store, disk)
    while store.has_pending:
        commit(store, disk)


def small_options(**changes: int | bool) -> StoreOptions:
    """Blocks of a handful of records, so that a short test has many."""
    options = StoreOptions(block_size=600)
    for name, value in changes.items():
        setattr(options, name, value)
    return options


def reopened(disk: Disk, options: StoreOptions, path: str = "s") -> StreamStore:
    return open_stream_store(disk, path, options)


def live_messages(store: StreamStore) -> dict[int, Stored]:
    """Everything in the store, by walking it."""
    view = RecordView()
    found: dict[int, Stored] = {}
    seq = store.next_live(1)
    while seq:
        if store.view(seq, view):
            assert view.seq == seq
            found[seq] = Stored(view.subject, view.header(), view.payload(), view.ts_ns)
        seq = store.next_live(seq + 1)
    return found


def check_same(store: StreamStore, model: Model) -> None:
    """The store says what the model says, in every way it can be asked."""
    assert live_messages(store) == model.messages
    assert store.last_seq == model.last_seq
    assert store.last_ts_ns == model.last_ts_ns
    check_consistent(store)


def check_consistent(store: StreamStore) -> None:
    """The counters agree with what is there."""
    messages = live_messages(store)
    sizes = [stored.memory_size() if store.memory else stored.file_size() for stored in messages.values()]
    assert store.message_count == len(messages)
    assert store.byte_count == sum(sizes)
    if messages:
        assert store.first_seq == min(messages)
        assert store.first_ts_ns == messages[min(messages)].ts_ns
    else:
        assert store.first_seq == store.last_seq + 1
    check_subjects(store, messages)
    gaps = [seq for seq in range(store.first_seq, store.last_seq + 1) if seq not in messages] if messages else []
    assert store.deleted_count() == len(gaps)
    assert store.deleted_list(0) == gaps
    assert store.deleted_list(2) == gaps[:2]


def check_subjects(store: StreamStore, messages: dict[int, Stored]) -> None:
    by_subject: dict[bytes, list[int]] = {}
    for seq in sorted(messages):
        by_subject.setdefault(messages[seq].subject, []).append(seq)
    assert {subject: state.message_count for subject, state in store.subjects.items()} == {
        subject: len(seqs) for subject, seqs in by_subject.items()
    }
    for subject, seqs in by_subject.items():
        state = store.subjects[subject]
        assert state.first_seq <= seqs[0]
        assert state.last_seq >= seqs[-1]
        assert store.subject_first_seq(subject) == seqs[0]
        assert store.subject_last_seq(subject) == seqs[-1]


def check_searches(store: StreamStore, model: Model, seq: int, pattern: bytes) -> None:
    """Searching from one place with one filter."""
    wanted = SubjectFilter([pattern])
    view = RecordView()
    upto = model.last_seq
    after = model.matching(pattern, seq, upto)
    found = store.next_match(seq, upto, wanted, view)
    assert found == (after[0] if after else 0)
    if found:
        assert view.payload() == model.messages[found].payload
    before = model.matching(pattern, 0, seq)
    assert store.last_match(wanted, seq) == (before[-1] if before else 0)
    assert store.count_match(seq, wanted) == len(after)


def check_time(store: StreamStore, model: Model, ts_ns: int) -> None:
    later = [seq for seq in sorted(model.messages) if model.messages[seq].ts_ns >= ts_ns]
    assert store.seq_at_time(ts_ns) == (later[0] if later else model.last_seq + 1)
