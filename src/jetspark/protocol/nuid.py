"""Names that do not repeat: 22 letters and digits, a random prefix and a counter.

Randomness comes in as a callable, so that a simulated run gives the same names every time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PREFIX_SIZE: Final = 12
COUNTER_SIZE: Final = 10
COUNTER_MAX: Final = 62**COUNTER_SIZE


def base62(random: bytes) -> str:
    """One letter a byte. Slightly uneven (256 is not a multiple of 62), which names can bear."""
    return "".join([ALPHABET[byte % 62] for byte in random])


class Nuid:
    """A source of names, each different from all before it."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._prefix: str = ""
        self._counter: int = 0
        self._step: int = 1
        self._restart()

    def _restart(self) -> None:
        self._prefix = base62(self._random_bytes(PREFIX_SIZE))
        self._counter = int.from_bytes(self._random_bytes(8), "big") % COUNTER_MAX
        self._step = 33 + self._random_bytes(1)[0]

    def next(self) -> str:
        self._counter += self._step
        if self._counter >= COUNTER_MAX:
            self._restart()
        digits: list[str] = []
        left = self._counter
        for _ in range(COUNTER_SIZE):
            digits.append(ALPHABET[left % 62])
            left //= 62
        digits.reverse()
        return self._prefix + "".join(digits)

    def short(self, size: int) -> str:
        """A short random word, as used for consumer names and flow control subjects."""
        return base62(self._random_bytes(size))
