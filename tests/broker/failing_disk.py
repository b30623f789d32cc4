"""A disk of which some files cannot be read."""

from __future__ import annotations

import errno

from jetspark.testing.memory_disk import MemoryDisk


class FailingDisk(MemoryDisk):
    """Files and folders that cannot be read, by how their paths end."""

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: set[str] = set()

    def _verify(self, path: str) -> None:
        if any(path.endswith(end) for end in self.unreadable):
            raise OSError(errno.EIO, "Input/output error", path)

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`."""
        self._verify(path)
        return super().read(path, offset, size)

    def read_all(self, path: str) -> bytes:
        """The whole file."""
        self._verify(path)
        return super().read_all(path)

    def list_dir(self, path: str) -> list[str]:
        """Names directly below, sorted."""
        self._verify(path)
        return super().list_dir(path)
