"""What has to be on the server before a benchmark starts, and what is taken away afterwards.

Decided here: which stream, consumer or bucket a kind needs, when one is made, emptied or filled. Not known here: how
anything is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from jetspark.cli.bench_plan import CONSUMER, READS_STREAM, Kind, Plan
from jetspark.cli.connect import make_jetstream
from jetspark.cli.context import Settings
from jetspark.cli.durations import SECOND_NS, human_count
from jetspark.cli.errors import NotFound
from jetspark.cli.output import note
from jetspark.errors import JetsparkError

if TYPE_CHECKING:
    from jetspark.client.infos import StreamInfo
    from jetspark.sync import Connection, JetStream

FILL_SUBJECT: Final = "benchsubject"
USES_CONSUMER: Final = {Kind.CONSUME, Kind.FETCH}
USES_BUCKET: Final = {Kind.KV_PUT, Kind.KV_GET}
USES_NO_STREAM: Final = {Kind.PUB, Kind.SUB, Kind.REQUEST, Kind.SERVE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What the options say about streams and buckets."""

    create: bool = False
    purge: bool = False
    storage: str = "file"
    replica_count: int = 1
    max_bytes: int = -1
    dedup_window_ns: int = 120 * SECOND_NS
    persist_async: bool = False
    history: int = 1
    cleanup: bool = False


Fill = Callable[[Plan], None]


def prepare(connection: Connection, plan: Plan, wanted: Preparation, fill: Fill) -> None:
    """Make sure that everything a kind needs is there; `fill` runs a publishing plan."""
    if plan.kind in USES_NO_STREAM:
        return
    js = make_jetstream(connection, Settings(**plan.connection))
    if plan.kind in USES_BUCKET:
        _prepare_bucket(js, plan, wanted)
        return
    info = _stream(js, plan, wanted)
    if wanted.purge:
        js.stream_handle(plan.stream).purge()
    if plan.kind in READS_STREAM:
        have_count = 0 if wanted.purge else info.state.messages
        _fill(plan, wanted, info, have_count, fill)
    if plan.kind in USES_CONSUMER:
        _prepare_consumer(js, plan)


def _stream(js: JetStream, plan: Plan, wanted: Preparation) -> StreamInfo:
    from jetspark.client.api_errors import StreamNotFoundError

    try:
        found = js.stream_info(plan.stream)
        if not wanted.create or plan.kind in READS_STREAM:
            return found
    except StreamNotFoundError:
        if not wanted.create:
            raise NotFound(
                f"no stream {plan.stream} on {js.connection.connected_url}",
                hint="Add --create to make it, or name another with --stream.",
            ) from None
    settings: dict[str, Any] = {
        "subjects": [plan.pattern or f"{FILL_SUBJECT}.>"],
        "storage": wanted.storage,
        "num_replicas": wanted.replica_count,
        "max_bytes": wanted.max_bytes,
        "duplicate_window": wanted.dedup_window_ns / SECOND_NS,
        "allow_direct": True,
    }
    if plan.kind is Kind.JS_ATOMIC:
        settings["allow_atomic"] = True
    if plan.kind is Kind.JS_FAST:
        settings["allow_batched"] = True
    if wanted.persist_async:
        settings["persist_mode"] = "async"
    return js.create_or_update_stream(plan.stream, **settings).cached_info


def _fill(plan: Plan, wanted: Preparation, info: StreamInfo, have_count: int, fill: Fill) -> None:
    missing_count = plan.message_count - have_count
    if missing_count <= 0:
        return
    if not wanted.create:
        note(
            f"Stream {plan.stream} has {human_count(have_count)} of {human_count(plan.message_count)} messages: "
            f"waiting for the rest to be published (--create publishes them first)"
        )
        return
    subject = info.config.subjects[0].replace("*", "fill").replace(">", "fill")
    note(f"Publishing {human_count(missing_count)} messages to {subject} first")
    filling = Plan(
        kind=Kind.JS_ASYNC,
        subject=subject,
        message_count=missing_count,
        size_bytes=plan.size_bytes,
        batch_count=1000,
        connection=plan.connection,
    )
    fill(filling)


def _prepare_consumer(js: JetStream, plan: Plan) -> None:
    from jetspark.client.api_errors import ConsumerNotFoundError

    stream = js.stream_handle(plan.stream)
    if plan.consumer == CONSUMER:
        # Ours alone: it starts at the beginning each time.
        with suppress(ConsumerNotFoundError):
            stream.delete_consumer(plan.consumer)
    else:
        with suppress(ConsumerNotFoundError):
            stream.consumer(plan.consumer)
            return
    settings: dict[str, Any] = {
        "ack_policy": plan.acks,
        "max_ack_pending": -1 if plan.acks == "none" else max(1000, 4 * plan.batch_count * plan.client_count),
    }
    if plan.filters:
        settings["filter_subjects"] = plan.filters
    stream.create_consumer(plan.consumer, **settings)


def _prepare_bucket(js: JetStream, plan: Plan, wanted: Preparation) -> None:
    from jetspark.client.errors import BucketNotFoundError

    try:
        js.key_value(plan.bucket)
        if wanted.purge:
            js.stream_handle(f"KV_{plan.bucket}").purge()
    except BucketNotFoundError:
        if plan.kind is Kind.KV_GET:
            hint = f"Fill it first: jetspark bench kv put --bucket {plan.bucket} --msgs {plan.message_count}"
            raise NotFound(f"no bucket {plan.bucket} on {js.connection.connected_url}", hint=hint) from None
        js.create_key_value(
            plan.bucket,
            history=wanted.history,
            storage=wanted.storage,
            num_replicas=wanted.replica_count,
            max_bytes=wanted.max_bytes,
        )


def clean_up(connection: Connection, plan: Plan, wanted: Preparation) -> None:
    """Take away what only the benchmark needed. Errors here are not the benchmark's."""
    if plan.kind in USES_NO_STREAM:
        return
    js = make_jetstream(connection, replace(Settings(**plan.connection), trace=False))
    with suppress(JetsparkError):
        if wanted.cleanup:
            js.delete_stream(f"KV_{plan.bucket}" if plan.kind in USES_BUCKET else plan.stream)
        elif plan.kind in USES_CONSUMER and plan.consumer == CONSUMER:
            js.delete_consumer(plan.stream, plan.consumer)
