"""A pull consumer: fetch a batch, take the next message, or consume without end."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jetspark.client.aio.arrow import BATCH_ROWS, ArrowConsuming, ArrowFetch, ack_rows
from jetspark.client.aio.consuming import Consuming
from jetspark.client.aio.fetching import GRACE_S, Batch, Each, Fetch
from jetspark.client.aio.leftovers import Leftovers
from jetspark.client.aio.msg import Msg
from jetspark.client.arrow_batches import BatchBuilder
from jetspark.client.configs import wire_time
from jetspark.client.core.pull import PullBuffer, PullRequest, quarter
from jetspark.client.core.routes import Inbox
from jetspark.client.durations import Seconds, nanoseconds, seconds
from jetspark.client.errors import BadOptionError
from jetspark.client.infos import ConsumerInfo
from jetspark.client.names import check_group
from jetspark.protocol.headers import find_value

if TYPE_CHECKING:
    import pyarrow

    from jetspark.client.aio.stream import Stream

log = logging.getLogger("jetspark.client")

CONSUME_MESSAGES = 1000
CONSUME_EXPIRES_S = 60.0
CONSUME_HEARTBEAT_S = 30.0


class Consumer:
    """One consumer of a stream, made by `Stream` or `JetStream`."""

    def __init__(self, stream: Stream, info: ConsumerInfo) -> None:
        self.stream = stream
        self.cached_info = info
        self._jetstream = stream.jetstream
        self._link = stream.jetstream._link
        self._next_subject = f"{self._jetstream.api_prefix}.CONSUMER.MSG.NEXT.{stream.name}.{info.name}"
        self._pin_ids: dict[str, str] = {}
        self._leftovers: Leftovers = Leftovers(self._link)
        # By group: one handle may consume for several.
        self._on_pinned: dict[str, Callable[[str], Any] | None] = {}
        self._on_unpinned: dict[str, Callable[[], Any] | None] = {}

    @property
    def name(self) -> str:
        """The consumer's name."""
        return self.cached_info.name

    @property
    def ack_none(self) -> bool:
        """Whether the consumer works without acknowledgements."""
        config = self.cached_info.raw.get("config") or {}
        return config.get("ack_policy") == "none"

    def mark(self, inbox: Inbox) -> None:
        """Let messages that come to an inbox know what the consumer expects of them."""
        inbox.ack_none = self.ack_none
        inbox.ack_wait_s = self.cached_info.soonest_redelivery_s

    # Messages.

    async def fetch(
        self,
        max_messages: int = 0,
        *,
        max_bytes: int = 0,
        expires: Seconds = 5.0,
        idle_heartbeat: Seconds = 0,
        no_wait: bool = False,
        group: str = "",
        min_pending: int = 0,
        min_ack_pending: int = 0,
        priority: int | None = None,
    ) -> Batch:
        """Get up to `max_messages` (or `max_bytes`), as a list. Waits at most `expires` seconds.

            for message in await worker.fetch(100, expires=2):
                await message.ack()

        An empty list is not an error. With `no_wait` you get only what is there now. With both limits, a message that
        does not fit into `max_bytes` ends the batch. `fetch_each` gives you the messages one by one as they arrive.
        If the call is cancelled, messages that were already sent come with the next fetch of this object.
        """
        request = self._request(expires, idle_heartbeat, group, min_pending, min_ack_pending, priority)
        fetch, wait_s = self._fetch(request, max_messages, max_bytes, seconds(expires), no_wait)
        return await fetch.run(wait_s)

    def fetch_each(
        self,
        max_messages: int = 0,
        *,
        max_bytes: int = 0,
        expires: Seconds = 5.0,
        idle_heartbeat: Seconds = 0,
        no_wait: bool = False,
        group: str = "",
        min_pending: int = 0,
        min_ack_pending: int = 0,
        priority: int | None = None,
    ) -> AsyncIterator[Msg]:
        """The messages of one `fetch`, one by one as they arrive: iterate over it.

        If you stop early, messages that were already sent come with the next fetch of this object. An error that ends
        the fetch is raised after the messages that arrived before it.
        """
        request = self._request(expires, idle_heartbeat, group, min_pending, min_ack_pending, priority)
        fetch, wait_s = self._fetch(request, max_messages, max_bytes, seconds(expires), no_wait)
        return Each(fetch, wait_s)

    def _fetch(
        self, request: PullRequest, max_messages: int, max_bytes: int, expires_s: float, no_wait: bool
    ) -> tuple[Fetch, float]:
        """A pull to be run, and how long to wait for it."""
        if max_messages < 0 or max_bytes < 0 or not (max_messages or max_bytes):
            raise BadOptionError("give max_messages, max_bytes or both, above zero")
        wait_s = expires_s + GRACE_S
        if no_wait:
            # A full max_ack_pending leaves such a request without any answer; then the client's own time ends it.
            request.no_wait, request.expires_ns, request.heartbeat_ns = True, 0, 0
            wait_s = expires_s
        return Fetch(self, request, max_messages, max_bytes), wait_s

    async def next(
        self,
        *,
        expires: Seconds = 5.0,
        idle_heartbeat: Seconds = 0,
        group: str = "",
        min_pending: int = 0,
        min_ack_pending: int = 0,
        priority: int | None = None,
    ) -> Msg | None:
        """The next message; None if none arrived in time."""
        request = self._request(expires, idle_heartbeat, group, min_pending, min_ack_pending, priority)
        batch = await Fetch(self, request, 1, 0).run(seconds(expires) + GRACE_S)
        return batch[0] if batch else None

    def consume(
        self,
        callback: Callable[[Msg], Any] | None = None,
        *,
        max_messages: int = 0,
        max_bytes: int = 0,
        expires: Seconds = CONSUME_EXPIRES_S,
        idle_heartbeat: Seconds | None = None,
        threshold_messages: int = 0,
        threshold_bytes: int = 0,
        on_heartbeat_miss: str = "raise",
        group: str = "",
        min_pending: int = 0,
        min_ack_pending: int = 0,
        priority: int | None = None,
        on_pinned: Callable[[str], Any] | None = None,
        on_unpinned: Callable[[], Any] | None = None,
    ) -> Consuming:
        """Receive messages until you stop, from a buffer that is refilled in the background.

        Give a callback, or iterate over the result. In both cases it is a context manager with `stop` and `drain`. The
        buffer has `max_messages` (1000) or `max_bytes`, and is refilled when a quarter has been used.
        """
        buffer = consume_buffer(max_messages, max_bytes, threshold_messages, threshold_bytes)
        expires_s = seconds(expires)
        if expires_s < 1:
            raise BadOptionError("expires must be at least one second")
        heartbeat_s = min(CONSUME_HEARTBEAT_S, expires_s / 2) if idle_heartbeat is None else seconds(idle_heartbeat)
        if heartbeat_s <= 0:
            raise BadOptionError("consume always uses heartbeats: idle_heartbeat must be above zero")
        if on_heartbeat_miss not in ("raise", "repull"):
            raise BadOptionError('on_heartbeat_miss is "raise" or "repull"')
        request = self._request(expires_s, heartbeat_s, group, min_pending, min_ack_pending, priority)
        self._warn_of_slow_pulls(group, expires_s)
        self._on_pinned[group], self._on_unpinned[group] = on_pinned, on_unpinned
        return Consuming(self, request, buffer, callback, on_heartbeat_miss == "repull")

    # Batches for pipelines.

    async def fetch_arrow(
        self,
        max_messages: int = 0,
        *,
        max_bytes: int = 0,
        expires: Seconds = 5.0,
        idle_heartbeat: Seconds = 0,
        no_wait: bool = False,
        group: str = "",
        min_pending: int = 0,
        min_ack_pending: int = 0,
        priority: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pyarrow.RecordBatch:
        """Like `fetch`, but as one Arrow record batch of at most 512 MiB. Acknowledge its rows with `ack_arrow`.

        `columns` are some of subject, sequence, timestamp, headers, data, reply, consumer_sequence, delivery_count and
        pending_count. Needs the extra `[arrow]`.
        """
        builder = BatchBuilder(columns)
        if max_messages < 0 or max_bytes < 0 or not (max_messages or max_bytes):
            raise BadOptionError("give max_messages, max_bytes or both, above zero")
        request = self._request(expires, idle_heartbeat, group, min_pending, min_ack_pending, priority)
        grace_s = GRACE_S
        if no_wait:
            request.no_wait, request.expires_ns, request.heartbeat_ns = True, 0, 0
            grace_s = 0.0
        return await self._fetch_rows(request, max_messages, max_bytes, builder, seconds(expires), grace_s)

    async def _fetch_rows(
        self,
        request: PullRequest,
        max_messages: int,
        max_bytes: int,
        builder: BatchBuilder,
        wait_s: float,
        grace_s: float,
    ) -> pyarrow.RecordBatch:
        return await ArrowFetch(self, request, max_messages, max_bytes, builder).run(wait_s, grace_s)

    def consume_arrow(
        self,
        *,
        batch_rows: int = BATCH_ROWS,
        linger: Seconds = 0.1,
        expires: Seconds = CONSUME_EXPIRES_S,
        idle_heartbeat: Seconds | None = None,
        on_heartbeat_miss: str = "raise",
        group: str = "",
        min_pending: int = 0,
        min_ack_pending: int = 0,
        priority: int | None = None,
        on_pinned: Callable[[str], Any] | None = None,
        on_unpinned: Callable[[], Any] | None = None,
        columns: Sequence[str] | None = None,
    ) -> ArrowConsuming:
        """Receive Arrow record batches until you stop.

        A batch has `batch_rows` rows, or what has arrived `linger` seconds after its first row. The columns are those
        of `fetch_arrow`.
        """
        builder = BatchBuilder(columns)
        expires_s = seconds(expires)
        heartbeat_s = min(CONSUME_HEARTBEAT_S, expires_s / 2) if idle_heartbeat is None else seconds(idle_heartbeat)
        if expires_s < 1 or heartbeat_s <= 0:
            raise BadOptionError("expires must be at least one second, and idle_heartbeat above zero")
        if on_heartbeat_miss not in ("raise", "repull"):
            raise BadOptionError('on_heartbeat_miss is "raise" or "repull"')
        request = self._request(expires_s, heartbeat_s, group, min_pending, min_ack_pending, priority)
        self._warn_of_slow_pulls(group, expires_s)
        self._on_pinned[group], self._on_unpinned[group] = on_pinned, on_unpinned
        return self._consume_rows(request, builder, batch_rows, seconds(linger), on_heartbeat_miss == "repull")

    def _consume_rows(
        self, request: PullRequest, builder: BatchBuilder, batch_rows: int, linger_s: float, repulls: bool
    ) -> ArrowConsuming:
        return ArrowConsuming(self, request, builder, batch_rows, linger_s, repulls)

    async def ack_arrow(self, batch: pyarrow.RecordBatch) -> int:
        """Acknowledge every row of a batch. Returns how many acknowledgements were sent."""
        return ack_rows(self, batch)

    def _warn_of_slow_pulls(self, group: str, expires_s: float) -> None:
        timeout_ns = self.cached_info.config.priority_timeout
        if group and timeout_ns and expires_s * 2e9 > timeout_ns:
            log.warning(
                "%s: expires is more than half of priority_timeout; the pin may be lost between pulls", self.name
            )

    def _request(
        self,
        expires: Seconds,
        idle_heartbeat: Seconds,
        group: str,
        min_pending: int,
        min_ack_pending: int,
        priority: int | None,
    ) -> PullRequest:
        request = PullRequest()
        request.expires_ns = nanoseconds(expires)
        if request.expires_ns <= 0:
            raise BadOptionError("expires must be above zero")
        request.heartbeat_ns = nanoseconds(idle_heartbeat)
        request.min_pending, request.min_ack_pending = min_pending, min_ack_pending
        if priority is not None:
            if not 0 <= priority <= 9:
                raise BadOptionError("priority is 0 to 9")
            request.priority = priority
        groups = self.cached_info.config.priority_groups
        if groups and not group:
            raise BadOptionError(f"consumer {self.name} has priority groups: name one of {', '.join(groups)}")
        if group:
            request.group = check_group(group)
            if self.cached_info.raw.get("config") and group not in groups:
                raise BadOptionError(f"consumer {self.name} has no priority group {group!r}")
        request.check()
        return request

    # The pin of a priority group.

    def pin_id(self, group: str) -> str:
        """The id with which the server pinned this client; empty if it is not pinned."""
        return self._pin_ids.get(group, "") if group else ""

    def saw_pin(self, group: str, block: bytes) -> None:
        """A message carries the pin: keep it for the pulls to come."""
        value = find_value(block, b"Nats-Pin-Id")
        if value is None:
            return
        pin_id = value.decode()
        if self._pin_ids.get(group) != pin_id:
            self._pin_ids[group] = pin_id
            hook = self._on_pinned.get(group)
            if hook is not None:
                self._link.call_hook(hook, pin_id)

    def lost_pin(self, group: str) -> None:
        """The server pinned another client."""
        hook = self._on_unpinned.get(group)
        if self._pin_ids.pop(group, None) is not None and hook is not None:
            self._link.call_hook(hook)

    # Management.

    async def info(self) -> ConsumerInfo:
        """Settings and state, fresh from the server."""
        answer = await self._jetstream.api_request(f"CONSUMER.INFO.{self.stream.name}.{self.name}")
        self.cached_info = ConsumerInfo.read(answer)
        return self.cached_info

    async def delete(self) -> None:
        """Delete the consumer."""
        await self.stream.delete_consumer(self.name)

    async def pause(self, until: datetime) -> bool:
        """Deliver nothing until this time. Returns whether the consumer is paused now."""
        return await self._pause({"pause_until": str(wire_time(until))})

    async def resume(self) -> bool:
        """Deliver again. Returns whether the consumer is still paused."""
        return await self._pause(None)

    async def _pause(self, document: dict[str, Any] | None) -> bool:
        answer = await self._jetstream.api_request(f"CONSUMER.PAUSE.{self.stream.name}.{self.name}", document)
        return bool(answer.get("paused"))

    async def unpin(self, group: str) -> None:
        """Unpin the current client; the server pins another one."""
        endpoint = f"CONSUMER.UNPIN.{self.stream.name}.{self.name}"
        await self._jetstream.api_request(endpoint, {"group": check_group(group)})

    async def reset(self, seq: int = 0) -> ConsumerInfo:
        """Deliver again from after the ack floor, or from a sequence. Needs a server of version 2.14 or newer."""
        endpoint = f"CONSUMER.RESET.{self.stream.name}.{self.name}"
        answer = await self._jetstream.api_request(endpoint, {"seq": seq} if seq else None)
        self.cached_info = ConsumerInfo.read(answer)
        return self.cached_info


def consume_buffer(max_messages: int, max_bytes: int, threshold_messages: int, threshold_bytes: int) -> PullBuffer:
    """The buffer of a consume call, checked: one limit, and a threshold within it."""
    if max_messages and max_bytes:
        raise BadOptionError("give max_messages or max_bytes, not both")
    if min(max_messages, max_bytes, threshold_messages, threshold_bytes) < 0:
        raise BadOptionError("limits and thresholds cannot be negative")
    if not max_messages and not max_bytes:
        max_messages = CONSUME_MESSAGES
    if (threshold_messages and not max_messages) or (threshold_bytes and not max_bytes):
        raise BadOptionError("a threshold belongs to the limit that is used")
    if threshold_messages > max_messages or threshold_bytes > max_bytes:
        raise BadOptionError("a threshold cannot be above its limit")
    return PullBuffer(
        max_messages, max_bytes, threshold_messages or quarter(max_messages), threshold_bytes or quarter(max_bytes)
    )
