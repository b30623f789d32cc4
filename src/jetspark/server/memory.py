"""Giving memory back: what a burst of messages needed and nobody needs any more.

The C library keeps freed memory for the next burst. A server that is quiet can do without, so it is asked to return
it; where the C library knows no such wish, nothing happens.
"""

from __future__ import annotations

import ctypes


def return_free_memory() -> None:
    """Ask glibc to hand free memory back to the system; a few milliseconds at most."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)
