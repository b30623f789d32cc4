"""The ack floor stays below everything that is owed, in whatever order messages were delivered and acknowledged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jetspark.broker.consumer import floor
from jetspark.store.consumer_state import ConsumerState, PendingEntry


@given(st.permutations(range(1, 41)), st.permutations(range(40)))
def test_the_floor_stays_below_what_is_owed(delivered: list[int], acknowledged: list[int]) -> None:
    """Stream sequences in the order of their delivery; then the places in it in the order of their acks."""
    state = ConsumerState()
    for consumer_seq, stream_seq in enumerate(delivered, 1):
        state.pending[stream_seq] = PendingEntry(consumer_seq, 0, 1)
    state.delivered_consumer_seq, state.delivered_stream_seq = len(delivered), max(delivered)

    for place in acknowledged:
        floor.advance(state, state.pending.pop(delivered[place]))

        assert state.floor_stream_seq < min(state.pending, default=41)

    assert (state.floor_consumer_seq, state.floor_stream_seq) == (40, 40)


@given(st.permutations(range(40)))
def test_the_floor_is_right_below_the_first_message_owed_when_they_were_delivered_in_order(
    acknowledged: list[int],
) -> None:
    state = ConsumerState()
    for seq in range(1, 41):
        state.pending[seq] = PendingEntry(seq, 0, 1)
    state.delivered_consumer_seq = state.delivered_stream_seq = 40

    for place in acknowledged:
        floor.advance(state, state.pending.pop(place + 1))

        assert state.floor_stream_seq == min(state.pending, default=41) - 1
