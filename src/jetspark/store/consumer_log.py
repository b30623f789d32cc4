"""A consumer's state on disk: an append-only log of what changed, now and then replaced by a snapshot.

The broker tells the log each change as it makes it; changes since the last commit become one frame, whole or absent
after a crash. Runs are kept as runs: a batch of messages delivered together is one entry, and so are their
acknowledgements. Replaying the frames gives the broker's state exactly. A consumer kept in memory has a log that is
not enabled and does nothing. Layout, byte by byte: docs/store-format.md.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from jetspark.store.consumer_codec import (
    ACKED_ALL,
    ACKED_RUN,
    DELIVERED_RUN,
    DROPPED,
    ENTRIES,
    FLOOR,
    FORGOTTEN,
    HEAD_SIZE,
    POSITION,
    PROGRESS,
    REDELIVERED,
    SNAPSHOT,
    apply_frame,
    encode_head,
    encode_snapshot,
    frame,
    frame_length,
    read_seed,
)
from jetspark.store.consumer_gaps import LogGaps
from jetspark.store.consumer_state import ConsumerState, PendingEntry
from jetspark.store.disk import APPEND, MKDIRS, SYNC, TRUNCATE, WRITE_FILE, Commit, Disk, DiskOp, fresh_salt
from jetspark.store.meta import LOG_NAME
from jetspark.store.numbers import put_i64

__all__ = [
    "ConsumerLog",
    "ConsumerReport",
    "ConsumerState",
    "PendingEntry",
    "new_consumer_log",
    "open_consumer_log",
]

# A log is replaced by a snapshot when it is larger than this, and than some snapshots.
LOG_SIZE_MIN: Final = 1024 * 1024
SNAPSHOTS_MAX: Final = 8


class ConsumerReport:
    """What opening a log found wrong."""

    def __init__(self) -> None:
        self.cut_bytes: i64 = 0
        self.damaged_frames: i64 = 0
        # What the lost frames may have said; of use when there are any.
        self.gaps: LogGaps = LogGaps()

    def is_clean(self) -> bool:
        return self.cut_bytes == 0 and self.damaged_frames == 0


class ConsumerLog:
    """The log of one consumer."""

    def __init__(self, folder: str, state: ConsumerState, enabled: bool = True) -> None:
        self.folder: str = folder
        self.path: str = f"{folder}/{LOG_NAME}"
        self.state: ConsumerState = state
        self.enabled: bool = enabled
        self.has_pending: bool = False
        self.entries: BytesWriter = BytesWriter()
        self.seed: int = 0
        # Bytes in the file; 0 means that the next commit writes a new file with a snapshot.
        self.size: i64 = 0
        self.snapshot_size: i64 = 0
        self.is_unsynced: bool = False
        # The runs being gathered.
        self.run_stream_seq: i64 = 0
        self.run_consumer_seq: i64 = 0
        self.run_ts_ns: i64 = 0
        self.run_count: i64 = 0
        self.ack_stream_seq: i64 = 0
        self.ack_count: i64 = 0
        # Values of which only the latest matters.
        self.has_position: bool = False
        self.position_consumer_seq: i64 = 0
        self.position_stream_seq: i64 = 0
        self.position_ts_ns: i64 = 0
        self.has_floor: bool = False
        self.floor_consumer_seq: i64 = 0
        self.floor_stream_seq: i64 = 0

    # What the broker says.

    def delivered(self, stream_seq: i64, consumer_seq: i64, deliveries: i64, ts_ns: i64) -> None:
        """A message went out and is pending: entered, or, if it is there, with a new time and count."""
        if not self.enabled:
            return
        self.has_pending = True
        if self.ack_count > 0 and self.ack_stream_seq <= stream_seq < self.ack_stream_seq + self.ack_count:
            self.end_runs()
        if self.has_position:
            # A position of before, which this delivery moves on from.
            self.put_position()
        if deliveries == 1:
            count = self.run_count
            if (
                count > 0
                and stream_seq == self.run_stream_seq + count
                and consumer_seq == self.run_consumer_seq + count
                and ts_ns == self.run_ts_ns
            ):
                self.run_count = count + 1
                return
            self.end_delivered_run()
            self.run_stream_seq = stream_seq
            self.run_consumer_seq = consumer_seq
            self.run_ts_ns = ts_ns
            self.run_count = 1
            return
        self.end_delivered_run()
        self.entries.append(REDELIVERED)
        put_i64(self.entries, stream_seq)
        put_i64(self.entries, consumer_seq)
        put_i64(self.entries, deliveries)
        put_i64(self.entries, ts_ns)

    def delivered_position(self, consumer_seq: i64, stream_seq: i64, ts_ns: i64 = 0) -> None:
        """How far it has delivered, for a consumer that waits for no acknowledgement."""
        if self.enabled:
            self.has_pending = True
            self.has_position = True
            self.position_consumer_seq = consumer_seq
            self.position_stream_seq = stream_seq
            self.position_ts_ns = ts_ns

    def acked(self, stream_seq: i64, consumer_seq: i64) -> None:
        """A message is acknowledged: no longer pending, no longer counted as redelivered."""
        if not self.enabled:
            return
        self.has_pending = True
        if self.run_count > 0 and self.run_stream_seq <= stream_seq < self.run_stream_seq + self.run_count:
            self.end_runs()
        if self.ack_count > 0:
            if stream_seq == self.ack_stream_seq + self.ack_count:
                self.ack_count += 1
                return
            self.end_ack_run()
        self.ack_stream_seq = stream_seq
        self.ack_count = 1

    def acked_all(self, stream_seq: i64, consumer_seq: i64) -> None:
        """Everything up to a message is acknowledged, and that is the floor."""
        self.has_floor = False
        self.put_pair(ACKED_ALL, stream_seq, consumer_seq)

    def floor(self, consumer_seq: i64, stream_seq: i64) -> None:
        """Everything up to here is done with."""
        if self.enabled:
            self.has_pending = True
            self.has_floor = True
            self.floor_consumer_seq = consumer_seq
            self.floor_stream_seq = stream_seq

    def dropped(self, stream_seq: i64, deliveries: i64) -> None:
        """A message is given up after so many deliveries: no longer pending, remembered as redelivered."""
        self.put_pair(DROPPED, stream_seq, deliveries)

    def forgotten(self, stream_seq: i64) -> None:
        """A message left the stream: neither pending nor counted any more."""
        self.put_pair(FORGOTTEN, stream_seq, 0)

    def progress(self, stream_seq: i64, ts_ns: i64) -> None:
        """A pending message's time starts again."""
        self.put_pair(PROGRESS, stream_seq, ts_ns)

    def snapshot(self, state: ConsumerState) -> None:
        """Write this state whole with the next commit: after changes that have no word of their own."""
        if self.enabled:
            self.state = state
            self.forget_pending()
            self.size = 0
            self.has_pending = True

    # How it is gathered.

    def put_pair(self, kind: i64, first: i64, second: i64) -> None:
        if self.enabled:
            self.has_pending = True
            self.end_runs()
            self.entries.append(kind)
            put_i64(self.entries, first)
            put_i64(self.entries, second)

    def end_runs(self) -> None:
        # The two never concern the same message, so their order does not matter.
        self.end_delivered_run()
        self.end_ack_run()

    def end_delivered_run(self) -> None:
        if self.run_count > 0:
            self.entries.append(DELIVERED_RUN)
            put_i64(self.entries, self.run_stream_seq)
            put_i64(self.entries, self.run_consumer_seq)
            put_i64(self.entries, self.run_count)
            put_i64(self.entries, self.run_ts_ns)
            self.run_count = 0

    def end_ack_run(self) -> None:
        if self.ack_count > 0:
            self.entries.append(ACKED_RUN)
            put_i64(self.entries, self.ack_stream_seq)
            put_i64(self.entries, self.ack_count)
            self.ack_count = 0

    def put_position(self) -> None:
        self.end_delivered_run()
        self.has_position = False
        self.entries.append(POSITION)
        put_i64(self.entries, self.position_consumer_seq)
        put_i64(self.entries, self.position_stream_seq)
        put_i64(self.entries, self.position_ts_ns)

    def take_entries(self) -> bytes:
        self.end_runs()
        if self.has_position:
            self.put_position()
        if self.has_floor:
            self.has_floor = False
            self.entries.append(FLOOR)
            put_i64(self.entries, self.floor_consumer_seq)
            put_i64(self.entries, self.floor_stream_seq)
        data = self.entries.getvalue()
        self.entries.truncate(0)
        return data

    def forget_pending(self) -> None:
        self.entries.truncate(0)
        self.run_count = 0
        self.ack_count = 0
        self.has_position = False
        self.has_floor = False
        self.has_pending = False

    # Committing.

    def collect(self, commit: Commit, sync: bool) -> None:
        """Move what is pending into the commit."""
        if not self.enabled:
            return
        if self.has_pending:
            self.has_pending = False
            entries = self.take_entries()
            if self.size == 0 or self.size + len(entries) > max(LOG_SIZE_MIN, SNAPSHOTS_MAX * self.snapshot_size):
                self.write_snapshot(commit)
                return
            data = frame(ENTRIES, entries, self.seed)
            commit.add(DiskOp(APPEND, self.path, data))
            self.size += len(data)
            self.is_unsynced = True
        if sync and self.is_unsynced:
            commit.add(DiskOp(SYNC, self.path))
            self.is_unsynced = False

    def write_snapshot(self, commit: Commit) -> None:
        head = encode_head(fresh_salt())
        self.seed = read_seed(head)
        data = head + frame(SNAPSHOT, encode_snapshot(self.state), self.seed)
        if self.size == 0:
            commit.add(DiskOp(MKDIRS, self.folder))
        commit.add(DiskOp(WRITE_FILE, self.path, data))
        self.size = len(data)
        self.snapshot_size = self.size
        self.is_unsynced = False

    def committed(self) -> None:
        """What was collected is durable."""

    def rollback(self, state: ConsumerState) -> None:
        """The commit failed, and what of it is on disk is not known: the next one writes the whole state."""
        self.snapshot(state)


def new_consumer_log(folder: str, enabled: bool) -> ConsumerLog:
    """The log of a consumer that did not exist before, with an empty state until `snapshot` gives it another."""
    return ConsumerLog(folder, ConsumerState(), enabled)


def open_consumer_log(disk: Disk, folder: str) -> tuple[ConsumerLog, ConsumerState, ConsumerReport]:
    """The log in a consumer's folder, and the state it adds up to; both empty when there is none yet.

    With damaged frames the state is what the others say. What to make of that is the broker's business.
    """
    state = ConsumerState()
    log = ConsumerLog(folder, state)
    report = ConsumerReport()
    if disk.size(log.path) <= 0:
        return log, state, report
    data = disk.read_all(log.path)
    log.seed = read_seed(data)
    end: i64 = len(data)
    at: i64 = HEAD_SIZE if log.seed != 0 else end
    if log.seed == 0:
        report.damaged_frames += 1
    good: i64 = at
    while at < end:
        length = frame_length(data, at, end, log.seed)
        if length == 0:
            at = next_frame(data, at, end, log.seed)
            if at < end:
                report.damaged_frames += 1
            continue
        apply_frame(data, at, length, state)
        if good == HEAD_SIZE:
            log.snapshot_size = length
        at += length
        good = at
    if report.damaged_frames > 0 and log.seed != 0:
        find_gaps(data, good, log.seed, report.gaps)
    report.cut_bytes = end - good
    # Cut and synced in any case: what a process wrote before it was killed is read here, and confirmed to whoever asks
    # again, but may not be on the medium.
    disk.perform(DiskOp(TRUNCATE, log.path, b"", "", good))
    # A damaged log is replaced as soon as there is anything to write.
    log.size = good if report.damaged_frames == 0 else 0
    return log, state, report


def find_gaps(data: bytes, end: i64, seed: int, gaps: LogGaps) -> None:
    """Go over a damaged log once more, for what is missing in it."""
    at: i64 = HEAD_SIZE
    while at < end:
        length = frame_length(data, at, end, seed)
        if length == 0:
            gaps.gap()
            at = next_frame(data, at, end, seed)
            continue
        gaps.take_frame(data, at, length)
        at += length
    gaps.sort()


def next_frame(data: bytes, at: i64, end: i64, seed: int) -> i64:
    """Where the next whole frame begins after a damaged one; `end` if there is none."""
    position: i64 = at + 1
    while position < end:
        if frame_length(data, position, end, seed) > 0:
            return position
        position += 1
    return end
