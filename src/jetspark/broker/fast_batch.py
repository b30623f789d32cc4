"""Batches that are stored as they come, with an acknowledgement every so many messages instead of one for each.

Everything about a part is in its reply subject: `<prefix>.<id>.<flow>.<ok|fail>.<sequence>.<operation>.$FI`. A batch is
acknowledged after every few messages (how many is agreed as it goes: fewer when many batches are open), told about
gaps and errors, and ends with an ordinary acknowledgement. With `fail` the first gap or error ends it. As everywhere,
acknowledgements wait for the disk; when the disk fails, open batches end.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.requests import api_level_is_met
from jetspark.broker import ingest
from jetspark.broker.atomic_batch import ID_SIZE_MAX, REQUIRED_LEVEL
from jetspark.broker.publish import BATCH_COMMIT, BATCH_ID, BATCH_SEQUENCE, Publish
from jetspark.broker.staging import Staging
from jetspark.broker.timers import Timer, TimerOwner
from jetspark.protocol import headers
from jetspark.protocol.fast_batch import APPEND, COMMIT, COMMIT_WITHOUT_MESSAGE, FLOW_ASKED_MAX, PING, START

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream

# Messages between acknowledgements, for all open batches together; and what a client gets that asks for nonsense.
FLOW_MAX: Final = 500
FLOW_DEFAULT: Final = 10

TIMER_IDLE: Final = 1


class Part:
    """What a reply subject says about its message."""

    def __init__(self, identity: bytes, flow: i64, gaps_are_fine: bool, sequence: int, operation: i64) -> None:
        self.identity = identity
        self.flow: i64 = flow
        self.gaps_are_fine = gaps_are_fine
        self.sequence = sequence
        self.operation: i64 = operation

    def commits(self) -> bool:
        return self.operation in (COMMIT, COMMIT_WITHOUT_MESSAGE)


def read_part(reply: bytes) -> Part | None:
    """Read a reply subject; None when it makes no sense."""
    tokens = reply.rsplit(b".", 6)
    if len(tokens) < 7:
        return None
    operation = ingest.read_number(tokens[5])
    sequence = ingest.read_number(tokens[4])
    if not START <= operation <= PING or not 0 < sequence < (1 << 64) - 1 or tokens[3] not in (b"ok", b"fail"):
        return None
    is_first = sequence == 1
    if (operation == START and not is_first) or (operation in (APPEND, COMMIT_WITHOUT_MESSAGE) and is_first):
        return None
    flow = ingest.read_number(tokens[2])
    return Part(
        tokens[1], min(flow, FLOW_ASKED_MAX) if flow > 0 else FLOW_DEFAULT, tokens[3] == b"ok", sequence, operation
    )


class FastBatch:
    """A batch that has begun."""

    def __init__(self, part: Part) -> None:
        self.identity = part.identity
        self.gaps_are_fine = part.gaps_are_fine
        self.flow_max: i64 = part.flow
        # An acknowledgement after so many messages.
        self.flow: i64 = 1
        # Sequences of the batch: the last received, the last dealt with, the last acknowledged.
        self.last_sequence: int = 0
        self.settled_sequence: int = 0
        self.acked_sequence: int = 0
        # The stream's sequence of what was stored last.
        self.stream_seq: i64 = 0
        self.deadline_ns: i64 = 0


class FastBatches(TimerOwner):
    """The open batches of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._batches: dict[bytes, FastBatch] = {}
        self._timer = Timer(self, TIMER_IDLE)

    def receive(self, publish: Publish) -> None:
        """One part of a batch; ApiError when there is no batch to tell about it."""
        ingest.verify_batch_part(self._stream, publish)
        part = read_part(publish.reply)
        if part is None:
            raise make(ErrorCode.BATCH_PUBLISH_INVALID_PATTERN)
        if len(part.identity) > ID_SIZE_MAX:
            raise make(ErrorCode.BATCH_PUBLISH_INVALID_BATCH_ID)
        batch = self._batches.get(part.identity)
        if batch is None:
            batch = self._open(part)
        self._clean(batch, publish)
        self._wait(batch)
        if part.operation == PING:
            self._ping(batch, part, publish.reply)
        elif self._follows(batch, part, publish.reply):
            if part.operation == COMMIT_WITHOUT_MESSAGE:
                batch.last_sequence -= 1
                self._commit(batch, publish.reply)
            else:
                self._store(batch, part, publish)

    def _open(self, part: Part) -> FastBatch:
        broker = self._stream.broker
        if part.sequence != 1 or part.operation == PING:
            raise make(ErrorCode.BATCH_PUBLISH_UNKNOWN_BATCH_ID)
        if len(self._batches) >= broker.options.fast_batch_max_inflight_per_stream:
            raise make(ErrorCode.BATCH_PUBLISH_TOO_MANY_INFLIGHT)
        if broker.fast_batch_count >= broker.options.fast_batch_max_inflight_total:
            raise make(ErrorCode.BATCH_PUBLISH_TOO_MANY_INFLIGHT)
        broker.fast_batch_count += 1
        batch = FastBatch(part)
        # Alone it gets what it wants; beside others it has to work its way up.
        if not self._batches:
            batch.flow = min(FLOW_MAX, part.flow)
        self._batches[part.identity] = batch
        return batch

    def _close(self, batch: FastBatch) -> None:
        self._stream.broker.fast_batch_count -= 1
        del self._batches[batch.identity]

    def _clean(self, batch: FastBatch, publish: Publish) -> None:
        """Headers that are not for storing: a required level, and what would look like a part of an atomic batch."""
        level = publish.asks.get(REQUIRED_LEVEL)
        if level and not api_level_is_met(level):
            self._close(batch)
            raise make(ErrorCode.REQUIRED_API_LEVEL)
        unwanted = [REQUIRED_LEVEL, BATCH_ID, BATCH_SEQUENCE, BATCH_COMMIT]
        if any(name in publish.asks for name in unwanted):
            publish.header = headers.remove_headers(publish.header, unwanted, [])

    # -- sequences -------------------------------------------------------------------------------------------------

    def _ping(self, batch: FastBatch, part: Part, reply: bytes) -> None:
        """The client asks how far the batch has come, and says how far it should have."""
        if part.sequence > batch.last_sequence:
            self._tell_gap(reply, batch.last_sequence + 1, part.sequence + 1)
            if not batch.gaps_are_fine:
                self._commit(batch, reply)
                return
            batch.last_sequence = part.sequence
            batch.settled_sequence = part.sequence
            if self._flow(batch, reply):
                return
        self._tell_flow(batch, reply, batch.acked_sequence)

    def _follows(self, batch: FastBatch, part: Part, reply: bytes) -> bool:
        """Is this the next message, or one after a gap that is fine? If not, the batch ends here."""
        expected = batch.last_sequence + 1
        if part.sequence != expected:
            self._tell_gap(reply, expected, part.sequence)
            if not batch.gaps_are_fine or part.sequence < expected:
                self._commit(batch, reply)
                return False
        batch.last_sequence = part.sequence
        return True

    # -- storing ---------------------------------------------------------------------------------------------------

    def _store(self, batch: FastBatch, part: Part, publish: Publish) -> None:
        stream = self._stream
        if part.operation == START and stream.acknowledges:
            self._tell_flow(batch, publish.reply, 0)
        try:
            Staging(stream).verify(publish)
            ingest.verify_disk(stream)
        except ApiError as error:
            self._refuse(batch, part, publish, error)
            return
        batch.stream_seq = ingest.store(stream, publish)
        batch.settled_sequence = batch.last_sequence
        if part.commits():
            self._commit(batch, publish.reply)
        else:
            self._flow(batch, publish.reply)

    def _refuse(self, batch: FastBatch, part: Part, publish: Publish, error: ApiError) -> None:
        """A message was not stored: it was there already, or there is something against it."""
        stream = self._stream
        reply = publish.reply
        is_duplicate = publish.duplicate_of > 0
        if is_duplicate:
            batch.settled_sequence = part.sequence
            self._flow(batch, reply)
            if not part.commits():
                return
        if not part.gaps_are_fine and batch.last_sequence == 1:
            # A batch that fails with its first message is answered as if there had been no batch.
            self._close(batch)
            if is_duplicate:
                self._acknowledge(reply, publish.duplicate_of, b',"duplicate": true', batch.identity, part.sequence)
            else:
                stream.reply(reply, ingest.refusal(stream, error))
            return
        if not is_duplicate:
            document = {"type": "err", "seq": part.sequence, "error": error.to_document()}
            stream.reply(reply, json.dumps(document, separators=(",", ":")).encode())
            if part.gaps_are_fine and not part.commits():
                return
            batch.last_sequence -= 1
        self._commit(batch, reply)

    # -- what the client is told -------------------------------------------------------------------------------------

    def _flow(self, batch: FastBatch, reply: bytes) -> bool:
        """Acknowledge if it is time; True when it was. Each acknowledgement brings the batch nearer to its share."""
        if batch.settled_sequence < batch.acked_sequence + batch.flow:
            return False
        steps = (batch.settled_sequence - batch.acked_sequence) // batch.flow
        batch.acked_sequence += steps * batch.flow
        share: i64 = max(FLOW_MAX // len(self._batches), 1)
        share = min(share, batch.flow_max)
        if batch.flow < share:
            batch.flow = min(batch.flow * 2, share)
        elif batch.flow > share:
            batch.flow = max(batch.flow // 2, share)
        self._tell_flow(batch, reply, batch.acked_sequence)
        return True

    def _tell_flow(self, batch: FastBatch, reply: bytes, sequence: int) -> None:
        self._stream.reply(reply, b'{"type":"ack","seq":%d,"msgs":%d}' % (sequence, batch.flow))

    def _tell_gap(self, reply: bytes, expected: int, sequence: int) -> None:
        self._stream.reply(reply, b'{"type":"gap","last_seq":%d,"seq":%d}' % (expected, sequence))

    def _commit(self, batch: FastBatch, reply: bytes) -> None:
        """The batch ends with what it has."""
        self._close(batch)
        self._acknowledge(reply, batch.stream_seq, b"", batch.identity, batch.last_sequence)

    def _acknowledge(self, reply: bytes, seq: i64, more: bytes, identity: bytes, count: int) -> None:
        name = json.dumps(identity.decode("utf-8", "replace")).encode()
        self._stream.reply_number(reply, seq, b'%s,"batch":%s,"count":%d}' % (more, name, count))

    # -- life ------------------------------------------------------------------------------------------------------

    def _wait(self, batch: FastBatch) -> None:
        broker = self._stream.broker
        batch.deadline_ns = broker.now_ns + broker.options.batch_timeout_ns
        broker.timers.arm_if_earlier(self._timer, batch.deadline_ns)

    def on_timer(self, kind: int, now_ns: i64) -> None:
        for batch in list(self._batches.values()):
            if batch.deadline_ns <= now_ns:
                self._close(batch)
            else:
                self._stream.broker.timers.arm_if_earlier(self._timer, batch.deadline_ns)

    def timer_failed(self, error: Exception) -> None:
        self._stream.fail(error)

    def end_all(self) -> None:
        """What was stored is not: clients find their batches unknown and begin anew."""
        for batch in list(self._batches.values()):
            self._close(batch)

    def take_over(self, before: FastBatches) -> None:
        self._batches = before._batches
        before._batches = {}
        for batch in self._batches.values():
            self._stream.broker.timers.arm_if_earlier(self._timer, batch.deadline_ns)

    def stop(self) -> None:
        self._stream.broker.timers.cancel(self._timer)
        self.end_all()
