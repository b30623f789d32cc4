"""A disk in memory that forgets what was not synced, tears writes, fills up, fails and rots, as asked.

What a write changed is volatile until its file is synced, and a name that was created, moved or removed is volatile
until its directory is. `crash` throws the dice for everything volatile: of each write nothing, a torn prefix or all of
it survives, independently of the others; of the changes to a directory, the first few. All chance comes from the
`random.Random` handed in, so a run can be repeated.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from random import Random

from jetspark.store import disk as ops
from jetspark.store.disk import Disk, DiskOp, compress_block


class SimFile:
    """The content of one file: as programs see it, and as the medium has it."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = b""
        # What was written since the last sync: where, and which bytes.
        self.writes: list[tuple[int, bytes]] = []

    def write(self, offset: int, data: bytes) -> None:
        """Change the content; not durable yet."""
        end = offset + len(data)
        if end > len(self.content):
            self.content.extend(bytes(end - len(self.content)))
        self.content[offset:end] = data
        self.writes.append((offset, data))

    def sync(self) -> None:
        """Make the content durable."""
        self.durable = bytes(self.content)
        self.writes = []

    def crash(self, rng: Random) -> None:
        """Keep what is durable, and of each later write whatever chance lets through."""
        content = bytearray(self.durable)
        for offset, data in self.writes:
            kept = data[: rng.choice((0, len(data), rng.randrange(len(data) + 1)))]
            if kept:
                # A write that survives behind one that did not leaves a hole of zeros.
                content.extend(bytes(max(0, offset + len(kept) - len(content))))
                content[offset : offset + len(kept)] = kept
        self.content = content
        self.sync()


class NameChange:
    """One change to a directory: a name that now leads to a file, or to none. With `/` at its end: all below it."""

    def __init__(self, path: str, file: SimFile | None) -> None:
        self.path = path
        self.file = file


class SimDisk(Disk):
    """The disk of the store, simulated.

    `capacity_bytes` limits what fits (0: no limit). `fail_when` is asked before every operation and may answer with an
    error number, which then fails it; a sync that fails loses what it should have made durable.
    """

    def __init__(self, rng: Random | None = None) -> None:
        self.rng = rng if rng is not None else Random(0)
        self.files: dict[str, SimFile] = {}
        self.folders: set[str] = {"", "."}
        self.capacity_bytes = 0
        self.fail_when: Callable[[DiskOp], int] | None = None
        self.performed_count = 0
        self._durable_files: dict[str, SimFile] = {}
        self._name_changes: dict[str, list[NameChange]] = {}

    # What the store calls.

    def perform(self, op: DiskOp) -> None:
        """Perform one operation, or raise OSError as a real disk would."""
        self.performed_count += 1
        self._maybe_fail(op)
        for step in self._steps(op):
            step()

    def perform_partly(self, op: DiskOp) -> None:
        """Perform some of the steps an operation consists of: the power fails in the middle of it."""
        steps = list(self._steps(op))
        for step in steps[: self.rng.randrange(len(steps) + 1)]:
            step()

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`."""
        return bytes(self._file(path).content[offset : offset + size])

    def read_all(self, path: str) -> bytes:
        """The whole file."""
        return bytes(self._file(path).content)

    def list_dir(self, path: str) -> list[str]:
        """Names in the directory, sorted."""
        prefix = path + "/"
        names = {name[len(prefix) :].partition("/")[0] for name in self.files if name.startswith(prefix)}
        names |= {name[len(prefix) :].partition("/")[0] for name in self.folders if name.startswith(prefix)}
        return sorted(names)

    def size(self, path: str) -> int:
        """Bytes in the file, -1 when it does not exist."""
        file = self.files.get(path)
        return -1 if file is None else len(file.content)

    def exists(self, path: str) -> bool:
        """Is there a file or directory of this name?"""
        return path in self.files or path in self.folders

    def fresh_salt(self) -> bytes:
        """Chance from the run's own dice, so that compressed sizes repeat too."""
        return self.rng.randbytes(8)

    # What tests do to it.

    def crash(self) -> None:
        """The power fails and comes back: only what is durable is certain to be there."""
        names = dict(self._durable_files)
        for changes in self._name_changes.values():
            for change in changes[: self.rng.randrange(len(changes) + 1)]:
                _apply(names, change)
        self.files = names
        self._durable_files = dict(names)
        self._name_changes = {}
        # In the order of names, not of a set: the same dice must fall the same way when a run is repeated.
        for file in dict.fromkeys(names.values()):
            file.crash(self.rng)

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Rot: change one bit of a file at rest."""
        file = self._file(path)
        file.content[position] ^= 1 << bit
        file.durable = bytes(file.content)

    def used_bytes(self) -> int:
        """Bytes in all files."""
        return sum(len(file.content) for file in self.files.values())

    def fail_next(self, kind: int, error_number: int = errno.EIO) -> None:
        """Fail the next operation of one kind, once."""

        def decide(op: DiskOp) -> int:
            if op.kind != kind:
                return 0
            self.fail_when = None
            return error_number

        self.fail_when = decide

    # How it works.

    def _maybe_fail(self, op: DiskOp) -> None:
        error_number = self.fail_when(op) if self.fail_when is not None else 0
        if error_number == 0:
            return
        file = self.files.get(op.path)
        if op.kind == ops.SYNC and file is not None:
            # As Linux does it: the pages count as clean afterwards, whether or not they reached the medium.
            kept = [write for write in file.writes if self.rng.random() < 0.5]
            file.writes = kept
        raise OSError(error_number, "simulated failure", op.path)

    def _steps(self, op: DiskOp) -> Iterator[Callable[[], None]]:
        """The smallest parts of an operation, in order."""
        kind = op.kind
        path = op.path
        if kind == ops.APPEND:
            yield lambda: self._append(path, op.data)
        elif kind == ops.SYNC:
            yield lambda: self._opened(path).sync()
        elif kind == ops.WRITE_FILE:
            yield from self._replacing(path, op.data, durable=True)
        elif kind == ops.WRITE_CACHE:
            yield from self._replacing(path, op.data, durable=False)
        elif kind == ops.WRITE_COMPRESSED:
            yield from self._replacing(path, compress_block(op.data, op.size), durable=True)
        elif kind == ops.OVERWRITE:
            yield lambda: self._file(path).write(op.size, op.data)
            yield lambda: self._file(path).sync()
        else:
            yield from self._name_steps(op)

    def _name_steps(self, op: DiskOp) -> Iterator[Callable[[], None]]:
        kind = op.kind
        path = op.path
        if kind == ops.TRUNCATE:
            yield lambda: self._truncate(path, op.size)
        elif kind == ops.REMOVE:
            yield lambda: self._remove(path)
        elif kind == ops.REMOVE_TREE:
            yield lambda: self._remove_tree(path)
            yield lambda: self._sync_dir(_parent(path))
        elif kind == ops.RENAME:
            yield lambda: self._rename(path, op.target)
            yield lambda: self._sync_dir(_parent(op.target))
        elif kind == ops.MKDIRS:
            yield lambda: self._make_dirs(path)
        elif kind == ops.SYNC_DIR:
            yield lambda: self._sync_dir(path)
        else:
            raise ValueError(f"unknown disk operation {op!r}")

    def _replacing(self, path: str, data: bytes, *, durable: bool) -> Iterator[Callable[[], None]]:
        temporary = path + ops.TEMPORARY_SUFFIX
        yield lambda: self._create_empty(temporary)
        yield lambda: self._append(temporary, data)
        if durable:
            yield lambda: self._file(temporary).sync()
        yield lambda: self._rename(temporary, path)
        if durable:
            yield lambda: self._sync_dir(_parent(path))

    def _file(self, path: str) -> SimFile:
        file = self.files.get(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return file

    def _opened(self, path: str) -> SimFile:
        if path not in self.files:
            self._create_empty(path)
        return self.files[path]

    def _create_empty(self, path: str) -> None:
        if _parent(path) not in self.folders:
            raise FileNotFoundError(errno.ENOENT, "no such directory", _parent(path))
        self._change_name(path, SimFile())

    def _append(self, path: str, data: bytes) -> None:
        file = self._opened(path)
        room = len(data)
        if self.capacity_bytes:
            room = max(0, min(room, self.capacity_bytes - self.used_bytes()))
        if room:
            file.write(len(file.content), data[:room])
        if room < len(data):
            raise OSError(errno.ENOSPC, "no space left", path)

    def _truncate(self, path: str, size: int) -> None:
        file = self.files.get(path)
        if file is not None:
            del file.content[size:]
            file.sync()

    def _remove(self, path: str) -> None:
        if path in self.files:
            self._change_name(path, None)

    def _remove_tree(self, path: str) -> None:
        """All of it as one change of the directory above; what happened below does not matter any more."""
        for folder in [name for name in self._name_changes if name == path or name.startswith(path + "/")]:
            del self._name_changes[folder]
        change = NameChange(path + "/", None)
        _apply(self.files, change)
        self._name_changes.setdefault(_parent(path), []).append(change)
        self.folders = {name for name in self.folders if name != path and not name.startswith(path + "/")}

    def _rename(self, path: str, target: str) -> None:
        file = self._file(path)
        self._change_name(target, file)
        self._change_name(path, None)

    def _make_dirs(self, path: str) -> None:
        while path not in self.folders:
            self.folders.add(path)
            path = _parent(path)
            self._sync_dir(path)

    def _change_name(self, path: str, file: SimFile | None) -> None:
        change = NameChange(path, file)
        _apply(self.files, change)
        self._name_changes.setdefault(_parent(path), []).append(change)

    def _sync_dir(self, path: str) -> None:
        for change in self._name_changes.pop(path, []):
            _apply(self._durable_files, change)


def _apply(names: dict[str, SimFile], change: NameChange) -> None:
    if change.path.endswith("/"):
        for name in [name for name in names if name.startswith(change.path)]:
            del names[name]
    elif change.file is None:
        names.pop(change.path, None)
    else:
        names[change.path] = change.file


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
