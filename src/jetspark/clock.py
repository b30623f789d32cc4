"""Where time comes from.

The core takes time as an argument; an edge reads it from a Clock and hands it in. Only this module asks the machine.
Nanoseconds everywhere, because that is the unit of JetStream's documents and records.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now_ns(self) -> int:
        """Wall clock, nanoseconds since 1970 in UTC; may step back when the machine's clock is set."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds that never go back; only differences mean anything."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ns(self) -> int:
        """Wall clock, nanoseconds since 1970 in UTC."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Nanoseconds that never go back."""
        return time.monotonic_ns()
