"""Any sequence of calls leaves the file store and the memory store equal to a plain model."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jetspark.protocol.subjects import SubjectFilter
from jetspark.store.block_cache import BlockCache
from jetspark.store.disk import Commit
from jetspark.store.recovery import open_stream_store
from jetspark.store.store_base import StoreOptions
from jetspark.store.stream_store import StreamStore
from jetspark.testing.sim_disk import SimDisk
from tests.store.model import Model, Stored, check_same, check_searches, check_time, commit, reopened

SUBJECTS = st.sampled_from([b"a", b"a.b", b"a.c", b"b", b"long.subject.with.tokens"])
PATTERNS = st.sampled_from([b">", b"a", b"a.*", b"b", b"*", b"none", b"a.>", b"long.subject.with.tokens"])
HEADERS = st.sampled_from([b"", b"", b"NATS/1.0\r\nA: 1\r\n\r\n"])
PAYLOADS = st.binary(max_size=60)
SEQS = st.integers(1, 60)


class StoreMachine(RuleBasedStateMachine):
    """One model, two stores."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk(Random(1))
        self.now_ns = 1_000
        self.model = Model()
        self.durable = Model()
        self.in_flight: tuple[Commit, int, Model] | None = None
        self.file: StreamStore
        self.memory: StreamStore
        self.options: StoreOptions

    @initialize(compress=st.booleans(), tracks=st.booleans(), cache_bytes=st.sampled_from([0, 2_000, 1 << 20]))
    def begin(self, compress: bool, tracks: bool, cache_bytes: int) -> None:
        self.options = StoreOptions(block_size=600, compress=compress, track_sequences=tracks)
        self.options.cache = BlockCache(cache_bytes)
        self.file = reopened(self.disk, self.options)
        memory_options = StoreOptions(memory=True, block_size=600, track_sequences=tracks)
        self.memory = open_stream_store(self.disk, "", memory_options)

    @rule(subject=SUBJECTS, header=HEADERS, payload=PAYLOADS, later_ns=st.integers(0, 5))
    def append(self, subject: bytes, header: bytes, payload: bytes, later_ns: int) -> None:
        self.now_ns += later_ns
        seq = self.model.append(Stored(subject, header, payload, self.now_ns))
        for store in (self.file, self.memory):
            assert store.append(subject, len(header), header + payload, self.now_ns) == seq

    @rule(subject=SUBJECTS, payloads=st.lists(PAYLOADS, min_size=1, max_size=12), later_ns=st.integers(0, 5))
    def append_run(self, subject: bytes, payloads: list[bytes], later_ns: int) -> None:
        self.now_ns += later_ns
        seqs = [self.model.append(Stored(subject, b"", payload, self.now_ns)) for payload in payloads]
        for store in (self.file, self.memory):
            assert store.append_run(subject, payloads, self.now_ns) == seqs[0]

    @rule(subject=SUBJECTS, payload=PAYLOADS, gap=st.integers(1, 40))
    def append_at(self, subject: bytes, payload: bytes, gap: int) -> None:
        seq = self.model.last_seq + gap
        self.model.last_seq = seq - 1
        self.model.append(Stored(subject, b"", payload, self.now_ns))
        for store in (self.file, self.memory):
            store.append_at(seq, subject, 0, payload, self.now_ns)

    @rule(ahead=st.integers(0, 30))
    def skip(self, ahead: int) -> None:
        self.now_ns += 1
        seq = self.model.last_seq + ahead
        self.model.skip_to(seq, self.now_ns)
        for store in (self.file, self.memory):
            store.skip_to(seq, self.now_ns)

    @rule(seq=SEQS, erase=st.booleans())
    def remove(self, seq: int, erase: bool) -> None:
        was_there = self.model.messages.pop(seq, None) is not None
        for store in (self.file, self.memory):
            assert store.remove(seq, erase) == was_there

    @rule()
    def remove_first(self) -> None:
        if self.model.messages:
            self.remove(min(self.model.messages), False)

    @rule(seq=SEQS)
    def purge_below(self, seq: int) -> None:
        gone = [other for other in self.model.messages if other < seq]
        for other in gone:
            del self.model.messages[other]
        for store in (self.file, self.memory):
            assert store.purge_below(seq) == len(gone)

    @rule()
    def purge_everything(self) -> None:
        self.purge_below(self.model.last_seq + 1)

    @rule(pattern=PATTERNS, below_seq=st.sampled_from([0, 5, 20]), keep=st.sampled_from([0, 0, 1, 3]))
    def purge_subject(self, pattern: bytes, below_seq: int, keep: int) -> None:
        count = self.model.purge_subject(pattern, below_seq, keep)
        for store in (self.file, self.memory):
            assert store.purge_subject(SubjectFilter([pattern]), below_seq, keep) == count

    @rule(sync=st.booleans())
    @precondition(lambda self: self.in_flight is None)
    def collect(self, sync: bool) -> None:
        pending = Commit()
        seq = self.file.collect(pending, sync)
        assert seq == self.model.last_seq
        self.in_flight = (pending, seq, self.model.copy())
        commit(self.memory, self.disk)
        assert self.memory.visible_seq == self.model.last_seq

    @rule()
    @precondition(lambda self: self.in_flight is not None)
    def commit_succeeds(self) -> None:
        assert self.in_flight is not None
        pending, seq, model = self.in_flight
        for op in pending.ops:
            self.disk.perform(op)
        self.file.committed(seq)
        assert self.file.visible_seq == seq
        self.durable = model
        self.in_flight = None

    @rule(done=st.integers(0, 6))
    @precondition(lambda self: self.in_flight is not None)
    def commit_fails(self, done: int) -> None:
        assert self.in_flight is not None
        pending, _, _ = self.in_flight
        for op in pending.ops[:done]:
            self.disk.perform(op)
        self.file.rollback()
        self.in_flight = None
        self.model = self.durable.copy()
        self.rebuild_memory()

    @rule()
    @precondition(lambda self: self.in_flight is None)
    def restart(self) -> None:
        commit(self.file, self.disk)
        self.durable = self.model.copy()
        self.file = reopened(self.disk, self.options)
        assert self.file.report.is_clean()

    def rebuild_memory(self) -> None:
        """Memory streams do not roll back; begin again with the model's content."""
        self.memory = open_stream_store(self.disk, "", self.memory.options)
        for seq, stored in self.model.messages.items():
            self.memory.append_at(seq, stored.subject, len(stored.header), stored.header + stored.payload, stored.ts_ns)
        self.memory.skip_to(self.model.last_seq, self.model.last_ts_ns)

    @rule(seq=SEQS, pattern=PATTERNS)
    def search(self, seq: int, pattern: bytes) -> None:
        for store in (self.file, self.memory):
            check_searches(store, self.model, seq, pattern)

    @rule(ago_ns=st.integers(0, 30))
    def search_time(self, ago_ns: int) -> None:
        for store in (self.file, self.memory):
            check_time(store, self.model, self.now_ns - ago_ns)

    @invariant()
    def equal(self) -> None:
        if not hasattr(self, "file"):
            return
        check_same(self.file, self.model)
        check_same(self.memory, self.model)


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
