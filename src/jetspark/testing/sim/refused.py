"""What a commit that the disk refused takes back, besides messages: streams and consumers made, configurations changed.

What is told to nobody but as an error is not in force; what was durable before is.
"""

from __future__ import annotations

from jetspark.broker.broker import Broker
from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.stream import Stream
from jetspark.testing.sim.known import KnownConsumer, KnownStream
from jetspark.testing.sim.life import Stage
from jetspark.testing.sim.violation import require


def streams_gone(streams: dict[str, Stream], known: dict[str, KnownStream]) -> list[KnownStream]:
    """The streams whose making was refused; they are no longer known afterwards, but may be on the disk yet."""
    gone = [known.pop(name) for name in list(known) if name not in streams]
    for stream in gone:
        is_refused = not stream.model.in_memory and stream.life.created < Stage.DURABLE
        require(is_refused, "only a stream that was not durable is taken back", stream.model.name)
        stream.life.deleted = Stage.DECIDED
    return gone


def take_back(stream: Stream, known: KnownStream, places: dict[Consumer, int]) -> None:
    """The configuration of a stream, and its consumers, which looked for messages from these places on."""
    model = known.model
    if not model.in_memory:
        require(stream.config == known.durable_config, "a refused update is taken back", model.name)
        model.config = stream.config
    for name in list(known.consumers):
        consumer = known.consumers[name]
        own = stream.consumers.get(name)
        if own is not None:
            if not consumer.in_memory:
                take_back_consumer(own, consumer, places[own])
            continue
        is_refused = not consumer.in_memory and consumer.life.created < Stage.DURABLE
        require(is_refused, "only a consumer that was not durable is taken back", model.name, name)
        consumer.life.deleted = Stage.DECIDED
        known.leaving.append(known.consumers.pop(name))
        del model.consumers[name]
        model.interest_changed()


def take_back_consumer(own: Consumer, known: KnownConsumer, place_seq: int) -> None:
    """The configuration of a consumer."""
    model = known.model
    require(own.config == known.durable_config, "a refused change of a consumer is taken back", own.name)
    if model.config == own.config:
        return
    had = model.patterns
    model.configure(own.config)
    until = own.config.pause_until
    model.paused_until_ns = until.unix_ns if until is not None else 0
    if model.patterns != had:
        # What the other filter has passed over stays passed over.
        model.next_seq = max(model.next_seq, place_seq)
        model.stream.skipped_below = max(model.stream.skipped_below, model.next_seq)
        model.stream.interest_changed()


def is_to_be_removed(broker: Broker, folder: str) -> bool:
    """Is the removal of this folder still ahead, after one that the disk refused?"""
    waiting = broker.repairs._waiting
    return broker._gathered.concerns(folder) or any(f"{folder}/".startswith(f"{other}/") for other in waiting)
