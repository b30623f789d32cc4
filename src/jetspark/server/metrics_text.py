"""The text of /metrics in pieces, so that whoever makes it can do other work between two of them.

Decided here: the lines of what there may be thousands of (streams, consumers), written with the labels of each made
once; and how few lines a piece has. Everything else is written by the library. Not known here: which metrics there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

# Lines of a piece: some tenths of a millisecond. The library takes ten times as long for a line.
_LINES: Final = 250
_FAMILIES: Final = 12

# What has not happened yet has no number.
Number = float | None


class _Some(Collector):
    """Gives what it was given."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def library_pieces(metrics: Iterator[Metric]) -> Iterator[bytes]:
    """Metrics of a few lines each, in the library's words."""
    while some := list(islice(metrics, _FAMILIES)):
        yield generate_latest(_Some(some))


def label_writer(names: Sequence[str]) -> Callable[[Sequence[str]], str]:
    """Writes values of these labels, in the order of their names as the library has it."""
    order = sorted(range(len(names)), key=names.__getitem__)
    form = ",".join(f'{names[position].replace("%", "%%")}="%s"' for position in order)
    chosen = itemgetter(*order)

    def write(values: Sequence[str]) -> str:
        text = "".join(values)
        if '"' in text or "\\" in text or "\n" in text:
            values = [_escaped(value) for value in values]
        return str(form % chosen(values))

    return write


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def head(name: str, words: str, kind: str) -> bytes:
    return f"# HELP {name} {words}\n# TYPE {name} {kind}\n".encode()


def line_pieces(name: str, rows: Iterable[tuple[str, Number]]) -> Iterator[bytes]:
    """One line for each label text and number."""
    start = name + "{"
    lines = (f"{start}{labels}}} {number}\n" for labels, number in rows if number is not None)
    while piece := "".join(islice(lines, _LINES)):
        # A name may hold what is no text; it is shown as the rest of the server shows it.
        yield piece.encode("utf-8", "replace")


def table_pieces(
    figures: Sequence[tuple[str, str]], rows: Sequence[tuple[str, Sequence[Number]]], kind: str = "gauge"
) -> Iterator[bytes]:
    """Figures of many things: of each thing its label text and its numbers, in the figures' order."""
    for position, (name, words) in enumerate(figures):
        yield head(name, words, kind)
        yield from line_pieces(name, ((labels, numbers[position]) for labels, numbers in rows))
