"""May this message be stored? The checks of a publish that carries headers or meets a stream with rules.

The order of the checks is nats-server's, because a message that breaks two rules must be refused for the same one.
`verify` changes nothing but the message itself; `store` stores what has passed. Batches use the two apart.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.message_ttl import parse_message_ttl
from jetspark.api.stream_config import Retention
from jetspark.broker import counters, schedule_rules
from jetspark.broker.bounds import bounded_sequence
from jetspark.broker.publish import (
    BATCH_ID,
    EXPECTED_LAST_MESSAGE_ID,
    EXPECTED_LAST_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    EXPECTED_STREAM,
    FAST_BATCH_SUFFIX,
    HEADER_SIZE_MAX,
    STREAM_SOURCE,
    TTL,
    Publish,
)
from jetspark.protocol import headers
from jetspark.protocol.subjects import SubjectFilter, has_wildcard
from jetspark.store.record import SUBJECT_SIZE_MAX

if TYPE_CHECKING:
    from jetspark.broker.session import Session
    from jetspark.broker.stream import Stream

# What ends the acknowledgement of a message that was stored before, after the sequence.
DUPLICATE_AFTER: Final = b',"duplicate": true}'

NOTHING_STAGED: Final[dict[bytes, bool]] = {}

# A disk that failed is left alone for this long; publishes are refused meanwhile.
RETRY_AFTER_FAILURE_NS: Final = 250_000_000


def checked(
    stream: Stream, session: Session | None, subject: bytes, reply: bytes, header_size: i64, body: bytes
) -> None:
    """A publish from a client, all checks made; the reply is an acknowledgement or says what is wrong."""
    header = body[:header_size]
    payload = body[header_size:] if header_size > 0 else body
    if header:
        header = headers.without_status(header)
    publish = Publish(subject, reply, header, payload)
    try:
        features = stream.features
        if features is not None:
            features.transform(publish)
            if features.intercept(publish, session):
                return
        verify_no_batch(stream, publish)
        verify(stream, publish)
        if publish.duplicate_of > 0:
            if reply and stream.acknowledges:
                stream.reply_number(reply, publish.duplicate_of, DUPLICATE_AFTER)
            return
        seq = store(stream, publish)
        if reply and stream.acknowledges:
            stream.reply_number(reply, seq, publish.ack_after)
    except ApiError as error:
        refuse(stream, reply, error)
    except OSError as error:
        stream.read_failed(error)
        refuse(stream, reply, make(ErrorCode.STREAM_STORE_FAILED, err=error.strerror or str(error)))


def store_own(stream: Stream, publish: Publish) -> i64:
    """Store a message of the server's own making; returns its sequence, 0 for a duplicate. ApiError says why not."""
    publish.is_internal = True
    features = stream.features
    if features is not None:
        features.transform(publish)
    verify(stream, publish)
    if publish.duplicate_of > 0:
        return 0
    return store(stream, publish)


def refuse(stream: Stream, reply: bytes, error: ApiError) -> None:
    """A publish error: nothing was changed, so it may leave at once."""
    if reply and stream.acknowledges:
        stream.account.publish_internal(reply, b"", 0, refusal(stream, error))


def refusal(stream: Stream, error: ApiError) -> bytes:
    """The acknowledgement that says no."""
    document: dict[str, object] = {"error": error.to_document(), "stream": stream.name, "seq": 0}
    if stream.broker.options.domain:
        document["domain"] = stream.broker.options.domain
    return json.dumps(document, separators=(",", ":")).encode()


def verify_no_batch(stream: Stream, publish: Publish) -> None:
    """A part of a batch, sent to a stream that takes no such batches (others have intercepted it)."""
    if publish.reply.endswith(FAST_BATCH_SUFFIX):
        disabled = ErrorCode.BATCH_PUBLISH_DISABLED
    elif publish.asks.get(BATCH_ID):
        disabled = ErrorCode.ATOMIC_PUBLISH_DISABLED
    else:
        return
    verify_batch_part(stream, publish)
    raise make(disabled)


def verify_batch_part(stream: Stream, publish: Publish) -> None:
    """What is looked at in every part of a batch before the batch itself is."""
    if stream.config.sealed:
        raise make(ErrorCode.STREAM_SEALED)
    added = stream.store.size_of(len(publish.subject), len(publish.header), len(publish.payload))
    stream.room.check(stream, added)
    verify_size(stream, publish)


def verify(stream: Stream, publish: Publish) -> None:
    """Raise the ApiError that refuses this message, or set `duplicate_of`, or let it pass."""
    if stream.config.sealed:
        raise make(ErrorCode.STREAM_SEALED)
    verify_size(stream, publish)
    if len(publish.header) > HEADER_SIZE_MAX:
        raise make(ErrorCode.STREAM_HEADER_EXCEEDS_MAXIMUM)
    if publish.asks:
        verify_headers(stream, publish)
        if publish.duplicate_of > 0:
            return
    features = stream.features
    if features is not None:
        features.apply_counter(publish)
        verify_size(stream, publish)
    verify_disk(stream)
    if is_unwanted(stream, publish):
        return
    added = stream.store.size_of(len(publish.subject), len(publish.header), len(publish.payload))
    stream.room.check(stream, added)
    verify_lifetime(stream, publish)
    why_not = stream.retention.refusal(publish.subject, added, bool(publish.rollup))
    if why_not:
        raise make(ErrorCode.STREAM_STORE_FAILED, err=why_not)


def verify_headers(stream: Stream, publish: Publish) -> None:
    """Everything the headers ask for, up to whether the message is a duplicate."""
    config = stream.config
    counters.verify(publish, config.allow_msg_counter)
    verify_expectations(stream, publish)
    if not publish.is_internal:
        schedule_rules.verify(stream, publish, NOTHING_STAGED)
        if publish.asks.get(STREAM_SOURCE):
            raise make(ErrorCode.MESSAGE_SOURCE_HEADER_NOT_ALLOWED)
    # A mirror repeats what its origin has decided about duplicates.
    if publish.message_id and config.mirror is None:
        publish.duplicate_of = stream.dedupe.find(publish.message_id, stream.broker.now_ns)
        if publish.duplicate_of > 0:
            return
    verify_last_message_id(stream, publish)
    verify_rollup(stream, publish)


def verify_size(stream: Stream, publish: Publish) -> None:
    if len(publish.subject) > SUBJECT_SIZE_MAX:
        raise make(ErrorCode.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
    if 0 <= stream.message_size_max < len(publish.header) + len(publish.payload):
        raise make(ErrorCode.STREAM_MESSAGE_EXCEEDS_MAXIMUM)


def is_unwanted(stream: Stream, publish: Publish) -> bool:
    """Nobody is there who wants it: the sequence is used up, nothing is kept."""
    return stream.config.retention == Retention.INTEREST and not stream.has_interest(publish.subject)


def verify_expectations(stream: Stream, publish: Publish) -> None:
    """What the publisher believes about the stream must be true."""
    asks = publish.asks
    expected = asks.get(EXPECTED_STREAM)
    if expected and expected != stream.name.encode():
        raise make(ErrorCode.STREAM_NOT_MATCH)
    if TTL in asks and not publish.is_internal:
        verify_lifetimes_allowed(stream, publish)
    expected = asks.get(EXPECTED_LAST_SUBJECT_SEQUENCE)
    if expected:
        subject = asks.get(EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT) or publish.subject
        last = last_seq_for(stream, subject)
        if read_number(expected) != last:
            raise make(ErrorCode.STREAM_WRONG_LAST_SEQUENCE, seq=last)
    elif asks.get(EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT):
        raise make(ErrorCode.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID)
    expected = asks.get(EXPECTED_LAST_SEQUENCE)
    if expected:
        last_seq = stream.store.last_seq
        if read_number(expected) != last_seq:
            raise make(ErrorCode.STREAM_WRONG_LAST_SEQUENCE, seq=last_seq)


def read_number(text: bytes) -> int:
    """A sequence as a header gives it; -1, which no sequence is, for anything else."""
    return bounded_sequence(int(text)) if text.isdigit() and len(text) <= 20 else -1


def verify_lifetimes_allowed(stream: Stream, publish: Publish) -> None:
    """A lifetime needs permission; one that cannot be read is refused for that, later."""
    if stream.config.allow_msg_ttl:
        return
    try:
        lifetime_s = read_lifetime(publish)
    except ApiError:
        return
    if lifetime_s != 0:
        raise make(ErrorCode.MESSAGE_TTL_DISABLED)


def read_lifetime(publish: Publish) -> int:
    return parse_message_ttl(publish.asks[TTL].decode("utf-8", "replace"))


def verify_lifetime(stream: Stream, publish: Publish) -> None:
    if TTL not in publish.asks:
        return
    publish.lifetime_s = read_lifetime(publish)
    if stream.features is not None:
        stream.features.settle_lifetime(publish)


def last_seq_for(stream: Stream, subject: bytes) -> int:
    """The last sequence on a subject or, given a pattern, on any subject under it; 0 when there is none."""
    if not has_wildcard(subject):
        return stream.store.subject_last_seq(subject)
    return stream.store.last_match(SubjectFilter([subject]), stream.store.last_seq)


def verify_last_message_id(stream: Stream, publish: Publish) -> None:
    expected = publish.asks.get(EXPECTED_LAST_MESSAGE_ID)
    if expected and expected != stream.dedupe.last_id:
        raise make(ErrorCode.STREAM_WRONG_LAST_MSG_ID, id=stream.dedupe.last_id.decode("utf-8", "replace"))


def verify_rollup(stream: Stream, publish: Publish) -> None:
    if not publish.rollup:
        return
    if not publish.is_internal and not may_roll_up(stream):
        raise make(ErrorCode.STREAM_ROLLUP_FAILED, err="rollup not permitted")
    if publish.rollup not in (b"sub", b"all"):
        value = publish.rollup.decode("utf-8", "replace")
        raise make(ErrorCode.STREAM_ROLLUP_FAILED, err=f'rollup value invalid: "{value}"')


def may_roll_up(stream: Stream) -> bool:
    return stream.config.allow_rollup_hdrs and not stream.config.deny_purge


def verify_disk(stream: Stream) -> None:
    if stream.failed_until_ns > 0:
        if stream.broker.now_ns < stream.failed_until_ns or stream.broker.repairs.concern(stream):
            raise make(ErrorCode.STREAM_STORE_FAILED, err=stream.failure)
        stream.failed_until_ns = 0


def store(stream: Stream, publish: Publish) -> i64:
    """Store a message that passed; returns its sequence."""
    seq = put(stream, publish)
    # Limits come first, as in nats-server: what goes for them goes although the message replaces others as well.
    if stream.retention.limited:
        stream.retention.after_append(publish.subject, seq)
    make_way(stream, publish, seq)
    return seq


def put(stream: Stream, publish: Publish) -> i64:
    """The storing itself; what the message replaces, and what limits take for it, has yet to go."""
    if is_unwanted(stream, publish):
        seq = stream.store.last_seq + 1 if publish.copy_seq == 0 else publish.copy_seq
        stream.store.skip_to(seq, stream.broker.now_ns)
        stream.mark_dirty()
        stream.dedupe.note(publish.message_id, seq, stream.broker.now_ns)
        return seq
    features = stream.features
    previous: i64 = 0
    if features is not None and features.republishes:
        previous = stream.store.subject_last_seq(publish.subject)
    body = publish.header + publish.payload if publish.header else publish.payload
    if publish.copy_seq == 0:
        seq = stream.put(publish.subject, len(publish.header), body)
    else:
        seq = stream.put_copy(publish.copy_seq, publish.copy_ts_ns, publish.subject, len(publish.header), body)
    stream.dedupe.note(publish.message_id, seq, stream.broker.now_ns)
    if features is not None:
        features.stored(publish, seq, previous)
    return seq


def make_way(stream: Stream, publish: Publish, seq: i64) -> None:
    """What the message replaces goes: its subject's or the stream's past, or a schedule that has done its work."""
    if publish.rollup and may_roll_up(stream):
        stream.roll_up(publish.subject, publish.rollup == b"all", seq)
    if publish.ends_schedule and may_roll_up(stream):
        try:
            stream.purge(publish.ends_schedule, 0, 0)
        except OSError as error:
            # It is stored, whatever else stays.
            stream.read_failed(error)
