"""The `_nats.*` entries the server keeps in the metadata of streams and consumers.

Decided here: which API level a configuration needs, which entries are stored and which only appear in answers.
Not known here: anything else about metadata, which belongs to users.

`_nats.req.level` is stored. `_nats.ver` and `_nats.level` describe the answering server, are added to answers, and are
dropped when a client sends them back. None of them counts when two configurations are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from jetspark.api.consumer_config import AckPolicy, ConsumerConfig, PriorityPolicy
from jetspark.api.requests import API_LEVEL
from jetspark.api.stream_config import PersistMode, StreamConfig

REQUIRED_LEVEL_KEY: Final = "_nats.req.level"
SERVER_VERSION_KEY: Final = "_nats.ver"
SERVER_LEVEL_KEY: Final = "_nats.level"
_DYNAMIC_KEYS: Final = frozenset({SERVER_VERSION_KEY, SERVER_LEVEL_KEY})
_OWN_KEYS: Final = _DYNAMIC_KEYS | {REQUIRED_LEVEL_KEY}

Config = TypeVar("Config", StreamConfig, ConsumerConfig)


def required_api_level(config: StreamConfig | ConsumerConfig) -> int:
    """The lowest API level whose servers understand everything in the configuration."""
    if isinstance(config, StreamConfig):
        return _stream_level(config)
    return _consumer_level(config)


def _stream_level(config: StreamConfig) -> int:
    if config.allow_batched:
        return 4
    if (
        config.allow_msg_counter
        or config.allow_atomic
        or config.allow_msg_schedules
        or config.persist_mode == PersistMode.ASYNC
    ):
        return 2
    return 1 if config.allow_msg_ttl or config.subject_delete_marker_ttl > 0 else 0


def _consumer_level(config: ConsumerConfig) -> int:
    if config.ack_policy == AckPolicy.FLOW_CONTROL:
        return 4
    paused = config.pause_until is not None and not config.pause_until.is_zero
    prioritised = (
        config.priority_policy != PriorityPolicy.NONE or config.priority_timeout != 0 or bool(config.priority_groups)
    )
    return 1 if paused or prioritised else 0


def with_stored_metadata(config: Config) -> Config:
    """The configuration as it is kept: with the level it requires, without the server's own entries."""
    metadata = {key: value for key, value in config.metadata.items() if key not in _DYNAMIC_KEYS}
    metadata[REQUIRED_LEVEL_KEY] = str(required_api_level(config))
    return replace(config, metadata=metadata)


def with_response_metadata(config: Config, server_version: str) -> Config:
    """The configuration as answers show it: with the server's version and level added."""
    metadata = dict(config.metadata)
    metadata[SERVER_VERSION_KEY] = server_version
    metadata[SERVER_LEVEL_KEY] = str(API_LEVEL)
    return replace(config, metadata=metadata)


def users_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata without any of the server's entries."""
    return {key: value for key, value in metadata.items() if key not in _OWN_KEYS}


def same_config(left: Config, right: Config) -> bool:
    """Whether two configurations say the same, whatever the servers that wrote them noted in the metadata."""
    return replace(left, metadata=users_metadata(left.metadata)) == replace(
        right, metadata=users_metadata(right.metadata)
    )
