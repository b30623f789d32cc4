"""Changes to what the disk knows of streams and consumers, and how each is taken back.

A change is in force at once and answered when it is durable. When the disk refuses it, whoever asked is told so, and
then it must not be in force either: what was made is gone again, what was changed is as it was before. What is removed
stays removed: that needs no space, and on a full disk it is the way out.

What a commit that failed has left on the disk is not known. It is put right by `Repairs`, each in a commit of its own,
so that an object the disk will not write keeps nobody else from writing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.stream_config import StreamConfig
from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.stream import Stream
from jetspark.store.disk import REMOVE_TREE, DiskOp

if TYPE_CHECKING:
    from jetspark.broker.jetstream import JetStream
    from jetspark.broker.rebuild import Rebuild


class Change:
    """What is to be written about the stream or consumer in a folder."""

    def __init__(self, folder: str, ops: list[DiskOp]) -> None:
        self.folder = folder
        self.ops = ops
        # The stream whose messages a start could remove if it found what was refused; None when there is none.
        self.endangered: Stream | None = None

    def take_back(self, starting: list[Consumer]) -> list[DiskOp]:
        """The disk refused it: as if it had never been asked for. What puts the disk right, if nothing else does.

        Consumers that have reason to look for messages again are added to `starting`.
        """
        raise NotImplementedError


class Removal(Change):
    """A folder goes, with everything in it."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, [DiskOp(REMOVE_TREE, folder)])

    def take_back(self, starting: list[Consumer]) -> list[DiskOp]:
        return self.ops

    def covers(self, folder: str) -> bool:
        return folder == self.folder or folder.startswith(self.folder + "/")


class StreamMade(Change):
    """A stream that was created or restored."""

    def __init__(self, jetstream: JetStream, stream: Stream, ops: list[DiskOp]) -> None:
        super().__init__(jetstream.stream_path(stream.name), ops)
        self._jetstream = jetstream
        self._stream = stream

    def take_back(self, starting: list[Consumer]) -> list[DiskOp]:
        if not self._stream.deleted:
            self._jetstream.delete_stream(self._stream)
        return []


class StreamChanged(Change):
    """A stream whose configuration was another before."""

    def __init__(self, jetstream: JetStream, stream: Stream, before: StreamConfig, ops: list[DiskOp]) -> None:
        super().__init__(jetstream.stream_path(stream.name), ops)
        self._jetstream = jetstream
        self._stream = stream
        self._before = before
        self.endangered = stream

    def take_back(self, starting: list[Consumer]) -> list[DiskOp]:
        stream = self._stream
        if stream.deleted:
            return []
        self._jetstream.configure_stream(stream, self._before)
        # Messages that went because of the limits that are no more come back when the store is taken back.
        stream.retention.enforce_all()
        return self._jetstream.stream_ops(stream)


class ConsumerMade(Change):
    """A consumer that was created or came with a restored stream."""

    def __init__(self, jetstream: JetStream, consumer: Consumer, ops: list[DiskOp]) -> None:
        super().__init__(jetstream.consumer_path(consumer.stream.name, consumer.name), ops)
        self._jetstream = jetstream
        self._consumer = consumer

    def take_back(self, starting: list[Consumer]) -> list[DiskOp]:
        self._jetstream.delete_consumer(self._consumer)
        return []


class ConsumerChanged(Change):
    """A consumer whose configuration was another before."""

    def __init__(self, jetstream: JetStream, consumer: Consumer, before: ConsumerConfig, ops: list[DiskOp]) -> None:
        super().__init__(jetstream.consumer_path(consumer.stream.name, consumer.name), ops)
        self._jetstream = jetstream
        self._consumer = consumer
        self._before = before
        self.endangered = consumer.stream

    def take_back(self, starting: list[Consumer]) -> list[DiskOp]:
        consumer = self._consumer
        if consumer.deleted:
            return []
        was_paused_until = consumer.config.pause_until
        before = self._before
        self._jetstream.configure_consumer(consumer, before)
        if before.pause_until != was_paused_until:
            consumer.lifecycle.pause(0 if before.pause_until is None else before.pause_until.unix_ns)
        # It delivers when its stream, too, is as it was: what is owed again counts then.
        starting.append(consumer)
        return self._jetstream.consumer_ops(consumer)


class RestoreBegun(Change):
    """The mark of a stream that is on its way in."""

    def __init__(self, folder: str, rebuild: Rebuild, ops: list[DiskOp]) -> None:
        super().__init__(folder, ops)
        self._rebuild = rebuild

    def take_back(self, starting: list[Consumer]) -> list[DiskOp]:
        self._rebuild.lacks_mark = True
        return []


class Gathered:
    """The changes that wait for the next commit."""

    def __init__(self) -> None:
        self.removals: list[Removal] = []
        self.changes: list[Change] = []

    def add(self, change: Change) -> None:
        self.changes.append(change)

    def remove(self, removal: Removal) -> None:
        """Nothing that was to be written there is wanted any more, so removals may come before all other changes."""
        self.changes = [change for change in self.changes if not removal.covers(change.folder)]
        self.removals = [other for other in self.removals if not removal.covers(other.folder)]
        self.removals.append(removal)

    def concerns(self, folder: str) -> bool:
        """Will the next commit settle what is in this folder?"""
        for change in self.changes:
            if change.folder == folder:
                return True
        for removal in self.removals:
            if removal.covers(folder):
                return True
        return False


class Repair:
    """Operations that put a folder right. While they wait, the stream they concern takes no messages."""

    def __init__(self, folder: str, ops: list[DiskOp], endangered: Stream | None) -> None:
        self.folder = folder
        self.ops = ops
        self.endangered = endangered


class Repairs:
    """What failed commits have left to put right, by folder; the one that waited longest first."""

    def __init__(self) -> None:
        self._waiting: dict[str, Repair] = {}
        self.under_way: Repair | None = None
        # False for a moment after the disk failed.
        self.are_due: bool = False

    def put(self, repair: Repair) -> None:
        self._waiting.pop(repair.folder, None)
        if repair.ops:
            self._waiting[repair.folder] = repair

    def drop(self, folder: str) -> None:
        """A newer change settles what is in this folder."""
        self._waiting.pop(folder, None)

    def drop_covered(self, removal: Removal) -> None:
        for folder in [folder for folder in self._waiting if removal.covers(folder)]:
            del self._waiting[folder]

    def is_empty(self) -> bool:
        return not self._waiting

    def concern(self, stream: Stream) -> bool:
        """Could a start find something that was refused and remove messages of this stream for it?"""
        if self.under_way is not None and self.under_way.endangered is stream:
            return True
        for repair in self._waiting.values():
            if repair.endangered is stream:
                return True
        return False

    def take_due(self) -> Repair | None:
        """The one to try now; None when there is none."""
        if not self.are_due or not self._waiting:
            return None
        self.under_way = self._waiting.pop(next(iter(self._waiting)))
        return self.under_way
