"""Would this stream take these messages, one after the other? The checks of a batch, before anything is stored.

The same rules as in `ingest.py`, in the order nats-server has for batches, and with one addition: a message is judged
by what the stream would be after the ones before it. Where that cannot be known, the batch is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.stream_config import Discard
from jetspark.broker import counters, ingest, schedule_rules
from jetspark.broker.publish import (
    EXPECTED_LAST_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    EXPECTED_STREAM,
    HEADER_SIZE_MAX,
    ROLLUP,
    STREAM_SOURCE,
    TTL,
    Publish,
)

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream


class Staging:
    """What a batch would do to its stream so far."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._message_ids: set[bytes] = set()
        self._totals: dict[bytes, counters.Total] = {}
        self._counts: dict[bytes, int] = {}
        # Subjects the batch has written to, and whether what it wrote last is a schedule.
        self._schedules: dict[bytes, bool] = {}
        self._expected: dict[bytes, int] = {}
        self._count: i64 = 0
        self._bytes: i64 = 0

    def verify(self, publish: Publish) -> None:
        """Take the message into the reckoning, or raise the ApiError that refuses it.

        A message the stream has already gets `duplicate_of` besides, for those to whom this is no failure.
        """
        if publish.asks:
            self._verify_before_counting(publish)
        self._count_up(publish)
        if publish.asks:
            self._verify_expectations(publish)
            schedule_rules.verify(self._stream, publish, self._schedules)
            self._verify_rollup(publish)
        self._take(publish)
        self._verify_room(publish)

    def _verify_before_counting(self, publish: Publish) -> None:
        stream = self._stream
        asks = publish.asks
        if len(publish.header) > HEADER_SIZE_MAX:
            raise make(ErrorCode.STREAM_HEADER_EXCEEDS_MAXIMUM)
        counters.verify(publish, stream.config.allow_msg_counter)
        expected = asks.get(EXPECTED_STREAM)
        if expected and expected != stream.name.encode():
            raise make(ErrorCode.STREAM_NOT_MATCH)
        if asks.get(TTL):
            if not stream.config.allow_msg_ttl:
                raise make(ErrorCode.MESSAGE_TTL_DISABLED)
            ingest.verify_lifetime(stream, publish)
        if publish.message_id:
            self._verify_message_id(publish)
        if asks.get(STREAM_SOURCE):
            raise make(ErrorCode.MESSAGE_SOURCE_HEADER_NOT_ALLOWED)

    def _verify_message_id(self, publish: Publish) -> None:
        if publish.message_id not in self._message_ids:
            publish.duplicate_of = self._stream.dedupe.find(publish.message_id, self._stream.broker.now_ns)
            if publish.duplicate_of == 0:
                self._message_ids.add(publish.message_id)
                return
        raise make(ErrorCode.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE)

    def _count_up(self, publish: Publish) -> None:
        stream = self._stream
        if not stream.config.allow_msg_counter:
            return
        total = self._totals.get(publish.subject)
        if total is None:
            total = counters.total_of(stream, publish.subject)
            self._totals[publish.subject] = total
        counters.apply(publish, total)
        ingest.verify_size(stream, publish)

    def _verify_expectations(self, publish: Publish) -> None:
        asks = publish.asks
        expected = asks.get(EXPECTED_LAST_SEQUENCE)
        if expected:
            last = self._stream.store.last_seq + self._count
            if ingest.read_number(expected) != last:
                raise make(ErrorCode.STREAM_WRONG_LAST_SEQUENCE, seq=last)
            if self._count > 0:
                raise make(ErrorCode.STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
        subject = asks.get(EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, b"")
        expected = asks.get(EXPECTED_LAST_SUBJECT_SEQUENCE)
        if expected:
            self._verify_last_of_subject(subject or publish.subject, ingest.read_number(expected))
        elif subject:
            raise make(ErrorCode.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID)

    def _verify_last_of_subject(self, subject: bytes, expected: int) -> None:
        if subject in self._counts:
            raise make(ErrorCode.STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
        last = self._expected.get(subject)
        if last is None:
            last = ingest.last_seq_for(self._stream, subject)
        if expected != last:
            raise make(ErrorCode.STREAM_WRONG_LAST_SEQUENCE, seq=last)
        self._expected[subject] = last

    def _verify_rollup(self, publish: Publish) -> None:
        ingest.verify_rollup(self._stream, publish)
        if publish.rollup == b"sub" and publish.subject in self._counts:
            raise make(ErrorCode.STREAM_ROLLUP_FAILED, err="batch rollup sub invalid")
        if publish.rollup == b"all" and self._count > 0:
            raise make(ErrorCode.STREAM_ROLLUP_FAILED, err="batch rollup all invalid")

    def _take(self, publish: Publish) -> None:
        subject = publish.subject
        self._count += 1
        self._bytes += self._stream.store.size_of(len(subject), len(publish.header), len(publish.payload))
        self._counts[subject] = self._counts.get(subject, 0) + 1
        self._schedules[subject] = publish.fires_ns > 0

    def _verify_room(self, publish: Publish) -> None:
        """A stream that refuses rather than forgets must have room for the whole batch."""
        config = self._stream.config
        if config.discard != Discard.NEW:
            return
        store = self._stream.store
        if 0 < config.max_msgs < store.message_count + self._count:
            raise full("maximum messages exceeded")
        if 0 < config.max_bytes < store.byte_count + self._bytes:
            raise full("maximum bytes exceeded")
        if config.discard_new_per_subject and config.max_msgs_per_subject > 0 and not publish.asks.get(ROLLUP):
            state = store.subjects.get(publish.subject)
            held = self._counts[publish.subject] + (state.message_count if state is not None else 0)
            if held > config.max_msgs_per_subject:
                raise full("maximum messages per subject exceeded")


def full(why: str) -> ApiError:
    return make(ErrorCode.STREAM_STORE_FAILED, err=why)
