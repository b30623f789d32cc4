"""Where a store stood at a commit, and what died in one piece since: what is needed to take changes back."""

from __future__ import annotations

from mypy_extensions import i64

from jetspark.store.block import Block


class KilledBlock:
    """A block whose records all died at once, and what it had."""

    def __init__(self, block: Block) -> None:
        self.block: Block = block
        self.live_count: i64 = block.live_count
        self.live_bytes: i64 = block.live_bytes


class Mark:
    """Where a store stood when a commit was collected."""

    def __init__(self) -> None:
        self.first_seq: i64 = 0
        self.last_seq: i64 = 0
        self.last_ts_ns: i64 = 0
        self.open_number: i64 = 0
        self.open_size: i64 = 0
        self.open_written_size: i64 = 0
        self.open_count: i64 = 0
        self.open_subject_count: i64 = 0
        self.open_tombstone_count: i64 = 0
        self.open_state_first_seq: i64 = 0
        self.open_state_last_seq: i64 = 0
        self.open_state_last_ts_ns: i64 = 0
        self.removed_count: i64 = 0
        self.killed_count: i64 = 0
        self.purged: bool = False
