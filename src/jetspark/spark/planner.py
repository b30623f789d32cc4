"""Planning as pure functions: how much a trigger takes, and which task reads which sequences.

Nothing here asks a server or looks at a clock; the same arguments give the same plan. Ranges include both their ends.
Streams are cut by sequence, never by what happens to be in them, so that a batch that is repeated later is cut the same
way although messages were deleted meanwhile; then each range is narrowed to what is not known to be deleted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Run = tuple[int, int]


@dataclass(frozen=True)
class Range:
    """What one task reads: sequences `first` to `last`, of which `count` are there (None: not known)."""

    first: int
    last: int
    count: int | None

    @property
    def is_empty(self) -> bool:
        """Nothing is left to read."""
        return self.last < self.first


def runs_of(sequences: Iterable[int]) -> tuple[Run, ...]:
    """Sorted sequences as runs of neighbours, each with its first and last."""
    runs: list[Run] = []
    first = last = -2
    for sequence in sequences:
        if sequence == last + 1:
            last = sequence
            continue
        if first >= 0:
            runs.append((first, last))
        first = last = sequence
    if first >= 0:
        runs.append((first, last))
    return tuple(runs)


def part_count(span: int, messages: int, parts_least: int, part_rows_max: int) -> int:
    """How many parts a stream's share of a batch is cut into. `messages` is how many the stream holds in all."""
    rows = max(1, min(span, messages))
    return max(1, min(span, max(parts_least, -(-rows // part_rows_max))))


def cut(first: int, last: int, parts: int) -> list[Run]:
    """The range in so many parts, in order, sizes differing by one at most."""
    span = last - first + 1
    if span <= 0:
        return []
    parts = max(1, min(parts, span))
    edges = [first + span * index // parts for index in range(parts + 1)]
    return [(edges[index], edges[index + 1] - 1) for index in range(parts)]


def cut_evenly(first: int, last: int, parts: int, deleted: Sequence[Run]) -> list[Run]:
    """Like `cut`, with about as many messages in each part; for batches, which nobody repeats."""
    live = (last - first + 1) - deleted_within(first, last, deleted)
    if live <= 0 or not deleted:
        return cut(first, last, parts)
    parts = max(1, min(parts, live))
    edges = [first]
    edges += [live_at(first, live * index // parts, deleted) for index in range(1, parts)]
    edges.append(last + 1)
    return [(edges[index], edges[index + 1] - 1) for index in range(parts)]


def live_at(first: int, index: int, deleted: Sequence[Run]) -> int:
    """The sequence of the message number `index` (from 0) at or after `first`."""
    at = first
    for run_first, run_last in deleted[_place(deleted, first) :]:
        room = max(0, run_first - at)
        if index < room:
            break
        index -= room
        at = max(at, run_last + 1)
    return at + index


def deleted_within(first: int, last: int, deleted: Sequence[Run]) -> int:
    """How many of the range's sequences are deleted."""
    count = 0
    for run_first, run_last in deleted[_place(deleted, first) :]:
        if run_first > last:
            break
        count += min(last, run_last) - max(first, run_first) + 1
    return count


def narrowed(first: int, last: int, stream_first: int, deleted: Sequence[Run] | None) -> Range:
    """What is left of a range without what lies before the stream's first message and what is deleted at its ends."""
    first = max(first, stream_first)
    if deleted is None:
        return Range(first, last, None)
    for run_first, run_last in deleted[_place(deleted, first) :]:
        if run_first > first:
            break
        first = max(first, run_last + 1)
    for run_first, run_last in reversed(deleted[: bisect_left(deleted, (last + 1, 0))]):
        if run_last < last:
            break
        last = min(last, run_first - 1)
    if last < first:
        return Range(first, first - 1, 0)
    return Range(first, last, last - first + 1 - deleted_within(first, last, deleted))


def _place(deleted: Sequence[Run], sequence: int) -> int:
    """The first run that could reach `sequence` or lies after it."""
    place = bisect_left(deleted, (sequence, 0))
    return place - 1 if place and deleted[place - 1][1] >= sequence else place


def share_out(backlog: Mapping[str, int], most: int) -> dict[str, int]:
    """Divide at most `most` sequences among streams, in proportion to what waits in each."""
    total = sum(backlog.values())
    if total <= most:
        return dict(backlog)
    shares = {name: waiting * most // total for name, waiting in backlog.items()}
    left = most - sum(shares.values())
    # What rounding left over goes to those it took most from; ties in the order of names.
    for name in sorted(backlog, key=lambda one: (-(backlog[one] * most % total), one)):
        if left <= 0:
            break
        if shares[name] < backlog[name]:
            shares[name] += 1
            left -= 1
    return shares


def within_bytes(backlog: Mapping[str, int], sequence_bytes: Mapping[str, float], bytes_most: int) -> dict[str, int]:
    """As many sequences as make about so many bytes, given each stream's bytes a sequence; at least one in all."""
    total_bytes = sum(waiting * sequence_bytes[name] for name, waiting in backlog.items())
    if total_bytes <= bytes_most:
        return dict(backlog)
    rows = int(sum(backlog.values()) * bytes_most / total_bytes)
    return share_out(backlog, max(1, rows))
