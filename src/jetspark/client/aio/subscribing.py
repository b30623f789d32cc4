"""The subscribe workflow: from a subject to a consumer and a subscription on it (seed 3).

Look up, check, subscribe, then create: in that order, because a durable's subscriber is how the server knows that it
is in use. What is made here is removed when the subscription ends; what was found is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jetspark.api.consumer_config import AckPolicy, ConsumerConfig
from jetspark.client.api_errors import ConsumerExistsError, ConsumerNotFoundError
from jetspark.client.configs import consumer_config
from jetspark.client.core.frames import pattern_bytes, queue_bytes
from jetspark.client.core.routes import Inbox
from jetspark.client.core.subscribe_checks import Wanted, check_existing, check_misuse, check_ordered
from jetspark.client.infos import ConsumerInfo

if TYPE_CHECKING:
    from jetspark.client.aio.jetstream import JetStream
    from jetspark.client.aio.msg import Msg
    from jetspark.client.aio.pull_subscription import PullSubscription
    from jetspark.client.aio.push_subscription import PushSubscription


def _wanted(
    subject: str,
    stream: str,
    consumer: str,
    durable: str,
    queue: str,
    is_pull: bool,
    config: ConsumerConfig | None,
    settings: dict[str, Any],
) -> Wanted:
    """What was asked for, with the settings that were really given."""
    if queue and not consumer and not durable:
        # Without a name every member would get a consumer, and every message, of its own.
        durable = queue
    wanted = Wanted(subject, stream, consumer, durable, queue, is_pull)
    made = consumer_config(config, "", settings)
    names = set(settings)
    if config is not None:
        plain = ConsumerConfig()
        names |= {name for name in ConsumerConfig.__dataclass_fields__ if getattr(config, name) != getattr(plain, name)}
        # A dataclass says what it says, as everywhere: none is a policy that somebody may mean.
        names.add("ack_policy")
    wanted.given = {name: getattr(made, name) for name in names}
    wanted.config = made
    return wanted


async def _look_up(jetstream: JetStream, wanted: Wanted) -> ConsumerInfo | None:
    """The consumer asked for by name; None when it has to be made, or (pull) may be somebody else's to make."""
    if not wanted.name:
        return None
    try:
        info = (await jetstream.consumer(wanted.stream, wanted.name)).cached_info
    except ConsumerNotFoundError:
        if wanted.consumer and not wanted.is_pull:
            raise
        return None
    check_existing(wanted, info.config, info.push_bound)
    return info


def _config_to_create(wanted: Wanted, deliver_subject: str) -> ConsumerConfig:
    """Fill in what the workflow decides."""
    config = replace(
        wanted.config, durable_name=wanted.durable, deliver_subject=deliver_subject, deliver_group=wanted.queue
    )
    if wanted.subject and not config.filter_subjects:
        config = replace(config, filter_subject=wanted.subject)
    if "ack_policy" not in wanted.given:
        config = replace(config, ack_policy=AckPolicy.EXPLICIT)
    return config


async def pull_subscribe(
    jetstream: JetStream,
    subject: str,
    stream: str,
    consumer: str,
    durable: str,
    config: ConsumerConfig | None,
    delete_on_close: bool | None,
    settings: dict[str, Any],
) -> PullSubscription:
    """See `JetStream.pull_subscribe`."""
    from jetspark.client.aio.pull_subscription import PullSubscription

    wanted = _wanted(subject, stream, consumer, durable, "", True, config, settings)
    check_misuse(wanted)
    if not wanted.stream:
        wanted.stream = await jetstream.stream_name_by_subject(subject)
    info = await _look_up(jetstream, wanted)
    created = False
    handle = jetstream.stream_handle(wanted.stream)
    if info is None and wanted.consumer:
        made = handle.consumer_handle(wanted.consumer)
    elif info is None:
        try:
            made = await handle.create_consumer(_config_to_create(wanted, ""))
            created = True
        except ConsumerExistsError:
            # Somebody made it between the look-up and now.
            made = await handle.consumer(wanted.name)
            check_existing(wanted, made.cached_info.config, False)
    else:
        made = await handle.consumer(info.name)
    return PullSubscription(made, created if delete_on_close is None else delete_on_close)


async def subscribe(
    jetstream: JetStream,
    subject: str,
    stream: str,
    consumer: str,
    durable: str,
    queue: str,
    callback: Callable[[Msg], Any] | None,
    config: ConsumerConfig | None,
    heartbeat_alarm: float,
    delete_on_close: bool | None,
    ordered: bool,
    settings: dict[str, Any],
) -> PushSubscription:
    """See `JetStream.subscribe`."""
    from jetspark.client.aio.push_subscription import PushSubscription

    wanted = _wanted(subject, stream, consumer, durable, queue, False, config, settings)
    if ordered:
        return await subscribe_ordered(jetstream, wanted, callback, heartbeat_alarm)
    check_misuse(wanted)
    if not wanted.stream:
        wanted.stream = await jetstream.stream_name_by_subject(subject)
    info = await _look_up(jetstream, wanted)
    link = jetstream._link
    deliver_subject = info.config.deliver_subject if info is not None else wanted.config.deliver_subject
    with link.guard:
        target = pattern_bytes(deliver_subject) if deliver_subject else link.core.new_inbox_subject()
        inbox = link.core.add_inbox(target, queue_bytes(queue), link)
        epoch = link.core.epoch
    created = False
    try:
        if info is None:
            info, created, inbox = await _create_push(jetstream, wanted, inbox)
    except BaseException:
        with link.guard:
            link.core.remove_route(inbox)
        raise
    inbox.ack_none = info.config.ack_policy == AckPolicy.NONE
    inbox.ack_wait_s = info.soonest_redelivery_s
    # A queue's other members may have joined what the first one made, so it stays unless asked otherwise.
    deletes = (created and not queue) if delete_on_close is None else delete_on_close
    # What has a name or a group is known to others, who may have removed it on purpose.
    is_own = created and not queue and not wanted.durable
    remade = _config_to_create(wanted, inbox.subject.decode()) if is_own else None
    return PushSubscription(jetstream, wanted, info, inbox, callback, heartbeat_alarm, deletes, epoch, remade)


async def subscribe_ordered(
    jetstream: JetStream, wanted: Wanted, callback: Callable[[Msg], Any] | None, heartbeat_alarm: float
) -> PushSubscription:
    """The same with consumers that are made again whenever order is in doubt."""
    from jetspark.client.aio.ordered_subscription import OrderedSubscription

    check_ordered(wanted)
    check_misuse(wanted)
    if not wanted.stream:
        wanted.stream = await jetstream.stream_name_by_subject(wanted.subject)
    made = OrderedSubscription(jetstream, wanted, callback, heartbeat_alarm)
    await made.begin()
    return made


async def _create_push(jetstream: JetStream, wanted: Wanted, inbox: Inbox) -> tuple[ConsumerInfo, bool, Inbox]:
    """Make the consumer, or join the one that somebody made meanwhile."""
    handle = jetstream.stream_handle(wanted.stream)
    try:
        made = await handle.create_consumer(_config_to_create(wanted, inbox.subject.decode()))
        return made.cached_info, True, inbox
    except ConsumerExistsError:
        if not wanted.name:
            raise
    info = (await handle.consumer(wanted.name)).cached_info
    check_existing(wanted, info.config, info.push_bound)
    if not wanted.queue:
        raise ConsumerExistsError(400, 10148, f"consumer {wanted.name} was made by somebody else just now")
    link = jetstream._link
    with link.guard:
        link.core.remove_route(inbox)
        moved = link.core.add_inbox(pattern_bytes(info.config.deliver_subject), queue_bytes(wanted.queue), link)
    return info, False, moved
