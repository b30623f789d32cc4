"""Whether a consumer may be created or changed as asked, and what the server fills in.

Decided here: every rule on a consumer's configuration in nats-server's order (the first broken rule is the answer),
the defaults, and which changes an existing consumer accepts.
Not known here: how streams and consumers are kept; they come in as a `ConsumerContext`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from jetspark.api.asset_metadata import same_config, with_stored_metadata
from jetspark.api.asset_names import (
    DESCRIPTION_LENGTH_MAX,
    METADATA_BYTES_MAX,
    NAME_LENGTH_MAX,
    byte_length,
    has_path_separator,
    is_valid_asset_name,
    metadata_bytes,
)
from jetspark.api.consumer_config import (
    AckPolicy,
    ConsumerAction,
    ConsumerConfig,
    ConsumerCreateRequest,
    DeliverPolicy,
    PriorityPolicy,
)
from jetspark.api.consumer_defaults import (
    DEFAULT_INACTIVE_THRESHOLD_NS,
    FLOW_CONTROL_ACK_HEARTBEAT_NS,
    with_defaults,
)
from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.limits import AccountLimits, ServerLimits, consumers_allowed
from jetspark.api.numbers import bounded_integer
from jetspark.api.priority_group import is_valid_group_name
from jetspark.api.stream_config import Retention, Storage, StreamConfig
from jetspark.api.timestamps import MILLISECOND, WireTime, format_duration
from jetspark.protocol.subjects import collides, has_wildcard, is_subset, is_valid_subject

_SHORTEST_HEARTBEAT_NS: Final = 100 * MILLISECOND


def _nobody_listens(_subject: str) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class ConsumerContext:
    """What a consumer is checked against: its stream, the stream's other consumers, the limits."""

    stream: StreamConfig
    consumers: Mapping[str, ConsumerConfig] = field(default_factory=dict)
    """The stream's consumers by name, including the one being checked if it exists."""
    server_limits: ServerLimits = ServerLimits()
    account_limits: AccountLimits = AccountLimits()
    has_interest: Callable[[str], bool] = _nobody_listens
    """Whether someone subscribes to a subject: a push consumer in use can not be redirected."""


def name_consumer(
    request: ConsumerCreateRequest,
    *,
    stream: str,
    consumer: str = "",
    filter_subject: str = "",
    legacy_durable: bool = False,
) -> ConsumerCreateRequest:
    """The request with the names its subject gives it, or the error when the two disagree.

    `stream`, `consumer` and `filter_subject` are the tokens of the subject; `legacy_durable` is the DURABLE.CREATE
    form; no consumer token is the legacy ephemeral form. These checks come before the stream is looked up.
    """
    config = request.config
    if request.stream_name != stream:
        raise make(ErrorCode.STREAM_MISMATCH)
    if has_path_separator(consumer or config.name):
        raise make(ErrorCode.CONSUMER_NAME_CONTAINS_PATH_SEPARATORS)
    if legacy_durable and not config.durable_name:
        raise make(ErrorCode.CONSUMER_DURABLE_NAME_NOT_SET)
    if consumer:
        if config.durable_name and config.durable_name != consumer:
            raise make(ErrorCode.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT)
        config = replace(config, name=consumer)
    elif config.durable_name:
        raise make(ErrorCode.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME)
    if filter_subject and config.filter_subjects:
        raise make(ErrorCode.CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED)
    if filter_subject not in ("", config.filter_subject):
        raise make(ErrorCode.CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH)
    if config.num_replicas > 1:
        raise make(ErrorCode.STREAM_REPLICAS_NOT_SUPPORTED)
    return replace(request, config=config)


def check_consumer(request: ConsumerCreateRequest, context: ConsumerContext) -> ConsumerConfig:
    """The consumer's configuration to store, whether it is to be created or updated, or the error.

    The caller tells the two apart by whether the name is in `context.consumers`. An empty `name` in the result means
    that the caller makes one up.
    """
    config = request.config
    existing = context.consumers.get(config.durable_name or config.name)
    if existing is not None:
        # A pause is changed by its own request only.
        config = replace(config, pause_until=existing.pause_until)
    config = with_stored_metadata(config)
    config = with_defaults(
        config, context.stream, context.server_limits, context.account_limits, pedantic=request.pedantic
    )
    check_consumer_config(config, context)
    if existing is not None:
        if request.action == ConsumerAction.CREATE and not same_config(existing, config):
            raise make(ErrorCode.CONSUMER_ALREADY_EXISTS)
        if context.stream.retention == Retention.WORKQUEUE and not _is_unique_on_work_queue(config, context):
            raise make(ErrorCode.CONSUMER_WORK_QUEUE_CONSUMER_NOT_UNIQUE)
        _check_changes(existing, config, context.has_interest)
        if config.inactive_threshold != existing.inactive_threshold:
            config = _with_threshold(config, is_durable=existing.is_durable)
        return _with_pause_in_utc(config)
    if request.action == ConsumerAction.UPDATE:
        raise make(ErrorCode.CONSUMER_DOES_NOT_EXIST)
    _check_room(config, context)
    _check_name_length(config, context.stream)
    return _with_threshold(config, is_durable=config.is_durable)


def _check_name_length(config: ConsumerConfig, stream: StreamConfig) -> None:
    if byte_length(config.durable_name) > NAME_LENGTH_MAX:
        raise make(ErrorCode.CONSUMER_NAME_TOO_LONG, max=NAME_LENGTH_MAX)
    in_memory = config.mem_storage or config.direct or stream.storage == Storage.MEMORY
    if not in_memory and byte_length(config.name) > NAME_LENGTH_MAX:
        # Nobody checks the name of an ephemeral consumer, but no file system takes it.
        raise make(ErrorCode.CONSUMER_CREATE, err="error creating store for consumer")


def _with_threshold(config: ConsumerConfig, *, is_durable: bool) -> ConsumerConfig:
    """An ephemeral consumer always has a threshold. Filled in last: a comparison with an existing one is without it."""
    if is_durable or config.inactive_threshold > 0:
        return config
    return replace(config, inactive_threshold=DEFAULT_INACTIVE_THRESHOLD_NS)


def _with_pause_in_utc(config: ConsumerConfig) -> ConsumerConfig:
    if config.pause_until is None:
        return config
    return replace(config, pause_until=WireTime(config.pause_until.unix_ns))


def check_consumer_config(config: ConsumerConfig, context: ConsumerContext) -> None:
    """The rules that hold for creates and updates alike, on a configuration with its defaults filled in."""
    stream = context.stream
    _check_names_and_replicas(config, stream)
    _check_acks(config)
    if config.ack_policy == AckPolicy.FLOW_CONTROL:
        _check_flow_control_acks(config)
    if config.backoff and config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        raise make(ErrorCode.CONSUMER_MAX_DELIVER_BACKOFF)
    if byte_length(config.description) > DESCRIPTION_LENGTH_MAX:
        raise make(ErrorCode.CONSUMER_DESCRIPTION_TOO_LONG, max=DESCRIPTION_LENGTH_MAX)
    if config.is_push:
        _check_push(config, stream)
    else:
        _check_pull(config, stream, context.server_limits)
    _check_limits(config, context)
    _check_direct(config)
    _check_filters(config)
    _check_start(config)
    _check_sampling(config)
    if config.flow_control and config.idle_heartbeat == 0:
        raise make(ErrorCode.CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS)
    if config.durable_name and config.name and config.name != config.durable_name:
        raise make(ErrorCode.CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH)
    if metadata_bytes(config.metadata) > METADATA_BYTES_MAX:
        raise make(ErrorCode.CONSUMER_METADATA_LENGTH, limit=f"{METADATA_BYTES_MAX // 1024}KB")
    _check_priority(config)


def _invalid(reason: str) -> ApiError:
    return make(ErrorCode.STREAM_INVALID_CONFIG, err=reason)


def _check_names_and_replicas(config: ConsumerConfig, stream: StreamConfig) -> None:
    if config.name and not is_valid_asset_name(config.name):
        raise _invalid("consumer name can not contain '.', '*', '>', '\\', '/'")
    if config.durable_name and not is_valid_asset_name(config.durable_name):
        raise _invalid("consumer durable name can not contain '.', '*', '>', '\\', '/'")
    if config.num_replicas > stream.num_replicas:
        raise make(ErrorCode.CONSUMER_REPLICAS_EXCEEDS_STREAM)
    if config.num_replicas < 0:
        raise make(ErrorCode.REPLICAS_COUNT_CANNOT_BE_NEGATIVE)
    if stream.retention != Retention.LIMITS and config.num_replicas not in (0, stream.num_replicas):
        raise make(ErrorCode.CONSUMER_REPLICAS_SHOULD_MATCH_STREAM)


def _check_acks(config: ConsumerConfig) -> None:
    if any(wait < 0 for wait in config.backoff):
        raise make(ErrorCode.CONSUMER_BACK_OFF_NEGATIVE)
    if config.ack_wait < 0:
        raise make(ErrorCode.CONSUMER_ACK_WAIT_NEGATIVE)


def _check_flow_control_acks(config: ConsumerConfig) -> None:
    if not config.is_push:
        raise make(ErrorCode.CONSUMER_ACK_FLOW_CONTROL_REQUIRES_PUSH)
    if not config.flow_control:
        raise make(ErrorCode.CONSUMER_ACK_FLOW_CONTROL_REQUIRES_FLOW_CONTROL)
    if config.idle_heartbeat != FLOW_CONTROL_ACK_HEARTBEAT_NS:
        raise _invalid("flow control ack policy heartbeat needs to be 1s")
    if config.max_ack_pending <= 0:
        raise make(ErrorCode.CONSUMER_ACK_FLOW_CONTROL_REQUIRES_MAX_ACK_PENDING)
    if config.ack_wait != 0 or config.backoff:
        raise make(ErrorCode.CONSUMER_ACK_FLOW_CONTROL_REQUIRES_NO_ACK_WAIT)
    if config.max_deliver > 0:
        raise make(ErrorCode.CONSUMER_ACK_FLOW_CONTROL_REQUIRES_NO_MAX_DELIVER)


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> None:
    subject = config.deliver_subject.encode()
    if has_wildcard(subject):
        raise make(ErrorCode.CONSUMER_DELIVER_TO_WILDCARDS)
    if not is_valid_subject(subject):
        raise make(ErrorCode.CONSUMER_INVALID_DELIVER_SUBJECT)
    if any(is_subset(subject, captured.encode()) for captured in stream.subjects):
        raise make(ErrorCode.CONSUMER_DELIVER_CYCLE)
    if config.max_waiting != 0:
        raise make(ErrorCode.CONSUMER_PUSH_MAX_WAITING)
    if config.max_ack_pending > 0 and config.ack_policy == AckPolicy.NONE:
        raise make(ErrorCode.CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED)
    if 0 < config.idle_heartbeat < _SHORTEST_HEARTBEAT_NS:
        raise make(ErrorCode.CONSUMER_SMALL_HEARTBEAT)


def _check_pull(config: ConsumerConfig, stream: StreamConfig, limits: ServerLimits) -> None:
    if config.ack_policy == AckPolicy.NONE and stream.retention == Retention.WORKQUEUE:
        raise make(ErrorCode.CONSUMER_PULL_REQUIRES_ACK)
    if config.rate_limit_bps > 0:
        raise make(ErrorCode.CONSUMER_PULL_WITH_RATE_LIMIT)
    if config.idle_heartbeat > 0:
        raise make(ErrorCode.CONSUMER_HEARTBEAT_REQUIRES_PUSH)
    if config.flow_control:
        raise make(ErrorCode.CONSUMER_FLOW_CONTROL_REQUIRES_PUSH)
    if 0 < config.max_expires < MILLISECOND:
        raise make(ErrorCode.CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL)
    if 0 < limits.max_request_batch < config.max_batch:
        raise make(ErrorCode.CONSUMER_MAX_REQUEST_BATCH_EXCEEDED, limit=limits.max_request_batch)


def _check_limits(config: ConsumerConfig, context: ConsumerContext) -> None:
    stream_limits = context.stream.consumer_limits
    for limit in (
        context.server_limits.max_ack_pending,
        context.account_limits.max_ack_pending,
        stream_limits.max_ack_pending,
    ):
        if 0 < limit < config.max_ack_pending:
            raise make(ErrorCode.CONSUMER_MAX_PENDING_ACK_EXCESS, limit=limit)
    threshold = stream_limits.inactive_threshold
    if 0 < threshold < config.inactive_threshold:
        raise make(ErrorCode.CONSUMER_INACTIVE_THRESHOLD_EXCESS, limit=format_duration(threshold))


def _check_direct(config: ConsumerConfig) -> None:
    if not config.direct:
        return
    if not config.is_push:
        raise make(ErrorCode.CONSUMER_DIRECT_REQUIRES_PUSH)
    if config.is_durable:
        raise make(ErrorCode.CONSUMER_DIRECT_REQUIRES_EPHEMERAL)


def _check_filters(config: ConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise make(ErrorCode.CONSUMER_DUPLICATE_FILTER_SUBJECTS)
    if config.filter_subject and not is_valid_subject(config.filter_subject.encode()):
        raise _invalid("invalid subject")
    if "" in config.filter_subjects:
        raise make(ErrorCode.CONSUMER_EMPTY_FILTER)
    for position, subject in enumerate(config.filters):
        if not is_valid_subject(subject.encode()):
            raise _invalid("invalid subject")
        for other_position, other in enumerate(config.filters):
            if position != other_position and is_subset(subject.encode(), other.encode()):
                raise make(ErrorCode.CONSUMER_OVERLAPPING_SUBJECT_FILTERS)


_POLICY_WORDS: Final = {
    DeliverPolicy.ALL: "all",
    DeliverPolicy.LAST: "last",
    DeliverPolicy.LAST_PER_SUBJECT: "last per subject",
    DeliverPolicy.NEW: "new",
    DeliverPolicy.BY_START_SEQUENCE: "by start sequence",
    DeliverPolicy.BY_START_TIME: "by start time",
}


def _check_start(config: ConsumerConfig) -> None:
    """A start sequence or time belongs to its own policy, and to no other."""
    policy = config.deliver_policy
    has_sequence = config.opt_start_seq > 0
    has_time = config.opt_start_time is not None
    if policy == DeliverPolicy.BY_START_SEQUENCE:
        if not has_sequence:
            raise _bad_start(policy, "start sequence is not set")
        if has_time:
            raise _bad_start(policy, "start time is also set")
    elif policy == DeliverPolicy.BY_START_TIME:
        if not has_time:
            raise _bad_start(policy, "start time is not set")
        if has_sequence:
            # The doubled word is the server's.
            raise _bad_start(policy, "start start sequence is also set")
    elif has_sequence:
        raise _bad_start(policy, "start sequence is also set")
    elif has_time:
        raise _bad_start(policy, "start time is also set")
    elif policy == DeliverPolicy.LAST_PER_SUBJECT and not config.filters:
        raise _bad_start(policy, "filter subject is not set")


def _bad_start(policy: DeliverPolicy, what: str) -> ApiError:
    return make(
        ErrorCode.CONSUMER_INVALID_POLICY,
        err=f"consumer delivery policy is deliver {_POLICY_WORDS[policy]}, but optional {what}",
    )


def sampling_percent(sample_freq: str) -> int:
    """The share of acks to report, from text such as `30` or `30%`; `ValueError` has the parser's words."""
    text = sample_freq.removesuffix("%")
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    percent = bounded_integer(text)
    if not -(1 << 63) <= percent < 1 << 63:
        raise ValueError(f'strconv.Atoi: parsing "{text}": value out of range')
    return percent


def _check_sampling(config: ConsumerConfig) -> None:
    if not config.sample_freq:
        return
    try:
        percent = sampling_percent(config.sample_freq)
    except ValueError as error:
        raise make(ErrorCode.CONSUMER_INVALID_SAMPLING, err=error) from None
    if percent < 0:
        # The server formats the parser's error, of which there is none here.
        raise make(ErrorCode.CONSUMER_INVALID_SAMPLING, err="<nil>")


def _check_priority(config: ConsumerConfig) -> None:
    if config.priority_policy == PriorityPolicy.NONE:
        if config.priority_groups:
            raise make(ErrorCode.CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE)
        if config.priority_timeout > 0:
            raise make(ErrorCode.CONSUMER_PRIORITY_TIMEOUT_WITHOUT_PRIORITY_POLICY_NONE)
        return
    if config.is_push:
        raise make(ErrorCode.CONSUMER_PUSH_WITH_PRIORITY_GROUP)
    if not config.priority_groups:
        raise make(ErrorCode.CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP)
    for group in config.priority_groups:
        if not group:
            raise make(ErrorCode.CONSUMER_EMPTY_GROUP_NAME)
        if not is_valid_group_name(group):
            raise make(ErrorCode.CONSUMER_INVALID_GROUP_NAME)


def _check_room(config: ConsumerConfig, context: ConsumerContext) -> None:
    """Whether the stream takes one more consumer, and on a work queue, this one; internal ones always fit."""
    stream = context.stream
    if config.direct or config.sourcing:
        return
    counted = sum(1 for other in context.consumers.values() if not (other.direct or other.sourcing))
    allowed = consumers_allowed(stream.max_consumers, context.server_limits, context.account_limits)
    if 0 < allowed <= counted:
        raise make(ErrorCode.MAXIMUM_CONSUMERS_LIMIT)
    if stream.retention != Retention.WORKQUEUE:
        return
    if config.ack_policy not in (AckPolicy.EXPLICIT, AckPolicy.FLOW_CONTROL):
        raise make(ErrorCode.CONSUMER_WORK_QUEUE_REQUIRES_EXPLICIT_ACK)
    if config.deliver_policy != DeliverPolicy.ALL:
        raise make(ErrorCode.CONSUMER_WORK_QUEUE_CONSUMER_NOT_DELIVER_ALL)
    if counted > 0:
        if not config.filters:
            raise make(ErrorCode.CONSUMER_WORK_QUEUE_MULTIPLE_UNFILTERED)
        if not _is_unique_on_work_queue(config, context):
            raise make(ErrorCode.CONSUMER_WORK_QUEUE_CONSUMER_NOT_UNIQUE)


def _is_unique_on_work_queue(config: ConsumerConfig, context: ConsumerContext) -> bool:
    """Whether no other consumer could receive what this one's filters ask for."""
    own_name = config.durable_name or config.name
    for subject in config.filters:
        for name, other in context.consumers.items():
            if name == own_name or other.direct or other.sourcing:
                continue
            if not other.filters:
                return False
            if any(collides(subject.encode(), taken.encode()) for taken in other.filters):
                return False
    return True


def _check_changes(old: ConsumerConfig, new: ConsumerConfig, has_interest: Callable[[str], bool]) -> None:
    for unchanged, what in (
        (old.deliver_policy == new.deliver_policy, "deliver policy"),
        (old.mem_storage == new.mem_storage, "storage type"),
        (old.direct == new.direct, "direct"),
        (old.sourcing == new.sourcing, "sourcing"),
        (old.opt_start_seq == new.opt_start_seq, "start sequence"),
        (old.opt_start_time == new.opt_start_time, "start time"),
        (old.ack_policy == new.ack_policy, "ack policy"),
        (old.replay_policy == new.replay_policy, "replay policy"),
        (old.idle_heartbeat == new.idle_heartbeat, "heart beats"),
        (old.flow_control == new.flow_control, "flow control"),
    ):
        if not unchanged:
            raise make(ErrorCode.CONSUMER_CREATE, err=f"{what} can not be updated")
    if old.deliver_subject != new.deliver_subject:
        if not old.is_push:
            raise make(ErrorCode.CONSUMER_CREATE, err="can not update pull consumer to push based")
        if not new.is_push:
            raise make(ErrorCode.CONSUMER_CREATE, err="can not update push consumer to pull based")
        if has_interest(old.deliver_subject):
            raise make(ErrorCode.CONSUMER_NAME_EXIST)
    if old.max_waiting != new.max_waiting:
        raise make(ErrorCode.CONSUMER_CREATE, err="max waiting can not be updated")
