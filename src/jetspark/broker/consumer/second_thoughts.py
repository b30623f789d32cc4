"""What a consumer gave up because messages left its stream, kept until their leaving is durable.

When the disk refuses the commit the messages are back: then the consumer owes again what it owed, and stands again
where it stood before a purge moved it, unless it has delivered something since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.api.consumer_config import DeliverPolicy
from jetspark.broker.consumer import position
from jetspark.store.consumer_state import PendingEntry

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer


class Place:
    """Where a consumer stood before a purge."""

    def __init__(self, consumer: Consumer) -> None:
        state = consumer.state
        self.epoch: i64 = consumer.stream.store.epoch
        self.next_seq: i64 = consumer.next_seq
        self.first_list: list[int] = consumer.first_list[consumer.first_list_at :]
        self.delivered_stream_seq: i64 = state.delivered_stream_seq
        self.floor_consumer_seq: i64 = state.floor_consumer_seq
        self.floor_stream_seq: i64 = state.floor_stream_seq
        # What the purge made of the delivered sequence; another value later means that something was delivered.
        self.moved_to_seq: i64 = state.delivered_stream_seq


class Forgotten:
    """A message that was owed when it left."""

    def __init__(self, entry: PendingEntry, redelivered: int, epoch: i64) -> None:
        self.entry = entry
        self.redelivered = redelivered
        self.epoch: i64 = epoch


class SecondThoughts:
    """The way back of one consumer. A stream in memory needs none: nothing there is ever refused."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._is_needed: bool = not consumer.stream.in_memory
        self._places: list[Place] = []
        self._forgotten: dict[int, Forgotten] = {}
        # Deliveries of messages given up, and when these left.
        self._given_up: dict[int, tuple[int, int]] = {}

    def forget_given_up(self, seq: i64, deliveries: int) -> None:
        """A message that was given up has left the stream."""
        if self._is_needed:
            self._given_up[seq] = (deliveries, self._consumer.stream.store.epoch)

    def forget(self, seq: i64, entry: PendingEntry) -> None:
        """A message that is owed has left the stream."""
        if self._is_needed:
            consumer = self._consumer
            redelivered = consumer.state.redelivered.get(seq, 0)
            self._forgotten[seq] = Forgotten(entry, redelivered, consumer.stream.store.epoch)

    def before_jump(self) -> None:
        """A purge is about to move the consumer."""
        if not self._is_needed:
            return
        place = Place(self._consumer)
        if self._places:
            last = self._places[-1]
            if last.epoch == place.epoch and last.moved_to_seq == place.delivered_stream_seq:
                # Nothing was delivered since the jump before.
                return
        self._places.append(place)

    def after_jump(self) -> None:
        if self._places:
            self._places[-1].moved_to_seq = self._consumer.state.delivered_stream_seq

    def settle(self, epoch: i64) -> None:
        """What was collected in this epoch or before is durable."""
        if self._places:
            self._places = [place for place in self._places if place.epoch > epoch]
        if self._forgotten:
            for seq in [seq for seq, forgotten in self._forgotten.items() if forgotten.epoch <= epoch]:
                del self._forgotten[seq]
        if self._given_up:
            for seq in [seq for seq, given_up in self._given_up.items() if given_up[1] <= epoch]:
                del self._given_up[seq]

    def clear(self) -> None:
        self._places = []
        self._forgotten = {}
        self._given_up = {}

    # -- the way back ----------------------------------------------------------------------------------------------

    def take_back(self) -> None:
        """The messages that had left are back in the stream, and those not durable yet are gone from it."""
        consumer = self._consumer
        place = self._place_to_return_to()
        if place is not None:
            self._return_to(place)
        self._owe_again()
        list_until_seq = consumer.list_until_seq
        self._stay_within()
        if consumer.list_until_seq != list_until_seq:
            consumer.account.jetstream.save_consumer(consumer, consumer.config)
        self.clear()
        consumer.log.snapshot(consumer.state)
        consumer.mark_dirty()
        consumer.recount()

    def _place_to_return_to(self) -> Place | None:
        """Where it stood before the jumps since its last new delivery."""
        found: Place | None = None
        at = self._consumer.state.delivered_stream_seq
        for place in reversed(self._places):
            if place.moved_to_seq != at:
                break
            found = place
            at = place.delivered_stream_seq
        return found

    def _return_to(self, place: Place) -> None:
        consumer = self._consumer
        state = consumer.state
        consumer.next_seq = place.next_seq
        consumer.first_list = place.first_list
        consumer.first_list_at = 0
        state.delivered_stream_seq = place.delivered_stream_seq
        state.floor_consumer_seq = place.floor_consumer_seq
        state.floor_stream_seq = place.floor_stream_seq

    def _owe_again(self) -> None:
        consumer = self._consumer
        state = consumer.state
        store = consumer.stream.store
        for seq, given_up in self._given_up.items():
            if store.is_live(seq):
                state.redelivered[seq] = given_up[0]
        owed = [seq for seq in self._forgotten if store.is_live(seq) and seq not in state.pending]
        if not owed:
            return
        for seq in owed:
            forgotten = self._forgotten[seq]
            state.pending[seq] = forgotten.entry
            if forgotten.redelivered > 0:
                state.redelivered[seq] = forgotten.redelivered
            if state.floor_stream_seq >= seq:
                state.floor_stream_seq = seq - 1
                state.floor_consumer_seq = min(state.floor_consumer_seq, forgotten.entry.consumer_seq - 1)
        consumer.look_at_acks()

    def _stay_within(self) -> None:
        """A place found from messages that are gone again lies ahead of the stream; what comes next is for all."""
        consumer = self._consumer
        state = consumer.state
        last_seq: i64 = consumer.stream.store.last_seq
        if state.delivered_consumer_seq == 0 and self._began_beyond(last_seq):
            position.place(consumer)
            return
        limit = position.furthest_place(consumer)
        if state.delivered_stream_seq > limit:
            state.delivered_stream_seq = limit
        if state.floor_stream_seq > limit:
            state.floor_stream_seq = limit
        if (
            consumer.config.deliver_policy == DeliverPolicy.LAST_PER_SUBJECT
            and state.delivered_stream_seq < consumer.list_until_seq
        ):
            consumer.list_until_seq = min(consumer.list_until_seq, last_seq)
            position.list_last_per_subject(consumer, state.delivered_stream_seq, consumer.list_until_seq)
            consumer.next_seq = consumer.list_until_seq + 1
        else:
            # Nothing was found between the two; by now there may be something.
            consumer.next_seq = state.delivered_stream_seq + 1

    def _began_beyond(self, last_seq: i64) -> bool:
        """Was its beginning found among messages that are gone?"""
        consumer = self._consumer
        policy = consumer.config.deliver_policy
        if policy == DeliverPolicy.LAST_PER_SUBJECT:
            return consumer.list_until_seq > last_seq
        return consumer.is_new and policy == DeliverPolicy.LAST and consumer.next_seq > last_seq
