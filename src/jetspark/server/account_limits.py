"""An account's share of JetStream, handed to the broker."""

from __future__ import annotations

from jetspark.broker.jetstream import JetStream
from jetspark.server.options import AccountJetStreamOptions


def apply_limits(jetstream: JetStream, limits: AccountJetStreamOptions) -> None:
    jetstream.max_memory = limits.max_memory_bytes
    jetstream.max_storage = limits.max_storage_bytes
    jetstream.max_streams = limits.max_streams
    jetstream.max_consumers = limits.max_consumers
    jetstream.max_ack_pending = limits.max_ack_pending
    jetstream.memory_max_stream_bytes = limits.memory_stream_bytes_max
    jetstream.storage_max_stream_bytes = limits.storage_stream_bytes_max
    jetstream.max_bytes_required = limits.is_max_bytes_required
