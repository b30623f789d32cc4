# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""Object stores: things too large for a message, kept as chunks in a stream with a digest.

What is written goes to `$O.…` as it is, also for the store of another domain: nats-server has no subject that reaches
the stores of one domain only (as it has for key-value buckets). It lets `$O.…` pass between a hub and its leaves, so a
store of the same name on the way gets a copy.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec

from jetspark.api.stream_config import Discard, StreamConfig
from jetspark.client.api_errors import MessageNotFoundError
from jetspark.client.configs import stream_config
from jetspark.client.durations import Seconds, nanoseconds
from jetspark.client.errors import (
    BadOptionError,
    JetsparkError,
    ObjectDamagedError,
    ObjectLinkError,
    ObjectNotFoundError,
)
from jetspark.client.sync.key_value import check_bucket, named_bucket
from jetspark.client.sync.stream import Stream
from jetspark.client.sync.waiting import blocking

if TYPE_CHECKING:
    from jetspark.client.sync.consuming import Consuming
    from jetspark.client.sync.jetstream import JetStream
    from jetspark.client.sync.ordered import OrderedConsumer
    from jetspark.client.sync.publishing import PublishFuture

CHUNK_BYTES: Final = 128 * 1024
_DIGEST: Final = "SHA-256="
# A link to a link to … is followed this far.
LINK_DEPTH_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Name, size, checksum and other facts of an object. A link has a target instead of chunks."""

    name: str
    """The name of the object."""
    bucket: str
    """The name of the store."""
    nuid: str = ""
    """The id of this version of the object."""
    size: int = 0
    """Size in bytes."""
    chunks: int = 0
    """Number of chunks."""
    digest: str = ""
    """The checksum, as `SHA-256=…`."""
    timestamp_ns: int = 0
    """When it was stored, in nanoseconds since 1970."""
    description: str = ""
    """A free text."""
    headers: dict[str, list[str]] = field(default_factory=dict)
    """Headers given to `put`."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Metadata given to `put`."""
    deleted: bool = False
    """Whether it was deleted."""
    chunk_bytes: int = CHUNK_BYTES
    """Size of a chunk."""
    link_bucket: str = ""
    """For a link: the store it leads to."""
    link_name: str = ""
    """For a link: the object it leads to; empty for a whole store."""

    @property
    def is_link(self) -> bool:
        """Whether it is a link to another object or to a whole store."""
        return bool(self.link_bucket)

    @property
    def mtime(self) -> datetime | None:
        """When the object was stored; None if it is not."""
        return datetime.fromtimestamp(self.timestamp_ns / 1e9, UTC) if self.timestamp_ns else None

    @classmethod
    def read(cls, data: bytes, timestamp_ns: int) -> ObjectInfo:
        """From a stored document."""
        raw = msgspec.json.decode(data)
        options = raw.get("options") or {}
        link = options.get("link") or {}
        return cls(
            name=raw["name"],
            bucket=raw.get("bucket", ""),
            nuid=raw.get("nuid", ""),
            size=int(raw.get("size", 0)),
            chunks=int(raw.get("chunks", 0)),
            digest=raw.get("digest", ""),
            timestamp_ns=timestamp_ns,
            description=raw.get("description", ""),
            headers=dict(raw.get("headers") or {}),
            metadata=dict(raw.get("metadata") or {}),
            deleted=bool(raw.get("deleted", False)),
            chunk_bytes=int(options.get("max_chunk_size", CHUNK_BYTES)),
            link_bucket=link.get("bucket", ""),
            link_name=link.get("name", ""),
        )

    def document(self) -> bytes:
        """To be stored."""
        raw: dict[str, Any] = {"name": self.name}
        if self.description:
            raw["description"] = self.description
        if self.headers:
            raw["headers"] = self.headers
        if self.metadata:
            raw["metadata"] = self.metadata
        options: dict[str, Any] = {}
        if self.is_link:
            options["link"] = {"bucket": self.link_bucket, **({"name": self.link_name} if self.link_name else {})}
        else:
            options["max_chunk_size"] = self.chunk_bytes
        raw.update(options=options, bucket=self.bucket, nuid=self.nuid, size=self.size, chunks=self.chunks)
        raw["mtime"] = "0001-01-01T00:00:00Z"
        if self.digest:
            raw["digest"] = self.digest
        if self.deleted:
            raw["deleted"] = True
        return msgspec.json.encode(raw)


@dataclass(frozen=True, slots=True)
class ObjectResult:
    """The bytes of an object, and its info."""

    info: ObjectInfo
    """What is known of the object."""
    data: bytes
    """Its bytes; empty if they were written to a file."""


def store_config(bucket: str, settings: dict[str, Any]) -> StreamConfig:
    """The stream behind an object store."""
    ttl: Seconds = settings.pop("ttl", 0)
    base = StreamConfig(
        name=f"OBJ_{check_bucket(bucket)}",
        subjects=(f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"),
        discard=Discard.NEW,
        allow_rollup_hdrs=True,
        allow_direct=True,
        max_age=nanoseconds(ttl) if ttl else 0,
    )
    return stream_config(base, "", settings)


class ObjectStore:
    """One object store."""

    def __init__(self, jetstream: JetStream, bucket: str, stream: Stream) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self.bucket = bucket

    def _meta_subject(self, name: str) -> str:
        return f"$O.{self.bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    def put(
        self,
        name: str,
        data: bytes | bytearray | memoryview | str | Path | BinaryIO,
        *,
        description: str = "",
        headers: dict[str, list[str]] | None = None,
        metadata: dict[str, str] | None = None,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> ObjectInfo:
        """Store an object: bytes, text, the file at a Path, or an open file. It replaces an object of that name."""
        if not name:
            raise BadOptionError("an object needs a name")
        if chunk_bytes < 1:
            raise BadOptionError("chunk_bytes must be above zero")
        old = self._find(name)
        with self._jetstream._link.guard:
            nuid = self._jetstream._link.core.nuid.next()
        subject = f"$O.{self.bucket}.C.{nuid}"
        digest = hashlib.sha256()
        size = chunks = 0
        in_flight: deque[PublishFuture] = deque()
        source = blocking(_open, data)
        try:
            while chunk := blocking(source.read, chunk_bytes):
                future = self._jetstream.publish_async(subject, chunk)
                # Its failure is told here, not by the flush of whoever publishes beside us.
                future._seen = True
                in_flight.append(future)
                digest.update(chunk)
                size += len(chunk)
                chunks += 1
                while in_flight and in_flight[0].done:
                    in_flight.popleft().result()
            for future in in_flight:
                future.wait()
        except BaseException:
            self._take_back(subject, in_flight)
            raise
        finally:
            if source is not data:
                blocking(source.close)
        info = ObjectInfo(
            name, self.bucket, nuid, size, chunks, _DIGEST + base64.urlsafe_b64encode(digest.digest()).decode(),
            description=description, headers=headers or {}, metadata=metadata or {}, chunk_bytes=chunk_bytes,
        )  # fmt: skip
        self._write(info)
        if old is not None and old.nuid and not old.deleted:
            self._stream.purge(subject=f"$O.{self.bucket}.C.{old.nuid}")
        return self.info(name)

    def _take_back(self, subject: str, in_flight: Iterable[PublishFuture]) -> None:
        """Remove the chunks of a put that failed; that failure is the one to tell, not one of this."""
        for future in in_flight:
            # A chunk still on its way would be stored after the purge.
            with contextlib.suppress(JetsparkError):
                future.wait()
        with contextlib.suppress(JetsparkError):
            self._stream.purge(subject=subject)

    def _write(self, info: ObjectInfo) -> None:
        self._jetstream.publish(self._meta_subject(info.name), info.document(), headers={"Nats-Rollup": "sub"})

    def _find(self, name: str) -> ObjectInfo | None:
        try:
            with named_bucket(self.bucket):
                stored = self._stream.get_msg(last_by_subject=self._meta_subject(name))
        except MessageNotFoundError:
            return None
        return ObjectInfo.read(stored.data, stored.timestamp_ns)

    def info(self, name: str, *, show_deleted: bool = False) -> ObjectInfo:
        """The info of an object; ObjectNotFoundError if there is none, BucketNotFoundError if the store is gone."""
        found = self._find(name)
        if found is None or (found.deleted and not show_deleted):
            raise ObjectNotFoundError(name)
        return found

    def get(self, name: str, *, write_to: Path | BinaryIO | None = None) -> ObjectResult:
        """The bytes of an object, verified with its checksum; written to a file if `write_to` is given."""
        info = self.info(name)
        store = self
        for _ in range(LINK_DEPTH_MAX):
            if not info.is_link:
                break
            if not info.link_name:
                raise ObjectLinkError(f"{name} is a link to the store {info.link_bucket}, not to an object")
            if info.link_bucket != store.bucket:
                store = open_store(self._jetstream, info.link_bucket)
            info = store.info(info.link_name)
        if info.is_link:
            raise ObjectLinkError(f"{name} links too far")
        data = store._read(info, write_to)
        return ObjectResult(info, data)

    def _read(self, info: ObjectInfo, write_to: Path | BinaryIO | None) -> bytes:
        digest = hashlib.sha256()
        parts: list[bytes] = []
        size = 0
        target = blocking(write_to.open, "wb") if isinstance(write_to, Path) else write_to
        try:
            if info.chunks:
                consumer = self._stream.ordered_consumer(filter_subjects=[f"$O.{self.bucket}.C.{info.nuid}"])
                with consumer.consume(max_bytes=8 * 1024 * 1024) as messages:
                    for _ in range(info.chunks):
                        message = messages.next(self._jetstream._request_timeout_s)
                        if message is None:
                            raise ObjectDamagedError(f"{info.name}: a chunk is missing after {size} bytes")
                        digest.update(message.data)
                        size += len(message.data)
                        if target is None:
                            parts.append(message.data)
                        else:
                            blocking(target.write, message.data)
        finally:
            if target is not None and target is not write_to:
                blocking(target.close)
        wanted = info.digest.removeprefix(_DIGEST).rstrip("=")
        if size != info.size or base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=") != wanted:
            raise ObjectDamagedError(f"{info.name}: digest or size is not the one that was put")
        return b"".join(parts)

    def delete(self, name: str) -> None:
        """Delete an object; a marker stays."""
        info = self.info(name)
        self._write(replace(info, size=0, chunks=0, digest="", deleted=True))
        if info.nuid:
            self._stream.purge(subject=f"$O.{self.bucket}.C.{info.nuid}")

    def update_meta(
        self, name: str, *, rename: str = "", description: str | None = None, metadata: dict[str, str] | None = None
    ) -> ObjectInfo:
        """Change the name, description or metadata of an object."""
        info = self.info(name)
        changed = replace(
            info,
            name=rename or info.name,
            description=info.description if description is None else description,
            metadata=info.metadata if metadata is None else metadata,
        )
        if rename and rename != name:
            taken = self._find(rename)
            if taken is not None and not taken.deleted:
                raise BadOptionError(f"an object {rename!r} exists")
        self._write(changed)
        if rename and rename != name:
            self._stream.purge(subject=self._meta_subject(name))
        return self.info(changed.name)

    def add_link(self, name: str, target: ObjectInfo) -> ObjectInfo:
        """Create a link to an object of this or another store."""
        if target.deleted or target.is_link:
            raise ObjectLinkError("a link needs an object that exists and is no link itself")
        return self._link(name, target.bucket, target.name)

    def add_bucket_link(self, name: str, bucket: str) -> ObjectInfo:
        """Create a link to a whole other store."""
        return self._link(name, check_bucket(bucket), "")

    def _link(self, name: str, bucket: str, target: str) -> ObjectInfo:
        found = self._find(name)
        if found is not None and not found.deleted and not found.is_link:
            raise ObjectLinkError(f"an object {name!r} exists")
        with self._jetstream._link.guard:
            nuid = self._jetstream._link.core.nuid.next()
        self._write(ObjectInfo(name, self.bucket, nuid, link_bucket=bucket, link_name=target))
        return self.info(name)

    def list(self, *, show_deleted: bool = False) -> list[ObjectInfo]:
        """All objects."""
        with self.watch() as watcher:
            found = watcher.initial()
        return [info for info in found if show_deleted or not info.deleted]

    def watch(self) -> ObjectWatcher:
        """All objects, then every change: iterate over it. One None comes after the current objects."""
        consumer = self._stream.ordered_consumer(
            filter_subjects=[f"$O.{self.bucket}.M.>"], deliver_policy="last_per_subject"
        )
        with named_bucket(self.bucket):
            consumer.make()
        return ObjectWatcher(consumer)

    def seal(self) -> None:
        """Allow no more changes. This cannot be undone."""
        self._stream.update(sealed=True)

    def byte_count(self) -> int:
        """Bytes that the store uses on the server."""
        return (self._stream.info()).state.bytes


class ObjectWatcher:
    """A running watch. Use it as a context manager, or stop it."""

    def __init__(self, consumer: OrderedConsumer) -> None:
        self._marks_now = consumer.cached_info.num_pending == 0
        self._initial_done = False
        self._messages: Consuming = consumer.consume_made()

    def __iter__(self) -> ObjectWatcher:
        return self

    def __next__(self) -> ObjectInfo | None:
        if self._marks_now:
            self._marks_now = False
            self._initial_done = True
            return None
        message = self._messages.__next__()
        metadata = message.metadata
        if not self._initial_done and metadata.pending_count == 0:
            self._marks_now = True
        return ObjectInfo.read(message.data, metadata.timestamp_ns)

    def initial(self) -> list[ObjectInfo]:
        """All current objects."""
        found: list[ObjectInfo] = []
        while not self._initial_done:
            info = self.__next__()
            if info is not None:
                found.append(info)
        return found

    def stop(self) -> None:
        """Stop watching."""
        self._messages.stop()

    def __enter__(self) -> ObjectWatcher:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._messages._link.is_closed:
            self.stop()


class _Bytes:
    """Bytes read like a file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def read(self, size: int) -> bytes:
        start = self._position
        self._position += size
        return self._data[start : start + size]

    def close(self) -> None:
        return None


def _open(data: bytes | bytearray | memoryview | str | Path | BinaryIO) -> Any:
    if isinstance(data, Path):
        return data.open("rb")
    if isinstance(data, str):
        return _Bytes(data.encode())
    return _Bytes(bytes(data)) if isinstance(data, bytes | bytearray | memoryview) else data


def open_store(jetstream: JetStream, bucket: str) -> ObjectStore:
    """A store that exists."""
    with named_bucket(bucket):
        return ObjectStore(jetstream, bucket, jetstream.stream(f"OBJ_{check_bucket(bucket)}"))
