"""What is looked at on the driver before the first row: that the stream is there and takes what will come."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetspark.client.api_errors import StreamNotFoundError
from jetspark.client.errors import BadOptionError
from jetspark.protocol.subjects import collides, matches
from jetspark.spark.options import Options
from jetspark.spark.sink_connection import SinkError, Target
from jetspark.spark.sink_ledger import Ledger
from jetspark.spark.sink_options import NONE
from jetspark.spark.sink_rows import RowPlan

if TYPE_CHECKING:
    from jetspark.client.infos import StreamInfo
    from jetspark.client.sync import JetStream

# What the headers of a row need at least: the version line and a message id.
HEADERS_BYTES_MIN = 96
_WILDCARD_TOKEN = re.compile(r"(?<![^.])[*>](?![^.])")


@dataclass(frozen=True)
class Checked:
    """The streams that will be written, and what the main one takes."""

    targets: tuple[Target, ...]
    patterns: tuple[str, ...]
    message_size_max: int
    dead_letter_size_max: int


def check_target(jetstream: JetStream, options: Options, plan: RowPlan) -> Checked:
    """Look at the target; SinkError or BadOptionError says what is wrong and what to do."""
    info = _stream(jetstream, options, plan)
    _check_stream(info, plan)
    config = info.config
    targets = [Target(config.name, _unused_subject(config.subjects[0]))]
    size_max = dead_size_max = _size_max(jetstream, info)
    dead = options["deadLetterSubject"]
    if dead:
        names = jetstream.stream_names(dead)
        if not names:
            raise BadOptionError(f"no stream takes option deadLetterSubject {dead}: dead letters would be lost")
        if names[0] != config.name:
            dead_info = jetstream.stream_info(names[0])
            _check_takes(dead_info)
            dead_size_max = _size_max(jetstream, dead_info)
            targets.append(Target(names[0], dead))
    if size_max < HEADERS_BYTES_MIN and plan.id_mode != NONE:
        raise SinkError(f"stream {config.name} takes {size_max} bytes a message, less than a message id needs")
    if plan.id_mode != NONE:
        Ledger(jetstream, options["ledger"], config.name).make(config.num_replicas)
    return Checked(tuple(targets), tuple(config.subjects), size_max, dead_size_max)


def _size_max(jetstream: JetStream, info: StreamInfo) -> int:
    size_max, of_stream = jetstream.connection.max_payload, info.config.max_msg_size
    return min(size_max, of_stream) if of_stream > 0 else size_max


def _stream(jetstream: JetStream, options: Options, plan: RowPlan) -> StreamInfo:
    name = options["stream"]
    if not name:
        if plan.has_subject or not plan.template:
            raise BadOptionError("which stream? with a column subject, option stream says where the rows belong")
        names = jetstream.stream_names(_subject_pattern(plan))
        if len(names) != 1:
            found = "no stream takes" if not names else f"streams {', '.join(sorted(names))} take"
            raise BadOptionError(f"{found} subject {plan.template}: create one, or name one in option stream")
        name = names[0]
    try:
        return jetstream.stream_info(name)
    except StreamNotFoundError:
        raise BadOptionError(f"there is no stream {name}: create it first, or correct option stream") from None


def _check_stream(info: StreamInfo, plan: RowPlan) -> None:
    config = info.config
    if config.mirror is not None or not config.subjects:
        raise SinkError(
            f"stream {config.name} is a copy of another and takes no messages of its own: write to that one"
        )
    _check_takes(info)
    if plan.has_ttl and not config.allow_msg_ttl:
        raise SinkError(
            f"there is a column ttl, and stream {config.name} has no allow_msg_ttl: switch it on, or drop it"
        )
    if plan.template:
        wanted = _subject_pattern(plan).encode()
        fits = collides if plan.fields else matches
        if not any(fits(pattern.encode(), wanted) for pattern in config.subjects):
            raise BadOptionError(
                f"stream {config.name} does not take subject {plan.template}: it has {', '.join(config.subjects)}"
            )


def _check_takes(info: StreamInfo) -> None:
    name = info.config.name
    if info.config.sealed:
        raise SinkError(f"stream {name} is sealed and takes no more messages")
    if info.config.no_ack:
        raise SinkError(f"stream {name} does not acknowledge (no_ack), so nobody could tell what is stored")


def _subject_pattern(plan: RowPlan) -> str:
    """What the subjects of a template have in common. A value may hold dots, so from the first field on it is open."""
    if not plan.fields:
        return plan.template
    fixed = itertools.takewhile(lambda token: "{" not in token, plan.template.split("."))
    return ".".join([*fixed, ">"])


def _unused_subject(pattern: str) -> str:
    return _WILDCARD_TOKEN.sub("_jetspark", pattern)
