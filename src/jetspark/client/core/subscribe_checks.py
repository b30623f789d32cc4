"""The checks of the subscribe workflow (seed 3): what makes no sense is refused before anything is made.

Pure: takes what the user asked for and what the server told, raises the error that fits. Every check has a class of
its own, so that a caller can tell them apart.
"""

from __future__ import annotations

from typing import Any, Final

from jetspark.api.consumer_config import AckPolicy, ConsumerConfig
from jetspark.client.errors import (
    ConfigMismatchError,
    DuplicateSubscriptionError,
    NotAQueueConsumerError,
    OrderedOptionError,
    PullAckPolicyError,
    PullOnPushError,
    PushOnPullError,
    QueueMismatchError,
    QueueOptionError,
    QueueRequiredError,
    SubjectMismatchError,
    SubjectRequiredError,
    SubscribeError,
)

# Chosen by the workflow itself, or allowed to change on a consumer that exists.
_NOT_COMPARED: Final = (
    "name",
    "durable_name",
    "deliver_subject",
    "deliver_group",
    "filter_subject",
    "extra",
    "metadata",
)


class Wanted:
    """What a subscribe call was asked for."""

    def __init__(self, subject: str, stream: str, consumer: str, durable: str, queue: str, is_pull: bool) -> None:
        self.subject = subject
        self.stream = stream
        # A consumer to bind to: it should exist already.
        self.consumer = consumer
        self.durable = durable
        self.queue = queue
        self.is_pull = is_pull
        self.config = ConsumerConfig()
        # The settings the user gave, by name: only these are compared with a consumer that exists.
        self.given: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """The consumer to look for; empty when one is to be made without a name."""
        return self.consumer or self.durable


def check_misuse(wanted: Wanted) -> None:
    """Refuse what cannot work whatever the server says."""
    if not wanted.subject and not wanted.stream:
        raise SubjectRequiredError("give a subject or a stream: without either no consumer can be found")
    if wanted.consumer and not (wanted.stream or wanted.subject):
        raise SubjectRequiredError("a consumer is found by its stream; give one, or a subject of it")
    if wanted.consumer and wanted.durable and wanted.consumer != wanted.durable:
        raise SubscribeError("consumer and durable name two different consumers")
    if wanted.queue and (wanted.config.idle_heartbeat or wanted.config.flow_control):
        raise QueueOptionError("heartbeats and flow control would reach random members of a queue")
    if wanted.is_pull and wanted.queue:
        raise SubscribeError("a pull subscription shares its consumer by itself and takes no queue")
    _check_given(wanted)
    if wanted.is_pull and wanted.given.get("ack_policy") in (AckPolicy.NONE, AckPolicy.ALL):
        raise PullAckPolicyError(
            "a pull subscription needs explicit acks (the ack_policy of a ConsumerConfig is none unless you say so)"
        )


def _check_given(wanted: Wanted) -> None:
    """Refuse settings that say something else than the call does: one of the two would be dropped without a word."""
    given = wanted.given
    filter_subject = given.get("filter_subject")
    if wanted.subject and filter_subject and filter_subject != wanted.subject:
        raise SubscribeError(
            f"the subject is {wanted.subject} and filter_subject is {filter_subject}: give one of them"
        )
    if given.get("deliver_group") and given["deliver_group"] != wanted.queue:
        raise SubscribeError("the queue group is given as the queue: leave deliver_group out")
    if wanted.is_pull and given.get("deliver_subject"):
        raise SubscribeError("a pull subscription is asked for its messages and has no deliver_subject")
    for name in ("name", "durable_name"):
        if given.get(name) and given[name] != wanted.name:
            raise SubscribeError(
                f"a consumer that is to last is named as durable, one that exists as consumer: not {name}"
            )


def check_ordered(wanted: Wanted) -> None:
    """Refuse what cannot go with messages in order: an ordered subscription makes its own consumers, without acks."""
    for what, value in (("queue", wanted.queue), ("durable", wanted.durable), ("consumer", wanted.consumer)):
        if value:
            raise OrderedOptionError(f"an ordered subscription makes its own consumers and takes no {what}")
    if wanted.given.get("ack_policy", AckPolicy.NONE) != AckPolicy.NONE:
        raise OrderedOptionError("an ordered subscription has no acks: leave ack_policy out")
    for name in ("name", "durable_name", "deliver_subject", "deliver_group", "max_deliver", "flow_control"):
        if name in wanted.given:
            raise OrderedOptionError(f"an ordered subscription decides about {name} itself: leave it out")


def check_existing(wanted: Wanted, config: ConsumerConfig, push_bound: bool) -> None:
    """Refuse to use a consumer for something else than it was made for."""
    if wanted.is_pull:
        if config.deliver_subject:
            raise PullOnPushError("the consumer is a push consumer; a pull subscription cannot use it")
    else:
        _check_push(wanted, config, push_bound)
    filters = config.filters
    if wanted.subject and filters and wanted.subject not in filters:
        raise SubjectMismatchError(f"the consumer filters on {', '.join(filters)}, not on {wanted.subject}")
    different = differing_fields(wanted, config)
    if different:
        raise ConfigMismatchError(different)


def _check_push(wanted: Wanted, config: ConsumerConfig, push_bound: bool) -> None:
    if not config.deliver_subject:
        raise PushOnPullError("the consumer is a pull consumer; use a pull subscription")
    group = config.deliver_group
    if not wanted.queue:
        if group:
            raise QueueRequiredError(f"the consumer was made for the queue group {group}; name it as the queue")
        if push_bound:
            raise DuplicateSubscriptionError("the consumer already has a subscriber")
        return
    if not group:
        raise NotAQueueConsumerError("the consumer was made without a queue group")
    if group != wanted.queue:
        raise QueueMismatchError(f"the consumer was made for the queue group {group}, not for {wanted.queue}")
    if config.flow_control:
        raise QueueOptionError("the consumer has flow control, which does not work with a queue")
    if config.idle_heartbeat:
        raise QueueOptionError("the consumer has heartbeats, which do not work with a queue")


def differing_fields(wanted: Wanted, config: ConsumerConfig) -> list[str]:
    """The settings the user gave that the consumer does not have."""
    different: list[str] = []
    for name, value in wanted.given.items():
        if name in _NOT_COMPARED:
            continue
        if getattr(config, name) != value:
            different.append(name)
    return sorted(different)
