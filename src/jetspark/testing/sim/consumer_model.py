"""What a consumer may deliver next, and what it is owed.

Deliveries are applied as they are seen to leave the broker, acknowledgements as they are seen to arrive. Which message
comes next, when one may come again and what is outstanding follows from that alone.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetspark.api.consumer_config import AckPolicy, ConsumerConfig
from jetspark.api.stream_config import Retention
from jetspark.protocol.subjects import matches
from jetspark.testing.sim.violation import require

if TYPE_CHECKING:
    from jetspark.testing.sim.model import Message, StreamModel


@dataclass(slots=True)
class Owed:
    """A message delivered and not acknowledged."""

    deliveries: int
    # It may be delivered again from then on.
    not_before_ns: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message as it left the broker, with what its ack subject says."""

    stream: str
    consumer: str
    deliveries: int
    seq: int
    consumer_seq: int
    ts_ns: int
    pending: int
    subject: bytes
    header: bytes
    payload: bytes


class ConsumerModel:
    """One consumer, from its creation to its deletion."""

    def __init__(self, stream: StreamModel, name: str, config: ConsumerConfig, next_seq: int) -> None:
        self.stream = stream
        self.name = name
        self.next_seq = next_seq
        # The same without what a filter it no longer has made it pass over.
        self.base_seq = next_seq
        # Where purges have moved that, which is not durable yet: commits collected by then, from where, to where.
        self.jumps: list[tuple[int, int, int]] = []
        # To be delivered before anything else (last of each subject), in order.
        self.first_list: list[int] = []
        # The last sequence that list was made for.
        self.list_until_seq = 0
        # The sequence that a reset asked for; 0 without one.
        self.asked_seq = 0
        self.pending: dict[int, Owed] = {}
        # Delivered as often as allowed and never acknowledged.
        self.given_up: set[int] = set()
        # Of these, acknowledged when their message had left: if it comes back, it may count as acknowledged or not.
        self.acked_late: set[int] = set()
        # Owed when they left the stream, which is not durable yet.
        self.forgotten: dict[int, Owed] = {}
        self.consumer_seq = 0
        # The highest stream sequence delivered.
        self.delivered_seq = next_seq - 1
        self.floor_seq = 0
        self.resets = 0
        self.paused_until_ns = 0
        # Acknowledged, as far as the broker remembers.
        self.settled: set[int] = set()
        # Double acks that were confirmed: never to be seen again.
        self.confirmed: set[int] = set()
        self._verdicts: dict[bytes, bool] = {}
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        """Take a configuration."""
        self.config = config
        self.acks = config.ack_policy != AckPolicy.NONE
        self.patterns = [pattern.encode() for pattern in config.filters]
        self.pending_max = config.max_ack_pending if self.acks and config.max_ack_pending > 0 else 0
        # What is outstanding when the limit is lowered stays so.
        self.pending_before = len(self.pending)
        self.deliveries_max = max(config.max_deliver, 0)
        self._verdicts = {}

    def accepts(self, subject: bytes) -> bool:
        """Does the filter let this subject through?"""
        if not self.patterns:
            return True
        verdict = self._verdicts.get(subject)
        if verdict is None:
            verdict = any(matches(pattern, subject) for pattern in self.patterns)
            self._verdicts[subject] = verdict
        return verdict

    def wait_ns(self, deliveries: int) -> int:
        """How long the n-th delivery may stay unacknowledged."""
        backoff = self.config.backoff
        if backoff:
            return backoff[min(deliveries, len(backoff)) - 1]
        return self.config.ack_wait

    def needs(self, seq: int) -> bool:
        """Must the stream keep this for the consumer?"""
        return seq >= self.next_seq or seq in self.first_list or seq in self.pending or seq in self.given_up

    def count_pending(self) -> int:
        """Messages still to be delivered for the first time."""
        messages = self.stream.messages
        following = self.stream.live_from(self.next_seq)
        if self.patterns:
            return len(self.first_list) + sum(self.accepts(messages[seq].subject) for seq in following)
        return len(self.first_list) + len(following)

    def is_to_come(self, seq: int) -> bool:
        """Is this message still to be delivered for the first time?"""
        if seq in self.first_list:
            return True
        return seq >= self.next_seq and self.accepts(self.stream.messages[seq].subject)

    def next_new(self, left: Container[int] = ()) -> int:
        """The message a first delivery must be of when some have left, 0 when there is none."""
        for seq in self.first_list:
            if seq not in left:
                return seq
        visible = self.stream.visible_seq
        messages = self.stream.messages
        for seq in self.stream.live_from(self.next_seq):
            if seq > visible:
                return 0
            if seq not in left and self.accepts(messages[seq].subject):
                return seq
        return 0

    # -- deliveries ----------------------------------------------------------------------------------------------

    def delivered(self, delivery: Delivery, now_ns: int) -> None:
        """A message left the broker: was it right, and what follows."""
        seq = delivery.seq
        self._check_content(delivery)
        require(seq not in self.confirmed, "delivered although its double ack was confirmed", self.name, delivery)
        require(
            delivery.consumer_seq == self.consumer_seq + 1,
            "consumer sequences rise by one",
            self.name,
            self.consumer_seq,
            delivery,
        )
        self.consumer_seq = delivery.consumer_seq
        require(now_ns >= self.paused_until_ns, "nothing is delivered during a pause", self.name, now_ns, delivery)
        if seq in self.pending:
            self._delivered_again(delivery, now_ns)
        else:
            self._delivered_first(delivery, now_ns)
        most = self.count_pending()
        least = most - sum(self.is_to_come(leaving) for leaving in self.stream.leaving)
        require(least <= delivery.pending <= most, "the number pending is exact", self.name, least, most, delivery)
        if not self.acks:
            self.stream.consumed(seq)

    def _check_content(self, delivery: Delivery) -> None:
        stream = self.stream
        message = stream.messages.get(delivery.seq)
        require(message is not None, "delivered a message that is not in the stream", self.name, delivery)
        assert message is not None
        require(delivery.seq <= stream.visible_seq, "delivered before durable", self.name, stream.visible_seq, delivery)
        self._check_same(message, delivery)
        # A filter that was changed since the first delivery changes nothing for the next ones.
        accepts = self.accepts(message.subject) or delivery.seq in self.pending
        require(accepts, "delivered against the filter", self.name, delivery)

    def _check_same(self, message: Message, delivery: Delivery) -> None:
        header = delivery.header
        at = header.find(b"Nats-Pin-Id: ")
        if at >= 0 and self.config.priority_groups:
            end = header.index(b"\r\n", at) + 2
            header = header[:at] + header[end:]
            if header == b"NATS/1.0\r\n\r\n":
                header = b""
        if self.config.headers_only:
            size = b"Nats-Msg-Size: %d\r\n" % len(message.payload)
            require(size in header and not delivery.payload, "headers only, and the size", self.name, delivery)
            return
        same = (
            message.subject == delivery.subject
            and message.payload == delivery.payload
            and message.header == header
            and message.ts_ns == delivery.ts_ns
        )
        require(same, "delivered what was stored", self.name, message, delivery)

    def _delivered_first(self, delivery: Delivery, now_ns: int) -> None:
        seq = delivery.seq
        require(delivery.deliveries == 1, "a first delivery is counted as the first", self.name, delivery)
        expected = self.next_new()
        if seq != expected:
            expected = self.next_new(self.stream.leaving)
        require(seq == expected, "messages are delivered in order, none left out", self.name, expected, delivery)
        if self.pending_max:
            require(len(self.pending) < self.pending_max, "pending within max_ack_pending", self.name, delivery)
        self.delivered_seq = max(self.delivered_seq, seq)
        if seq in self.first_list:
            del self.first_list[: self.first_list.index(seq) + 1]
        else:
            self.first_list = []
            self.next_seq = self.base_seq = seq + 1
        if self.acks:
            self.pending[seq] = Owed(1, now_ns + self.wait_ns(1))

    def _delivered_again(self, delivery: Delivery, now_ns: int) -> None:
        owed = self.pending[delivery.seq]
        require(delivery.deliveries == owed.deliveries + 1, "delivery counts are exact", self.name, owed, delivery)
        require(now_ns >= owed.not_before_ns, "not again before its wait is over", self.name, now_ns, owed, delivery)
        if self.deliveries_max:
            require(delivery.deliveries <= self.deliveries_max, "no more than max_deliver", self.name, delivery)
        owed.deliveries = delivery.deliveries
        owed.not_before_ns = now_ns + self.wait_ns(owed.deliveries)

    # -- acknowledgements ----------------------------------------------------------------------------------------

    def acknowledged(self, seq: int, body: bytes, now_ns: int, floor_seq: int) -> None:
        """An acknowledgement arrived, of something that can have been delivered; the floor is that before it."""
        if body in (b"", b"+ACK", b"+OK") or body.startswith((b"+NXT", b"+TERM")):
            self._done(seq, floor_seq)
        elif body.startswith(b"-NAK"):
            self._refused(seq, body, now_ns)
        elif body == b"+WPI":
            owed = self.pending.get(seq)
            # What is on its way back already stays there.
            if owed is not None and owed.not_before_ns > now_ns:
                owed.not_before_ns = now_ns + self.wait_ns(owed.deliveries)

    def _done(self, seq: int, floor_seq: int) -> None:
        if self.config.ack_policy == AckPolicy.ALL:
            done = [owed for owed in self.pending if owed <= seq]
            for owed in done:
                del self.pending[owed]
            self.settled.update(done)
            for owed in done:
                self.stream.consumed(owed)
            if seq not in done and seq > floor_seq:
                self.stream.acknowledged(seq)
        elif self.pending.pop(seq, None) is not None or (seq in self.given_up and seq in self.stream.messages):
            self.given_up.discard(seq)
            self.settled.add(seq)
            self.stream.consumed(seq)
        elif seq in self.given_up:
            self.acked_late.add(seq)
        else:
            self.stream.acknowledged(seq)

    def _refused(self, seq: int, body: bytes, now_ns: int) -> None:
        owed = self.pending.get(seq)
        if owed is not None:
            delay = body[4:].strip()
            owed.not_before_ns = now_ns + int(delay.split(b":")[1].strip(b" }")) if delay else now_ns

    def accept_given_up(self, owed_by_broker: Container[int], now_ns: int) -> None:
        """A message delivered as often as allowed is given up once its last wait is over."""
        for seq in [seq for seq in self.pending if seq not in owed_by_broker]:
            owed = self.pending.pop(seq)
            if seq not in self.stream.messages or seq in self.stream.leaving:
                self.forgotten[seq] = owed
                continue
            is_due = now_ns >= owed.not_before_ns
            is_last = 0 < self.deliveries_max <= owed.deliveries
            require(is_due and is_last, "given up only after max_deliver and its wait", self.name, seq, owed, now_ns)
            self.given_up.add(seq)

    def accept_late_acks(self, is_live: Callable[[int], bool]) -> None:
        """Messages are back: one that was acknowledged when it had left is done if the broker has let it go."""
        self.given_up -= {seq for seq in self.acked_late if seq in self.stream.messages and not is_live(seq)}
        self.acked_late.clear()

    def note_due(self, now_ns: int) -> None:
        """The clock is about to be set back: what is due by now stays due, and a pause that is over stays over."""
        if self.paused_until_ns <= now_ns:
            self.paused_until_ns = 0
        for owed in self.pending.values():
            if owed.not_before_ns <= now_ns:
                owed.not_before_ns = 0

    def message_removed(self, seq: int) -> None:
        """A message left the stream: nobody owes it any more."""
        if seq in self.first_list:
            self.first_list.remove(seq)
        owed = self.pending.pop(seq, None)
        if owed is not None:
            self.forgotten[seq] = owed

    def purged_to(self, seq: int) -> None:
        """A purge counts what is below as dealt with, also what was only passed over."""
        if seq > self.base_seq:
            self.jumps.append((self.stream.collected_count, self.base_seq, seq))
            self.base_seq = seq

    def taken_back(self, *, was_purged: bool) -> None:
        """Messages that had left are back: what was owed is owed again."""
        for _, before, after in reversed(self.jumps):
            if self.base_seq != after:
                # Something was delivered since.
                break
            self.base_seq = before
        self.jumps = []
        for seq, owed in self.forgotten.items():
            if seq in self.stream.messages:
                self.pending[seq] = owed
                self.floor_seq = min(self.floor_seq, seq - 1)
        self.forgotten = {}
        # Others may have been delivered in their place.
        self.pending_before = max(self.pending_before, len(self.pending))
        if was_purged:
            self.floor_seq = 0

    def restarted_at(self, seq: int, asked_seq: int) -> None:
        """The consumer was set back by an operator, who may have asked for a sequence."""
        self.asked_seq = asked_seq
        self.pending.clear()
        self.forgotten.clear()
        self.given_up.clear()
        self.acked_late.clear()
        self.confirmed.clear()
        self.settled.clear()
        self.jumps = []
        self.first_list = []
        self.list_until_seq = 0
        if self.stream.config.retention != Retention.LIMITS:
            self.stream.skipped_below = max(self.stream.skipped_below, seq)
        self.next_seq = self.base_seq = seq
        self.resets += 1
        self.consumer_seq = 0
        self.delivered_seq = seq - 1
        self.floor_seq = seq - 1
