"""Keeping freed memory while there is work, and giving it back when there is none.

Decided here: how much freed memory the C library keeps for the next burst, so that blocks and outboxes of some
megabytes are not taken from the system and returned to it a hundred times a second, each time page by page. A server
that is quiet can do without, so it returns all of it then. Where the C library knows no such wishes, nothing happens.
"""

from __future__ import annotations

import ctypes
from typing import Final

# glibc's numbers of the settings, and what they are set to: returned only above this much, and larger pieces apart.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 64 * 1024 * 1024
_APART_BYTES: Final = 32 * 1024 * 1024
# No library of the process to ask (Windows), or one that does not know the wish (macOS, musl).
_NOT_GLIBC: Final = (OSError, AttributeError, TypeError)


def keep_free_memory() -> None:
    """Ask glibc to keep what is freed, up to a limit. For a process that is a server and nothing else."""
    try:
        set_option = ctypes.CDLL(None).mallopt
    except _NOT_GLIBC:
        return
    set_option(_TRIM_THRESHOLD, _KEPT_BYTES)
    set_option(_MMAP_THRESHOLD, _APART_BYTES)


def return_free_memory() -> None:
    """Ask glibc to hand free memory back to the system; a few milliseconds at most."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except _NOT_GLIBC:
        return
    trim(0)
