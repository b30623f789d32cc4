"""One record as bytes: both ways of writing and reading it agree, and nothing else passes for one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from jetspark.store.record import (
    NOTE_BIT,
    encode_record,
    encode_record_plain,
    encode_state,
    encode_tombstone,
    read_record,
    read_record_plain,
    record_hash,
    record_length,
    record_size,
    record_subject,
    valid_length,
)
from jetspark.store.view import RecordView

SEED = 0x8123_4567_89AB_CDEF
SUBJECTS = st.binary(min_size=1, max_size=300)
HEADERS = st.binary(max_size=100)
PAYLOADS = st.binary(max_size=300)
SEQS = st.integers(1, (1 << 62) - 1)
TIMES = st.integers(-(1 << 63), (1 << 63) - 1)


def fields(view: RecordView) -> tuple[int, ...]:
    return (
        view.seq,
        view.ts_ns,
        view.header_start,
        view.header_size,
        view.body_start,
        view.body_size,
        view.end,
    )


@given(seq=SEQS, ts_ns=TIMES, subject=SUBJECTS, header=HEADERS, payload=PAYLOADS, before=st.binary(max_size=20))
def test_what_is_written_is_read_and_both_bodies_agree(
    seq: int, ts_ns: int, subject: bytes, header: bytes, payload: bytes, before: bytes
) -> None:
    record = encode_record(BytesWriter(), seq, ts_ns, subject, len(header), header + payload)
    assert record == encode_record_plain(seq, ts_ns, subject, len(header), header + payload)
    data = before + record + record_hash(record, SEED) + b"after"

    view, plain = RecordView(), RecordView()
    read_record(data, len(before), view)
    read_record_plain(data, len(before), plain)

    assert fields(view) == fields(plain)
    assert (view.seq, view.ts_ns) == (seq, ts_ns)
    assert view.header() == header
    assert view.payload() == payload
    assert view.message() == header + payload
    assert record_subject(data, len(before)) == subject
    size = record_size(len(subject), len(header), len(header) + len(payload))
    assert record_length(data, len(before)) == size == valid_length(data, len(before), len(data), SEED)


@given(payload=PAYLOADS, position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_flipped_bit_passes(payload: bytes, position: int, bit: int) -> None:
    record = encode_record(BytesWriter(), 7, 1_000, b"a.b", 0, payload)
    data = bytearray(record + record_hash(record, SEED))
    data[position % len(data)] ^= 1 << bit

    assert valid_length(bytes(data), 0, len(data), SEED) == 0


@given(size=st.integers(0, 200))
def test_zeros_are_never_a_record(size: int) -> None:
    assert valid_length(bytes(size), 0, size, SEED) == 0


def test_a_record_of_another_block_is_not_a_record_of_this() -> None:
    record = encode_record(BytesWriter(), 7, 1_000, b"a", 0, b"payload")
    data = record + record_hash(record, SEED)

    assert valid_length(data, 0, len(data), SEED) == len(data)
    assert valid_length(data, 0, len(data), SEED + 1) == 0


def test_a_subject_may_be_longer_than_a_signed_short() -> None:
    subject = b"s" * 40_000
    record = encode_record(BytesWriter(), 1, 1, subject, 0, b"x")
    data = record + record_hash(record, SEED)
    view = RecordView()

    read_record(data, 0, view)

    assert record_subject(data, 0) == subject
    assert view.payload() == b"x"


def test_notes_are_told_from_messages_by_their_sequence() -> None:
    writer = BytesWriter()
    tombstone = encode_tombstone(writer, 9, True, 5, b"a", 77)
    state = encode_state(writer, 3, 12, 5)

    assert int.from_bytes(tombstone[4:12], "little") == 9 | NOTE_BIT | (1 << 63)
    assert int.from_bytes(tombstone[-4:], "little") == 77
    assert int.from_bytes(state[4:12], "little") == 12 | NOTE_BIT
    assert int.from_bytes(state[-8:], "little") == 3
