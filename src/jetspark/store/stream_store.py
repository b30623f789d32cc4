"""One stream's messages at rest: what the broker calls.

Everything happens in memory first and is described to the disk as operations: `collect` moves what is pending into a
commit, `committed` says that it is durable, `rollback` goes back to the commit before. So that going back is always
possible, nothing that destroys bytes (removing a file, overwriting an erased record, rewriting a block) is in the
same commit as the note that justifies it: it goes into the next. A memory stream is the same without operations.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import i64

from jetspark.protocol.subjects import SubjectFilter
from jetspark.store import compaction, erase, queries, undo
from jetspark.store.block import Block
from jetspark.store.block_head import block_path, index_path
from jetspark.store.disk import (
    APPEND,
    MKDIRS,
    REMOVE_TREE,
    SYNC,
    SYNC_DIR,
    WRITE_CACHE,
    Commit,
    Disk,
    DiskOp,
)
from jetspark.store.record import encode_state
from jetspark.store.sidecar import encode_sidecar
from jetspark.store.store_base import StoreOptions
from jetspark.store.store_writer import StoreWriter
from jetspark.store.view import RecordView


class StreamStore(StoreWriter):
    """The messages of one stream. `open_stream_store` makes one."""

    def __init__(self, disk: Disk, path: str, options: StoreOptions) -> None:
        super().__init__(disk, path, options)
        self.path: str = path
        self.epoch_in_flight: i64 = 0

    # Reading.

    def next_match(self, seq: i64, upto: i64, wanted: SubjectFilter, into: RecordView) -> i64:
        """Show the first live message in [seq, upto] that the filter takes; 0 if there is none."""
        while True:
            found = queries.find_next(self, seq, upto, wanted)
            # A record may turn out damaged when its bytes are read; then it is no longer live.
            if found == 0 or self.view(found, into):
                return found
            seq = found + 1

    def last_match(self, wanted: SubjectFilter, upto: i64) -> i64:
        """Last live sequence at or below `upto` that the filter takes; 0 if none."""
        return queries.find_last(self, wanted, upto)

    def count_match(self, from_seq: i64, wanted: SubjectFilter) -> i64:
        """How many live messages at or after `from_seq` the filter takes."""
        return queries.count_from(self, from_seq, wanted)

    def seq_at_time(self, ts_ns: i64) -> i64:
        """First live sequence stored at or after a time; one past the last if none."""
        return queries.find_time(self, ts_ns)

    def deleted_count(self) -> i64:
        """Sequences between the first and the last message that are not there (any more)."""
        if self.message_count == 0:
            return 0
        return self.last_seq - self.first_seq + 1 - self.message_count

    def deleted_list(self, limit: i64) -> list[int]:
        """Those sequences, lowest first, at most `limit` of them."""
        return queries.list_deleted(self, limit)

    def blocks_with_headers(self) -> i64:
        """How many blocks hold messages with headers: what `scan_headers(0, ...)` would have to read."""
        found: i64 = 0
        for block in self.blocks:
            if block.header_count > 0 and block.live_count > 0:
                found += 1
        return found

    def scan_headers(self, from_ts_ns: i64, callback: Callable[[RecordView], None]) -> None:
        """Show every live message with headers stored at or after a time, reading only blocks that have such."""
        view = RecordView()
        for block in list(self.blocks):
            if block.header_count == 0 or block.live_count == 0 or block.last_ts_ns < from_ts_ns:
                continue
            index = block.next_live_index(0)
            while index >= 0:
                if self.view(block.base_seq + index, view) and view.header_size > 0 and view.ts_ns >= from_ts_ns:
                    callback(view)
                index = block.next_live_index(index + 1)

    # Committing.

    @property
    def needs_sync(self) -> bool:
        """Something was written without a sync; collecting with one makes it durable."""
        return bool(self.unsynced) or self.is_folder_unsynced

    def collect(self, commit: Commit, sync: bool) -> i64:
        """Move everything pending into the commit; returns the last sequence it covers."""
        self.has_pending = False
        self.epoch_in_flight = self.epoch
        self.epoch += 1
        if self.memory:
            self.open.seal()
            self.note_state = False
            return self.last_seq
        # Also when nothing moved the first sequence in this life, but the disk does not know it: tombstones below it
        # are dropped when it is durable, so it has to be written before it may be relied upon.
        if self.note_state or self.first_seq > self.noted_first_seq:
            self.note_state = False
            self.put_state()
            self.has_pending = False
        self.deferred_in_flight = self.deferred
        self.deferred = []
        for op in self.deferred_in_flight:
            commit.add(op)
        for block in self.closing:
            self.write_block(commit, block)
            if sync:
                # A crash may tear a commit, but only at its end: no block is on disk before all of the one before it.
                self.sync_written(commit)
        self.write_block(commit, self.open)
        if sync:
            self.sync_written(commit)
        for block in self.closing:
            if not block.has_data:
                try:
                    self.load(block)
                except OSError:
                    # No index file then, which costs a scan at the next start.
                    continue
            path = index_path(self.folder, block.number)
            commit.add(DiskOp(WRITE_CACHE, path, encode_sidecar(block, block.bytes_from(0))))
        self.closing_in_flight = self.closing
        self.closing = []
        self.in_flight = undo.take_mark(self)
        return self.last_seq

    def put_state(self) -> None:
        block = self.open
        self.put_note(encode_state(self.writer, self.first_seq, self.last_seq, self.last_ts_ns))
        self.noted_first_seq = self.first_seq
        block.state_first_seq = self.first_seq
        block.state_last_seq = self.last_seq
        block.state_last_ts_ns = self.last_ts_ns

    def write_block(self, commit: Commit, block: Block) -> None:
        """Append what the block's file does not have yet."""
        if block.size <= block.written_size:
            return
        if not self.is_folder_made:
            self.is_folder_made = True
            commit.add(DiskOp(MKDIRS, self.folder))
        if block.written_size == 0:
            self.is_folder_unsynced = True
        path = block_path(self.folder, block.number)
        commit.add(DiskOp(APPEND, path, block.bytes_from(block.written_size)))
        block.written_size = block.size
        self.unsynced[path] = True

    def sync_written(self, commit: Commit) -> None:
        for path in self.unsynced:
            commit.add(DiskOp(SYNC, path))
        self.unsynced.clear()
        if self.is_folder_unsynced:
            # A file whose name is not durable is not durable.
            commit.add(DiskOp(SYNC_DIR, self.folder))
            self.is_folder_unsynced = False

    def committed(self, seq: i64) -> None:
        """What was collected is durable: it becomes visible, and what it allows can begin."""
        self.visible_seq = seq
        if self.memory:
            # Nothing to wait for: collecting first is allowed, not needed.
            self.open.seal()
            self.has_pending = False
            if self.touched:
                compaction.sweep(self, self.epoch)
            return
        undo.settle(self, self.in_flight)
        self.durable = self.in_flight
        self.deferred_in_flight = []
        if self.open.number == self.durable.open_number:
            self.open.durable_size = self.durable.open_written_size
            self.cache.admit(self.open)
        for block in self.rewriting:
            block.is_rewriting = False
            block.pinned = False
            self.cache.admit(block)
        self.rewriting = []
        for block in self.closing_in_flight:
            self.finish_block(block)
        self.closing_in_flight = []
        if self.touched:
            self.defer(compaction.sweep(self, self.epoch_in_flight))
        if self.erasing:
            self.defer(erase.erase_durable(self, self.epoch_in_flight))

    def finish_block(self, block: Block) -> None:
        """A full block is durable: it may leave memory, be compressed, be compacted."""
        block.pinned = False
        block.is_filed = True
        if self.options.compress:
            self.defer(compaction.rewrite_ops(self, block, block.bytes_from(0)))
        if (block.dead_count > 0 or block.live_count == 0) and not block.is_touched:
            block.is_touched = True
            self.touched.append(block)
        self.cache.admit(block)

    def defer(self, ops: list[DiskOp]) -> None:
        """Have operations done in the next commit."""
        if ops:
            self.deferred.extend(ops)
            self.has_pending = True

    def rollback(self) -> None:
        """The commit failed: forget everything that is not durable, and have the files cut back to it."""
        undo.roll_back(self)

    def clean_shutdown(self, commit: Commit) -> None:
        """Collect the last commit of this life, synced."""
        self.collect(commit, True)

    def delete(self, commit: Commit) -> None:
        """The stream goes, with every file."""
        self.closed()
        if not self.memory:
            commit.add(DiskOp(REMOVE_TREE, self.path))

    def closed(self) -> None:
        """The store is not used any more: let go of memory shared with others."""
        for block in self.blocks:
            self.cache.release(block)
        self.has_pending = False

    def reconfigure(self, options: StoreOptions) -> None:
        """Take other options; what is already written stays as it is until it is rewritten. The kind cannot change."""
        assert options.memory == self.memory
        options.cache = self.cache
        self.options = options
        self.block_size = options.block_size
        self.track_subject_sequences(options.track_sequences)
