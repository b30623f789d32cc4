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
    from jetspark.spark.offsets import Offset
    from jetspark.spark.options import Options

MESSAGES = "behindMessages"
SECONDS = "behindSeconds"


def lag_report(options: Options, planned: Offset | None, facts: Mapping[str, Facts]) -> dict[str, Any] | None:
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
            SECONDS: _waiting_s(options, name, position.seq) if position is not None and behind else 0.0,
        }
    return {"v": 1, "streams": streams}


def _waiting_s(options: Options, name: str, sequence: int) -> float:
    """How long the first message after a sequence has been there."""
    try:
        found = message_time_ns(options, name, sequence + 1)
    except JetsparkError:
        # A report is not worth a query.
        return 0.0
    if found is None:
        return 0.0
    return round(max(0, SystemClock().now_ns() - found[1]) / 1e9, 3)
