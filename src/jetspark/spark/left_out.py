"""Rows that windows, joins and deduplication left out for their time, counted from the progress that Spark reports.

Decided here: which numbers of the progress count, and the words for them. Spark counts rows that come after the
watermark where the state is, so a window of many late rows is one; what is too far ahead is counted before, row by row.
And how the process of a pipeline's run tells whoever started it. Who else is told, and when, is not decided here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

# The name of an observed metric begins with this; each needs a name of its own in a query.
AHEAD_METRIC: Final = "jetspark_ahead_"
AHEAD_ROWS: Final = "rows"
_MARK: Final = "jetspark-left-out "


@dataclass(frozen=True)
class LeftOut:
    """How many rows were left out, and why."""

    late: int = 0
    """At least so many came later than the watermark allows."""
    ahead: int = 0
    """So many had a time too far ahead of the server's."""

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(self.late + other.late, self.ahead + other.ahead)

    def __bool__(self) -> bool:
        return bool(self.late or self.ahead)

    def words(self) -> str:
        """What was left out, for a person."""
        parts = []
        if self.late:
            parts.append(f"at least {_rows(self.late)} later than the watermark allows (`late` or `within`)")
        if self.ahead:
            parts.append(f"{_rows(self.ahead)} with a time too far ahead of the server's (`ahead`)")
        return ", ".join(parts)


def left_out_of(progress: Mapping[str, Any]) -> LeftOut:
    """What one batch left out."""
    late = sum(int(one.get("numRowsDroppedByWatermark") or 0) for one in progress.get("stateOperators") or ())
    metrics = progress.get("observedMetrics") or {}
    return LeftOut(late, sum(int(row[AHEAD_ROWS]) for name, row in metrics.items() if name.startswith(AHEAD_METRIC)))


def line_of(flow: str, left_out: LeftOut) -> str:
    """What a flow left out, as a line of output."""
    return _MARK + json.dumps({"flow": flow, **asdict(left_out)})


def from_line(line: str) -> tuple[str, LeftOut] | None:
    """The flow and what it left out, if that is what the line says."""
    if not line.startswith(_MARK):
        return None
    try:
        document = json.loads(line.removeprefix(_MARK))
        return str(document["flow"]), LeftOut(int(document["late"]), int(document["ahead"]))
    except (ValueError, KeyError, TypeError):
        # What a definition prints may look like it.
        return None


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
