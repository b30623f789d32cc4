# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""Publishing to streams: with the acknowledgement awaited, or many in flight.

A message in flight costs one PublishFuture. Its outcome is always known in the end: acknowledged, refused by the
server, or failed with an error that says whether it may have been stored.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jetspark.client.core.connection import CONGESTED_BYTES
from jetspark.client.core.outbound import give_up
from jetspark.client.core.pending import Pending
from jetspark.client.core.publish_headers import publish_block
from jetspark.client.core.resend import is_known_at
from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import (
    JetsparkError,
    JetStreamError,
    NoStreamError,
    PublishError,
    PublishNotSentError,
    PublishTimeoutError,
    PublishUnknownError,
    RequestTimeoutError,
)
from jetspark.client.headers import HeadersLike
from jetspark.client.infos import PubAck, parse_pub_ack
from jetspark.client.sync.block import PublishBlock, publish_many
from jetspark.client.sync.resending import send_lost, stream_of, window_s
from jetspark.client.sync.waiting import Awaited
from jetspark.client.telemetry import Telemetry, traced_headers

if TYPE_CHECKING:
    from jetspark.client.sync.link import Link

log = logging.getLogger("jetspark.client")

# Failures nobody has looked at are remembered for flush(), up to this many.
FAILURES_MAX = 1000
# Between two tries while nobody listens on a subject, as when a cluster elects the stream's leader.
RETRY_WAIT_S = 0.25


class PublishFuture(Pending, Awaited[PubAck]):
    """A publish that may not be acknowledged yet. Call `wait`."""

    __slots__ = ("_publisher", "_seen")

    def __init__(self, publisher: Publisher, subject: str, deadline_s: float) -> None:
        super().__init__(subject, b"", deadline_s)
        self._publisher = publisher
        self._seen = False

    def wait(self, timeout: Seconds | None = None) -> PubAck:
        """Wait for the acknowledgement. Raises an error if the publish failed."""
        if not self.done and not self._publisher._link.wait(self, None if timeout is None else seconds(timeout)):
            raise RequestTimeoutError(f"{self.subject} is not acknowledged yet")
        return self.result()

    def result(self) -> PubAck:
        """The acknowledgement of a finished publish. Raises an error if the publish failed."""
        self._seen = True
        if not self.done:
            raise JetStreamError(f"{self.subject} is not acknowledged yet")
        if self.error is not None:
            raise self.error
        value = self.value
        assert isinstance(value, bytes)
        return parse_pub_ack(value)

    def exception(self) -> BaseException | None:
        """The error of a finished publish; None if it was acknowledged."""
        try:
            self.result()
        except Exception as error:  # noqa: BLE001 - it is what the caller asked for
            return error
        return None


def _remember(pending: Pending) -> None:
    """A failure nobody waits for is kept for flush()."""
    if isinstance(pending, PublishFuture) and pending.wake is None:
        failures = pending._publisher._failures
        if len(failures) < FAILURES_MAX:
            failures.append(pending)


class Publisher:
    """The publishing half of a JetStream context."""

    def __init__(self, link: Link, window: int, timeout_s: float) -> None:
        self._link = link
        self._acks = link.core.acks
        self._window = window
        self._timeout_s = timeout_s
        self._failures: list[PublishFuture] = []
        self._acks.on_failure = _remember
        self._acks.on_unheard = self._start_retrying
        self._acks.on_lost = self._start_resending
        self._telemetry: Telemetry | None = link.options.telemetry

    def publish(
        self,
        subject: str,
        data: bytes | str = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        expect_stream: str | None = None,
        expect_last_seq: int | None = None,
        expect_last_subject_seq: int | None = None,
        expect_last_subject: str | None = None,
        expect_last_msg_id: str | None = None,
        ttl: Seconds | str | None = None,
        timeout: Seconds | None = None,
        retries: int = 2,
        retry_wait: Seconds = 0.25,
    ) -> PubAck:
        """Store a message in a stream and wait for the acknowledgement.

            ack = jetstream.publish("orders.new", b"two cups", msg_id="order-17")
            ack.stream, ack.seq, ack.duplicate

        When no server answers because a leader is being elected, it tries again, `retries` times with `retry_wait`
        between. After a lost connection a message with a `msg_id` is sent again if its stream is sure to drop the
        second copy: the client asks the server for the `duplicate_window`, and leaves a quarter of it, at least five
        seconds, for the copy to arrive. Otherwise, and without a `msg_id`, you get PublishUnknownError.

        The `expect_` arguments make the publish conditional: on the name of the stream, its last sequence, the last
        sequence of the subject (or of the pattern `expect_last_subject`), or the last message id. If the condition is
        not met, the error is WrongLastSequenceError or another ApiError. `ttl` is the lifetime of the message, on a
        stream with `allow_msg_ttl`.

        Raises NoStreamError if no stream takes the subject, PublishTimeoutError if no acknowledgement came within
        `timeout` (default: `publish_timeout` of the connection), StreamFullError if the stream is full, and
        MaxPayloadError if the message is too large for the server.
        """
        block = b""
        if self._telemetry is not None:
            headers = traced_headers(self._telemetry, subject, headers)
        if headers or msg_id is not None or ttl is not None or expect_stream is not None or expect_last_seq is not None:
            block = publish_block(
                headers, msg_id, expect_stream, expect_last_seq, expect_last_subject_seq, expect_last_subject,
                expect_last_msg_id, ttl,
            )  # fmt: skip
        elif expect_last_subject_seq is not None or expect_last_subject is not None or expect_last_msg_id is not None:
            block = publish_block(
                None, None, None, None, expect_last_subject_seq, expect_last_subject, expect_last_msg_id, None
            )
        timeout_s = self._timeout_s if timeout is None else seconds(timeout)
        body = data.encode() if isinstance(data, str) else data
        while True:
            try:
                return self._publish_once(subject, block, body, timeout_s)
            except NoStreamError:
                if retries <= 0:
                    raise
                retries -= 1
                self._link.sleep(seconds(retry_wait))

    def _publish_once(self, subject: str, block: bytes, body: bytes, timeout_s: float, first_s: float = 0.0) -> PubAck:
        """One message; `first_s` is when the first copy of it was sent, if this is not the first."""
        link = self._link
        future = PublishFuture(self, subject, 0.0)
        if block:
            future.sent_s = first_s or link.now()
            future.was_sent = first_s > 0.0
        token = link.publish_acked(subject, block, body, future)
        try:
            link.wait(future, timeout_s)
        finally:
            with link.guard:
                if not future.done:
                    # Late, or cancelled.
                    self._acks.waiting.pop(token, None)
                    future.fail(give_up(link.core, future, f" within {timeout_s:g} s"))
                    self._acks.wake_window()
        return future.result()

    def publish_async(
        self,
        subject: str,
        data: bytes | str = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        expect_stream: str | None = None,
        expect_last_seq: int | None = None,
        expect_last_subject_seq: int | None = None,
        expect_last_subject: str | None = None,
        expect_last_msg_id: str | None = None,
        ttl: Seconds | str | None = None,
        timeout: Seconds | None = None,
        retries: int = 2,
    ) -> PublishFuture:
        """Send a message without waiting for its acknowledgement. The result is a future for it.

        At most `publish_window` messages are in flight; when there are more, the call waits. A message that no server
        answered (because a leader is being elected) is sent again, `retries` times with a quarter of a second between;
        later messages may then be stored before it. Everything else is as with `publish`. Errors are raised by the
        future, or by `flush` if you did not ask the future.
        """
        block = b""
        if self._telemetry is not None:
            headers = traced_headers(self._telemetry, subject, headers)
        if (
            headers
            or msg_id is not None
            or ttl is not None
            or expect_stream is not None
            or expect_last_seq is not None
            or expect_last_subject_seq is not None
            or expect_last_subject is not None
            or expect_last_msg_id is not None
        ):
            block = publish_block(
                headers, msg_id, expect_stream, expect_last_seq, expect_last_subject_seq, expect_last_subject,
                expect_last_msg_id, ttl,
            )  # fmt: skip
        link = self._link
        while len(self._acks.waiting) >= self._window:
            self._wait_window()
        timeout_s = self._timeout_s if timeout is None else seconds(timeout)
        now_s = link.now()
        future = PublishFuture(self, subject, now_s + timeout_s)
        future.retries_left = retries
        future.sent_s = now_s
        link.publish_acked(subject, block, data.encode() if isinstance(data, str) else data, future)
        if link.core.out_bytes > CONGESTED_BYTES:
            link.drain()
        return future

    def publish_many(
        self,
        subjects: Sequence[bytes],
        blocks: Sequence[bytes],
        payloads: Sequence[bytes],
        msg_ids: Sequence[bytes] = (),
    ) -> PublishBlock:
        """Send many messages at once; see `PublishBlock`. Subjects and headers are bytes as in the protocol, and are
        not checked. Message ids, if any, are part of the headers.
        """
        return publish_many(self._link, list(subjects), list(blocks), list(payloads), list(msg_ids))

    def _start_retrying(self) -> None:
        self._link.spawn(self._send_unheard)

    def _start_resending(self) -> None:
        self._link.spawn(send_lost, self._link)

    def api_request(self, endpoint: str, document: Any = None, *, timeout: Seconds | None = None) -> dict[str, Any]:
        """Ask the server about the stream of a message."""
        raise NotImplementedError

    def _send_unheard(self) -> None:
        """What nobody heard in the last moments, all at once: what fails again finds a task of its own."""
        link = self._link
        link.sleep(RETRY_WAIT_S)
        with link.guard:
            frames = self._acks.take_unheard()
        for frame in frames:
            try:
                link.send(frame)
            except JetsparkError as error:
                # Closed, which has failed them already; or disconnected for so long that the buffer is full.
                log.debug("a publish could not be sent again: %s", error)
                return

    def _wait_window(self) -> None:
        link = self._link
        link.check_open()
        signal = link.signal()
        with link.guard:
            if len(self._acks.waiting) < self._window:
                return
            self._acks.window_waiters.append(signal.set)
        signal.wait(None)

    def publish_once(
        self,
        subject: str,
        data: bytes | str = b"",
        *,
        msg_id: str = "",
        headers: HeadersLike | None = None,
        timeout: Seconds = 60,
    ) -> PubAck:
        """Store a message exactly once, also if the connection is lost meanwhile.

        It is sent until it is acknowledged; the stream drops copies with the same message id within its duplicate
        window, and no copy is sent when that may be over. After `timeout` or the window it raises PublishTimeoutError
        or the last error. Give a `msg_id` of your own if the program may be started again in between, because a new id
        would be a new message.
        """
        link = self._link
        chosen = msg_id or link.core.nuid.next()
        deadline_s = link.now() + seconds(timeout)
        if self._telemetry is not None:
            headers = traced_headers(self._telemetry, subject, headers)
        block = publish_block(headers, chosen, None, None, None, None, None, None)
        body = data.encode() if isinstance(data, str) else data
        unknown: PublishError | None = None
        # When the first copy was sent of those that may be stored.
        first_s = 0.0
        while True:
            now_s = link.now()
            left_s = deadline_s - now_s
            try:
                return self._publish_once(subject, block, body, max(0.01, min(left_s, self._timeout_s)), first_s)
            except PublishNotSentError as error:
                # This copy; an earlier one may be stored.
                raise unknown or error from None
            except (PublishTimeoutError, PublishUnknownError, NoStreamError) as error:
                if error.may_be_stored:
                    unknown = error
                    first_s = first_s or now_s
                if deadline_s - link.now() <= 0:
                    raise unknown or error from None
                if isinstance(error, NoStreamError):
                    link.sleep(RETRY_WAIT_S)
                if unknown is not None and not self._is_known(subject, first_s, deadline_s):
                    raise unknown from None

    def _is_known(self, subject: str, first_s: float, deadline_s: float) -> bool:
        """The stream will drop a copy of a message that was sent then."""
        config = stream_of(self, subject, deadline_s)
        return is_known_at(self._link.now() - first_s, window_s(config))

    @property
    def publish_pending(self) -> int:
        """The number of messages that are sent but not acknowledged."""
        return len(self._acks.waiting)

    def flush(self, timeout: Seconds | None = None) -> None:
        """Wait until every publish in flight is acknowledged or failed. Raises the first error that nobody has seen
        yet.
        """
        if not self._link.wait_acked(None if timeout is None else seconds(timeout)):
            raise RequestTimeoutError(f"{len(self._acks.waiting)} publishes are not acknowledged yet")
        failures = [future for future in self._failures if not future._seen]
        self._failures.clear()
        for future in failures:
            future.result()
