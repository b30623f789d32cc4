"""Mirrors and sources within the server.

A mirror has the sequences and times of its origin; gaps there are gaps here, so its own last sequence is its position.
A sourcing stream gives new sequences and says in a header where each message is from; its positions are kept in
`source_positions.py`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.stream_config import Discard, Retention, StreamConfig, StreamSource
from jetspark.api.timestamps import format_time
from jetspark.broker import ingest
from jetspark.broker.bounds import bounded_sequence, bounded_time
from jetspark.broker.feed import Feed
from jetspark.broker.publish import STREAM_SOURCE, Publish
from jetspark.broker.source_positions import SourcePositions
from jetspark.protocol import headers
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream

_DIGITS: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def verify_origins(config: StreamConfig, domain: str) -> None:
    """ApiError for origins that only another server could be."""
    origins = list(config.sources)
    if config.mirror is not None:
        origins.append(config.mirror)
    for origin in origins:
        if origin.external is not None and (not domain or origin.external.api != f"$JS.{domain}.API"):
            raise make(ErrorCode.STREAM_INVALID_CONFIG, err="external streams are not supported by this server")
        if origin.consumer is not None:
            raise make(ErrorCode.STREAM_INVALID_CONFIG, err="stream source consumers are not supported by this server")


def short_hash(text: str) -> bytes:
    """Eight characters that stand for a text, as nats-server makes them."""
    digest = sha256(text.encode()).digest()
    return bytes([_DIGITS[byte % 62] for byte in digest[:8]])


def identity_of(stream: Stream) -> bytes:
    """Tells a stream from one of the same name that was made at another time."""
    return short_hash(format_time(stream.created_ns))


def index_name(source: StreamSource) -> bytes:
    """What tells the sources of a stream apart: name, filters and destinations, as the source header has them."""
    name = source.name.encode()
    if source.external is not None:
        name += b":" + short_hash(source.external.api)
    if not source.subject_transforms:
        return b"%s %s >" % (name, source.filter_subject.encode() or b">")
    filters = b"\f".join([each.src.encode() or b">" for each in source.subject_transforms])
    destinations = b"\f".join([each.dest.encode() or b">" for each in source.subject_transforms])
    return b"%s %s %s" % (name, filters, destinations)


class MirrorFeed(Feed):
    """Makes a stream the mirror of its origin."""

    def __init__(self, stream: Stream, config: StreamSource) -> None:
        super().__init__(stream, config)
        settings = stream.config
        # Nothing can be said against a message without headers: it is copied without being looked at.
        self._is_simple: bool = (
            settings.retention != Retention.INTEREST
            and settings.discard == Discard.OLD
            and settings.republish is None
            and settings.subject_transform is None
            and settings.max_msg_size <= 0
            and not settings.sealed
        )

    def _prepare(self, origin: Stream) -> None:
        store = self.stream.store
        start = store.last_seq + 1
        if start == 1:
            # Only a mirror that never held anything looks at where it was told to start.
            if self.config.opt_start_seq > 0:
                start = bounded_sequence(self.config.opt_start_seq)
            elif self.config.opt_start_time is not None:
                start = origin.store.seq_at_time(bounded_time(self.config.opt_start_time.unix_ns))
        start = max(start, origin.store.first_seq)
        if start - 1 > store.last_seq:
            store.skip_to(start - 1, store.last_ts_ns)
            self.stream.mark_dirty()
        self.position = store.last_seq
        self._next_seq = start

    def _take(self, view: RecordView) -> bool:
        stream = self.stream
        if view.header_size == 0 and self._is_simple and stream.failed_until_ns == 0:
            subject = self.copied_subject(view.subject)
            stream.put_copy(view.seq, view.ts_ns, subject, 0, view.message())
            if stream.retention.limited:
                stream.retention.after_append(subject, view.seq)
            return True
        publish = Publish(self.copied_subject(view.subject), b"", self.copied_header(view, []), view.payload())
        publish.copy_seq = view.seq
        publish.copy_ts_ns = view.ts_ns
        return stream.store_own(publish)


class SourceFeed(Feed):
    """Adds an origin's messages to a stream."""

    def __init__(self, stream: Stream, config: StreamSource, positions: SourcePositions) -> None:
        super().__init__(stream, config)
        self._positions = positions
        self.index_name: bytes = index_name(config)
        words = self.index_name.split(b" ")
        self._origin_label: bytes = words[0]
        self._rules_label: bytes = words[1] + b" " + words[2]
        self._identity: bytes = b""

    def _prepare(self, origin: Stream) -> None:
        known = self._positions.get(self.index_name)
        self._identity = identity_of(origin)
        is_another = bool(known.identity) and known.identity != self._identity
        self.position = 0 if is_another else known.seq
        if self.position > 0:
            self._next_seq = self.position + 1
        elif self.config.opt_start_seq > 0:
            self._next_seq = bounded_sequence(self.config.opt_start_seq)
        else:
            self._next_seq = self._first_by_time(origin, is_another)

    def _first_by_time(self, origin: Stream, is_another: bool) -> i64:
        """Without a position: the time asked for, or the time of the last message here if the stream has forgotten
        some, for they may have been from this origin."""
        store = self.stream.store
        wanted = self.config.opt_start_time
        if wanted is not None:
            return origin.store.seq_at_time(max(bounded_time(wanted.unix_ns), store.last_ts_ns))
        if store.first_seq > 1 and store.last_ts_ns > 0 and not is_another:
            return origin.store.seq_at_time(store.last_ts_ns)
        return 1

    def _take(self, view: RecordView) -> bool:
        origin = b"%s %d %s %s %s" % (
            self._origin_label,
            view.seq,
            self._rules_label,
            view.subject,
            self._identity,
        )
        header = headers.append_headers(self.copied_header(view, [STREAM_SOURCE]), [(STREAM_SOURCE, origin)])
        publish = Publish(self.copied_subject(view.subject), b"", header, view.payload())
        try:
            # A duplicate is not stored, and not missed.
            ingest.store_own(self.stream, publish)
        except ApiError:
            return False
        self._positions.moved(self.index_name, view.seq, self._identity)
        return True
