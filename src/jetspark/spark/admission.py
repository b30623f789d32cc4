"""Admission control: how far a trigger may go, given where the query is and what the streams hold.

Pure but for the clock that is handed in. Spark can carry one limit only, so it is given whichever option is set, and
what it hands back is used to tell one thing: whether limits count at all (they do not for `Trigger.Once`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows, ReadMinRows

from jetspark.spark import planner

if TYPE_CHECKING:
    from jetspark.spark.facts import Facts
    from jetspark.spark.options import Options


def default_limit(options: Options) -> ReadLimit:
    """What Spark is told; the rest is kept here."""
    if options["maxOffsetsPerTrigger"] is not None:
        return ReadMaxRows(options["maxOffsetsPerTrigger"])
    if options["maxBytesPerTrigger"] is not None:
        return ReadMaxBytes(options["maxBytesPerTrigger"])
    if options["minOffsetsPerTrigger"] is not None:
        return ReadMinRows(options["minOffsetsPerTrigger"])
    return ReadAllAvailable()


class Admission:
    """Decides how much of a backlog the next batch takes."""

    def __init__(self, options: Options, monotonic_s: Callable[[], float]) -> None:
        self._options = options
        self._monotonic_s = monotonic_s
        # None: no batch yet, and the first one does not wait, as with Kafka.
        self._last_batch_s: float | None = None

    def admitted(
        self, backlog: Mapping[str, int], facts: Mapping[str, Facts], limit: ReadLimit, may_wait: bool
    ) -> dict[str, int]:
        """How many sequences of each stream the next batch takes; nothing while it should wait for more."""
        if not any(backlog.values()):
            return dict.fromkeys(backlog, 0)
        taken = dict(backlog)
        if not isinstance(limit, ReadAllAvailable):
            if may_wait and self._waits(sum(backlog.values())):
                return dict.fromkeys(backlog, 0)
            bytes_most, rows_most = self._options["maxBytesPerTrigger"], self._options["maxOffsetsPerTrigger"]
            if bytes_most is not None:
                sizes = {name: facts[name].sequence_bytes for name in taken}
                taken = planner.within_bytes(taken, sizes, bytes_most)
            if rows_most is not None:
                taken = planner.share_out(taken, rows_most)
        self._last_batch_s = self._monotonic_s()
        return taken

    def _waits(self, waiting: int) -> bool:
        least = self._options["minOffsetsPerTrigger"]
        if least is None or waiting >= least or self._last_batch_s is None:
            return False
        return self._monotonic_s() - self._last_batch_s < float(self._options["maxTriggerDelay"])
