"""Names of options that people bring along from other connectors, and what they are called here.

Only names that mean the same are here, so that the error for an unknown option can say which one was meant.
"""

from __future__ import annotations

from collections.abc import Collection

# In the order in which they are offered: of several names, the first one that the side at hand has. In lower case,
# without the prefix `nats.`.
_NAMES: dict[str, tuple[str, ...]] = {
    # Kafka's source and sink.
    "kafka.bootstrap.servers": ("servers",),
    "bootstrap.servers": ("servers",),
    "subscribe": ("stream",),
    "subscribepattern": ("subjects",),
    "assign": ("stream",),
    "topic": ("subject", "stream"),
    "startingoffsetsbytimestamp": ("startingTimestamp",),
    "endingoffsetsbytimestamp": ("endingTimestamp",),
    "kafka.group.id": ("durable",),
    "group.id": ("durable",),
    "groupidprefix": ("durable",),
    "kafkaconsumer.polltimeoutms": ("pollTimeoutMs",),
    "kafka.security.protocol": ("tls",),
    "kafka.sasl.jaas.config": ("credentialsFile",),
    # The Scala connector for NATS.
    "host": ("servers",),
    "port": ("servers",),
    "pull.subscription.stream.name": ("stream",),
    "pull.subscription.durable.name": ("durable",),
    "stream.name": ("stream",),
    "stream.subjects": ("subjects",),
    "pull.batch.size": ("maxOffsetsPerTrigger",),
    "pull.wait.time": ("pollTimeoutMs",),
}


def called_here(spelled: str, names: Collection[str]) -> str:
    """The name here of an option of another connector; empty when there is none among `names`."""
    wanted = _NAMES.get(spelled, ())
    return next((name for name in wanted if name in names), "")
