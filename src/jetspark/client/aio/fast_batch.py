"""Fast batches: many messages in a row, acknowledged every so often (needs a stream with allow_batched).

Decided here: when to wait for the server, what to ask it when nothing is heard, and when a batch is over. What each
message is in its batch stands in its reply subject: `<inbox>.<flow>.<ok|fail>.<number>.<operation>.$FI`. What is
stored stays stored, whatever becomes of the rest: together or not at all is `PublishBatch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from jetspark.client.api_errors import api_error
from jetspark.client.core.connection import CONGESTED_BYTES
from jetspark.client.core.publish_headers import publish_block
from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import (
    BadOptionError,
    FastBatchEndedError,
    JetStreamError,
    NoStreamError,
    PublishTimeoutError,
)
from jetspark.client.headers import HeadersLike
from jetspark.client.infos import PubAck, parse_pub_ack
from jetspark.protocol.fast_batch import APPEND, COMMIT, COMMIT_WITHOUT_MESSAGE, FLOW_ASKED_MAX, PING, START

if TYPE_CHECKING:
    from jetspark.client.aio.jetstream import JetStream
    from jetspark.client.aio.msg import Msg
    from jetspark.client.aio.subscription import Subscription

# The time to wait is waited in so many parts; after each the server is asked, because its word may have been lost.
PATIENCE_PARTS: Final = 3


class FastBatch:
    """A fast batch: add messages, then commit with the last one, or end the batch. Use it from one task at a time.

    The server acknowledges after every `flow` messages (or fewer, if it says so). `add` waits only while more than
    `outstanding_acks` of these acknowledgements are missing. As a context manager it ends the batch at the end of the
    block.
    """

    def __init__(
        self, jetstream: JetStream, flow: int, outstanding_acks: int, gaps_are_fine: bool, timeout: Seconds | None
    ) -> None:
        if not 1 <= flow <= FLOW_ASKED_MAX:
            raise BadOptionError(f"flow is 1 to {FLOW_ASKED_MAX}, not {flow}")
        if outstanding_acks < 1:
            raise BadOptionError(f"outstanding_acks is at least 1, not {outstanding_acks}")
        self._jetstream = jetstream
        self._link = jetstream._link
        self._outstanding_acks = outstanding_acks
        self._gaps_are_fine = gaps_are_fine
        self._timeout_s = jetstream._timeout_s if timeout is None else seconds(timeout)
        inbox = jetstream.connection.new_inbox()
        self.id = inbox.rpartition(".")[2]
        self._inbox = inbox
        self._reply_prefix = f"{inbox}.{flow}.{'ok' if gaps_are_fine else 'fail'}."
        self._news: Subscription | None = None
        # Where the first message went: what has no message of its own goes there too.
        self._subject = ""
        self._last_subject = ""
        self._sent_count = 0
        self._acked_count = 0
        self._window = flow * outstanding_acks
        self._is_open = True
        self._refusal: Exception | None = None
        self.ack: PubAck | None = None
        """The acknowledgement of the whole batch, when it is over."""
        self.lost_count = 0
        """Messages the server never saw."""
        self.refused_count = 0
        """Messages the server did not store because of what they asked for."""

    def __len__(self) -> int:
        return self._sent_count

    @property
    def acked_count(self) -> int:
        """The server has handled all messages up to this number. With `gaps_are_fine=False` they are stored."""
        return self._acked_count

    @property
    def last_refusal(self) -> Exception | None:
        """Why the server refused the last message that it did not store."""
        return self._refusal

    async def add(
        self,
        subject: str,
        data: bytes | str = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        expect_last_seq: int | None = None,
        expect_last_subject_seq: int | None = None,
        ttl: Seconds | str | None = None,
    ) -> int:
        """Send one message. Returns its number in the batch, from 1; compare it with `acked_count` to see what is
        stored.

        The first one waits for the server, so that a stream without `allow_batched` is noticed at once.
        """
        self._check_open()
        block = _block(headers, msg_id, expect_last_seq, expect_last_subject_seq, ttl)
        body = data.encode() if isinstance(data, str) else data
        if self._news is None:
            await self._begin(subject)
            self._send(subject, START, block, body)
            await self._hear()
            self._check_over()
            return 1
        await self._make_room()
        self._send(subject, APPEND, block, body)
        if self._link.core.out_bytes > CONGESTED_BYTES:
            await self._link.drain()
        return self._sent_count

    async def commit(
        self,
        subject: str,
        data: bytes | str = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        expect_last_seq: int | None = None,
        expect_last_subject_seq: int | None = None,
        ttl: Seconds | str | None = None,
    ) -> PubAck:
        """Send the last message. When it is acknowledged the batch is stored; `count` of the result says how many
        messages.
        """
        self._check_open()
        block = _block(headers, msg_id, expect_last_seq, expect_last_subject_seq, ttl)
        if self._news is None:
            await self._begin(subject)
        else:
            await self._make_room()
        self._send(subject, COMMIT, block, data.encode() if isinstance(data, str) else data)
        return await self._finish()

    async def end(self) -> PubAck | None:
        """End the batch without another message. Returns its acknowledgement, or None if it had no messages."""
        self._check_open()
        if self._news is None:
            self._is_open = False
            return None
        self._send_extra(COMMIT_WITHOUT_MESSAGE, self._sent_count + 1)
        return await self._finish()

    # What is sent.

    async def _begin(self, subject: str) -> None:
        self._subject = subject
        self._news = await self._jetstream.connection.subscribe(
            f"{self._inbox}.>", pending_count_max=0, pending_bytes_max=0
        )

    def _send(self, subject: str, operation: int, block: bytes, body: bytes) -> None:
        number = self._sent_count + 1
        self._link.publish(subject, f"{self._reply_prefix}{number}.{operation}.$FI".encode(), block, body)
        self._sent_count = number
        self._last_subject = subject

    def _send_extra(self, operation: int, number: int) -> None:
        self._link.publish(self._subject, f"{self._reply_prefix}{number}.{operation}.$FI".encode(), b"", b"")

    # What is heard.

    async def _make_room(self) -> None:
        """Read what came, and wait while the server owes too many acknowledgements."""
        news = self._news
        assert news is not None
        while news.pending_count or self._sent_count - self._acked_count >= self._window:
            await self._hear()
            self._check_over()

    async def _hear(self) -> None:
        """One word of the server."""
        news = self._news
        assert news is not None
        for part in range(PATIENCE_PARTS):
            if part:
                self._send_extra(PING, self._sent_count)
            message = await news.next(self._timeout_s / PATIENCE_PARTS)
            if message is not None:
                await self._read(message)
                return
        await self._close()
        raise self._silence()

    async def _finish(self) -> PubAck:
        """Wait for the last word. Not asked for again: once it was said, the server knows nothing of the batch."""
        news = self._news
        assert news is not None
        deadline_s = self._link.now() + self._timeout_s
        while self.ack is None:
            message = await news.next(max(0.0, deadline_s - self._link.now()))
            if message is None:
                await self._close()
                raise self._silence()
            await self._read(message)
        if self.ack.count < self._sent_count:
            raise FastBatchEndedError(self.ack, self._sent_count) from self._refusal
        return self.ack

    async def _read(self, message: Msg) -> None:
        if message.status_code:
            # Nobody heard one of the messages: the server tells the gap when it hears the next. Nobody heard of
            # anything else: there is no stream.
            if message.subject.endswith(f".{APPEND}.$FI"):
                return
            await self._close()
            raise NoStreamError(self._last_subject)
        try:
            told: dict[str, Any] = msgspec.json.decode(message.data, type=dict)
            kind = told.get("type", "")
            if kind == "ack":
                self._acked_count = max(self._acked_count, int(told["seq"]))
                self._window = max(1, int(told["msgs"])) * self._outstanding_acks
            elif kind == "gap":
                self.lost_count += int(told["seq"]) - int(told["last_seq"])
            elif kind == "err":
                self.refused_count += 1
                self._refusal = api_error(told["error"])
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            await self._close()
            raise JetStreamError(f"not a word about a fast batch: {message.data[:80]!r}") from None
        if not kind:
            await self._close()
            self.ack = parse_pub_ack(message.data)
            self._acked_count = self.ack.count

    def _check_over(self) -> None:
        """Raise when the server has ended the batch, which nobody asked for yet."""
        ack = self.ack
        if ack is None:
            return
        if not ack.batch:
            raise JetStreamError(
                f"stream {ack.stream} stored the message and knows no fast batches: its server is too old (before 2.14)"
            )
        raise FastBatchEndedError(ack, self._sent_count) from self._refusal

    def _check_open(self) -> None:
        if not self._is_open:
            raise BadOptionError("the batch is over")

    def _silence(self) -> PublishTimeoutError:
        done = f"{self._acked_count} of {self._sent_count} messages are acknowledged"
        return PublishTimeoutError(f"nothing heard of the batch within {self._timeout_s:g} s; {done}")

    async def _close(self) -> None:
        self._is_open = False
        if self._news is not None and not self._link.is_closed:
            await self._news.unsubscribe()

    async def __aenter__(self) -> FastBatch:
        return self

    async def __aexit__(self, kind: object, *exc_info: object) -> None:
        if not self._is_open:
            return
        if kind is None:
            await self.end()
            return
        # Something else went wrong: the server is told and not waited for.
        if self._news is not None and not self._link.is_closed:
            self._send_extra(COMMIT_WITHOUT_MESSAGE, self._sent_count + 1)
        await self._close()


def _block(
    headers: HeadersLike | None,
    msg_id: str | None,
    expect_last_seq: int | None,
    expect_last_subject_seq: int | None,
    ttl: Seconds | str | None,
) -> bytes:
    """The header block; most messages of a fast batch have none, and should not pay for it."""
    if headers or msg_id is not None or ttl is not None:
        return publish_block(headers, msg_id, None, expect_last_seq, expect_last_subject_seq, None, None, ttl)
    if expect_last_seq is not None or expect_last_subject_seq is not None:
        return publish_block(None, None, None, expect_last_seq, expect_last_subject_seq, None, None, None)
    return b""
