"""A stream put together from an archive.

Messages go into a store of their own as they arrive; the stream joins the account only when all of it is durable.
Until then a mark in its folder says that whatever is there is not a stream yet, so a crash leaves nothing half made.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import i64

from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.error_codes import ApiError
from jetspark.api.stream_config import StreamConfig
from jetspark.api.stream_state import StreamState
from jetspark.broker import recovery
from jetspark.broker.bounds import bounded_time
from jetspark.broker.changes import ConsumerMade, Removal, RestoreBegun, StreamMade
from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.stream import Stream
from jetspark.broker.transfer import archive, old_archive
from jetspark.broker.transfer.archive import ArchiveEntry, ArchiveReader
from jetspark.broker.transfer.old_archive import TarReader
from jetspark.broker.transfer.s2_block import DamagedArchive
from jetspark.broker.transfer.s2_frames import FrameReader
from jetspark.store.consumer_log import ConsumerLog
from jetspark.store.consumer_state import ConsumerState, PendingEntry
from jetspark.store.disk import MKDIRS, REMOVE, WRITE_FILE, DiskOp
from jetspark.store.record import SUBJECT_SIZE_MAX
from jetspark.store.recovery import new_stream_store

if TYPE_CHECKING:
    from jetspark.broker.jetstream import JetStream

ENDED_EARLY: Final = "unexpected EOF"
OUT_OF_ORDER: Final = "sequences out of order"
SUBJECT_TOO_LONG: Final = f"a subject of more than {SUBJECT_SIZE_MAX} bytes"
STORE_FAILED: Final = "storage failure during restore"
BAD_DOCUMENT: Final = "unreadable document"


class Rebuild:
    """One stream in the making. `feed` raises DamagedArchive when the bytes make no sense."""

    def __init__(self, jetstream: JetStream, config: StreamConfig, state: StreamState) -> None:
        broker = jetstream.broker
        self._jetstream = jetstream
        self._path: str = jetstream.stream_path(config.name)
        store = new_stream_store(broker.disk, self._path, recovery.store_options(broker, config))
        self.stream = Stream(broker, jetstream.account, config, store, broker.now_ns)
        self._frames = FrameReader()
        # Bytes before it is clear which kind of archive this is.
        self._start: bytes = b""
        self._archive: ArchiveReader | None = None
        self._tar: TarReader | None = None
        # What must be in the store at the end, or a commit has failed on the way.
        self._last_seq: i64 = 0
        # What the stream looked like: as the request says, until the archive says it better.
        self._state = state
        self._removed: list[int] = []
        self._consumers: list[tuple[str, dict[str, Any]]] = []
        # The disk refused the mark, so nothing may be put there.
        self.lacks_mark: bool = False
        if not self.stream.in_memory:
            mark = DiskOp(WRITE_FILE, f"{self._path}/{recovery.RESTORE_MARK}", b"restore")
            # What is left of another stream of this name must not mix with this one.
            broker.remove_soon(Removal(self._path))
            broker.change_soon(RestoreBegun(self._path, self, [DiskOp(MKDIRS, self._path), mark]))

    # -- what arrives ------------------------------------------------------------------------------------------------

    def feed(self, chunk: bytes) -> None:
        data = self._frames.feed(chunk)
        if self._archive is None and self._tar is None:
            data = self._start + data
            if len(data) < len(archive.MAGIC):
                self._start = data
                return
            self._start = b""
            if data.startswith(archive.MAGIC):
                self._archive = ArchiveReader()
                data = data[len(archive.MAGIC) :]
            else:
                self._tar = TarReader()
        if self._archive is not None:
            for entry in self._archive.feed(data):
                self._take_entry(entry)
        elif self._tar is not None:
            for name, content in self._tar.feed(data):
                self._take_file(name, content)

    def _take_entry(self, entry: ArchiveEntry) -> None:
        if entry.seq > 0:
            self._put(entry)
        elif entry.name == archive.STATE_NAME:
            self._state = StreamState.decode(read_json(entry.payload))
        elif entry.name.startswith(archive.CONSUMER_PREFIX):
            name = entry.name[len(archive.CONSUMER_PREFIX) :].decode("utf-8", "replace")
            self._consumers.append((name, read_json(entry.payload)))

    def _take_file(self, name: str, content: bytes) -> None:
        """A file of the archives that older servers made: their store's own files."""
        if name.startswith("msgs/") and name.endswith(".blk"):
            block = old_archive.read_block(content)
            for entry in block.entries:
                self._put(entry)
            self._removed.extend(block.removed)
        elif name.startswith("obs/") and name.endswith("/meta.inf"):
            document = read_json(content)
            document.pop(recovery.CREATED_KEY, None)
            consumer_name = str(document.pop(recovery.NAME_KEY, ""))
            self._consumers.append((consumer_name, {"config": document, "state": {}}))
        elif name.startswith("obs/") and name.endswith("/o.dat") and self._consumers:
            # Comes after the description of the same consumer.
            self._consumers[-1][1]["state"] = old_archive.read_consumer_state(content)

    def _put(self, entry: ArchiveEntry) -> None:
        store = self.stream.store
        if store.last_seq != self._last_seq:
            # A commit failed on the way and took back what was there.
            raise DamagedArchive(STORE_FAILED)
        if entry.seq <= store.last_seq:
            raise DamagedArchive(OUT_OF_ORDER)
        if len(entry.name) > SUBJECT_SIZE_MAX:
            raise DamagedArchive(SUBJECT_TOO_LONG)
        store.append_at(entry.seq, entry.name, len(entry.header), entry.header + entry.payload, entry.ts_ns)
        self._last_seq = entry.seq
        self.stream.mark_dirty()

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> str:
        """Everything has arrived: why it is no stream, or nothing."""
        is_ended = (self._archive is not None and self._archive.has_ended) or (
            self._tar is not None and self._tar.has_ended
        )
        if not is_ended or not self._frames.is_whole():
            return ENDED_EARLY
        stream = self.stream
        store = stream.store
        if self.has_failed():
            return STORE_FAILED
        for seq in self._removed:
            store.remove(seq, False)
        if self._state.last_seq > store.last_seq:
            store.skip_to(self._state.last_seq, max(bounded_time(self._state.last_ts.unix_ns), store.last_ts_ns))
        self._last_seq = store.last_seq
        stream.mark_dirty()
        return ""

    def is_durable(self) -> bool:
        store = self.stream.store
        return store.visible_seq >= self._last_seq and not self.stream.is_dirty and not self.stream.is_settling

    def has_failed(self) -> bool:
        """Did the disk refuse some of it?"""
        return self.lacks_mark or self.stream.store.last_seq != self._last_seq

    def adopt(self) -> None:
        """All of it is durable: it is a stream of the account now."""
        jetstream = self._jetstream
        broker = jetstream.broker
        stream = self.stream
        # First what may raise: a stream that is refused must not be in force.
        recovery.verify_writable(stream.config)
        consumers = [(name, *read_consumer(document)) for name, document in self._consumers]
        recovery.recover_message_ids(stream)
        jetstream.register(stream)
        if not stream.in_memory:
            unmark = DiskOp(REMOVE, f"{self._path}/{recovery.RESTORE_MARK}")
            broker.change_soon(StreamMade(jetstream, stream, [*jetstream.stream_ops(stream), unmark]))
        for name, config, state in consumers:
            self._adopt_consumer(name, config, state)
        recovery.join(stream)

    def _adopt_consumer(self, name: str, config: ConsumerConfig, state: ConsumerState) -> None:
        jetstream = self._jetstream
        stream = self.stream
        in_memory = stream.in_memory or config.mem_storage
        log = ConsumerLog(jetstream.consumer_path(stream.name, name), state, not in_memory)
        consumer = Consumer(stream, name, config, log, state, jetstream.broker.now_ns)
        recovery.find_place(consumer)
        recovery.attach(jetstream, consumer)
        if not in_memory:
            jetstream.broker.change_soon(ConsumerMade(jetstream, consumer, jetstream.consumer_ops(consumer)))
            log.snapshot(state)
            consumer.mark_dirty()

    def discard(self) -> None:
        """It will not become a stream: nothing of it stays."""
        self.stream.deleted = True
        self.stream.store.closed()
        if not self.stream.in_memory:
            self._jetstream.broker.remove_soon(Removal(self._path))


def read_json(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise DamagedArchive(BAD_DOCUMENT)
    return document


def read_consumer(document: dict[str, Any]) -> tuple[ConsumerConfig, ConsumerState]:
    """Configuration and state from the words of an archive; DamagedArchive when they are not a consumer's."""
    try:
        config = ConsumerConfig.decode(document.get("config") or {})
        recovery.verify_writable(config)
        return config, read_state(document.get("state") or {})
    except (ApiError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise DamagedArchive(f"{BAD_DOCUMENT}: {error}") from None


def read_state(document: dict[str, Any]) -> ConsumerState:
    """A consumer's state from the words of an archive."""
    state = ConsumerState()
    delivered = document.get("delivered") or {}
    floor = document.get("ack_floor") or {}
    state.delivered_consumer_seq = int(delivered.get("consumer_seq", 0))
    state.delivered_stream_seq = int(delivered.get("stream_seq", 0))
    state.floor_consumer_seq = int(floor.get("consumer_seq", 0))
    state.floor_stream_seq = int(floor.get("stream_seq", 0))
    for seq, count in (document.get("redelivered") or {}).items():
        state.redelivered[int(seq)] = int(count) + 1
    for seq, entry in (document.get("pending") or {}).items():
        deliveries = state.redelivered.get(int(seq), 1)
        state.pending[int(seq)] = PendingEntry(int(entry["Sequence"]), int(entry["Timestamp"]), deliveries)
    return state
