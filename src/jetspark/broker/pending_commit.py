"""A commit on its way to the disk, and who waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.store.disk import Commit

if TYPE_CHECKING:
    from jetspark.broker.changes import Change, Removal, Repair
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.broker.session import Session
    from jetspark.broker.stream import Stream


class PendingCommit(Commit):
    """A commit with what it settles once it is durable."""

    def __init__(self, repair: Repair | None = None) -> None:
        super().__init__()
        self.streams: list[Stream] = []
        self.covers: list[int] = []
        self.consumers: list[Consumer] = []
        self.sessions: list[Session] = []
        self.replies: list[bytes] = []
        # Streams and consumers that go, those first, and those that are made or changed.
        self.removals: list[Removal] = []
        self.changes: list[Change] = []
        # What this commit puts right, and nothing else, so that its failure is nobody else's.
        self.repair = repair
        if repair is not None:
            self.ops = repair.ops
        # Consumers that begin to deliver once the replies have left.
        self.starting: list[Consumer] = []
