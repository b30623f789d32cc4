"""A disk that is a dict: every operation takes effect at once and nothing is ever lost.

For tests of what is decided above the disk. What a real disk may do to unsynced writes is `sim_disk`'s business.
"""

from __future__ import annotations

import random

from jetspark.store import disk
from jetspark.store.disk import Disk, DiskOp


class MemoryDisk(Disk):
    """Files by path. Directories exist by the files below them."""

    def __init__(self, seed: int = 1) -> None:
        self.files: dict[str, bytearray] = {}
        self._chance = random.Random(seed)

    def perform(self, op: DiskOp) -> None:
        """Do it."""
        kind, path = op.kind, op.path
        if kind == disk.APPEND:
            self.files.setdefault(path, bytearray()).extend(op.data)
        elif kind in (disk.WRITE_FILE, disk.WRITE_CACHE):
            self.files[path] = bytearray(op.data)
        elif kind == disk.WRITE_COMPRESSED:
            self.files[path] = bytearray(disk.compress_block(op.data, op.size))
        elif kind == disk.OVERWRITE:
            self.files[path][op.size : op.size + len(op.data)] = op.data
        elif kind == disk.TRUNCATE:
            if path in self.files:
                del self.files[path][op.size :]
        elif kind not in (disk.SYNC, disk.MKDIRS, disk.SYNC_DIR):
            self._change_names(op)

    def _change_names(self, op: DiskOp) -> None:
        if op.kind == disk.REMOVE:
            self.files.pop(op.path, None)
        elif op.kind == disk.REMOVE_TREE:
            for name in [name for name in self.files if name.startswith(op.path + "/")]:
                del self.files[name]
        elif op.kind == disk.RENAME:
            self.files[op.target] = self.files.pop(op.path)
        else:
            raise ValueError(f"unknown disk operation {op!r}")

    def _file(self, path: str) -> bytearray:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`."""
        return bytes(self._file(path)[offset : offset + size])

    def read_all(self, path: str) -> bytes:
        """The whole file."""
        return bytes(self._file(path))

    def list_dir(self, path: str) -> list[str]:
        """Names directly below, sorted."""
        prefix = path + "/"
        return sorted({name[len(prefix) :].partition("/")[0] for name in self.files if name.startswith(prefix)})

    def size(self, path: str) -> int:
        """Bytes in the file, -1 when there is none."""
        return len(self.files[path]) if path in self.files else -1

    def exists(self, path: str) -> bool:
        """Is there such a file, or a file below it?"""
        return path in self.files or any(name.startswith(path + "/") for name in self.files)

    def random_bytes(self, count: int) -> bytes:
        """Chance that repeats with the seed."""
        return self._chance.randbytes(count)
