"""How far behind a query is, as the document its source reports with every batch.

Spark shows it as `latestOffset` of the source and does nothing with it, so unlike an offset it may hold what changes:
messages waiting, and for how many seconds the oldest of them has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jetspark.clock import SystemClock
from jetspark.errors import JetsparkError
from jetspark.spark.facts import Facts, message_time_ns

if TYPE_CHECKING:
    from jetspark.spark.offsets import Offset, Position
    from jetspark.spark.options import Options

MESSAGES = "behindMessages"
SECONDS = "behindSeconds"


class LagReport:
    """The reports of one query. While a query waits, the message that waits longest is asked for once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        # Of each stream: where the query is, and (sequence, time) of the message after that.
        self._oldest: dict[str, tuple[Position, tuple[int, int]]] = {}

    def document(self, planned: Offset | None, facts: Mapping[str, Facts]) -> dict[str, Any] | None:
        """The streams' ends, and what will still wait after the batch that was just planned."""
        if planned is None or not facts:
            return None
        streams: dict[str, Any] = {}
        for name in sorted(facts):
            position = planned.positions.get(name)
            behind = max(0, facts[name].last - position.seq) if position is not None else 0
            streams[name] = {
                "created": facts[name].created,
                "seq": facts[name].last,
                MESSAGES: behind,
                SECONDS: self._waiting_s(facts[name], position) if position is not None and behind else 0.0,
            }
        return {"v": 1, "streams": streams}

    def _waiting_s(self, facts: Facts, position: Position) -> float:
        """How long the first message after a position has been there."""
        known, found = self._oldest.get(facts.name, (None, (0, 0)))
        if known != position or found[0] < facts.first:
            try:
                asked = message_time_ns(self._options, facts.name, position.seq + 1)
            except JetsparkError:
                # A report is not worth a query.
                return 0.0
            if asked is None:
                return 0.0
            found = asked
            self._oldest[facts.name] = (position, found)
        return round(max(0, SystemClock().now_ns() - found[1]) / 1e9, 3)
