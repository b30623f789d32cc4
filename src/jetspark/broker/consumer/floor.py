"""The ack floor: the highest position below which everything is acknowledged.

Moves only when the acknowledged message was the first one outstanding; with nothing outstanding it is the last
delivered position. Sequences of the consumer count first deliveries, so the next outstanding message tells both.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from jetspark.store.consumer_state import ConsumerState, PendingEntry

# With this few outstanding, looking at all of them beats walking the sequences.
FEW: Final = 16


def advance(state: ConsumerState, entry: PendingEntry) -> bool:
    """`entry` (already taken out) was acknowledged; True when the floor moved."""
    pending = state.pending
    if not pending:
        state.floor_consumer_seq = state.delivered_consumer_seq
        state.floor_stream_seq = state.delivered_stream_seq
        return True
    if entry.consumer_seq != state.floor_consumer_seq + 1:
        return False
    first = first_pending(state)
    found = pending.get(first)
    if found is None:
        return False
    state.floor_consumer_seq = found.consumer_seq - 1
    state.floor_stream_seq = first - 1
    return True


def first_pending(state: ConsumerState) -> i64:
    """The lowest outstanding stream sequence; none is at or below the floor.

    It may be below the message just acknowledged: with another filter, older messages are delivered later.
    """
    pending = state.pending
    if len(pending) <= FEW:
        return min(pending)
    # Each sequence is walked over about once in the life of a consumer, because the floor rises. A gap much wider than
    # what is outstanding (a sparse filter) is cheaper to settle by looking at what is outstanding.
    seq: i64 = state.floor_stream_seq + 1
    steps: i64 = len(pending) * 4
    while steps > 0:
        if seq in pending:
            return seq
        seq += 1
        steps -= 1
    return min(pending)
