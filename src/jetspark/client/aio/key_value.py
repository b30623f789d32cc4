"""Key-value buckets: a stream that keeps the last values of every key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from jetspark.api.stream_config import Discard, StreamConfig
from jetspark.api.timestamps import parse_time
from jetspark.client.aio.msg import Msg
from jetspark.client.aio.stream import StoredMsg, Stream
from jetspark.client.api_errors import MessageNotFoundError, StreamNotFoundError, WrongLastSequenceError
from jetspark.client.configs import stream_config
from jetspark.client.durations import Seconds, nanoseconds, seconds
from jetspark.client.errors import (
    BadOptionError,
    BucketNotFoundError,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    KeyRevisionError,
)
from jetspark.client.headers import Headers
from jetspark.clock import SystemClock

if TYPE_CHECKING:
    from jetspark.client.aio.consuming import Consuming
    from jetspark.client.aio.jetstream import JetStream
    from jetspark.client.aio.ordered import OrderedConsumer

_BUCKET: Final = re.compile(r"^[a-zA-Z0-9_-]+$")
_KEY: Final = re.compile(r"^[-/_=.a-zA-Z0-9]+$")
_PATTERN: Final = re.compile(r"^[-/_=.a-zA-Z0-9*]*>?$")
HISTORY_MAX: Final = 64
PUT: Final = "PUT"
DELETE: Final = "DEL"
PURGE: Final = "PURGE"
_TWO_MINUTES_NS: Final = 120 * 10**9


@dataclass(frozen=True, slots=True)
class KeyValueEntry:
    """One value of a key, or a marker that it was deleted."""

    bucket: str
    """The name of the bucket."""
    key: str
    """The key."""
    value: bytes
    """The value; empty if the key was deleted."""
    revision: int
    """The revision: the sequence in the bucket's stream."""
    timestamp_ns: int
    """When it was stored, in nanoseconds since 1970."""
    operation: str
    """PUT, DEL or PURGE."""
    pending_count: int = 0
    """In a watch: how many current values are still to come."""

    @property
    def is_deleted(self) -> bool:
        """Whether this is a marker without a value."""
        return self.operation != PUT


@dataclass(frozen=True, slots=True)
class KeyValueStatus:
    """Settings and size of a bucket."""

    bucket: str
    """The name of the bucket."""
    value_count: int
    """Number of stored values, with history and markers."""
    byte_count: int
    """Bytes used."""
    history: int
    """Values kept for each key."""
    ttl_s: float
    """Seconds a value is kept; 0 without a limit."""


def check_bucket(bucket: str) -> str:
    """The name of a bucket, when it can be one."""
    if not _BUCKET.match(bucket):
        raise BadOptionError(f"not a bucket name: {bucket!r}")
    return bucket


def check_key(key: str) -> str:
    """A key, when it can be one."""
    if not _KEY.match(key) or key[0] == "." or key[-1] == "." or ".." in key:
        raise BadOptionError(f"not a key: {key!r}")
    return key


@contextmanager
def named_bucket(bucket: str) -> Iterator[None]:
    """A stream that is not there is told as the bucket it stands for."""
    try:
        yield
    except StreamNotFoundError:
        raise BucketNotFoundError(bucket) from None


def _operation(headers: Headers) -> str:
    told = headers.get("KV-Operation", "")
    if told in (DELETE, PURGE):
        return told
    # A marker the server itself left when the last value's time was over.
    reason = headers.get("Nats-Marker-Reason", "")
    return {"": PUT, "MaxAge": PURGE, "Purge": PURGE}.get(reason, DELETE)


def bucket_config(bucket: str, settings: dict[str, Any]) -> StreamConfig:
    """The stream behind a bucket."""
    history = int(settings.pop("history", 1))
    if not 1 <= history <= HISTORY_MAX:
        raise BadOptionError(f"history is 1 to {HISTORY_MAX}")
    ttl = settings.pop("ttl", 0)
    marker_ttl = settings.pop("limit_marker_ttl", 0)
    max_value_size = int(settings.pop("max_value_size", -1))
    # A mirror has the subjects of its origin.
    is_mirror = bool(settings.get("mirror"))
    base = StreamConfig(
        name=f"KV_{check_bucket(bucket)}",
        subjects=() if is_mirror else (f"$KV.{bucket}.>",),
        mirror_direct=is_mirror,
        max_msgs_per_subject=history,
        max_msg_size=max_value_size,
        discard=Discard.NEW,
        allow_rollup_hdrs=True,
        deny_delete=True,
        allow_direct=True,
        max_age=nanoseconds(ttl) if ttl else 0,
        duplicate_window=min(_TWO_MINUTES_NS, nanoseconds(ttl)) if ttl else _TWO_MINUTES_NS,
    )
    if marker_ttl:
        base = replace(base, allow_msg_ttl=True, subject_delete_marker_ttl=nanoseconds(marker_ttl))
    return stream_config(base, "", settings)


class KeyValue:
    """One key-value bucket."""

    def __init__(self, jetstream: JetStream, bucket: str, stream: Stream) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self.bucket = bucket
        mirror = stream.cached_info.config.mirror
        # The keys of a mirror are those of the origin, and what is written goes there.
        self._prefix = f"$KV.{mirror.name.removeprefix('KV_') if mirror else bucket}."
        self._put_prefix = jetstream._bucket_prefix + self._prefix
        if mirror and mirror.external is not None:
            self._put_prefix = f"{mirror.external.api}.{self._prefix}"

    async def get(self, key: str, *, revision: int = 0) -> KeyValueEntry:
        """The current value of a key, or the one of a revision; KeyNotFoundError if there is none.

        BucketNotFoundError if the bucket is gone, RequestTimeoutError if its servers do not answer.
        """
        entry = await self._entry(check_key(key), revision)
        if entry.is_deleted:
            raise KeyDeletedError(key, entry.revision)
        return entry

    async def _entry(self, key: str, revision: int) -> KeyValueEntry:
        try:
            with named_bucket(self.bucket):
                if revision:
                    stored = await self._stream.get_msg(revision)
                else:
                    stored = await self._stream.get_msg(last_by_subject=self._prefix + key)
        except MessageNotFoundError:
            raise KeyNotFoundError(key) from None
        if stored.subject != self._prefix + key:
            raise KeyNotFoundError(key)
        return self._read(stored)

    def _read(self, stored: StoredMsg) -> KeyValueEntry:
        key = stored.subject[len(self._prefix) :]
        operation = _operation(stored.headers)
        return KeyValueEntry(self.bucket, key, stored.data, stored.seq, stored.timestamp_ns, operation)

    async def put(self, key: str, value: bytes | str) -> int:
        """Set the value of a key. Returns the new revision."""
        ack = await self._jetstream.publish(self._put_prefix + check_key(key), value)
        return ack.seq

    async def create(self, key: str, value: bytes | str, *, ttl: Seconds | None = None) -> int:
        """Set the value of a key that has none; otherwise KeyExistsError. Returns the new revision.

        With `ttl` the value expires after that time; the bucket needs `limit_marker_ttl`.
        """
        try:
            return await self._put_if(key, value, 0, ttl)
        except KeyRevisionError:
            entry = await self._entry(key, 0)
            if not entry.is_deleted:
                raise KeyExistsError(key, entry.revision) from None
            return await self._put_if(key, value, entry.revision, ttl)

    async def update(self, key: str, value: bytes | str, last: int) -> int:
        """Set the value of a key if its revision is still `last`, else KeyRevisionError. Returns the new revision."""
        return await self._put_if(key, value, last, None)

    async def _put_if(self, key: str, value: bytes | str, last: int, ttl: Seconds | None) -> int:
        subject = self._put_prefix + check_key(key)
        try:
            ack = await self._jetstream.publish(subject, value, expect_last_subject_seq=last, ttl=ttl)
        except WrongLastSequenceError as error:
            raise KeyRevisionError(key, last) from error
        return ack.seq

    async def delete(self, key: str, *, last: int | None = None) -> None:
        """Delete the value of a key. Its history stays."""
        await self._mark(key, {"KV-Operation": DELETE}, last, None)

    async def purge(self, key: str, *, last: int | None = None, ttl: Seconds | None = None) -> None:
        """Delete the value of a key and its history."""
        await self._mark(key, {"KV-Operation": PURGE, "Nats-Rollup": "sub"}, last, ttl)

    async def _mark(self, key: str, headers: dict[str, str], last: int | None, ttl: Seconds | None) -> None:
        subject = self._put_prefix + check_key(key)
        try:
            await self._jetstream.publish(subject, b"", headers=headers, expect_last_subject_seq=last, ttl=ttl)
        except WrongLastSequenceError as error:
            raise KeyRevisionError(key, last or 0) from error

    async def watch(
        self,
        keys: str | Iterable[str] = ">",
        *,
        include_history: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        updates_only: bool = False,
        from_revision: int = 0,
    ) -> KeyWatcher:
        """The current values of some keys, then every change.

        Iterate over it: you get entries, and one None after the current values.
        """
        patterns = [keys] if isinstance(keys, str) else list(keys)
        if not patterns:
            raise BadOptionError("keys is empty: name keys or patterns, or leave it out for all of them")
        for pattern in patterns:
            if not pattern or not _PATTERN.match(pattern):
                raise BadOptionError(f"not a key or pattern: {pattern!r}")
        options: dict[str, Any] = {"filter_subjects": [self._prefix + pattern for pattern in patterns]}
        if updates_only:
            options["deliver_policy"] = "new"
        elif from_revision:
            options["opt_start_seq"] = from_revision
        elif not include_history:
            options["deliver_policy"] = "last_per_subject"
        if meta_only:
            options["headers_only"] = True
        consumer = await self._stream.ordered_consumer(**options)
        with named_bucket(self.bucket):
            await consumer.make()
        has_values = consumer.cached_info.num_pending > 0
        return KeyWatcher(self, consumer, ignore_deletes, has_values, updates_only)

    async def keys(self, pattern: str = ">") -> list[str]:
        """All keys that have a value."""
        async with await self.watch(pattern, ignore_deletes=True, meta_only=True) as watcher:
            return sorted({entry.key for entry in await watcher.initial()})

    async def history(self, key: str) -> list[KeyValueEntry]:
        """The stored values of a key, oldest first; KeyNotFoundError if there are none."""
        async with await self.watch(check_key(key), include_history=True) as watcher:
            entries = await watcher.initial()
        if not entries:
            raise KeyNotFoundError(key)
        return entries

    async def purge_deletes(self, *, older_than: Seconds = 1800) -> int:
        """Free the space of deleted keys: remove their history, and their markers if they are older than `older_than`.

        Returns the number of keys of which something was removed. With 0 all markers are removed.
        """
        async with await self.watch(meta_only=True) as watcher:
            entries = await watcher.initial()
        threshold_ns = nanoseconds(older_than)
        # By the clock that dated the marks.
        told = (await self._stream.info()).raw.get("ts")
        now_ns = parse_time(told).unix_ns if told else SystemClock().now_ns()
        count = 0
        for entry in entries:
            if entry.is_deleted:
                is_young = threshold_ns > 0 and now_ns - entry.timestamp_ns < threshold_ns
                count += await self._stream.purge(subject=self._prefix + entry.key, keep=1 if is_young else 0) > 0
        return count

    async def status(self) -> KeyValueStatus:
        """Settings and size of the bucket."""
        with named_bucket(self.bucket):
            info = await self._stream.info()
        config, state = info.config, info.state
        history = max(1, config.max_msgs_per_subject)
        return KeyValueStatus(self.bucket, state.messages, state.bytes, history, config.max_age / 1e9)


class KeyWatcher:
    """A running watch. Use it as a context manager, or stop it."""

    def __init__(
        self, bucket: KeyValue, consumer: OrderedConsumer, ignore_deletes: bool, has_values: bool, updates_only: bool
    ) -> None:
        self._bucket = bucket
        self._ignore_deletes = ignore_deletes
        self._messages: Consuming = consumer.consume_made()
        self._initial_done = False
        self._marks_now = not has_values and not updates_only
        if updates_only:
            self._initial_done = True

    def __aiter__(self) -> KeyWatcher:
        return self

    async def __anext__(self) -> KeyValueEntry | None:
        while True:
            if self._marks_now:
                self._marks_now = False
                self._initial_done = True
                return None
            entry = self._entry(await self._messages.__anext__())
            if not self._initial_done and entry.pending_count == 0:
                self._marks_now = True
            if self._ignore_deletes and entry.is_deleted:
                continue
            return entry

    async def next(self, timeout: Seconds | None = None) -> KeyValueEntry | None:
        """The next entry, or None after the current values; also None if nothing arrived in time."""
        deadline_s = None if timeout is None else self._messages._link.now() + seconds(timeout)
        while not self._marks_now:
            left_s = None if deadline_s is None else max(0.0, deadline_s - self._messages._link.now())
            message = await self._messages.next(left_s)
            if message is None:
                return None
            entry = self._entry(message)
            if not self._initial_done and entry.pending_count == 0:
                self._marks_now = True
            if not (self._ignore_deletes and entry.is_deleted):
                return entry
        self._marks_now = False
        self._initial_done = True
        return None

    async def initial(self) -> list[KeyValueEntry]:
        """All current values."""
        entries: list[KeyValueEntry] = []
        while not self._initial_done:
            entry = await self.__anext__()
            if entry is not None:
                entries.append(entry)
        return entries

    def _entry(self, message: Msg) -> KeyValueEntry:
        metadata = message.metadata
        key = message.subject[len(self._bucket._prefix) :]
        return KeyValueEntry(
            self._bucket.bucket,
            key,
            message.data,
            metadata.stream_sequence,
            metadata.timestamp_ns,
            _operation(message.headers) if message.header_block else PUT,
            metadata.pending_count,
        )

    async def stop(self) -> None:
        """Stop watching."""
        await self._messages.stop()

    async def __aenter__(self) -> KeyWatcher:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if not self._messages._link.is_closed:
            await self.stop()


async def open_bucket(jetstream: JetStream, bucket: str) -> KeyValue:
    """A bucket that exists."""
    with named_bucket(bucket):
        return KeyValue(jetstream, bucket, await jetstream.stream(f"KV_{check_bucket(bucket)}"))
