"""Whether a stream may be created or changed as asked, and what the server fills in.

Decided here: every rule on a stream's configuration in nats-server's order (the first broken rule is the answer), the
defaults, and the side effects of one field on another.
Not known here: how the other streams are kept; they come in as a `StreamContext`.

The result is the configuration as it is stored. Answers add to its metadata; see `asset_metadata`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.json_text import quote_go
from jetspark.api.limits import AccountLimits, ServerLimits
from jetspark.api.stream_config import Discard, PersistMode, Placement, Retention, Storage, StreamConfig
from jetspark.api.stream_origin_checks import check_origin_filters, check_origins
from jetspark.api.subject_transform import SubjectTransformer, TransformError, check_mapping
from jetspark.api.timestamps import MILLISECOND, MINUTE, SECOND, format_duration
from jetspark.protocol.subjects import collides, is_subset, is_valid_subject

DEFAULT_DUPLICATE_WINDOW_NS: Final = 2 * MINUTE
_SHORTEST_NS: Final = 100 * MILLISECOND
_REPLICAS_MAX: Final = 5


@dataclass(frozen=True, kw_only=True)
class StreamContext:
    """What a stream is checked against: the account's other streams and the limits."""

    streams: Mapping[str, StreamConfig] = field(default_factory=dict)
    """All streams of the account by name, including the one being checked if it exists."""
    server_limits: ServerLimits = ServerLimits()
    account_limits: AccountLimits = AccountLimits()
    reserved_memory_bytes: int = 0
    """What all streams of the server reserve by their `max_bytes`, not only this account's."""
    reserved_storage_bytes: int = 0


# Sequences are signed 64-bit numbers here: this leaves room for as many messages as anybody will send.
FIRST_SEQUENCE_MAX: Final = 1 << 62


def _invalid(reason: str) -> ApiError:
    return make(ErrorCode.STREAM_INVALID_CONFIG, err=reason)


def _pedantic(reason: str) -> ApiError:
    return make(ErrorCode.PEDANTIC, err=reason)


def check_new_stream(
    config: StreamConfig, context: StreamContext, *, subject_name: str | None = None, pedantic: bool = False
) -> StreamConfig:
    """The stream to create, or the error. An existing stream of the same configuration is returned as it is.

    `subject_name` is the name in the request's subject, which must be the same.
    """
    config = with_stored_metadata(config)
    if subject_name is not None and subject_name != config.name:
        raise make(ErrorCode.STREAM_MISMATCH)
    if has_path_separator(config.name):
        raise make(ErrorCode.STREAM_NAME_CONTAINS_PATH_SEPARATORS)
    if config.sealed:
        raise _invalid("stream configuration for create can not be sealed")
    if config.mirror_direct and config.mirror is None:
        raise _invalid("stream has no mirror but does have mirror direct")
    others = sum(1 for name in context.streams if name != config.name)
    if 0 < context.account_limits.max_streams <= others:
        raise make(ErrorCode.MAXIMUM_STREAMS_LIMIT)
    _check_resources(config, context, max(config.max_bytes, 0))
    config = check_stream_config(config, context, pedantic=pedantic)
    if config.num_replicas > 1:
        raise make(ErrorCode.STREAM_REPLICAS_NOT_SUPPORTED)
    existing = context.streams.get(config.name)
    if existing is not None:
        if same_config(existing, config):
            return existing
        raise make(ErrorCode.STREAM_NAME_EXIST)
    # A stream without max_bytes still needs room for something.
    _check_resources(config, context, config.max_bytes if config.max_bytes > 0 else 1)
    check_origin_filters(config)
    _check_overlap(config, context)
    return config


def check_stream_update(
    config: StreamConfig,
    context: StreamContext,
    *,
    subject_name: str | None = None,
    pedantic: bool = False,
    consumers: Mapping[str, ConsumerConfig] | None = None,
) -> StreamConfig:
    """The stream's new configuration, or the error. `consumers` are the stream's own, by name."""
    config = check_stream_config(config, context, pedantic=pedantic)
    if subject_name is not None and subject_name != config.name:
        raise make(ErrorCode.STREAM_MISMATCH)
    old = context.streams.get(config.name)
    if old is None:
        raise make(ErrorCode.STREAM_NOT_FOUND)
    config = with_stored_metadata(config)
    _check_changes(old, config)
    if config.sealed:
        config = replace(
            config, max_age=0, discard=Discard.NEW, deny_delete=True, deny_purge=True, allow_rollup_hdrs=False
        )
    growth = max(max(config.max_bytes, 0) - max(old.max_bytes, 0), 0)
    _check_resources(config, context, growth, already_reserved=max(config.max_bytes, 0) - growth)
    _check_consumer_limits(old, config, consumers or {})
    _check_overlap(config, context)
    return config


def check_stream_config(config: StreamConfig, context: StreamContext, *, pedantic: bool = False) -> StreamConfig:
    """The rules that hold for creates and updates alike; gives the configuration with its defaults filled in."""
    _check_texts(config)
    if config.first_seq > FIRST_SEQUENCE_MAX:
        raise _invalid(f"first sequence above {FIRST_SEQUENCE_MAX} is not supported")
    config = _with_counts(config, pedantic=pedantic)
    config = _with_times(config, context.server_limits, pedantic=pedantic)
    _check_counter(config)
    if config.discard_new_per_subject:
        _check_discard_new_per_subject(config)
    config = _with_markers(config, pedantic=pedantic)
    config = _with_schedules(config, pedantic=pedantic)
    _check_async(config)
    config = check_origins(config, context.streams.get, pedantic=pedantic)
    config = _with_subjects(config)
    _check_required_bytes(config, context.account_limits)
    _check_transform(config)
    config = _with_republish(config, pedantic=pedantic)
    if config.placement == Placement():
        config = replace(config, placement=None)
    if config.placement is not None and config.placement.preferred:
        raise _invalid("preferred server not permitted in placement")
    return config


def _check_texts(config: StreamConfig) -> None:
    if not is_valid_asset_name(config.name):
        raise _invalid("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if byte_length(config.name) > NAME_LENGTH_MAX:
        raise _invalid(f"stream name is too long, maximum allowed is {NAME_LENGTH_MAX}")
    if byte_length(config.description) > DESCRIPTION_LENGTH_MAX:
        raise _invalid(f"stream description is too long, maximum allowed is {DESCRIPTION_LENGTH_MAX}")
    if metadata_bytes(config.metadata) > METADATA_BYTES_MAX:
        raise _invalid(f"stream metadata exceeds maximum size of {METADATA_BYTES_MAX} bytes")


def _with_counts(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    replicas = config.num_replicas or 1
    if replicas > _REPLICAS_MAX:
        raise _invalid(f"maximum replicas is {_REPLICAS_MAX}")
    if replicas < 0:
        raise make(ErrorCode.REPLICAS_COUNT_CANNOT_BE_NEGATIVE)
    return replace(
        config,
        num_replicas=replicas,
        max_msgs=_limit("max_msgs", config.max_msgs, pedantic=pedantic),
        max_msgs_per_subject=_limit("max_msgs_per_subject", config.max_msgs_per_subject, pedantic=pedantic),
        max_bytes=_limit("max_bytes", config.max_bytes, pedantic=pedantic),
        max_msg_size=_limit("max_msg_size", config.max_msg_size, pedantic=pedantic),
        max_consumers=_limit("max_consumers", config.max_consumers, pedantic=pedantic),
    )


def _limit(name: str, value: int, *, pedantic: bool) -> int:
    """Zero and every negative number mean no limit, written -1."""
    if pedantic and value < -1:
        raise _pedantic(f"{name} must be set to -1")
    return value if value > 0 else -1


def _with_times(config: StreamConfig, limits: ServerLimits, *, pedantic: bool) -> StreamConfig:
    if config.max_age < 0:
        raise _invalid("max age can not be negative")
    if 0 < config.max_age < _SHORTEST_NS:
        raise _invalid("max age needs to be >= 100ms")
    window = config.duplicate_window
    if window == 0 and config.mirror is None and not config.sources:
        window = _default_window(config.max_age, limits.duplicate_window_ns, pedantic=pedantic)
    if window < 0:
        raise _invalid("duplicates window can not be negative")
    if 0 < config.max_age < window:
        raise _invalid("duplicates window can not be larger then max age")
    if 0 < limits.duplicate_window_ns < window:
        limit = format_duration(limits.duplicate_window_ns)
        raise _invalid(f"duplicates window can not be larger then server limit of {limit}")
    if 0 < window < _SHORTEST_NS:
        raise _invalid("duplicates window needs to be >= 100ms")
    if config.deny_purge and config.allow_rollup_hdrs:
        raise _invalid("roll-ups require the purge permission")
    return replace(config, duplicate_window=window)


def _default_window(max_age: int, server_limit_ns: int, *, pedantic: bool) -> int:
    window = DEFAULT_DUPLICATE_WINDOW_NS
    if 0 < server_limit_ns < window:
        if pedantic:
            raise _pedantic("duplicate window limits are higher than current limits")
        window = server_limit_ns
    if 0 < max_age < window:
        if pedantic:
            raise _pedantic("duplicate window cannot be bigger than max age")
        return max_age
    return window


def _check_counter(config: StreamConfig) -> None:
    if not config.allow_msg_counter:
        return
    if config.discard == Discard.NEW:
        raise _invalid("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise _invalid("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise _invalid("counter stream cannot use message schedules")
    if config.retention != Retention.LIMITS:
        raise _invalid("counter stream can only use limits retention")


def _check_discard_new_per_subject(config: StreamConfig) -> None:
    if config.discard != Discard.NEW:
        raise _invalid("discard new per subject requires discard new policy to be set")
    if config.max_msgs_per_subject <= 0:
        raise _invalid("discard new per subject requires max msgs per subject > 0")


def _with_markers(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    """Delete markers are messages with a TTL that roll up their subject, so they switch both features on."""
    if config.subject_delete_marker_ttl < 0:
        raise _invalid("subject delete marker TTL must not be negative")
    if config.subject_delete_marker_ttl == 0:
        return config
    if config.subject_delete_marker_ttl < SECOND:
        raise _invalid("subject delete marker TTL must be at least 1 second")
    if not config.allow_msg_ttl:
        if pedantic:
            raise _invalid("subject delete marker cannot be set if message TTLs are disabled")
        config = replace(config, allow_msg_ttl=True)
    if not config.allow_rollup_hdrs:
        if pedantic:
            raise _invalid("subject delete marker cannot be set if roll-ups are disabled")
        config = replace(config, allow_rollup_hdrs=True, deny_purge=False)
    return config


def _with_schedules(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    if not config.allow_msg_schedules:
        return config
    if config.discard == Discard.NEW:
        raise _invalid("message scheduling cannot use discard new")
    if config.allow_rollup_hdrs:
        return config
    if pedantic:
        raise _invalid("message scheduling cannot be set if roll-ups are disabled")
    return replace(config, allow_rollup_hdrs=True, deny_purge=False)


def _check_async(config: StreamConfig) -> None:
    if config.persist_mode != PersistMode.ASYNC:
        return
    if config.storage != Storage.FILE:
        raise _invalid("async persist mode is only supported on file storage")
    if config.num_replicas > 1:
        raise _invalid("async persist mode is not supported on replicated streams")
    if config.allow_atomic:
        raise _invalid("async persist mode is not supported with atomic batch publish")


def _with_subjects(config: StreamConfig) -> StreamConfig:
    if not config.subjects:
        if config.mirror is None and not config.sources:
            return replace(config, subjects=(config.name,))
        return config
    for position, subject in enumerate(config.subjects):
        if not is_valid_subject(subject.encode()):
            raise _invalid("invalid subject")
        if subject == ">":
            _check_capture_all(config)
        if not config.no_ack:
            _check_reserved(subject)
        for other in config.subjects[position + 1 :]:
            if collides(other.encode(), subject.encode()):
                raise _invalid(f"subject {quote_go(subject)} overlaps with {quote_go(other)}")
    return config


def _check_capture_all(config: StreamConfig) -> None:
    if not config.no_ack:
        raise _invalid("capturing all subjects requires no-ack to be true")
    if config.num_replicas != 1:
        raise _invalid("capturing all subjects requires replicas of 1")


# The server's own subjects, and the part of each that streams may keep.
_RESERVED: Final = (
    (b"$JS.>", b"$JS.EVENT.>", "jetstream"),
    (b"$JSC.>", b"$JS.EVENT.>", "jetstream"),
    (b"$NRG.>", b"$JS.EVENT.>", "jetstream"),
    (b"$SYS.>", b"$SYS.ACCOUNT.>", "system"),
)


def _check_reserved(subject: str) -> None:
    """A stream that acks what it stores must not capture requests, or it would answer them."""
    text = subject.encode()
    for namespace, exception, which in _RESERVED:
        if collides(text, namespace) and not is_subset(text, exception):
            raise _invalid(f"subjects that overlap with {which} api require no-ack to be true")


def _check_required_bytes(config: StreamConfig, limits: AccountLimits) -> None:
    in_memory = config.storage == Storage.MEMORY
    limit = limits.memory_max_stream_bytes if in_memory else limits.storage_max_stream_bytes
    if limits.max_bytes_required and config.max_bytes <= 0:
        raise make(ErrorCode.STREAM_MAX_BYTES_REQUIRED)
    if 0 < limit < config.max_bytes:
        raise make(ErrorCode.STREAM_MAX_STREAM_BYTES_EXCEEDED)


def _check_transform(config: StreamConfig) -> None:
    transform = config.subject_transform
    if transform is None:
        return
    if transform.src and not is_valid_subject(transform.src.encode()):
        raise make(ErrorCode.STREAM_TRANSFORM_INVALID_SOURCE, err=f"invalid subject {transform.src}")
    try:
        check_mapping(transform.src, transform.dest)
    except TransformError as error:
        raise make(ErrorCode.STREAM_TRANSFORM_INVALID_DESTINATION, err=error) from None


def _with_republish(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    republish = config.republish
    if republish is None:
        return config
    if not republish.src:
        if pedantic:
            raise _pedantic("republish source can not be empty")
        republish = replace(republish, src=">")
    transform = config.subject_transform
    if republish.dest == ">" and republish.src == ">" and transform is not None and config.subjects == (transform.src,):
        # Everything is stored under another subject, so republishing all of it under its own is no cycle.
        if pedantic:
            raise _pedantic("implicit republish based on subject transform")
        republish = replace(republish, src=transform.dest, dest=transform.dest)
    if any(collides(republish.dest.encode(), subject.encode()) for subject in config.subjects):
        raise _invalid("stream configuration for republish destination forms a cycle")
    try:
        # An empty destination makes no transform, and so no error.
        if republish.dest:
            SubjectTransformer.parse(republish.src, republish.dest)
    except TransformError:
        raise _invalid(
            f"stream configuration for republish with transform from '{republish.src}' to '{republish.dest}' not valid"
        ) from None
    return replace(config, republish=republish)


def _check_changes(old: StreamConfig, new: StreamConfig) -> None:
    if new.num_replicas > 1:
        raise make(ErrorCode.STREAM_REPLICAS_NOT_SUPPORTED)
    work_queue_involved = Retention.WORKQUEUE in (old.retention, new.retention)
    update = "stream configuration update can not"
    for forbidden, reason in (
        (new.storage != old.storage, f"{update} change storage type"),
        (
            new.retention != old.retention and work_queue_involved,
            f"{update} change retention policy to/from workqueue",
        ),
        (old.sealed and not new.sealed, f"{update} unseal a sealed stream"),
        (old.deny_delete and not new.deny_delete, f"{update} cancel deny message deletes"),
        (old.deny_purge and not new.deny_purge, f"{update} cancel deny purge"),
    ):
        if forbidden:
            raise _invalid(reason)
    if new.mirror is not None and new.mirror != old.mirror:
        raise make(ErrorCode.STREAM_MIRROR_NOT_UPDATABLE)
    for forbidden, reason in (
        (old.allow_msg_ttl and not new.allow_msg_ttl, "message TTL status can not be disabled"),
        (new.allow_msg_counter != old.allow_msg_counter, f"{update} change message counter setting"),
        (old.allow_msg_schedules and not new.allow_msg_schedules, "message schedules can not be disabled"),
        (new.persist_mode != old.persist_mode, f"{update} change persist mode"),
    ):
        if forbidden:
            raise _invalid(reason)


def _check_resources(config: StreamConfig, context: StreamContext, added_bytes: int, already_reserved: int = 0) -> None:
    """Whether what `max_bytes` reserves still fits the account and the server."""
    limits = context.account_limits
    if 0 < limits.max_consumers < config.max_consumers:
        raise make(ErrorCode.MAXIMUM_CONSUMERS_LIMIT)
    reserved_by_account = already_reserved + sum(
        other.max_bytes
        for other in context.streams.values()
        if other.name != config.name and other.storage == config.storage and other.max_bytes > 0
    )
    if config.storage == Storage.MEMORY:
        account_limit, server_limit = limits.max_memory, context.server_limits.max_memory_bytes
        reserved, error_code = context.reserved_memory_bytes, ErrorCode.MEMORY_RESOURCES_EXCEEDED
    else:
        account_limit, server_limit = limits.max_storage, context.server_limits.max_storage_bytes
        reserved, error_code = context.reserved_storage_bytes, ErrorCode.STORAGE_RESOURCES_EXCEEDED
    if account_limit >= 0 and reserved_by_account + added_bytes > account_limit:
        raise make(error_code)
    if server_limit >= 0 and reserved + added_bytes > server_limit:
        raise make(error_code)


def _check_consumer_limits(old: StreamConfig, new: StreamConfig, consumers: Mapping[str, ConsumerConfig]) -> None:
    threshold, ack_pending = new.consumer_limits.inactive_threshold, new.consumer_limits.max_ack_pending
    threshold_changed = threshold > 0 and threshold != old.consumer_limits.inactive_threshold
    ack_pending_changed = ack_pending > 0 and ack_pending != old.consumer_limits.max_ack_pending
    if not (threshold_changed or ack_pending_changed):
        return
    beyond: Iterable[str] = (
        name
        for name, consumer in consumers.items()
        if 0 < threshold < consumer.inactive_threshold or 0 < ack_pending < consumer.max_ack_pending
    )
    names = ", ".join(sorted(beyond))
    if names:
        raise make(ErrorCode.STREAM_UPDATE, err=f"change to limits violates consumers: {names}")


def _check_overlap(config: StreamConfig, context: StreamContext) -> None:
    for other in context.streams.values():
        if other.name == config.name:
            continue
        for theirs in other.subjects:
            for ours in config.subjects:
                if collides(ours.encode(), theirs.encode()):
                    raise make(ErrorCode.STREAM_SUBJECT_OVERLAP)
