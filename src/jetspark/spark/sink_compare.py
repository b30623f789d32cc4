"""May the rest of a task's rows be sent, and is a batch what is on record? Decided by ids, never by counts alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from jetspark.spark.dead_letter import SUFFIX
from jetspark.spark.sink_connection import SinkError
from jetspark.spark.sink_ids import Place, content_key
from jetspark.spark.sink_ledger import Committed

ADAPTIVE_STATELESS = "spark.sql.adaptive.streaming.stateless.enabled"
OTHER_ROWS = (
    "The plan gives other rows, or the same ones in another order or partition, each time it runs, so writing the rest "
    "would store some twice. Give the rows a column msg_id that says which row it is, or make the plan repeatable (no "
    "adaptive coalescing, no random or time-dependent values); nothing was written by this attempt"
)


def check_same_rows(place: Place, made: Collection[bytes], stored: Collection[bytes]) -> None:
    """What is stored of this task must be among its rows. Fewer is a task that was cut short."""
    known = set(made)
    left = [one for one in stored if one.startswith(place.prefix) and one.removesuffix(SUFFIX) not in known]
    if left:
        raise SinkError(
            f"{place}: {len(left)} rows stored by an earlier attempt are not among the {len(known)} rows of "
            f"this one (id {left[0].decode()} for one). {OTHER_ROWS}"
        )


def check_same_partition(
    place: Place, made: Sequence[bytes], stored: Collection[bytes], *, keeps_partitions: bool
) -> None:
    """None of these rows may be stored as a row of another partition. Rows that are equal prove nothing."""
    ours, batch = place.prefix, place.batch_prefix
    here = Counter(content_key(one) for one in made)
    elsewhere = Counter(content_key(one) for one in stored if one.startswith(batch) and not one.startswith(ours))
    is_begun = any(one.startswith(ours) for one in stored)
    moved = [
        one for one in made if one not in stored and here[content_key(one)] == 1 and elsewhere[content_key(one)] == 1
    ]
    # Spark keeps partitions for as long as the plan is the same. It is not when all of a task's rows, of which it has
    # stored none itself, are somewhere else.
    if keeps_partitions and (is_begun or len(moved) < max(2, len(here))):
        return
    if moved:
        raise SinkError(
            f"{place}: {len(moved)} rows are stored as rows of other partitions (id {moved[0].decode()} for one), by "
            f"an earlier run. Either these are other rows that are equal to them, or Spark has put them into another "
            f"partition this time. {OTHER_ROWS}. If the plan has no shuffle, set {ADAPTIVE_STATELESS}=false and run it "
            "again"
        )


def check_partitions(place: Place, partition_count: int, stored: Collection[bytes]) -> None:
    """A batch has no rows of partitions that it was not cut into this time: rows of an earlier run that equal others.

    Only the driver knows how many partitions there are, and only at the end.
    """
    left = [one for one in stored if int(one.removeprefix(place.batch_prefix).partition(b":")[0]) >= partition_count]
    if left:
        raise SinkError(
            f"batch {place.batch} of {place.write} has {partition_count} partitions, and {len(left)} rows were stored "
            f"by an earlier run as rows of other partitions (id {left[0].decode()} for one), so some rows are stored "
            f"twice. Spark has cut the batch anew: give the rows a column msg_id, or set {ADAPTIVE_STATELESS}=false"
        )


def check_commit(write: str, stream: str, found: Committed, ours: Committed) -> None:
    """What is on record after a commit must be the batch that was to be committed."""
    if found.batch > ours.batch:
        raise SinkError(
            f"batch {ours.batch} is done, and batch {found.batch} of this query is already committed in {stream}: "
            "another driver runs with the same checkpoint, or a copy of it. End one of them"
        )
    if found.rows not in (None, ours.rows) or found.digest not in (None, ours.digest):
        other = f"{ours.rows}" if found.rows != ours.rows else "the same number of other rows"
        raise SinkError(
            f"{write} (batch {ours.batch}) was already committed in {stream} with {found.rows} rows, and this "
            f"time it has {other}: nothing was written. Other rows need another writeId (or writeVersion), or "
            "another checkpoint"
        )
