"""What the checks of the `api` room need to know about this account and server, gathered from where it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.api.consumer_checks import ConsumerContext
from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.limits import AccountLimits, ServerLimits
from jetspark.api.stream_checks import StreamContext

if TYPE_CHECKING:
    from jetspark.broker.account import Account
    from jetspark.broker.broker import Broker
    from jetspark.broker.jetstream import JetStream
    from jetspark.broker.stream import Stream


def server_limits(broker: Broker) -> ServerLimits:
    options = broker.options
    return ServerLimits(
        max_ack_pending=options.max_ack_pending,
        max_request_batch=options.max_request_batch,
        duplicate_window_ns=options.duplicate_window_max_ns,
        default_max_consumers=options.default_max_consumers,
        max_memory_bytes=options.max_memory,
        max_storage_bytes=options.max_storage,
    )


def account_limits(jetstream: JetStream) -> AccountLimits:
    return AccountLimits(
        max_memory=jetstream.max_memory,
        max_storage=jetstream.max_storage,
        max_streams=jetstream.max_streams,
        max_consumers=jetstream.max_consumers,
        max_ack_pending=jetstream.max_ack_pending,
        memory_max_stream_bytes=jetstream.memory_max_stream_bytes,
        storage_max_stream_bytes=jetstream.storage_max_stream_bytes,
        max_bytes_required=jetstream.max_bytes_required,
    )


def stream_context(jetstream: JetStream) -> StreamContext:
    """All streams of the account, and the limits."""
    accounts = jetstream.broker.accounts.values()
    # Those that are offline keep their subjects: they may come back.
    streams = {offline.name: offline.config for offline in jetstream.offline.streams() if offline.config is not None}
    for name, stream in jetstream.streams.items():
        streams[name] = stream.config
    return StreamContext(
        streams=streams,
        server_limits=server_limits(jetstream.broker),
        account_limits=account_limits(jetstream),
        reserved_memory_bytes=sum([account.jetstream.reserved(True) for account in accounts]),
        reserved_storage_bytes=sum([account.jetstream.reserved(False) for account in accounts]),
    )


class Listeners:
    """Answers whether anybody subscribes to a subject; a plain object, because the checks call it."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def has_interest(self, subject: str) -> bool:
        return self._account.interest.has_interest(subject.encode())


def consumer_context(jetstream: JetStream, stream: Stream) -> ConsumerContext:
    """The stream's consumers, and the limits."""
    consumers: dict[str, ConsumerConfig] = {}
    for offline in jetstream.offline.consumers(stream.name):
        if offline.consumer_config is not None:
            consumers[offline.name] = offline.consumer_config
    for name, consumer in stream.consumers.items():
        consumers[name] = consumer.config
    return ConsumerContext(
        stream=stream.config,
        consumers=consumers,
        server_limits=server_limits(jetstream.broker),
        account_limits=account_limits(jetstream),
        has_interest=Listeners(jetstream.account).has_interest,
    )
