"""What one client of a JetStream benchmark does, for each kind: publish, consume, fetch, get.

Decided here: the loop that is timed, and which durations are kept. Everything goes through the public blocking client.
Not known here: how many clients there are besides, and what becomes of the numbers.
"""

from __future__ import annotations

import time
from random import Random

import msgspec

from jetspark.cli.bench_core_jobs import CorePublish, CoreSubscribe, ServiceRequest, ServiceServe
from jetspark.cli.bench_job import LOOK_INTERVAL_S, Job, OneByOne
from jetspark.cli.bench_plan import Kind
from jetspark.client.errors import JetStreamError
from jetspark.sync import Consumer, Consuming, Msg


class SyncPublish(OneByOne):
    """One message at a time, each acknowledged before the next."""

    def do(self, place: int) -> int:
        """Publish and wait."""
        plan = self.plan
        msg_id = f"{plan.run_id}-{self.share[place]}" if plan.dedup else None
        self.jetstream.publish(self.subject(place), self.body, headers=plan.headers or None, msg_id=msg_id)
        return len(self.body)


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
            if meter.is_over:
                return

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
        batch, last = self.jetstream.batch(), first + count - 1
        for place in range(first, last):
            batch.add(self.subject(place), self.body, headers=self._headers(place))
        batch.commit(self.subject(last), self.body, headers=self._headers(last))

    def _headers(self, place: int) -> dict[str, str] | None:
        plan = self.plan
        if not plan.dedup:
            return plan.headers or None
        return {**plan.headers, "Nats-Msg-Id": f"{plan.run_id}-{self.share[place]}"}


class FastPublish(Job):
    """One fast batch; the server acknowledges every so often, and that is what is timed."""

    def run(self) -> None:
        """Everything in one batch, which ends with the share or with the time."""
        meter, plan, size_bytes = self.meter, self.plan, len(self.body)
        headers = plan.headers or None
        before_ns = meter.start()
        with self.jetstream.fast_batch(flow=plan.batch_count, outstanding_acks=plan.outstanding_acks) as batch:
            acked_count = 0
            for place in range(len(self.share)):
                msg_id = f"{plan.run_id}-{self.share[place]}" if plan.dedup else None
                batch.add(self.subject(place), self.body, headers=headers, msg_id=msg_id)
                if batch.acked_count > acked_count:
                    count, acked_count = batch.acked_count - acked_count, batch.acked_count
                    after_ns = meter.done(count, count * size_bytes)
                    meter.latencies_ns.append(after_ns - before_ns)
                    self.pace()
                    before_ns = meter.done(0, 0)
                if meter.is_over:
                    break
        count = batch.acked_count - acked_count
        after_ns = meter.done(count, count * size_bytes)
        if count:
            meter.latencies_ns.append(after_ns - before_ns)


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
        meter, wanted, sleep_s = self.meter, len(self.share), self.plan.sleep_s
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
                if sleep_s:
                    time.sleep(sleep_s)
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
            if plan.sleep_s:
                time.sleep(plan.sleep_s * len(batch))
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


class Get(OneByOne):
    """Stored messages one by one, by their sequence."""

    def prepare(self) -> None:
        """Where the stream begins."""
        self.stream = self.jetstream.stream(self.plan.stream)
        self.first_seq = self.stream.cached_info.state.first_seq

    def do(self, place: int) -> int:
        """Get and wait."""
        return len(self.stream.get_msg(self.first_seq + self.share[place]).data)


class GetBatch(Job):
    """Stored messages in batches, each one direct get with many answers."""

    def prepare(self) -> None:
        """Where the stream begins and the answers come in."""
        state = self.jetstream.stream(self.plan.stream).cached_info.state
        self.next_seq = max(1, state.first_seq)
        self.inbox = self.connection.new_inbox()
        self.answers = self.connection.subscribe(self.inbox, pending_count_max=0, pending_bytes_max=0)
        self.endpoint = f"{self.jetstream.api_prefix}.DIRECT.GET.{self.plan.stream}"
        self.connection.flush()

    def run(self) -> None:
        """Batch after batch until there were enough; the server may send less than a batch has room for."""
        meter = self.meter
        before_ns = meter.start()
        while meter.count < len(self.share):
            count, size_bytes = self._get(min(self.plan.batch_count, len(self.share) - meter.count))
            if not count:
                raise self.too_few()
            after_ns = meter.done(count, size_bytes)
            meter.latencies_ns.append(after_ns - before_ns)
            if self.plan.sleep_s:
                time.sleep(self.plan.sleep_s * count)
            before_ns = meter.done(0, 0)

    def _get(self, wanted: int) -> tuple[int, int]:
        # With a subject the first sequence is where to look from; without one it would have to be there.
        subject = self.plan.filters[0] if self.plan.filters else ">"
        request = {"seq": self.next_seq, "batch": wanted, "next_by_subj": subject}
        self.connection.publish(self.endpoint, msgspec.json.encode(request), reply=self.inbox)
        count = size_bytes = 0
        while True:
            message = self.answers.next(self.plan.idle_timeout_s)
            if message is None:
                raise self.too_few()
            if message.status_code == 503:
                raise JetStreamError(
                    f"stream {self.plan.stream} answers no direct gets: jetspark stream edit {self.plan.stream} "
                    "--allow-direct lets it"
                )
            if message.status_code in (204, 404):
                return count, size_bytes
            if message.status_code:
                raise JetStreamError(f"a direct get was refused: {message.status_code} {message.status_text}")
            count += 1
            size_bytes += len(message.data)
            self.next_seq = int(message.headers["Nats-Sequence"]) + 1


class KeyValuePut(OneByOne):
    """Values put into keys 0, 1, 2 …, or into random ones."""

    def prepare(self) -> None:
        """Find the bucket."""
        self.bucket = self.jetstream.key_value(self.plan.bucket)
        self._top = self.plan.multi_subject_max if self.plan.random_subject else 0
        self._chance = Random(self.share.start)

    def key(self, place: int) -> str:
        """The key at a place of the share."""
        return str(self._chance.randrange(self._top) if self._top else self.share[place])

    def do(self, place: int) -> int:
        """Put and wait."""
        self.bucket.put(self.key(place), self.body)
        return len(self.body)


class KeyValueGet(KeyValuePut):
    """Values of keys 0, 1, 2 …, or of random ones."""

    def do(self, place: int) -> int:
        """Get and wait."""
        return len(self.bucket.get(self.key(place)).value)


JOBS: dict[Kind, type[Job]] = {
    Kind.PUB: CorePublish,
    Kind.SUB: CoreSubscribe,
    Kind.REQUEST: ServiceRequest,
    Kind.SERVE: ServiceServe,
    Kind.JS_SYNC: SyncPublish,
    Kind.JS_ASYNC: AsyncPublish,
    Kind.JS_ATOMIC: AtomicPublish,
    Kind.JS_FAST: FastPublish,
    Kind.CONSUME: Consume,
    Kind.FETCH: Fetch,
    Kind.ORDERED: Ordered,
    Kind.GET: Get,
    Kind.GET_BATCH: GetBatch,
    Kind.KV_PUT: KeyValuePut,
    Kind.KV_GET: KeyValueGet,
}
