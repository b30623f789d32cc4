"""Mistakes of this server's own: what raised where nothing should, and whom that concerned.

Many connections, streams and timers are looked after in one loop. What raises for one of them is noted here and ends
that one; the others are looked after all the same. A connection is closed, a stream or consumer goes offline. The edge
writes the notes to the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jetspark.broker.broker import Broker
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.broker.stream import Stream

# What a client is told about a stream or consumer for which something raised.
OFFLINE_REASON: Final = "an internal error, see the server's log; a restart brings it back"


class Failure:
    """One of them: who or what it concerned, and what was raised."""

    def __init__(self, concerned: str, error: Exception) -> None:
        self.concerned = concerned
        self.error = error


class Casualties:
    """Streams and consumers that failed in this turn. They leave at its end: until then loops may run over them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._streams: list[Stream] = []
        self._consumers: list[Consumer] = []

    def add_stream(self, stream: Stream, error: Exception) -> None:
        self._broker.failed(f"Stream '{stream.account.name} > {stream.name}' is offline", error)
        self._streams.append(stream)

    def add_consumer(self, consumer: Consumer, error: Exception) -> None:
        where = f"{consumer.account.name} > {consumer.stream.name} > {consumer.name}"
        self._broker.failed(f"Consumer '{where}' is offline", error)
        self._consumers.append(consumer)

    def withdraw(self) -> None:
        """Take them out of their accounts."""
        while self._consumers:
            consumer = self._consumers.pop()
            try:
                consumer.account.jetstream.set_consumer_offline(consumer, OFFLINE_REASON)
            except Exception as error:  # noqa: BLE001 - the others must leave, too
                self._broker.failed(f"Consumer {consumer.name} is not wholly offline", error)
        while self._streams:
            stream = self._streams.pop()
            try:
                stream.account.jetstream.set_stream_offline(stream, OFFLINE_REASON)
            except Exception as error:  # noqa: BLE001 - the others must leave, too
                self._broker.failed(f"Stream {stream.name} is not wholly offline", error)
