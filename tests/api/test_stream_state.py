"""The state of a stream as a document."""

from jetspark.api.stream_state import LostStreamData, StreamState
from jetspark.api.timestamps import WireTime


def test_a_new_stream_shows_zeros_and_zero_times() -> None:
    assert StreamState().encode() == {
        "messages": 0,
        "bytes": 0,
        "first_seq": 0,
        "first_ts": "0001-01-01T00:00:00Z",
        "last_seq": 0,
        "last_ts": "0001-01-01T00:00:00Z",
        "consumer_count": 0,
    }


def test_a_full_state_survives_writing_and_reading() -> None:
    state = StreamState(
        messages=1,
        bytes=2,
        first_seq=3,
        first_ts=WireTime(4),
        last_seq=5,
        last_ts=WireTime(6),
        num_subjects=7,
        subjects={"a": 8},
        num_deleted=9,
        deleted=(10, 11),
        lost=LostStreamData(msgs=(12,), bytes=13),
        consumer_count=14,
    )

    assert StreamState.decode(state.encode()) == state
