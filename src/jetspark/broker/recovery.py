"""Bringing streams and consumers back from disk, and what is written down about them.

Decided here: the documents that describe a stream and a consumer, how a stream's messages are stored, and how a
consumer finds its place again: never ahead of its stream, owing what it owed, its timers running from the times that
were written down. What a crash may do to bytes is the store's business.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import i64

from jetspark.api.consumer_config import ConsumerConfig, DeliverPolicy
from jetspark.api.error_codes import ApiError
from jetspark.api.responses import encode_json
from jetspark.api.stream_config import Compression, Retention, Storage, StreamConfig
from jetspark.api.timestamps import format_time, parse_time
from jetspark.broker.consumer import position
from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.consumer.outcomes import ACK_NONE
from jetspark.broker.dedupe import DedupeWindow
from jetspark.broker.publish import MESSAGE_ID
from jetspark.broker.stream import Stream
from jetspark.protocol import headers
from jetspark.store import meta
from jetspark.store.consumer_log import open_consumer_log
from jetspark.store.disk import REMOVE_TREE, DiskOp
from jetspark.store.recovery import open_stream_store
from jetspark.store.store_base import StoreOptions
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.broker import Broker
    from jetspark.broker.jetstream import JetStream

MEBIBYTE: Final = 1024 * 1024
BLOCK_SIZE_MAX: Final = 8 * MEBIBYTE
BLOCK_SIZE_MIDDLE: Final = 4 * MEBIBYTE
BLOCK_SIZE_MIN: Final = 32_000

CREATED_KEY: Final = "Created"
NAME_KEY: Final = "Name"
# Where a consumer of the last message a subject goes over to every message; ours, so it is out of the way.
LIST_UNTIL_KEY: Final = "jetspark_list_until"
# In the folder of a stream that is still being restored.
RESTORE_MARK: Final = "restore.inf"


# -- documents -------------------------------------------------------------------------------------------------------


def stream_document(stream: Stream) -> bytes:
    """What is written down about a stream."""
    return encode_json({CREATED_KEY: format_time(stream.created_ns), **stream.config.encode()})


def consumer_document(consumer: Consumer) -> bytes:
    """What is written down about a consumer, besides its state."""
    document: dict[str, Any] = {CREATED_KEY: format_time(consumer.created_ns), NAME_KEY: consumer.name}
    if consumer.list_until_seq > 0:
        document[LIST_UNTIL_KEY] = consumer.list_until_seq
    document.update(consumer.config.encode())
    return encode_json(document)


# -- how messages are stored -----------------------------------------------------------------------------------------


def block_size(config: StreamConfig) -> int:
    """Blocks are dropped whole, so a small stream gets small ones; the steps are nats-server's."""
    if config.max_bytes > 0:
        quarter = config.max_bytes // 4 + 1
        rounded = (quarter + 99) // 100 * 100
        if rounded <= BLOCK_SIZE_MIN:
            return BLOCK_SIZE_MIN
        return BLOCK_SIZE_MAX if rounded >= BLOCK_SIZE_MAX else BLOCK_SIZE_MIDDLE
    if config.max_msgs_per_subject > 0 or config.retention != Retention.LIMITS:
        return BLOCK_SIZE_MIDDLE
    return BLOCK_SIZE_MAX


def store_options(broker: Broker, config: StreamConfig) -> StoreOptions:
    options = StoreOptions(
        memory=config.storage == Storage.MEMORY,
        block_size=block_size(config),
        compress=config.compression != Compression.NONE,
        track_sequences=config.max_msgs_per_subject > 1,
    )
    options.cache = broker.block_cache
    options.first_seq = max(config.first_seq, 1)
    return options


# -- accounts and streams --------------------------------------------------------------------------------------------


def account_names(broker: Broker) -> list[str]:
    """Accounts that have streams on disk."""
    roots = meta.list_roots(broker.disk, f"{broker.options.store_dir}/jetstream")
    return [meta.unescape(root.rpartition("/")[2]) for root in roots]


def recover_account(jetstream: JetStream) -> None:
    """Every stream of the account that the disk has."""
    broker = jetstream.broker
    listing = meta.list_streams(broker.disk, jetstream.root())
    for folder in listing.damaged:
        if broker.disk.size(f"{folder}/{RESTORE_MARK}") >= 0:
            # A restore that never came to its end: nobody was told that it had.
            broker.disk.perform(DiskOp(REMOVE_TREE, folder))
            continue
        broker.notices.append(f"Stream in {folder} is not recovered: its description is missing or damaged")
    for folder, document in listing.found:
        fields = read_document(broker, folder, document)
        if fields is None:
            continue
        created_ns = take_created(fields, broker.now_ns)
        try:
            config = StreamConfig.decode(fields)
        except ApiError as error:
            broker.notices.append(f"Stream in {folder} is not recovered: {error.description}")
            continue
        if config.name not in jetstream.streams:
            recover_stream(jetstream, folder, config, created_ns)
    for stream in jetstream.streams.values():
        # Only now is it known who copies whom.
        if stream.keeps_by_interest:
            stream.retention.drop_consumed()
            if stream.store.has_pending:
                stream.mark_dirty()


def read_document(broker: Broker, folder: str, document: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(document)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        broker.notices.append(f"{folder} is not recovered: its description is not a document")
        return None
    return fields


def take_created(fields: dict[str, Any], now_ns: int) -> int:
    """When it was made; the entry is taken out, because it is not part of the configuration."""
    text = fields.pop(CREATED_KEY, None)
    return parse_time(text).unix_ns if isinstance(text, str) else now_ns


def recover_stream(jetstream: JetStream, folder: str, config: StreamConfig, created_ns: int) -> None:
    broker = jetstream.broker
    store = open_stream_store(broker.disk, folder, store_options(broker, config))
    stream = Stream(broker, jetstream.account, config, store, created_ns)
    report_store(broker, stream)
    recover_message_ids(stream)
    jetstream.register(stream)
    listing = meta.list_consumers(broker.disk, jetstream.root(), stream.name)
    for damaged in listing.damaged:
        broker.notices.append(f"Consumer in {damaged} is not recovered: its description is missing or damaged")
    for consumer_folder, document in listing.found:
        recover_consumer(jetstream, stream, consumer_folder, document)
    join(stream)
    if store.has_pending:
        stream.mark_dirty()


def join(stream: Stream) -> None:
    """The stream and its consumers are there again: what its rules ask for happens now."""
    stream.retention.enforce_all()
    if stream.features is not None:
        stream.features.recovered()


def report_store(broker: Broker, stream: Stream) -> None:
    """Tell the operator what was found damaged; a clean disk says nothing."""
    report = stream.store.report
    if report.is_clean():
        return
    broker.notices.append(
        f"Stream '{stream.account.name} > {stream.name}' recovered with damage: {len(report.lost)} messages lost, "
        f"{report.cut_bytes} bytes of an unfinished write cut, {report.damaged_bytes} bytes unreadable"
    )


class MessageIdReader:
    """Puts the ids of stored messages back into a duplicate window."""

    def __init__(self, window: DedupeWindow) -> None:
        self._window = window

    def read(self, view: RecordView) -> None:
        message_id = headers.find_value(view.header(), MESSAGE_ID)
        if message_id:
            self._window.remember(message_id, view.seq, view.ts_ns)


def recover_message_ids(stream: Stream) -> None:
    window = stream.dedupe
    store = stream.store
    if window.window_ns > 0:
        store.scan_headers(stream.broker.now_ns - window.window_ns, MessageIdReader(window).read)
    if store.last_seq > 0 and store.view(store.last_seq, stream.view):
        window.last_id = headers.find_value(stream.view.header(), MESSAGE_ID) or b""


# -- consumers -------------------------------------------------------------------------------------------------------


def recover_consumer(jetstream: JetStream, stream: Stream, folder: str, document: bytes) -> None:
    broker = jetstream.broker
    fields = read_document(broker, folder, document)
    if fields is None:
        return
    created_ns = take_created(fields, broker.now_ns)
    name = str(fields.pop(NAME_KEY, ""))
    list_until = fields.pop(LIST_UNTIL_KEY, 0)
    try:
        config = ConsumerConfig.decode(fields)
    except ApiError as error:
        broker.notices.append(f"Consumer in {folder} is not recovered: {error.description}")
        return
    log, state, report = open_consumer_log(broker.disk, folder)
    if not report.is_clean():
        broker.notices.append(f"Consumer '{stream.name} > {name}' recovered with damage to its log")
    # Activity is counted from the start of the server, as nats-server does.
    state.last_delivered_ts_ns = 0
    state.last_ack_ts_ns = 0
    consumer = Consumer(stream, name, config, log, state, created_ns)
    consumer.list_until_seq = int(list_until)
    if log.size == 0 and state.delivered_consumer_seq == 0 and report.is_clean():
        # Made and never committed a state: it starts as if new, and that is written down.
        position.place(consumer)
        log.snapshot(state)
        consumer.mark_dirty()
    else:
        find_place(consumer)
    attach(jetstream, consumer)


def attach(jetstream: JetStream, consumer: Consumer) -> None:
    """Let a consumer that has found its place take part again."""
    jetstream.attach(consumer)
    pause_until = consumer.config.pause_until
    if pause_until is not None:
        consumer.lifecycle.pause(pause_until.unix_ns)
    if consumer.state.pending:
        consumer.look_at_acks()
    consumer.update_wants()


def find_place(consumer: Consumer) -> None:
    """Where to go on: after what was delivered, within what the stream still has."""
    store = consumer.stream.store
    state = consumer.state
    pull_back(consumer, store.last_seq)
    if consumer.ack_policy == ACK_NONE:
        # Delivered is done: the log need not say so each time.
        state.floor_consumer_seq = state.delivered_consumer_seq
        state.floor_stream_seq = state.delivered_stream_seq
    gone = [seq for seq in state.pending if not store.is_live(seq)]
    for seq in gone:
        del state.pending[seq]
        state.redelivered.pop(seq, None)
        consumer.log.forgotten(seq)
    if gone:
        if not state.pending:
            state.floor_consumer_seq = state.delivered_consumer_seq
            state.floor_stream_seq = state.delivered_stream_seq
            consumer.log.floor(state.floor_consumer_seq, state.floor_stream_seq)
        consumer.mark_dirty()
    consumer.next_seq = max(state.delivered_stream_seq + 1, store.first_seq, 1)
    until = consumer.list_until_seq
    if consumer.config.deliver_policy == DeliverPolicy.LAST_PER_SUBJECT and state.delivered_stream_seq < until:
        position.list_last_per_subject(consumer, state.delivered_stream_seq, until)
        consumer.next_seq = max(until + 1, store.first_seq)
    consumer.recount()


def pull_back(consumer: Consumer, last_seq: i64) -> None:
    """The stream lost its newest messages: what the consumer knew of them never happened."""
    state = consumer.state
    # A consumer may have been told to start later than anything stored; that is not being ahead.
    if state.delivered_consumer_seq == 0 or state.delivered_stream_seq <= last_seq:
        return
    for seq in [seq for seq in state.pending if seq > last_seq]:
        del state.pending[seq]
    for seq in [seq for seq in state.redelivered if seq > last_seq]:
        del state.redelivered[seq]
    state.delivered_stream_seq = last_seq
    if state.floor_stream_seq > last_seq:
        state.floor_stream_seq = last_seq
    consumer.log.snapshot(state)
    consumer.mark_dirty()
