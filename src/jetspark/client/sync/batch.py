# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""Atomic batches: several messages stored together or not at all (needs a stream with allow_atomic)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.client.core.publish_headers import publish_block
from jetspark.client.durations import Seconds
from jetspark.client.errors import BadHeaderError, BadOptionError, BadSubjectError, MaxPayloadError
from jetspark.client.headers import Headers, HeadersLike
from jetspark.client.infos import PubAck

if TYPE_CHECKING:
    from jetspark.client.sync.publishing import Publisher

BATCH_ID = "Nats-Batch-Id"
BATCH_SEQUENCE = "Nats-Batch-Sequence"
BATCH_COMMIT = "Nats-Batch-Commit"
# The server's own limit.
BATCH_COUNT_MAX = 1000


class PublishBatch:
    """An atomic batch: add messages, then commit with the last one. Without a commit nothing is stored."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._link = publisher._link
        with self._link.guard:
            self.id = self._link.core.nuid.next()
        self._count = 0
        self._committed = False

    def __len__(self) -> int:
        return self._count

    def _headers(self, headers: HeadersLike | None) -> Headers:
        if self._committed:
            raise BadOptionError("the batch is already committed")
        if self._count >= BATCH_COUNT_MAX:
            raise BadOptionError(f"a batch holds at most {BATCH_COUNT_MAX} messages")
        made = Headers(headers or ())
        made.set(BATCH_ID, self.id)
        made.set(BATCH_SEQUENCE, self._count + 1)
        return made

    def add(
        self,
        subject: str,
        data: bytes | str = b"",
        *,
        headers: HeadersLike | None = None,
        expect_last_seq: int | None = None,
        expect_last_subject_seq: int | None = None,
        ttl: Seconds | str | None = None,
    ) -> None:
        """Add a message. The server keeps it back until the commit; errors are reported by the commit."""
        made = self._headers(headers)
        telemetry = self._publisher._telemetry
        if telemetry is not None:
            telemetry.publishing(subject, made)
        block = publish_block(made, None, None, expect_last_seq, expect_last_subject_seq, None, None, ttl)
        self._link.publish(subject, b"", block, data.encode() if isinstance(data, str) else data)
        # Only what was sent counts: the server takes no number twice and misses none.
        self._count += 1

    def commit(
        self,
        subject: str,
        data: bytes | str = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: Seconds | None = None,
    ) -> PubAck:
        """Send the last message. When it is acknowledged, the whole batch is stored, in order."""
        made = self._headers(headers)
        made.set(BATCH_COMMIT, 1)
        self._committed = True
        self._count += 1
        try:
            return self._publisher.publish(subject, data, headers=made, timeout=timeout, retries=0)
        except (BadSubjectError, BadHeaderError, MaxPayloadError):
            # Refused here, before anything was sent.
            self._committed = False
            self._count -= 1
            raise

    def __enter__(self) -> PublishBatch:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None
