"""How a table fits a terminal: which columns stay, how wide each is, and when it is no table any more.

Decided here, in this order: a table as wide as it likes; without the columns that say nothing; with words below each
other where a cell has several; without lines between the columns; with long names broken. Other words never are. Not
known here: how a table is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.cells import cell_len

# Longer words of a table (subjects, ids) may be broken where the terminal is narrow.
WORD_WIDTH_MAX: Final = 20
# What stands between two columns: a line with a space on each side, or two spaces.
LINED: Final = 3
SPACED: Final = 2


@dataclass(frozen=True)
class Fit:
    """A table that fits."""

    columns: list[str]
    rows: list[list[str]]
    widths: list[int]
    is_lined: bool


def fit(columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> Fit | None:
    """The table as it fits a terminal of this width; None when it does not."""
    names, cells = list(columns), [[str(cell) for cell in row] for row in rows]
    if cells and not _has_room(_widest(names, cells), width, LINED):
        used = [index for index in range(len(names)) if any(row[index] for row in cells)]
        names = [names[index] for index in used]
        cells = [[row[index] for index in used] for row in cells]
    wanted, words = _widest(names, cells), _longest_words(names, cells)
    broken = [min(one, WORD_WIDTH_MAX) for one in words]
    for least in (words, broken):
        for gap in (LINED, SPACED):
            if _has_room(least, width, gap):
                return Fit(names, cells, _spread(least, wanted, _room(width, len(names), gap)), gap == LINED)
    return None


def _room(width: int, count: int, gap: int) -> int:
    """What is left for the cells: lines stand on both ends too, spaces only between."""
    return width - gap * count - (1 if gap == LINED else -gap)


def _has_room(widths: list[int], width: int, gap: int) -> bool:
    return sum(widths) <= _room(width, len(widths), gap)


def _widest(names: list[str], cells: list[list[str]]) -> list[int]:
    columns = zip(names, *cells, strict=True)
    return [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in columns]


def _longest_words(names: list[str], cells: list[list[str]]) -> list[int]:
    columns = zip(names, *cells, strict=True)
    return [max((cell_len(word) for cell in column for word in cell.split()), default=0) for column in columns]


def _spread(least: list[int], wanted: list[int], room: int) -> list[int]:
    """Each column at least as wide as it must be; what is left goes where a cell needs the most lines."""
    widths = list(least)
    for _ in range(room - sum(least)):
        lacking = [index for index in range(len(widths)) if widths[index] < wanted[index]]
        if not lacking:
            break
        # A column of no width has nothing to show, and wants nothing.
        widths[max(lacking, key=lambda index: wanted[index] / widths[index])] += 1
    return widths
