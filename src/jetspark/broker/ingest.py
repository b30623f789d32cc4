"""May this message be stored? The checks of a publish that carries headers or meets a stream with rules.

The order of the checks is nats-server's, because a message that breaks two rules must be refused for the same one.
`verify` changes nothing; `store` stores what has passed. Batches use the two apart.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.stream_config import Retention
from jetspark.protocol import headers
from jetspark.protocol.subjects import SubjectFilter

if TYPE_CHECKING:
    from jetspark.broker.session import Session
    from jetspark.broker.stream import Stream

MESSAGE_ID: Final = b"Nats-Msg-Id"
EXPECTED_STREAM: Final = b"Nats-Expected-Stream"
EXPECTED_LAST_SEQUENCE: Final = b"Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE: Final = b"Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT: Final = b"Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_LAST_MESSAGE_ID: Final = b"Nats-Expected-Last-Msg-Id"
ROLLUP: Final = b"Nats-Rollup"
TTL: Final = b"Nats-TTL"
STREAM_SOURCE: Final = b"Nats-Stream-Source"

HEADER_SIZE_MAX: Final = 65535

# A disk that failed is left alone for this long; publishes are refused meanwhile.
RETRY_AFTER_FAILURE_NS: Final = 250_000_000


class Publish:
    """One message on its way into a stream, with what its headers ask for."""

    def __init__(self, subject: bytes, reply: bytes, header: bytes, payload: bytes) -> None:
        self.subject = subject
        self.reply = reply
        self.header = header
        self.payload = payload
        self.asks: dict[bytes, bytes] = nats_headers(header) if header else {}
        self.message_id: bytes = self.asks.get(MESSAGE_ID, b"")
        # b"", b"sub" or b"all".
        self.rollup: bytes = self.asks.get(ROLLUP, b"").lower()
        # Text that ends the acknowledgement, after the sequence.
        self.ack_after: bytes = b"}"
        # The sequence of the earlier message with the same id.
        self.duplicate_of: i64 = 0
        # Sourced and scheduled messages and markers are the server's own: rules for clients do not apply.
        self.is_internal: bool = False


def nats_headers(block: bytes) -> dict[bytes, bytes]:
    """The `Nats-…` lines of a block; the first of each name counts."""
    found: dict[bytes, bytes] = {}
    if b"\r\nNats-" not in block:
        return found
    for line in block.split(b"\r\n"):
        if line.startswith(b"Nats-"):
            name, colon, value = line.partition(b":")
            if colon and name not in found:
                found[name] = value.strip(b" ")
    return found


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
        elif b"Nats-Batch-Id" in publish.asks:
            raise make(ErrorCode.ATOMIC_PUBLISH_DISABLED)
        verify(stream, publish)
        if publish.duplicate_of > 0:
            if reply and stream.acknowledges:
                stream.reply_number(reply, publish.duplicate_of, b',"duplicate": true}')
            return
        seq = store(stream, publish)
        if reply and stream.acknowledges:
            stream.reply_number(reply, seq, publish.ack_after)
    except ApiError as error:
        refuse(stream, reply, error)


def refuse(stream: Stream, reply: bytes, error: ApiError) -> None:
    """A publish error: nothing was changed, so it may leave at once."""
    if not reply or not stream.acknowledges:
        return
    document: dict[str, object] = {"error": error.to_document(), "stream": stream.name, "seq": 0}
    if stream.broker.options.domain:
        document["domain"] = stream.broker.options.domain
    stream.account.publish_internal(reply, b"", 0, json.dumps(document, separators=(",", ":")).encode())


def verify(stream: Stream, publish: Publish) -> None:
    """Raise the ApiError that refuses this message, or set `duplicate_of`, or let it pass. Changes nothing."""
    config = stream.config
    if config.sealed:
        raise make(ErrorCode.STREAM_SEALED)
    if config.mirror is not None and not publish.is_internal:
        raise make(ErrorCode.BAD_REQUEST)
    features = stream.features
    if features is not None:
        features.verify_counter(publish)
    elif b"Nats-Incr" in publish.asks:
        raise make(ErrorCode.MESSAGE_COUNTER_DISABLED)
    if publish.asks:
        verify_expectations(stream, publish)
    if publish.message_id:
        publish.duplicate_of = stream.dedupe.find(publish.message_id, stream.broker.now_ns)
        if publish.duplicate_of > 0:
            return
    if publish.asks:
        verify_last_message_id(stream, publish)
        verify_rollup(stream, publish)
    size = len(publish.header) + len(publish.payload)
    if stream.message_size_max >= 0 and size > stream.message_size_max:
        raise make(ErrorCode.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
    if len(publish.header) > HEADER_SIZE_MAX:
        raise make(ErrorCode.STREAM_HEADER_EXCEEDS_MAXIMUM)
    verify_room(stream, publish)
    if features is not None:
        features.verify_lifetime(publish)


def verify_expectations(stream: Stream, publish: Publish) -> None:
    """What the publisher believes about the stream must be true."""
    asks = publish.asks
    expected_stream = asks.get(EXPECTED_STREAM)
    if expected_stream is not None and expected_stream != stream.name.encode():
        raise make(ErrorCode.STREAM_NOT_MATCH)
    if TTL in asks and not stream.config.allow_msg_ttl:
        raise make(ErrorCode.MESSAGE_TTL_DISABLED)
    expected = asks.get(EXPECTED_LAST_SUBJECT_SEQUENCE)
    if expected is not None:
        subject = asks.get(EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, publish.subject)
        last = last_seq_for(stream, subject)
        if not expected.isdigit() or int(expected) != last:
            raise make(ErrorCode.STREAM_WRONG_LAST_SEQUENCE, seq=last)
    elif EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT in asks:
        raise make(ErrorCode.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID)
    expected = asks.get(EXPECTED_LAST_SEQUENCE)
    if expected is not None:
        last_seq = stream.store.last_seq
        if not expected.isdigit() or int(expected) != last_seq:
            raise make(ErrorCode.STREAM_WRONG_LAST_SEQUENCE, seq=last_seq)
    features = stream.features
    if features is not None:
        features.verify_schedule(publish)
    elif b"Nats-Schedule" in asks:
        raise make(ErrorCode.MESSAGE_SCHEDULES_DISABLED)
    if STREAM_SOURCE in asks and not publish.is_internal:
        raise make(ErrorCode.MESSAGE_SOURCE_HEADER_NOT_ALLOWED)


def last_seq_for(stream: Stream, subject: bytes) -> int:
    """The last sequence on a subject or, given a pattern, on any subject under it; 0 when there is none."""
    state = stream.store.subjects.get(subject)
    if state is not None:
        return state.last_seq
    if b"*" not in subject and b">" not in subject:
        return 0
    return stream.store.last_match(SubjectFilter([subject]), stream.store.last_seq)


def verify_last_message_id(stream: Stream, publish: Publish) -> None:
    expected = publish.asks.get(EXPECTED_LAST_MESSAGE_ID)
    if expected is not None and expected != stream.dedupe.last_id:
        raise make(ErrorCode.STREAM_WRONG_LAST_MSG_ID, id=stream.dedupe.last_id.decode("utf-8", "replace"))


def verify_rollup(stream: Stream, publish: Publish) -> None:
    if ROLLUP not in publish.asks or not publish.rollup:
        return
    if not stream.config.allow_rollup_hdrs or stream.config.deny_purge:
        raise make(ErrorCode.STREAM_ROLLUP_FAILED, err="rollup not permitted")
    if publish.rollup not in (b"sub", b"all"):
        value = publish.rollup.decode("utf-8", "replace")
        raise make(ErrorCode.STREAM_ROLLUP_FAILED, err=f'rollup value invalid: "{value}"')


def verify_room(stream: Stream, publish: Publish) -> None:
    """Disk, server limits and the stream's own, for a stream that refuses rather than forgets."""
    if stream.failed_until_ns > 0:
        if stream.broker.now_ns < stream.failed_until_ns:
            raise make(ErrorCode.STREAM_STORE_FAILED, err=stream.failure)
        stream.failed_until_ns = 0
    added = stream.store.size_of(len(publish.subject), len(publish.header), len(publish.payload))
    stream.account.jetstream.check_room(stream, added)
    refusal = stream.retention.refusal(publish.subject, added, bool(publish.rollup))
    if refusal:
        raise make(ErrorCode.STREAM_STORE_FAILED, err=refusal)


def store(stream: Stream, publish: Publish) -> i64:
    """Store a message that passed; returns its sequence."""
    features = stream.features
    if features is not None:
        features.before_store(publish)
    now_ns = stream.broker.now_ns
    previous: i64 = 0
    if features is not None and features.republishes:
        state = stream.store.subjects.get(publish.subject)
        previous = state.last_seq if state is not None else 0
    if stream.config.retention == Retention.INTEREST and not stream.has_interest(publish.subject):
        # Nobody is there to want it: the sequence is used up, nothing is kept.
        seq = stream.store.last_seq + 1
        stream.store.skip_to(seq, now_ns)
        stream.mark_dirty()
    else:
        body = publish.header + publish.payload if publish.header else publish.payload
        seq = stream.append(publish.subject, len(publish.header), body)
    stream.dedupe.last_id = publish.message_id
    if publish.message_id:
        stream.dedupe.remember(publish.message_id, seq, now_ns)
    if publish.rollup:
        stream.roll_up(publish.subject, publish.rollup == b"all", seq)
    if features is not None:
        features.stored(publish, seq, previous)
    return seq
