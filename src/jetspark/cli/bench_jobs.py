"""What one client of a benchmark does, for each kind: publish, consume, fetch, get.

Decided here: the loop that is timed, and which durations are kept. Everything goes through the public blocking client.
Not known here: how many clients there are besides, and what becomes of the numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from jetspark.cli.bench_numbers import ClientResult
from jetspark.cli.bench_plan import Kind, Plan
from jetspark.client.errors import JetStreamError
from jetspark.clock import Clock
from jetspark.sync import Connection, Consumer, Consuming, Msg

# Progress is told this often; more would be measured, less would look stuck.
REPORT_INTERVAL_NS = 50_000_000
# How long a client that shares a consumer waits before it looks whether the others are done.
LOOK_INTERVAL_S = 0.1
# Messages between two looks at the clock, where that is not a batch.
CHUNK_COUNT = 100


class Meter:
    """Counts, times and now and then tells how far it is."""

    def __init__(self, clock: Clock, report: Callable[[int], None]) -> None:
        self._now_ns = clock.monotonic_ns
        self._report = report
        self.count = 0
        self.byte_count = 0
        self.latencies_ns: list[int] = []
        self.marks: list[tuple[int, int]] = []
        self.start_ns = self.end_ns = self._next_report_ns = 0

    def start(self) -> int:
        """Now the timed part begins."""
        self.start_ns = self.end_ns = self._now_ns()
        self._next_report_ns = self.start_ns + REPORT_INTERVAL_NS
        return self.start_ns

    def done(self, count: int, byte_count: int) -> int:
        """So many more are done; the time."""
        self.count += count
        self.byte_count += byte_count
        self.end_ns = now_ns = self._now_ns()
        if now_ns >= self._next_report_ns:
            self._next_report_ns = now_ns + REPORT_INTERVAL_NS
            self.marks.append((now_ns, self.count))
            self._report(self.count)
        return now_ns

    def tell(self) -> None:
        """Report at once."""
        self._report(self.count)

    def result(self) -> ClientResult:
        """What was measured."""
        return ClientResult(self.count, self.byte_count, self.start_ns, self.end_ns, self.latencies_ns, self.marks)


class Job:
    """One client: `prepare` is not timed, `run` is."""

    def __init__(
        self, plan: Plan, client: int, connection: Connection, meter: Meter, is_stopped: Callable[[], bool]
    ) -> None:
        self.plan = plan
        self.share = plan.share(client)
        self.connection = connection
        self.jetstream = connection.jetstream(
            domain=str(plan.connection.get("js_domain", "")),
            api_prefix=str(plan.connection.get("js_api_prefix", "")),
            publish_window=max(1, plan.batch_count),
        )
        self.meter = meter
        self.is_stopped = is_stopped
        self.subjects = plan.subjects(self.share, Random(client))
        self.body = plan.body()
        # Confirmed acknowledgements are so slow that a whole batch would be late to be counted.
        is_small = plan.kind is Kind.PUB or plan.double_ack
        self.chunk_count = min(plan.batch_count, CHUNK_COUNT) if is_small else plan.batch_count

    def prepare(self) -> None:
        """Everything that has to be there before the clock starts."""

    def run(self) -> None:
        """The part that is measured."""
        raise NotImplementedError

    def subject(self, place: int) -> str:
        """Where the message at a place of the share goes."""
        return self.subjects[place % len(self.subjects)]

    def pace(self) -> None:
        """Wait as --sleep and --throughput ask."""
        plan = self.plan
        if plan.sleep_s:
            time.sleep(plan.sleep_s)
        if plan.throughput:
            due_s = self.meter.count * plan.client_count / plan.throughput
            ahead_s = due_s - (self.meter.end_ns - self.meter.start_ns) / 1e9
            if ahead_s > 0:
                time.sleep(ahead_s)

    def too_few(self) -> JetStreamError:
        """Messages stopped coming."""
        had = f"{self.meter.count:,} of {len(self.share):,} messages"
        return JetStreamError(f"nothing came for {self.plan.idle_timeout_s:g} s after {had}")


class CorePublish(Job):
    """Messages to whoever listens; ends when the server has read them all."""

    def run(self) -> None:
        """Publish in chunks, then flush."""
        publish, meter, body = self.connection.publish, self.meter, self.body
        headers = self.plan.headers or None
        before_ns = meter.start()
        for first in range(0, len(self.share), self.chunk_count):
            count = min(self.chunk_count, len(self.share) - first)
            for place in range(first, first + count):
                publish(self.subject(place), body, headers=headers)
            after_ns = meter.done(count, count * len(body))
            meter.latencies_ns.append(after_ns - before_ns)
            self.pace()
            before_ns = meter.done(0, 0)
        self.connection.flush()
        meter.done(0, 0)


class CoreSubscribe(Job):
    """Every message of a subject; the clock starts with the first."""

    def prepare(self) -> None:
        """Listen before anyone is told to publish."""
        self.subscription = self.connection.subscribe(self.plan.pattern, pending_count_max=0, pending_bytes_max=0)
        self.connection.flush()

    def run(self) -> None:
        """Take so many."""
        meter, take = self.meter, self.subscription.next
        meter.start()
        # Whoever publishes may be started by hand: the first message may take as long as it takes.
        size_bytes = _size(take(None))
        before_ns = meter.start()
        meter.done(1, size_bytes)
        while meter.count < len(self.share):
            count = byte_count = 0
            for _ in range(min(self.chunk_count, len(self.share) - meter.count)):
                message = take(self.plan.idle_timeout_s)
                if message is None:
                    raise self.too_few()
                count += 1
                byte_count += len(message.data)
            after_ns = meter.done(count, byte_count)
            meter.latencies_ns.append(after_ns - before_ns)
            before_ns = after_ns


class SyncPublish(Job):
    """One message at a time, each acknowledged before the next."""

    def run(self) -> None:
        """Publish and wait."""
        publish, meter, body, plan = self.jetstream.publish, self.meter, self.body, self.plan
        before_ns = meter.start()
        for place, number in enumerate(self.share):
            msg_id = f"{plan.run_id}-{number}" if plan.dedup else None
            publish(self.subject(place), body, headers=plan.headers or None, msg_id=msg_id)
            after_ns = meter.done(1, len(body))
            meter.latencies_ns.append(after_ns - before_ns)
            before_ns = after_ns
            if plan.sleep_s or plan.throughput:
                self.pace()
                before_ns = meter.done(0, 0)


class _BatchPublish(Job):
    """Batches, each stored before the next begins."""

    def run(self) -> None:
        """Publish batch after batch."""
        meter, size_bytes = self.meter, len(self.body)
        before_ns = meter.start()
        for first in range(0, len(self.share), self.plan.batch_count):
            count = min(self.plan.batch_count, len(self.share) - first)
            self.publish_batch(first, count)
            after_ns = meter.done(count, count * size_bytes)
            meter.latencies_ns.append(after_ns - before_ns)
            self.pace()
            before_ns = meter.done(0, 0)

    def publish_batch(self, first: int, count: int) -> None:
        """Store the messages at these places of the share."""
        raise NotImplementedError


class AsyncPublish(_BatchPublish):
    """Batches whose acknowledgements are awaited together."""

    def publish_batch(self, first: int, count: int) -> None:
        """All at once, then wait for all."""
        publish, plan, body = self.jetstream.publish_async, self.plan, self.body
        headers = plan.headers or None
        for place in range(first, first + count):
            msg_id = f"{plan.run_id}-{self.share[place]}" if plan.dedup else None
            publish(self.subject(place), body, headers=headers, msg_id=msg_id)
        self.jetstream.flush()


class AtomicPublish(_BatchPublish):
    """Batches that are stored together or not at all."""

    def publish_batch(self, first: int, count: int) -> None:
        """All but one, then commit with the last."""
        batch, headers = self.jetstream.batch(), self.plan.headers or None
        for place in range(first, first + count - 1):
            batch.add(self.subject(place), self.body, headers=headers)
        batch.commit(self.subject(first + count - 1), self.body, headers=headers)


class Consume(Job):
    """A durable consumer's messages as they come, shared with the other clients."""

    def consumer(self) -> Consumer:
        """The consumer to read from."""
        return self.jetstream.consumer(self.plan.stream, self.plan.consumer)

    def run(self) -> None:
        """Until all clients together have them all."""
        consumer = self.consumer()
        try:
            self._consume(consumer)
        finally:
            self.finish(consumer)

    def finish(self, consumer: Consumer) -> None:
        """The durable consumer is shared: whoever made it takes it away."""

    def _consume(self, consumer: Consumer) -> None:
        meter, wanted = self.meter, len(self.share)
        with consumer.consume(max_messages=self.plan.batch_count) as messages:
            chunk_start_ns = meter.start()
            count = byte_count = chunk_count = 0
            while meter.count + count < wanted:
                message = messages.next(0)
                if message is None:
                    # Noted before the wait, so that waiting for what never comes is not measured.
                    meter.done(count, byte_count)
                    count = byte_count = 0
                    message = self._wait(messages)
                    if message is None:
                        return
                count += 1
                chunk_count += 1
                byte_count += len(message.data)
                self._acknowledge(message, meter.count + count)
                if chunk_count >= self.chunk_count:
                    now_ns = meter.done(count, byte_count)
                    if not self.plan.double_ack:
                        meter.latencies_ns.append(now_ns - chunk_start_ns)
                    chunk_start_ns, count, byte_count, chunk_count = now_ns, 0, 0, 0
                    if self.is_stopped():
                        return
            meter.done(count, byte_count)

    def _wait(self, messages: Consuming) -> Msg | None:
        """The next message; None when the other clients have had the rest."""
        for _ in range(max(1, round(self.plan.idle_timeout_s / LOOK_INTERVAL_S))):
            message = messages.next(LOOK_INTERVAL_S)
            if message is not None:
                return message
            self.meter.tell()
            if self.is_stopped():
                return None
        raise self.too_few()

    def _acknowledge(self, message: Msg, number: int) -> None:
        plan = self.plan
        if plan.acks == "none":
            return
        if plan.acks == "all" and number % plan.batch_count and number < len(self.share):
            return
        if not plan.double_ack:
            message.ack()
            return
        before_ns = time.monotonic_ns()
        message.ack(wait=True)
        self.meter.latencies_ns.append(time.monotonic_ns() - before_ns)


class Ordered(Consume):
    """Everything in the stream, in order, by a consumer of one's own."""

    def consumer(self) -> Consumer:
        """Made anew for each client."""
        return self.jetstream.ordered_consumer(self.plan.stream, filter_subjects=self.plan.filters or [">"])

    def finish(self, consumer: Consumer) -> None:
        """Its own, and of no use to anyone else."""
        consumer.delete()

    def _acknowledge(self, message: Msg, number: int) -> None:
        return None


class Fetch(Job):
    """A durable consumer's messages in batches that are asked for."""

    def prepare(self) -> None:
        """Find the consumer."""
        self.consumer = self.jetstream.consumer(self.plan.stream, self.plan.consumer)

    def run(self) -> None:
        """Fetch until the share is full."""
        meter, plan = self.meter, self.plan
        before_ns = meter.start()
        while meter.count < len(self.share):
            wanted = min(plan.batch_count, len(self.share) - meter.count)
            batch = self.consumer.fetch(wanted, expires=plan.idle_timeout_s)
            if not batch:
                raise self.too_few()
            self._acknowledge(batch)
            after_ns = meter.done(len(batch), sum(len(message.data) for message in batch))
            meter.latencies_ns.append(after_ns - before_ns)
            before_ns = after_ns
        self.connection.flush()
        meter.done(0, 0)

    def _acknowledge(self, batch: list[Msg]) -> None:
        if self.plan.acks == "none":
            return
        for message in batch[-1:] if self.plan.acks == "all" else batch:
            message.ack(wait=self.plan.double_ack)


class Get(Job):
    """Stored messages one by one, by their sequence."""

    def prepare(self) -> None:
        """Where the stream begins."""
        self.stream = self.jetstream.stream(self.plan.stream)
        self.first_seq = self.stream.cached_info.state.first_seq

    def run(self) -> None:
        """Get and wait."""
        meter = self.meter
        before_ns = meter.start()
        for number in self.share:
            stored = self.stream.get_msg(self.first_seq + number)
            after_ns = meter.done(1, len(stored.data))
            meter.latencies_ns.append(after_ns - before_ns)
            before_ns = after_ns


class KeyValuePut(Job):
    """Values put into keys 0, 1, 2 …"""

    def prepare(self) -> None:
        """Find the bucket."""
        self.bucket = self.jetstream.key_value(self.plan.bucket)
        top = self.plan.multi_subject_max if self.plan.random_subject else 0
        chance = Random(self.share.start)
        self.keys = [str(chance.randrange(top) if top else number) for number in self.share]

    def run(self) -> None:
        """Put and wait."""
        meter = self.meter
        before_ns = meter.start()
        for key in self.keys:
            size_bytes = self.touch(key)
            after_ns = meter.done(1, size_bytes)
            meter.latencies_ns.append(after_ns - before_ns)
            before_ns = after_ns
            if self.plan.sleep_s or self.plan.throughput:
                self.pace()
                before_ns = meter.done(0, 0)

    def touch(self, key: str) -> int:
        """Put the key; the size of its value."""
        self.bucket.put(key, self.body)
        return len(self.body)


class KeyValueGet(KeyValuePut):
    """Values of keys 0, 1, 2 …"""

    def touch(self, key: str) -> int:
        """Get the key; the size of its value."""
        return len(self.bucket.get(key).value)


def _size(message: Msg | None) -> int:
    assert message is not None, "waiting without a limit gives a message"
    return len(message.data)


JOBS: dict[Kind, type[Job]] = {
    Kind.PUB: CorePublish,
    Kind.SUB: CoreSubscribe,
    Kind.JS_SYNC: SyncPublish,
    Kind.JS_ASYNC: AsyncPublish,
    Kind.JS_ATOMIC: AtomicPublish,
    Kind.CONSUME: Consume,
    Kind.FETCH: Fetch,
    Kind.ORDERED: Ordered,
    Kind.GET: Get,
    Kind.KV_PUT: KeyValuePut,
    Kind.KV_GET: KeyValueGet,
}
