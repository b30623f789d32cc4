"""Consuming without end: one subscription, a buffer that refills, and the rules for when things go wrong.

All decisions are made where messages are taken, not where they arrive: a status is handled when its turn comes, and
the buffer refills as it is used. Silence is noticed where messages are waited for, so no timer runs on its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetspark.client.aio.msg import Msg
from jetspark.client.aio.waiting import call
from jetspark.client.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jetspark.client.core import pull
from jetspark.client.core.pull import PullBuffer, PullRequest, meaning, pending_numbers, pull_error
from jetspark.client.core.silence import Silence
from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import (
    BadOptionError,
    ConnectionClosedError,
    ConsumerDeletedError,
    DrainTimeoutError,
    HeartbeatMissedError,
    JetsparkError,
)
from jetspark.client.telemetry import processing

if TYPE_CHECKING:
    from jetspark.client.aio.consumer import Consumer

log = logging.getLogger("jetspark.client")

# Between two tries while nobody answers for a consumer.
ELECTION_WAIT_S = 0.25


class Consuming:
    """A running `consume`: iterate over it, or use it as the handle of a callback."""

    def __init__(
        self,
        consumer: Consumer,
        request: PullRequest,
        buffer: PullBuffer,
        callback: Callable[[Msg], Any] | None,
        repulls: bool,
    ) -> None:
        self._consumer = consumer
        self._link = consumer._link
        self._request = request
        self._buffer = buffer
        self._callback = callback
        self._repulls = repulls
        self._stopped = False
        self._draining = False
        self._error: BaseException | None = None
        link = self._link
        with link.guard:
            self._inbox = link.core.add_pull_inbox(link)
            consumer.mark(self._inbox)
            self._epoch = link.core.epoch
            link.receivers.add(self)
        self._queue: Any = self._inbox.queue
        self._silence = Silence(2 * request.heartbeat_ns / 1e9, link.now())
        self._begin()
        self._worker = link.spawn(self._run_callback) if callback is not None else None

    def _begin(self) -> None:
        self._pull()

    # Messages.

    def __aiter__(self) -> Consuming:
        return self

    async def __anext__(self) -> Msg:
        queue = self._queue
        buffer = self._buffer
        while True:
            if not queue or self._stopped:
                await self._wait()
                continue
            message: Msg = queue.popleft()
            block = message.header_block
            if block and not self._is_for_user(message, block):
                await self._on_status(message)
                continue
            if buffer.max_bytes:
                buffer.took(message.size_bytes)
            else:
                buffer.pending_messages -= 1
            if buffer.wants():
                self._pull()
            return message

    async def next(self, timeout: Seconds | None = None) -> Msg | None:
        """The next message; None if none arrived in time, or if consuming has ended."""
        if self._callback is not None:
            raise BadOptionError("this consume has a callback, which gets the messages")
        deadline_s = None if timeout is None else self._link.now() + seconds(timeout)
        has_waited = False
        while True:
            if self._queue and not self._stopped:
                message: Msg = self._queue.popleft()
                if await self._admit(message):
                    return message
                continue
            left_s = None if deadline_s is None else deadline_s - self._link.now()
            if left_s is not None and left_s <= 0 and has_waited:
                return None
            has_waited = True
            try:
                await self._wait(left_s)
            except StopAsyncIteration:
                return None

    async def _admit(self, message: Msg) -> bool:
        """A message's turn has come: True when it is the user's, else it has been dealt with."""
        block = message.header_block
        if block and not self._is_for_user(message, block):
            await self._on_status(message)
            return False
        self._buffer.took(message.size_bytes if self._buffer.max_bytes else 0)
        if self._buffer.wants():
            self._pull()
        return True

    def _is_for_user(self, message: Msg, block: bytes) -> bool:
        """False for a status, which is ours to handle."""
        if block[8] == 32 and message.status_code:
            return False
        if self._request.group:
            self._consumer.saw_pin(self._request.group, block)
        return True

    async def _wait(self, limit_s: float | None = None) -> None:
        """Until there is something to take. Raises when nothing more will come."""
        link, inbox = self._link, self._inbox
        seen_count = inbox.wake_count
        if self._stopped:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            raise StopAsyncIteration
        if inbox.closed:
            await self._finish(ConnectionClosedError("the connection is closed") if link.is_closed else None)
            return
        if link.is_up and link.core.epoch != self._epoch:
            await self._resume()
            return
        silence, epoch = self._silence, link.core.epoch
        # While disconnected silence does not count: the wait ends with the reconnect.
        wait_s = silence.wait_s(link.now(), inbox.delivered_count, limit_s) if link.is_up else limit_s
        if await link.wait_inbox(inbox, seen_count, wait_s) or not link.is_up or link.core.epoch != epoch:
            return
        if silence.is_over(link.now(), inbox.delivered_count):
            await self._missed_heartbeat(silence.limit_s)

    async def _missed_heartbeat(self, heartbeat_s: float) -> None:
        error = HeartbeatMissedError(0, f"nothing heard of consumer {self._consumer.name} for {heartbeat_s:g} s")
        if not self._repulls:
            await self._finish(error)
            return
        log.warning("%s; asking again", error)
        self._buffer.forget()
        self._pull()

    async def _resume(self) -> None:
        """The connection is back, and the server has forgotten our requests."""
        self._epoch = self._link.core.epoch
        self._buffer.forget()
        try:
            await self._consumer.info()
        except (ConsumerNotFoundError, StreamNotFoundError) as error:
            await self._finish(ConsumerDeletedError(409, f"consumer {self._consumer.name} is gone: {error}"))
            return
        except JetsparkError as error:
            # Not allowed to ask, or no answer yet: that says nothing about the consumer.
            log.debug("could not ask for consumer %s after a reconnect: %s", self._consumer.name, error)
        except BaseException:
            # Cancelled: whoever waits next does all this.
            self._epoch = 0
            raise
        if self._buffer.wants():
            self._pull()

    async def _on_status(self, message: Msg) -> None:
        asked = meaning(message.header_block)
        if asked in (pull.HEARTBEAT, pull.CROWDED):
            return
        if asked == pull.ENDED or asked == pull.PIN_LOST:
            if asked == pull.PIN_LOST:
                self._consumer.lost_pin(self._request.group)
            if b"\r\nNats-Pending-Messages:" in message.header_block:
                self._buffer.ended(*pending_numbers(message.header_block))
            else:
                self._buffer.forget()
        elif asked in (pull.AGAIN, pull.EMPTY):
            self._buffer.forget()
        elif message.status_code == 503 and self._repulls:
            # Nobody answers while a cluster elects a leader; whether the consumer is gone, its info tells.
            await self._link.sleep(ELECTION_WAIT_S)
            await self._resume()
            return
        else:
            await self._finish(pull_error(message.header_block))
            return
        if self._buffer.wants():
            self._pull()

    def _pull(self) -> None:
        link = self._link
        # On a connection that is new to us everything is asked for again: see `_resume`.
        if self._inbox.closed or self._draining or not link.is_up or link.core.epoch != self._epoch:
            return
        self._silence.restart(link.now(), self._inbox.delivered_count)
        consumer = self._consumer
        batch, max_bytes = self._buffer.next_request()
        body = self._request.body(batch, max_bytes, consumer.pin_id(self._request.group))
        link.pull(consumer._next_subject, self._inbox, body)

    # The end.

    async def _finish(self, error: BaseException | None) -> None:
        """No more messages; an error is raised to whoever iterates, or told to the hook."""
        self._stopped = True
        self._error = error
        with self._link.guard:
            self._link.core.remove_route(self._inbox)

    async def stop(self) -> None:
        """Stop now. Messages in the buffer are dropped; the server delivers them again later."""
        self._queue.clear()
        await self._finish(None)
        await self._link.join(self._worker, self._link.options.drain_timeout)

    async def drain(self, timeout: Seconds | None = None) -> None:
        """Stop pulling, deliver what is in the buffer, then end. With an iterator, keep iterating until it ends."""
        link = self._link
        timeout_s = link.options.drain_timeout if timeout is None else seconds(timeout)
        deadline_s = link.now() + timeout_s
        self._draining = True
        await link.stop_deliveries(self._inbox, timeout_s)
        if not await link.join(self._worker, max(0.0, deadline_s - link.now())):
            raise DrainTimeoutError(f"not drained within {timeout_s:g} s")

    async def _leave(self, timeout_s: float) -> None:
        """Drained for the last time: the connection is about to be closed."""
        await self.drain(timeout_s)

    async def wait_closed(self, timeout: Seconds | None = None) -> None:
        """Wait until a consume with a callback has ended; raises the error that ended it."""
        if self._worker is not None:
            await self._link.join_only(self._worker, None if timeout is None else seconds(timeout))
        if self._error is not None:
            raise self._error

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self._stopped or (self._inbox.closed and not self._queue)

    @property
    def error(self) -> BaseException | None:
        """The error that ended it, if there was one."""
        return self._error

    @property
    def pending_count(self) -> int:
        """Messages in the buffer."""
        return len(self._queue)

    async def _run_callback(self) -> None:
        callback = self._callback
        assert callback is not None
        try:
            async for message in self:
                try:
                    with processing(self._link.options.telemetry, message):
                        await call(callback, message)
                except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                    self._link.report(error, f"the callback of consumer {self._consumer.name} failed: ")
        except JetsparkError as error:
            self._error = error
            self._link.report(error)

    async def __aenter__(self) -> Consuming:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if not self._link.is_closed:
            await self.stop()
