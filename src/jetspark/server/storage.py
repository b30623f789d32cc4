"""The store directory: where it is, how large it may grow, and that only one server uses it.

Decided here: nats-server's layout (`<store_dir>/jetstream`), its default sizes (three quarters of what the machine
has) and the lock. Not known here: the files inside.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from jetspark.server.options import JetStreamOptions, OptionsError

_SHARE: Final = 0.75
# Where the system does not say how much memory it has: so little that any machine has it.
_UNKNOWN_MACHINE_BYTES: Final = 1 << 30


def default_memory_bytes() -> int:
    try:
        machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        machine_bytes = _UNKNOWN_MACHINE_BYTES
    return int(machine_bytes * _SHARE)


def default_storage_bytes(directory: Path) -> int:
    return int(shutil.disk_usage(directory).free * _SHARE)


def format_bytes(size: int) -> str:
    """A size as the log shows it: 17.65 GB, in steps of 1024."""
    value = float(size)
    for unit in ("B", "KB", "MB", "GB", "TB", "PB"):
        if abs(value) < 1024 or unit == "PB":
            return f"{value:.2f} {unit}" if unit != "B" else f"{size} B"
        value /= 1024
    raise AssertionError("the last unit ends the loop")


class StoreDirectory:
    """The directory of one running server, locked while it runs."""

    def __init__(self, options: JetStreamOptions) -> None:
        # A place of our own: the default must never open what another kind of server keeps in its default.
        self.is_temporary = not options.store_dir
        root = Path(options.store_dir) if options.store_dir else Path(tempfile.gettempdir()) / "jetspark"
        self.root = root
        self.path = root / "jetstream"
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o750)
        except OSError as error:
            raise OptionsError(f"Can't start JetStream: could not create storage directory - {error}") from None
        self.max_memory_bytes = options.max_memory_bytes
        self.max_storage_bytes = options.max_storage_bytes
        if self.max_memory_bytes < 0:
            self.max_memory_bytes = default_memory_bytes()
        if self.max_storage_bytes < 0:
            self.max_storage_bytes = default_storage_bytes(self.path)
        self._lock = -1

    def lock(self) -> None:
        """Two servers writing one store would destroy it: the second one is refused."""
        path = self.root / "jetspark.lock"
        try:
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise OptionsError(f"Can't start JetStream: could not lock storage directory - {error}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.unlock()
            raise OptionsError(f"Can't start JetStream: {self.path} is in use by another server") from None

    def unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
