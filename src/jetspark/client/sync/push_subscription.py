# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""A push subscription: the server delivers, statuses are handled on the way (seed 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jetspark.api.consumer_config import ConsumerConfig, DeliverPolicy
from jetspark.client.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jetspark.client.core.push_status import PushStatus, push_error
from jetspark.client.core.routes import Inbox
from jetspark.client.core.silence import Silence
from jetspark.client.core.subscribe_checks import Wanted
from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import (
    BadOptionError,
    ConsumerDeletedError,
    DrainTimeoutError,
    HeartbeatMissedError,
    JetsparkError,
    PullError,
    SubscriptionClosedError,
)
from jetspark.client.infos import ConsumerInfo
from jetspark.client.sync.msg import Msg
from jetspark.client.sync.ordered import RETRY_ERRORS, start_after
from jetspark.client.sync.waiting import call
from jetspark.client.telemetry import processing

if TYPE_CHECKING:
    from jetspark.client.sync.jetstream import JetStream

# After a reconnect the server is asked whether the consumer is still there: so often, with pauses that double.
ASK_COUNT_MAX = 10
ASK_WAIT_S = 0.25
ASK_WAIT_MAX_S = 8.0


class PushSubscription:
    """Messages of a push consumer: iterate, call `next`, or use a callback.

    Heartbeats, flow control and gaps are handled for you. A gap or a missed heartbeat is reported to `on_error` and
    does not end the subscription. If the consumer is gone after a reconnect and this subscription had created it for
    itself, it is created again after the last message you got; otherwise the subscription ends with
    ConsumerDeletedError.
    """

    def __init__(
        self,
        jetstream: JetStream,
        wanted: Wanted,
        info: ConsumerInfo,
        inbox: Inbox,
        callback: Callable[[Msg], Any] | None,
        heartbeat_alarm: float,
        deletes_consumer: bool,
        epoch: int = 0,
        remade: ConsumerConfig | None = None,
    ) -> None:
        self._jetstream = jetstream
        self._link = jetstream._link
        self._wanted = wanted
        self._info = info
        self._inbox = inbox
        self._callback = callback
        self._deletes_consumer = deletes_consumer
        self._draining = False
        self._silence = Silence(heartbeat_alarm * info.config.idle_heartbeat / 1e9, self._link.now())
        self._status = PushStatus(checks_gaps=not wanted.queue)
        if info.config.deliver_policy == DeliverPolicy.NEW:
            # What "new" meant when it was made; made again later it would leave something out.
            self._status.stream_sequence = info.delivered.stream_seq
        # The connection on which the consumer was known to be there.
        self._epoch = epoch
        # What to make when it is gone; None when that would not continue where it was.
        self._remade = remade
        self._is_gone = False
        with self._link.guard:
            self._link.receivers.add(self)
        self._worker = self._link.spawn(self._run_callback) if callback is not None else None

    @property
    def consumer_name(self) -> str:
        """The name of the consumer."""
        return self._info.name

    @property
    def stream_name(self) -> str:
        """The name of the stream."""
        return self._wanted.stream

    @property
    def pending_count(self) -> int:
        """Messages that have arrived and wait for you, including status messages."""
        return len(self._inbox.queue)

    @property
    def is_closed(self) -> bool:
        """Whether no more messages will arrive; those already here can still be taken."""
        return self._inbox.closed

    def consumer_info(self) -> ConsumerInfo:
        """The current state of the consumer."""
        return (self._jetstream.consumer(self.stream_name, self.consumer_name)).cached_info

    def next(self, timeout: Seconds | None = None) -> Msg | None:
        """The next message; None if none arrived in time."""
        if self._callback is not None:
            raise BadOptionError("this subscription has a callback, which gets the messages")
        return self._next(None if timeout is None else self._link.now() + seconds(timeout))

    def _next(self, deadline_s: float | None) -> Msg | None:
        has_waited = False
        while True:
            # Looked up each time: an ordered subscription changes its inbox on the way.
            queue: Any = self._inbox.queue
            while queue:
                message: Msg = queue.popleft()
                if self._is_for_user(message):
                    return message
            if self._inbox.closed:
                if self._draining:
                    self._draining = False
                    self._remove_drained()
                raise SubscriptionClosedError(f"the subscription to {self._wanted.subject} has ended")
            left_s = None if deadline_s is None else deadline_s - self._link.now()
            if left_s is not None and left_s <= 0 and has_waited:
                return None
            has_waited = True
            self._wait(left_s)

    def _wait(self, left_s: float | None) -> None:
        """Until there is something to look at, with the alarm for a silent server."""
        link, inbox = self._link, self._inbox
        seen_count = inbox.wake_count
        if self._is_gone:
            self._is_gone = False
            self._replace_consumer()
            return
        if link.is_up and link.core.epoch != self._epoch:
            self._came_back()
        silence, epoch = self._silence, link.core.epoch
        # While disconnected silence does not count: the wait ends with the reconnect.
        wait_s = silence.wait_s(link.now(), inbox.delivered_count, left_s) if link.is_up else left_s
        if link.wait_inbox(inbox, seen_count, wait_s) or not link.is_up or link.core.epoch != epoch:
            return
        if silence.is_over(link.now(), inbox.delivered_count):
            self._restart_silence()
            self._missed_heartbeat()

    def _restart_silence(self) -> None:
        self._silence.restart(self._link.now(), self._inbox.delivered_count)

    def _came_back(self) -> None:
        """Nobody says unasked whether the consumer has outlived the time without a connection."""
        link = self._link
        self._epoch = link.core.epoch
        self._restart_silence()
        link.spawn(self._ask_for_consumer, self._epoch)

    def _ask_for_consumer(self, epoch: int) -> None:
        """Beside the messages, which may be coming all the while."""
        link, inbox = self._link, self._inbox
        heard_count = inbox.delivered_count
        pause_s = ASK_WAIT_S
        trouble: JetsparkError | None = None
        for _ in range(ASK_COUNT_MAX):
            try:
                is_gone = (self.consumer_info()).config.deliver_subject.encode() != inbox.subject
            except (ConsumerNotFoundError, StreamNotFoundError):
                is_gone = True
            except JetsparkError as error:
                # Not allowed to ask, or no answer yet: that says nothing about the consumer.
                trouble = error
                link.sleep(pause_s)
                pause_s = min(2 * pause_s, ASK_WAIT_MAX_S)
                if inbox.closed or link.core.epoch != epoch or inbox.delivered_count != heard_count:
                    return
                continue
            if is_gone and link.core.epoch == epoch:
                self._is_gone = True
                with link.guard:
                    inbox.wake()
            return
        link.report(trouble)

    def _replace_consumer(self) -> None:
        """Everything that came was taken: go on from there with a new consumer, or end."""
        link = self._link
        gone = f"consumer {self.consumer_name} is gone"
        if self._remade is None:
            self._end(ConsumerDeletedError(409, gone))
            return
        with link.guard:
            name = self._remade.name or link.core.nuid.next()
        config = replace(start_after(self._remade, self._status.stream_sequence), name=name)
        self._info = replace(self._info, name=name)
        self._status.begin_again()
        self._epoch = link.core.epoch
        try:
            made = self._jetstream.stream_handle(self.stream_name).create_consumer(config)
        except RETRY_ERRORS:
            # It may have been made, and may deliver already: only asking tells.
            self._came_back()
        except JetsparkError as error:
            if not self._inbox.closed:
                self._end(ConsumerDeletedError(409, f"{gone}, and could not be made again: {error}"))
        else:
            self._info = made.cached_info
            self._restart_silence()

    def _end(self, error: ConsumerDeletedError) -> None:
        self._deletes_consumer = False
        with self._link.guard:
            self._link.core.remove_route(self._inbox)
        self._link.report(error)
        if self._callback is None:
            raise error

    def _missed_heartbeat(self) -> None:
        limit_s = self._silence.limit_s
        self._link.report(HeartbeatMissedError(0, f"nothing heard of consumer {self.consumer_name} for {limit_s:g} s"))

    def _is_for_user(self, message: Msg) -> bool:
        """A message's turn has come: True when it is the user's, else it has been dealt with."""
        block = message.header_block
        status = self._status
        if not block or block[8] != 32 or not message.status_code:
            gap = status.on_message(message.reply_bytes)
            if gap is not None:
                self._link.report(gap)
            return True
        if message.status_code == 100:
            if status.is_heartbeat(block):
                gap = status.on_heartbeat(block)
                if gap is not None:
                    self._link.report(gap)
            answer = status.to_answer(message.reply_bytes, block, self._link.core.epoch)
            if answer:
                self._link.send(b"PUB %b 0\r\n\r\n" % answer)
            return False
        error = push_error(block)
        if error is not None:
            self._on_error(error)
        return False

    def _on_error(self, error: PullError) -> None:
        if self._callback is None:
            raise error
        self._link.report(error)

    def __iter__(self) -> PushSubscription:
        return self

    def __next__(self) -> Msg:
        try:
            message = self._next(None)
        except SubscriptionClosedError:
            raise StopIteration from None
        assert message is not None
        return message

    def _run_callback(self) -> None:
        callback = self._callback
        assert callback is not None
        for message in self:
            try:
                with processing(self._link.options.telemetry, message):
                    call(callback, message)
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                self._link.report(error, f"the callback of consumer {self.consumer_name} failed: ")

    def unsubscribe(self) -> None:
        """Stop now. The consumer is removed if this subscription created it; an error of that is raised."""
        with self._link.guard:
            self._link.core.remove_route(self._inbox)
        if self._deletes_consumer:
            self._deletes_consumer = False
            self._jetstream.delete_consumer(self.stream_name, self.consumer_name)

    def drain(self, timeout: Seconds | None = None) -> None:
        """Stop deliveries and finish what has arrived. Then the consumer is removed if this subscription created it.

        With a callback this waits for it. With an iterator, keep iterating until it ends.
        """
        link = self._link
        timeout_s = link.options.drain_timeout if timeout is None else seconds(timeout)
        deadline_s = link.now() + timeout_s
        link.stop_deliveries(self._inbox, timeout_s)
        is_finished = link.join(self._worker, max(0.0, deadline_s - link.now()))
        if self._inbox.queue and is_finished:
            self._draining = True
        else:
            self._remove_drained()
        if not is_finished:
            raise DrainTimeoutError(f"the callback of {self.consumer_name} did not finish within {timeout_s:g} s")

    def _leave(self, timeout_s: float) -> None:
        """Drained for the last time: the connection is about to be closed, so an iterator is not waited for."""
        self.drain(timeout_s)
        self._draining = False
        self._remove_drained()

    def _remove_drained(self) -> None:
        """Everything was taken: remove the consumer. Nobody may be waiting, so a failure goes to the hook."""
        if not self._deletes_consumer:
            return
        self._deletes_consumer = False
        try:
            self._jetstream.delete_consumer(self.stream_name, self.consumer_name)
        except JetsparkError as error:
            self._link.report(error)

    def __enter__(self) -> PushSubscription:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._link.is_closed:
            self.unsubscribe()
