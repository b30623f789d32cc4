"""Small charts in text: a line of blocks, or columns over several lines.

Decided here: how a number becomes a height, and what is drawn where block characters cannot be. Not known here: what
the numbers are of.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

BLOCKS: Final = "▁▂▃▄▅▆▇█"
PLAIN_BLOCKS: Final = "_.:-=+*#"


def can_draw() -> bool:
    """The terminal or pipe takes block characters."""
    try:
        BLOCKS.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def drawn_with() -> str:
    """The characters that stdout takes, from low to high."""
    return BLOCKS if can_draw() else PLAIN_BLOCKS


def sparkline(values: Sequence[float], *, blocks: str = "") -> str:
    """One character a value, its height from zero to the largest."""
    blocks = blocks or drawn_with()
    top = max(values, default=0.0)
    if top <= 0:
        return blocks[0] * len(values)
    return "".join(blocks[min(len(blocks) - 1, int(value / top * len(blocks)))] for value in values)


def columns(values: Sequence[float], line_count: int, *, blocks: str = "") -> list[str]:
    """One column a value over several lines, the first line on top; what is more than nothing is seen."""
    blocks = blocks or drawn_with()
    top = max(values, default=0.0)
    steps = line_count * len(blocks)
    heights = [max(1, round(value / top * steps)) if value > 0 else 0 for value in values]
    return [
        "".join(_piece(height - line * len(blocks), blocks) for height in heights)
        for line in reversed(range(line_count))
    ]


def _piece(height: int, blocks: str) -> str:
    """What a column shows in a line it reaches into so far."""
    return " " if height <= 0 else blocks[min(height, len(blocks)) - 1]
