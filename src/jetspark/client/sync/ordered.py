# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""An ordered consumer: the stream's messages in order and without gaps, whatever happens meanwhile.

The server's consumer is a throw-away: it wants no acks, lives in memory, and is made again from the last sequence seen
whenever a gap, a silence or a reconnect puts it in doubt. It is removed when a consume ends, and when the block of an
`with` does; whoever only fetches, outside of one, deletes it or leaves it to the server to forget.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from jetspark.api.consumer_config import AckPolicy, ConsumerConfig, DeliverPolicy
from jetspark.client.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jetspark.client.arrow_batches import BatchBuilder
from jetspark.client.configs import consumer_config
from jetspark.client.core import pull
from jetspark.client.core.ordered import GIVE_AND_PULL, STATUS, OrderCheck, judge
from jetspark.client.core.pull import PullRequest, meaning, pending_numbers
from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import (
    BadOptionError,
    ConnectionLostError,
    ConsumerDeletedError,
    HeartbeatMissedError,
    JetsparkError,
    NoRespondersError,
    OrderedOptionError,
    PullUnavailableError,
    RequestTimeoutError,
)
from jetspark.client.infos import ConsumerInfo
from jetspark.client.sync.consumer import CONSUME_EXPIRES_S, Consumer, consume_buffer
from jetspark.client.sync.consuming import Consuming
from jetspark.client.sync.fetching import GRACE_S, Batch, Each, Fetch
from jetspark.client.sync.msg import Msg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow

    from jetspark.client.sync.arrow import ArrowConsuming
    from jetspark.client.sync.stream import Stream

INACTIVE_THRESHOLD_S = 300.0
# Shorter than for other consumers: a missed one costs nothing here but making the consumer again.
HEARTBEAT_S = 5.0
# Waits between tries to make the consumer again; it goes on as long as the stream exists.
RETRY_WAIT_S = 0.25
# Settings it has no use for, or that would make its consumers somebody else's.
ORDERED_DECIDES = ("name", "durable_name", "deliver_subject", "deliver_group", "max_deliver", "flow_control")
RETRY_ERRORS = (RequestTimeoutError, NoRespondersError, ConnectionLostError)


def start_after(config: ConsumerConfig, sequence: int) -> ConsumerConfig:
    """The settings of a consumer that goes on after a sequence of the stream; as they are when there is none yet."""
    if not sequence:
        return config
    return replace(
        config, deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=sequence + 1, opt_start_time=None
    )


class OrderedConsumer(Consumer):
    """Reads a stream in order and without gaps. It has the methods of `Consumer`; acks do nothing. Use one reader at a
    time.

    As a context manager it removes its consumer from the server at the end.
    """

    def __init__(self, stream: Stream, *, name_prefix: str = "", **options: Any) -> None:
        super().__init__(stream, ConsumerInfo.read({"stream_name": stream.name, "name": ""}))
        options.setdefault("inactive_threshold", INACTIVE_THRESHOLD_S)
        config = consumer_config(None, "", options)
        for setting in ORDERED_DECIDES:
            if setting in options:
                raise OrderedOptionError(f"an ordered consumer decides about {setting} itself: leave it out")
        if "ack_policy" in options and config.ack_policy != AckPolicy.NONE:
            raise OrderedOptionError("an ordered consumer has no acks: leave ack_policy out")
        self._config: ConsumerConfig = replace(
            config,
            ack_policy=AckPolicy.NONE, max_deliver=1, mem_storage=True, num_replicas=1,
        )  # fmt: skip
        with self._link.guard:
            self._name_prefix = name_prefix or self._link.core.nuid.next()
        self._serial = 0
        self._position = OrderCheck()

    @property
    def ack_none(self) -> bool:
        """Always True: an ordered consumer has no acknowledgements."""
        return True

    @property
    def last_sequence(self) -> int:
        """The stream sequence of the last message you got."""
        return self._position.stream_sequence

    def make(self) -> None:
        """Make the server's consumer, starting after the last message seen."""
        old = self.name
        self._serial += 1
        config = start_after(self._config, self._position.stream_sequence)
        config = replace(config, name=f"{self._name_prefix}_{self._serial}")
        made = self.stream.create_consumer(config)
        # Of the old one: the new one delivers them again.
        self._leftovers.clear()
        self.cached_info = made.cached_info
        self._next_subject = made._next_subject
        self._position.begin(made.cached_info.delivered.stream_seq if config.deliver_policy == "new" else 0)
        if old:
            self._link.spawn(self._discard, old)

    def _discard(self, name: str) -> None:
        """Not waited for: the server forgets it by itself after a while."""
        try:
            self.stream.delete_consumer(name)
        except JetsparkError:
            return

    def make_again(self) -> None:
        """Make the consumer, however long the server needs to be ready. Raises when the stream is gone."""
        while True:
            try:
                self.make()
                return
            except StreamNotFoundError:
                raise
            except RETRY_ERRORS:
                self._link.sleep(RETRY_WAIT_S)

    def info(self) -> ConsumerInfo:
        """The consumer on the server, which is created first if there is none."""
        if not self.name:
            self.make()
        return super().info()

    def delete(self) -> None:
        """Remove the consumer from the server. The next call creates a new one that continues here."""
        if self.name:
            name, self.cached_info = self.name, ConsumerInfo.read({"stream_name": self.stream.name, "name": ""})
            self.stream.delete_consumer(name)

    def _release(self) -> None:
        """Nobody reads any more. When the server's consumer cannot be removed, it is forgotten after a while."""
        if self._link.is_up:
            with contextlib.suppress(JetsparkError):
                self.delete()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._release()

    def fetch(self, max_messages: int = 0, *, max_bytes: int = 0, **options: Any) -> Batch:
        """The next messages of the stream, up to a number; see `Consumer.fetch`."""
        return self._fetch_in_order(max_messages, max_bytes, options)

    def next(self, **options: Any) -> Msg | None:
        """The next message; None if none arrived in time."""
        batch = self._fetch_in_order(1, 0, options)
        return batch[0] if batch else None

    def _fetch_in_order(self, max_messages: int, max_bytes: int, options: dict[str, Any]) -> Batch:
        if max_messages < 0 or max_bytes < 0 or not (max_messages or max_bytes):
            raise BadOptionError("give max_messages, max_bytes or both, above zero")
        expires_s, no_wait, heartbeat = _fetch_options(options)
        deadline_s = self._link.now() + expires_s
        while True:
            if not self.name:
                self.make()
            left_s = deadline_s - self._link.now()
            request = self._request(max(0.001, left_s), heartbeat if left_s >= expires_s / 2 else 0, "", 0, 0, None)
            if no_wait:
                request.no_wait, request.expires_ns, request.heartbeat_ns = True, 0, 0
            try:
                batch = Fetch(self, request, max_messages, max_bytes).run(
                    max(0.01, left_s) + (0 if no_wait else GRACE_S)
                )
            except (ConsumerDeletedError, PullUnavailableError, HeartbeatMissedError):
                batch = Batch()
                self.make_again()
            good = self._in_order(batch)
            if good or not batch:
                if good or no_wait or self._link.now() >= deadline_s:
                    return good
                continue
            self.make_again()

    def fetch_each(self, max_messages: int = 0, *, max_bytes: int = 0, **options: Any) -> Iterator[Msg]:
        """The messages of one fetch, one by one as they arrive; see `Consumer.fetch_each`."""
        return self._each_in_order(max_messages, max_bytes, options)

    def _each_in_order(self, max_messages: int, max_bytes: int, options: dict[str, Any]) -> Iterator[Msg]:
        expires_s, no_wait, heartbeat = _fetch_options(options)
        deadline_s = self._link.now() + expires_s
        count, size = max_messages, max_bytes
        while (not max_messages or count > 0) and (not max_bytes or size > 0):
            if not self.name:
                self.make()
            left_s = max(0.001, deadline_s - self._link.now())
            request = self._request(left_s, heartbeat if left_s >= expires_s / 2 else 0, "", 0, 0, None)
            fetch, wait_s = self._fetch(request, count, size, left_s, no_wait)
            in_order = True
            try:
                for message in Each(fetch, wait_s):
                    in_order = self._position.accept(message.reply_bytes)
                    if not in_order:
                        break
                    count -= 1
                    size -= message.size_bytes
                    yield message
            except (ConsumerDeletedError, PullUnavailableError, HeartbeatMissedError):
                in_order = False
            if in_order or self._link.now() >= deadline_s:
                return
            self.make_again()

    def _in_order(self, batch: Batch) -> Batch:
        """The messages before the first gap."""
        good = Batch()
        good.error = batch.error
        for message in batch:
            if not self._position.accept(message.reply_bytes):
                # The next call makes the consumer again.
                self.cached_info = ConsumerInfo.read({"stream_name": self.stream.name, "name": ""})
                break
            good.append(message)
        return good

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
        **ignored: Any,
    ) -> Consuming:
        """Receive messages in order until you stop; see `Consumer.consume`. After a missed heartbeat it continues by
        itself.
        """
        if ignored:
            raise BadOptionError(f"no such option of an ordered consumer: {', '.join(sorted(ignored))}")
        buffer = consume_buffer(max_messages, max_bytes, threshold_messages, threshold_bytes)
        expires_s = seconds(expires)
        heartbeat_s = min(HEARTBEAT_S, expires_s / 2) if idle_heartbeat is None else seconds(idle_heartbeat)
        request = self._request(expires_s, heartbeat_s, "", 0, 0, None)
        return OrderedConsuming(self, request, buffer, callback, True)

    def _fetch_rows(
        self,
        request: PullRequest,
        max_messages: int,
        max_bytes: int,
        builder: BatchBuilder,
        wait_s: float,
        grace_s: float,
    ) -> pyarrow.RecordBatch:
        from jetspark.client.sync.scanning import fetch_in_order

        return fetch_in_order(self, request, max_messages, max_bytes, builder, wait_s, grace_s)

    def _consume_rows(
        self, request: PullRequest, builder: BatchBuilder, batch_rows: int, linger_s: float, repulls: bool
    ) -> ArrowConsuming:
        from jetspark.client.sync.scanning import OrderedArrowConsuming

        return OrderedArrowConsuming(self, request, builder, batch_rows, linger_s)

    def consume_made(self) -> Consuming:
        """Consume from the server's consumer as `make` left it, without making it again first."""
        made = self.consume()
        assert isinstance(made, OrderedConsuming)
        made.begin_with_made()
        return made


def _fetch_options(options: dict[str, Any]) -> tuple[float, bool, Seconds]:
    """(expires in seconds, no_wait, idle_heartbeat) of a fetch; anything else is refused."""
    known = {"expires", "no_wait", "idle_heartbeat"}
    if set(options) - known:
        raise BadOptionError(f"no such option of an ordered consumer: {', '.join(sorted(set(options) - known))}")
    expires_s = seconds(options.get("expires", 5.0))
    return expires_s, bool(options.get("no_wait", False)), options.get("idle_heartbeat", 0)


class OrderedConsuming(Consuming):
    """A running consume that starts over from the last message whenever order is in doubt."""

    _consumer: OrderedConsumer

    def _begin(self) -> None:
        self._made = False
        self._position = self._consumer._position

    def begin_with_made(self) -> None:
        """The consumer was just made, and nobody has read from it."""
        self._made = True
        self._pull()

    def __next__(self) -> Msg:
        while True:
            queue = self._queue
            if not queue or self._stopped:
                self._wait()
                continue
            message: Msg = queue.popleft()
            verdict = judge(message, self._position, self._buffer)
            if not verdict:
                return message
            if verdict == GIVE_AND_PULL:
                self._pull()
                return message
            if verdict == STATUS:
                self._on_status(message)
            else:
                self._restart()

    def _admit(self, message: Msg) -> bool:
        is_status = bool(message.header_block) and message.status_code != 0
        if not is_status and not self._position.accept(message.reply_bytes):
            self._restart()
            return False
        return super()._admit(message)

    def _wait(self, limit_s: float | None = None) -> None:
        if not self._made and not self._stopped and not self._inbox.closed:
            self._restart()
            return
        super()._wait(limit_s)

    def _restart(self) -> None:
        """A new consumer on a new subject: nothing of the old one can be taken for the new one's."""
        link = self._link
        if self._draining:
            # No more is wanted, so there is nothing to start over for.
            self._finish(None)
            return
        with link.guard:
            if self._inbox.closed:
                # Stopped or drained meanwhile.
                return
            link.core.remove_route(self._inbox)
            self._inbox = link.core.add_pull_inbox(link)
            self._inbox.ack_none = True
        self._queue = self._inbox.queue
        self._buffer.forget()
        self._made = False
        try:
            self._consumer.make_again()
        except (StreamNotFoundError, ConsumerNotFoundError) as error:
            self._finish(ConsumerDeletedError(409, f"the stream is gone: {error}"))
            return
        if self._inbox.closed:
            self._consumer._release()
            return
        self._made = True
        self._epoch = link.core.epoch
        self._pull()

    def stop(self) -> None:
        """End now and remove the server's consumer; what was not taken comes with the next use of this object."""
        super().stop()
        self._consumer._release()

    def drain(self, timeout: Seconds | None = None) -> None:
        """Pull no more, deliver what is in the buffer, then end. With an iterator, go on iterating until it ends."""
        try:
            super().drain(timeout)
        finally:
            self._consumer._release()

    def _missed_heartbeat(self, heartbeat_s: float) -> None:
        self._restart()

    def _resume(self) -> None:
        self._restart()

    def _on_status(self, message: Msg) -> None:
        asked = meaning(message.header_block)
        if asked == pull.HEARTBEAT:
            self._check_heartbeat(message)
        elif asked == pull.ENDED:
            self._buffer.ended(*pending_numbers(message.header_block))
            if self._buffer.wants():
                self._pull()
        elif asked == pull.FATAL and message.status_code not in (409, 503):
            super()._on_status(message)
        else:
            self._restart()

    def _check_heartbeat(self, message: Msg) -> None:
        """The server says how many deliveries it has made: more than we have seen means some were lost."""
        last = message.headers.get("Nats-Last-Consumer", "")
        if last.isdigit() and int(last) > self._position.consumer_sequence and not self._queue:
            self._restart()
