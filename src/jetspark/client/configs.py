"""Settings as people give them, turned into the documents of `api`.

Keywords use the wire's names; durations are seconds or timedelta, times are datetime. A dataclass of `api` is taken as
it is, with keywords on top.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, get_type_hints

from jetspark.api.consumer_config import AckPolicy, ConsumerConfig, DeliverPolicy
from jetspark.api.error_codes import ApiError
from jetspark.api.stream_config import StreamConfig
from jetspark.api.timestamps import WireTime
from jetspark.client.durations import nanoseconds
from jetspark.client.errors import BadOptionError

_STREAM_DURATIONS: Final = ("max_age", "duplicate_window", "subject_delete_marker_ttl")
_CONSUMER_DURATIONS: Final = ("ack_wait", "max_expires", "idle_heartbeat", "inactive_threshold", "priority_timeout")
_CONSUMER_TIMES: Final = ("opt_start_time", "pause_until")


def wire_time(moment: datetime | WireTime) -> WireTime:
    """A moment as the wire has it; one without a zone is refused, because it would mean two things."""
    if isinstance(moment, WireTime):
        return moment
    if moment.tzinfo is None:
        raise BadOptionError(f"a time needs a zone: {moment!r}")
    since = moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)
    offset = moment.utcoffset() or timedelta(0)
    unix_us = (since - offset) // timedelta(microseconds=1)
    return WireTime(unix_us * 1000)


def _names(value: str | Iterable[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _nested(value: Any) -> Any:
    """A nested settings object given as a plain mapping."""
    if isinstance(value, Mapping):
        return dict(value)
    return value


def stream_config(config: StreamConfig | None, name: str, keywords: Mapping[str, Any]) -> StreamConfig:
    """The settings of a stream."""
    values = dict(keywords)
    if name:
        values["name"] = name
    if "subjects" in values:
        values["subjects"] = _names(values["subjects"])
    for key in _STREAM_DURATIONS:
        if key in values:
            values[key] = nanoseconds(values[key])
    limits = values.get("consumer_limits")
    if isinstance(limits, Mapping) and "inactive_threshold" in limits:
        values["consumer_limits"] = {**limits, "inactive_threshold": nanoseconds(limits["inactive_threshold"])}
    made: StreamConfig = _merge(StreamConfig, config, values)
    if not made.name:
        raise BadOptionError("a stream needs a name")
    return made


def consumer_config(config: ConsumerConfig | None, name: str, keywords: Mapping[str, Any]) -> ConsumerConfig:
    """The settings of a consumer. Keywords alone mean explicit acks; a dataclass says what it says."""
    values = dict(keywords)
    if name:
        values["name"] = name
    for key in _CONSUMER_DURATIONS:
        if key in values:
            values[key] = nanoseconds(values[key])
    values.update({key: wire_time(values[key]) for key in _CONSUMER_TIMES if values.get(key) is not None})
    values.update({key: _names(values[key]) for key in ("filter_subjects", "priority_groups") if key in values})
    if "backoff" in values:
        values["backoff"] = [nanoseconds(step) for step in values["backoff"]]
    if config is None:
        values.setdefault("ack_policy", AckPolicy.EXPLICIT)
    if "deliver_policy" not in values and (config is None or config.deliver_policy == DeliverPolicy.ALL):
        _choose_start(values)
    made: ConsumerConfig = _merge(ConsumerConfig, config, values)
    return made


def _choose_start(values: dict[str, Any]) -> None:
    """A start that is given says which policy is meant."""
    if values.get("opt_start_seq"):
        values["deliver_policy"] = DeliverPolicy.BY_START_SEQUENCE
    elif values.get("opt_start_time") is not None:
        values["deliver_policy"] = DeliverPolicy.BY_START_TIME


def _merge(kind: Any, config: Any, values: dict[str, Any]) -> Any:
    """Keywords over a dataclass. Plain mappings and words become the types of `api` by way of its own reader."""
    known = {field for field in kind.__dataclass_fields__ if field != "extra"}
    unknown = sorted(set(values) - known)
    if unknown:
        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadOptionError(f"no such setting: {', '.join(unknown)}{hint}")
    plain = {key: _nested(_alike(kind, key, value)) for key, value in values.items()}
    typed = {key: value for key, value in plain.items() if isinstance(value, WireTime) or _is_document(value)}
    read = _read(kind, {key: value for key, value in plain.items() if key not in typed})
    chosen = {key: getattr(read, key) for key in values if key not in typed}
    return replace(config if config is not None else kind(), **chosen, **typed)


def _read(kind: Any, values: dict[str, Any]) -> Any:
    """The settings as the server would read them; what it could not is named."""
    try:
        return kind.decode(values, strict=True)
    except ApiError:
        for key, value in values.items():
            try:
                kind.decode({key: value}, strict=True)
            except ApiError as error:
                raise BadOptionError(f"{key} cannot be {value!r}{_choices(kind, key)}") from error
        raise


def _choices(kind: Any, key: str) -> str:
    type_of = get_type_hints(kind)[key]
    if isinstance(type_of, type) and issubclass(type_of, Enum):
        return f": it is one of {', '.join(str(choice.value) for choice in type_of)}"
    return ""


def _alike(kind: Any, key: str, value: Any) -> Any:
    """A list of dataclasses and mappings as one of dataclasses only."""
    if not isinstance(value, (list, tuple)) or not any(_is_document(one) for one in value):
        return value
    return [one if _is_document(one) else getattr(_read(kind, {key: [one]}), key)[0] for one in value]


def _is_document(value: Any) -> bool:
    """Already one of the dataclasses of `api` (or several)."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(hasattr(one, "__dataclass_fields__") for one in value)
    return hasattr(value, "__dataclass_fields__")
