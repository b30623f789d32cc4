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
from jetspark.broker.bounds import bounded_sequence
from jetspark.broker.consumer import damage, position
from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.consumer.outcomes import ACK_NONE
from jetspark.broker.consumer.pull_queue import read_failure
from jetspark.broker.dedupe import DedupeWindow
from jetspark.broker.offline import Offline
from jetspark.broker.publish import MESSAGE_ID
from jetspark.broker.stream import Stream
from jetspark.protocol import headers
from jetspark.store import meta
from jetspark.store.consumer_log import ConsumerReport, open_consumer_log
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
# Where a reset asked a consumer to start, which may be ahead of its stream; ours, too.
ASKED_KEY: Final = "jetspark_asked_seq"
# In the folder of a stream that is still being restored.
RESTORE_MARK: Final = "restore.inf"


# -- documents -------------------------------------------------------------------------------------------------------


def verify_writable(config: StreamConfig | ConsumerConfig) -> None:
    """Raise what writing this configuration would raise: a change that can not be written must not be in force."""
    encode_json(config.encode())


def stream_document(stream: Stream) -> bytes:
    """What is written down about a stream."""
    return encode_json({CREATED_KEY: format_time(stream.created_ns), **stream.config.encode()})


def consumer_document(consumer: Consumer) -> bytes:
    """What is written down about a consumer, besides its state."""
    document: dict[str, Any] = {CREATED_KEY: format_time(consumer.created_ns), NAME_KEY: consumer.name}
    if consumer.list_until_seq > 0:
        document[LIST_UNTIL_KEY] = consumer.list_until_seq
    if consumer.asked_seq > 0:
        document[ASKED_KEY] = consumer.asked_seq
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


class NotRecovered(Exception):
    """Why a stream or consumer stays offline."""


def account_names(broker: Broker) -> list[str]:
    """Accounts that have streams on disk."""
    names: list[str] = []
    for root in meta.list_roots(broker.disk, f"{broker.options.store_dir}/jetstream"):
        escaped = root.rpartition("/")[2]
        name = meta.unescape(escaped)
        if name and meta.escape(name) == escaped:
            names.append(name)
        elif "%%" not in escaped:
            broker.notices.append(f"{printable(root)} is ignored: no account's folder is called so")
    return names


def recover_account(jetstream: JetStream) -> None:
    """Every stream of the account that the disk has. One that cannot be recovered keeps nobody else from it."""
    broker = jetstream.broker
    try:
        listing = meta.list_streams(broker.disk, jetstream.root())
    except OSError as error:
        jetstream.offline.unlisted = f"the streams of the account cannot be listed: {error.strerror or error}"
        broker.notices.append(f"Streams of account '{jetstream.account.name}' are not recovered: {error}")
        return
    for folder, reason in listing.damaged:
        if not is_unfinished_restore(broker, folder):
            set_offline(jetstream, Offline(folder, name_of(folder), reason))
    for folder, reason in listing.strays:
        if not is_unfinished_restore(broker, folder):
            set_stray(jetstream, Offline(folder, name_of(folder), reason))
    report_repairs(broker, listing)
    for folder, document in listing.found:
        try_stream(jetstream, folder, document)
    for stream in jetstream.streams.values():
        # Only now is it known who copies whom.
        stream.has_offline_readers = jetstream.offline.has_readers_of(stream.name)
        if stream.keeps_by_interest:
            stream.retention.drop_consumed()
            if stream.store.has_pending:
                stream.mark_dirty()


def report_repairs(broker: Broker, listing: meta.MetaListing) -> None:
    for folder in listing.repaired:
        broker.notices.append(f"{printable(folder)}: one copy of its description was damaged and is written anew")


def is_unfinished_restore(broker: Broker, folder: str) -> bool:
    """Is this a restore that never came to its end? Nobody was told that it had: it goes."""
    disk = broker.disk
    try:
        if disk.size(f"{folder}/{RESTORE_MARK}") < 0 or disk.size(f"{folder}/{meta.META_NAME}") >= 0:
            return False
        disk.perform(DiskOp(REMOVE_TREE, folder))
        return True
    except OSError:
        return False


def name_of(folder: str) -> str:
    """The name of what is in a folder, as far as that tells."""
    return printable(meta.unescape(folder.rpartition("/")[2]))


def printable(text: str) -> str:
    """A name or path that may hold bytes which are no characters, for logs and answers."""
    return text.encode("utf-8", "backslashreplace").decode()


def consumer_offline(stream: Stream, folder: str, reason: str) -> Offline:
    offline = Offline(folder, name_of(folder), reason)
    offline.stream_name = stream.name
    return offline


def set_offline(jetstream: JetStream, offline: Offline) -> None:
    """Keep its name and its folder from being used, and say so."""
    escaped = offline.folder.rpartition("/")[2]
    if "%%" not in escaped and meta.escape(meta.unescape(escaped)) != escaped:
        # Whatever it is, it was not made here, and no stream or consumer can have that name.
        set_stray(jetstream, offline)
        return
    jetstream.offline.add(offline)
    kind = "Consumer" if offline.stream_name else "Stream"
    where = f"{offline.stream_name} > {offline.name}" if offline.stream_name else offline.name
    jetstream.broker.notices.append(
        f"{kind} '{jetstream.account.name} > {where}' is offline: {offline.reason} ({offline.folder})"
    )


def set_stray(jetstream: JetStream, offline: Offline) -> None:
    offline.is_stray = True
    jetstream.offline.add(offline)
    jetstream.broker.notices.append(f"{printable(offline.folder)} is ignored: {offline.reason}")


def explain(error: Exception) -> str:
    """What went wrong, in words for a client: without the names of files."""
    if isinstance(error, OSError):
        return f"its files cannot be read: {error.strerror or error}"
    if isinstance(error, ApiError):
        return f"its description is not valid: {error.description}"
    return str(error) if isinstance(error, NotRecovered) else f"{type(error).__name__}: {error}"


def try_stream(jetstream: JetStream, folder: str, document: bytes) -> None:
    """The stream in a folder; offline if anything is wrong with it."""
    offline = Offline(folder, name_of(folder), "")
    try:
        fields = read_document(document)
        created_ns = take_created(fields, jetstream.broker.now_ns)
        config = StreamConfig.decode(fields)
        if jetstream.stream_path(config.name) != folder:
            raise NotRecovered(f"its description is that of stream '{config.name}'")
        offline.config = config
        offline.name = config.name
        recover_stream(jetstream, folder, config, created_ns)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this stream's, and the others must run
        offline.reason = explain(error)
        jetstream.offline.remove(folder)
        set_offline(jetstream, offline)
        if offline.config is not None and offline.name in jetstream.streams:
            retire(jetstream, jetstream.streams[offline.name])


def take_offline(jetstream: JetStream, stream: Stream, error: OSError) -> None:
    """A running stream is beyond use; its files are as the last commit left them, for the next start to read."""
    offline = Offline(jetstream.stream_path(stream.name), stream.name, explain(error))
    offline.config = stream.config
    set_offline(jetstream, offline)
    for consumer in stream.consumers.values():
        consumer.pulls.end_all(read_failure(error))
    retire(jetstream, stream)


def retire(jetstream: JetStream, stream: Stream) -> None:
    """Stop a stream that is offline now."""
    # Those it copies must not take it for gone.
    for other in jetstream.streams.values():
        other.has_offline_readers = jetstream.offline.has_readers_of(other.name)
    jetstream.withdraw(stream)


def read_document(document: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(document)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise NotRecovered("its description is not a document")
    return fields


def take_created(fields: dict[str, Any], now_ns: int) -> int:
    """When it was made; the entry is taken out, because it is not part of the configuration."""
    text = fields.pop(CREATED_KEY, None)
    return parse_time(text).unix_ns if isinstance(text, str) else now_ns


def recover_stream(jetstream: JetStream, folder: str, config: StreamConfig, created_ns: int) -> None:
    broker = jetstream.broker
    listing = meta.list_consumers(broker.disk, jetstream.root(), config.name)
    store = open_stream_store(broker.disk, folder, store_options(broker, config))
    stream = Stream(broker, jetstream.account, config, store, created_ns)
    report_store(broker, stream)
    recover_message_ids(stream)
    jetstream.register(stream)
    for damaged, reason in listing.damaged:
        set_offline(jetstream, consumer_offline(stream, damaged, reason))
    for stray, reason in listing.strays:
        set_stray(jetstream, consumer_offline(stream, stray, reason))
    report_repairs(broker, listing)
    for consumer_folder, document in listing.found:
        try_consumer(jetstream, stream, consumer_folder, document)
    stream.has_offline_readers = jetstream.offline.has_readers_of(stream.name)
    join(stream)
    if store.has_pending:
        stream.mark_dirty()


def join(stream: Stream) -> None:
    """The stream and its consumers are there again: what its rules ask for happens now."""
    stream.retention.enforce_all(is_start=True)
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
        + "".join(f", {path} is not a readable block" for path in report.blocks_unreadable)
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


def try_consumer(jetstream: JetStream, stream: Stream, folder: str, document: bytes) -> None:
    """The consumer in a folder; offline if anything is wrong with it."""
    offline = consumer_offline(stream, folder, "")
    try:
        fields = read_document(document)
        created_ns = take_created(fields, jetstream.broker.now_ns)
        name = str(fields.pop(NAME_KEY, ""))
        list_until = int(fields.pop(LIST_UNTIL_KEY, 0))
        asked_seq = bounded_sequence(int(fields.pop(ASKED_KEY, 0)))
        config = ConsumerConfig.decode(fields)
        if jetstream.consumer_path(stream.name, name) != folder:
            raise NotRecovered(f"its description is that of consumer '{name}'")
        offline.consumer_config = config
        offline.name = name
        recover_consumer(jetstream, stream, folder, Described(name, config, created_ns, list_until, asked_seq))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this consumer's, and the others must run
        offline.reason = explain(error)
        set_offline(jetstream, offline)


class Described:
    """What the description of a consumer says."""

    def __init__(self, name: str, config: ConsumerConfig, created_ns: int, list_until: int, asked_seq: int) -> None:
        self.name = name
        self.config = config
        self.created_ns = created_ns
        self.list_until = list_until
        self.asked_seq = asked_seq


def recover_consumer(jetstream: JetStream, stream: Stream, folder: str, described: Described) -> None:
    broker = jetstream.broker
    name = described.name
    log, state, report = open_consumer_log(broker.disk, folder)
    # Activity is counted from the start of the server, as nats-server does.
    state.last_delivered_ts_ns = 0
    state.last_ack_ts_ns = 0
    consumer = Consumer(stream, name, described.config, log, state, described.created_ns)
    consumer.list_until_seq = described.list_until
    consumer.asked_seq = described.asked_seq
    try:
        take_place(consumer, report)
    except OSError:
        # Its timers may run already.
        consumer.deleted = True
        raise
    attach(jetstream, consumer)
    if consumer.list_until_seq != described.list_until:
        jetstream.save_consumer(consumer, consumer.config)


def take_place(consumer: Consumer, report: ConsumerReport) -> None:
    """Where it goes on, by what its log says."""
    log, state = consumer.log, consumer.state
    if log.size == 0 and state.delivered_consumer_seq == 0 and report.is_clean():
        # Made and never committed a state: it starts as if new, and that is written down.
        position.place(consumer)
        log.snapshot(state)
        consumer.mark_dirty()
        return
    if report.damaged_frames > 0:
        owed = 0 if consumer.ack_policy == ACK_NONE else damage.settle(consumer, report.gaps)
        consumer.broker.notices.append(
            f"Consumer '{consumer.stream.name} > {consumer.name}' recovered with damage to its log: "
            f"{owed} messages are delivered again because it is not known whether they were acknowledged"
        )
    elif not report.is_clean():
        consumer.broker.notices.append(
            f"Consumer '{consumer.stream.name} > {consumer.name}' recovered with damage to its log: "
            f"{report.cut_bytes} bytes of an unfinished write cut"
        )
    find_place(consumer)


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
    pull_back(consumer, position.furthest_place(consumer))
    if consumer.ack_policy == ACK_NONE:
        # Delivered is done: the log need not say so each time.
        state.floor_consumer_seq = state.delivered_consumer_seq
        state.floor_stream_seq = state.delivered_stream_seq
    gone = [seq for seq in state.pending if not store.is_live(seq)]
    for seq in gone:
        del state.pending[seq]
        state.redelivered.pop(seq, None)
        consumer.log.forgotten(seq)
    # A message given up may have left with the last commit, which did not get as far as this log.
    given_up = [seq for seq in state.redelivered if not store.is_live(seq)]
    for seq in given_up:
        del state.redelivered[seq]
        consumer.log.forgotten(seq)
    if given_up:
        consumer.mark_dirty()
    if gone:
        if not state.pending:
            state.floor_consumer_seq = state.delivered_consumer_seq
            state.floor_stream_seq = state.delivered_stream_seq
            consumer.log.floor(state.floor_consumer_seq, state.floor_stream_seq)
        consumer.mark_dirty()
    consumer.next_seq = max(state.delivered_stream_seq + 1, store.first_seq, 1)
    # Messages that were lost are on no list; those stored in their place are not old.
    until = consumer.list_until_seq = min(consumer.list_until_seq, store.last_seq)
    if consumer.config.deliver_policy == DeliverPolicy.LAST_PER_SUBJECT and state.delivered_stream_seq < until:
        position.list_last_per_subject(consumer, state.delivered_stream_seq, until)
        consumer.next_seq = max(until + 1, store.first_seq)
    consumer.recount()


def pull_back(consumer: Consumer, last_seq: i64) -> None:
    """The stream lost its newest messages: what the consumer knew of them never happened."""
    state = consumer.state
    if state.delivered_stream_seq <= last_seq:
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
