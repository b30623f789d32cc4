"""Telling who listens: the advisories and metrics of one consumer.

Nothing is built when nobody listens. The documents are the `api` room's; ids and times are added here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.api import advisories
from jetspark.api.responses import encode_json
from jetspark.store.consumer_state import PendingEntry

if TYPE_CHECKING:
    from jetspark.broker.account import Account
    from jetspark.broker.consumer.consumer import Consumer


def stamp(account: Account) -> advisories.Stamp:
    broker = account.broker
    return advisories.Stamp(broker.nuid.next(), broker.now_ns, broker.options.domain)


def announce(account: Account, event: advisories.Event) -> None:
    """Publish an advisory as a message of the account at the end of this turn, after what it is about."""
    subject, document = event
    account.broker.announce_soon(account, subject.encode(), encode_json(document))


def is_heard(account: Account, subject: str) -> bool:
    """Would anybody get a message on this subject?"""
    interest = account.interest
    if interest.dollar_count == 0 and not account.jetstream.captures_dollar:
        return False
    route = interest.route(subject.encode())
    return route.has_subscribers or route.stream is not None


class Announcer:
    """What a consumer has to say about itself."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def _is_heard(self, kind: str) -> bool:
        consumer = self._consumer
        return is_heard(consumer.account, f"$JS.EVENT.ADVISORY.CONSUMER.{kind}.{consumer.stream.name}.{consumer.name}")

    def sample(self, entry: PendingEntry, stream_seq: i64, consumer_seq: i64, deliveries: i64) -> None:
        """The ack metric, for the configured share of acknowledgements."""
        consumer = self._consumer
        percent = consumer.sample_percent
        if percent < 100 and consumer.broker.random_index(100) >= percent:
            return
        consumer.broker.observer.acknowledged(consumer, consumer.broker.now_ns - entry.delivered_ts_ns, deliveries)
        if not is_heard(consumer.account, f"$JS.EVENT.METRIC.CONSUMER.ACK.{consumer.stream.name}.{consumer.name}"):
            return
        event = advisories.consumer_ack(
            stamp(consumer.account),
            stream=consumer.stream.name,
            consumer=consumer.name,
            consumer_seq=consumer_seq,
            stream_seq=stream_seq,
            ack_time_ns=consumer.broker.now_ns - entry.delivered_ts_ns,
            deliveries=deliveries,
        )
        announce(consumer.account, event)

    def max_deliveries(self, stream_seq: i64, deliveries: i64) -> None:
        consumer = self._consumer
        consumer.broker.observer.exhausted(consumer)
        if self._is_heard("MAX_DELIVERIES"):
            event = advisories.max_deliver(
                stamp(consumer.account),
                stream=consumer.stream.name,
                consumer=consumer.name,
                stream_seq=stream_seq,
                deliveries=deliveries,
            )
            announce(consumer.account, event)

    def nak(self, stream_seq: i64, consumer_seq: i64, deliveries: i64) -> None:
        consumer = self._consumer
        consumer.broker.observer.refused(consumer)
        if self._is_heard("MSG_NAKED"):
            event = advisories.nak(
                stamp(consumer.account),
                stream=consumer.stream.name,
                consumer=consumer.name,
                consumer_seq=consumer_seq,
                stream_seq=stream_seq,
                deliveries=deliveries,
            )
            announce(consumer.account, event)

    def terminated(self, entry: PendingEntry, stream_seq: i64, deliveries: i64, reason: str) -> None:
        self.terminated_by_client(stream_seq, entry.consumer_seq, deliveries, reason)

    def terminated_by_client(self, stream_seq: i64, consumer_seq: i64, deliveries: i64, reason: str) -> None:
        consumer = self._consumer
        consumer.broker.observer.terminated(consumer)
        if self._is_heard("MSG_TERMINATED"):
            event = advisories.terminated(
                stamp(consumer.account),
                stream=consumer.stream.name,
                consumer=consumer.name,
                consumer_seq=consumer_seq,
                stream_seq=stream_seq,
                deliveries=deliveries,
                reason=reason,
            )
            announce(consumer.account, event)

    def paused(self, is_paused: bool, until_ns: int) -> None:
        consumer = self._consumer
        if self._is_heard("PAUSE"):
            event = advisories.consumer_pause(
                stamp(consumer.account),
                stream=consumer.stream.name,
                consumer=consumer.name,
                paused=is_paused,
                pause_until_ns=until_ns,
            )
            announce(consumer.account, event)

    def pinned(self, group: str, pin_id: str) -> None:
        consumer = self._consumer
        if self._is_heard("PINNED"):
            event = advisories.group_pinned(
                stamp(consumer.account),
                account=consumer.account.name,
                stream=consumer.stream.name,
                consumer=consumer.name,
                group=group,
                pinned_id=pin_id,
            )
            announce(consumer.account, event)

    def unpinned(self, group: str, reason: str) -> None:
        consumer = self._consumer
        if self._is_heard("UNPINNED"):
            event = advisories.group_unpinned(
                stamp(consumer.account),
                account=consumer.account.name,
                stream=consumer.stream.name,
                consumer=consumer.name,
                group=group,
                reason=reason,
            )
            announce(consumer.account, event)

    def action(self, action: str) -> None:
        consumer = self._consumer
        kind = "CREATED" if action == "create" else "DELETED"
        if self._is_heard(kind):
            event = advisories.consumer_action(
                stamp(consumer.account), stream=consumer.stream.name, consumer=consumer.name, action=action
            )
            announce(consumer.account, event)
