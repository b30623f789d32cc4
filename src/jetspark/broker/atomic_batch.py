"""Batches that are stored whole or not at all.

The parts of a batch are kept in memory until its commit. Then all of them are judged, and only if all pass are they
stored, in one go, so that they are in one commit of the disk. If a crash tears that commit, a part of the batch may be
on disk: the last message there then belongs to a batch and does not end it. `recovered` looks for exactly that and
removes what is left of the batch; its sequences stay used up. For this to be right nothing may be removed on behalf of
a batch before its last message is written, so limits and rollups wait until then.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api import advisories
from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.requests import api_level_is_met
from jetspark.broker import advisories as announcements
from jetspark.broker import ingest
from jetspark.broker.publish import BATCH_COMMIT, BATCH_ID, BATCH_SEQUENCE, EXPECTED_LAST_MESSAGE_ID, Publish
from jetspark.broker.staging import Staging
from jetspark.broker.timers import Timer, TimerOwner
from jetspark.protocol import headers

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream

REQUIRED_LEVEL: Final = b"Nats-Required-Api-Level"
ID_SIZE_MAX: Final = 64
# How a batch ends: with a message that belongs to it, or with one that only says so.
COMMIT: Final = b"1"
COMMIT_WITHOUT_MESSAGE: Final = b"eob"

TIMER_IDLE: Final = 1


class AtomicBatch:
    """The parts that have come so far."""

    def __init__(self, identity: bytes) -> None:
        self.identity = identity
        self.parts: list[Publish] = []
        self.last_sequence: i64 = 0
        self.deadline_ns: i64 = 0


class AtomicBatches(TimerOwner):
    """The open batches of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._batches: dict[bytes, AtomicBatch] = {}
        self._timer = Timer(self, TIMER_IDLE)

    def receive(self, publish: Publish) -> None:
        """One part of a batch; ApiError when it is refused."""
        stream = self._stream
        ingest.verify_batch_part(stream, publish)
        identity = publish.asks[BATCH_ID]
        if len(identity) > ID_SIZE_MAX:
            raise make(ErrorCode.ATOMIC_PUBLISH_INVALID_BATCH_ID)
        sequence = ingest.read_number(publish.asks.get(BATCH_SEQUENCE, b""))
        if sequence < 0:
            raise make(ErrorCode.ATOMIC_PUBLISH_MISSING_SEQ)
        ending = publish.asks.get(BATCH_COMMIT)
        batch = self._batches.get(identity)
        if batch is None:
            batch = self._open(identity, sequence, ending)
        if ending is not None and ending not in (COMMIT, COMMIT_WITHOUT_MESSAGE):
            self._close(batch)
            raise make(ErrorCode.ATOMIC_PUBLISH_INVALID_BATCH_COMMIT)
        self._verify_level(batch, publish)
        self._verify_sequence(batch, sequence, ending)
        if ending != COMMIT_WITHOUT_MESSAGE:
            batch.parts.append(publish)
        if ending is None:
            self._wait(batch)
            if publish.reply and stream.acknowledges:
                stream.account.publish_internal(publish.reply, b"", 0, b"")
            return
        self._close(batch)
        self._commit(batch, publish.reply, ending)

    def _open(self, identity: bytes, sequence: int, ending: bytes | None) -> AtomicBatch:
        options = self._stream.broker.options
        if sequence != 1:
            self._verify_count(sequence, ending)
            raise make(ErrorCode.ATOMIC_PUBLISH_INCOMPLETE_BATCH)
        broker = self._stream.broker
        if len(self._batches) >= options.batch_max_inflight_per_stream:
            raise make(ErrorCode.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT)
        if broker.atomic_batch_count >= options.batch_max_inflight_total:
            raise make(ErrorCode.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT)
        broker.atomic_batch_count += 1
        batch = AtomicBatch(identity)
        self._batches[identity] = batch
        return batch

    def _close(self, batch: AtomicBatch) -> None:
        self._stream.broker.atomic_batch_count -= 1
        del self._batches[batch.identity]

    def _verify_count(self, sequence: int, ending: bytes | None) -> None:
        most = self._stream.broker.options.batch_max_messages
        count = sequence - 1 if ending == COMMIT_WITHOUT_MESSAGE else sequence
        if count > most:
            raise make(ErrorCode.ATOMIC_PUBLISH_TOO_LARGE_BATCH, size=most)

    def _verify_level(self, batch: AtomicBatch, publish: Publish) -> None:
        level = publish.asks.get(REQUIRED_LEVEL)
        if not level:
            return
        if not api_level_is_met(level):
            self._abandon(batch, "unsupported")
            raise make(ErrorCode.REQUIRED_API_LEVEL)
        publish.header = headers.remove_headers(publish.header, [REQUIRED_LEVEL], [])

    def _verify_sequence(self, batch: AtomicBatch, sequence: int, ending: bytes | None) -> None:
        batch.last_sequence += 1
        if batch.last_sequence != sequence or (sequence == 1 and ending == COMMIT_WITHOUT_MESSAGE):
            self._abandon(batch, "incomplete")
            raise make(ErrorCode.ATOMIC_PUBLISH_INCOMPLETE_BATCH)
        try:
            self._verify_count(sequence, ending)
        except ApiError:
            self._abandon(batch, "large")
            raise

    # -- commit --------------------------------------------------------------------------------------------------

    def _commit(self, batch: AtomicBatch, reply: bytes, ending: bytes) -> None:
        stream = self._stream
        parts = batch.parts
        staging = Staging(stream)
        for part in parts:
            if part.asks.get(EXPECTED_LAST_MESSAGE_ID):
                name = EXPECTED_LAST_MESSAGE_ID.decode()
                raise make(ErrorCode.ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH, header=name)
            staging.verify(part)
        ingest.verify_disk(stream)
        if ending == COMMIT_WITHOUT_MESSAGE:
            parts[-1].header = headers.append_headers(parts[-1].header, [(BATCH_COMMIT, COMMIT)])
        sequences = [ingest.put(stream, part) for part in parts]
        for position in range(len(parts)):
            stream.retention.after_append(parts[position].subject, sequences[position])
            ingest.make_way(stream, parts[position], sequences[position])
        if reply and stream.acknowledges:
            identity = json.dumps(batch.identity.decode("utf-8", "replace")).encode()
            stream.reply_number(reply, sequences[-1], b',"batch":%s,"count":%d}' % (identity, len(parts)))

    # -- the end of a batch ----------------------------------------------------------------------------------------

    def _wait(self, batch: AtomicBatch) -> None:
        broker = self._stream.broker
        batch.deadline_ns = broker.now_ns + broker.options.batch_timeout_ns
        broker.timers.arm_if_earlier(self._timer, batch.deadline_ns)

    def on_timer(self, kind: int, now_ns: i64) -> None:
        for batch in list(self._batches.values()):
            if batch.deadline_ns <= now_ns:
                self._abandon(batch, "timeout")
            else:
                self._stream.broker.timers.arm_if_earlier(self._timer, batch.deadline_ns)

    def timer_failed(self, error: Exception) -> None:
        self._stream.fail(error)

    def _abandon(self, batch: AtomicBatch, reason: str) -> None:
        self._close(batch)
        stream = self._stream
        if announcements.is_heard(stream.account, f"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.{stream.name}"):
            stamp = announcements.stamp(stream.account)
            identity = batch.identity.decode("utf-8", "replace")
            event = advisories.batch_abandoned(stamp, account="", stream=stream.name, batch=identity, reason=reason)
            announcements.announce(stream.account, event)

    def take_over(self, before: AtomicBatches) -> None:
        self._batches = before._batches
        before._batches = {}
        for batch in self._batches.values():
            self._stream.broker.timers.arm_if_earlier(self._timer, batch.deadline_ns)

    def stop(self) -> None:
        broker = self._stream.broker
        broker.timers.cancel(self._timer)
        broker.atomic_batch_count -= len(self._batches)
        self._batches = {}


def remove_torn(stream: Stream) -> int:
    """After a crash: remove the beginning of a batch whose end did not reach the disk; how many messages that was."""
    store = stream.store
    view = stream.view
    identity = b""
    removed = 0
    seq = store.last_seq
    while seq > 0 and store.view(seq, view) and view.header_size > 0:
        header = view.header()
        found = headers.find_value(header, BATCH_ID)
        if not found or (identity and found != identity):
            break
        if headers.find_value(header, BATCH_COMMIT) is not None:
            break
        identity = found
        position = headers.find_value(header, BATCH_SEQUENCE)
        stream.remove(seq, False)
        removed += 1
        if position == b"1":
            break
        seq -= 1
    return removed
