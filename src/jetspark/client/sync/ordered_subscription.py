# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""An ordered push subscription: `subscribe(..., ordered=True)`.

The push form of an ordered consumer. The server's consumer is a throw-away: it wants no acks, lives in memory, and is
made again from the last sequence seen whenever a gap, a silence, an error or a reconnect puts it in doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jetspark.api.consumer_config import AckPolicy, ConsumerConfig
from jetspark.client.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jetspark.client.core.ordered import OrderCheck
from jetspark.client.core.push_status import PushStatus
from jetspark.client.core.subscribe_checks import Wanted
from jetspark.client.errors import ConsumerDeletedError, JetsparkError, PullError
from jetspark.client.infos import ConsumerInfo
from jetspark.client.sync.msg import Msg
from jetspark.client.sync.ordered import RETRY_ERRORS, RETRY_WAIT_S, start_after
from jetspark.client.sync.push_subscription import PushSubscription
from jetspark.protocol.headers import find_value

if TYPE_CHECKING:
    from jetspark.client.sync.jetstream import JetStream

HEARTBEAT_S = 5.0


class OrderedSubscription(PushSubscription):
    """Messages of a stream in order and without gaps, pushed by the server: iterate, call `next`, or use a callback.
    Acks do nothing.
    """

    def __init__(
        self, jetstream: JetStream, wanted: Wanted, callback: Callable[[Msg], Any] | None, heartbeat_alarm: float
    ) -> None:
        config = replace(
            wanted.config,
            ack_policy=AckPolicy.NONE, max_deliver=1, mem_storage=True, num_replicas=1, flow_control=True,
        )  # fmt: skip
        if not config.idle_heartbeat:
            config = replace(config, idle_heartbeat=int(HEARTBEAT_S * 1e9))
        if wanted.subject and not config.filter_subjects:
            config = replace(config, filter_subject=wanted.subject)
        self._config: ConsumerConfig = config
        self._position = OrderCheck()
        self._in_doubt = True
        self._epoch = 0
        link = jetstream._link
        with link.guard:
            inbox = link.core.add_inbox(link.core.new_inbox_subject(), b"", link)
        inbox.ack_none = True
        blank = ConsumerInfo.read({"stream_name": wanted.stream, "name": "", "config": config.encode()})
        super().__init__(jetstream, wanted, blank, inbox, None, heartbeat_alarm, False)
        # Gaps are dealt with here, not told.
        self._status = PushStatus(checks_gaps=False)
        self._callback = callback

    def begin(self) -> None:
        """Make the consumer for the first time; then messages come."""
        try:
            self._make()
        except BaseException:
            with self._link.guard:
                self._link.core.remove_route(self._inbox)
            raise
        if self._callback is not None:
            self._worker = self._link.spawn(self._run_callback)

    @property
    def last_sequence(self) -> int:
        """The stream sequence of the last message you got; 0 if none."""
        return self._position.stream_sequence

    def _make(self) -> None:
        link = self._link
        inbox = self._inbox
        epoch = link.core.epoch
        config = start_after(self._config, self._position.stream_sequence)
        handle = self._jetstream.stream_handle(self.stream_name)
        made = handle.create_consumer(replace(config, deliver_subject=inbox.subject.decode()))
        if inbox.closed:
            # Ended meanwhile.
            link.spawn(self._discard, made.name)
            return
        self._info = made.cached_info
        self._position.begin(self._info.delivered.stream_seq if self._info.config.deliver_policy == "new" else 0)
        self._epoch = epoch
        self._restart_silence()
        self._in_doubt = False
        self._deletes_consumer = True

    def _discard(self, name: str) -> None:
        """Not waited for: the server forgets it by itself when nobody listens."""
        try:
            self._jetstream.delete_consumer(self.stream_name, name)
        except JetsparkError:
            return

    def _restart(self) -> None:
        """A new consumer on a new subject: nothing of the old one can be taken for the new one's."""
        link = self._link
        with link.guard:
            if self._inbox.closed:
                return
            link.core.remove_route(self._inbox)
            self._inbox = link.core.add_inbox(link.core.new_inbox_subject(), b"", link)
            self._inbox.ack_none = True
        if self._deletes_consumer:
            self._deletes_consumer = False
            link.spawn(self._discard, self._info.name)
        while not self._inbox.closed:
            try:
                self._make()
                return
            except StreamNotFoundError as error:
                with link.guard:
                    link.core.remove_route(self._inbox)
                self._on_error(ConsumerDeletedError(409, f"the stream is gone: {error}"))
                return
            except RETRY_ERRORS:
                link.sleep(RETRY_WAIT_S)

    def _wait(self, left_s: float | None) -> None:
        link = self._link
        if self._in_doubt or (link.is_up and link.core.epoch != self._epoch):
            self._restart()
            return
        super()._wait(left_s)

    def _came_back(self) -> None:
        self._in_doubt = True

    def _missed_heartbeat(self) -> None:
        self._in_doubt = True

    def _is_for_user(self, message: Msg) -> bool:
        if self._in_doubt:
            # The new consumer delivers it again.
            return False
        block = message.header_block
        if not block or block[8] != 32 or not message.status_code:
            self._in_doubt = not self._position.accept(message.reply_bytes)
            return not self._in_doubt
        if message.status_code == 100 and self._status.is_heartbeat(block):
            last = find_value(block, b"Nats-Last-Consumer")
            if last is not None and last.isdigit() and int(last) > self._position.consumer_sequence:
                self._in_doubt = True
        return super()._is_for_user(message)

    def _on_error(self, error: PullError) -> None:
        if self._inbox.closed:
            super()._on_error(error)
        # Anything else a consumer can say is answered with a new one.
        self._in_doubt = True

    def unsubscribe(self) -> None:
        """Stop now and remove the consumer from the server."""
        try:
            super().unsubscribe()
        except ConsumerNotFoundError:
            return
