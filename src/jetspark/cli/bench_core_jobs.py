"""What one client of a core NATS benchmark does: publish, subscribe, request, serve.

Decided here: the loop that is timed, and which durations are kept. Not known here: streams.
"""

from __future__ import annotations

import time
from typing import Final

from jetspark.cli.bench_job import LOOK_INTERVAL_S, Job, OneByOne
from jetspark.sync import Msg

# The queue group of `nats bench service serve`: the two share requests when both run.
SERVICE_GROUP: Final = "q"


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
            if meter.is_over:
                break
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


class ServiceRequest(OneByOne):
    """Requests, each answered before the next."""

    def do(self, place: int) -> int:
        """Ask and wait."""
        self.connection.request(self.subject(place), self.body, headers=self.plan.headers or None)
        return len(self.body)


class ServiceServe(Job):
    """Answers to whatever is asked, shared with the other clients; the clock runs from the first request."""

    def prepare(self) -> None:
        """Be there before anyone asks."""
        self.subscription = self.connection.subscribe(
            self.plan.subject, queue=SERVICE_GROUP, pending_count_max=0, pending_bytes_max=0
        )
        self.connection.flush()

    def run(self) -> None:
        """Answer until there were enough, or the user has had enough."""
        try:
            self._serve()
        except KeyboardInterrupt:
            # The usual way to end it: what was served till then is the result.
            return
        self.connection.flush()

    def _serve(self) -> None:
        meter, take, sleep_s = self.meter, self.subscription.next, self.plan.sleep_s
        meter.start()
        while meter.count < len(self.share) and not self.is_stopped():
            message = take(LOOK_INTERVAL_S)
            if message is None:
                meter.tell()
                continue
            if not meter.count:
                meter.start()
            if sleep_s:
                time.sleep(sleep_s)
            message.respond(self.body)
            meter.done(1, len(message.data))


def _size(message: Msg | None) -> int:
    assert message is not None, "waiting without a limit gives a message"
    return len(message.data)
