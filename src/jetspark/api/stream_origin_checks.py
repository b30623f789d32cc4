"""Whether a stream may mirror or source what it says it does.

Decided here: every rule about `mirror` and `sources`, and the search for cycles.
Not known here: the rest of a stream's configuration; `stream_checks` calls this in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from jetspark.api.ack_token import name_hash
from jetspark.api.api_subjects import API_PREFIX
from jetspark.api.asset_names import is_valid_asset_name
from jetspark.api.error_codes import ErrorCode, make
from jetspark.api.stream_config import StreamConfig, StreamConsumerSource, StreamSource, SubjectTransform
from jetspark.api.subject_transform import TransformError, check_mapping
from jetspark.protocol.subjects import collides, is_literal, is_subset, is_valid_subject

FindStream = Callable[[str], StreamConfig | None]


def check_origins(config: StreamConfig, find_stream: FindStream, *, pedantic: bool) -> StreamConfig:
    """Refuse a bad mirror or source; the result inherits `mirror_direct` from an origin that can be seen."""
    if config.mirror is not None:
        _check_mirror_company(config)
        _check_mirror(config, config.mirror, find_stream)
        config = _inherit_direct(config, config.mirror, find_stream, pedantic=pedantic)
    if config.sources and config.allow_msg_schedules:
        raise make(ErrorCode.SOURCE_WITH_MSG_SCHEDULES)
    _check_sources(config, find_stream)
    _check_externals(config, find_stream)
    _check_cycles(config, find_stream)
    return config


def _check_mirror_company(config: StreamConfig) -> None:
    """A mirror's sequences are its origin's, so nothing that makes its own may stand beside it."""
    for present, error_code in (
        (config.first_seq > 0, ErrorCode.MIRROR_WITH_FIRST_SEQ),
        (config.subjects, ErrorCode.MIRROR_WITH_SUBJECTS),
        (config.sources, ErrorCode.MIRROR_WITH_SOURCES),
        (config.allow_msg_counter, ErrorCode.MIRROR_WITH_COUNTERS),
        (config.allow_atomic, ErrorCode.MIRROR_WITH_ATOMIC_PUBLISH),
        (config.allow_batched, ErrorCode.MIRROR_WITH_BATCH_PUBLISH),
        (config.allow_msg_schedules, ErrorCode.MIRROR_WITH_MSG_SCHEDULES),
    ):
        if present:
            raise make(error_code)


def _check_mirror(config: StreamConfig, mirror: StreamSource, find_stream: FindStream) -> None:
    if mirror.consumer is not None and not _consumer_is_fine(mirror, mirror.consumer):
        raise make(ErrorCode.MIRROR_DURABLE_CONSUMER_CONFIG_INVALID)
    if mirror.filter_subject and mirror.subject_transforms:
        raise make(ErrorCode.MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED)
    if config.subject_delete_marker_ttl > 0:
        # A marker would take a sequence the origin does not have.
        raise make(ErrorCode.STREAM_INVALID_CONFIG, err="subject delete markers forbidden on mirrors")
    for position, transform in enumerate(mirror.subject_transforms):
        _check_transform(
            transform, ErrorCode.MIRROR_INVALID_SUBJECT_FILTER, ErrorCode.MIRROR_INVALID_TRANSFORM_DESTINATION
        )
        for other_position, other in enumerate(mirror.subject_transforms):
            if position != other_position and collides(transform.src.encode(), other.src.encode()):
                raise make(ErrorCode.MIRROR_OVERLAPPING_SUBJECT_FILTERS)
    if mirror.external is None:
        if not is_valid_asset_name(mirror.name):
            raise make(ErrorCode.MIRROR_INVALID_STREAM_NAME)
        if _accepts_less(config, find_stream(mirror.name)):
            raise make(ErrorCode.MIRROR_MAX_MESSAGE_SIZE_TOO_BIG)


def _inherit_direct(
    config: StreamConfig, mirror: StreamSource, find_stream: FindStream, *, pedantic: bool
) -> StreamConfig:
    origin = find_stream(mirror.name) if mirror.external is None else None
    if origin is None or config.mirror_direct == origin.allow_direct:
        return config
    if pedantic:
        raise make(ErrorCode.PEDANTIC, err="origin stream has direct get set, mirror has it disabled")
    return replace(config, mirror_direct=origin.allow_direct)


def _accepts_less(config: StreamConfig, origin: StreamConfig | None) -> bool:
    return origin is not None and 0 < config.max_msg_size < origin.max_msg_size


def _consumer_is_fine(source: StreamSource, consumer: StreamConsumerSource) -> bool:
    return (
        is_valid_asset_name(consumer.name)
        and is_literal(consumer.deliver_subject.encode())
        and source.opt_start_seq == 0
        and source.opt_start_time is None
        and not source.filter_subject
    )


def _check_transform(transform: SubjectTransform, bad_source: ErrorCode, bad_destination: ErrorCode) -> None:
    if transform.src and not is_valid_subject(transform.src.encode()):
        raise make(bad_source, err=f"invalid subject {transform.src}")
    try:
        check_mapping(transform.src, transform.dest)
    except TransformError as error:
        raise make(bad_destination, err=error) from None


def _check_sources(config: StreamConfig, find_stream: FindStream) -> None:
    seen: set[str] = set()
    seen_consumers: set[str] = set()
    for source in config.sources:
        # A JSON null in the list decodes to None.
        if source is None or not is_valid_asset_name(source.name):
            raise make(ErrorCode.SOURCE_INVALID_STREAM_NAME)
        identity = source_identity(source)
        if identity in seen:
            raise make(ErrorCode.SOURCE_DUPLICATE_DETECTED)
        seen.add(identity)
        _check_source_filters(source)
        if source.consumer is not None:
            if not _consumer_is_fine(source, source.consumer):
                raise make(ErrorCode.SOURCE_DURABLE_CONSUMER_CONFIG_INVALID)
            consumer_identity = f"{_identity_prefix(source)} {source.consumer.name}"
            if consumer_identity in seen_consumers:
                raise make(ErrorCode.SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED)
            seen_consumers.add(consumer_identity)
        if source.external is None and _accepts_less(config, find_stream(source.name)):
            raise make(ErrorCode.SOURCE_MAX_MESSAGE_SIZE_TOO_BIG)


def _check_source_filters(source: StreamSource) -> None:
    if source.filter_subject and source.subject_transforms:
        raise make(ErrorCode.SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED)
    for transform in source.subject_transforms:
        _check_transform(
            transform, ErrorCode.SOURCE_INVALID_SUBJECT_FILTER, ErrorCode.SOURCE_INVALID_TRANSFORM_DESTINATION
        )
    for position, transform in enumerate(source.subject_transforms):
        for other_position, other in enumerate(source.subject_transforms):
            if position != other_position and is_subset(transform.src.encode(), other.src.encode()):
                raise make(ErrorCode.SOURCE_OVERLAPPING_SUBJECT_FILTERS)


def _identity_prefix(source: StreamSource) -> str:
    if source.external is None:
        return source.name
    return f"{source.name}:{name_hash(source.external.api)}"


def source_identity(source: StreamSource) -> str:
    """What tells one source of a stream from another: origin, consumer, filters and destinations."""
    prefix = _identity_prefix(source)
    if source.consumer is not None:
        prefix += f":C={name_hash(source.consumer.name)}"
    if not source.subject_transforms:
        return f"{prefix} {source.filter_subject or '>'} >"
    sources = "\f".join(transform.src or ">" for transform in source.subject_transforms)
    destinations = "\f".join(transform.dest or ">" for transform in source.subject_transforms)
    return f"{prefix} {sources} {destinations}"


def _check_externals(config: StreamConfig, find_stream: FindStream) -> None:
    """Prefixes of other accounts and domains must not lead back into this one."""
    origins = ([] if config.mirror is None else [config.mirror]) + list(config.sources)
    subjects: list[str] = []
    externals = []
    for origin in origins:
        if origin.external is not None:
            externals.append(origin.external)
            continue
        origin_config = find_stream(origin.name)
        if origin_config is not None:
            subjects.extend(origin_config.subjects)
    for external in externals:
        if external.deliver:
            _check_delivery_prefix(external.deliver, subjects)
    for external in externals:
        if not external.api:
            continue
        if not is_literal(external.api.encode()):
            raise make(
                ErrorCode.STREAM_INVALID_CONFIG,
                err=f'stream external api prefix "{external.api}" must be a valid subject without wildcards',
            )
        if collides(external.api.encode(), API_PREFIX.encode()):
            raise make(ErrorCode.STREAM_EXTERNAL_API_OVERLAP, prefix=external.api, subject=API_PREFIX)


def _check_delivery_prefix(prefix: str, subjects: Sequence[str]) -> None:
    if not is_literal(prefix.encode()):
        raise make(ErrorCode.STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ, prefix=prefix)
    for subject in subjects:
        if collides(subject.encode(), f"{prefix}.{subject}".encode()):
            raise make(ErrorCode.STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS, prefix=prefix, subject=subject)


def _check_cycles(config: StreamConfig, find_stream: FindStream) -> None:
    """Follow origins of this server from stream to stream; none may lead back to one already visited."""
    to_visit = [config]
    visited: set[str] = set()
    while to_visit:
        current = to_visit.pop(0)
        visited.add(current.name)
        for source in current.sources:
            if source.external is not None:
                continue
            if source.name in visited:
                if _feeds(current.subjects, source.filter_subject):
                    raise make(ErrorCode.STREAM_INVALID_CONFIG, err="detected cycle")
                continue
            _append_if_found(to_visit, find_stream(source.name))
        mirror = current.mirror
        if mirror is not None and mirror.external is None:
            if mirror.name in visited:
                raise make(ErrorCode.STREAM_INVALID_CONFIG, err="detected cycle")
            _append_if_found(to_visit, find_stream(mirror.name))


def _append_if_found(to_visit: list[StreamConfig], found: StreamConfig | None) -> None:
    if found is not None:
        to_visit.append(found)


def _feeds(subjects: Sequence[str], filter_subject: str) -> bool:
    if not filter_subject:
        return True
    return any(collides(subject.encode(), filter_subject.encode()) for subject in subjects)


def check_origin_filters(config: StreamConfig) -> None:
    """The last look at filters when a stream is made; these errors carry the code of a failed create."""
    if config.mirror is not None and not config.mirror.subject_transforms:
        subject = config.mirror.filter_subject
        if subject and not is_valid_subject(subject.encode()):
            raise make(ErrorCode.STREAM_CREATE, err=f"subject filter '{subject}' for the mirror invalid subject")
    for source in config.sources:
        subject = source.filter_subject
        if subject and not source.subject_transforms and not is_valid_subject(subject.encode()):
            raise make(ErrorCode.STREAM_CREATE, err=f"subject filter '{subject}' for the source: invalid subject")
