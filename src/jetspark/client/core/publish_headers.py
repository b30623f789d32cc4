"""The headers that tell a stream what to check before it stores a message."""

from __future__ import annotations

from jetspark.client.durations import Seconds, nanoseconds
from jetspark.client.errors import BadOptionError
from jetspark.client.headers import Headers, HeadersLike

MSG_ID = "Nats-Msg-Id"
EXPECTED_STREAM = "Nats-Expected-Stream"
EXPECTED_LAST_SEQ = "Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQ = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_LAST_MSG_ID = "Nats-Expected-Last-Msg-Id"
TTL = "Nats-TTL"


def ttl_text(ttl: Seconds | str) -> str:
    """`never`, or a duration of at least a second in Go's words."""
    if isinstance(ttl, str):
        return ttl
    ttl_ns = nanoseconds(ttl)
    if ttl_ns % 1_000_000_000 == 0:
        return str(ttl_ns // 1_000_000_000)
    return f"{ttl_ns // 1_000_000}ms"


def publish_block(
    headers: HeadersLike | None,
    msg_id: str | None,
    expect_stream: str | None,
    expect_last_seq: int | None,
    expect_last_subject_seq: int | None,
    expect_last_subject: str | None,
    expect_last_msg_id: str | None,
    ttl: Seconds | str | None,
) -> bytes:
    """The block of a publish to a stream: the user's headers and the checks asked for."""
    made = Headers(headers or ())
    if msg_id is not None:
        if not msg_id:
            raise BadOptionError("a message id cannot be empty")
        made.set(MSG_ID, msg_id)
    if expect_stream is not None:
        made.set(EXPECTED_STREAM, expect_stream)
    if expect_last_seq is not None:
        made.set(EXPECTED_LAST_SEQ, expect_last_seq)
    if expect_last_subject_seq is not None:
        made.set(EXPECTED_LAST_SUBJECT_SEQ, expect_last_subject_seq)
    if expect_last_subject is not None:
        if expect_last_subject_seq is None:
            raise BadOptionError("expect_last_subject needs expect_last_subject_seq")
        made.set(EXPECTED_LAST_SUBJECT, expect_last_subject)
    if expect_last_msg_id is not None:
        made.set(EXPECTED_LAST_MSG_ID, expect_last_msg_id)
    if ttl is not None:
        made.set(TTL, ttl_text(ttl))
    return made.to_block()
