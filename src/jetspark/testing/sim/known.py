"""The streams and consumers the witness knows, each with its model and how durable it is."""

from __future__ import annotations

from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.stream_config import StreamConfig
from jetspark.testing.sim.consumer_marks import ConsumerMarks
from jetspark.testing.sim.consumer_model import ConsumerModel
from jetspark.testing.sim.life import Life
from jetspark.testing.sim.model import StreamModel


class KnownStream:
    """A stream the witness knows: its model, its life, its consumers."""

    def __init__(self, model: StreamModel) -> None:
        self.model = model
        self.life = Life()
        self.consumers: dict[str, KnownConsumer] = {}
        # Deleted, but perhaps not yet durably.
        self.leaving: list[KnownConsumer] = []
        self.collected_config = model.config
        self.durable_config: StreamConfig | None = None

    def collected(self) -> None:
        """A commit begins."""
        self.life.collected()
        self.collected_config = self.model.config
        for consumer in [*self.consumers.values(), *self.leaving]:
            consumer.life.collected()
            consumer.collected_config = consumer.model.config


class KnownConsumer:
    """A consumer the witness knows."""

    def __init__(self, model: ConsumerModel, in_memory: bool) -> None:
        self.model = model
        self.life = Life()
        self.in_memory = in_memory
        self.marks = ConsumerMarks()
        self.collected_config = model.config
        self.durable_config: ConsumerConfig | None = None
