"""The disk: what the store asks of it, and the real one.

The store describes its writes as operations in a commit; whoever runs the loop performs them in order, on another
thread. Reads happen on the loop's own thread, so nothing here is shared between the two but the files themselves.
This is the only module of the room that touches `os`, and the only place that knows how a system makes bytes durable.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import zlib
from collections.abc import Callable, Container
from typing import Final

from mypy_extensions import i64, mypyc_attr

from jetspark.store.numbers import get_i64

# Append `data` to `path`, creating it.
APPEND: Final = 1
# Make the content of `path` durable.
SYNC: Final = 2
# Replace `path` by `data` as one step: temporary file, sync, rename, directory sync.
WRITE_FILE: Final = 3
# The same without the syncs, for files that are checked when read and can be rebuilt.
WRITE_CACHE: Final = 4
# WRITE_FILE of the compressed form of `data`, so that compressing costs the loop nothing.
WRITE_COMPRESSED: Final = 5
# Remove the file, if it is there.
REMOVE: Final = 6
# Remove the directory and everything below it, if it is there, durably and as one step.
REMOVE_TREE: Final = 7
# Rename `path` to `target` and make that durable.
RENAME: Final = 8
# Cut `path` to `size` bytes, if it is longer, and make that durable.
TRUNCATE: Final = 9
# Create the directory and those above it, durably.
MKDIRS: Final = 10
# Make names created in or removed from the directory durable.
SYNC_DIR: Final = 11
# Write `data` over what is there, at `size` bytes from the start, and make that durable.
OVERWRITE: Final = 12

TEMPORARY_SUFFIX: Final = ".new"
# The name of a directory that is being removed.
DOOMED_SUFFIX: Final = ".gone"
COMPRESSED_MAGIC: Final = b"JSZ1"
# Magic, raw size, last eight raw bytes: enough to tell whether an index belongs to it.
COMPRESSED_HEAD_SIZE: Final = 20
# Each chunk stands alone, so damage costs the records of one chunk, not of the block.
COMPRESSED_CHUNK_SIZE: Final = 65536
OPEN_FILES_MAX: Final = 128

# macOS's request to the drive to write out its cache; the number is the one of its <fcntl.h>.
FULL_SYNC_NAME: Final = "F_FULLFSYNC"
FULL_SYNC_COMMAND: Final = 51


def full_sync(descriptor: int) -> None:
    """Durable on macOS, where `fsync` leaves the bytes in the drive's cache.

    Network and foreign file systems do not know the request; there `fsync` is all there is. Any other error is the
    disk's own, and asking again in another way could only hide it.
    """
    try:
        fcntl.fcntl(descriptor, FULL_SYNC_COMMAND)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
            raise
        os.fsync(descriptor)


def choose_sync(fcntl_names: Container[str], os_names: Container[str], is_data_only: bool) -> Callable[[int], None]:
    """How a system that has these names makes a file durable: its bytes and its size, or its times as well."""
    if FULL_SYNC_NAME in fcntl_names:
        return full_sync
    if is_data_only and "fdatasync" in os_names:
        return os.fdatasync
    return os.fsync


SYNC_DATA: Final = choose_sync(dir(fcntl), dir(os), True)
SYNC_ALL: Final = choose_sync(dir(fcntl), dir(os), False)


class DiskOp:
    """One thing to do to the disk."""

    def __init__(self, kind: int, path: str, data: bytes = b"", target: str = "", size: i64 = 0) -> None:
        self.kind: int = kind
        self.path: str = path
        self.data: bytes = data
        self.target: str = target
        self.size: i64 = size

    def __repr__(self) -> str:
        return f"DiskOp({self.kind}, {self.path!r}, {len(self.data)} bytes, size={self.size})"


@mypyc_attr(allow_interpreted_subclasses=True)
class Commit:
    """Operations to perform in order; all of them succeeded or the commit failed."""

    def __init__(self) -> None:
        self.ops: list[DiskOp] = []
        # How many were performed: all of them, or those before the one that failed.
        self.performed_count: int = 0

    def add(self, op: DiskOp) -> None:
        self.ops.append(op)


def compress_block(data: bytes, head_size: i64) -> bytes:
    """A block as it is stored compressed: magic, raw size, last hash, the block's own head as it is, then chunks."""
    parts = [COMPRESSED_MAGIC, len(data).to_bytes(8, "little"), data[-8:], data[:head_size]]
    at: i64 = head_size
    size: i64 = len(data)
    while at < size:
        chunk = data[at : at + COMPRESSED_CHUNK_SIZE]
        packed = zlib.compress(chunk, 1)
        parts.append(len(packed).to_bytes(4, "little"))
        parts.append(packed)
        at += COMPRESSED_CHUNK_SIZE
    return b"".join(parts)


def decompress_block(stored: bytes, head_size: i64) -> bytes:
    """The block again. A damaged chunk comes back as zeros, which no record's hash accepts.

    How long chunks are is known without the raw size, which no hash protects; it only says how long the last one was,
    should that be damaged.
    """
    at: i64 = COMPRESSED_HEAD_SIZE + head_size
    parts = [stored[COMPRESSED_HEAD_SIZE:at]]
    left: i64 = get_i64(stored, 4) - head_size
    end: i64 = len(stored)
    while at + 4 <= end:
        packed_size: i64 = int.from_bytes(stored[at : at + 4], "little")
        try:
            chunk = zlib.decompress(stored[at + 4 : at + 4 + packed_size])
        except zlib.error:
            chunk = b""
        at += 4 + packed_size
        if len(chunk) != COMPRESSED_CHUNK_SIZE and (at != end or not chunk):
            if left <= 0:
                break
            chunk = bytes(min(left, COMPRESSED_CHUNK_SIZE))
        parts.append(chunk)
        left -= COMPRESSED_CHUNK_SIZE
    return b"".join(parts)


@mypyc_attr(allow_interpreted_subclasses=True)
class Disk:
    """What the store needs. Paths are text with `/`; a failure is an OSError that names its path."""

    def perform(self, op: DiskOp) -> None:
        raise NotImplementedError

    def read(self, path: str, offset: i64, size: i64) -> bytes:
        """Up to `size` bytes from `offset`; fewer when the file ends."""
        raise NotImplementedError

    def read_all(self, path: str) -> bytes:
        raise NotImplementedError

    def list_dir(self, path: str) -> list[str]:
        """Names in the directory, sorted; none when it does not exist."""
        raise NotImplementedError

    def size(self, path: str) -> i64:
        """Bytes in the file, -1 when it does not exist."""
        raise NotImplementedError

    def exists(self, path: str) -> bool:
        raise NotImplementedError

    def fresh_salt(self) -> bytes:
        """Eight bytes of chance, to tell one incarnation of a file from another."""
        return fresh_salt()


class FileDisk(Disk):
    """Files of the operating system.

    `perform` belongs to one thread and keeps the files it appends to open; the reading methods belong to another and
    keep nothing.
    """

    def __init__(self) -> None:
        self._open_files: dict[str, int] = {}

    def perform(self, op: DiskOp) -> None:
        kind = op.kind
        if kind == APPEND:
            self._append(op.path, op.data)
        elif kind == SYNC:
            self._sync(op.path)
        elif kind == WRITE_FILE:
            self._replace(op.path, op.data, True)
        elif kind == WRITE_CACHE:
            self._replace(op.path, op.data, False)
        elif kind == WRITE_COMPRESSED:
            self._replace(op.path, compress_block(op.data, op.size), True)
        elif kind == OVERWRITE:
            self._overwrite(op.path, op.size, op.data)
        elif kind == TRUNCATE:
            self._truncate(op.path, op.size)
        else:
            self._change_names(op)

    def _change_names(self, op: DiskOp) -> None:
        kind = op.kind
        if kind == REMOVE:
            self._forget(op.path)
            # A directory in its place is none of the server's.
            if os.path.lexists(op.path) and not os.path.isdir(op.path):
                os.unlink(op.path)
        elif kind == REMOVE_TREE:
            self._forget_below(op.path)
            remove_tree(op.path)
        elif kind == RENAME:
            self._forget(op.path)
            self._forget(op.target)
            os.rename(op.path, op.target)
            sync_dir(os.path.dirname(op.target))
        elif kind == MKDIRS:
            make_dirs(op.path)
        elif kind == SYNC_DIR:
            sync_dir(op.path)
        else:
            raise ValueError(f"unknown disk operation {op!r}")

    def close(self) -> None:
        """Close the files kept open for appending."""
        for descriptor in self._open_files.values():
            os.close(descriptor)
        self._open_files.clear()

    def _descriptor(self, path: str) -> int:
        descriptor = self._open_files.pop(path, -1)
        if descriptor < 0:
            if len(self._open_files) >= OPEN_FILES_MAX:
                oldest = next(iter(self._open_files))
                os.close(self._open_files.pop(oldest))
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        # Taken out and put back: the dict's order is the order of use.
        self._open_files[path] = descriptor
        return descriptor

    def _forget(self, path: str) -> None:
        descriptor = self._open_files.pop(path, -1)
        if descriptor >= 0:
            os.close(descriptor)

    def _forget_below(self, path: str) -> None:
        prefix = path + "/"
        for name in [name for name in self._open_files if name.startswith(prefix)]:
            self._forget(name)

    def _append(self, path: str, data: bytes) -> None:
        write_whole(self._descriptor(path), data, path)

    def _sync(self, path: str) -> None:
        try:
            SYNC_DATA(self._descriptor(path))
        except OSError as error:
            # After a failed sync the kernel may call the lost pages clean; a fresh descriptor reports what comes next.
            self._forget(path)
            raise OSError(error.errno, error.strerror, path) from error

    def _replace(self, path: str, data: bytes, durable: bool) -> None:
        self._forget(path)
        temporary = path + TEMPORARY_SUFFIX
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_whole(descriptor, data, path)
            if durable:
                SYNC_ALL(descriptor)
        except OSError:
            # What there was room for must not take the room of others.
            os.unlink(temporary)
            raise
        finally:
            os.close(descriptor)
        try:
            os.rename(temporary, path)
        except IsADirectoryError:
            os.unlink(temporary)
            if durable:
                raise
            # Somebody put a directory where a cache belongs: there is no cache then, which costs time and nothing else.
            return
        if durable:
            sync_dir(os.path.dirname(path))

    def _overwrite(self, path: str, offset: i64, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(descriptor, data[done:], offset + done)
            SYNC_DATA(descriptor)
        finally:
            os.close(descriptor)

    def _truncate(self, path: str, size: i64) -> None:
        self._forget(path)
        if not os.path.exists(path):
            return
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size > size:
                os.ftruncate(descriptor, size)
            SYNC_ALL(descriptor)
        finally:
            os.close(descriptor)

    def read(self, path: str, offset: i64, size: i64) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return read_whole(descriptor, offset, size)
        finally:
            os.close(descriptor)

    def read_all(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return read_whole(descriptor, 0, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)

    def list_dir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def size(self, path: str) -> i64:
        try:
            return os.stat(path).st_size
        except (FileNotFoundError, NotADirectoryError):
            return -1

    def exists(self, path: str) -> bool:
        return os.path.exists(path)


def fresh_salt() -> bytes:
    """Eight bytes of chance, to tell one incarnation of a file from another. Nothing is decided by their value."""
    return os.urandom(8)


def write_whole(descriptor: int, data: bytes, path: str) -> None:
    """Write all of it; the kernel may take less at a time."""
    try:
        done = os.write(descriptor, data)
        while done < len(data):
            done += os.write(descriptor, data[done:])
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def read_whole(descriptor: int, offset: i64, size: i64) -> bytes:
    """Read until `size` bytes or the end of the file; the kernel may give less at a time."""
    data = os.pread(descriptor, size, offset)
    if len(data) == size or not data:
        return data
    parts = [data]
    done: i64 = len(data)
    while done < size:
        data = os.pread(descriptor, size - done, offset + done)
        if not data:
            break
        parts.append(data)
        done += len(data)
    return b"".join(parts)


def sync_dir(path: str) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        SYNC_ALL(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(path: str) -> None:
    """First the whole goes under another name, durably: a crash finds all of it or, but for leftovers, none."""
    doomed = path + DOOMED_SUFFIX
    if os.path.isdir(doomed):
        shutil.rmtree(doomed)
    if os.path.isdir(path):
        os.rename(path, doomed)
        try:
            sync_dir(os.path.dirname(path))
        except OSError:
            # Or the next try would find nothing to remove, and take that for durable.
            with contextlib.suppress(OSError):
                os.rename(doomed, path)
            raise
        shutil.rmtree(doomed)


def make_dirs(path: str) -> None:
    """Create what is missing from the top down, each name durable in its parent."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent and parent != path:
        make_dirs(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    try:
        sync_dir(parent or ".")
    except OSError:
        # Or the next try would find the directory, and take its name for durable.
        with contextlib.suppress(OSError):
            os.rmdir(path)
        raise
