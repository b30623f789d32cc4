"""From options and offsets to partitions: what both readers ask the server for before they plan.

The arithmetic is in `planner`; which streams can be read at all, and what their state means for an offset, is here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jetspark.api.stream_config import Retention
from jetspark.client.errors import BadOptionError
from jetspark.protocol.subjects import collides
from jetspark.spark import data_loss, planner
from jetspark.spark.facts import Facts, facts_of, sequence_at
from jetspark.spark.reading import RangePartition
from jetspark.spark.source_options import DIRECT, EARLIEST, LATEST

if TYPE_CHECKING:
    from jetspark.spark.options import Options

log = logging.getLogger("jetspark.spark")


def check_readable(options: Options, facts: Facts, is_streaming: bool) -> None:
    """Refuse a stream whose retention this way of reading does not go with."""
    is_work_queue = facts.retention == Retention.WORKQUEUE
    if is_work_queue and options["readMode"] != DIRECT:
        how = (
            "set options workQueue and durable to ack what Spark has committed, or readMode to direct to look without"
            " taking anything"
            if is_streaming
            else "set option readMode to direct to look without taking anything; a batch cannot ack what it read"
        )
        raise BadOptionError(f"stream {facts.name} is a work queue, which gives each message to one consumer: {how}")
    if is_work_queue and options["durable"] and not options["workQueue"]:
        raise BadOptionError(
            f"option durable: stream {facts.name} is a work queue, which forgets what a durable acks; set option"
            " workQueue if that is wanted, or take out durable to look without taking anything"
        )
    if options["workQueue"] and not is_work_queue:
        raise BadOptionError(f"option workQueue: stream {facts.name} is no work queue, but keeps by {facts.retention}")
    if options["readMode"] == DIRECT and not facts.allow_direct:
        needs = "set its allow_direct, as in `jetspark stream edit --allow-direct`"
        raise BadOptionError(
            f"stream {facts.name} does not allow direct gets, which this way of reading needs: {needs}"
        )
    if facts.retention == Retention.INTEREST and is_streaming and not options["durable"]:
        log.warning(
            "stream %s keeps messages only while a consumer wants them: without option durable they may go unread",
            facts.name,
        )


def check_subjects(options: Options, facts: Iterable[Facts]) -> None:
    """Tell of subjects that no stream takes. Such messages may be there from before, so it is no error."""
    taken = [subject.encode() for one in facts for subject in one.subjects]
    for wanted in options["subjects"]:
        if not any(collides(wanted.encode(), one) for one in taken):
            log.warning("option subjects: %s takes nothing of %s", ", ".join(options["stream"]), wanted)


def starting_sequence(options: Options, facts: Facts, default: str) -> int:
    """The last sequence before a new query's first."""
    time_ns = options["startingTimestamp"]
    if time_ns is not None:
        found = sequence_at(options, facts, time_ns)
        if found is not None:
            return found - 1
        if options["startingOffsetsByTimestampStrategy"] == LATEST:
            return facts.last
        raise BadOptionError(
            f"option startingTimestamp: stream {facts.name} has no message that young;"
            " set option startingOffsetsByTimestampStrategy to latest to begin with the next one"
        )
    wanted = starting_position(options, facts.name, default)
    if wanted == EARLIEST:
        return facts.first - 1
    if wanted == LATEST:
        return facts.last
    if wanted > facts.last + 1:
        raise BadOptionError(
            f"option startingOffsets: stream {facts.name} ends at sequence {facts.last}, before {wanted}"
        )
    return max(0, int(wanted) - 1)


def ending_sequence(options: Options, facts: Facts) -> int:
    """The last sequence of a batch."""
    time_ns = options["endingTimestamp"]
    if time_ns is not None:
        found = sequence_at(options, facts, time_ns)
        return facts.last if found is None else found - 1
    wanted = _position(options["endingOffsets"] or LATEST, facts.name)
    if wanted == LATEST:
        return facts.last
    if wanted > facts.last:
        raise BadOptionError(
            f"option endingOffsets: stream {facts.name} ends at sequence {facts.last}, before {wanted}"
        )
    return int(wanted)


def starting_position(options: Options, name: str, default: str) -> Any:
    """What option startingOffsets says of a stream: earliest, latest or a sequence."""
    if options["startingTimestamp"] is not None:
        return None
    return _position(options["startingOffsets"] or default, name)


def _position(offsets: Any, name: str) -> Any:
    return offsets[name] if isinstance(offsets, dict) else offsets


def check_head(options: Options, facts: Facts, first: int, last: int) -> None:
    """Count what was removed at the beginning of a range before anybody read it."""
    if first > last or facts.first <= first:
        return
    if facts.replaces_only and facts.messages:
        # Replacing leaves the newest of each subject; what is gone stands further on, as a newer one.
        log.info("messages of %s before sequence %d were replaced by newer ones", facts.name, facts.first)
        return
    if options["subjects"] and facts.retention != Retention.LIMITS:
        # Others may have consumed what this query does not look at.
        return
    data_loss.gone_before(options, facts.name, first, facts.first, last)


def partitions_of(facts: Facts, cuts: Iterable[planner.Run]) -> list[RangePartition]:
    """A partition for each part, without what is known to be deleted. Empty ones stay, so that numbers stay."""
    found = []
    for first, last in cuts:
        left = planner.narrowed(first, last, facts.first, facts.deleted)
        found.append(RangePartition(facts.name, facts.created, left.first, left.last, left.count, facts.removes_inside))
    return found


def parts_least(options: Options) -> int:
    """How many parts each stream must be cut into for minPartitions in all."""
    return -(-int(options["minPartitions"]) // len(options["stream"]))


def all_facts(options: Options, *, with_deleted: bool = False) -> dict[str, Facts]:
    """Every stream of the query, by name; BadOptionError when one is not there."""
    return {name: facts_of(options, name, with_deleted=with_deleted) for name in sorted(options["stream"])}
